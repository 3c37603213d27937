//! Opening: what an operation has done that was not committed is undone, the nodes are followed
//! from the root, and every other one is free.
//!
//! | crash state | found as | action |
//! |---|---|---|
//! | creation, before its commit | no root, and no version or the first one | an empty leaf becomes it |
//! | S1; P2 before the version | nothing leads there | none |
//! | P1, in the middle of a move | entries twice, an empty slot before others | R1: they move back |
//! | P1, between the moves of two new entries | one that has ended between two copies of a greater one | R1: it is left out |
//! | P1, new entries | they begin with the version to come | R1: the ones behind them move back |
//! | P1, an entry has ended | its end is the version to come | R1: it is live again |
//! | nodes outside the tree | the root does not lead to them | none: they are free |
//!
//! R1 writes the entries that remain to the slots from the first one on, each to its own: what it
//! overwrites was written further below before, or is not to remain. So what a crash leaves of R1
//! is a state of this table again. All of it is durable before the next operation begins, which is
//! of the version that was undone. Nothing is stored where damage is found.

use std::marker::PhantomData;
use std::sync::Arc;

use everleaf_index::{IndexError, Result};
use everleaf_pmem::{Media, planted, site};
use everleaf_pool::{Pool, Run};

use super::CddsTree;
use super::layout::{CddsRoot, Child, Current, EMPTY, LIVE, NODES, Shape, VERSIONS};
use super::node::{Entry, Node};
use super::search::Nodes;
use super::shift::Pass;
use super::split::write_fresh;
use everleaf_tree::fresh::require_fresh;
use everleaf_tree::groups::Groups;
use everleaf_tree::image::Lines;
use everleaf_tree::key::TreeKey;

impl<K: TreeKey, M: Media> CddsTree<K, M> {
    /// Opens what the pool holds; an empty tree if it is fresh.
    ///
    /// # Errors
    /// [`IndexError::Corrupt`] or [`IndexError::Pool`] if damage is met, or a fresh pool has no
    /// room for one group of nodes.
    pub(super) fn open(pool: &Arc<Pool<M>>, shape: Shape, group_bytes: u64) -> Result<Self> {
        let mut worker = pool.worker()?;
        let (current, root) = current_root(pool)?;
        let nodes = Nodes { pool, shape, root };
        let runs = pool.runs(NODES)?;
        let mut survey = Survey::new(&runs, current.version());
        match root == Child::NULL {
            true => require_fresh(pool)?,
            false => survey.follow(nodes)?,
        }
        let Survey { reached, mut leaves, keys, undone, .. } = survey;
        undo(nodes.media(), &undone);
        let (used, node_bytes) = (reached.into_iter(), shape.node_bytes());
        let groups = Groups::around(NODES, &runs, used, node_bytes, group_bytes);
        let Some(mut groups) = groups else {
            return Err(damaged_anchor(pool, "the tree leads to a node twice"));
        };
        if root == Child::NULL {
            if groups.free().is_empty() {
                groups.grow(&mut worker, |_, _| {})?;
            }
            let leaf = Child::new(groups.pop().unwrap_or_default(), 0);
            create(Nodes { root: leaf, ..nodes })?;
            leaves = 1;
        }
        let (current, root) = current_root(pool)?;
        let (pool, kind) = (Arc::clone(pool), PhantomData);
        Ok(Self { pool, worker, groups, shape, current, root, keys, leaves, kind })
    }
}

/// Makes an empty leaf the root of a fresh tree. The flushes of the leaf and 1 more, 2 fences.
fn create<M: Media>(nodes: Nodes<'_, M>) -> Result<()> {
    let (media, anchor) = (nodes.media(), nodes.pool.index_root::<CddsRoot>()?);
    write_fresh(nodes, nodes.root, &[])?;
    // C1: Crash: no root, and the leaf is free.
    media.fence(site!("cdds.create.C1.fence"));
    // C2 COMMIT: the version, then the root, in one line. Crash: no root, or the empty tree. They
    // are durable before there is a record: records beside no root are damage.
    media.store(&anchor.current, Current::FIRST);
    media.order(site!("cdds.create.C2.order"));
    media.store(&anchor.roots[Current::FIRST.root()], nodes.root);
    media.flush(site!("cdds.create.C2.root"), &anchor.current);
    media.fence(site!("cdds.create.C2.fence"));
    Ok(())
}

#[cold]
fn damaged_anchor<M: Media>(pool: &Pool<M>, what: &'static str) -> IndexError {
    let anchor = pool.index_root::<CddsRoot>();
    let offset = anchor.map_or(0, |anchor| pool.pointer_to(&anchor.current).offset());
    IndexError::Corrupt { offset, what }
}

/// The version that the tree is of, and its root; null if it is fresh.
fn current_root<M: Media>(pool: &Pool<M>) -> Result<(Current, Child)> {
    let (media, anchor) = (pool.media(), pool.index_root::<CddsRoot>()?);
    let current = media.load(&anchor.current);
    let roots = [0, 1].map(|root| media.load(&anchor.roots[root]));
    let root = roots[current.root()];
    let is_fresh = roots == [Child::NULL; 2] && current.version() <= Current::FIRST.version();
    if current.version() >= VERSIONS {
        return Err(damaged_anchor(pool, "the tree is of a version that no tree has"));
    }
    match root == Child::NULL {
        true if !is_fresh => Err(damaged_anchor(pool, "the tree has no root any more")),
        false if current.version() == 0 => {
            Err(damaged_anchor(pool, "the tree has no version any more"))
        }
        _ => Ok((current, root)),
    }
}

/// The entries of a node as they were before the version to come.
struct Undone<'p> {
    node: Node<'p>,
    entries: Vec<Entry>,
}

/// The nodes that a root leads to.
struct Survey<'r, 'p> {
    runs: &'r [Run],
    /// The version that the tree is of.
    version: u64,
    lines: Lines,
    reached: Vec<u64>,
    keys: u64,
    leaves: u64,
    /// Those that have something of the version to come.
    undone: Vec<Undone<'p>>,
}

impl<'r, 'p> Survey<'r, 'p> {
    fn new(runs: &'r [Run], version: u64) -> Self {
        let lines = Lines::none(runs.last().map_or(0, |run| run.offset + run.bytes));
        let (reached, undone) = (Vec::new(), Vec::new());
        Self { runs, version, lines, reached, keys: 0, leaves: 0, undone }
    }

    /// Follows the tree from its root. No node is reached twice, so there are as many steps as
    /// nodes.
    fn follow<M: Media>(&mut self, nodes: Nodes<'p, M>) -> Result<()> {
        let mut to_visit = vec![nodes.node(nodes.root)?];
        while let Some(node) = to_visit.pop() {
            self.reach(node, nodes.shape)?;
            let entries = self.entries_of(nodes.media(), node)?;
            let live = entries.iter().filter(|entry| entry.end == LIVE);
            if node.level() == 0 {
                self.keys += live.count() as u64;
                self.leaves += 1;
            } else {
                let children = live.map(|entry| nodes.child_at(node, entry.value));
                let before = to_visit.len();
                to_visit.extend(children.collect::<Result<Vec<_>, _>>()?.into_iter().rev());
                if to_visit.len() == before {
                    return Err(node.damaged("an inner node leads nowhere"));
                }
            }
            let is_as_before =
                |(slot, entry): (usize, &Entry)| node.entry(nodes.media(), slot) == *entry;
            let rest = entries.len()..node.slots();
            if !entries.iter().enumerate().all(is_as_before)
                || rest.into_iter().any(|slot| nodes.media().load(node.start(slot)) != EMPTY)
            {
                self.undone.push(Undone { node, entries });
            }
        }
        Ok(())
    }

    /// Notes a node that the tree leads to.
    fn reach(&mut self, node: Node<'_>, shape: Shape) -> Result<()> {
        let (offset, bytes) = (node.offset(), shape.node_bytes());
        let after = self.runs.partition_point(|run| run.offset <= offset);
        let is_node = after.checked_sub(1).is_some_and(|run| {
            let within = offset - self.runs[run].offset;
            within.is_multiple_of(bytes) && within / bytes < self.runs[run].bytes / bytes
        });
        if !is_node {
            return Err(node.damaged("the tree leads to no node"));
        }
        if !self.lines.add(offset) {
            return Err(node.damaged("the tree leads to a node twice"));
        }
        self.reached.push(offset);
        Ok(())
    }

    /// What a node has without the version to come, and each entry once.
    ///
    /// # Errors
    /// [`IndexError::Corrupt`] if no crash leaves such entries.
    fn entries_of<M: Media>(&self, media: &M, node: Node<'_>) -> Result<Vec<Entry>> {
        let to_come = self.version + 1;
        let mut entries: Vec<Entry> = Vec::new();
        let found = (0..node.slots()).map(|slot| node.entry(media, slot));
        let mut found = found.filter(|entry| entry.start != EMPTY).peekable();
        while let Some(mut entry) = found.next() {
            if entry.end == to_come && !planted(268) {
                entry.end = LIVE;
            }
            let is_past = entry.start < entry.end && entry.end < to_come;
            if entry.start > to_come || entry.end != LIVE && !is_past {
                return Err(node.damaged("an entry is of a version that the tree never had"));
            }
            if entry.start == to_come && !planted(269) {
                continue;
            }
            match entries.last() {
                Some(last) if last.place() >= entry.place() => {
                    // What has ended is free. One that stood before `last` moved past it, and is
                    // behind it still.
                    let is_behind =
                        is_past && found.peek().is_some_and(|next| next.place() == last.place());
                    if !is_behind && !entries.contains(&entry) {
                        return Err(node.damaged("the entries of a node do not ascend"));
                    }
                }
                _ => entries.push(entry),
            }
        }
        Ok(entries)
    }
}

/// R1: gives nodes the entries that they had. Lines of what changes; a fence between two of a node,
/// and one at the end.
fn undo<M: Media>(media: &M, undone: &[Undone<'_>]) {
    for Undone { node, entries } in undone {
        let sites = [site!("cdds.recover.R1.line"), site!("cdds.recover.R1.fence")];
        let mut pass = Pass::new(media, *node, sites);
        for (slot, entry) in entries.iter().enumerate() {
            let found = node.entry(media, slot);
            if found.place() != entry.place() {
                pass.write(slot, *entry);
            } else if found.end != entry.end {
                pass.set_end(slot, entry.end);
            }
        }
        for slot in entries.len()..node.slots() {
            if media.load(node.start(slot)) != EMPTY {
                pass.empty(slot);
            }
        }
        pass.end();
    }
    if !undone.is_empty() && !planted(270) {
        media.fence(site!("cdds.recover.R1.end"));
    }
}
