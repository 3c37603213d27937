//! Splitting a full leaf: its entries and the new one go into two fresh leaves, and the parent is
//! published with these in its place. Inner nodes in which they do not fit are written anew.
//!
//! 1 flush for each line of the new leaves that has something, 1 for each new inner node, and what
//! publishing needs (see `publish`); 2 fences. Byte-string keys: the allocation of two records
//! besides.

use std::cmp::Ordering;

use everleaf_index::Result;
use everleaf_pmem::{Counter, Media, site};

use super::ClfTree;
use super::insert::{place, place_key};
use super::layout::LiveSet;
use super::leaf::Leaf;
use super::parents::{Parts, Plan};
use super::publish::publish;
use super::scan::{Entry, sorted_entries};
use super::search::{Nodes, Step};
use everleaf_tree::key::{KeyHash, TreeKey};
use everleaf_tree::steps::Steps;

/// The sorted entries of a leaf, and a new key among them.
struct WithNew<'e, 'p, 'k, K: TreeKey> {
    entries: &'e [Entry<'p, K>],
    /// Where the new key is.
    new: usize,
    key: K::Ref<'k>,
}

impl<K: TreeKey> WithNew<'_, '_, '_, K> {
    /// The slot of an entry; none of the new one.
    fn slot(&self, at: usize) -> Option<usize> {
        match at.cmp(&self.new) {
            Ordering::Less => Some(self.entries[at].slot),
            Ordering::Equal => None,
            Ordering::Greater => Some(self.entries[at - 1].slot),
        }
    }

    /// Calls `use_key` with a key.
    fn with<R>(&self, at: usize, use_key: impl FnOnce(K::Ref<'_>) -> R) -> R {
        match at.cmp(&self.new) {
            Ordering::Less => use_key(self.entries[at].key),
            Ordering::Equal => use_key(self.key),
            Ordering::Greater => use_key(self.entries[at - 1].key),
        }
    }
}

/// What was taken and belongs to nothing yet.
#[derive(Default)]
struct Taken {
    leaves: Vec<u64>,
    key: bool,
    separator: bool,
}

/// What is taken before anything changes: two leaves, the word of the new key, the inner nodes.
struct Reserved<'p> {
    leaves: [u64; 2],
    key: u64,
    plan: Plan<'p>,
}

impl<K: TreeKey, M: Media> ClfTree<K, M> {
    /// Adds a key whose leaf is full. If this fails nothing has changed.
    #[cold]
    pub(super) fn split(
        &mut self,
        key: K::Ref<'_>,
        hash: KeyHash,
        value: u64,
        steps: &mut Steps<'_>,
    ) -> Result<()> {
        let pool = std::sync::Arc::clone(&self.pool);
        let nodes = Nodes::<K, M>::new(&pool, self.settings);
        let media = nodes.media();
        let (path, leaf) = nodes.path_to(key)?;
        let records = pool.pin();
        let entries = sorted_entries::<K, M>(&records, leaf, leaf.live(media)?)?;
        let keys = WithNew::<K> {
            new: entries.partition_point(|entry| K::cmp_keys(entry.key, key).is_lt()),
            entries: &entries,
            key,
        };
        let count = entries.len() + 1;
        for end in [0, count - 1] {
            if keys.with(end, |key| nodes.leaf_of(key))?.offset() != leaf.offset() {
                // The separator would not lie between those of the parent.
                return Err(leaf.damaged("a full leaf holds keys of another leaf"));
            }
        }
        // The paper's left leaf gets two entries fewer than the right one, as its counts show.
        let middle = count / 2 - usize::from(self.settings.paper_order);
        let separator =
            keys.with(middle - 1, |left| keys.with(middle, |right| K::separator(left, right)));
        let near = near(nodes, &path, leaf)?;
        let mut taken = Taken::default();
        let reserved =
            self.reserve(nodes, &path, &mut taken, near, (key, hash), K::borrow(&separator));
        let reserved = reserved.and_then(|Reserved { leaves, key, plan }| {
            let prepared = steps.prepare(None);
            let plan = plan.unless_refused(prepared, &mut self.lines, &mut self.worker)?;
            Ok(Reserved { leaves, key, plan })
        });
        let Reserved { leaves, key: word, plan } = match reserved {
            Ok(reserved) => reserved,
            Err(error) => {
                self.give_up(nodes, &taken)?;
                return Err(error);
            }
        };

        // P1: the new leaves and the new inner nodes. Crash: nothing leads to them. Records that
        // the anchor has are not in the tree, and recovery frees them.
        for (offset, part) in leaves.into_iter().zip([0..middle, middle..count]) {
            let fresh = nodes.leaf(offset)?;
            let entries = part.map(|at| match keys.slot(at) {
                None => [word, value],
                Some(slot) => [media.load(leaf.key(slot)), media.load(leaf.value(slot))],
            });
            write_leaf(media, fresh, entries, self.settings.paper_order);
        }
        plan.write_fresh(nodes, site!("clftree.split.P1.line"))?;
        // P2 COMMIT: the inner nodes lead to the new leaves, with the new key. Crash: the old leaf
        // is in the tree, or the new ones.
        let damaged = || leaf.damaged("a full leaf has no parent to be published in");
        publish(nodes, plan.commit.ok_or_else(damaged)?, true, false, steps)?;
        self.keys += 1;
        media.count(Counter::LeafSplits, 1);
        self.leaves.give_back(leaf.offset(), &mut self.worker)?;
        plan.end(media, &mut self.lines, &mut self.worker)
    }

    /// Takes all that may be refused; `taken` says how far it came.
    fn reserve<'p>(
        &mut self,
        nodes: Nodes<'p, K, M>,
        path: &[Step],
        taken: &mut Taken,
        near: u64,
        (key, hash): (K::Ref<'_>, KeyHash),
        separator: K::Ref<'_>,
    ) -> Result<Reserved<'p>> {
        let (media, anchor) = (nodes.media(), nodes.anchor()?);
        for _ in 0..2 {
            taken.leaves.push(self.leaves.take(&mut self.worker, near)?);
        }
        let leaves = [taken.leaves[0], taken.leaves[1]];
        let key = place_key::<K, M>(nodes, &mut self.worker, key, hash)?;
        taken.key = nodes.owns_keys();
        let separator = place::<K, M>(&mut self.worker, media, &anchor.separator, separator)?;
        taken.separator = true;
        let parts = Parts {
            keys: vec![separator],
            children: leaves.map(|leaf| nodes.child_at(leaf)).to_vec(),
        };
        let plan = Plan::to_replace(nodes, &mut self.lines, &mut self.worker, path, parts)?;
        Ok(Reserved { leaves, key, plan })
    }

    /// Gives back what was taken for a split that is refused.
    fn give_up(&mut self, nodes: Nodes<'_, K, M>, taken: &Taken) -> Result<()> {
        let anchor = nodes.anchor()?;
        for (placed, cell) in [(taken.key, &anchor.key), (taken.separator, &anchor.separator)] {
            if placed {
                K::discard(&mut self.worker, cell.as_word())?;
            }
        }
        taken.leaves.iter().try_for_each(|leaf| self.leaves.give_back(*leaf, &mut self.worker))
    }
}

/// Writes a leaf that nothing leads to, and flushes what has something, or all. No fence.
fn write_leaf<M: Media>(
    media: &M,
    leaf: Leaf<'_>,
    entries: impl Iterator<Item = [u64; 2]>,
    all: bool,
) {
    let mut count = 0;
    for [key, value] in entries {
        leaf.store_entry(media, count, key, value);
        count += 1;
    }
    leaf.store_all_live(media, LiveSet::first(count));
    let flushed = if all { leaf.shape().slots() } else { count };
    leaf.flush_first(media, site!("clftree.split.P1.leaf"), flushed);
}

/// Near to what a new leaf in the place of this one is taken: its siblings.
pub(super) fn near<K: TreeKey, M: Media>(
    nodes: Nodes<'_, K, M>,
    path: &[Step],
    leaf: Leaf<'_>,
) -> Result<u64> {
    match path.last() {
        Some(parent) => nodes.offset_of(parent.line.bases().child),
        None => Ok(leaf.offset()),
    }
}
