//! The child that covers a key, and where its range ends: with these a scan goes on by key,
//! whatever changes meanwhile.

use std::sync::atomic::Ordering::Relaxed;

use everleaf_index::Direction;

use super::{SharedInner, Ticket, Visited};
use crate::key::{Kept, TreeKey};

/// A child, and where to go on from it.
#[derive(Clone, Debug)]
pub struct Sought<'t, O> {
    /// The child.
    pub child: u64,
    /// As long as it is current, the child covers the key and its range is not smaller.
    pub ticket: Ticket<'t>,
    /// Forward: the first key that the child does not cover; none if it is the last child. The
    /// range may have grown since, by the removal of the next child: the child after the bound may
    /// be this one again. Backward: the smallest key that the child covers; none if it is the
    /// first.
    pub bound: Option<O>,
    /// The child after it (before it, backward), if the same node leads to it: for prefetching. It
    /// may be another one by now.
    pub hint: Option<u64>,
    /// The bottom node and the slot in it, as for [`Place`].
    slot: Option<(Visited<'t>, usize)>,
}

/// Where a descent ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'t> {
    pub(super) child: u64,
    pub(super) ticket: Ticket<'t>,
    /// The bottom node and the slot in it; none where there is no node.
    pub(super) slot: Option<(Visited<'t>, usize)>,
    /// The lowest node with a slot behind the one taken, and that slot: its separator is the upper
    /// bound. None for the last child.
    upper: Option<(Visited<'t>, usize)>,
    pub(super) height: u32,
}

/// SeekMode child is meant.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SeekMode {
    /// The one that covers the key.
    Covering,
    /// The one that covers the keys just below it.
    Below,
    /// The last one, whatever the key.
    Last,
}

impl<K: TreeKey, const CAPACITY: usize> SharedInner<K, CAPACITY> {
    /// Goes down and asks `read` about the place; what it says counts if nothing has changed by
    /// then.
    pub(super) fn visit<T>(
        &self,
        relax: &impl Fn(),
        key: K::Ref<'_>,
        which: SeekMode,
        read: impl Fn(&Place<'_>) -> T,
    ) -> (Place<'_>, T) {
        if let Some(found) = self.visit_in_transaction(relax, key, which, &read) {
            return found;
        }
        loop {
            if let Some(place) = self.try_place(relax, key, which) {
                let answer = read(&place);
                // The upper bound falls only by a change of the bottom node and rises only by one
                // of the node where it stands.
                if place.upper.is_none_or(|(at, _)| at.ticket().is_current())
                    && place.ticket.is_current()
                {
                    return (place, answer);
                }
            }
            self.restarted(relax);
        }
    }

    /// The bottom node is still to be validated.
    pub(super) fn try_place(
        &self,
        relax: &impl Fn(),
        key: K::Ref<'_>,
        which: SeekMode,
    ) -> Option<Place<'_>> {
        let root = self.load_root();
        let height = root.height();
        if height == 0 {
            let child = self.tree.only_child.load(Relaxed);
            return Some(Place {
                child,
                ticket: self.ticket_of_root(root),
                slot: None,
                upper: None,
                height,
            });
        }
        let mut at = self.enter(relax, u64::from(root.node()), self.ticket_of_root(root))?;
        let mut upper = None;
        for depth in 1.. {
            let (slot, child) = self.slot(at, key, which);
            if slot + 1 < at.seen.count() {
                upper = Some((at, slot + 1));
            }
            if depth == height {
                return Some(Place {
                    child,
                    ticket: at.ticket(),
                    slot: Some((at, slot)),
                    upper,
                    height,
                });
            }
            if which != SeekMode::Last {
                self.tree.nodes.prefetch_block(child, key);
            }
            at = self.enter(relax, child, at.ticket())?;
        }
        None
    }

    /// The slot of a node that leads to the child, and what is in it.
    fn slot(&self, at: Visited<'_>, key: K::Ref<'_>, which: SeekMode) -> (usize, u64) {
        let (nodes, separators) = (&self.tree.nodes, &self.tree.separators);
        if which == SeekMode::Last {
            let last = at.seen.count().saturating_sub(1);
            return (last, nodes.child(at.node, last));
        }
        let (slot, child) = self.search(at, key);
        // Where the separator is the key itself, the keys below it are one slot before; a first
        // slot is never met so, because the node above has the same separator. Further down all
        // separators are less.
        if which == SeekMode::Below
            && slot > 0
            && K::compare_kept(separators, nodes.kept(at.node, slot), key, 0).is_eq()
        {
            return (slot - 1, nodes.child(at.node, slot - 1));
        }
        (slot, child)
    }

    pub(super) fn lower(&self, place: &Place<'_>) -> Kept {
        place.slot.map_or(Kept::default(), |(at, slot)| self.tree.nodes.kept(at.node, slot))
    }

    fn owned(&self, kept: Kept) -> K::Owned {
        K::copy_kept(&self.tree.separators, kept)
    }

    fn sought(
        &self,
        relax: &impl Fn(),
        key: K::Ref<'_>,
        which: SeekMode,
        direction: Direction,
    ) -> Sought<'_, K::Owned> {
        let nodes = &self.tree.nodes;
        let (place, (bound, hint)) = self.visit(relax, key, which, |place| match direction {
            Direction::Forward => {
                let bound = place.upper.map(|(at, slot)| self.owned(nodes.kept(at.node, slot)));
                let next = place.slot.filter(|(at, slot)| slot + 1 < at.seen.count());
                (bound, next.map(|(at, slot)| nodes.child(at.node, slot + 1)))
            }
            Direction::Backward => {
                let lower = Some(self.lower(place)).filter(|lower| !lower.is_smallest::<K>());
                let before = place.slot.filter(|(_, slot)| *slot > 0);
                (
                    lower.map(|lower| self.owned(lower)),
                    before.map(|(at, slot)| nodes.child(at.node, slot - 1)),
                )
            }
        });
        Sought { child: place.child, ticket: place.ticket, bound, hint, slot: place.slot }
    }

    /// What [`seek`](SharedInner::seek) (backward [`seek_before`](SharedInner::seek_before)) would
    /// find from the bound of `sought`, if the node that led there leads on and has not changed
    /// since: a few loads, in place of a descent. None else: look for it from the bound.
    pub fn seek_on<'t>(
        &'t self,
        sought: &Sought<'t, K::Owned>,
        direction: Direction,
    ) -> Option<Sought<'t, K::Owned>> {
        let nodes = &self.tree.nodes;
        let (at, slot) = sought.slot?;
        let child_in = |slot: usize| nodes.child(at.node, slot);
        let (slot, bound, hint) = match direction {
            // The bound of the node's last child stands further up, where it may have risen.
            Direction::Forward if slot + 2 < at.seen.count() => (
                slot + 1,
                Some(self.owned(nodes.kept(at.node, slot + 2))),
                Some(child_in(slot + 2)),
            ),
            Direction::Forward => return None,
            Direction::Backward => {
                let slot = slot.checked_sub(1)?;
                let lower =
                    Some(nodes.kept(at.node, slot)).filter(|lower| !lower.is_smallest::<K>());
                (slot, lower.map(|lower| self.owned(lower)), slot.checked_sub(1).map(child_in))
            }
        };
        let next = Sought {
            child: child_in(slot),
            ticket: sought.ticket,
            bound,
            hint,
            slot: Some((at, slot)),
        };
        next.ticket.is_current().then_some(next)
    }

    /// The child that covers `key`, and where its range ends in this direction: a forward scan goes
    /// on with `seek` from there, a backward scan with [`seek_before`](SharedInner::seek_before).
    /// Costs a find, and a copy of the bound.
    pub fn seek(
        &self,
        relax: &impl Fn(),
        key: K::Ref<'_>,
        direction: Direction,
    ) -> Sought<'_, K::Owned> {
        self.sought(relax, key, SeekMode::Covering, direction)
    }

    /// The child that covers the keys just below `key`, and where its range begins. None if there
    /// is no smaller key.
    pub fn seek_before(&self, relax: &impl Fn(), key: K::Ref<'_>) -> Option<Sought<'_, K::Owned>> {
        let smallest = K::compare_kept(&self.tree.separators, Kept::default(), key, 0).is_eq();
        (!smallest).then(|| self.sought(relax, key, SeekMode::Below, Direction::Backward))
    }

    /// The first (`Forward`) or the last child, and where its range ends in this direction.
    pub fn seek_edge(&self, relax: &impl Fn(), direction: Direction) -> Sought<'_, K::Owned> {
        let smallest = self.owned(Kept::default());
        match direction {
            Direction::Forward => {
                self.sought(relax, K::borrow(&smallest), SeekMode::Covering, direction)
            }
            Direction::Backward => {
                self.sought(relax, K::borrow(&smallest), SeekMode::Last, direction)
            }
        }
    }

    /// The smallest key that the child that covers `key` covers.
    pub fn lower_bound(&self, relax: &impl Fn(), key: K::Ref<'_>) -> K::Owned {
        self.visit(relax, key, SeekMode::Covering, |place| self.owned(self.lower(place))).1
    }

    /// Whether the child that covers `key` is the last.
    pub fn is_last(&self, relax: &impl Fn(), key: K::Ref<'_>) -> bool {
        self.visit(relax, key, SeekMode::Covering, |place| place.upper.is_none()).1
    }
}
