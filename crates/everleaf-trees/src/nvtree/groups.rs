//! The memory of leaves: taken from the pool many at a time, in runs that the pool lists. Which of
//! their leaves are free is known in DRAM only, and to recovery by the list of leaves: what that
//! does not lead to is free. So nothing leaks, and a split writes nothing to allocate.
//!
//! One leaf is always free, for a full leaf can then be replaced in a full pool.

use everleaf_index::IndexError;
use everleaf_pmem::{Media, site};
use everleaf_pool::{Run, Worker};

use super::layout::{LEAVES, Shape};
use super::leaf::Leaf;
use crate::support::key::TreeKey;

/// A run and how many of its leaves are in the list.
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

/// Offsets of the leaves of a run.
pub(super) fn leaves_of(run: Run, leaf_bytes: u64) -> impl DoubleEndedIterator<Item = u64> {
    (0..run.bytes / leaf_bytes).map(move |i| run.offset + i * leaf_bytes)
}

impl Groups {
    /// Over the groups found in the pool, ordered by their offsets, and their free leaves.
    pub fn new(groups: Vec<Group>, free: Vec<u64>, leaf_bytes: u64, group_bytes: u64) -> Self {
        // Two leaves: one of them stays free.
        Self { groups, free, leaf_bytes, group_bytes: group_bytes.max(2 * leaf_bytes) }
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

    /// The group that holds a leaf's place.
    fn position(&self, offset: u64) -> Option<usize> {
        let after = self.groups.partition_point(|group| group.run.offset <= offset);
        let position = after.checked_sub(1)?;
        let run = self.groups[position].run;
        (offset - run.offset < run.bytes).then_some(position)
    }

    /// Takes so many free leaves, or none if the pool is full; one more stays free if `growing`.
    /// For byte-string keys their bounds and key words are null.
    pub fn take<K: TreeKey, M: Media>(
        &mut self,
        worker: &mut Worker<M>,
        shape: Shape,
        count: usize,
        growing: bool,
    ) -> Result<[u64; 2], IndexError> {
        let needed = if growing { count.max(2) } else { count };
        while self.free.len() < needed {
            self.add_group::<K, M>(worker, shape)?;
        }
        let mut taken = [0; 2];
        for offset in &mut taken[..count.min(2)] {
            *offset = self.free.pop().unwrap_or_default();
            if let Some(position) = self.position(*offset) {
                self.groups[position].used += 1;
            }
        }
        Ok(taken)
    }

    fn add_group<K: TreeKey, M: Media>(
        &mut self,
        worker: &mut Worker<M>,
        shape: Shape,
    ) -> Result<(), IndexError> {
        let leaf_bytes = self.leaf_bytes;
        // G1: every leaf of the new run is clean. Crash: the run is not published, its memory is
        // free. The pool fences and publishes.
        let run = worker.alloc_run(LEAVES, self.group_bytes, |pool, run| {
            if K::RECORDS {
                leaves_of(run, leaf_bytes)
                    .flat_map(|offset| Leaf::at(pool.media().region(), offset, shape))
                    .for_each(|leaf| clear(pool.media(), leaf));
            }
            Ok(())
        })?;
        let at = self.groups.partition_point(|group| group.run.offset < run.offset);
        self.groups.insert(at, Group { run, used: 0 });
        self.free.extend(leaves_of(run, leaf_bytes).rev());
        Ok(())
    }

    /// Takes a clean leaf back that is not in the list. When that empties its group and other
    /// leaves are free, the group goes back to the pool; while there are none it is kept, so that
    /// removals and insertions at the border of a group do not allocate every time.
    pub fn give_back<M: Media>(
        &mut self,
        offset: u64,
        worker: &mut Worker<M>,
    ) -> Result<(), IndexError> {
        self.free.push(offset);
        let Some(position) = self.position(offset) else { return Ok(()) };
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

/// Makes the bound and the key words of a leaf null.
fn clear<M: Media>(media: &M, leaf: Leaf<'_>) {
    media.store(&leaf.head.lower_bound, 0);
    media.flush(site!("nvtree.group.G1.bound"), &leaf.head.lower_bound);
    let slots = 0..leaf.shape().slots();
    slots.clone().for_each(|slot| media.store(leaf.key(slot), 0));
    leaf.flush_keys(media, site!("nvtree.group.G1.keys"), slots);
}
