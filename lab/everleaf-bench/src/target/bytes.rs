//! Stores that take and give bytes: the calls that are measured of each, and what measures them.

use everleaf_index::IndexStatistics;
use everleaf_pmem::LogCounts;

use super::{Operations, Target};
use crate::BenchError;
use crate::key::BenchKey;

/// What the bytes of a value behind its first word are.
pub const FILL: u8 = 0x5a;

/// The first word of a value, 0 if it is too short, which no value is that was put.
#[inline(always)]
pub fn first_word(value: &[u8]) -> u64 {
    value.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Makes a value that of `first`.
#[inline(always)]
pub fn write_first_word(value: &mut [u8], first: u64) {
    if let Some(bytes) = value.first_chunk_mut() {
        *bytes = first.to_le_bytes();
    }
}

/// What is shown a value.
pub type Show<'s> = dyn FnMut(&[u8]) + 's;
/// What is shown a value with the place of its key among those that were asked for.
pub type ShowPlace<'s> = dyn FnMut(usize, &[u8]) + 's;
/// What is shown a key and its value.
pub type ShowEntry<'s> = dyn FnMut(&[u8], &[u8]) + 's;

/// A store of bytes, shared by threads. Each call is an operation of its own: done, and as durable
/// as the peer was set up to make it, when it returns.
///
/// It is called through this trait: an indirect call or two, a few nanoseconds of hundreds, which
/// all of them pay alike. So the loops are compiled once for all stores.
pub trait ByteStore<K>: Send + Sync {
    /// Shows the value of a key; whether there is one.
    fn get(&self, key: &K, show: &mut Show<'_>) -> Result<bool, BenchError>;
    /// Shows the values of keys that are asked for together; in one transaction where there are
    /// such.
    fn get_many(&self, keys: &[K], show: &mut ShowPlace<'_>) -> Result<(), BenchError> {
        keys.iter()
            .enumerate()
            .try_for_each(|(place, key)| self.get(key, &mut |value| show(place, value)).map(drop))
    }
    /// Adds a key; false if it was present, true also where that is not looked at.
    fn insert(&self, key: &K, value: &[u8]) -> Result<bool, BenchError>;
    /// Replaces the value of a present key.
    fn put(&self, key: &K, value: &[u8]) -> Result<(), BenchError>;
    /// Inserts or replaces keys together: all or none. A value for each.
    fn put_all(&self, keys: &[K], values: &[Vec<u8>]) -> Result<(), BenchError>;
    /// Removes a present key.
    fn delete(&self, key: &K) -> Result<(), BenchError>;
    /// Shows up to `records` records from a key on.
    fn scan(&self, key: &K, records: usize, show: &mut ShowEntry<'_>) -> Result<(), BenchError>;
    /// Number of keys, by whatever means.
    fn len(&self) -> u64;
    /// Sizes and shape, where they are known.
    fn statistics(&self) -> Option<IndexStatistics> {
        None
    }
    /// Bytes on the medium.
    fn medium_bytes(&self) -> Option<u64>;
    /// What its log has done; none if it has none, or does not tell.
    fn log_counts(&self) -> Option<LogCounts> {
        None
    }
}

/// A store of bytes and the size of its values.
pub struct ByteTarget<K> {
    store: Box<dyn ByteStore<K>>,
    value_bytes: usize,
    batch: usize,
}

impl<K> ByteTarget<K> {
    /// Of values of `value_bytes`, at least 8, of which so many are put together.
    pub fn new(store: impl ByteStore<K> + 'static, value_bytes: usize, batch: usize) -> Self {
        Self { store: Box::new(store), value_bytes, batch }
    }
}

impl<K: BenchKey> Target<K> for ByteTarget<K> {
    const RETURNS_OLD: bool = false;
    type Handle<'t> = ByteHandle<'t, K>;

    fn handles(&mut self, threads: usize) -> Vec<ByteHandle<'_, K>> {
        let store = &*self.store;
        let handle = |_| ByteHandle {
            store,
            new: vec![FILL; self.value_bytes],
            found: vec![0; self.value_bytes],
            together: vec![vec![FILL; self.value_bytes]; self.batch],
        };
        (0..threads).map(handle).collect()
    }
    fn len(&self) -> u64 {
        self.store.len()
    }
    fn statistics(&self) -> Option<IndexStatistics> {
        self.store.statistics()
    }
    fn medium_bytes(&self) -> Option<u64> {
        self.store.medium_bytes()
    }
    fn log_counts(&self) -> Option<LogCounts> {
        self.store.log_counts()
    }
}

/// A store of bytes as one thread uses it: with a value to give and a buffer to take one.
pub struct ByteHandle<'t, K> {
    store: &'t dyn ByteStore<K>,
    new: Vec<u8>,
    found: Vec<u8>,
    /// Values that are put together.
    together: Vec<Vec<u8>>,
}

impl<K> ByteHandle<'_, K> {
    #[inline(always)]
    fn value(&mut self, first: u64) -> &[u8] {
        write_first_word(&mut self.new, first);
        &self.new
    }
}

/// Copies a value to where the caller wants it. One of another length is none that was put, and so
/// is its first word.
#[inline(always)]
fn copy(value: &[u8], buffer: &mut [u8]) -> u64 {
    if value.len() != buffer.len() {
        return 0;
    }
    buffer.copy_from_slice(value);
    first_word(std::hint::black_box(buffer))
}

impl<K: BenchKey> Operations<K> for ByteHandle<'_, K> {
    type Failure = BenchError;

    #[inline(always)]
    fn get(&mut self, key: &K) -> Result<Option<u64>, BenchError> {
        let mut word = 0;
        let found = self.store.get(key, &mut |value| word = copy(value, &mut self.found))?;
        Ok(found.then_some(word))
    }
    #[inline(always)]
    fn get_many(&mut self, keys: &[K], values: &mut [Option<u64>]) -> Result<(), BenchError> {
        values.fill(None);
        self.store
            .get_many(keys, &mut |place, value| values[place] = Some(copy(value, &mut self.found)))
    }
    #[inline(always)]
    fn insert(&mut self, key: &K, value: u64) -> Result<bool, BenchError> {
        let store = self.store;
        store.insert(key, self.value(value))
    }
    #[inline(always)]
    fn update(&mut self, key: &K, value: u64) -> Result<Option<u64>, BenchError> {
        let store = self.store;
        store.put(key, self.value(value)).map(|()| Some(0))
    }
    fn batch(&self) -> usize {
        self.together.len()
    }
    fn put_all(&mut self, keys: &[K], values: &[u64]) -> Result<(), BenchError> {
        let together = &mut self.together[..keys.len()];
        together.iter_mut().zip(values).for_each(|(value, word)| write_first_word(value, *word));
        self.store.put_all(keys, together)
    }
    #[inline(always)]
    fn remove(&mut self, key: &K) -> Result<Option<u64>, BenchError> {
        self.store.delete(key).map(|()| Some(0))
    }
    #[inline(always)]
    fn scan(&mut self, key: &K, records: usize) -> Result<bool, BenchError> {
        let (mut visited, mut first_is_key, start) = (0, false, key.bytes());
        let found = &mut self.found;
        self.store.scan(key, records, &mut |shown, value| {
            if visited == 0 {
                first_is_key = shown == start.as_ref();
            }
            copy(value, found);
            visited += 1;
        })?;
        Ok(first_is_key)
    }
}
