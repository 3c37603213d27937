//! Maps in memory: the peer `btreemap`, and `stx`.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::hint::black_box;
use std::marker::PhantomData;
use std::ops::Bound;

use everleaf_index::IndexStatistics;

use super::bytes::{FILL, first_word, write_first_word};
use super::{Operations, Target};
use crate::key::BenchKey;
use crate::stx::{Sizes, StxTree};

/// The words of a value.
#[inline(always)]
pub fn words_of<const W: usize>(first: u64) -> [u64; W] {
    std::array::from_fn(|i| first.wrapping_add(i as u64))
}

/// A value as a map holds it.
pub trait MapValue: Send + Sync + 'static {
    /// Of `bytes` bytes, made of its first word.
    fn of(first: u64, bytes: usize) -> Self;
    /// Its first word.
    fn first(&self) -> u64;
    /// Its first word, after all of it was read.
    fn whole(&self) -> u64;
}

impl<const W: usize> MapValue for [u64; W] {
    #[inline(always)]
    fn of(first: u64, _bytes: usize) -> Self {
        words_of(first)
    }
    #[inline(always)]
    fn first(&self) -> u64 {
        self[0]
    }
    #[inline(always)]
    fn whole(&self) -> u64 {
        if W == 1 { self[0] } else { black_box(*self)[0] }
    }
}

/// An allocation, which is part of what an insertion costs.
impl MapValue for Box<[u8]> {
    #[inline(always)]
    fn of(first: u64, bytes: usize) -> Self {
        let mut value = vec![FILL; bytes].into_boxed_slice();
        write_first_word(&mut value, first);
        value
    }
    #[inline(always)]
    fn first(&self) -> u64 {
        first_word(self)
    }
    #[inline(always)]
    fn whole(&self) -> u64 {
        black_box(self.iter().fold(0, |all, byte| all ^ byte));
        first_word(self)
    }
}

/// A map whose keys are in order.
pub trait OrderedMap<K: BenchKey, V>: Send + 'static {
    fn len(&self) -> usize;
    fn get(&self, key: &K::Lookup) -> Option<&V>;
    fn get_mut(&mut self, key: &K::Lookup) -> Option<&mut V>;
    fn insert(&mut self, key: K::Kept, value: V) -> Option<V>;
    fn remove(&mut self, key: &K::Lookup) -> Option<V>;
    /// The entries from a key on.
    fn range_from<'m>(&'m self, key: &'m K::Lookup) -> impl Iterator<Item = (&'m K::Kept, &'m V)>
    where
        V: 'm;
}

impl<K: BenchKey, V: MapValue> OrderedMap<K, V> for BTreeMap<K::Kept, V> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.len()
    }
    #[inline(always)]
    fn get(&self, key: &K::Lookup) -> Option<&V> {
        self.get(key)
    }
    #[inline(always)]
    fn get_mut(&mut self, key: &K::Lookup) -> Option<&mut V> {
        self.get_mut(key)
    }
    #[inline(always)]
    fn insert(&mut self, key: K::Kept, value: V) -> Option<V> {
        self.insert(key, value)
    }
    #[inline(always)]
    fn remove(&mut self, key: &K::Lookup) -> Option<V> {
        self.remove(key)
    }
    #[inline(always)]
    fn range_from<'m>(&'m self, key: &'m K::Lookup) -> impl Iterator<Item = (&'m K::Kept, &'m V)>
    where
        V: 'm,
    {
        self.range((Bound::Included(key), Bound::Unbounded))
    }
}

impl<K: BenchKey, V: MapValue + Default> OrderedMap<K, V> for StxTree<K::Kept, V> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.len()
    }
    #[inline(always)]
    fn get(&self, key: &K::Lookup) -> Option<&V> {
        self.get(key)
    }
    #[inline(always)]
    fn get_mut(&mut self, key: &K::Lookup) -> Option<&mut V> {
        self.get_mut(key)
    }
    #[inline(always)]
    fn insert(&mut self, key: K::Kept, value: V) -> Option<V> {
        self.insert(key, value)
    }
    #[inline(always)]
    fn remove(&mut self, key: &K::Lookup) -> Option<V> {
        self.remove(key)
    }
    #[inline(always)]
    fn range_from<'m>(&'m self, key: &'m K::Lookup) -> impl Iterator<Item = (&'m K::Kept, &'m V)>
    where
        V: 'm,
    {
        self.range_from(key)
    }
}

/// A map, directly. It persists nothing.
pub struct MapTarget<K: BenchKey, V, M = BTreeMap<<K as BenchKey>::Kept, V>> {
    map: M,
    value_bytes: usize,
    kinds: PhantomData<fn() -> (K, V)>,
}

/// The tree of FPTree's paper, likewise.
pub type StxTarget<K, V> = MapTarget<K, V, StxTree<<K as BenchKey>::Kept, V>>;

impl<K: BenchKey, V: MapValue> MapTarget<K, V> {
    /// std's `BTreeMap`, empty.
    pub fn new(value_bytes: usize) -> Self {
        Self::over(BTreeMap::new(), value_bytes)
    }
}

impl<K: BenchKey, V: MapValue + Default> StxTarget<K, V> {
    /// An empty tree.
    pub fn with_sizes(sizes: Sizes, value_bytes: usize) -> Self {
        Self::over(StxTree::new(sizes), value_bytes)
    }
}

impl<K: BenchKey, V, M> MapTarget<K, V, M> {
    const fn over(map: M, value_bytes: usize) -> Self {
        Self { map, value_bytes, kinds: PhantomData }
    }
}

impl<K: BenchKey, V: MapValue, M: OrderedMap<K, V>> Target<K> for MapTarget<K, V, M> {
    const RETURNS_OLD: bool = true;
    type Handle<'t> = MapHandle<'t, K, V, M>;

    fn handles(&mut self, _threads: usize) -> Vec<MapHandle<'_, K, V, M>> {
        let (map, value_bytes) = (&mut self.map, self.value_bytes);
        vec![MapHandle { map, value_bytes, kinds: PhantomData }]
    }
    fn len(&self) -> u64 {
        self.map.len() as u64
    }
    fn statistics(&self) -> Option<IndexStatistics> {
        None
    }
    fn medium_bytes(&self) -> Option<u64> {
        None
    }
}

/// A map as its only thread uses it.
pub struct MapHandle<'t, K: BenchKey, V, M> {
    map: &'t mut M,
    value_bytes: usize,
    kinds: PhantomData<fn() -> (K, V)>,
}

impl<K: BenchKey, V: MapValue, M: OrderedMap<K, V>> Operations<K> for MapHandle<'_, K, V, M> {
    type Failure = Infallible;

    #[inline(always)]
    fn get(&mut self, key: &K) -> Result<Option<u64>, Infallible> {
        Ok(self.map.get(key.lookup()).map(V::whole))
    }
    #[inline(always)]
    fn get_many(&mut self, keys: &[K], values: &mut [Option<u64>]) -> Result<(), Infallible> {
        for (key, value) in keys.iter().zip(values) {
            *value = self.map.get(key.lookup()).map(V::first);
        }
        Ok(())
    }
    #[inline(always)]
    fn insert(&mut self, key: &K, value: u64) -> Result<bool, Infallible> {
        Ok(self.map.insert(key.keep(), V::of(value, self.value_bytes)).is_none())
    }
    #[inline(always)]
    fn update(&mut self, key: &K, value: u64) -> Result<Option<u64>, Infallible> {
        Ok(self
            .map
            .get_mut(key.lookup())
            .map(|place| std::mem::replace(place, V::of(value, self.value_bytes)).whole()))
    }
    #[inline(always)]
    fn remove(&mut self, key: &K) -> Result<Option<u64>, Infallible> {
        Ok(self.map.remove(key.lookup()).map(|value| value.whole()))
    }
    #[inline(always)]
    fn scan(&mut self, key: &K, records: usize) -> Result<bool, Infallible> {
        let (mut sum, mut entries) = (0u64, self.map.range_from(key.lookup()).take(records));
        let Some((start, value)) = entries.next() else { return Ok(false) };
        entries.for_each(|(_, value)| sum = sum.wrapping_add(value.first()));
        black_box(sum.wrapping_add(value.first()));
        Ok(start.borrow() == key.lookup())
    }
}
