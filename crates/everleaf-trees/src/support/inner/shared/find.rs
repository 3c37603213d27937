//! Descents to the child that covers a key.

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use super::super::nodes::Nodes;
use super::super::search::Approach;
use super::super::{BATCH, InnerKey};
use super::{RootWord, SharedInner, Stand, Ticket};
use crate::support::latch::{self, LatchWord};

impl<K: InnerKey, const CAPACITY: usize> SharedInner<K, CAPACITY> {
    /// The child that covers `key`. Costs what [`Inner::find`](super::super::Inner::find) costs, and two loads a level of lines
    /// that it reads anyway.
    #[inline]
    pub fn find(&self, relax: &impl Fn(), key: K::Ref<'_>) -> (u64, Ticket<'_>) {
        loop {
            if let Some(found) = self.try_find(relax, key) {
                return found;
            }
            self.restarted(relax);
        }
    }

    #[inline(always)]
    fn try_find(&self, relax: &impl Fn(), key: K::Ref<'_>) -> Option<(u64, Ticket<'_>)> {
        let root = self.load_root();
        let mut ticket = self.ticket_of_root(root);
        if root.height() == 0 {
            return Some((self.tree.only_child.load(Relaxed), ticket));
        }
        let mut child = u64::from(root.node());
        for _ in 0..root.height() {
            let at = self.enter(relax, child, ticket)?;
            child = self.search(at, key).1;
            ticket = at.ticket();
        }
        ticket.is_current().then_some((child, ticket))
    }

    #[inline(always)]
    pub(super) fn load_root(&self) -> RootWord {
        RootWord(self.tree.root.load(Acquire))
    }

    #[inline(always)]
    pub(super) fn search(&self, at: Stand<'_>, key: K::Ref<'_>) -> (usize, u64) {
        self.tree.nodes.search(&self.tree.separators, at.lines, at.node, key)
    }

    /// Goes to a child node, whose number may be nonsense; none if where it came from is no longer current. Waits while the
    /// node is locked.
    #[inline(always)]
    pub(super) fn enter(&self, relax: &impl Fn(), child: u64, came_from: Ticket<'_>) -> Option<Stand<'_>> {
        loop {
            let at = self.look_at(child)?;
            if !came_from.is_current() {
                return None;
            }
            if !at.seen.is_locked() {
                return Some(at);
            }
            self.wait_for_node(relax);
        }
    }

    /// The node that a child number leads to, perhaps.
    #[inline(always)]
    fn look_at(&self, child: u64) -> Option<Stand<'_>> {
        let lines = self.tree.nodes.lines_of_child(child)?;
        let atom = Nodes::<K, CAPACITY>::atom_in(lines);
        Some(Stand { node: child as u32, lines, atom, seen: latch::load(atom) })
    }

    /// The children that cover `keys`, in their order, each with its ticket. Keys go down together, [`BATCH`] at a time; one
    /// that meets a change is looked for again alone. Stops at the end of the shortest slice.
    pub fn find_many<'t>(&'t self, relax: &impl Fn(), keys: &[K::Ref<'_>], children: &mut [u64], tickets: &mut [Ticket<'t>]) {
        let count = keys.len().min(children.len()).min(tickets.len());
        let (keys, children, tickets) = (&keys[..count], &mut children[..count], &mut tickets[..count]);
        for ((keys, children), tickets) in keys.chunks(BATCH).zip(children.chunks_mut(BATCH)).zip(tickets.chunks_mut(BATCH)) {
            self.find_batch(keys, children, tickets);
            for ((key, child), ticket) in keys.iter().zip(children).zip(tickets) {
                if !ticket.is_current() {
                    self.restarted(relax);
                    (*child, *ticket) = self.find(relax, *key);
                }
            }
        }
    }

    /// Looks for at most [`BATCH`] keys; the ticket of a key that met a change is not current.
    fn find_batch<'t>(&'t self, keys: &[K::Ref<'_>], children: &mut [u64], tickets: &mut [Ticket<'t>]) {
        let root = self.load_root();
        tickets.fill(self.ticket_of_root(root));
        if root.height() == 0 {
            children.fill(self.tree.only_child.load(Relaxed));
            return;
        }
        children.fill(u64::from(root.node()));
        for level in (0..root.height()).rev() {
            let mut approaches = [Approach::Slot(0); BATCH];
            for (number, ((key, child), ticket)) in keys.iter().zip(&mut *children).zip(&mut *tickets).enumerate() {
                // A ticket tells, on the way, where its key came from.
                match self.look_at(*child).filter(|at| ticket.is_current() && !at.seen.is_locked()) {
                    Some(at) => {
                        *ticket = at.ticket();
                        approaches[number] = self.tree.nodes.approach(&self.tree.separators, at.lines, at.node, *key);
                    }
                    None => (*child, *ticket) = (u64::from(root.node()), self.stale_ticket()), // and on to nowhere in particular
                }
            }
            for ((child, key), approach) in children.iter_mut().zip(keys).zip(approaches) {
                *child = self.tree.nodes.arrive(&self.tree.separators, *child as u32, *key, approach).1;
                if level > 0 {
                    self.tree.nodes.prefetch_head(*child as u32);
                }
            }
        }
    }
}
