//! clfB-tree's nodes in a buddy heap, which the paper has: a model of the tree that allocates as
//! the tree does, and has keys and addresses and nothing else.
//!
//! The pool's own heap takes the free node that is nearest to the others of its parent. A buddy
//! heap knows no place that is asked for, so addresses follow the time at which nodes were made,
//! and where keys come at random, children are anywhere. It makes no tree better, so it is here and
//! not among the choices of a pool.

use std::collections::{BTreeMap, BTreeSet};

use super::clfb_counts::Encodings;

/// Bytes of an inner node, and of a leaf in the order of the paper with its entries.
const LINE: u64 = 64;
const LEAF: u64 = 512;
const LEAF_ENTRIES: usize = 31;
/// Bytes of an inner node before its differences.
const HEAD: usize = 18;

/// Where nodes are allocated.
pub trait Heap {
    /// Takes a node of so many bytes, near to a place if the heap knows of that.
    fn take(&mut self, bytes: u64, near: u64) -> u64;
    /// Takes it back.
    fn give_back(&mut self, address: u64, bytes: u64);
}

/// Blocks of powers of two, each of two that are each other's buddies; the free ones by their size.
/// Of the smallest that suffice the lowest is taken, and the rest of it is free in halves.
#[derive(Default)]
pub struct Buddy {
    free: Vec<BTreeSet<u64>>,
    end: u64,
}

impl Buddy {
    /// Size of the largest block, by which the heap grows: 4 MiB.
    const ORDERS: usize = 17;

    fn order(bytes: u64) -> usize {
        (bytes / LINE).next_power_of_two().trailing_zeros() as usize
    }
}

impl Heap for Buddy {
    fn take(&mut self, bytes: u64, _near: u64) -> u64 {
        self.free.resize(Self::ORDERS, BTreeSet::new());
        let wanted = Self::order(bytes);
        let found = (wanted..Self::ORDERS).find(|order| !self.free[*order].is_empty());
        let mut order = found.unwrap_or(Self::ORDERS - 1);
        let address = self.free[order].pop_first().unwrap_or_else(|| {
            let address = self.end;
            self.end += LINE << order;
            address
        });
        while order > wanted {
            order -= 1;
            self.free[order].insert(address + (LINE << order));
        }
        address
    }

    fn give_back(&mut self, mut address: u64, bytes: u64) {
        let mut order = Self::order(bytes);
        while order + 1 < Self::ORDERS && self.free[order].remove(&(address ^ (LINE << order))) {
            address &= !(LINE << order);
            order += 1;
        }
        self.free[order].insert(address);
    }
}

/// An inner node.
struct Inner {
    address: u64,
    /// What differences of children are taken to.
    base: u64,
    keys: Vec<u64>,
    children: Vec<u64>,
}

/// Bytes that a difference of keys needs, and one of children.
fn key_bytes(keys: &[u64]) -> usize {
    let widest = keys.first().zip(keys.last()).map_or(0, |(first, last)| last - first);
    (u64::BITS - widest.leading_zeros()).div_ceil(8).max(1) as usize
}
fn child_bytes(child: u64, base: u64) -> usize {
    let difference = child.wrapping_sub(base) as i64;
    let bits = u64::BITS - (difference ^ (difference >> 63)).leading_zeros() + 1;
    bits.div_ceil(8) as usize
}

/// What differences are taken to, if these children fit into a line with their keys: the first, or
/// the base before, which costs one difference more.
fn base_that_fits(keys: &[u64], children: &[u64], before: u64) -> Option<u64> {
    let of_keys = keys.len().saturating_sub(1) * key_bytes(keys);
    [(children[0], 1), (before, 0)].into_iter().find_map(|(base, skipped)| {
        let widest = children.iter().map(|child| child_bytes(*child, base)).max().unwrap_or(1);
        let length = HEAD + of_keys + (children.len() - skipped) * widest;
        (keys.len() < 24 && length <= LINE as usize).then_some(base)
    })
}

/// The tree: leaves by the least key of their range, and inner nodes likewise, by level.
pub struct Model<H> {
    heap: H,
    leaves: BTreeMap<u64, (u64, Vec<u64>)>,
    levels: Vec<BTreeMap<u64, Inner>>,
}

impl<H: Heap> Model<H> {
    /// An empty leaf.
    pub fn new(mut heap: H) -> Self {
        let first = (heap.take(LEAF, 0), Vec::new());
        Self { heap, leaves: BTreeMap::from([(0, first)]), levels: Vec::new() }
    }

    /// Adds a key that is not there; a full leaf is split as in the paper, into two fresh ones.
    pub fn insert(&mut self, key: u64) {
        let Some((_, (old, keys))) = self.leaves.range_mut(..=key).next_back() else { return };
        let at = keys.partition_point(|other| *other < key);
        keys.insert(at, key);
        if keys.len() <= LEAF_ENTRIES {
            return;
        }
        let right = keys.split_off(keys.len() / 2 - 1);
        let (separator, old) = (right[0], *old);
        let near = self.parent(0, key).map_or(old, |parent| parent.base);
        let new = [(); 2].map(|()| self.heap.take(LEAF, near));
        self.heap.give_back(old, LEAF);
        if let Some((_, (left, _))) = self.leaves.range_mut(..separator).next_back() {
            *left = new[0];
        }
        self.leaves.insert(separator, (new[1], right));
        self.replace(key, old, separator, new);
    }

    fn parent(&self, level: usize, key: u64) -> Option<&Inner> {
        Some(self.levels.get(level)?.range(..=key).next_back()?.1)
    }

    /// Puts two nodes in the place of one on the way to a key, upwards until they fit.
    fn replace(&mut self, key: u64, mut old: u64, mut separator: u64, mut new: [u64; 2]) {
        for level in 0..self.levels.len() {
            let near = self.parent(level + 1, key).map(|parent| parent.base);
            let Some((_, node)) = self.levels[level].range_mut(..=key).next_back() else { return };
            let Some(at) = node.children.iter().position(|child| *child == old) else { return };
            node.children.splice(at..=at, new);
            node.keys.insert(at, separator);
            if let Some(base) = base_that_fits(&node.keys, &node.children, node.base) {
                node.base = base;
                return;
            }
            let middle = node.children.len() / 2;
            let (before, gone, near) = (node.base, node.address, near.unwrap_or(node.address));
            let children = node.children.split_off(middle);
            let keys = node.keys.split_off(middle);
            separator = node.keys.pop().unwrap_or_default();
            new = [(); 2].map(|()| self.heap.take(LINE, near));
            self.heap.give_back(gone, LINE);
            let base = |keys: &[u64], children: &[u64]| {
                base_that_fits(keys, children, before).unwrap_or(children[0])
            };
            node.address = new[0];
            node.base = base(&node.keys, &node.children);
            let base = base(&keys, &children);
            self.levels[level].insert(separator, Inner { address: new[1], base, keys, children });
            old = gone;
        }
        let address = self.heap.take(LINE, old);
        let root = Inner { address, base: new[0], keys: vec![separator], children: new.to_vec() };
        self.levels.push(BTreeMap::from([(0, root)]));
    }

    /// How its inner nodes are encoded.
    pub fn encodings(&self) -> Encodings {
        let mut found = Encodings::default();
        for node in self.levels.iter().flat_map(BTreeMap::values) {
            let own = node.children.iter().map(|child| child_bytes(*child, node.base));
            let mut own_bytes = [0; 8];
            own.for_each(|bytes| own_bytes[bytes - 1] += 1);
            found.add(node.children.len(), key_bytes(&node.keys), own_bytes);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use everleaf::internal::{U64Keys, registry};
    use everleaf::{Engine, EngineParameters, KeyType};
    use everleaf_engines::all;
    use everleaf_engines::inner_encodings;
    use everleaf_pmem::{Cpu, Mapped, Region};
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    /// As the pool's: a run of 256 KiB at a time, of nodes of one size; the nearest free one.
    #[derive(Default)]
    struct Nearest {
        free: BTreeMap<u64, BTreeSet<u64>>,
        end: u64,
    }

    impl Heap for Nearest {
        fn take(&mut self, bytes: u64, near: u64) -> u64 {
            let free = self.free.entry(bytes).or_default();
            if free.is_empty() {
                free.extend((0..(256 << 10) / bytes).map(|i| self.end + i * bytes));
                self.end += 256 << 10;
            }
            let below = free.range(..near).next_back();
            let nearest = below.into_iter().chain(free.range(near..).next());
            let address = *nearest.min_by_key(|address| address.abs_diff(near)).unwrap();
            free.take(&address).unwrap()
        }

        fn give_back(&mut self, address: u64, bytes: u64) {
            assert!(self.free.entry(bytes).or_default().insert(address));
        }
    }

    fn keys(count: usize) -> Vec<u64> {
        let mut random = StdRng::seed_from_u64(5);
        let mut seen = BTreeSet::new();
        let keys = std::iter::repeat_with(|| random.random::<u64>() >> 33);
        keys.filter(|key| seen.insert(*key)).take(count).collect()
    }

    #[test]
    fn the_model_has_the_nodes_of_the_tree() {
        let region = Region::anonymous(1 << 20, 1 << 28).unwrap();
        let media = Mapped::new(region, &Cpu::detect()).unwrap();
        let engine = Engine::CLFTREE_APPEND;
        let parameters = EngineParameters::default().leaf_slots(31).paper_order(true);
        let format = registry::pool_format(engine, KeyType::U64, &parameters, 1).unwrap();
        let pool = everleaf_pool::Pool::create(media, &format).unwrap();
        let tree =
            registry::create_index::<U64Keys, _>(all(), &pool, engine, &parameters, 1).unwrap();
        let mut model = Model::new(Nearest::default());
        for key in keys(50_000) {
            assert!(tree.insert(key, key).unwrap());
            model.insert(key);
        }
        let mut found = Encodings::default();
        inner_encodings::<U64Keys, _>(&pool, &mut |node| {
            found.add(node.children, node.key_bytes, node.own_bytes);
        })
        .unwrap();
        let model = model.encodings();
        println!("{found:?}\n{model:?}");
        let near = |ours: u64, theirs: u64| ours.abs_diff(theirs) * 50 <= theirs.max(500);
        assert!(near(model.nodes, found.nodes) && near(model.children, found.children));
        for (ours, theirs) in model.by_child_bytes.iter().zip(found.by_child_bytes) {
            assert!(near(*ours, theirs));
        }
    }

    #[test]
    fn buddies_are_halves_of_one_block_and_become_it_again() {
        let mut heap = Buddy::default();
        let leaf = heap.take(LEAF, 0);
        let lines: Vec<u64> = (0..8).map(|_| heap.take(LINE, 0)).collect();
        assert_eq!((leaf, &*lines), (0, &*(8..16).map(|i| i * LINE).collect::<Vec<_>>()));
        assert_eq!(heap.take(LEAF, 0), 2 * LEAF);
        lines.into_iter().for_each(|line| heap.give_back(line, LINE));
        assert_eq!(heap.take(LEAF, 0), LEAF, "the lines are a block of a leaf again");
        for leaf in [2 * LEAF, LEAF, 0] {
            heap.give_back(leaf, LEAF);
        }
        assert_eq!(heap.free.iter().map(BTreeSet::len).sum::<usize>(), 1, "all of it is one block");
    }
}
