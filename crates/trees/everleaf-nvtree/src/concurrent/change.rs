//! Changes of the list of leaves, by the sequences S, L and U of the tree for one thread.
//!
//! The leaf is locked. What may be refused comes first: new leaves, room in the inner nodes, the
//! latch of the leaf before, whose word leads to the new ones. That leaf is looked up again once it
//! is locked: it may have been replaced. Then S1 and S2, or U1; then the inner nodes; then the
//! latches go, and the leaves that left are kept until nobody reads them.

use everleaf_index::{IndexError, Result};
use everleaf_pmem::{Counter, Media, PCell, PPtr};

use super::ConcurrentNvTree;
use super::parents::Place;
use super::search::LockedLeaf;
use super::write::{Outcome, Write};
use crate::layout::{LeafHead, ListHead};
use crate::leaf::Leaf;
use crate::plan::{
    Change, Item, Plan, is_greatest, items_of, items_of_sibling, live_checked, separator_at,
    separator_behind,
};
use crate::publish::{self, Old};
use crate::scan::Entry;
use crate::steps::Steps;
use everleaf_tree::key::TreeKey;
use everleaf_tree::version_locks::LockGuard;

/// What is done to a full leaf.
struct Exchange<'a, 't, 'k, 'p, K: TreeKey> {
    locked: &'a LockedLeaf<'t>,
    /// The right sibling, locked, if it goes too.
    right: Option<(Leaf<'t>, LockGuard<'t>)>,
    /// Where the leaf behind begins, if there is one.
    upper: Option<u64>,
    items: Vec<Item<'p, K>>,
    change: Change<'a>,
    key: K::Ref<'k>,
    old: Option<u64>,
}

/// The word that leads to a leaf, and the latch of its leaf. Nothing but the holder of the first
/// leaf's latch changes the anchor.
struct Before<'t> {
    word: &'t PCell<PPtr<LeafHead>>,
    /// None where the latch is held already, or the word is the anchor.
    _guard: Option<LockGuard<'t>>,
}

impl<K: TreeKey, M: Media> ConcurrentNvTree<K, M> {
    /// Changes a key whose leaf is full. If the pool is full and the change needs room nothing has
    /// changed.
    #[cold]
    pub(super) fn make_room<S: Steps>(
        &self,
        locked: &LockedLeaf<'_>,
        write: &Write<'_, '_, K>,
        old: Option<u64>,
        steps: &mut S,
    ) -> Result<Outcome> {
        let records = self.pool.pin();
        let (key, change) = (write.key, Self::change_of(locked, write));
        let entries = live_checked::<K, M>(&records, locked.leaf)?;
        let items = items_of::<K>(&entries, key, &change);
        let next = self.next_of(locked.leaf)?;
        let upper = next.map(|next| next.lower);
        let mut exchange = Exchange { locked, right: None, upper, items, change, key, old };
        if exchange.items.len() > self.shape.min_fill() {
            if next.is_none() && is_greatest(&exchange.items, &exchange.change) {
                return self.append_leaf(locked, &entries, write, steps);
            }
            let split = Plan::Split(exchange.items.len() / 2);
            return match self.exchange(&exchange, split, steps) {
                // What fits needs no second leaf.
                Err(IndexError::Pool(error))
                    if error.is_full() && exchange.items.len() <= self.shape.slots() =>
                {
                    self.exchange(&exchange, Plan::Replace, steps)
                }
                done => done,
            };
        }
        let Some((right, guard)) = self.lock_right(locked, next)? else {
            return self.exchange(&exchange, Plan::Replace, steps);
        };
        let of_right = live_checked::<K, M>(&records, right)?;
        exchange.items.extend(items_of_sibling(&of_right));
        exchange.right = Some((right, guard));
        self.exchange(&exchange, Plan::Merge, steps)
    }

    /// The leaf behind a locked one: it stays there as long as that is locked.
    fn next_of(&self, leaf: Leaf<'_>) -> Result<Option<Place>> {
        let pinned = self.enter();
        let bound = self.pool.media().load(&leaf.head.lower_bound);
        let place = self.parents.find(&pinned, bound);
        if place.leaf != leaf.offset() || place.lower != bound {
            return Err(leaf.damaged("the inner nodes do not lead to a leaf by its lower bound"));
        }
        Ok(self.parents.next(&pinned, &place))
    }

    /// Locks the right sibling if it has so few elements that it can be merged, and no other thread
    /// has its latch.
    fn lock_right<'t>(
        &'t self,
        locked: &LockedLeaf<'t>,
        next: Option<Place>,
    ) -> Result<Option<(Leaf<'t>, LockGuard<'t>)>> {
        let Some(next) = next else { return Ok(None) };
        let right = self.leaf(next.leaf)?;
        if self.locks.is_locked_by(next.leaf, &locked.guard) {
            return Ok(None);
        }
        let Some(guard) = self.locks.peek(next.leaf).and_then(|seen| seen.try_lock()) else {
            return Ok(None);
        };
        if right.fill(self.pool.media())?.count() <= self.shape.min_fill() {
            return Ok(Some((right, guard)));
        }
        guard.unlock_unchanged();
        Ok(None)
    }

    /// Locks the leaf before, if no other thread has it.
    fn lock_before<'t>(
        &'t self,
        leaf: Leaf<'_>,
        held: [Option<&LockGuard<'t>>; 2],
    ) -> Result<Result<Before<'t>, Option<u64>>> {
        let pinned = self.enter();
        let bound = self.pool.media().load(&leaf.head.lower_bound);
        let before = || {
            let place = self.parents.find(&pinned, bound);
            self.parents.previous(&pinned, &place).map(|place| place.leaf)
        };
        let Some(previous) = before() else {
            let word = &self.pool.index_root::<ListHead>()?.first;
            return Ok(Ok(Before { word, _guard: None }));
        };
        // Loaded before the latch is taken, so that its line is there. If that leaf stays the one
        // before, the word stays the same: only who has this leaf changes it.
        let word = &self.leaf(previous)?.head.next;
        let leads_here = self.pool.media().load(word).offset() == leaf.offset();
        let has = |guard: &LockGuard<'t>| self.locks.is_locked_by(previous, guard);
        let mut guard = None;
        if !held.into_iter().flatten().any(has) {
            guard = self.locks.peek(previous).and_then(|seen| seen.try_lock());
            if guard.is_none() {
                return Ok(Err(Some(previous)));
            }
        }
        if before() != Some(previous) {
            guard.into_iter().for_each(LockGuard::unlock_unchanged);
            return Ok(Err(None));
        }
        if !leads_here {
            return Err(leaf.damaged("the list of leaves does not lead to a leaf"));
        }
        Ok(Ok(Before { word, _guard: guard }))
    }

    /// Puts new leaves in the place of a full one, and of its right sibling if that goes too.
    fn exchange<S: Steps>(
        &self,
        exchange: &Exchange<'_, '_, '_, '_, K>,
        plan: Plan,
        steps: &mut S,
    ) -> Result<Outcome> {
        let Exchange { locked, right, upper, items, change, key, old } = exchange;
        let (media, left) = (self.pool.media(), locked.leaf);
        let bound = media.load(&left.head.lower_bound);
        let middle = plan.middle(items.len());
        let separator = separator_at(items, middle, *key).map(|key| K::word(K::borrow(&key), 0));
        if separator.is_some_and(|at| at <= bound || upper.is_some_and(|upper| at >= upper)) {
            // The new leaf would cover a range in the middle of another one's.
            return Err(left.damaged("a full leaf holds keys of another leaf"));
        }
        let count = 1 + usize::from(separator.is_some());
        let taken = self.stock.take::<K>(media, count, 1 + usize::from(right.is_some()))?;
        let room = self.parents.reserve()?;
        let held = [Some(&locked.guard), right.as_ref().map(|(_, guard)| guard)];
        let before = match self.lock_before(left, held)? {
            Ok(before) => before,
            Err(other) => return Ok(Outcome::Blocked(other)),
        };
        let goes = Old { left, right: right.as_ref().map(|(right, _)| *right) };
        let offsets = taken.offsets();
        if let Some(separator) = separator {
            media.store(&self.leaf(offsets[1])?.head.lower_bound, separator);
        }
        steps.prepare(*old)?;
        publish::write_leaves::<K, M>(media, goes, offsets, middle, items, *key, change)?;
        let done = publish::exchange(media, before.word, offsets[0], steps);

        // In DRAM, by one store: a writer or a scan that meets a new leaf, which nobody has locked,
        // finds behind it what is behind it.
        let pins = self.stock.pins();
        match (separator, goes.right) {
            (Some(at), _) => self.split_parents(room, bound, Some(offsets[0]), (at, offsets[1])),
            (None, None) => self.parents.replace(pins, bound, offsets[0]),
            (None, Some(_)) => self.parents.merge(pins, room, bound, offsets[0]),
        }
        drop(before);
        let left = [left.offset(), goes.right.map_or(0, |right| right.offset())];
        taken.used(&left[..1 + usize::from(goes.right.is_some())])?;
        Ok(Outcome::Done(done))
    }

    fn split_parents(
        &self,
        room: super::parents::Room<'_>,
        bound: u64,
        first: Option<u64>,
        second: (u64, u64),
    ) {
        let media = self.pool.media();
        media.count(Counter::LeafSplits, 1);
        if self.parents.split(self.stock.pins(), room, bound, first, second) {
            media.count(Counter::InnerSplits, 1);
        }
    }

    /// Adds a leaf behind the last one, which is full, for a key that is greater than all.
    fn append_leaf<S: Steps>(
        &self,
        locked: &LockedLeaf<'_>,
        entries: &[Entry<'_, K>],
        write: &Write<'_, '_, K>,
        steps: &mut S,
    ) -> Result<Outcome> {
        let (media, last) = (self.pool.media(), locked.leaf);
        let separator = K::word(K::borrow(&separator_behind(entries, write.key)), 0);
        let bound = media.load(&last.head.lower_bound);
        if separator <= bound {
            return Err(last.damaged("a full leaf holds keys of another leaf"));
        }
        let taken = self.stock.take::<K>(media, 1, 0)?;
        let room = self.parents.reserve()?;
        let leaf = self.leaf(taken.offsets()[0])?;
        media.store(&leaf.head.lower_bound, separator);
        steps.prepare(None)?;
        let new = (write.key, write.hash, write.value.unwrap_or_default());
        let done = publish::append_leaf::<K, M, S>(media, last, leaf, new, steps);
        self.split_parents(room, bound, None, (separator, leaf.offset()));
        taken.used(&[])?;
        Ok(Outcome::Done(done))
    }

    /// Takes a locked leaf out of the list, whose last live key is removed; it is not the first.
    #[cold]
    pub(super) fn unlink<S: Steps>(
        &self,
        locked: &LockedLeaf<'_>,
        old: Option<u64>,
        steps: &mut S,
    ) -> Result<Outcome> {
        let (media, leaf) = (self.pool.media(), locked.leaf);
        let bound = media.load(&leaf.head.lower_bound);
        self.next_of(leaf)?;
        let room = self.parents.reserve()?;
        let before = match self.lock_before(leaf, [Some(&locked.guard), None])? {
            Ok(before) => before,
            Err(other) => return Ok(Outcome::Blocked(other)),
        };
        steps.prepare(old)?;
        let done = publish::unlink(media, before.word, leaf, steps);
        self.parents.remove(self.stock.pins(), room, bound);
        drop(before);
        self.stock.retire(media, &[leaf.offset()])?;
        Ok(Outcome::Done(done))
    }
}
