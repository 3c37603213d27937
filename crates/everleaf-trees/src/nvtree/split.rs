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

use std::cmp::Ordering;

use everleaf_index::IndexError;
use everleaf_pmem::{Counter, Media, PCell, PPtr, site};
use everleaf_pool::{PoolError, RecordGuard};

use super::inner::{Place, Room};
use super::layout::{Fill, Kind, LeafHead, ListHead, Mark};
use super::leaf::{Leaf, tag_of};
use super::retire::{Retired, retire};
use super::scan::{Entry, newest_of_each};
use super::{NvTree, groups};
use crate::support::key::{KeyHash, TreeKey};

/// What is done to a key in a full leaf.
pub(super) enum Change<'a> {
    /// It gets a value. `known`: the slot of its newest element.
    Put { known: Option<usize>, hash: KeyHash, value: &'a [u64] },
    /// It goes.
    Remove,
    /// Nothing: the leaf is replaced without what is dead.
    Nothing,
}

/// Where an element of a new leaf comes from.
#[derive(Clone, Copy)]
enum Source {
    /// A slot of the full leaf, or of its right sibling.
    Slot { sibling: bool, slot: usize },
    /// It is the change.
    New,
}

/// A live key that comes into a new leaf.
struct Item<'p, K: TreeKey> {
    /// None: that of the change.
    key: Option<K::Ref<'p>>,
    source: Source,
}

impl<K: TreeKey> Item<'_, K> {
    const NEW: Self = Self { key: None, source: Source::New };
}

/// What takes the place of the full leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    /// Two leaves; the second has the keys from this one on.
    Split(usize),
    /// One leaf.
    Replace,
    /// One leaf, and that of the right sibling.
    Merge,
}

impl<K: TreeKey, M: Media> NvTree<K, M> {
    /// The word that leads to the leaf at `place`: of the one before it, or of the anchor.
    pub(super) fn word_to(&self, place: Place) -> Result<&PCell<PPtr<LeafHead>>, IndexError> {
        match self.inner.previous(place) {
            Some(previous) => Ok(&self.leaf(self.inner.leaf(previous))?.head.next),
            None => Ok(&self.pool.index_root::<ListHead>()?.first),
        }
    }

    /// Does a change of a key whose leaf is full. If the pool is full and the change needs room
    /// nothing has changed.
    #[cold]
    pub(super) fn make_room(
        &mut self,
        key: K::Ref<'_>,
        change: &Change<'_>,
    ) -> Result<(), IndexError> {
        let pool = std::sync::Arc::clone(&self.pool);
        let records = pool.pin();
        let place = self.inner.find(key);
        let left = Leaf::at(pool.media().region(), self.inner.leaf(place), self.shape)?;
        let entries = live_checked::<K, M>(&records, left)?;
        let mut items = items_of::<K>(&entries, key, change);
        let is_new = matches!(change, Change::Put { known: None, .. });
        let is_last = self.inner.next(place).is_none();
        if let Change::Nothing = change {
            let plan = Plan::Replace;
            return self.exchange(place, left, None, &entries, &items, key, change, plan);
        }
        if items.len() > self.shape.least_fill() {
            let greatest = matches!(items.last(), Some(Item { source: Source::New, .. }));
            if is_new && is_last && greatest {
                drop(items);
                return self.append_leaf(left, &entries, key, change);
            }
            let split = Plan::Split(items.len() / 2);
            return match self.exchange(place, left, None, &entries, &items, key, change, split) {
                // What fits needs no second leaf.
                Err(IndexError::Pool(PoolError::PoolFull { .. }))
                    if items.len() <= self.shape.slots() =>
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
                let few = right.fill(pool.media())?.count() <= self.shape.least_fill();
                few.then_some(right)
            }
            None => None,
        };
        let Some(right) = right else {
            let plan = Plan::Replace;
            return self.exchange(place, left, None, &entries, &items, key, change, plan);
        };
        let of_right = live_checked::<K, M>(&records, right)?;
        let slot = |entry: &Entry<'_, K>| Source::Slot { sibling: true, slot: entry.slot };
        let live = of_right.iter().filter(|entry| entry.kind == Kind::Present);
        items.extend(live.map(|entry| Item { key: Some(entry.key), source: slot(entry) }));
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
    ) -> Result<(), IndexError> {
        let middle = if let Plan::Split(middle) = plan { middle } else { items.len() };
        let separator =
            (middle < items.len()).then(|| match (items[middle - 1].key, items[middle].key) {
                (Some(left), Some(right)) => K::separator(left, right),
                (Some(left), None) => K::separator(left, key),
                (None, right) => K::separator(key, right.unwrap_or(K::least())),
            });
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
        let after = self.pool.media().load(&right.map_or(left, |(right, _)| right).head.next);
        self.write_and_publish(left, right, &offsets[..count], middle, items, change, key, after)?;

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
    ) -> Result<Option<Room>, IndexError> {
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

    /// Writes new leaves and makes the list lead to them.
    #[allow(clippy::too_many_arguments)]
    fn write_and_publish(
        &self,
        left: Leaf<'_>,
        right: Option<(Leaf<'_>, &[Entry<'_, K>])>,
        offsets: &[u64],
        middle: usize,
        items: &[Item<'_, K>],
        change: &Change<'_>,
        key: K::Ref<'_>,
        after: PPtr<LeafHead>,
    ) -> Result<(), IndexError> {
        let media = self.pool.media();
        let sibling = right.map_or(left, |(right, _)| right);
        let word = self.word_to(self.inner.find(key))?;
        // S1: the new leaves. Crash: nothing leads to them; their pointers are copies of those of
        // leaves in the list, or the only ones to records that recovery frees.
        for (number, items) in [&items[..middle], &items[middle..]].iter().enumerate() {
            let Some(offset) = offsets.get(number) else { continue };
            let leaf = Leaf::at(media.region(), *offset, self.shape)?;
            for (slot, item) in items.iter().enumerate() {
                let (from, from_slot) = match item.source {
                    Source::Slot { sibling: false, slot } => (left, slot),
                    Source::Slot { sibling: true, slot } => (sibling, slot),
                    Source::New => {
                        if let Change::Put { known, hash, value } = change {
                            match known {
                                Some(known) => {
                                    media.store(leaf.key(slot), media.load(left.key(*known)))
                                }
                                None if K::RECORDS => {} // It is placed.
                                None => media.store(leaf.key(slot), K::word(key, 0)),
                            }
                            let mark = Mark::new(Kind::Present, tag_of::<K>(*hash));
                            media.store(leaf.mark(slot), mark);
                            leaf.store_value(media, slot, value);
                        }
                        continue;
                    }
                };
                media.store(leaf.key(slot), media.load(from.key(from_slot)));
                media.store(leaf.mark(slot), media.load(from.mark(from_slot)));
                leaf.copy_value(media, slot, from, from_slot);
            }
            leaf.flush_elements(media, site!("nvtree.split.S1.elements"), 0..items.len());
            let next = offsets.get(number + 1).map_or(after, |next| PPtr::at(*next));
            media.store(&leaf.head.fill, Fill::all_live(items.len()));
            media.store(&leaf.head.next, next);
            if number == 0 {
                media.store(&leaf.head.lower_bound, media.load(&left.head.lower_bound));
            }
            media.flush(site!("nvtree.split.S1.head"), &leaf.head.fill);
        }
        media.fence(site!("nvtree.split.S1.fence"));
        // S2 COMMIT: the word that leads to the first leaf that goes. Crash: the old leaves are in
        // the list, or the new ones, the change of the key with them.
        media.store(word, PPtr::at(offsets[0]));
        media.flush(site!("nvtree.split.S2.link"), word);
        media.fence(site!("nvtree.split.S2.fence"));
        Ok(())
    }

    /// Adds a leaf behind the last one, which is full, for a key that is greater than all.
    fn append_leaf(
        &mut self,
        last: Leaf<'_>,
        entries: &[Entry<'_, K>],
        key: K::Ref<'_>,
        change: &Change<'_>,
    ) -> Result<(), IndexError> {
        let Change::Put { hash, value, .. } = change else { return Ok(()) };
        let live = entries.iter().filter(|entry| entry.kind == Kind::Present);
        let separator = K::separator(live.map(|entry| entry.key).max().unwrap_or(K::least()), key);
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
        // L1: the new leaf. Crash: as after S1.
        if !K::RECORDS {
            media.store(leaf.key(0), K::word(key, 0));
        }
        media.store(leaf.mark(0), Mark::new(Kind::Present, tag_of::<K>(*hash)));
        leaf.store_value(media, 0, value);
        leaf.flush_elements(media, site!("nvtree.split.L1.element"), 0..1);
        media.store(&leaf.head.fill, Fill::all_live(1));
        media.store(&leaf.head.next, PPtr::NULL);
        media.flush(site!("nvtree.split.L1.head"), &leaf.head.fill);
        media.fence(site!("nvtree.split.L1.fence"));
        // L2 COMMIT: the last leaf leads to it. Crash: the key is there or not.
        media.store(&last.head.next, PPtr::at(offset));
        media.flush(site!("nvtree.split.L2.link"), &last.head.next);
        media.fence(site!("nvtree.split.L2.fence"));
        self.inner.insert(room, offset);
        self.pool.media().count(Counter::LeafSplits, 1);
        Ok(())
    }

    /// Takes the leaf of `key`, its last live one, out of the list; it is not the first leaf.
    #[cold]
    pub(super) fn unlink(&mut self, key: K::Ref<'_>) -> Result<(), IndexError> {
        let pool = std::sync::Arc::clone(&self.pool);
        let media = pool.media();
        let place = self.inner.find(key);
        let leaf = Leaf::at(media.region(), self.inner.leaf(place), self.shape)?;
        let records = pool.pin();
        let entries = live_checked::<K, M>(&records, leaf)?;
        let dead = entries.iter().map(|entry| entry.slot).collect();
        let word = self.word_to(place)?;
        // U1 COMMIT: the leaf before leads to the one behind. Crash: the key is there, or it and
        // its leaf are not.
        media.store(word, media.load(&leaf.head.next));
        media.flush(site!("nvtree.remove.U1.link"), word);
        media.fence(site!("nvtree.remove.U1.fence"));
        self.inner.remove(place);
        retire::<K, M>(&mut self.worker, media, &[Retired { leaf, dead, bound: true }])?;
        self.groups.give_back(leaf.offset(), &mut self.worker)
    }
}

/// The keys of a leaf, if as many are live as it says.
fn live_checked<'p, K: TreeKey, M: Media>(
    records: &'p RecordGuard<'_, M>,
    leaf: Leaf<'_>,
) -> Result<Vec<Entry<'p, K>>, IndexError> {
    let fill = leaf.fill(records.media())?;
    let entries = newest_of_each::<K, M>(records, leaf, fill)?;
    let live = entries.iter().filter(|entry| entry.kind == Kind::Present).count();
    if live == fill.live() {
        Ok(entries)
    } else {
        Err(leaf.damaged("a leaf has not as many live keys as it says"))
    }
}

/// The live keys of a leaf after a change of `key`, ascending.
fn items_of<'p, K: TreeKey>(
    entries: &[Entry<'p, K>],
    key: K::Ref<'_>,
    change: &Change<'_>,
) -> Vec<Item<'p, K>> {
    let mut items = Vec::with_capacity(entries.len() + 1);
    let mut new = matches!(change, Change::Put { .. }).then_some(Item::NEW);
    for entry in entries {
        match K::cmp_keys(entry.key, key) {
            Ordering::Less => {}
            Ordering::Equal if matches!(change, Change::Nothing) => {}
            Ordering::Equal => {
                items.extend(new.take());
                continue;
            }
            Ordering::Greater => items.extend(new.take()),
        }
        if entry.kind == Kind::Present {
            let source = Source::Slot { sibling: false, slot: entry.slot };
            items.push(Item { key: Some(entry.key), source });
        }
    }
    items.extend(new);
    items
}
