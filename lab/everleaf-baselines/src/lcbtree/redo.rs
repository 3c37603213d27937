//! The log: what an operation changes is gathered in DRAM, written as records (P1), committed (P2),
//! and only then stored in place (P3).

use everleaf_index::{IndexError, Result};
use everleaf_pmem::{Counter, Media, PCell, PPtr, Region, Site, WORD, planted, site};
use everleaf_pool::{Pool, Worker};

use super::layout::{Commit, ELEMENT_WORDS, LINE_WORDS, LOG, LcbHead, Shape, State};
use super::node::{Element, Node};
use super::search::Nodes;
use everleaf_tree::redo::{Record, Target, records_in};

/// What a record has of a node that changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logging {
    /// All of it, as it will be.
    WholeNodes,
    /// The ranges that change.
    Ranges,
}

/// Words that change, in place.
#[derive(Clone, Copy)]
struct Edit {
    /// The node that has them; 0: the anchor.
    node: u64,
    target: Target,
    /// Where the new words are among those of the operation.
    first: usize,
}

/// The log and the operation under way.
pub(super) struct Redo {
    logging: Logging,
    /// Where the log is, and how many words a half has.
    offset: u64,
    half_words: usize,
    /// The last operation that was committed.
    committed: Commit,
    /// What it has changed in place: not yet flushed, and the log still has it.
    unflushed: Vec<Target>,
    /// Of the operation under way.
    edits: Vec<Edit>,
    words: Vec<u64>,
    /// Its records, as they go to the log.
    records: Vec<u64>,
}

/// Makes the log of a fresh pool. 2 flushes, and those of the pool.
pub(super) fn make_log<M: Media>(worker: &mut Worker<M>, shape: Shape) -> Result<u64> {
    let run = worker.alloc_run(LOG, shape.log_bytes(), |pool, run| {
        // G1: nothing is committed in either half. Crash: the run is not published, its memory is
        // free. The pool fences and publishes.
        for half in 0..2 {
            let offset = run.offset + (half * shape.half_words() * WORD) as u64;
            if let Some(cells) = pool.media().region().cells(offset, 1) {
                pool.media().store(cells[0].view(), Commit::NONE);
                pool.media().flush(site!("lcbtree.log.G1.empty"), &cells[0]);
            }
        }
        Ok(())
    })?;
    Ok(run.offset)
}

/// Flushes the lines of some words; the first cell begins a line.
fn flush_words<M: Media>(media: &M, site: Site, cells: &[PCell], first: usize, end: usize) {
    let mut word = first;
    while word < end {
        media.flush(site, &cells[word]);
        word = (word / LINE_WORDS + 1) * LINE_WORDS;
    }
}

impl Redo {
    /// Over the log at an offset, whose last operation is done again.
    ///
    /// # Errors
    /// [`IndexError::Corrupt`] if a record is none, or goes elsewhere than into `is_target`, or the
    /// halves are not of two operations in a row. Nothing is stored then.
    pub fn open<M: Media>(
        pool: &Pool<M>,
        shape: Shape,
        logging: Logging,
        offset: u64,
        is_target: impl Fn(Target) -> bool,
    ) -> Result<Self> {
        let mut redo = Self {
            logging,
            offset,
            half_words: shape.half_words(),
            committed: Commit::NONE,
            unflushed: Vec::new(),
            edits: Vec::new(),
            words: Vec::new(),
            records: Vec::new(),
        };
        let media = pool.media();
        let commit_of =
            |half| -> Result<Commit> { Ok(media.load(redo.half(media.region(), half)?[0].view())) };
        let (even, odd) = (commit_of(0)?, commit_of(1)?);
        if !Commit::are_in_a_row(even, odd) {
            let what = "the halves of the log are not of two operations in a row";
            return Err(IndexError::Corrupt { offset, what });
        }
        redo.committed = if odd.is_after(even) != planted(272) { odd } else { even };
        redo.replay(media, is_target)?;
        Ok(redo)
    }

    /// P3 of the last operation, once more. What it stores is flushed by the next operation.
    fn replay<M: Media>(&mut self, media: &M, is_target: impl Fn(Target) -> bool) -> Result<()> {
        let half = self.half(media.region(), self.committed.half())?;
        let Some(part) = half.get(1..=self.committed.words()) else {
            let what = "the log has more records than room";
            return Err(IndexError::Corrupt { offset: self.offset, what });
        };
        let found = records_in(media, self.offset, part, is_target)?;
        let most = if planted(273) { 1 } else { found.len() };
        for Record { target, places, words } in found.into_iter().take(most) {
            for (place, word) in places.iter().zip(words) {
                media.store(place, media.load(word));
            }
            self.unflushed.extend((!planted(274)).then_some(target));
        }
        Ok(())
    }

    /// The cells of a half.
    fn half<'r>(&self, region: &'r Region, half: usize) -> Result<&'r [PCell]> {
        let offset = self.offset + (half * self.half_words * WORD) as u64;
        let cells = region.cells(offset, self.half_words);
        cells.ok_or(IndexError::Corrupt { offset, what: "the log reaches beyond the pool" })
    }

    /// Whether there was an operation, be it in a session before.
    pub fn has_committed(&self) -> bool {
        self.committed != Commit::NONE
    }

    /// Where the log is.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes of the pool.
    pub fn pm_bytes(&self) -> u64 {
        (2 * self.half_words * WORD) as u64
    }

    /// Bytes of DRAM.
    pub fn dram_bytes(&self) -> u64 {
        let words = self.words.capacity() + self.records.capacity() + self.unflushed.capacity();
        (words * WORD + self.edits.capacity() * size_of::<Edit>()) as u64
    }

    // ---- what changes
    // ---------------------------------------------------------------------------------------------

    /// Forgets what an operation has gathered that was not committed.
    pub fn begin(&mut self) {
        self.edits.clear();
        self.words.clear();
    }

    /// Words from an offset on; those of one node follow each other.
    fn edit(&mut self, node: u64, offset: u64, words: impl IntoIterator<Item = u64>) {
        let first = self.words.len();
        self.words.extend(words);
        let target = Target::new(offset, self.words.len() - first);
        if target.words() > 0 {
            self.edits.push(Edit { node, target, first });
        }
    }

    /// The number of a node's elements, and those from a slot on.
    pub fn set_elements(
        &mut self,
        node: Node<'_>,
        count: usize,
        slot: usize,
        elements: impl IntoIterator<Item = Element>,
    ) {
        let state = State::new(node.level(), count);
        self.edit(node.offset(), node.offset(), [everleaf_pmem::Word::into_word(state)]);
        let elements = elements.into_iter().flatten();
        self.edit(node.offset(), node.element_offset(slot), elements);
    }

    /// The value of an element.
    pub fn set_value(&mut self, node: Node<'_>, slot: usize, value: u64) {
        let offset = node.element_offset(slot) + ((ELEMENT_WORDS - 1) * WORD) as u64;
        self.edit(node.offset(), offset, [value]);
    }

    /// The root.
    pub fn set_root<M: Media>(&mut self, nodes: Nodes<'_, M>, root: u64) -> Result<()> {
        let place = nodes.pool.pointer_to(&nodes.anchor()?.root).offset();
        self.edit(0, place, [everleaf_pmem::Word::into_word(PPtr::<LcbHead>::at(root))]);
        Ok(())
    }

    // ---- P1 to P3
    // ---------------------------------------------------------------------------------------------

    /// Does what was gathered, durably. Fresh nodes were flushed before (S1).
    ///
    /// Flushes: the lines of the records and of the commit word, and the lines that the operation
    /// before has changed; 2 fences.
    ///
    /// # Errors
    /// [`IndexError::Corrupt`] if the pool is damaged; nothing has changed then.
    pub fn commit<M: Media>(&mut self, nodes: Nodes<'_, M>) -> Result<()> {
        self.write_records(nodes)?;
        let (media, region) = (nodes.media(), nodes.media().region());
        let commit = self.committed.next(self.records.len());
        let half = self.half(region, commit.half())?;
        if self.records.len() >= half.len() {
            let what = "an operation changes more than the log has room for";
            return Err(IndexError::Corrupt { offset: self.offset, what });
        }
        let (beside, behind) = self.records.split_at(self.records.len().min(LINE_WORDS - 1));
        let store = |first: usize, words: &[u64]| {
            half[first..].iter().zip(words).for_each(|(cell, word)| media.store(cell, *word));
        };
        // P1: the records behind the first line, and what the operation before has changed in
        // place. Crash: that operation is the last one, and its half of the log is untouched.
        store(LINE_WORDS, behind);
        flush_words(
            media,
            site!("lcbtree.log.P1.records"),
            half,
            LINE_WORDS,
            LINE_WORDS + behind.len(),
        );
        for target in self.unflushed.drain(..).filter(|_| !planted(271)) {
            let line = target.offset() / (LINE_WORDS * WORD) as u64 * (LINE_WORDS * WORD) as u64;
            let before = ((target.offset() - line) / WORD as u64) as usize;
            let end = before + target.words();
            if let Some(cells) = region.cells(line, end) {
                flush_words(media, site!("lcbtree.log.P1.place"), cells, before, end);
            }
        }
        media.fence(site!("lcbtree.log.P1.fence"));
        // P2 COMMIT: the first records, then the commit word of their line. Crash: the half is
        // older than the other one, or the operation is done, and recovery does P3.
        planted!(275, media.store(half[0].view(), commit));
        store(1, beside);
        media.order(site!("lcbtree.log.P2.order"));
        media.store(half[0].view(), commit);
        media.flush(site!("lcbtree.log.P2.commit"), &half[0]);
        media.fence(site!("lcbtree.log.P2.fence"));
        self.committed = commit;
        // P3: in place, without a flush. Crash: recovery does it again, for the log has it until
        // the next P2, before which P1 flushes these lines.
        for Edit { target, first, .. } in self.edits.drain(..) {
            if let Some(places) = region.cells(target.offset(), target.words()) {
                let words = &self.words[first..];
                places.iter().zip(words).for_each(|(place, word)| media.store(place, *word));
            }
            self.unflushed.push(target);
        }
        Ok(())
    }

    /// Makes the records of what was gathered.
    fn write_records<M: Media>(&mut self, nodes: Nodes<'_, M>) -> Result<()> {
        self.records.clear();
        let mut logged = 0;
        for of_node in self.edits.chunk_by(|one, other| one.node == other.node) {
            let node = of_node[0].node;
            logged += u64::from(node != 0);
            if node == 0 || self.logging == Logging::Ranges {
                for Edit { target, first, .. } in of_node {
                    self.records.push(target.into_word());
                    self.records.extend(&self.words[*first..first + target.words()]);
                }
                continue;
            }
            let cells = nodes.node(node)?.cells();
            self.records.push(Target::new(node, cells.len()).into_word());
            let image = self.records.len();
            self.records.extend(cells.iter().map(|cell| nodes.media().load(cell)));
            for Edit { target, first, .. } in of_node {
                let at = image + ((target.offset() - node) / WORD as u64) as usize;
                let words = &self.words[*first..first + target.words()];
                self.records[at..at + words.len()].copy_from_slice(words);
            }
        }
        nodes.media().count(Counter::NodesLogged, logged);
        Ok(())
    }
}
