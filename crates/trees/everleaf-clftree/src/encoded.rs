//! Leaves of one encoded line, of `u64` keys: what changes in one is published like an inner node.
//!
//! Insertion, update and removal write the leaf's line: at once, 1 flush and 1 fence; by the log 2
//! and 2 (see `publish`); by a copy 2 and 2, and 1 more for each parent that is copied as well;
//! with steps of a store 2 fences always. What does not fit is split into two fresh leaves, or
//! three where halves do not fit (see `Parts::divide`): 1 flush for each, 1 for each new inner
//! node, and the publication above; 2 fences. An update may split, for the new value may need more
//! bytes. A removal always fits (see `encode`). The last key takes the leaf out of the tree
//! (`remove`); the tree's only leaf stays, empty.

use everleaf_index::{IndexError, Result};
use everleaf_pmem::{Counter, Line, Media, site};

use super::ClfTree;
use super::encode::{Bases, Encoded, Kind, Words};
use super::insert::Put;
use super::leaf::Leaf;
use super::parents::{Parts, Plan};
use super::publish::{Commit, publish, write_line};
use super::search::{Nodes, Step};
use super::split::near;
use everleaf_tree::key::TreeKey;
use everleaf_tree::steps::Steps;

/// An encoded leaf that is about to change.
struct Changing<'p> {
    line: &'p Line,
    words: Words,
    entries: Parts,
    before: Bases,
}

impl<'p> Changing<'p> {
    fn new<K: TreeKey, M: Media>(
        nodes: Nodes<'p, K, M>,
        leaf: Leaf<'_>,
        words: Words,
        line: &Encoded,
    ) -> Result<Self> {
        let (entries, before) = (Parts::of(line), line.bases());
        Ok(Self { line: nodes.leaf_line(leaf.offset())?, words, entries, before })
    }

    /// What makes the leaf have these entries; none if they do not fit.
    fn commit(&self) -> Option<Commit<'p>> {
        let after = self.entries.encode(0..self.entries.children.len(), self.before, Kind::Leaf)?;
        Some(Commit::Line { line: self.line, before: self.words, after })
    }
}

impl<K: TreeKey, M: Media> ClfTree<K, M> {
    /// Adds a key or replaces its value, as far as `only` lets it; the value that it had.
    pub(super) fn put_encoded(
        &mut self,
        key: K::Ref<'_>,
        value: u64,
        only: Option<Put>,
        steps: &mut Steps<'_>,
    ) -> Result<Option<u64>> {
        let nodes = Nodes::<K, M>::new(&self.pool, self.settings);
        let leaf = nodes.leaf_of(key)?;
        let (words, line) = nodes.decode_leaf(leaf)?;
        let place = nodes.place_in(&line, key)?;
        let old = place.ok().map(|slot| line.child(slot));
        let refused = if old.is_some() { Put::Insert } else { Put::Update };
        if only == Some(refused) {
            return Ok(old);
        }
        let mut changing = Changing::new(nodes, leaf, words, &line)?;
        match place {
            Ok(slot) => changing.entries.children[slot] = value,
            Err(slot) => {
                changing.entries.keys.insert(slot, K::word(key, 0));
                changing.entries.children.insert(slot, value);
            }
        }
        match changing.commit().filter(|_| !self.settings.shadow) {
            Some(commit) => {
                steps.prepare(old)?;
                // COMMIT: the line. Crash: the old entry, or none, or the new one.
                publish(nodes, commit, false, false, steps)?;
            }
            None => {
                let Changing { entries, before, .. } = changing;
                let (Ok(slot) | Err(slot)) = place;
                self.replace_leaf(key, (&entries, slot, before), old, steps)?;
            }
        }
        self.keys += u64::from(old.is_none());
        Ok(old)
    }

    /// Publishes the leaf of a key without one of its entries. If this fails nothing has changed.
    pub(super) fn take_out(
        &mut self,
        key: K::Ref<'_>,
        slot: usize,
        old: u64,
        steps: &mut Steps<'_>,
    ) -> Result<()> {
        let nodes = Nodes::<K, M>::new(&self.pool, self.settings);
        let leaf = nodes.leaf_of(key)?;
        let (words, line) = nodes.decode_leaf(leaf)?;
        let mut changing = Changing::new(nodes, leaf, words, &line)?;
        changing.entries.keys.remove(slot);
        changing.entries.children.remove(slot);
        if self.settings.shadow {
            let Changing { entries, before, .. } = changing;
            return self.replace_leaf(key, (&entries, slot, before), Some(old), steps);
        }
        let commit = changing.commit().ok_or_else(|| leaf.damaged("a leaf cannot be encoded"))?;
        steps.prepare(Some(old))?;
        // COMMIT: the line. Crash: the entry is there or not.
        publish(nodes, commit, false, false, steps)
    }

    /// Puts a copy with these entries into the place of the leaf of a key, or several leaves if
    /// they do not fit; the one at `new` is new, or has a new value, or went. If this fails nothing
    /// has changed.
    fn replace_leaf(
        &mut self,
        key: K::Ref<'_>,
        (entries, new, before): (&Parts, usize, Bases),
        old: Option<u64>,
        steps: &mut Steps<'_>,
    ) -> Result<()> {
        let pool = std::sync::Arc::clone(&self.pool);
        let nodes = Nodes::<K, M>::new(&pool, self.settings);
        let (path, leaf) = nodes.path_to(key)?;
        check_range(nodes, leaf, &entries.keys)?;
        let mut fresh = Vec::new();
        let planned = self.plan_encoded(nodes, &path, leaf, (entries, new, before), &mut fresh);
        let is_full = matches!(&planned, Err(IndexError::Pool(error)) if error.is_full());
        let planned = planned.and_then(|plan| {
            plan.unless_refused(steps.prepare(old), &mut self.lines, &mut self.worker)
        });
        let plan = match planned {
            Ok(plan) => plan,
            Err(error) => {
                let worker = &mut self.worker;
                fresh.iter().try_for_each(|(leaf, _)| self.leaves.give_back(*leaf, worker))?;
                let whole = entries.encode(0..entries.children.len(), before, Kind::Leaf);
                let Some(after) = whole.filter(|_| is_full) else { return Err(error) };
                // Without room for a copy the leaf is overwritten.
                steps.prepare(old)?;
                let (line, before) =
                    (nodes.leaf_line(leaf.offset())?, leaf.first_line(nodes.media()));
                return publish(nodes, Commit::Line { line, before, after }, false, false, steps);
            }
        };

        // P1: the new leaves and the new inner nodes. Crash: nothing leads to them.
        for (offset, words) in &fresh {
            let line = nodes.leaf_line(*offset)?;
            write_line(nodes.media(), site!("clftree.encoded.P1.leaf"), line, *words);
        }
        plan.write_fresh(nodes, site!("clftree.encoded.P1.line"))?;
        // P2 COMMIT: the inner nodes lead to the new leaves. Crash: the old leaf is in the tree, or
        // the new ones.
        let damaged = || leaf.damaged("a full leaf has no parent to be published in");
        publish(nodes, plan.commit.ok_or_else(damaged)?, true, false, steps)?;
        nodes.media().count(Counter::LeafSplits, u64::from(fresh.len() > 1));
        self.leaves.give_back(leaf.offset(), &mut self.worker)?;
        plan.end(nodes.media(), &mut self.lines, &mut self.worker)
    }

    /// Takes all that may be refused; `fresh` says how far it came with leaves.
    fn plan_encoded<'p>(
        &mut self,
        nodes: Nodes<'p, K, M>,
        path: &[Step],
        leaf: Leaf<'_>,
        (entries, new, before): (&Parts, usize, Bases),
        fresh: &mut Vec<(u64, Words)>,
    ) -> Result<Plan<'p>> {
        let near = near(nodes, path, leaf)?;
        let mut parts = Parts::default();
        for range in entries.divide(new..new + 1, before, Kind::Leaf) {
            let words = entries.encode(range.clone(), before, Kind::Leaf);
            let words = words.ok_or_else(|| leaf.damaged("a leaf cannot be encoded"))?;
            let offset = self.leaves.take(&mut self.worker, near)?;
            fresh.push((offset, words));
            // A key equal to a separator is on the right of it.
            parts.keys.extend((range.start > 0).then(|| entries.keys[range.start]));
            parts.children.push(nodes.child_at(offset));
        }
        Plan::to_replace(nodes, &mut self.lines, &mut self.worker, path, parts)
    }
}

/// Refuses keys that do not ascend, or are not all of the range of a leaf: separators made of them
/// would not lie between those of the parent.
fn check_range<K: TreeKey, M: Media>(
    nodes: Nodes<'_, K, M>,
    leaf: Leaf<'_>,
    keys: &[u64],
) -> Result<()> {
    if !keys.is_sorted_by(|left, right| left < right) {
        return Err(leaf.damaged("the keys of a leaf do not ascend"));
    }
    let records = nodes.pool.pin();
    for end in [keys.first(), keys.last()].into_iter().flatten() {
        if nodes.leaf_of(K::read(&records, *end)?)?.offset() != leaf.offset() {
            return Err(leaf.damaged("a full leaf holds keys of another leaf"));
        }
    }
    Ok(())
}
