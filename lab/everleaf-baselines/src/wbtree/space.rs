//! The memory of nodes: taken from the pool many at a time, in runs that the pool lists.
//!
//! Which nodes are free is persistent, so that opening need not follow the tree: those that were in
//! use before are a list, the others are behind those that the head of their run counts. Both words
//! change by the log, with what takes or frees the nodes. So nothing leaks, and an allocation costs
//! no flush but that of the line which has the word. A run that no node was taken from, because a
//! crash came first, is found by its head. Runs are not given back.

use everleaf_index::{IndexError, Result};
use everleaf_pmem::{Media, PCell, PPtr, WORD, Word, site};
use everleaf_pool::{Run, Worker};

use super::layout::{FREE, NODES, Shape, WbNode};
use super::node::Node;
use super::redo::Redo;
use super::search::Nodes;
use everleaf_tree::key::TreeKey;

/// The runs.
pub(super) struct Space {
    runs: Vec<Run>,
    /// Those that have nodes which were never taken.
    fresh: Vec<Run>,
    group_bytes: u64,
}

/// The word of a run that says how many of its nodes were taken, the head among them.
pub(super) fn taken_cell<M: Media>(media: &M, run: Run) -> Result<&PCell> {
    let offset = run.offset;
    let cells = media.region().cells(offset, 1);
    Ok(&cells.ok_or(IndexError::Corrupt { offset, what: "a run reaches beyond the pool" })?[0])
}

/// How many nodes of a run were taken, the head among them.
pub(super) fn taken_of<M: Media>(media: &M, run: Run, shape: Shape) -> Result<u64> {
    let taken = media.load(taken_cell(media, run)?);
    if (1..=run.bytes / shape.node_bytes()).contains(&taken) {
        return Ok(taken);
    }
    let what = "the head of a run counts nodes that it does not have";
    Err(IndexError::Corrupt { offset: run.offset, what })
}

impl Space {
    /// Over these runs of the pool.
    pub fn open<M: Media>(
        media: &M,
        shape: Shape,
        runs: Vec<Run>,
        group_bytes: u64,
    ) -> Result<Self> {
        let mut fresh = Vec::new();
        for run in &runs {
            if taken_of(media, *run, shape)? < run.bytes / shape.node_bytes() {
                fresh.push(*run);
            }
        }
        let group_bytes = group_bytes.max(2 * shape.node_bytes());
        Ok(Self { runs, fresh, group_bytes })
    }

    /// All runs.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Bytes of the pool in runs.
    pub fn pm_bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.bytes).sum()
    }

    /// Bytes of DRAM.
    pub fn dram_bytes(&self) -> u64 {
        ((self.runs.capacity() + self.fresh.capacity()) * size_of::<Run>()) as u64
    }

    /// So many free nodes, which the change under way takes.
    ///
    /// # Errors
    /// The pool is full.
    pub fn take<K: TreeKey, M: Media>(
        &mut self,
        nodes: Nodes<'_, K, M>,
        worker: &mut Worker<M>,
        redo: &mut Redo,
        count: usize,
    ) -> Result<Vec<u64>> {
        let (media, shape, anchor) = (nodes.media(), nodes.shape, nodes.anchor()?);
        let mut found = Vec::new();
        let mut first = media.load(&anchor.free).offset();
        while found.len() < count && first != 0 {
            found.push(first);
            first = Node::after_free(media, first, shape)?;
        }
        if !found.is_empty() {
            set_free(nodes, redo, first)?;
        }
        let mut index = 0;
        while found.len() < count {
            if index == self.fresh.len() {
                self.grow(worker)?;
            }
            let run = self.fresh[index];
            let (taken, all) = (taken_of(media, run, shape)?, run.bytes / shape.node_bytes());
            let more = (count - found.len()) as u64;
            let after = all.min(taken + more);
            found.extend((taken..after).map(|number| run.offset + number * shape.node_bytes()));
            if after > taken {
                redo.set(run.offset, [after]);
            }
            index += 1;
        }
        Ok(found)
    }

    /// Forgets runs of which every node was taken.
    pub fn taken<M: Media>(&mut self, media: &M, shape: Shape) {
        let has_more = |run: &Run| {
            taken_of(media, *run, shape).is_ok_and(|taken| taken < run.bytes / shape.node_bytes())
        };
        self.fresh.retain(has_more);
    }

    fn grow<M: Media>(&mut self, worker: &mut Worker<M>) -> Result<()> {
        let run = worker.alloc_run(NODES, self.group_bytes, |pool, run| {
            // G1: the head alone was taken. Crash: the run is not published, its memory is free.
            // The pool fences and publishes.
            if let Some([taken]) = pool.media().region().cells(run.offset, 1) {
                pool.media().store(taken, 1);
                pool.media().flush(site!("wbtree.space.G1.head"), taken);
            }
            Ok(())
        })?;
        let at = self.runs.partition_point(|other| other.offset < run.offset);
        self.runs.insert(at, run);
        self.fresh.push(run);
        Ok(())
    }
}

/// The first free node.
fn set_free<K: TreeKey, M: Media>(
    nodes: Nodes<'_, K, M>,
    redo: &mut Redo,
    first: u64,
) -> Result<()> {
    let place = nodes.pool.pointer_to(&nodes.anchor()?.free).offset();
    redo.set(place, [PPtr::<WbNode>::at(first).into_word()]);
    Ok(())
}

/// The change under way takes nodes out of the tree: they come before the other free ones.
pub(super) fn retire<K: TreeKey, M: Media>(
    nodes: Nodes<'_, K, M>,
    redo: &mut Redo,
    retired: &[u64],
) -> Result<()> {
    let mut first = nodes.media().load(&nodes.anchor()?.free).offset();
    for offset in retired {
        let place = offset + (nodes.shape.free_index() * WORD) as u64;
        redo.set(place, [FREE, first]);
        first = *offset;
    }
    set_free(nodes, redo, first)
}
