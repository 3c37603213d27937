//! The peer `btreemap`.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::hint::black_box;
use std::ops::Bound;

use everleaf_index::IndexStatistics;

use super::bytes::{FILL, first_word, write_first_word};
use super::{Operations, Target};
use crate::key::BenchKey;

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

/// The peer: std's `BTreeMap`, directly. It persists nothing.
pub struct MapTarget<K: BenchKey, V> {
    map: BTreeMap<K::Kept, V>,
    value_bytes: usize,
}

impl<K: BenchKey, V> MapTarget<K, V> {
    /// An empty map.
    pub fn new(value_bytes: usize) -> Self {
        Self { map: BTreeMap::new(), value_bytes }
    }
}

impl<K: BenchKey, V: MapValue> Target<K> for MapTarget<K, V> {
    const RETURNS_OLD: bool = true;
    type Handle<'t> = MapHandle<'t, K, V>;

    fn handles(&mut self, _threads: usize) -> Vec<MapHandle<'_, K, V>> {
        vec![MapHandle { map: &mut self.map, value_bytes: self.value_bytes }]
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

/// The peer as its only thread uses it.
pub struct MapHandle<'t, K: BenchKey, V> {
    map: &'t mut BTreeMap<K::Kept, V>,
    value_bytes: usize,
}

impl<K: BenchKey, V: MapValue> Operations<K> for MapHandle<'_, K, V> {
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
        let from = (Bound::Included(key.lookup()), Bound::Unbounded);
        let (mut sum, mut entries) = (0u64, self.map.range(from).take(records));
        let Some((start, value)) = entries.next() else { return Ok(false) };
        entries.for_each(|(_, value)| sum = sum.wrapping_add(value.first()));
        black_box(sum.wrapping_add(value.first()));
        Ok(start.borrow() == key.lookup())
    }
}
