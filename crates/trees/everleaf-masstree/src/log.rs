//! The external log: nodes as they were before they were changed in an epoch.
//!
//! It consists of segments, runs of the pool; a segment belongs to one thread at a time and is
//! filled from its beginning in each epoch. An entry has six lines, and the last word of each is
//! the epoch: stores to one line become durable in their order, so a line with the right last word
//! is whole, and an entry with six of them. Nothing has to say how long the log is.
//!
//! The memory of a new segment may hold anything, the number of an epoch too. So each of its lines
//! is made one of no epoch. It is not enough to do that with the first line of an entry: that one
//! may become durable alone when the entry is written, and old bytes in the others would count.
//!
//! ```text
//! X0  a new segment: each line of no epoch       flush each; the pool fences and publishes
//!     Crash: the segment is free memory.
//! X1  the six lines, in each the epoch last      flush each, fence
//!     Crash: the entry is left out, or applied to a node that has not been changed since.
//! X2  the node may change
//! ```
//! Recovery reads each segment up to the first entry that is not of the failed epoch.

use everleaf_index::Result;
use everleaf_pmem::{Counter, Media, PPtr, WORD, planted, site};
use everleaf_pool::{Pool, Worker};

use super::layout::{LOG_KIND, LOGGED_WORDS, Logged, NODE_WORDS, Node};

/// Bytes of the first segments.
const MIN_SEGMENT: u64 = 4096;
/// Bytes of the largest segments.
const LARGEST_SEGMENT: u64 = 256 << 10;
/// Bytes of an entry.
const ENTRY: u64 = size_of::<Logged>() as u64;

/// A run of the pool with entries, of which some are used in this epoch.
#[derive(Debug)]
pub(super) struct Segment {
    offset: u64,
    entries: u64,
    used: u64,
    /// It was drawn from the reserve of the pool, to be given back when the epoch ends.
    drawn: bool,
}

impl Segment {
    const fn at(offset: u64, bytes: u64) -> Self {
        Self { offset, entries: bytes / ENTRY, used: 0, drawn: false }
    }

    /// Whether there is room for an entry.
    pub const fn has_room(&self) -> bool {
        self.room() > 0
    }

    /// Entries that there is room for.
    pub const fn room(&self) -> u64 {
        self.entries - self.used
    }

    /// From here on the entries are overwritten: their epoch has ended.
    pub const fn empty(&mut self) {
        self.used = 0;
    }

    /// Adds a segment to the log, where there are `segments` already. Its entries are of no epoch.
    ///
    /// # Errors
    /// [`IndexError::Pool`](everleaf_index::IndexError::Pool) if the pool is full.
    pub fn add<M: Media>(worker: &mut Worker<M>, segments: usize) -> Result<Self> {
        let doubled = MIN_SEGMENT << (segments / 4).min(16);
        let bytes = doubled.min(LARGEST_SEGMENT);
        let (run, drawn) =
            worker.alloc_run_or_draw(LOG_KIND, bytes, MIN_SEGMENT, |pool, run| {
                for at in (run.offset..).step_by(ENTRY as usize).take((run.bytes / ENTRY) as usize)
                {
                    let Some(entry) = pool.media().region().at::<Logged>(at) else { continue };
                    for line in &entry.lines {
                        pool.media().store(&line[LOGGED_WORDS], 0);
                        pool.media().flush(site!("masstree.log.X0.line"), &line[0]);
                    }
                }
                Ok(())
            })?;
        Ok(Self { drawn, ..Self::at(run.offset, run.bytes) })
    }

    /// Whether it is to be given back when the epoch has ended.
    pub const fn is_drawn(&self) -> bool {
        self.drawn
    }

    /// Gives it back.
    ///
    /// # Errors
    /// [`IndexError::Pool`](everleaf_index::IndexError::Pool) if damage is met.
    pub fn give_back<M: Media>(self, worker: &mut Worker<M>) -> Result<()> {
        Ok(worker.free_run(LOG_KIND, self.offset)?)
    }

    /// X1: copies a node. Durable on return. Six flushes, one fence.
    pub fn write<M: Media>(
        &mut self,
        pool: &Pool<M>,
        node: &Node,
        offset: u64,
        epoch: u64,
    ) -> Result<()> {
        let media = pool.media();
        let entry = pool.node::<Logged>(PPtr::at(self.offset + self.used * ENTRY))?;
        for (number, line) in entry.lines.iter().enumerate() {
            for (i, cell) in line[..LOGGED_WORDS].iter().enumerate() {
                let index = number * LOGGED_WORDS + i;
                let word = match index {
                    in_node if in_node < NODE_WORDS => media.load(node.word(in_node)),
                    NODE_WORDS => offset,
                    _ => 0,
                };
                media.store(cell, word);
            }
            media.order(site!("masstree.log.X1.order"));
            media.store(&line[LOGGED_WORDS], epoch);
            media.flush(site!("masstree.log.X1.line"), &line[0]);
        }
        media.fence(site!("masstree.log.X1.fence"));
        media.count(Counter::NodesLogged, 1);
        self.used += 1;
        Ok(())
    }
}

/// F1: gives the nodes that were logged in a failed epoch what they held before. Durable on return.
pub(super) fn apply<M: Media>(pool: &Pool<M>, epoch: u64) -> Result<()> {
    let media = pool.media();
    for run in pool.runs(LOG_KIND)? {
        for number in 0..run.bytes / ENTRY {
            let entry = pool.node::<Logged>(PPtr::at(run.offset + number * ENTRY))?;
            if entry.lines.iter().any(|line| media.load(&line[LOGGED_WORDS]) != epoch) {
                break;
            }
            let cell = |index: usize| &entry.lines[index / LOGGED_WORDS][index % LOGGED_WORDS];
            let offset = media.load(cell(NODE_WORDS));
            let node = pool.node::<Node>(PPtr::at(offset))?;
            let words = if planted(287) { LOGGED_WORDS } else { NODE_WORDS };
            for index in 0..words {
                media.store(node.word(index), media.load(cell(index)));
            }
            media.flush_object(site!("masstree.log.F1.node"), node);
            planted!(286, break);
        }
    }
    media.fence(site!("masstree.log.F1.fence"));
    Ok(())
}

/// All segments of a pool: nothing of them is needed any more.
pub(super) fn segments<M: Media>(pool: &Pool<M>) -> Result<Vec<Segment>> {
    let runs = pool.runs(LOG_KIND)?;
    Ok(runs.into_iter().map(|run| Segment::at(run.offset, run.bytes)).collect())
}

const _: () = assert!(MIN_SEGMENT / ENTRY > 2 && ENTRY.is_multiple_of(WORD as u64));
