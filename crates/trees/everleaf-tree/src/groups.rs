//! The memory of leaves, taken from the pool many at a time (FPTree, section 4.3 and appendix B).
//!
//! A group is a run of the pool. The pool publishes a run by one p-atomic store and lists the runs,
//! so the paper's linked list of groups and its two micro-logs are not needed. Which leaves are
//! free is known in DRAM only, and to the recovery of each tree. So nothing leaks, and a split
//! writes nothing to allocate.

use everleaf_index::Result;
use everleaf_pmem::Media;
use everleaf_pool::{NodeKind, Run, Worker};

use super::image::Lines;

/// A run and how many of its leaves belong to the tree.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// The run.
    pub run: Run,
    /// Its leaves that belong to the tree.
    pub used: u64,
}

/// The groups, by offset, and the stack of free leaves.
pub struct Groups {
    kind: NodeKind,
    groups: Vec<Group>,
    free: Vec<u64>,
    leaf_bytes: u64,
    group_bytes: u64,
}

/// Offsets of the leaves of a run.
pub fn leaves_of(run: Run, leaf_bytes: u64) -> impl DoubleEndedIterator<Item = u64> + Clone {
    (0..run.bytes / leaf_bytes).map(move |i| run.offset + i * leaf_bytes)
}

impl Groups {
    /// Over the groups of this kind that were found in the pool, ordered by their offsets, and
    /// their free leaves. New groups have `group_bytes`, or as many as a leaf has.
    pub fn new(
        kind: NodeKind,
        groups: Vec<Group>,
        free: Vec<u64>,
        leaf_bytes: u64,
        group_bytes: u64,
    ) -> Self {
        Self { kind, groups, free, leaf_bytes, group_bytes: group_bytes.max(leaf_bytes) }
    }

    /// Over these runs, whose leaves in use are these and whose others are free; the lowest is
    /// taken first. None if one is not a leaf of a run, or is there twice.
    pub fn around(
        kind: NodeKind,
        runs: &[Run],
        used: impl Iterator<Item = u64>,
        leaf_bytes: u64,
        group_bytes: u64,
    ) -> Option<Self> {
        let end = runs.last().map_or(0, |run| run.offset + run.bytes);
        let (mut lines, mut leaves) = (Lines::none(end), 0);
        for leaf in used {
            if !lines.add(leaf) {
                return None;
            }
            leaves += 1;
        }
        let mut free = Vec::new();
        let group = |run: &Run| {
            let before = free.len() as u64;
            free.extend(leaves_of(*run, leaf_bytes).rev().filter(|leaf| !lines.contains(*leaf)));
            Group { run: *run, used: run.bytes / leaf_bytes - (free.len() as u64 - before) }
        };
        let mut groups: Vec<Group> = runs.iter().rev().map(group).collect();
        groups.reverse();
        let found: u64 = groups.iter().map(|group| group.used).sum();
        (found == leaves).then(|| Self::new(kind, groups, free, leaf_bytes, group_bytes))
    }

    /// All groups.
    pub fn all(&self) -> &[Group] {
        &self.groups
    }

    /// The free leaves.
    pub fn free(&self) -> &[u64] {
        &self.free
    }

    /// Leaves that belong to the tree.
    pub fn used(&self) -> u64 {
        self.groups.iter().map(|group| group.used).sum()
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
    fn position(&self, leaf_offset: u64) -> Option<usize> {
        let after = self.groups.partition_point(|group| group.run.offset <= leaf_offset);
        let position = after.checked_sub(1)?;
        let run = self.groups[position].run;
        let within = leaf_offset - run.offset;
        (within.is_multiple_of(self.leaf_bytes)
            && within / self.leaf_bytes < run.bytes / self.leaf_bytes)
            .then_some(position)
    }

    /// Takes a free leaf, if there is one.
    #[inline]
    pub fn pop(&mut self) -> Option<u64> {
        let leaf_offset = self.free.pop()?;
        if let Some(position) = self.position(leaf_offset) {
            self.groups[position].used += 1;
        }
        Some(leaf_offset)
    }

    /// Takes a group from the pool, each of whose leaves `clear` makes free.
    ///
    /// # Errors
    /// The pool is full.
    pub fn grow<M: Media>(
        &mut self,
        worker: &mut Worker<M>,
        clear: impl Fn(&M, u64),
    ) -> Result<()> {
        let leaf_bytes = self.leaf_bytes;
        // G1: every leaf of the new run is made free. Crash: the run is not published, its memory
        // is free. The pool fences and publishes.
        let run = worker.alloc_run(self.kind, self.group_bytes, |pool, run| {
            leaves_of(run, leaf_bytes).for_each(|leaf_offset| clear(pool.media(), leaf_offset));
            Ok(())
        })?;
        let at = self.groups.partition_point(|group| group.run.offset < run.offset);
        self.groups.insert(at, Group { run, used: 0 });
        self.free.extend(leaves_of(run, leaf_bytes).rev());
        Ok(())
    }

    /// Takes a leaf back that has left the tree, and keeps its group; the group's place.
    pub fn keep(&mut self, leaf_offset: u64) -> Option<usize> {
        self.free.push(leaf_offset);
        let position = self.position(leaf_offset)?;
        self.groups[position].used -= 1;
        Some(position)
    }

    /// Takes a leaf back that has left the tree. When that empties its group and other leaves are
    /// free, the group goes back to the pool; while there are none it is kept, so that removals and
    /// insertions at the border of a group do not allocate every time.
    ///
    /// # Errors
    /// The pool is damaged.
    pub fn give_back<M: Media>(&mut self, leaf_offset: u64, worker: &mut Worker<M>) -> Result<()> {
        let Some(position) = self.keep(leaf_offset) else { return Ok(()) };
        let Group { run, used } = self.groups[position];
        let leaves = run.bytes / self.leaf_bytes;
        if used > 0 || self.free.len() as u64 <= leaves {
            return Ok(());
        }
        let end = run.offset + run.bytes;
        self.free.retain(|leaf| !(run.offset..end).contains(leaf));
        self.groups.remove(position);
        Ok(worker.free_run(self.kind, run.offset)?)
    }
}
