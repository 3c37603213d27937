//! Making room in a leaf of byte strings.
//!
//! Unlike numbers, what has moved must leave the old leaf durably: its record may be freed and
//! serve as that of a key in the old leaf's range, and then an entry that is still there would look
//! alive. Recovery finds by `from` where that was cut, and takes out what both leaves have: no two
//! entries have one record.
//!
//! Flushes: those of a split of numbers, the lines of the old leaf that change and the head once
//! more, 3 fences; and the allocation of the bound's record.

use std::cell::Cell;

use everleaf_index::{IndexError, Result};
use everleaf_pmem::{Media, PPtr, site};
use everleaf_pool::Worker;

use super::LineTree;
use super::layout::{LeafHead, MAX_ENTRIES};
use super::publish::publish;
use super::records::{collect, slot_at};
use super::recover::Pass;
use super::search::LockedLeaf;
use super::split::{NO_ENTRIES, take_out};
use super::split_halves::{Draft, Entry};
use everleaf_tree::key::TreeKey;
use everleaf_tree::wait::wait;

/// The upper half of a leaf.
struct Upper<Owned> {
    /// A key that is above all others of the leaf, and at most its least one.
    separator: Owned,
    /// The records of its entries.
    records: Vec<u64>,
}

impl<K: TreeKey, M: Media, const LINES: usize> LineTree<K, M, LINES> {
    /// Splits a locked leaf where the window of `key` is full, and unlocks it. When the pool or the
    /// memory is full nothing has changed.
    pub(super) fn make_room_in_records(
        &self,
        locked: LockedLeaf<'_, LINES>,
        key: K::Ref<'_>,
    ) -> Result<()> {
        let (media, relax) = (self.pool.media(), wait(self.pool.media()));
        let upper = self.upper_half(&locked, key)?;
        let separator = K::borrow(&upper.separator);
        let moves = |(_, record): Entry| upper.records.contains(&record);
        let draft = Draft::of::<K, M>(media, locked.leaf, 0);
        let mut moved = draft.clone();
        moved.keep(moves);
        moved.pull_home();
        moved.mark_passed();
        // All that may be refused comes first: room in the inner nodes, then in the pool.
        let prepared = self.inner.prepare(&relax, separator, locked.offset)?;
        let new_offset = self.stock.take(media)?;
        let new = self.leaf(new_offset)?;
        // S0: its bound, which it owns. Crash: the leaf is free, and recovery frees the bound.
        if let Err(refused) = self.place_bound(&new.head, separator) {
            self.stock.give_back(media, new_offset)?;
            return Err(refused);
        }
        let from = match upper.records.is_empty() {
            true => PPtr::NULL,
            false => PPtr::at(locked.offset),
        };
        publish(media, new, &moved, media.load(new.head.spare.as_word()), from);

        if !from.is_null() {
            // S3: what has moved goes out of the old leaf, before another thread can remove it from
            // the new one and its record serves again. Crash: `from` is set, and recovery does it.
            let changed = |line: &_| media.flush(site!("linetree.split.S3.line"), first_of(line));
            take_out(media, locked.leaf, draft, |entry| !moves(entry), changed);
            media.fence(site!("linetree.split.S3.fence"));
            // S4: it is done. No fence: if `from` stays, recovery finds nothing to do.
            media.store(&new.head.from, PPtr::NULL);
            media.flush(site!("linetree.split.S4.from"), &new.head.from);
        }
        self.enter(prepared, new_offset);
        drop(locked.guard);
        Ok(())
    }

    /// The half that goes to a new leaf: nothing if keys come in ascending order and fill the last
    /// one.
    fn upper_half(
        &self,
        locked: &LockedLeaf<'_, LINES>,
        key: K::Ref<'_>,
    ) -> Result<Upper<K::Owned>> {
        let records = self.pool.pin();
        let mut entries = [(K::least(), 0); MAX_ENTRIES];
        let count = collect::<K, M, LINES>(&records, locked.leaf, &mut entries)?;
        let entries = &mut entries[..count];
        let ascending = entries.iter().all(|entry| K::cmp_keys(entry.0, key).is_lt())
            && self.inner.is_last(&wait(self.pool.media()), key);
        let middle = if ascending { count } else { count / 2 };
        if middle < count {
            entries.select_nth_unstable_by(middle, |a, b| K::cmp_keys(a.0, b.0));
        }
        let (lower, upper) = entries.split_at(middle);
        let Some(greatest) = lower.iter().map(|entry| entry.0).max() else {
            return Err(IndexError::Corrupt { offset: locked.offset, what: NO_ENTRIES });
        };
        let separator = match upper.first() {
            Some(least) => K::separator(greatest, least.0),
            None => K::separator(greatest, key),
        };
        let record = |slot: u8| self.pool.media().load(slot_at(locked.leaf, slot).value());
        Ok(Upper { separator, records: upper.iter().map(|entry| record(entry.1)).collect() })
    }

    /// Allocates the bound of a free leaf.
    fn place_bound(&self, head: &LeafHead, bound: K::Ref<'_>) -> Result<()> {
        K::place(&mut *self.stock.worker()?, head.spare.as_word(), bound)
    }
}

impl<M: Media, const LINES: usize> Pass<'_, M, LINES> {
    /// Ends what a crash has cut of splits, and frees the bounds that these `free` leaves own.
    /// `cut` are the leaves with `from`.
    pub(super) fn settle_records<K: TreeKey>(
        &self,
        worker: &mut Worker<M>,
        free: &[u64],
        cut: &[u64],
    ) -> Result<()> {
        let media = self.pool.media();
        // O3: as S3. Crash: done again.
        let mut is_changed = false;
        for offset in cut {
            is_changed |= self.take_out_moved::<K>(*offset)?;
        }
        if is_changed {
            media.fence(site!("linetree.recover.O3.fence"));
        }
        for offset in cut {
            media.store(&self.leaf(*offset)?.head.from, PPtr::NULL);
        }
        // O4: as D4. Crash: done again.
        free.iter().try_for_each(|offset| {
            let spare = &self.leaf(*offset)?.head.spare;
            K::discard(worker, spare.as_word())
        })
    }

    /// Takes out of the leaf before `offset` what that one has got of it; whether there was any. A
    /// leaf that is not before it was not split for it, but serves for something else since.
    fn take_out_moved<K: TreeKey>(&self, offset: u64) -> Result<bool> {
        let (media, new) = (self.pool.media(), self.leaf(offset)?);
        let from = media.load(&new.head.from);
        let Some(old) = self.live_leaf(from, offset) else { return Ok(false) };
        let records = self.pool.pin();
        let bound = |head: &LeafHead| K::read_bound(&records, media.load(&head.lower_bound));
        if K::cmp_keys(bound(&old.head)?, bound(&new.head)?).is_ge() {
            return Ok(false);
        }
        let moved: Vec<Entry> = Draft::of::<K, M>(media, new, 0).entries().collect();
        let stays = |entry: Entry| !moved.contains(&entry);
        let is_changed = Cell::new(false);
        let changed = |line: &_| {
            media.flush(site!("linetree.recover.O3.line"), first_of(line));
            is_changed.set(true);
        };
        take_out(media, old, Draft::of::<K, M>(media, old, 0), stays, changed);
        Ok(is_changed.get())
    }
}

/// The first word of a line, for a flush of it.
fn first_of(line: &everleaf_pmem::Line) -> &everleaf_pmem::PCell {
    &line.0[0]
}
