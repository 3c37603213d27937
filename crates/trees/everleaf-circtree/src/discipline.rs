//! What depends on how a node keeps its entries: methods of [`Node`] that choose between [`ring`]
//! and [`shifted`], where each operation positions.

use everleaf_index::Result;
use everleaf_pmem::{Media, PPtr};

use super::layout::{Discipline, NodeHead, ShiftStep, State, StateWord};
use super::link::fence_and_complete;
use super::node::Node;
use super::{ring, shifted};
use everleaf_tree::key::TreeKey;
use everleaf_tree::steps::Steps;

impl Node<'_> {
    /// Whether what a crash has left is to be ended first ([`end_step`](Self::end_step)).
    #[inline(always)]
    pub fn is_interrupted(&self, state: State) -> bool {
        state.step != ShiftStep::Rest || state.session != self.discipline.session()
    }

    fn is_shifted(&self) -> bool {
        matches!(self.discipline, Discipline::Shifted { .. })
    }

    /// Puts an entry before position `at` of a node that has room, at rest; durable when it
    /// returns. No other thread has the node. The record of the key is the header's, or the
    /// log's. What `steps` has prepared is fenced before the entry is one.
    #[inline]
    pub fn insert<K: TreeKey, M: Media>(
        self,
        media: &M,
        state: State,
        at: usize,
        entry: (u64, u64),
        steps: &mut Steps,
    ) {
        if self.is_shifted() {
            fence_and_complete(media, steps);
            shifted::insert_entry::<K, M>(media, self, state, at, entry);
        } else {
            ring::insert_entry::<K, M>(media, self, state, at, entry, steps);
        }
    }

    /// Takes the entry at position `at` from a node at rest, durably; its record, if it has one, is
    /// the header's then, and is to be freed. No other thread has the node.
    #[inline]
    pub fn remove<K: TreeKey, M: Media>(self, media: &M, state: State, at: usize) {
        if self.is_shifted() {
            shifted::remove_entry::<K, M>(media, self, state, at);
        } else {
            ring::remove_entry::<K, M>(media, self, state, at);
        }
    }

    /// Ends what a crash has left of the node's last step; its state at rest.
    pub fn end_step<M: Media>(self, media: &M, state: State) -> Result<State> {
        if self.is_shifted() {
            shifted::end_step(media, self, state)
        } else {
            Ok(ring::end_step(media, self, state))
        }
    }

    /// The entries as they are once its step is ended. Writes nothing.
    pub fn resolved<M: Media>(self, media: &M, state: State) -> Result<Vec<(u64, u64)>> {
        if self.is_shifted() {
            shifted::resolved(media, self, state)
        } else {
            Ok(ring::resolved(media, self, state))
        }
    }

    /// Marks where the entries end, if slots say so, in a node that holds so many, at least one,
    /// from slot 0 on. Returns how many of its slots mean something then. No flush.
    pub fn terminate<M: Media>(self, media: &M, count: usize) -> usize {
        count + usize::from(self.is_shifted() && shifted::terminate(media, self, count))
    }

    /// Lets `next` follow a full node, which keeps its first `middle` entries. The last flush is
    /// not fenced.
    pub fn truncate<M: Media>(self, media: &M, state: State, middle: usize, next: PPtr<NodeHead>) {
        let after = self.at_rest(state.level, state.base, middle);
        if self.is_shifted() {
            shifted::truncate(media, self, after, middle, next);
        } else {
            ring::truncate(media, self, after, next);
        }
    }

    /// Does the second half of that again. Durable only together with what is fenced next, but for
    /// what can be missing after a crash when the entry above is there: that is fenced here.
    pub fn truncate_again<M: Media>(self, media: &M, state: State, middle: usize) {
        let after = self.at_rest(state.level, state.base, middle);
        if self.is_shifted() {
            shifted::truncate_again(media, self, after, middle);
        } else {
            ring::truncate_again(media, self, after);
        }
    }

    /// Allows a node's dead slots to be written, before entries of a neighbour are put there.
    pub fn open_dead_slots<M: Media>(self, media: &M, state: State) {
        ring::open_dead_slots(media, self, state); // No other node is ever marked as vacated.
    }

    /// Whether the key of the first entry that a node with `count` entries takes over from a
    /// neighbour is stored last, by [`commit_taken`](Self::commit_taken): it stands where the
    /// terminator is.
    pub fn commits_by_key(self, count: usize) -> bool {
        self.is_shifted() && count > 0
    }

    /// Makes that key an entry's, and with it those that stand behind it, durably.
    pub fn commit_taken<M: Media>(self, media: &M, count: usize, key: u64) {
        shifted::commit_taken(media, self, count, key);
    }

    /// Whether the node that a log of a merge speaks of has the entries of both; `absorbed`: its
    /// state then.
    pub fn has_absorbed<M: Media>(self, media: &M, absorbed: StateWord) -> Result<bool> {
        if self.is_shifted() {
            shifted::has_absorbed(media, self, self.state(media)?, absorbed)
        } else {
            Ok(media.load(&self.head.state) == absorbed)
        }
    }
}
