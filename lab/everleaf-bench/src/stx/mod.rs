//! The STXTree of FPTree's paper: a B+-tree in memory that persists nothing, with nodes tuned for
//! caches.
//!
//! Nodes lie in arrays and are told apart by index, so that neither pointers nor unsafe code is
//! needed. The keys of a node stand together, apart from its values or children: a search reads the
//! lines of keys, and one more. Keys of a small node are compared one by one, numbers without
//! branches; larger nodes are halved. How many keys a node has is chosen when a tree is made: the
//! paper's Table 1 has 16 and 16 for numbers, 8 and 8 for strings.
//!
//! Invariants: I1 keys ascend in each node; I2 the separator at `i` of an inner node is greater
//! than all keys below child `i`, and not greater than those below child `i + 1`; I3 nodes other
//! than the root are half full; I4 leaves are chained in the order of their keys.

mod nodes;
#[cfg(test)]
mod tests;

use std::borrow::Borrow;
use std::mem::replace;

use nodes::{NodeIndex, Nodes};

/// Behind the last leaf.
const NO_LEAF: NodeIndex = NodeIndex::MAX;
/// Keys of a node that are compared one by one, all of them if a comparison takes one instruction.
/// Of strings the processor fetches the next ones ahead meanwhile, which halving forbids.
const FEW_KEYS: usize = 32;

/// Keys of a node at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    pub inner_keys: usize,
    pub leaf_entries: usize,
}

impl Sizes {
    /// The least and the most that there may be of both.
    pub const RANGE: [u64; 2] = [4, 4096];
}

/// A map from keys to values in the order of keys.
pub struct StxTree<K, V> {
    inner: Nodes<K, NodeIndex>,
    leaves: Nodes<K, V>,
    /// The leaf behind each.
    next: Vec<NodeIndex>,
    root: NodeIndex,
    /// Levels of inner nodes.
    levels: usize,
    len: usize,
    /// The inner nodes above the leaf that is changed, from the root on, and which child each goes
    /// on with.
    path: Vec<(NodeIndex, usize)>,
}

/// How many of the sorted `keys` fulfil `is_before`, which no key does behind one that does not.
#[inline(always)]
fn count_before<K>(keys: &[K], is_before: impl Fn(&K) -> bool) -> usize {
    if keys.len() > FEW_KEYS {
        keys.partition_point(is_before)
    } else if size_of::<K>() <= size_of::<u64>() {
        keys.iter().map(|key| usize::from(is_before(key))).sum()
    } else {
        keys.iter().position(|key| !is_before(key)).unwrap_or(keys.len())
    }
}

impl<K: Ord + Clone + Default, V: Default> StxTree<K, V> {
    /// An empty tree.
    pub fn new(sizes: Sizes) -> Self {
        let mut tree = Self::without_nodes(sizes);
        tree.root = tree.add_leaf();
        tree
    }

    fn without_nodes(sizes: Sizes) -> Self {
        Self {
            inner: Nodes::new(sizes.inner_keys, sizes.inner_keys + 1),
            leaves: Nodes::new(sizes.leaf_entries, sizes.leaf_entries),
            next: Vec::new(),
            root: 0,
            levels: 0,
            len: 0,
            path: Vec::new(),
        }
    }

    /// A tree of sorted and distinct keys, with nodes as full as they can be.
    pub fn of_sorted(sizes: Sizes, mut entries: impl ExactSizeIterator<Item = (K, V)>) -> Self {
        let mut tree = Self::without_nodes(sizes);
        tree.len = entries.len();
        let mut level = Vec::new();
        for part in shares(tree.len, sizes.leaf_entries) {
            let leaf = tree.add_leaf();
            for (at, (key, value)) in entries.by_ref().take(part).enumerate() {
                tree.leaves.push_key(leaf, key);
                *tree.leaves.item_mut(leaf, at) = value;
            }
            if let Some((_, before)) = level.last() {
                tree.next[*before as usize] = leaf;
            }
            level.push((tree.leaves.keys(leaf).first().cloned().unwrap_or_default(), leaf));
        }
        while level.len() > 1 {
            level = tree.level_above(level);
            tree.levels += 1;
        }
        tree.root = level[0].1;
        tree
    }

    /// The inner nodes above nodes, each told with its least key.
    fn level_above(&mut self, below: Vec<(K, NodeIndex)>) -> Vec<(K, NodeIndex)> {
        let parts = shares(below.len(), self.inner.max_keys() + 1);
        let (mut below, mut above) = (below.into_iter(), Vec::new());
        for part in parts {
            let node = self.inner.add();
            for (at, (least, child)) in below.by_ref().take(part).enumerate() {
                match at {
                    0 => above.push((least, node)),
                    _ => self.inner.push_key(node, least),
                }
                *self.inner.item_mut(node, at) = child;
            }
        }
        above
    }

    fn add_leaf(&mut self) -> NodeIndex {
        let leaf = self.leaves.add();
        let places = self.next.len().max(leaf as usize + 1);
        self.next.resize(places, NO_LEAF);
        self.next[leaf as usize] = NO_LEAF;
        leaf
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The leaf that a key belongs to.
    #[inline(always)]
    fn leaf_of<Q: Ord + ?Sized>(&self, key: &Q) -> NodeIndex
    where
        K: Borrow<Q>,
    {
        let mut node = self.root;
        for _ in 0..self.levels {
            node = *self.inner.item(node, self.child_of(node, key));
        }
        node
    }

    /// Which child of an inner node a key belongs to.
    #[inline(always)]
    fn child_of<Q: Ord + ?Sized>(&self, node: NodeIndex, key: &Q) -> usize
    where
        K: Borrow<Q>,
    {
        count_before(self.inner.keys(node), |separator| separator.borrow() <= key)
    }

    /// As `leaf_of`, and notes the path.
    fn descend<Q: Ord + ?Sized>(&mut self, key: &Q) -> NodeIndex
    where
        K: Borrow<Q>,
    {
        self.path.clear();
        let mut node = self.root;
        for _ in 0..self.levels {
            let at = self.child_of(node, key);
            self.path.push((node, at));
            node = *self.inner.item(node, at);
        }
        node
    }

    /// How many keys of a leaf are less, and whether the key stands behind them.
    #[inline(always)]
    fn place_in<Q: Ord + ?Sized>(&self, leaf: NodeIndex, key: &Q) -> (usize, bool)
    where
        K: Borrow<Q>,
    {
        let keys = self.leaves.keys(leaf);
        let at = count_before(keys, |other| other.borrow() < key);
        (at, keys.get(at).is_some_and(|other| other.borrow() == key))
    }

    /// The value of a key.
    #[inline(always)]
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let leaf = self.leaf_of(key);
        let (at, is_there) = self.place_in(leaf, key);
        is_there.then(|| self.leaves.item(leaf, at))
    }

    /// The value of a key, to be replaced.
    #[inline(always)]
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let leaf = self.leaf_of(key);
        let (at, is_there) = self.place_in(leaf, key);
        if is_there { Some(self.leaves.item_mut(leaf, at)) } else { None }
    }

    /// The entries from a key on.
    pub fn range_from<Q: Ord + ?Sized>(
        &self,
        key: &Q,
    ) -> impl Iterator<Item = (&K, &V)> + use<'_, K, V, Q>
    where
        K: Borrow<Q>,
    {
        let leaf = self.leaf_of(key);
        let first = Some((leaf, self.place_in(leaf, key).0));
        let all_of = move |(leaf, at): (NodeIndex, usize)| {
            let keys = self.leaves.keys(leaf).iter().enumerate().skip(at);
            keys.map(move |(at, key)| (key, self.leaves.item(leaf, at)))
        };
        let behind = move |(leaf, _): &(NodeIndex, usize)| {
            Some((self.next[*leaf as usize], 0)).filter(|(leaf, _)| *leaf != NO_LEAF)
        };
        std::iter::successors(first, behind).flat_map(all_of)
    }

    /// Inserts a key or replaces its value, which is returned.
    #[inline]
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let leaf = self.descend(&key);
        let (at, is_there) = self.place_in(leaf, &key);
        if is_there {
            return Some(replace(self.leaves.item_mut(leaf, at), value));
        }
        self.len += 1;
        if self.leaves.is_full(leaf) {
            self.split_leaf(leaf, at, key, value);
        } else {
            self.leaves.insert(leaf, (at, key), (at, value));
        }
        None
    }

    fn split_leaf(&mut self, left: NodeIndex, at: usize, key: K, value: V) {
        let right = self.add_leaf();
        let middle = self.leaves.max_keys() / 2;
        self.leaves.move_tail(left, middle, middle, right);
        self.next[right as usize] = replace(&mut self.next[left as usize], right);
        if at < middle {
            self.leaves.insert(left, (at, key), (at, value));
        } else {
            self.leaves.insert(right, (at - middle, key), (at - middle, value));
        }
        self.add_child(self.leaves.keys(right)[0].clone(), right);
    }

    /// Adds a node behind the one that the path leads to.
    fn add_child(&mut self, mut separator: K, mut child: NodeIndex) {
        while let Some((node, at)) = self.path.pop() {
            if !self.inner.is_full(node) {
                self.inner.insert(node, (at, separator), (at + 1, child));
                return;
            }
            (separator, child) = self.split_inner(node, at, separator, child);
        }
        let root = self.inner.add();
        *self.inner.item_mut(root, 0) = self.root;
        self.inner.insert(root, (0, separator), (1, child));
        (self.root, self.levels) = (root, self.levels + 1);
    }

    /// Splits a full inner node and inserts; the new node, and the separator before it.
    fn split_inner(
        &mut self,
        left: NodeIndex,
        at: usize,
        separator: K,
        child: NodeIndex,
    ) -> (K, NodeIndex) {
        let right = self.inner.add();
        let middle = self.inner.max_keys() / 2;
        self.inner.move_tail(left, middle + 1, middle + 1, right);
        // The child that stood behind the middle key is the first of the right node already.
        let above = self.inner.pop_key(left);
        if at <= middle {
            self.inner.insert(left, (at, separator), (at + 1, child));
        } else {
            let at = at - middle - 1;
            self.inner.insert(right, (at, separator), (at + 1, child));
        }
        (above, right)
    }

    /// Removes a key; its value.
    #[inline]
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let leaf = self.descend(key);
        let (at, is_there) = self.place_in(leaf, key);
        if !is_there {
            return None;
        }
        let (_, value) = self.leaves.take(leaf, at, at);
        self.len -= 1;
        if self.leaves.count(leaf) < self.min_entries() {
            self.mend();
        }
        Some(value)
    }

    fn min_entries(&self) -> usize {
        self.leaves.max_keys() / 2
    }

    fn min_inner_keys(&self) -> usize {
        (self.inner.max_keys() - 1) / 2
    }

    /// The node that the path leads to has too few keys: it takes some of a neighbour, or they
    /// become one, and so on with the node above.
    fn mend(&mut self) {
        let mut is_leaf = true;
        while let Some((parent, at)) = self.path.pop() {
            let separator = at.max(1) - 1;
            let left = *self.inner.item(parent, separator);
            let right = *self.inner.item(parent, separator + 1);
            let merged = if is_leaf {
                self.mend_leaves(parent, separator, left, right)
            } else {
                self.mend_inner(parent, separator, left, right)
            };
            if !merged || self.inner.count(parent) >= self.min_inner_keys() {
                break;
            }
            is_leaf = false;
        }
        if self.levels > 0 && self.inner.count(self.root) == 0 {
            let child = *self.inner.item(self.root, 0);
            self.inner.release(self.root);
            (self.root, self.levels) = (child, self.levels - 1);
        }
    }

    /// Whether two leaves became one.
    fn mend_leaves(
        &mut self,
        parent: NodeIndex,
        separator: usize,
        left: NodeIndex,
        right: NodeIndex,
    ) -> bool {
        let leaves = &mut self.leaves;
        if leaves.count(left) + leaves.count(right) <= leaves.max_keys() {
            leaves.move_tail(right, 0, 0, left);
            leaves.release(right);
            self.next[left as usize] = self.next[right as usize];
            self.inner.take(parent, separator, separator + 1);
            return true;
        }
        while leaves.count(left) < leaves.count(right) {
            let (key, value) = leaves.take(right, 0, 0);
            let last = leaves.count(left);
            leaves.insert(left, (last, key), (last, value));
        }
        while leaves.count(left) > leaves.count(right) + 1 {
            let last = leaves.count(left) - 1;
            let (key, value) = leaves.take(left, last, last);
            leaves.insert(right, (0, key), (0, value));
        }
        *self.inner.key_mut(parent, separator) = leaves.keys(right)[0].clone();
        false
    }

    /// Whether two inner nodes became one. The separator goes down, and another comes up.
    fn mend_inner(
        &mut self,
        parent: NodeIndex,
        separator: usize,
        left: NodeIndex,
        right: NodeIndex,
    ) -> bool {
        let inner = &mut self.inner;
        if inner.count(left) + inner.count(right) < inner.max_keys() {
            let (above, _) = inner.take(parent, separator, separator + 1);
            inner.push_key(left, above);
            inner.move_tail(right, 0, 0, left);
            inner.release(right);
            return true;
        }
        while inner.count(left) < inner.count(right) {
            let (key, child) = inner.take(right, 0, 0);
            let above = replace(inner.key_mut(parent, separator), key);
            let last = inner.count(left);
            inner.insert(left, (last, above), (last + 1, child));
        }
        while inner.count(left) > inner.count(right) + 1 {
            let last = inner.count(left) - 1;
            let (key, child) = inner.take(left, last, last + 1);
            let above = replace(inner.key_mut(parent, separator), key);
            inner.insert(right, (0, above), (0, child));
        }
        false
    }
}

/// Equal parts of so many, each of which holds at most `most`; one part at the least.
fn shares(all: usize, most: usize) -> impl Iterator<Item = usize> {
    let parts = all.div_ceil(most).max(1);
    (0..parts).map(move |part| all * (part + 1) / parts - all * part / parts)
}
