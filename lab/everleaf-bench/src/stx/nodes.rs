//! Nodes of one kind in arrays, told apart by index: node `n` has the places from `n * slots` on.

use std::mem::take;

/// The index of a node among those of its kind.
pub type NodeIndex = u32;

/// Nodes of sorted keys, each with its items: values in leaves, children in inner nodes, which have
/// one more of them than of keys. Keys of a node stand together, apart from its items.
pub struct Nodes<K, T> {
    max_keys: usize,
    max_items: usize,
    keys: Vec<K>,
    items: Vec<T>,
    /// How many keys each has.
    counts: Vec<u16>,
    free: Vec<NodeIndex>,
}

impl<K: Default, T: Default> Nodes<K, T> {
    /// Of so many keys at most, and as many items or more.
    pub fn new(max_keys: usize, max_items: usize) -> Self {
        let (keys, items, counts, free) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { max_keys, max_items, keys, items, counts, free }
    }

    pub fn max_keys(&self) -> usize {
        self.max_keys
    }

    /// Items that a node has beyond its keys.
    fn more_items(&self) -> usize {
        self.max_items - self.max_keys
    }

    /// A node without keys.
    pub fn add(&mut self) -> NodeIndex {
        if let Some(node) = self.free.pop() {
            return node;
        }
        let node = self.counts.len();
        self.counts.push(0);
        self.keys.resize_with((node + 1) * self.max_keys, K::default);
        self.items.resize_with((node + 1) * self.max_items, T::default);
        NodeIndex::try_from(node).expect("memory ends before node indexes do")
    }

    /// A node without keys may be used again.
    pub fn release(&mut self, node: NodeIndex) {
        self.counts[node as usize] = 0;
        self.free.push(node);
    }

    #[inline(always)]
    pub fn count(&self, node: NodeIndex) -> usize {
        self.counts[node as usize].into()
    }

    pub fn is_full(&self, node: NodeIndex) -> bool {
        self.count(node) == self.max_keys
    }

    #[inline(always)]
    pub fn keys(&self, node: NodeIndex) -> &[K] {
        let start = node as usize * self.max_keys;
        &self.keys[start..start + self.count(node)]
    }

    pub fn key_mut(&mut self, node: NodeIndex, at: usize) -> &mut K {
        &mut self.keys[node as usize * self.max_keys + at]
    }

    #[inline(always)]
    pub fn item(&self, node: NodeIndex, at: usize) -> &T {
        &self.items[node as usize * self.max_items + at]
    }

    #[inline(always)]
    pub fn item_mut(&mut self, node: NodeIndex, at: usize) -> &mut T {
        &mut self.items[node as usize * self.max_items + at]
    }

    /// Inserts a key and an item, each at its place; there is room.
    pub fn insert(&mut self, node: NodeIndex, (key_at, key): (usize, K), (at, item): (usize, T)) {
        let (index, count) = (node as usize, self.count(node));
        let keys = &mut self.keys[index * self.max_keys..][key_at..=count];
        keys.rotate_right(1);
        keys[0] = key;
        let last = count + self.more_items();
        let items = &mut self.items[index * self.max_items..][at..=last];
        items.rotate_right(1);
        items[0] = item;
        self.counts[index] += 1;
    }

    /// Takes a key and an item out.
    pub fn take(&mut self, node: NodeIndex, key_at: usize, at: usize) -> (K, T) {
        let (index, count) = (node as usize, self.count(node));
        let keys = &mut self.keys[index * self.max_keys..][key_at..count];
        keys.rotate_left(1);
        let key = take(&mut keys[count - key_at - 1]);
        let last = count + self.more_items();
        let items = &mut self.items[index * self.max_items..][at..last];
        items.rotate_left(1);
        let item = take(&mut items[last - at - 1]);
        self.counts[index] -= 1;
        (key, item)
    }

    /// Moves the keys from `key_at` on, and the items from `at` on, behind those of another node.
    /// An inner node that has no child yet begins with the first of these items.
    pub fn move_tail(&mut self, from: NodeIndex, key_at: usize, at: usize, to: NodeIndex) {
        let (left, right) = (from as usize, to as usize);
        let (count, there) = (self.count(from), self.count(to));
        for i in 0..count - key_at {
            let key = take(&mut self.keys[left * self.max_keys + key_at + i]);
            self.keys[right * self.max_keys + there + i] = key;
        }
        let items = count + self.more_items() - at;
        let first = there + count - key_at + self.more_items() - items;
        for i in 0..items {
            let item = take(&mut self.items[left * self.max_items + at + i]);
            self.items[right * self.max_items + first + i] = item;
        }
        self.counts[left] = key_at as u16;
        self.counts[right] += (count - key_at) as u16;
    }

    /// Takes the last key away, and leaves its item.
    pub fn pop_key(&mut self, node: NodeIndex) -> K {
        let last = self.count(node) - 1;
        self.counts[node as usize] -= 1;
        take(self.key_mut(node, last))
    }

    /// Adds a key behind the last; its item is put separately.
    pub fn push_key(&mut self, node: NodeIndex, key: K) {
        let at = self.count(node);
        *self.key_mut(node, at) = key;
        self.counts[node as usize] += 1;
    }
}
