//! Children come and go.

use std::sync::atomic::Ordering::Relaxed;

use super::super::entries::Entry;
use super::super::memory::Promised;
use super::super::{Inner, InnerError};
use super::held::Held;
use super::seek::SeekMode;
use super::{NodeWord, SharedInner, Visited};
use crate::key::{Kept, TreeKey};
use crate::latch;

/// An insertion that cannot fail any more: its separator is kept, and memory for nodes is set
/// aside. Dropped, it gives both back.
#[derive(Debug)]
#[must_use = "it is given back when this is dropped"]
pub struct Prepared<'i, 'k, K: TreeKey> {
    separator: K::Ref<'k>,
    kept: Kept,
    /// The node above the child to the left, and its slot there: still right while the node is what
    /// it was.
    place: Option<(Visited<'i>, usize)>,
    /// Whether the tree has the kept separator now.
    inserted: bool,
    separators: &'i K::Separators,
    _memory: Promised<'i>,
}

impl<K: TreeKey> Drop for Prepared<'_, '_, K> {
    fn drop(&mut self) {
        if !self.inserted {
            K::release(self.separators, self.kept.handle);
        }
    }
}

/// What the short way of a change came to: the lock of one node.
enum OneNodeChange {
    Done,
    /// The node has changed since the descent.
    Conflict,
    /// More than one node must change.
    Structure,
    /// Nothing is to be done: it is the first child, and always will be.
    Refused,
}

impl<K: TreeKey, const CAPACITY: usize> SharedInner<K, CAPACITY> {
    /// Prepares the insertion of a child with this lower bound, behind the child that covers it. To
    /// be called before a split is made durable, by the thread that has locked the leaf that is
    /// split.
    ///
    /// # Errors
    /// [`InnerError::Order`] if `separator` is not covered by `left_child`, or is its lower bound;
    /// [`InnerError::Memory`], [`InnerError::TooLong`]. Nothing is set aside then.
    pub fn prepare<'i, 'k>(
        &'i self,
        relax: &impl Fn(),
        separator: K::Ref<'k>,
        left_child: u64,
    ) -> Result<Prepared<'i, 'k, K>, InnerError> {
        let (place, follows) = self.visit(relax, separator, SeekMode::Covering, |place| {
            K::compare_kept(&self.tree.separators, self.lower(place), separator, 0).is_lt()
        });
        if !follows || place.child != left_child {
            return Err(InnerError::Order);
        }
        let memory = self.tree.nodes.promise(|| self.height())?;
        let kept = Kept {
            word: K::word(separator, 0),
            handle: K::keep(&self.tree.separators, separator)?,
        };
        let separators = &self.tree.separators;
        Ok(Prepared {
            separator,
            kept,
            place: place.slot,
            inserted: false,
            separators,
            _memory: memory,
        })
    }

    /// Adds the prepared child: it takes over the keys from its separator on. Returns how many
    /// inner nodes were split. The caller still holds the lock of the leaf to the left.
    ///
    /// Where the node has room: one atomic exchange and one store to lock and unlock, and the move
    /// of the words behind the slot; a find if the node has changed since the insertion was
    /// prepared.
    pub fn insert(&self, relax: &impl Fn(), mut prepared: Prepared<'_, '_, K>, child: u64) -> u64 {
        debug_assert!(
            std::ptr::eq(prepared.separators, &self.tree.separators),
            "prepared for another tree"
        );
        let entry = Entry { kept: prepared.kept, child };
        if let Some(splits) = self.insert_in_transaction(relax, prepared.separator, entry) {
            prepared.inserted = true;
            return splits;
        }
        while !self.is_transactional() {
            let place = prepared.place.take();
            let quick = match place {
                Some(place) => self.insert_at_place(place, entry),
                None => self.insert_into_one(relax, prepared.separator, entry),
            };
            match quick {
                OneNodeChange::Conflict if place.is_some() => {}
                OneNodeChange::Done => {
                    prepared.inserted = true;
                    self.tree.len.fetch_add(1, Relaxed);
                    return 0;
                }
                OneNodeChange::Conflict => self.restarted(relax),
                OneNodeChange::Structure | OneNodeChange::Refused => break,
            }
        }
        let _structure = self.lock_structure();
        let mut held = Held::new(&self.tree, || self.wait_for_node(relax));
        let (path, _) = self.tree.path(prepared.separator, &mut held);
        // From here on it waits for nothing: the nodes above change by this thread alone.
        prepared.inserted = true;
        let splits = self.tree.insert_at(&path, entry, &mut held);
        held.unlock();
        self.tree.tend_directory();
        splits
    }

    /// Inserts if the bottom node has room.
    fn insert_into_one(
        &self,
        relax: &impl Fn(),
        separator: K::Ref<'_>,
        entry: Entry,
    ) -> OneNodeChange {
        let (place, ()) = self.visit(relax, separator, SeekMode::Covering, |_| ());
        place.slot.map_or(OneNodeChange::Structure, |place| self.insert_at_place(place, entry))
    }

    /// Inserts behind a slot of a node, if that has room and is still as it was seen.
    fn insert_at_place(&self, (at, slot): (Visited<'_>, usize), entry: Entry) -> OneNodeChange {
        if at.seen.count() == CAPACITY {
            return OneNodeChange::Structure;
        }
        self.change_one(at, || {
            self.tree.nodes.insert_entry(&self.tree.separators, at.node, slot + 1, entry)
        })
    }

    /// Removes the child that covers `key`; its left neighbour covers its range from now on. False,
    /// and nothing is done, if it is the first child: that one cannot go. The caller holds the lock
    /// of the child's leaf.
    ///
    /// Where the node keeps enough children and the child is not its first: as
    /// [`insert`](SharedInner::insert).
    pub fn remove(&self, relax: &impl Fn(), key: K::Ref<'_>) -> bool {
        if let Some(removed) = self.remove_in_transaction(relax, key) {
            return removed;
        }
        while !self.is_transactional() {
            match self.remove_from_one(relax, key) {
                OneNodeChange::Done => return true,
                OneNodeChange::Refused => return false,
                OneNodeChange::Conflict => self.restarted(relax),
                OneNodeChange::Structure => break,
            }
        }
        let _structure = self.lock_structure();
        let mut held = Held::new(&self.tree, || self.wait_for_node(relax));
        let (path, _) = self.tree.path(key, &mut held);
        let removed = self.tree.remove_at(&path, &mut held);
        held.unlock();
        self.tree.tend_directory();
        removed
    }

    /// Makes `child` the one that covers what `old` covers, which covers `key`; false, and nothing
    /// is done, if `old` does not. The caller holds the locks of the leaves of both.
    pub fn replace(&self, relax: &impl Fn(), key: K::Ref<'_>, old: u64, child: u64) -> bool {
        debug_assert!(!self.is_transactional(), "not written for transactions");
        loop {
            let (place, ()) = self.visit(relax, key, SeekMode::Covering, |_| ());
            if place.child != old {
                return false;
            }
            let Some((at, slot)) = place.slot else {
                if self.replace_only(old, child) {
                    return true;
                }
                self.restarted(relax);
                continue;
            };
            let set = || self.tree.nodes.set_child(at.node, slot, child);
            match self.change_one(at, set) {
                OneNodeChange::Done => return true,
                _ => self.restarted(relax),
            }
        }
    }

    /// The same where `old` is the only child; false if there are nodes by now.
    fn replace_only(&self, old: u64, child: u64) -> bool {
        let _structure = self.lock_structure();
        let is_only = self.tree.height() == 0 && self.tree.only_child.load(Relaxed) == old;
        if is_only {
            self.tree.only_child.store(child, Relaxed);
            self.tree.set_root(0, 0); // With another version: who has seen it looks again.
        }
        is_only
    }

    /// Removes if only the bottom node must change: neither its first slot, nor so many that it
    /// would be merged.
    fn remove_from_one(&self, relax: &impl Fn(), key: K::Ref<'_>) -> OneNodeChange {
        let (place, removed) =
            self.visit(relax, key, SeekMode::Covering, |place| self.lower(place));
        if removed.is_smallest::<K>() {
            return OneNodeChange::Refused;
        }
        let fewest = if place.height == 1 { 2 } else { Inner::<K, CAPACITY>::FEW };
        match place.slot {
            Some((at, slot)) if slot > 0 && at.seen.count() > fewest => {
                let outcome = self.change_one(at, || self.tree.nodes.remove_entry(at.node, slot));
                if let OneNodeChange::Done = outcome {
                    K::release(&self.tree.separators, removed.handle);
                    self.tree.len.fetch_sub(1, Relaxed);
                }
                outcome
            }
            _ => OneNodeChange::Structure,
        }
    }

    /// Locks a node if it is still as it was seen, changes and unlocks it.
    #[inline(always)]
    fn change_one(&self, at: Visited<'_>, change: impl FnOnce()) -> OneNodeChange {
        if !latch::try_lock(at.atom, at.seen) {
            return OneNodeChange::Conflict;
        }
        change();
        latch::unlock::<NodeWord>(at.atom);
        OneNodeChange::Done
    }
}
