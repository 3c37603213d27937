//! What is measured: an index as users have it, or the peer.
//!
//! The measuring loops are compiled for each target, so that nothing is paid but what a user of the target pays:
//!
//! * an engine is called through `dyn Index`, as it is by its users: two indirect calls an operation (a few nanoseconds); in a run with one thread,
//!   which has the index to itself, without the lock of single-threaded engines, as the peer is;
//! * the peer `btreemap` is std's `BTreeMap` called directly, not through the trait: `BTreeMap<u64, [u64; W]>`, and for strings
//!   `BTreeMap<Box<[u8]>, [u64; W]>`, the natural map of byte strings that are not all of one length.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::ops::{Bound, ControlFlow};

use everleaf_index::{Direction, Index, IndexError, IndexStatistics, KeyKind, SerialIndex};

use crate::keys::{BenchKey, String16};
use crate::options::{MULTIGET_KEYS, SCAN_RECORDS};

/// Words that a value can have at most.
const MAX_WORDS: usize = 14;

/// Something that keys are put into.
pub trait Target<K> {
    /// What one thread works with.
    type Handle<'t>: Operations<K> + Send
    where
        Self: 't;

    /// A handle for each of `threads`; fewer if it cannot be shared.
    fn handles(&mut self, threads: usize) -> Vec<Self::Handle<'_>>;

    /// Number of keys.
    fn len(&self) -> u64;

    /// Sizes and shape, where they are known.
    fn statistics(&self) -> Option<IndexStatistics>;
}

/// The operations that are timed. A value is made of its first word, and first words are what is returned.
pub trait Operations<K> {
    /// The value of a key.
    fn get(&mut self, key: &K) -> Result<Option<u64>, IndexError>;
    /// The values of up to [`MULTIGET_KEYS`] keys.
    fn get_many(&mut self, keys: &[K], values: &mut [Option<u64>]) -> Result<(), IndexError>;
    /// Adds a key; whether it was absent.
    fn insert(&mut self, key: &K, value: u64) -> Result<bool, IndexError>;
    /// Replaces a value; the old one.
    fn update(&mut self, key: &K, value: u64) -> Result<Option<u64>, IndexError>;
    /// Removes a key; its value.
    fn remove(&mut self, key: &K) -> Result<Option<u64>, IndexError>;
    /// Visits [`SCAN_RECORDS`] records from `key` on; whether the first was that of `key`.
    fn scan(&mut self, key: &K) -> Result<bool, IndexError>;
}

/// The words of a value.
#[inline(always)]
fn words_of<const W: usize>(first: u64) -> [u64; W] {
    std::array::from_fn(|i| first.wrapping_add(i as u64))
}

/// An index behind its trait.
pub struct IndexTarget<K: BenchKey> {
    index: Box<dyn Index<K::Kind>>,
}

impl<K: BenchKey> IndexTarget<K> {
    /// Any engine.
    pub fn new(index: Box<dyn Index<K::Kind>>) -> Self {
        Self { index }
    }
}

impl<K: BenchKey> Target<K> for IndexTarget<K> {
    type Handle<'t> = IndexHandle<'t, K>;

    fn handles(&mut self, threads: usize) -> Vec<IndexHandle<'_, K>> {
        if threads > 1 || self.index.exclusive().is_none() {
            let index = &*self.index;
            return (0..threads).map(|_| IndexHandle::Shared(index)).collect();
        }
        self.index.exclusive().map(IndexHandle::Alone).into_iter().collect()
    }
    fn len(&self) -> u64 {
        self.index.len()
    }
    fn statistics(&self) -> Option<IndexStatistics> {
        Some(self.index.statistics())
    }
}

/// An index as one thread uses it.
pub enum IndexHandle<'t, K: BenchKey> {
    /// Shared with other threads.
    Shared(&'t dyn Index<K::Kind>),
    /// The only thread's, as the peer's is: a single-threaded engine without its lock.
    Alone(&'t mut dyn SerialIndex<K::Kind>),
}

/// Calls a method of the index, whoever has it. The branch is the same every time.
macro_rules! on {
    ($handle:expr, $index:ident => $call:expr) => {
        match $handle {
            IndexHandle::Shared($index) => $call,
            IndexHandle::Alone($index) => $call,
        }
    };
}

impl<K: BenchKey> Operations<K> for IndexHandle<'_, K> {
    #[inline(always)]
    fn get(&mut self, key: &K) -> Result<Option<u64>, IndexError> {
        let mut value = [0; MAX_WORDS];
        let found = on!(self, index => {
            let words = index.value_words();
            index.get_words(key.borrow(), &mut value[..words])
        })?;
        Ok(found.then(|| black_box(&value)[0]))
    }
    #[inline(always)]
    fn get_many(&mut self, keys: &[K], values: &mut [Option<u64>]) -> Result<(), IndexError> {
        let last = keys.len() - 1;
        let borrowed: [<K::Kind as KeyKind>::Ref<'_>; MULTIGET_KEYS] = std::array::from_fn(|i| keys[i.min(last)].borrow());
        on!(self, index => index.get_many(&borrowed[..keys.len()], values))
    }
    #[inline(always)]
    fn insert(&mut self, key: &K, value: u64) -> Result<bool, IndexError> {
        let new = words_of::<MAX_WORDS>(value);
        on!(self, index => {
            let words = index.value_words();
            index.insert_words(key.borrow(), &new[..words])
        })
    }
    #[inline(always)]
    fn update(&mut self, key: &K, value: u64) -> Result<Option<u64>, IndexError> {
        let mut old = [0; MAX_WORDS];
        let new = words_of::<MAX_WORDS>(value);
        let found = on!(self, index => {
            let words = index.value_words();
            index.update_words(key.borrow(), &new[..words], &mut old[..words])
        })?;
        Ok(found.then(|| black_box(&old)[0]))
    }
    #[inline(always)]
    fn remove(&mut self, key: &K) -> Result<Option<u64>, IndexError> {
        let mut old = [0; MAX_WORDS];
        let found = on!(self, index => {
            let words = index.value_words();
            index.remove_words(key.borrow(), &mut old[..words])
        })?;
        Ok(found.then(|| black_box(&old)[0]))
    }
    #[inline(always)]
    fn scan(&mut self, key: &K) -> Result<bool, IndexError> {
        let (mut visited, mut sum, mut first_is_key) = (0, 0u64, false);
        let start = key.borrow();
        let visit = &mut |found: <K::Kind as KeyKind>::Ref<'_>, value: &[u64]| {
            if visited == 0 {
                first_is_key = K::is(found, key);
            }
            sum = sum.wrapping_add(value[0]);
            visited += 1;
            if visited < SCAN_RECORDS { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        on!(self, index => index.scan(Bound::Included(start), Direction::Forward, visit))?;
        black_box(sum);
        Ok(first_is_key)
    }
}

/// A key that std's map can hold in its natural form.
pub trait MapKey: BenchKey {
    /// What the map holds.
    type Owned: Ord + Send;
    /// A key to keep: for strings an allocation, which is part of what an insertion costs.
    fn keep(&self) -> Self::Owned;
    /// Looks a key up.
    fn find<'m, V>(&self, map: &'m BTreeMap<Self::Owned, V>) -> Option<&'m V>;
    /// Looks a key up to change its value.
    fn find_mut<'m, V>(&self, map: &'m mut BTreeMap<Self::Owned, V>) -> Option<&'m mut V>;
    /// Removes a key.
    fn take<V>(&self, map: &mut BTreeMap<Self::Owned, V>) -> Option<V>;
    /// The entries from a key on.
    fn from<'m, V>(&self, map: &'m BTreeMap<Self::Owned, V>) -> std::collections::btree_map::Range<'m, Self::Owned, V>;
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
            fn from<'m, V>(&self, map: &'m BTreeMap<$owned, V>) -> std::collections::btree_map::Range<'m, $owned, V> {
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

/// The peer: std's `BTreeMap`, directly. It persists nothing.
pub struct MapTarget<K: MapKey, const W: usize> {
    map: BTreeMap<K::Owned, [u64; W]>,
}

impl<K: MapKey, const W: usize> MapTarget<K, W> {
    /// An empty map.
    pub fn new() -> Self {
        Self { map: BTreeMap::new() }
    }
}

impl<K: MapKey, const W: usize> Target<K> for MapTarget<K, W> {
    type Handle<'t> = MapHandle<'t, K, W>;

    fn handles(&mut self, _threads: usize) -> Vec<MapHandle<'_, K, W>> {
        vec![MapHandle { map: &mut self.map }]
    }
    fn len(&self) -> u64 {
        self.map.len() as u64
    }
    fn statistics(&self) -> Option<IndexStatistics> {
        None
    }
}

/// The peer as its only thread uses it.
pub struct MapHandle<'t, K: MapKey, const W: usize> {
    map: &'t mut BTreeMap<K::Owned, [u64; W]>,
}

/// The first word of a value that is read as a whole.
#[inline(always)]
fn first<const W: usize>(value: [u64; W]) -> u64 {
    if W == 1 { value[0] } else { black_box(&value)[0] }
}

impl<K: MapKey, const W: usize> Operations<K> for MapHandle<'_, K, W> {
    #[inline(always)]
    fn get(&mut self, key: &K) -> Result<Option<u64>, IndexError> {
        Ok(key.find(self.map).map(|value| first(*value)))
    }
    #[inline(always)]
    fn get_many(&mut self, keys: &[K], values: &mut [Option<u64>]) -> Result<(), IndexError> {
        for (key, value) in keys.iter().zip(values) {
            *value = key.find(self.map).map(|found| found[0]);
        }
        Ok(())
    }
    #[inline(always)]
    fn insert(&mut self, key: &K, value: u64) -> Result<bool, IndexError> {
        Ok(self.map.insert(key.keep(), words_of(value)).is_none())
    }
    #[inline(always)]
    fn update(&mut self, key: &K, value: u64) -> Result<Option<u64>, IndexError> {
        Ok(key.find_mut(self.map).map(|place| first(std::mem::replace(place, words_of(value)))))
    }
    #[inline(always)]
    fn remove(&mut self, key: &K) -> Result<Option<u64>, IndexError> {
        Ok(key.take(self.map).map(first))
    }
    #[inline(always)]
    fn scan(&mut self, key: &K) -> Result<bool, IndexError> {
        let (mut sum, mut entries) = (0u64, key.from(self.map).take(SCAN_RECORDS));
        let Some((start, value)) = entries.next() else { return Ok(false) };
        entries.for_each(|(_, value)| sum = sum.wrapping_add(value[0]));
        black_box(sum.wrapping_add(value[0]));
        Ok(key.equals(start))
    }
}
