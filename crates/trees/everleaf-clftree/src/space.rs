//! The memory of nodes of one size: taken from the pool many at a time, in runs that the pool
//! lists. Which nodes are free is known in DRAM only, and to recovery by the tree: what the root
//! does not lead to is free. So nothing leaks, and nothing is written to allocate or to free.
//!
//! A node is taken as near as possible to another one: the nearer children are to each other, the
//! fewer bytes their differences need.

use std::collections::BTreeSet;

use everleaf_index::{IndexError, Result};
use everleaf_pmem::Media;
use everleaf_pool::{NodeKind, Run, Worker};

/// A run and how many of its nodes are in the tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    pub run: Run,
    pub used: u64,
}

/// The runs, by offset, and the free nodes.
pub(super) struct Space {
    kind: NodeKind,
    groups: Vec<Group>,
    free: BTreeSet<u64>,
    node_bytes: u64,
    group_bytes: u64,
}

/// Offsets of the nodes of a run.
pub(super) fn nodes_of(run: Run, node_bytes: u64) -> impl DoubleEndedIterator<Item = u64> {
    (0..run.bytes / node_bytes).map(move |i| run.offset + i * node_bytes)
}

impl Space {
    /// Over the runs of this kind that are found in the pool, ordered by their offsets; all of
    /// their nodes are free so far.
    pub fn new(kind: NodeKind, runs: &[Run], node_bytes: u64, group_bytes: u64) -> Self {
        let groups = runs.iter().map(|run| Group { run: *run, used: 0 }).collect();
        let free = runs.iter().flat_map(|run| nodes_of(*run, node_bytes)).collect();
        Self { kind, groups, free, node_bytes, group_bytes }
    }

    /// What kind of nodes it has.
    pub fn kind(&self) -> NodeKind {
        self.kind
    }

    /// Bytes of a node.
    pub fn node_bytes(&self) -> u64 {
        self.node_bytes
    }

    /// All runs.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Whether a node is free.
    pub fn is_free(&self, offset: u64) -> bool {
        self.free.contains(&offset)
    }

    /// Nodes in the tree.
    pub fn used(&self) -> u64 {
        self.groups.iter().map(|group| group.used).sum()
    }

    /// Bytes of the pool in runs.
    pub fn pm_bytes(&self) -> u64 {
        self.groups.iter().map(|group| group.run.bytes).sum()
    }

    /// Bytes of DRAM.
    pub fn dram_bytes(&self) -> u64 {
        (self.groups.capacity() * size_of::<Group>() + self.free.len() * size_of::<u64>()) as u64
    }

    /// The run that holds a node's place.
    fn position(&self, offset: u64) -> Option<usize> {
        let after = self.groups.partition_point(|group| group.run.offset <= offset);
        let position = after.checked_sub(1)?;
        let run = self.groups[position].run;
        (offset - run.offset < run.bytes).then_some(position)
    }

    /// Notes that the tree leads to this node.
    pub fn reach(&mut self, offset: u64) -> Result<()> {
        let damaged = |what| Err(IndexError::Corrupt { offset, what });
        match self.position(offset) {
            Some(_) if !offset.is_multiple_of(self.node_bytes) => {
                damaged("the tree leads to the middle of a node")
            }
            Some(position) if self.free.remove(&offset) => {
                self.groups[position].used += 1;
                Ok(())
            }
            Some(_) => damaged("the tree leads to a node twice"),
            None => damaged("the tree leads to no node"),
        }
    }

    /// Takes the free node that is nearest to this place, or none if the pool is full.
    pub fn take<M: Media>(&mut self, worker: &mut Worker<M>, near: u64) -> Result<u64> {
        if self.free.is_empty() {
            self.add_group(worker)?;
        }
        let below = self.free.range(..near).next_back().copied();
        let above = self.free.range(near..).next().copied();
        let nearest = match (below, above) {
            (Some(below), Some(above)) if near - below <= above - near => below,
            (Some(below), None) => below,
            (_, above) => above.unwrap_or_default(),
        };
        self.reach(nearest)?;
        Ok(nearest)
    }

    fn add_group<M: Media>(&mut self, worker: &mut Worker<M>) -> Result<()> {
        let run = worker.alloc_run(self.kind, self.group_bytes, |_, _| Ok(()))?;
        let at = self.groups.partition_point(|group| group.run.offset < run.offset);
        self.groups.insert(at, Group { run, used: 0 });
        self.free.extend(nodes_of(run, self.node_bytes));
        Ok(())
    }

    /// Takes a node back that is not in the tree. When that empties its run and as many others are
    /// free, the run goes back to the pool; while there are none it is kept, so that removals and
    /// insertions at the border of a run do not allocate every time.
    pub fn give_back<M: Media>(&mut self, offset: u64, worker: &mut Worker<M>) -> Result<()> {
        let Some(position) = self.position(offset) else { return Ok(()) };
        if !self.free.insert(offset) {
            return Ok(());
        }
        self.groups[position].used -= 1;
        let Group { run, used } = self.groups[position];
        if used > 0 || self.free.len() as u64 <= run.bytes / self.node_bytes {
            return Ok(());
        }
        nodes_of(run, self.node_bytes).for_each(|node| _ = self.free.remove(&node));
        self.groups.remove(position);
        Ok(worker.free_run(self.kind, run.offset)?)
    }
}
