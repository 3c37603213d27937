//! What depends on how a node keeps its entries, each a door of [`Node`]: what stands behind it is
//! in the room of the design.

use everleaf_index::IndexError;
use everleaf_pmem::{Media, PPtr, site};

use super::key::NodeKey;
use super::layout::{Discipline, NodeHead, State, StateWord, Step};
use super::node::Node;
use crate::{circtree, fastfair};

impl Node<'_> {
    /// Whether what a crash has left is to be ended first ([`end_step`](Self::end_step)).
    #[inline(always)]
    pub fn is_cut(&self, state: State) -> bool {
        state.step != Step::Rest || state.session != self.discipline.session()
    }

    fn is_shifted(&self) -> bool {
        matches!(self.discipline, Discipline::Shifted { .. })
    }

    /// Puts an entry before position `at` of a node that has room, at rest; durable when it
    /// returns. The caller has the node for himself. The record of the key is the header's, or the
    /// log's.
    #[inline]
    pub fn insert<K: NodeKey, M: Media>(
        self,
        media: &M,
        state: State,
        at: usize,
        key: u64,
        value: u64,
    ) {
        if self.is_shifted() {
            fastfair::insert_entry::<K, M>(media, self, state, at, key, value);
        } else {
            circtree::insert_entry::<K, M>(media, self, state, at, key, value);
        }
    }

    /// Takes the entry at position `at` from a node at rest, durably; its record, if it has one, is
    /// the header's then, and is to be freed. The caller has the node for himself.
    #[inline]
    pub fn remove<K: NodeKey, M: Media>(self, media: &M, state: State, at: usize) {
        if self.is_shifted() {
            fastfair::remove_entry::<K, M>(media, self, state, at);
        } else {
            circtree::remove_entry::<K, M>(media, self, state, at);
        }
    }

    /// Ends what a crash has left of the node's last step; its state at rest.
    pub fn end_step<M: Media>(self, media: &M, state: State) -> Result<State, IndexError> {
        if self.is_shifted() {
            fastfair::settle(media, self, state)
        } else {
            Ok(circtree::end_step(media, self, state))
        }
    }

    /// The entries as they are once its step is ended. Writes nothing.
    pub fn resolved<M: Media>(
        self,
        media: &M,
        state: State,
    ) -> Result<Vec<(u64, u64)>, IndexError> {
        if self.is_shifted() {
            fastfair::resolved(media, self, state)
        } else {
            Ok(circtree::resolved(media, self, state))
        }
    }

    /// Marks where the entries end, if slots say so, in a node that holds so many, at least one,
    /// from slot 0 on. Returns how many of its slots mean something then. No flush.
    pub fn terminate<M: Media>(self, media: &M, count: usize) -> usize {
        if self.is_shifted() && count < self.slots() {
            media.store(self.key(count), 0);
            return count + 1;
        }
        count
    }

    /// Lets `next` follow a full node, which keeps its first `middle` entries. The last flush is
    /// not fenced.
    pub fn cut<M: Media>(self, media: &M, state: State, middle: usize, next: PPtr<NodeHead>) {
        let after = self.at_rest(state.level, state.base, middle);
        // C2 COMMIT: the new node follows the old one. Crash: it is there, and recovery cuts the
        // old one if that is still full.
        media.store(&self.head.next, next);
        if self.is_shifted() {
            media.flush(site!("sorted.split.C2.next"), &self.head.next);
            media.fence(site!("sorted.split.C2.fence"));
            media.store(self.key(middle), 0);
            media.flush(site!("sorted.split.C2.cut"), self.key(middle));
            media.store(&self.head.state, after.seal());
        } else {
            media.order(site!("sorted.split.C2.order"));
            media.store(&self.head.state, after.seal());
            media.flush(site!("sorted.split.C2.header"), &self.head.state);
        }
    }

    /// Does the second half of that again. Durable only together with what is fenced next, but for
    /// what can be missing after a crash when the entry above is there: that is fenced here.
    pub fn cut_again<M: Media>(self, media: &M, state: State, middle: usize) {
        let after = self.at_rest(state.level, state.base, middle);
        if self.is_shifted() {
            // R1. Crash: it is full, or it is done.
            media.store(self.key(middle), 0);
            media.flush(site!("sorted.recover.R1.cut"), self.key(middle));
            media.fence(site!("sorted.recover.R1.fence"));
            media.store(&self.head.state, after.seal());
        } else {
            // R1. Crash: it is full, or it is done. Fenced with the entry above, which is missing
            // still.
            media.store(&self.head.state, after.seal());
            media.flush(site!("sorted.recover.R1.header"), &self.head.state);
        }
    }

    /// Sees to it that a node's dead slots may be written, before entries of a neighbour are put
    /// there.
    pub fn open_dead_slots<M: Media>(self, media: &M, state: State) {
        if state.vacated {
            // M0: as E0 of an insertion into a ring.
            media.store(&self.head.state, state.without_step().seal());
            media.flush(site!("sorted.merge.M0.header"), &self.head.state);
            media.fence(site!("sorted.merge.M0.fence"));
        }
    }

    /// Whether the key of the first entry that a node with `count` entries takes over from a
    /// neighbour is stored last, by [`commit_taken`](Self::commit_taken): it stands where the
    /// terminator is.
    pub fn commits_by_key(self, count: usize) -> bool {
        self.is_shifted() && count > 0
    }

    /// Makes that key an entry's, and with it those that stand behind it, durably.
    pub fn commit_taken<M: Media>(self, media: &M, count: usize, key: u64) {
        media.store(self.key(count), key);
        media.flush(site!("sorted.merge.M2.key"), self.key(count));
        media.fence(site!("sorted.merge.M2.taken"));
    }

    /// Whether the node that a log of a merge speaks of has the entries of both; `absorbed`: its
    /// state then.
    pub fn has_absorbed<M: Media>(
        self,
        media: &M,
        absorbed: StateWord,
    ) -> Result<bool, IndexError> {
        if !self.is_shifted() {
            return Ok(media.load(&self.head.state) == absorbed);
        }
        let damaged =
            IndexError::Corrupt { offset: self.offset, what: "the log of a merge is damaged" };
        let count = absorbed.open(self.slots()).ok_or(damaged)?.count;
        Ok(self.resolved(media, self.state(media)?)?.len() == usize::from(count))
    }
}
