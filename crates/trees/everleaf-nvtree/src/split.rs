//! Changes of the list of leaves: a full leaf is split, replaced or merged, and a leaf without keys
//! is taken out. New leaves are written where nothing leads to them; then one word, the pointer to
//! the first leaf that goes, leads to them instead.
//!
//! | what goes | what comes | when |
//! |---|---|---|
//! | a full leaf | two, each with half of the keys | more than half of its slots are live |
//! | a full leaf | one | as few are live, and the right sibling has more elements than that |
//! | a full leaf and the right sibling | one | as few are live, and the sibling has as few elements |
//! | nothing | one, behind the last | the last leaf is full and the new key greater than all |
//! | a leaf | nothing | its last key is removed |
//!
//! The change that found the leaf full is part of it: no append follows. u64 keys: the lines of the
//! new leaves and 1 flush, 2 fences (nothing comes: 1 and 1).

use everleaf_index::{IndexError, Result};
use everleaf_pmem::{Counter, Media, PCell, PPtr};

use super::inner::{Place, Room};
use super::layout::{Kind, LeafHead, ListHead};
use super::leaf::Leaf;
use super::plan::{
    Change, Item, Plan, Source, is_greatest, items_of, items_of_sibling, live_checked,
    separator_at, separator_behind,
};
use super::publish::{self, Old};
use super::retire::{Retired, retire};
use super::scan::Entry;
use super::steps::Alone;
use super::{NvTree, groups};
use everleaf_tree::key::TreeKey;

impl<K: TreeKey, M: Media> NvTree<K, M> {
    /// The word that leads to the leaf at `place`: of the one before it, or of the anchor.
    pub(super) fn word_to(&self, place: Place) -> Result<&PCell<PPtr<LeafHead>>> {
        match self.inner.previous(place) {
            Some(previous) => Ok(&self.leaf(self.inner.leaf(previous))?.head.next),
            None => Ok(&self.pool.index_root::<ListHead>()?.first),
        }
    }

    /// Does a change of a key whose leaf is full. If the pool is full and the change needs room
    /// nothing has changed.
    #[cold]
    pub(super) fn make_room(&mut self, key: K::Ref<'_>, change: &Change<'_>) -> Result<()> {
        let pool = std::sync::Arc::clone(&self.pool);
        let records = pool.pin();
        let place = self.inner.find(key);
        let left = Leaf::at(pool.media().region(), self.inner.leaf(place), self.shape)?;
        let entries = live_checked::<K, M>(&records, left)?;
        let mut items = items_of::<K>(&entries, key, change);
        let is_last = self.inner.next(place).is_none();
        if let Change::Nothing = change {
            let plan = Plan::Replace;
            return self.exchange(place, left, None, &entries, &items, key, change, plan);
        }
        if items.len() > self.shape.min_fill() {
            if is_last && is_greatest(&items, change) {
                drop(items);
                return self.append_leaf(left, &entries, key, change);
            }
            let split = Plan::Split(items.len() / 2);
            return match self.exchange(place, left, None, &entries, &items, key, change, split) {
                // What fits needs no second leaf.
                Err(IndexError::Pool(error))
                    if error.is_full() && items.len() <= self.shape.slots() =>
                {
                    let place = self.inner.find(key);
                    let plan = Plan::Replace;
                    self.exchange(place, left, None, &entries, &items, key, change, plan)
                }
                done => done,
            };
        }
        let right = match self.inner.next(place) {
            Some(next) => {
                let right = Leaf::at(pool.media().region(), self.inner.leaf(next), self.shape)?;
                let few = right.fill(pool.media())?.count() <= self.shape.min_fill();
                few.then_some(right)
            }
            None => None,
        };
        let Some(right) = right else {
            let plan = Plan::Replace;
            return self.exchange(place, left, None, &entries, &items, key, change, plan);
        };
        let of_right = live_checked::<K, M>(&records, right)?;
        items.extend(items_of_sibling(&of_right));
        let right = Some((right, &of_right[..]));
        self.exchange(place, left, right, &entries, &items, key, change, Plan::Merge)
    }

    /// Puts new leaves in the place of the one at `place`, and of its right sibling if that is
    /// given.
    #[allow(clippy::too_many_arguments)]
    fn exchange(
        &mut self,
        place: Place,
        left: Leaf<'_>,
        right: Option<(Leaf<'_>, &[Entry<'_, K>])>,
        entries: &[Entry<'_, K>],
        items: &[Item<'_, K>],
        key: K::Ref<'_>,
        change: &Change<'_>,
        plan: Plan,
    ) -> Result<()> {
        let middle = plan.middle(items.len());
        let separator = separator_at(items, middle, key);
        let separator = separator.as_ref().map(K::borrow);
        let count = 1 + usize::from(separator.is_some());
        // As many go as come, or more, but for a split, which gives one back.
        let offsets =
            groups::take::<K, M>(&mut self.groups, &mut self.worker, self.shape, count, false)?;
        let covering = separator.map_or(place, |separator| self.inner.find(separator));
        let prepared = if covering == place {
            self.prepare(&offsets[..count], middle, items, separator, key, change)
        } else {
            // The new leaf would cover a range in the middle of another one's, and what is inserted
            // there would not be found.
            Err(left.damaged("a full leaf holds keys of another leaf"))
        };
        let room = match prepared {
            Ok(room) => room,
            Err(error) => {
                for offset in &offsets[..count] {
                    self.groups.give_back(*offset, &mut self.worker)?;
                }
                return Err(error);
            }
        };
        let media = self.pool.media();
        let word = self.word_to(self.inner.find(key))?;
        let old = Old { left, right: right.map(|(right, _)| right) };
        let offsets = &offsets[..count];
        publish::write_leaves::<K, M>(media, old, offsets, middle, items, key, change)?;
        publish::exchange(media, word, offsets[0], &mut Alone).0?;

        // In DRAM.
        let place = self.inner.find(key);
        if right.is_some()
            && let Some(next) = self.inner.next(place)
        {
            self.inner.remove(next);
        }
        let place = self.inner.find(key);
        self.inner.set_leaf(place, offsets[0]);
        if let Some(room) = room {
            self.inner.insert(room, offsets[1]);
            self.pool.media().count(Counter::LeafSplits, 1);
        }

        let gone = |entry: &&Entry<'_, K>| match change {
            Change::Put { .. } if K::cmp_keys(entry.key, key).is_eq() => false,
            Change::Remove if K::cmp_keys(entry.key, key).is_eq() => true,
            _ => entry.kind == Kind::Removed,
        };
        let slots = |entries: &[Entry<'_, K>]| -> Vec<usize> {
            entries.iter().filter(gone).map(|entry| entry.slot).collect()
        };
        let mut retired = vec![Retired { leaf: left, dead: slots(entries), bound: false }];
        if let Some((right, of_right)) = right {
            retired.push(Retired { leaf: right, dead: slots(of_right), bound: true });
        }
        retire::<K, M>(&mut self.worker, self.pool.media(), &retired)?;
        for old in &retired {
            self.groups.give_back(old.leaf.offset(), &mut self.worker)?;
        }
        Ok(())
    }

    /// Does all that may be refused: room in the inner nodes, and the records of a new bound and a
    /// new key. What is refused is undone.
    fn prepare(
        &mut self,
        offsets: &[u64],
        middle: usize,
        items: &[Item<'_, K>],
        separator: Option<K::Ref<'_>>,
        key: K::Ref<'_>,
        change: &Change<'_>,
    ) -> Result<Option<Room>> {
        let region = self.pool.media().region();
        let second = match offsets.get(1) {
            Some(offset) => Some(Leaf::at(region, *offset, self.shape)?),
            None => None,
        };
        let room = match separator {
            Some(separator) => Some(self.inner.make_room(separator, self.pool.media())?),
            None => None,
        };
        let forget = |tree: &mut super::inner::Inner<K>| {
            if let Some(room) = room {
                tree.forget(room);
            }
        };
        if let (Some(second), Some(separator)) = (second, separator)
            && let Err(error) = K::place(&mut self.worker, &second.head.lower_bound, separator)
        {
            forget(&mut self.inner);
            return Err(error);
        }
        let new = items.iter().position(|item| matches!(item.source, Source::New));
        if let (Some(at), Change::Put { known: None, .. }) = (new, change) {
            let (leaf, slot) =
                if at < middle { (offsets[0], at) } else { (offsets[1], at - middle) };
            let leaf = Leaf::at(region, leaf, self.shape)?;
            if let Err(error) = K::place(&mut self.worker, leaf.key(slot), key) {
                if let Some(second) = second {
                    K::discard(&mut self.worker, &second.head.lower_bound)?;
                }
                forget(&mut self.inner);
                return Err(error);
            }
        }
        Ok(room)
    }

    /// Adds a leaf behind the last one, which is full, for a key that is greater than all.
    fn append_leaf(
        &mut self,
        last: Leaf<'_>,
        entries: &[Entry<'_, K>],
        key: K::Ref<'_>,
        change: &Change<'_>,
    ) -> Result<()> {
        let Change::Put { hash, value, .. } = change else { return Ok(()) };
        let separator = separator_behind(entries, key);
        let separator = K::borrow(&separator);
        let [offset, _] =
            groups::take::<K, M>(&mut self.groups, &mut self.worker, self.shape, 1, true)?;
        let items = [Item::NEW];
        // The new leaf is the second of two, of which the first stays.
        let prepared =
            self.prepare(&[last.offset(), offset], 0, &items, Some(separator), key, change);
        let room = match prepared {
            Ok(Some(room)) => room,
            Ok(None) => return Ok(()),
            Err(error) => {
                self.groups.give_back(offset, &mut self.worker)?;
                return Err(error);
            }
        };
        let media = self.pool.media();
        let leaf = Leaf::at(media.region(), offset, self.shape)?;
        publish::append_leaf::<K, M, _>(media, last, leaf, (key, *hash, value), &mut Alone).0?;
        self.inner.insert(room, offset);
        self.pool.media().count(Counter::LeafSplits, 1);
        Ok(())
    }

    /// Takes the leaf of `key`, its last live one, out of the list; it is not the first leaf.
    #[cold]
    pub(super) fn unlink(&mut self, key: K::Ref<'_>) -> Result<()> {
        let pool = std::sync::Arc::clone(&self.pool);
        let media = pool.media();
        let place = self.inner.find(key);
        let leaf = Leaf::at(media.region(), self.inner.leaf(place), self.shape)?;
        let records = pool.pin();
        let entries = live_checked::<K, M>(&records, leaf)?;
        let dead = entries.iter().map(|entry| entry.slot).collect();
        let word = self.word_to(place)?;
        publish::unlink(media, word, leaf, &mut Alone).0?;
        self.inner.remove(place);
        retire::<K, M>(&mut self.worker, media, &[Retired { leaf, dead, bound: true }])?;
        self.groups.give_back(leaf.offset(), &mut self.worker)
    }
}
