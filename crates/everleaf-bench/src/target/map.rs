//! The peer `btreemap`.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::hint::black_box;
use std::ops::Bound;

use everleaf_index::IndexStatistics;

use super::bytes::{FILL, first_word, write_first_word};
use super::{Operations, Target};
use crate::keys::{BenchKey, String16, UserKey};

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

/// A key that std's map can hold in its natural form.
pub trait MapKey: BenchKey {
    /// What the map holds.
    type Owned: Ord + Send + Sync + 'static;
    /// A key to keep: for strings an allocation, which is part of what an insertion costs.
    fn keep(&self) -> Self::Owned;
    /// Looks a key up.
    fn find<'m, V>(&self, map: &'m BTreeMap<Self::Owned, V>) -> Option<&'m V>;
    /// Looks a key up to change its value.
    fn find_mut<'m, V>(&self, map: &'m mut BTreeMap<Self::Owned, V>) -> Option<&'m mut V>;
    /// Removes a key.
    fn take<V>(&self, map: &mut BTreeMap<Self::Owned, V>) -> Option<V>;
    /// The entries from a key on.
    fn from<'m, V>(
        &self,
        map: &'m BTreeMap<Self::Owned, V>,
    ) -> std::collections::btree_map::Range<'m, Self::Owned, V>;
    /// Whether a kept key is this one.
    fn equals(&self, kept: &Self::Owned) -> bool;
}

macro_rules! map_key {
    ($key:ty, $owned:ty, |$this:ident| $keep:expr, $borrowed:ty, $borrow:expr) => {
        impl MapKey for $key {
            type Owned = $owned;
            #[inline(always)]
            fn keep(&self) -> $owned {
                let $this = self;
                $keep
            }
            #[inline(always)]
            fn find<'m, V>(&self, map: &'m BTreeMap<$owned, V>) -> Option<&'m V> {
                let $this = self;
                map.get::<$borrowed>($borrow)
            }
            #[inline(always)]
            fn find_mut<'m, V>(&self, map: &'m mut BTreeMap<$owned, V>) -> Option<&'m mut V> {
                let $this = self;
                map.get_mut::<$borrowed>($borrow)
            }
            #[inline(always)]
            fn take<V>(&self, map: &mut BTreeMap<$owned, V>) -> Option<V> {
                let $this = self;
                map.remove::<$borrowed>($borrow)
            }
            #[inline(always)]
            fn from<'m, V>(
                &self,
                map: &'m BTreeMap<$owned, V>,
            ) -> std::collections::btree_map::Range<'m, $owned, V> {
                let $this = self;
                map.range::<$borrowed, _>((Bound::Included($borrow), Bound::Unbounded))
            }
            #[inline(always)]
            fn equals(&self, kept: &$owned) -> bool {
                let $this = self;
                <$owned as std::borrow::Borrow<$borrowed>>::borrow(kept) == $borrow
            }
        }
    };
}

map_key!(u64, u64, |key| *key, u64, key);
map_key!(String16, Box<[u8]>, |key| key.as_slice().into(), [u8], key.as_slice());
map_key!(UserKey, Box<[u8]>, |key| key.as_slice().into(), [u8], key.as_slice());

/// The peer: std's `BTreeMap`, directly. It persists nothing.
pub struct MapTarget<K: MapKey, V> {
    map: BTreeMap<K::Owned, V>,
    value_bytes: usize,
}

impl<K: MapKey, V> MapTarget<K, V> {
    /// An empty map.
    pub fn new(value_bytes: usize) -> Self {
        Self { map: BTreeMap::new(), value_bytes }
    }
}

impl<K: MapKey, V: MapValue> Target<K> for MapTarget<K, V> {
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
pub struct MapHandle<'t, K: MapKey, V> {
    map: &'t mut BTreeMap<K::Owned, V>,
    value_bytes: usize,
}

impl<K: MapKey, V: MapValue> Operations<K> for MapHandle<'_, K, V> {
    type Failure = Infallible;

    #[inline(always)]
    fn get(&mut self, key: &K) -> Result<Option<u64>, Infallible> {
        Ok(key.find(self.map).map(V::whole))
    }
    #[inline(always)]
    fn get_many(&mut self, keys: &[K], values: &mut [Option<u64>]) -> Result<(), Infallible> {
        for (key, value) in keys.iter().zip(values) {
            *value = key.find(self.map).map(V::first);
        }
        Ok(())
    }
    #[inline(always)]
    fn insert(&mut self, key: &K, value: u64) -> Result<bool, Infallible> {
        Ok(self.map.insert(key.keep(), V::of(value, self.value_bytes)).is_none())
    }
    #[inline(always)]
    fn update(&mut self, key: &K, value: u64) -> Result<Option<u64>, Infallible> {
        Ok(key
            .find_mut(self.map)
            .map(|place| std::mem::replace(place, V::of(value, self.value_bytes)).whole()))
    }
    #[inline(always)]
    fn remove(&mut self, key: &K) -> Result<Option<u64>, Infallible> {
        Ok(key.take(self.map).map(|value| value.whole()))
    }
    #[inline(always)]
    fn scan(&mut self, key: &K, records: usize) -> Result<bool, Infallible> {
        let (mut sum, mut entries) = (0u64, key.from(self.map).take(records));
        let Some((start, value)) = entries.next() else { return Ok(false) };
        entries.for_each(|(_, value)| sum = sum.wrapping_add(value.first()));
        black_box(sum.wrapping_add(value.first()));
        Ok(key.equals(start))
    }
}
