//! The reference: what every engine must be indistinguishable from.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use everleaf_pool::Audit;

use crate::{CheckReport, Direction, IndexError, IndexStatistics, KeyKind, SerialIndex, Visit};

/// An ordered map in DRAM, by std's `BTreeMap`: the model of the tests and the peer `btreemap` of
/// the benchmarks. It persists nothing.
#[derive(Clone, Debug)]
pub struct Model<K: KeyKind, const WORDS: usize = 1> {
    map: BTreeMap<K::Owned, [u64; WORDS]>,
}

impl<K: KeyKind, const WORDS: usize> Default for Model<K, WORDS> {
    fn default() -> Self {
        Self { map: BTreeMap::new() }
    }
}

impl<K: KeyKind, const WORDS: usize> Model<K, WORDS> {
    /// An empty model.
    pub fn new() -> Self {
        Self::default()
    }

    /// The map itself.
    pub fn map(&self) -> &BTreeMap<K::Owned, [u64; WORDS]> {
        &self.map
    }

    fn checked(value: &[u64]) -> Result<[u64; WORDS], IndexError> {
        value.try_into().map_err(|_| IndexError::ValueWords { words: value.len(), expected: WORDS })
    }
}

/// A borrowed key as `BTreeMap` wants it.
trait Lookup: KeyKind {
    fn find<'m, V>(map: &'m BTreeMap<Self::Owned, V>, key: Self::Ref<'_>) -> Option<&'m V>;
    fn find_mut<'m, V>(
        map: &'m mut BTreeMap<Self::Owned, V>,
        key: Self::Ref<'_>,
    ) -> Option<&'m mut V>;
    fn take<V>(map: &mut BTreeMap<Self::Owned, V>, key: Self::Ref<'_>) -> Option<V>;
    #[allow(clippy::type_complexity)]
    fn range<'m, V>(
        map: &'m BTreeMap<Self::Owned, V>,
        bounds: (Bound<Self::Ref<'_>>, Bound<Self::Ref<'_>>),
    ) -> std::collections::btree_map::Range<'m, Self::Owned, V>;
}

impl Lookup for crate::U64Keys {
    fn find<V>(map: &BTreeMap<u64, V>, key: u64) -> Option<&V> {
        map.get(&key)
    }
    fn find_mut<V>(map: &mut BTreeMap<u64, V>, key: u64) -> Option<&mut V> {
        map.get_mut(&key)
    }
    fn take<V>(map: &mut BTreeMap<u64, V>, key: u64) -> Option<V> {
        map.remove(&key)
    }
    fn range<V>(
        map: &BTreeMap<u64, V>,
        bounds: (Bound<u64>, Bound<u64>),
    ) -> std::collections::btree_map::Range<'_, u64, V> {
        map.range(bounds)
    }
}

impl Lookup for crate::BytesKeys {
    fn find<'m, V>(map: &'m BTreeMap<Box<[u8]>, V>, key: &[u8]) -> Option<&'m V> {
        map.get(key)
    }
    fn find_mut<'m, V>(map: &'m mut BTreeMap<Box<[u8]>, V>, key: &[u8]) -> Option<&'m mut V> {
        map.get_mut(key)
    }
    fn take<V>(map: &mut BTreeMap<Box<[u8]>, V>, key: &[u8]) -> Option<V> {
        map.remove(key)
    }
    fn range<'m, V>(
        map: &'m BTreeMap<Box<[u8]>, V>,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
    ) -> std::collections::btree_map::Range<'m, Box<[u8]>, V> {
        map.range::<[u8], _>(bounds)
    }
}

#[allow(private_bounds)]
impl<K: Lookup, const WORDS: usize> SerialIndex<K> for Model<K, WORDS> {
    fn value_words(&self) -> usize {
        WORDS
    }

    fn get_words(&self, key: K::Ref<'_>, value: &mut [u64]) -> Result<bool, IndexError> {
        Self::checked(value)?;
        let found = K::find(&self.map, key);
        if let Some(found) = found {
            value.copy_from_slice(found);
        }
        Ok(found.is_some())
    }

    fn get_many(&self, keys: &[K::Ref<'_>], values: &mut [Option<u64>]) -> Result<(), IndexError> {
        assert_eq!(keys.len(), values.len());
        for (key, value) in keys.iter().zip(values) {
            *value = K::find(&self.map, *key).map(|words| words[0]);
        }
        Ok(())
    }

    fn insert_words(&mut self, key: K::Ref<'_>, value: &[u64]) -> Result<bool, IndexError> {
        let value = Self::checked(value)?;
        let entry = self.map.entry(K::to_owned(key));
        let absent = matches!(entry, std::collections::btree_map::Entry::Vacant(_));
        entry.or_insert(value);
        Ok(absent)
    }

    fn update_words(
        &mut self,
        key: K::Ref<'_>,
        value: &[u64],
        old: &mut [u64],
    ) -> Result<bool, IndexError> {
        let value = Self::checked(value)?;
        let Some(place) = K::find_mut(&mut self.map, key) else { return Ok(false) };
        old.copy_from_slice(place);
        *place = value;
        Ok(true)
    }

    fn upsert_words(
        &mut self,
        key: K::Ref<'_>,
        value: &[u64],
        old: &mut [u64],
    ) -> Result<bool, IndexError> {
        let previous = self.map.insert(K::to_owned(key), Self::checked(value)?);
        if let Some(previous) = previous {
            old.copy_from_slice(&previous);
        }
        Ok(previous.is_some())
    }

    fn remove_words(&mut self, key: K::Ref<'_>, old: &mut [u64]) -> Result<bool, IndexError> {
        let removed = K::take(&mut self.map, key);
        if let Some(removed) = removed {
            old.copy_from_slice(&removed);
        }
        Ok(removed.is_some())
    }

    fn scan(
        &self,
        from: Bound<K::Ref<'_>>,
        direction: Direction,
        visit: &mut Visit<'_, K>,
    ) -> Result<(), IndexError> {
        let mut visited = |(key, value): (&K::Owned, &[u64; WORDS])| visit(K::borrow(key), value);
        let _: ControlFlow<()> = match direction {
            Direction::Forward => {
                K::range(&self.map, (from, Bound::Unbounded)).try_for_each(&mut visited)
            }
            Direction::Backward => {
                K::range(&self.map, (Bound::Unbounded, from)).rev().try_for_each(&mut visited)
            }
        };
        Ok(())
    }

    fn len(&self) -> u64 {
        self.map.len() as u64
    }

    fn statistics(&self) -> IndexStatistics {
        IndexStatistics { keys: self.len(), ..IndexStatistics::default() }
    }

    fn check(&self, _audit: &mut Audit) -> Result<CheckReport, IndexError> {
        Ok(CheckReport { keys: self.len(), violations: Vec::new() })
    }
}
