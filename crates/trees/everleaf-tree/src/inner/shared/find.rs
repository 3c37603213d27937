//! Descents to the child that covers a key.

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use everleaf_pmem::DramLine;

use super::super::BATCH;
use super::super::heads::Head;
use super::super::nodes::Nodes;
use super::super::search::Search;
use super::{NodeWord, RootWord, SharedInner, Ticket, Visited};
use crate::key::TreeKey;
use crate::latch::{self, LatchWord};

impl<K: TreeKey, const CAPACITY: usize> SharedInner<K, CAPACITY> {
    /// The child that covers `key`. Costs what [`Inner::find`](super::super::Inner::find) costs,
    /// and two loads a level of lines that it reads anyway.
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
        for level in (0..root.height()).rev() {
            let at = self.enter(relax, child, ticket)?;
            // As in a transaction: a thread that gave up there because a page was missing must
            // touch it here.
            child = self.tree.nodes.pass(&self.tree.separators, at.lines, at.node, key, level);
            ticket = at.ticket();
        }
        ticket.is_current().then_some((child, ticket))
    }

    /// What may be the child that covers `key`, and its ticket, which the caller must ask before it
    /// relies on it: until then the child may be any number. A caller that asks the ticket anyway,
    /// after it has read something of the child, is saved asking twice. None where
    /// [`find`](SharedInner::find) would wait or start again, and for a number of which the
    /// directory knows nothing: there is no way round in this, so that it is short.
    #[inline(always)]
    pub fn find_unvalidated(&self, key: K::Ref<'_>) -> Option<(u64, Ticket<'_>)> {
        if K::RECORDS {
            return self.descend_unvalidated(key);
        }
        let number = K::word(key, 0);
        match self.enter_by_directory(number) {
            Some((lines, head, ticket)) => {
                Some((self.tree.nodes.search_by_head(lines, head, number), ticket))
            }
            None => self.only_child(),
        }
    }

    /// The child of a tree without nodes.
    #[inline(always)]
    fn only_child(&self) -> Option<(u64, Ticket<'_>)> {
        let root = self.load_root();
        let child = self.tree.only_child.load(Relaxed);
        (root.height() == 0).then(|| (child, self.ticket_of_root(root)))
    }

    /// The bottom node that covers a number, as far as the directory knows, and its ticket. None
    /// also while it is locked.
    #[inline(always)]
    fn enter_by_directory(&self, number: u64) -> Option<(&[DramLine], Head<'_>, Ticket<'_>)> {
        for node in self.tree.directory.look_up(number).map(Nodes::<K, CAPACITY>::node_at) {
            let head = self.tree.nodes.head_of(node.into())?;
            let seen: NodeWord = latch::load(head.atom());
            if head.covers(number) && !seen.is_locked() {
                let lines = self.tree.nodes.lines_of_child(node.into())?;
                return Some((lines, head, Ticket { atom: head.atom(), seen: seen.bits() }));
            }
        }
        None
    }

    /// The same from the root.
    #[inline(never)]
    fn descend_unvalidated(&self, key: K::Ref<'_>) -> Option<(u64, Ticket<'_>)> {
        let root = self.load_root();
        let mut ticket = self.ticket_of_root(root);
        if root.height() == 0 {
            return Some((self.tree.only_child.load(Relaxed), ticket));
        }
        // Asked for once: a node that was made since is one that this attempt does not find.
        let all = self.tree.nodes.arena.all();
        let mut child = u64::from(root.node());
        for level in (0..root.height()).rev() {
            let (lines, next) = self.step(all, child, ticket)?;
            child = self.tree.nodes.pass(&self.tree.separators, lines, child as u32, key, level);
            ticket = next;
        }
        Some((child, ticket))
    }

    /// The lines of the node that a child number may lead to, and its ticket; none if where it came
    /// from is no longer current, or the node is locked.
    #[inline(always)]
    fn step<'t>(
        &'t self,
        all: &'t [DramLine],
        child: u64,
        came_from: Ticket<'_>,
    ) -> Option<(&'t [DramLine], Ticket<'t>)> {
        let start = child as u32 as usize;
        let lines = all.get(start..start + Nodes::<K, CAPACITY>::NODE_LINES)?;
        let atom = self.tree.nodes.head_of(child)?.atom();
        let seen: NodeWord = latch::load(atom);
        (came_from.is_current() && !seen.is_locked())
            .then_some((lines, Ticket { atom, seen: seen.bits() }))
    }

    #[inline(always)]
    pub(super) fn load_root(&self) -> RootWord {
        RootWord(self.tree.root.load(Acquire))
    }

    #[inline(always)]
    pub(super) fn search(&self, at: Visited<'_>, key: K::Ref<'_>) -> (usize, u64) {
        self.tree.nodes.search(&self.tree.separators, at.lines, at.node, key)
    }

    /// Goes to a child node, whose number may be nonsense; none if where it came from is no longer
    /// current. Waits while the node is locked.
    #[inline(always)]
    pub(super) fn enter(
        &self,
        relax: &impl Fn(),
        child: u64,
        came_from: Ticket<'_>,
    ) -> Option<Visited<'_>> {
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
    fn look_at(&self, child: u64) -> Option<Visited<'_>> {
        let lines = self.tree.nodes.lines_of_child(child)?;
        let atom = self.tree.nodes.head_of(child)?.atom();
        Some(Visited { node: child as u32, lines, atom, seen: latch::load(atom) })
    }

    /// The children that cover `keys`, in their order, each with its ticket. Keys go down together,
    /// [`BATCH`] at a time; one that meets a change is looked for again alone. Stops at the end of
    /// the shortest slice.
    pub fn find_many<'t>(
        &'t self,
        relax: &impl Fn(),
        keys: &[K::Ref<'_>],
        children: &mut [u64],
        tickets: &mut [Ticket<'t>],
    ) {
        let count = keys.len().min(children.len()).min(tickets.len());
        let (keys, children, tickets) =
            (&keys[..count], &mut children[..count], &mut tickets[..count]);
        for ((keys, children), tickets) in
            keys.chunks(BATCH).zip(children.chunks_mut(BATCH)).zip(tickets.chunks_mut(BATCH))
        {
            self.find_many_unvalidated(keys, children, tickets);
            for ((key, child), ticket) in keys.iter().zip(children).zip(tickets) {
                if !ticket.is_current() {
                    self.restarted(relax);
                    (*child, *ticket) = self.find(relax, *key);
                }
            }
        }
    }

    /// Looks for at most [`BATCH`] keys together; the slices have one length. Each child is as
    /// [`find_unvalidated`](SharedInner::find_unvalidated) says it, and the ticket of a key that
    /// met a change is not current.
    pub fn find_many_unvalidated<'t>(
        &'t self,
        keys: &[K::Ref<'_>],
        children: &mut [u64],
        tickets: &mut [Ticket<'t>],
    ) {
        let root = self.load_root();
        tickets.fill(self.ticket_of_root(root));
        if root.height() == 0 {
            children.fill(self.tree.only_child.load(Relaxed));
        } else if self.tree.directory.is_empty() {
            self.descend_many(root, keys, children, tickets);
        } else {
            self.find_many_by_directory(keys, children, tickets);
        }
    }

    /// Looks for numbers together, by the directory; those that it does not know one by one.
    fn find_many_by_directory<'t>(
        &'t self,
        keys: &[K::Ref<'_>],
        children: &mut [u64],
        tickets: &mut [Ticket<'t>],
    ) {
        let nodes = &self.tree.nodes;
        let mut entered = [const { None }; BATCH];
        for ((key, ticket), entered) in keys.iter().zip(&mut *tickets).zip(&mut entered) {
            let number = K::word(*key, 0);
            *entered = self.enter_by_directory(number).map(|(lines, head, next)| {
                *ticket = next;
                let block = nodes.begin_search_by_head(lines, head, number);
                (lines, block)
            });
        }
        let places = children.iter_mut().zip(tickets);
        for ((key, (child, ticket)), entered) in keys.iter().zip(places).zip(entered) {
            (*child, *ticket) = match entered {
                Some((lines, block)) => {
                    (nodes.search_from(lines, block, K::word(*key, 0)), *ticket)
                }
                None => self.descend_unvalidated(*key).unwrap_or((0, self.stale_ticket())),
            };
        }
    }

    /// Looks for keys together, from the root.
    fn descend_many<'t>(
        &'t self,
        root: RootWord,
        keys: &[K::Ref<'_>],
        children: &mut [u64],
        tickets: &mut [Ticket<'t>],
    ) {
        children.fill(u64::from(root.node()));
        let all = self.tree.nodes.arena.all();
        for level in (0..root.height()).rev() {
            let mut searches = [Search::Slot(0); BATCH];
            for (((key, child), ticket), begin_search) in
                keys.iter().zip(&mut *children).zip(&mut *tickets).zip(&mut searches)
            {
                // A ticket tells, on the way, where its key came from.
                match self.step(all, *child, *ticket) {
                    Some((lines, next)) => {
                        *ticket = next;
                        *begin_search = self.tree.nodes.begin_search(
                            &self.tree.separators,
                            lines,
                            *child as u32,
                            *key,
                        );
                    }
                    // and on to nowhere in particular
                    None => (*child, *ticket) = (u64::from(root.node()), self.stale_ticket()),
                }
            }
            for ((child, key), begin_search) in children.iter_mut().zip(keys).zip(searches) {
                *child = self
                    .tree
                    .nodes
                    .finish_search(&self.tree.separators, *child as u32, *key, begin_search)
                    .1;
                if level > 0 {
                    self.tree.nodes.prefetch_beginning(*child as u32);
                }
            }
        }
    }
}
