//! An index behind its trait.

use std::hint::black_box;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use everleaf::DurabilityMode;
use everleaf_index::{
    Contract, Direction, EpochTimer, Index, IndexError, IndexStatistics, KeyKind, SerialIndex,
};
use everleaf_pool::Seal;

use super::map::words_of;
use super::{Operations, Target};
use crate::BenchError;
use crate::key::BenchKey;
use crate::options::MULTIGET_KEYS;

/// Words that a value can have at most.
const MAX_WORDS: usize = 14;

/// An index behind its trait.
pub struct IndexTarget<K: BenchKey> {
    /// Ends epochs; it goes before the index does.
    timer: Option<EpochTimer>,
    /// Ends them instead.
    writes: Option<EpochWrites>,
    index: Arc<dyn Index<K::Kind>>,
}

/// The writes of an epoch, which ends with the last of them.
pub struct EpochWrites {
    most: u64,
    done: AtomicU64,
}

impl EpochWrites {
    /// Counts a write; whether the epoch ends with it.
    #[inline(always)]
    fn is_last(&self) -> bool {
        (self.done.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(self.most)
    }
}

impl<K: BenchKey> IndexTarget<K> {
    /// Any engine.
    pub fn new(index: Box<dyn Index<K::Kind>>) -> Self {
        Self { timer: None, writes: None, index: index.into() }
    }

    /// The same, and an epoch ends after exactly so many writes, if it has any.
    pub fn ending_epochs_after(mut self, writes: u64) -> Self {
        if self.index.contract() == Contract::Buffered {
            self.writes = Some(EpochWrites { most: writes, done: AtomicU64::new(0) });
        }
        self
    }

    /// The same, and its epochs are ended as often as those of a store, if it has any.
    pub fn ending_epochs(mut self) -> Result<Self, BenchError> {
        if self.index.contract() == Contract::Buffered {
            let interval = Duration::from_millis(DurabilityMode::DEFAULT_INTERVAL_MS.into());
            let index = Arc::clone(&self.index);
            self.timer = Some(EpochTimer::start(interval, move || index.sync().is_ok())?);
        }
        Ok(self)
    }

    /// Where its inner nodes came from.
    pub fn inner_from(&self) -> &'static str {
        self.index.statistics().inner_from.name()
    }

    /// Closes the index and lets go of it. What it returns is for the close of the pool.
    pub fn close(self) -> Result<Option<Seal>, BenchError> {
        Ok(self.index.close()?)
    }
}

/// The index as one thread may have it, without its lock.
fn alone<K: BenchKey>(
    index: &mut Arc<dyn Index<K::Kind>>,
) -> Option<&mut dyn SerialIndex<K::Kind>> {
    Arc::get_mut(index)?.exclusive()
}

impl<K: BenchKey> Target<K> for IndexTarget<K> {
    const RETURNS_OLD: bool = true;
    type Handle<'t> = IndexHandle<'t, K>;

    fn handles(&mut self, threads: usize) -> Vec<IndexHandle<'_, K>> {
        if threads > 1 || alone::<K>(&mut self.index).is_none() {
            let (index, writes) = (&*self.index, self.writes.as_ref());
            return (0..threads).map(|_| IndexHandle::Shared(index, writes)).collect();
        }
        alone::<K>(&mut self.index).map(IndexHandle::Alone).into_iter().collect()
    }
    fn len(&self) -> u64 {
        self.index.len()
    }
    fn statistics(&self) -> Option<IndexStatistics> {
        Some(self.index.statistics())
    }
    fn medium_bytes(&self) -> Option<u64> {
        Some(self.index.statistics().pm_bytes)
    }
    fn end_epoch(&self) -> Result<(), BenchError> {
        if let Some(writes) = &self.writes {
            writes.done.store(0, Ordering::Relaxed);
        }
        Ok(self.index.sync()?)
    }
}

/// An index as one thread uses it.
pub enum IndexHandle<'t, K: BenchKey> {
    /// Shared with other threads, and the writes of an epoch, where they end it.
    Shared(&'t dyn Index<K::Kind>, Option<&'t EpochWrites>),
    /// The only thread's, as the peer's is: a single-threaded engine without its lock.
    Alone(&'t mut dyn SerialIndex<K::Kind>),
}

/// Calls a method of the index, shared or not. The branch is the same every time.
macro_rules! on {
    ($handle:expr, $index:ident => $call:expr) => {
        match $handle {
            IndexHandle::Shared($index, _) => $call,
            IndexHandle::Alone($index) => $call,
        }
    };
}

impl<K: BenchKey> IndexHandle<'_, K> {
    /// After a write.
    #[inline(always)]
    fn written<T>(&self, outcome: T) -> Result<T, IndexError> {
        if let IndexHandle::Shared(index, Some(writes)) = self
            && writes.is_last()
        {
            index.sync()?;
        }
        Ok(outcome)
    }
}

impl<K: BenchKey> Operations<K> for IndexHandle<'_, K> {
    type Failure = IndexError;

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
        let borrowed: [<K::Kind as KeyKind>::Ref<'_>; MULTIGET_KEYS] =
            std::array::from_fn(|i| keys[i.min(last)].borrow());
        on!(self, index => index.get_many(&borrowed[..keys.len()], values))
    }
    #[inline(always)]
    fn insert(&mut self, key: &K, value: u64) -> Result<bool, IndexError> {
        let new = words_of::<MAX_WORDS>(value);
        on!(self, index => {
            let words = index.value_words();
            index.insert_words(key.borrow(), &new[..words])
        })
        .and_then(|added| self.written(added))
    }
    #[inline(always)]
    fn update(&mut self, key: &K, value: u64) -> Result<Option<u64>, IndexError> {
        let mut old = [0; MAX_WORDS];
        let new = words_of::<MAX_WORDS>(value);
        let found = on!(self, index => {
            let words = index.value_words();
            index.update_words(key.borrow(), &new[..words], &mut old[..words])
        })?;
        self.written(())?;
        Ok(found.then(|| black_box(&old)[0]))
    }
    #[inline(always)]
    fn remove(&mut self, key: &K) -> Result<Option<u64>, IndexError> {
        let mut old = [0; MAX_WORDS];
        let found = on!(self, index => {
            let words = index.value_words();
            index.remove_words(key.borrow(), &mut old[..words])
        })?;
        self.written(())?;
        Ok(found.then(|| black_box(&old)[0]))
    }
    #[inline(always)]
    fn scan(&mut self, key: &K, records: usize) -> Result<bool, IndexError> {
        let (mut visited, mut sum, mut first_is_key) = (0, 0u64, false);
        let start = key.borrow();
        let visit = &mut |found: <K::Kind as KeyKind>::Ref<'_>, value: &[u64]| {
            if visited == 0 {
                first_is_key = key.is(found);
            }
            sum = sum.wrapping_add(value[0]);
            visited += 1;
            if visited < records { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        on!(self, index => index.scan(Bound::Included(start), Direction::Forward, visit))?;
        black_box(sum);
        Ok(first_is_key)
    }
}
