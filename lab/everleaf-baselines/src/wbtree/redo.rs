//! The log: what a change of the structure stores in place is written as records before (P1, P2),
//! and only then stored and flushed (P3). The next operation that changes something forgets it
//! (F1).
//!
//! Flushes: a line of the log for eight words, and the lines that change; 3 fences, or 2 where
//! nothing was flushed before the records and these are one line.

use everleaf_index::{IndexError, Result};
use everleaf_pmem::{LINE, Media, PCell, PPtr, Word, planted, site};

use super::layout::{LINE_WORDS, Slots, WbNode};
use super::node::Node;
use super::search::Nodes;
use everleaf_tree::key::TreeKey;
use everleaf_tree::redo::{Record, Target, records_in};

/// The change under way: where words go, and the words.
#[derive(Default)]
pub(super) struct Redo {
    edits: Vec<(Target, usize)>,
    words: Vec<u64>,
    /// Words of the records that the log has of a change, which is in place.
    logged: usize,
}

impl Redo {
    /// Forgets what was gathered and not committed.
    pub fn begin(&mut self) {
        self.edits.clear();
        self.words.clear();
    }

    /// Bytes of DRAM.
    pub fn dram_bytes(&self) -> u64 {
        (self.edits.capacity() * size_of::<(Target, usize)>() + self.words.capacity() * 8) as u64
    }

    /// Words from an offset on.
    pub fn set(&mut self, offset: u64, words: impl IntoIterator<Item = u64>) {
        let first = self.words.len();
        self.words.extend(words);
        self.edits.push((Target::new(offset, self.words.len() - first), first));
    }

    /// The root.
    pub fn set_root<K: TreeKey, M: Media>(
        &mut self,
        nodes: Nodes<'_, K, M>,
        root: u64,
    ) -> Result<()> {
        let place = nodes.pool.pointer_to(&nodes.anchor()?.root).offset();
        self.set(place, [PPtr::<WbNode>::at(root).into_word()]);
        Ok(())
    }

    /// The slot array of a node, whose places are others from a slot on, and the bitmap, if the
    /// node has one.
    pub fn set_slots(&mut self, node: Node<'_>, after: &Slots, slot: usize) {
        let count = after.count();
        let (last, _) = if slot < count { Slots::position(count - 1) } else { (0, 0) };
        self.set(node.offset(), (0..=last).map(|word| after.word(word)));
        if node.has_bitmap() {
            self.set(node.bitmap_offset(), [after.bitmap().into_word()]);
        }
    }

    /// F1: forgets the change that the log has, if it has one; words of its records. What comes
    /// next is stored without a log, and this one would undo it. 1 flush; the caller fences before
    /// its change counts as done. Crash: recovery does the change of the log again, and with that
    /// takes back what the caller has stored.
    #[inline(always)]
    pub fn forget<K: TreeKey, M: Media>(&mut self, nodes: Nodes<'_, K, M>) -> Result<usize> {
        let logged = std::mem::take(&mut self.logged);
        if logged == 0 || planted(363) {
            return Ok(0);
        }
        let commit = &nodes.anchor()?.log[0];
        nodes.media().store(commit, 0);
        nodes.media().flush(site!("wbtree.redo.F1.forget"), commit);
        Ok(logged)
    }

    /// Does what was gathered, durably. `prepared`: something that it leads to was flushed and not
    /// fenced.
    ///
    /// # Errors
    /// [`IndexError::Corrupt`] if the pool is damaged; nothing has changed then.
    pub fn commit<K: TreeKey, M: Media>(
        &mut self,
        nodes: Nodes<'_, K, M>,
        prepared: bool,
    ) -> Result<()> {
        let (media, log) = (nodes.media(), &nodes.anchor()?.log);
        let mut records = Vec::with_capacity(self.words.len() + self.edits.len());
        for (target, first) in &self.edits {
            records.push(target.into_word());
            records.extend(&self.words[*first..][..target.words()]);
        }
        if records.len() >= log.len() {
            let what = "a change takes more than the log has room for";
            let offset = nodes.pool.pointer_to(&log[0]).offset();
            return Err(IndexError::Corrupt { offset, what });
        }
        let (beside, behind) = records.split_at(records.len().min(LINE_WORDS - 1));
        let store = |first: usize, words: &[u64]| {
            log[first..].iter().zip(words).for_each(|(cell, word)| media.store(cell, *word));
        };
        let forgotten = self.forget(nodes)?;
        if forgotten >= LINE_WORDS && !behind.is_empty() {
            // Before there are other records in the further lines of those that are forgotten.
            media.fence(site!("wbtree.redo.F1.fence"));
        }
        // P1: the records, but for those in the line of the commit word. Crash: no record counts,
        // nothing leads to fresh nodes or to the new entry of the node above.
        store(LINE_WORDS, behind);
        for line in log[LINE_WORDS..][..behind.len()].chunks(LINE_WORDS) {
            media.flush(site!("wbtree.redo.P1.records"), &line[0]);
        }
        if prepared || forgotten > 0 || !behind.is_empty() {
            media.fence(site!("wbtree.redo.P1.fence"));
        }
        planted!(362, media.store(&log[0], records.len() as u64));
        // P2 COMMIT: the first records, then the commit word of their line. Crash before it is
        // durable: as P1. Crash after it: recovery does P3.
        store(1, beside);
        media.order(site!("wbtree.redo.P2.order"));
        media.store(&log[0], records.len() as u64);
        media.flush(site!("wbtree.redo.P2.commit"), &log[0]);
        media.fence(site!("wbtree.redo.P2.fence"));
        self.logged = records.len();
        let edits = self.edits.drain(..);
        let words = &self.words;
        apply(media, edits.map(|(target, first)| (target, &words[first..])))
    }
}

/// P3: stores words in place. Crash: recovery does it again, until the log is forgotten.
fn apply<'w, M: Media>(media: &M, edits: impl Iterator<Item = (Target, &'w [u64])>) -> Result<()> {
    let mut lines: Vec<&PCell> = Vec::new();
    for (target, words) in edits {
        let offset = target.offset();
        let Some(places) = media.region().cells(offset, target.words()) else {
            return Err(IndexError::Corrupt { offset, what: "a node lies outside the pool" });
        };
        places.iter().zip(words).for_each(|(place, word)| media.store(place, *word));
        lines.extend(places);
    }
    let line_of = |cell: &&PCell| media.region().pointer_to(*cell).offset() / LINE as u64;
    lines.sort_by_key(line_of);
    lines.dedup_by_key(|cell| line_of(cell));
    lines.iter().for_each(|line| media.flush(site!("wbtree.redo.P3.place"), *line));
    media.fence(site!("wbtree.redo.P3.fence"));
    Ok(())
}

/// Opens the log: does the change again that it has.
///
/// # Errors
/// [`IndexError::Corrupt`] if the log goes elsewhere than into `is_target`. Nothing is stored then.
pub(super) fn open<K: TreeKey, M: Media>(
    nodes: Nodes<'_, K, M>,
    is_target: impl Fn(Target) -> bool,
) -> Result<Redo> {
    let media = nodes.media();
    let records = records(nodes, is_target)?;
    let most = if planted(364) { 1 } else { records.len() };
    let of_record = |record: Record<'_>| {
        let words: Vec<u64> = record.words.iter().map(|word| media.load(word)).collect();
        (record.target, words)
    };
    let edits: Vec<_> = records.into_iter().take(most).map(of_record).collect();
    if !edits.is_empty() {
        apply(media, edits.iter().map(|(target, words)| (*target, &words[..])))?;
    }
    let logged = media.load(&nodes.anchor()?.log[0]) as usize;
    Ok(Redo { logged, ..Redo::default() })
}

/// The records that the log has.
pub(super) fn records<'p, K: TreeKey, M: Media>(
    nodes: Nodes<'p, K, M>,
    is_target: impl Fn(Target) -> bool,
) -> Result<Vec<Record<'p>>> {
    let (media, log) = (nodes.media(), &nodes.anchor()?.log);
    let offset = nodes.pool.pointer_to(&log[0]).offset();
    let words = usize::try_from(media.load(&log[0])).ok();
    let Some(part) = words.and_then(|words| log[1..].get(..words)) else {
        return Err(IndexError::Corrupt { offset, what: "the log has more records than room" });
    };
    records_in(media, offset, part, is_target)
}
