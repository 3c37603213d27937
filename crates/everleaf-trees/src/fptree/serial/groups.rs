//! Leaf groups: leaves are taken from the pool many at a time (FPTree, section 4.3 and appendix B).
//!
//! A group is a run of the pool. The pool publishes a run by one p-atomic store and lists the runs,
//! so the paper's linked list of groups and its two micro-logs are not needed. Which leaves are
//! free is known in DRAM only, and to recovery by their bitmaps.

use everleaf_index::IndexError;
use everleaf_pmem::{Media, site};
use everleaf_pool::{Run, Worker};

use crate::fptree::layout::{LEAVES, Shape, SlotSet};
use crate::fptree::leaf::Leaf;
use crate::support::key::TreeKey;

/// A run and how many of its leaves belong to the tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    pub run: Run,
    pub used: u64,
}

/// The groups, by offset, and the stack of free leaves.
pub(super) struct Groups {
    groups: Vec<Group>,
    free: Vec<u64>,
    leaf_bytes: u64,
    group_bytes: u64,
}

impl Groups {
    /// Over the groups found in the pool, ordered by their offsets, and their free leaves.
    pub fn new(groups: Vec<Group>, free: Vec<u64>, leaf_bytes: u64, group_bytes: u64) -> Self {
        Self { groups, free, leaf_bytes, group_bytes: group_bytes.max(leaf_bytes) }
    }

    /// All groups.
    pub fn all(&self) -> &[Group] {
        &self.groups
    }

    /// The free leaves.
    pub fn free(&self) -> &[u64] {
        &self.free
    }

    /// Bytes of the pool in groups.
    pub fn pm_bytes(&self) -> u64 {
        self.groups.iter().map(|group| group.run.bytes).sum()
    }

    /// Bytes of DRAM.
    pub fn dram_bytes(&self) -> u64 {
        (self.groups.capacity() * size_of::<Group>() + self.free.capacity() * size_of::<u64>())
            as u64
    }

    /// Offsets of the leaves of a run.
    pub fn leaves(run: Run, leaf_bytes: u64) -> impl DoubleEndedIterator<Item = u64> + Clone {
        (0..run.bytes / leaf_bytes).map(move |i| run.offset + i * leaf_bytes)
    }

    /// The group that holds a leaf's place.
    fn position(&self, leaf_offset: u64) -> Option<usize> {
        let after = self.groups.partition_point(|group| group.run.offset <= leaf_offset);
        let position = after.checked_sub(1)?;
        let run = self.groups[position].run;
        let within = leaf_offset - run.offset;
        (within.is_multiple_of(self.leaf_bytes)
            && within / self.leaf_bytes < run.bytes / self.leaf_bytes)
            .then_some(position)
    }

    /// Takes a free leaf: its bitmap is 0, and for byte-string keys its bound and key words are
    /// null. Takes a group from the pool if there is none.
    #[inline]
    pub fn take<K: TreeKey, M: Media, S: Shape>(
        &mut self,
        worker: &mut Worker<M>,
        shape: S,
    ) -> Result<u64, IndexError> {
        if self.free.is_empty() {
            self.add_group::<K, M, S>(worker, shape)?;
        }
        let out = IndexError::Corrupt {
            offset: 0,
            what: "a leaf group of the pool is smaller than a leaf",
        };
        let leaf_offset = self.free.pop().ok_or(out)?;
        if let Some(position) = self.position(leaf_offset) {
            self.groups[position].used += 1;
        }
        Ok(leaf_offset)
    }

    fn add_group<K: TreeKey, M: Media, S: Shape>(
        &mut self,
        worker: &mut Worker<M>,
        shape: S,
    ) -> Result<(), IndexError> {
        let leaf_bytes = self.leaf_bytes;
        // G1: every leaf of the new run is made free. Crash: the run is not published, its memory
        // is free. The pool fences and publishes.
        let run = worker.alloc_run(LEAVES, self.group_bytes, |pool, run| {
            let leaves = Self::leaves(run, leaf_bytes)
                .map(|leaf_offset| Leaf::at(pool.media().region(), leaf_offset, shape));
            leaves.flatten().for_each(|leaf| clear::<K, M, S>(pool.media(), leaf, shape));
            Ok(())
        })?;
        let at = self.groups.partition_point(|group| group.run.offset < run.offset);
        self.groups.insert(at, Group { run, used: 0 });
        self.free.extend(Self::leaves(run, leaf_bytes).rev());
        Ok(())
    }

    /// Takes a leaf back that has left the tree. When that empties its group and other leaves are
    /// free, the group goes back to the pool; while there are none it is kept, so that removals and
    /// insertions at the border of a group do not allocate every time.
    pub fn give_back<M: Media>(
        &mut self,
        leaf_offset: u64,
        worker: &mut Worker<M>,
    ) -> Result<(), IndexError> {
        self.free.push(leaf_offset);
        let Some(position) = self.position(leaf_offset) else { return Ok(()) };
        self.groups[position].used -= 1;
        let Group { run, used } = self.groups[position];
        let leaves = run.bytes / self.leaf_bytes;
        if used > 0 || self.free.len() as u64 <= leaves {
            return Ok(());
        }
        let end = run.offset + run.bytes;
        self.free.retain(|leaf| !(run.offset..end).contains(leaf));
        self.groups.remove(position);
        Ok(worker.free_run(LEAVES, run.offset)?)
    }
}

/// Makes the leaf of an unpublished run free.
fn clear<K: TreeKey, M: Media, S: Shape>(media: &M, leaf: Leaf<'_, S>, shape: S) {
    media.store(leaf.bitmap(), SlotSet::EMPTY);
    media.flush(site!("fptree.group.G1.bitmap"), leaf.bitmap());
    if K::RECORDS {
        media.store(&leaf.head.lower_bound, 0);
        media.flush(site!("fptree.group.G1.bound"), &leaf.head.lower_bound);
        for slot in shape.all() {
            media.store(leaf.key(slot), 0);
        }
        leaf.flush_keys(media, site!("fptree.group.G1.keys"), shape.all());
    }
}
