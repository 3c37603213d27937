//! What changes above a leaf that comes or goes: planned in DRAM, level by level, until one commit
//! suffices. Inner nodes in which the change does not fit are written anew. With copies (`shadow`)
//! every one that changes is, until a node is met that leads to the last copy by a change of one
//! word.

use std::ops::Range;

use everleaf_index::{IndexError, Result};
use everleaf_pmem::{Counter, Media, Site};
use everleaf_pool::Worker;

use super::encode::{Bases, Encoded, Kind, Words, encode};
use super::layout::Root;
use super::publish::{Commit, write_line};
use super::search::{Nodes, Step};
use super::space::Space;
use everleaf_tree::key::TreeKey;

/// Children, and the keys between them; or the keys and values of a leaf.
#[derive(Clone, Debug, Default)]
pub(super) struct Parts {
    pub keys: Vec<u64>,
    pub children: Vec<u64>,
}

impl Parts {
    /// Those of a line.
    pub fn of(line: &Encoded) -> Self {
        Self {
            keys: (0..line.keys()).map(|index| line.key(index)).collect(),
            children: (0..line.children()).map(|index| line.child(index)).collect(),
        }
    }

    /// Puts others in the place of one child.
    fn replace(&mut self, at: usize, parts: &Parts) {
        self.children.splice(at..=at, parts.children.iter().copied());
        self.keys.splice(at..at, parts.keys.iter().copied());
    }

    /// Takes one of several children out, and the key beside it, which is returned: what was on
    /// that side of it goes to the sibling.
    fn remove(&mut self, at: usize) -> u64 {
        self.children.remove(at);
        self.keys.remove(at.saturating_sub(1))
    }

    /// Encodes these children with the keys between them, or values with their keys.
    pub fn encode(&self, children: Range<usize>, before: Bases, kind: Kind) -> Option<Words> {
        let keys = children.start..children.start + kind.keys(children.len());
        encode(&self.keys[keys], &self.children[children], before, kind)
    }

    /// Into which nodes it goes: one if it fits, or halves, else what lies left of the new
    /// children, these, and what lies right of them. The former node's part of each fits, as do the
    /// new ones (see `encode`).
    pub fn divide(&self, new: Range<usize>, before: Bases, kind: Kind) -> Vec<Range<usize>> {
        let (middle, end) = (self.children.len() / 2, self.children.len());
        if self.encode(0..end, before, kind).is_some() {
            return std::iter::once(0..end).collect();
        }
        let halves = [0..middle, middle..end];
        if halves.iter().all(|half| self.encode(half.clone(), before, kind).is_some()) {
            return halves.to_vec();
        }
        let thirds = [0..new.start, new.clone(), new.end..end];
        thirds.into_iter().filter(|third| !third.is_empty()).collect()
    }
}

/// What is written and published, and what is free afterwards.
#[derive(Default)]
pub(super) struct Plan<'p> {
    /// None only until the plan is made.
    pub commit: Option<Commit<'p>>,
    /// Inner nodes that nothing leads to yet.
    pub fresh: Vec<(u64, Words)>,
    /// Inner nodes that leave the tree.
    pub gone: Vec<u64>,
    /// The key that leaves the inner nodes.
    pub separator: Option<u64>,
    /// What is counted when it is done.
    events: Vec<Counter>,
}

fn does_not_fit(offset: u64) -> IndexError {
    IndexError::Corrupt { offset, what: "an inner node cannot be encoded" }
}

impl<'p> Plan<'p> {
    /// Puts others in the place of the leaf at the end of a path. If the pool is full nothing has
    /// changed.
    pub fn to_replace<K: TreeKey, M: Media>(
        nodes: Nodes<'p, K, M>,
        lines: &mut Space,
        worker: &mut Worker<M>,
        path: &[Step],
        parts: Parts,
    ) -> Result<Self> {
        let mut plan = Self::default();
        let planned = plan.ascend(nodes, lines, worker, path, parts);
        plan.unless_refused(planned, lines, worker)
    }

    /// Gives the fresh nodes back if something is refused.
    pub fn unless_refused<M: Media>(
        self,
        outcome: Result<()>,
        lines: &mut Space,
        worker: &mut Worker<M>,
    ) -> Result<Self> {
        let Err(error) = outcome else { return Ok(self) };
        self.fresh.iter().try_for_each(|(offset, _)| lines.give_back(*offset, worker))?;
        Err(error)
    }

    /// Writes the fresh nodes, and flushes them. No fence.
    pub fn write_fresh<K: TreeKey, M: Media>(
        &self,
        nodes: Nodes<'_, K, M>,
        site: Site,
    ) -> Result<()> {
        for (offset, words) in &self.fresh {
            write_line(nodes.media(), site, nodes.line(*offset)?, *words);
        }
        Ok(())
    }

    /// After the last fence: counts, and gives back what has left the tree.
    pub fn end<M: Media>(
        &self,
        media: &M,
        lines: &mut Space,
        worker: &mut Worker<M>,
    ) -> Result<()> {
        self.events.iter().for_each(|event| media.count(*event, 1));
        self.gone.iter().try_for_each(|line| lines.give_back(*line, worker))
    }

    fn ascend<K: TreeKey, M: Media>(
        &mut self,
        nodes: Nodes<'p, K, M>,
        lines: &mut Space,
        worker: &mut Worker<M>,
        path: &[Step],
        mut parts: Parts,
    ) -> Result<()> {
        for (level, step) in path.iter().enumerate().rev() {
            let (offset, before) = (step.offset, step.line.bases());
            if let [copy] = parts.children[..] {
                match step.line.swing(step.at, copy) {
                    Ok((word, value)) => {
                        let cell = &nodes.line(offset)?.0[word];
                        self.commit = Some(Commit::Word { cell, value });
                        return Ok(());
                    }
                    Err(cascade) => self.events.push(cascade),
                }
            }
            let mut node = Parts::of(&step.line);
            node.replace(step.at, &parts);
            let words = node.encode(0..node.children.len(), before, Nodes::<K, M>::INNER);
            if let Some(after) = words.filter(|_| !nodes.settings.shadow) {
                self.commit =
                    Some(Commit::Line { line: nodes.line(offset)?, before: step.words, after });
                return Ok(());
            }
            self.events.extend(words.is_none().then_some(Counter::InnerSplits));
            let near = match level.checked_sub(1) {
                Some(parent) => nodes.offset_of(path[parent].line.bases().child)?,
                None => offset,
            };
            let new = step.at..step.at + parts.children.len();
            parts = Parts::default();
            for range in node.divide(new, before, Nodes::<K, M>::INNER) {
                let words = node.encode(range.clone(), before, Nodes::<K, M>::INNER);
                let words = words.ok_or_else(|| does_not_fit(offset))?;
                parts.keys.extend(range.start.checked_sub(1).map(|key| node.keys[key]));
                parts.children.push(self.take(nodes, lines, worker, near, words)?);
            }
            self.gone.push(offset);
        }
        let root = nodes.root()?;
        if let [copy] = parts.children[..] {
            self.commit = Some(Commit::Root(Root::new(nodes.offset_of(copy)?, root.height())));
            return Ok(());
        }
        if root.height() == Root::MAX_HEIGHT {
            let what = "the tree has too many levels";
            return Err(IndexError::Corrupt { offset: root.offset(), what });
        }
        let words = parts.encode(0..parts.children.len(), Bases::default(), Nodes::<K, M>::INNER);
        let words = words.ok_or_else(|| does_not_fit(root.offset()))?;
        let child = self.take(nodes, lines, worker, root.offset(), words)?;
        self.commit = Some(Commit::Root(Root::new(nodes.offset_of(child)?, root.height() + 1)));
        Ok(())
    }

    /// Takes an inner node; the number by which it is a child.
    fn take<K: TreeKey, M: Media>(
        &mut self,
        nodes: Nodes<'p, K, M>,
        lines: &mut Space,
        worker: &mut Worker<M>,
        near: u64,
        words: Words,
    ) -> Result<u64> {
        let offset = lines.take(worker, near)?;
        self.fresh.push((offset, words));
        Ok(nodes.child_at(offset))
    }

    /// Takes the leaf at the end of a path out. Inner nodes of which it is the only child go with
    /// it, and a topmost one that would be left with one child. None: it is the tree's only leaf.
    pub fn to_remove<K: TreeKey, M: Media>(
        nodes: Nodes<'p, K, M>,
        lines: &mut Space,
        worker: &mut Worker<M>,
        path: &[Step],
    ) -> Result<Option<Self>> {
        let mut plan = Self::default();
        for (level, step) in path.iter().enumerate().rev() {
            let offset = step.offset;
            if step.line.keys() == 0 {
                plan.gone.push(offset);
                continue;
            }
            let mut node = Parts::of(&step.line);
            plan.separator = Some(node.remove(step.at));
            if level == 0 && node.children.len() == 1 {
                plan.gone.push(offset);
                plan.commit = Some(Commit::Root(plan.lower_root(nodes, node.children[0])?));
                return Ok(Some(plan));
            }
            let words =
                node.encode(0..node.children.len(), step.line.bases(), Nodes::<K, M>::INNER);
            let after = words.ok_or_else(|| does_not_fit(offset))?;
            if nodes.settings.shadow {
                match Self::to_copy(nodes, lines, worker, &path[..=level], after) {
                    Ok(Self { commit, fresh, gone, events, .. }) => {
                        plan.gone.extend(gone);
                        return Ok(Some(Self { commit, fresh, events, ..plan }));
                    }
                    // Without room the line is overwritten, so that no removal is refused.
                    Err(IndexError::Pool(error)) if error.is_full() => {}
                    Err(error) => return Err(error),
                }
            }
            plan.commit =
                Some(Commit::Line { line: nodes.line(offset)?, before: step.words, after });
            return Ok(Some(plan));
        }
        Ok(None)
    }

    /// Puts a copy with other words in the place of the inner node at the end of a path.
    fn to_copy<K: TreeKey, M: Media>(
        nodes: Nodes<'p, K, M>,
        lines: &mut Space,
        worker: &mut Worker<M>,
        path: &[Step],
        words: Words,
    ) -> Result<Self> {
        let mut plan = Self::default();
        let Some((step, above)) = path.split_last() else { return Ok(plan) };
        let near = match above.last() {
            Some(parent) => nodes.offset_of(parent.line.bases().child)?,
            None => step.offset,
        };
        plan.gone.push(step.offset);
        let planned = plan.take(nodes, lines, worker, near, words).and_then(|copy| {
            let parts = Parts { keys: Vec::new(), children: vec![copy] };
            plan.ascend(nodes, lines, worker, above, parts)
        });
        plan.unless_refused(planned, lines, worker)
    }

    /// The first node from this child of the topmost one downwards that has several children, or is
    /// a leaf. Those above it go.
    fn lower_root<K: TreeKey, M: Media>(
        &mut self,
        nodes: Nodes<'p, K, M>,
        child: u64,
    ) -> Result<Root> {
        let mut offset = nodes.offset_of(child)?;
        for height in (1..nodes.root()?.height()).rev() {
            let line = nodes.decode(offset, nodes.words(offset)?)?;
            if line.keys() > 0 {
                return Ok(Root::new(offset, height));
            }
            self.gone.push(offset);
            offset = nodes.offset_of(line.child(0))?;
        }
        nodes.leaf(offset)?;
        Ok(Root::new(offset, 0))
    }
}
