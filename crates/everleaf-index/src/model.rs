//! The reference: what every engine must be indistinguishable from.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use everleaf_pool::Audit;

use crate::{
    CheckReport, Direction, IndexError, IndexStatistics, KeyKind, Result, SerialIndex, Start,
    Visitor,
};

/// An ordered map in DRAM, by std's `BTreeMap`: the model of the tests. It persists nothing, and
/// copies each key that it is asked for.
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

    fn checked(value: &[u64]) -> Result<[u64; WORDS]> {
        value.try_into().map_err(|_| IndexError::ValueWords { words: value.len(), expected: WORDS })
    }
}

impl<K: KeyKind, const WORDS: usize> SerialIndex<K> for Model<K, WORDS> {
    fn value_words(&self) -> usize {
        WORDS
    }

    fn get_words(&self, key: K::Ref<'_>, value: &mut [u64]) -> Result<bool> {
        Self::checked(value)?;
        let found = self.map.get(&K::to_owned(key));
        if let Some(found) = found {
            value.copy_from_slice(found);
        }
        Ok(found.is_some())
    }

    fn get_many(&self, keys: &[K::Ref<'_>], values: &mut [Option<u64>]) -> Result<()> {
        assert_eq!(keys.len(), values.len());
        for (key, value) in keys.iter().zip(values) {
            *value = self.map.get(&K::to_owned(*key)).map(|words| words[0]);
        }
        Ok(())
    }

    fn insert_words(&mut self, key: K::Ref<'_>, value: &[u64]) -> Result<bool> {
        let value = Self::checked(value)?;
        let entry = self.map.entry(K::to_owned(key));
        let absent = matches!(entry, std::collections::btree_map::Entry::Vacant(_));
        entry.or_insert(value);
        Ok(absent)
    }

    fn update_words(&mut self, key: K::Ref<'_>, value: &[u64], old: &mut [u64]) -> Result<bool> {
        let value = Self::checked(value)?;
        let Some(place) = self.map.get_mut(&K::to_owned(key)) else { return Ok(false) };
        old.copy_from_slice(place);
        *place = value;
        Ok(true)
    }

    fn upsert_words(&mut self, key: K::Ref<'_>, value: &[u64], old: &mut [u64]) -> Result<bool> {
        let previous = self.map.insert(K::to_owned(key), Self::checked(value)?);
        if let Some(previous) = previous {
            old.copy_from_slice(&previous);
        }
        Ok(previous.is_some())
    }

    fn remove_words(&mut self, key: K::Ref<'_>, old: &mut [u64]) -> Result<bool> {
        let removed = self.map.remove(&K::to_owned(key));
        if let Some(removed) = removed {
            old.copy_from_slice(&removed);
        }
        Ok(removed.is_some())
    }

    fn scan(&self, from: Start<'_, K>, direction: Direction, visit: Visitor<'_, K>) -> Result<()> {
        let mut visited = |(key, value): (&K::Owned, &[u64; WORDS])| visit(K::borrow(key), value);
        let (from, all) = (from.map(K::to_owned), Bound::Unbounded);
        let _: ControlFlow<()> = match direction {
            Direction::Forward => self.map.range((from, all)).try_for_each(&mut visited),
            Direction::Backward => self.map.range((all, from)).rev().try_for_each(&mut visited),
        };
        Ok(())
    }

    fn len(&self) -> u64 {
        self.map.len() as u64
    }

    fn statistics(&self) -> IndexStatistics {
        IndexStatistics { keys: self.len(), ..IndexStatistics::default() }
    }

    fn check(&self, _audit: &mut Audit) -> Result<CheckReport> {
        Ok(CheckReport { keys: self.len(), violations: Vec::new() })
    }
}
