//! Descents to the child that covers a key.

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use super::super::search::Approach;
use super::super::{BATCH, InnerKey};
use super::{NodeWord, RootWord, SharedInner, Stand, Ticket};
use crate::support::latch::{self, LatchWord};

impl<K: InnerKey, const CAPACITY: usize> SharedInner<K, CAPACITY> {
    /// The child that covers `key`. Costs what [`Inner::find`](super::super::Inner::find) costs, and two loads a level of lines
    /// that it reads anyway.
    #[inline]
    pub fn find(&self, relax: &impl Fn(), key: K::Ref<'_>) -> (u64, Ticket) {
        loop {
            if let Some(found) = self.try_find(relax, key) {
                return found;
            }
            self.restarted(relax);
        }
    }

    #[inline(always)]
    fn try_find(&self, relax: &impl Fn(), key: K::Ref<'_>) -> Option<(u64, Ticket)> {
        let root = self.load_root();
        if root.height() == 0 {
            return Some((self.tree.only_child.load(Relaxed), Ticket::of_root(root)));
        }
        let mut at = self.enter(relax, u64::from(root.node()), || self.is_root(root))?;
        for _ in 1..root.height() {
            let (_, child) = self.tree.nodes.search(&self.tree.separators, at.node, key);
            at = self.enter(relax, child, || self.is_at(at))?;
        }
        let (_, child) = self.tree.nodes.search(&self.tree.separators, at.node, key);
        self.is_at(at).then(|| (child, at.ticket()))
    }

    #[inline(always)]
    pub(super) fn load_root(&self) -> RootWord {
        RootWord(self.tree.root.load(Acquire))
    }

    /// Goes to a child node, whose number may be nonsense; none if where it came from is no longer current. Waits while the
    /// node is locked.
    #[inline(always)]
    pub(super) fn enter(&self, relax: &impl Fn(), child: u64, came_from_current: impl Fn() -> bool) -> Option<Stand> {
        let (node, atom) = self.tree.nodes.atom_of_child(child)?;
        loop {
            let seen: NodeWord = latch::load(atom);
            if !came_from_current() {
                return None;
            }
            if !seen.is_locked() {
                return Some(Stand { node, seen });
            }
            self.wait_for_node(relax);
        }
    }

    /// The children that cover `keys`, in their order, each with its ticket. Keys go down together, [`BATCH`] at a time; one
    /// that meets a change is looked for again alone. Stops at the end of the shortest slice.
    pub fn find_many(&self, relax: &impl Fn(), keys: &[K::Ref<'_>], children: &mut [u64], tickets: &mut [Ticket]) {
        let count = keys.len().min(children.len()).min(tickets.len());
        let (keys, children, tickets) = (&keys[..count], &mut children[..count], &mut tickets[..count]);
        for ((keys, children), tickets) in keys.chunks(BATCH).zip(children.chunks_mut(BATCH)).zip(tickets.chunks_mut(BATCH)) {
            let found = self.find_batch(keys, children, tickets);
            for (number, ((key, child), ticket)) in keys.iter().zip(children).zip(tickets).enumerate() {
                if found >> number & 1 == 0 {
                    self.restarted(relax);
                    (*child, *ticket) = self.find(relax, *key);
                }
            }
        }
    }

    /// Looks for at most [`BATCH`] keys; bit `i` of the answer says that key `i` met no change.
    fn find_batch(&self, keys: &[K::Ref<'_>], children: &mut [u64], tickets: &mut [Ticket]) -> u32 {
        let (nodes, separators) = (&self.tree.nodes, &self.tree.separators);
        let root = self.load_root();
        if root.height() == 0 {
            children.fill(self.tree.only_child.load(Relaxed));
            tickets.fill(Ticket::of_root(root));
            return u32::MAX;
        }
        children.fill(u64::from(root.node()));
        // A ticket tells, on the way, where its key came from.
        tickets.fill(Ticket::of_root(root));
        let mut found = u32::MAX;
        for level in (0..root.height()).rev() {
            let mut approaches = [Approach::Slot(0); BATCH];
            for (number, ((key, child), ticket)) in keys.iter().zip(&mut *children).zip(&mut *tickets).enumerate() {
                let Some((at, approach)) = self.approach(*key, *child, *ticket) else {
                    found &= !(1 << number);
                    *child = u64::from(root.node()); // goes on to nowhere in particular
                    *ticket = Ticket::default();
                    continue;
                };
                (*ticket, approaches[number]) = (at.ticket(), approach);
            }
            for (((key, child), ticket), approach) in keys.iter().zip(&mut *children).zip(&mut *tickets).zip(approaches) {
                if ticket.node == Ticket::ROOT {
                    continue;
                }
                *child = nodes.arrive(separators, ticket.node, *key, approach).1;
                if level > 0 {
                    nodes.prefetch_head(*child as u32);
                }
            }
        }
        for (number, ticket) in tickets.iter().enumerate() {
            if !self.is_current(*ticket) {
                found &= !(1 << number);
            }
        }
        found
    }

    /// The first half of a search in a child node, unless the node is locked or where it came from is no longer current.
    #[inline(always)]
    fn approach(&self, key: K::Ref<'_>, child: u64, came_from: Ticket) -> Option<(Stand, Approach)> {
        let (node, atom) = self.tree.nodes.atom_of_child(child)?;
        let seen: NodeWord = latch::load(atom);
        if seen.is_locked() || !self.is_current(came_from) {
            return None;
        }
        Some((Stand { node, seen }, self.tree.nodes.approach(&self.tree.separators, node, key)))
    }
}
