//! Opening: the last operation of the log is done again, the nodes are followed from the root, and
//! every other one is free.
//!
//! | crash state | found as | action |
//! |---|---|---|
//! | creation, before its commit | no root | an empty leaf becomes it |
//! | S1, P1; before P2 is durable | the other half of the log is newer | as the next |
//! | after P2, whatever of P3 is durable | the newest half of the log | its records are stored |
//! | nodes outside the tree | the root does not lead to them | none: they are free |
//!
//! The action may be cut by a crash and is then done again by the next recovery: it stores the same
//! words. Nothing is flushed, for the log still has them.

use std::marker::PhantomData;
use std::sync::Arc;

use everleaf_index::{IndexError, Result};
use everleaf_pmem::Media;
use everleaf_pool::{Pool, Run};

use super::LcbTree;
use super::engine::Parameters;
use super::insert::write_fresh;
use super::layout::{LOG, NODES, Shape};
use super::redo::{Redo, make_log};
use super::search::Nodes;
use everleaf_tree::fresh::require_fresh;
use everleaf_tree::groups::{Group, Groups, leaves_of};
use everleaf_tree::key::TreeKey;
use everleaf_tree::redo::Target;

impl<K: TreeKey, M: Media> LcbTree<K, M> {
    /// Opens what the pool holds; an empty tree if it is fresh.
    ///
    /// # Errors
    /// [`IndexError::Corrupt`] or [`IndexError::Pool`] if damage is met, or a fresh pool has no
    /// room for the log and one group of nodes.
    pub(super) fn open(pool: &Arc<Pool<M>>, shape: Shape, parameters: Parameters) -> Result<Self> {
        let mut worker = pool.worker()?;
        let nodes = Nodes::new(pool, shape);
        let runs = pool.runs(NODES)?;
        let log = match pool.runs(LOG)?.first() {
            Some(run) if run.bytes >= shape.log_bytes() => run.offset,
            Some(Run { offset, .. }) => {
                let what = "the log is shorter than nodes of this size need";
                return Err(IndexError::Corrupt { offset: *offset, what });
            }
            None => make_log(&mut worker, shape)?,
        };
        let root = pool.pointer_to(&nodes.anchor()?.root).offset();
        let is_target = |target: Target| {
            (target.offset(), target.words()) == (root, 1)
                || target.is_in_a_node(&runs, shape.node_bytes())
        };
        let mut redo = Redo::open(pool, shape, parameters.logging, log, is_target)?;
        let mut reached = Reached::new(&runs, shape.node_bytes());
        let is_fresh = nodes.media().load(&nodes.anchor()?.root).is_null();
        if is_fresh {
            require_fresh(pool)?;
        }
        if !is_fresh {
            reached.follow(nodes)?;
        } else if redo.has_committed() {
            // The first operation of all has stored one.
            return Err(IndexError::Corrupt {
                offset: root,
                what: "the tree has no root any more",
            });
        }
        let (groups, free) = (reached.groups(), reached.others());
        let mut groups =
            Groups::new(NODES, groups, free, shape.node_bytes(), parameters.group_bytes);
        if is_fresh {
            if groups.free().is_empty() {
                groups.grow(&mut worker, |_, _| {})?;
            }
            let leaf = groups.pop().unwrap_or_default();
            write_fresh(nodes, leaf, 0, [].into_iter())?;
            redo.set_root(nodes, leaf)?;
            redo.commit(nodes)?;
            reached.leaves = 1;
        }
        let Reached { keys, leaves, .. } = reached;
        let (pool, kind) = (Arc::clone(pool), PhantomData);
        Ok(Self { pool, worker, groups, redo, shape, keys, leaves, kind })
    }
}

/// Which of all nodes the root leads to, and what they hold.
struct Reached<'r> {
    runs: &'r [Run],
    node_bytes: u64,
    /// By run, by number in the run.
    nodes: Vec<Vec<bool>>,
    keys: u64,
    leaves: u64,
}

impl<'r> Reached<'r> {
    fn new(runs: &'r [Run], node_bytes: u64) -> Self {
        let nodes = runs.iter().map(|run| vec![false; (run.bytes / node_bytes) as usize]);
        Self { runs, node_bytes, nodes: nodes.collect(), keys: 0, leaves: 0 }
    }

    /// Follows the tree from its root. No node is reached twice, so there are as many steps as
    /// nodes.
    fn follow<M: Media>(&mut self, nodes: Nodes<'_, M>) -> Result<()> {
        let mut to_visit = vec![nodes.root()?];
        while let Some(node) = to_visit.pop() {
            self.reach(node.offset())?;
            if node.level() == 0 {
                self.keys += node.count() as u64;
                self.leaves += 1;
                continue;
            }
            node.expect_element()?;
            for slot in (0..node.count()).rev() {
                to_visit.push(nodes.child(node, slot)?);
            }
        }
        Ok(())
    }

    /// Notes a node that the tree leads to.
    fn reach(&mut self, offset: u64) -> Result<()> {
        let damaged = |what| IndexError::Corrupt { offset, what };
        let after = self.runs.partition_point(|run| run.offset <= offset);
        let run = after.checked_sub(1).ok_or(damaged("the tree leads to no node"))?;
        let within = offset - self.runs[run].offset;
        match self.nodes[run].get_mut((within / self.node_bytes) as usize) {
            Some(reached) if within.is_multiple_of(self.node_bytes) => {
                if std::mem::replace(reached, true) {
                    return Err(damaged("the tree leads to a node twice"));
                }
                Ok(())
            }
            _ => Err(damaged("the tree leads to no node")),
        }
    }

    /// The runs, and how many of their nodes were reached.
    fn groups(&self) -> Vec<Group> {
        let used = |nodes: &Vec<bool>| nodes.iter().filter(|reached| **reached).count() as u64;
        let groups = self.runs.iter().zip(&self.nodes);
        groups.map(|(run, nodes)| Group { run: *run, used: used(nodes) }).collect()
    }

    /// The nodes that were not reached, the greatest offset first: the lowest is taken first.
    fn others(&self) -> Vec<u64> {
        let all = self.runs.iter().zip(&self.nodes);
        let all = all.flat_map(|(run, nodes)| leaves_of(*run, self.node_bytes).zip(nodes));
        let mut others: Vec<u64> =
            all.filter_map(|(offset, reached)| (!reached).then_some(offset)).collect();
        others.reverse();
        others
    }
}
