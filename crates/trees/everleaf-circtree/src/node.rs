//! A node as the operations see it: cells by slot, slots by position.

use everleaf_index::{IndexError, Result};
use everleaf_pmem::{LINE, Media, PCell, PPtr, Site, WORD};
use everleaf_pool::Pool;

use super::layout::{Discipline, ENTRIES_PER_LINE, NodeHead, Shape, State};

/// A checked view of one node.
#[derive(Clone, Copy)]
pub(crate) struct Node<'p> {
    pub head: &'p NodeHead,
    entries: &'p [PCell],
    pub offset: u64,
    pub discipline: Discipline,
}

impl<'p> Node<'p> {
    /// The node at `offset`, after a check of its bounds, its alignment and the type of its chunk.
    #[inline(always)]
    pub fn at<M: Media>(pool: &'p Pool<M>, offset: u64, shape: Shape) -> Result<Self> {
        let head = pool.node(PPtr::<NodeHead>::at(offset))?;
        let body = offset.wrapping_add(size_of::<NodeHead>() as u64);
        match pool.media().region().cells(body, 2 * shape.slots) {
            Some(entries) => Ok(Self { head, entries, offset, discipline: shape.discipline }),
            None => Err(IndexError::Corrupt { offset, what: "a node reaches beyond the pool" }),
        }
    }

    /// Entries that it has room for.
    #[inline(always)]
    pub fn slots(&self) -> usize {
        self.entries.len() / 2
    }

    /// Its state; an error if the word is damaged.
    #[inline(always)]
    pub fn state<M: Media>(&self, media: &M) -> Result<State> {
        let state = media.load(&self.head.state).open(self.slots());
        let state = state.filter(|state| (state.session == 0) == (self.discipline.session() == 0));
        state.ok_or(IndexError::Corrupt {
            offset: self.offset,
            what: "the state of a node is damaged",
        })
    }

    /// A state of it in which nothing is under way, as this opening of the tree knows it.
    #[inline(always)]
    pub fn at_rest(&self, level: u8, base: u16, count: usize) -> State {
        State { session: self.discipline.session(), ..State::at_rest(level, base, count as u16) }
    }

    /// The slot of a position; that of `usize::MAX` is the one before the first.
    #[inline(always)]
    pub fn slot(&self, state: State, position: usize) -> usize {
        usize::from(state.base).wrapping_add(position) & (self.slots() - 1)
    }

    /// The key word of a slot.
    #[inline(always)]
    pub fn key(&self, slot: usize) -> &'p PCell {
        &self.entries[2 * slot]
    }

    /// The value word of a slot.
    #[inline(always)]
    pub fn value(&self, slot: usize) -> &'p PCell {
        &self.entries[2 * slot + 1]
    }

    /// The words of a slot.
    #[inline(always)]
    pub fn load<M: Media>(&self, media: &M, slot: usize) -> (u64, u64) {
        (media.load(self.key(slot)), media.load(self.value(slot)))
    }

    /// The words at a position.
    #[inline(always)]
    pub fn entry<M: Media>(&self, media: &M, state: State, position: usize) -> (u64, u64) {
        self.load(media, self.slot(state, position))
    }

    /// The position of the child at `offset` in an inner node.
    pub fn position_of_child<M: Media>(
        &self,
        media: &M,
        state: State,
        offset: u64,
    ) -> Option<usize> {
        (0..usize::from(state.count))
            .find(|position| self.entry(media, state, *position).1 == offset)
    }

    /// Whether two slots share a line.
    #[inline(always)]
    pub fn share_line(one: usize, other: usize) -> bool {
        one / ENTRIES_PER_LINE == other / ENTRIES_PER_LINE
    }

    /// Flushes the lines of the slots at `positions`, each once.
    pub fn flush_entries<M: Media>(
        &self,
        media: &M,
        site: Site,
        state: State,
        positions: std::ops::Range<usize>,
    ) {
        let mut flushed = None;
        let first =
            positions.clone().next().map(|position| self.slot(state, position) / ENTRIES_PER_LINE);
        for (i, position) in positions.enumerate() {
            let slot = self.slot(state, position);
            let line = slot / ENTRIES_PER_LINE;
            // A ring may end in the line in which it began.
            if flushed != Some(line) && (i < ENTRIES_PER_LINE || Some(line) != first) {
                media.flush(site, self.key(slot));
                flushed = Some(line);
            }
        }
    }

    /// Prefetches the lines of a node that is small enough to be fetched whole; of a larger one for
    /// those that a search by halves begins with.
    #[inline(always)]
    pub fn prefetch<M: Media>(&self, media: &M) {
        const LINES: usize = 8;
        let step = ENTRIES_PER_LINE.max(self.slots() / LINES);
        for slot in (0..self.slots()).step_by(step) {
            media.prefetch(self.key(slot));
        }
    }
}

const _: () = assert!(LINE == ENTRIES_PER_LINE * 2 * WORD);
