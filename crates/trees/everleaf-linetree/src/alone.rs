//! The tree for a caller that has it alone: as [`Index`], but leaves are locked by plain stores. An
//! exchange would wait for the fence of the operation before; so the misses of an operation and
//! that fence overlap.

use std::ops::Bound;

use everleaf_index::{
    BatchSteps, Changes, CheckReport, Direction, Index, IndexError, IndexStatistics, LinkSteps,
    Links, SerialIndex, Visit,
};
use everleaf_pmem::Media;
use everleaf_pool::{Audit, Seal};

use super::{LineTree, copied, one_word};
use everleaf_tree::key::TreeKey;

impl<K: TreeKey, M: Media, const LINES: usize> SerialIndex<K> for LineTree<K, M, LINES> {
    fn value_words(&self) -> usize {
        1
    }

    #[inline]
    fn get_words(&self, key: K::Ref<'_>, value: &mut [u64]) -> Result<bool, IndexError> {
        Index::get_words(self, key, value)
    }

    fn get_many(&self, keys: &[K::Ref<'_>], values: &mut [Option<u64>]) -> Result<(), IndexError> {
        self.find_many(keys, values)
    }

    #[inline]
    fn insert_words(&mut self, key: K::Ref<'_>, value: &[u64]) -> Result<bool, IndexError> {
        one_word(value.len())?;
        self.ended(self.insert::<true>(key, value[0]))
    }

    #[inline]
    fn update_words(
        &mut self,
        key: K::Ref<'_>,
        value: &[u64],
        old: &mut [u64],
    ) -> Result<bool, IndexError> {
        one_word(value.len())?;
        one_word(old.len())?;
        let found = self.ended(self.update::<true>(key, value[0]))?;
        Ok(copied(found, old))
    }

    #[inline]
    fn upsert_words(
        &mut self,
        key: K::Ref<'_>,
        value: &[u64],
        old: &mut [u64],
    ) -> Result<bool, IndexError> {
        one_word(value.len())?;
        one_word(old.len())?;
        let found = self.ended(self.upsert::<true>(key, value[0]))?;
        Ok(copied(found, old))
    }

    #[inline]
    fn remove_words(&mut self, key: K::Ref<'_>, old: &mut [u64]) -> Result<bool, IndexError> {
        one_word(old.len())?;
        let found = self.ended(self.remove::<true>(key))?;
        Ok(copied(found, old))
    }

    fn links(&self) -> Links {
        Index::links(self)
    }

    #[inline]
    fn link(
        &mut self,
        key: K::Ref<'_>,
        new: Option<u64>,
        steps: &mut dyn LinkSteps,
    ) -> Result<bool, IndexError> {
        self.ended(self.link_entry::<true>(key, new, steps))
    }

    fn link_all(
        &mut self,
        changes: &Changes<'_, K>,
        steps: &mut dyn BatchSteps,
    ) -> Result<bool, IndexError> {
        Index::link_all(self, changes, steps)
    }

    fn scan(
        &self,
        from: Bound<K::Ref<'_>>,
        direction: Direction,
        visit: &mut Visit<'_, K>,
    ) -> Result<(), IndexError> {
        self.ended(self.scan_from(from, direction, visit))
    }

    fn len(&self) -> u64 {
        self.keys()
    }

    fn statistics(&self) -> IndexStatistics {
        Index::statistics(self)
    }

    fn check(&self, audit: &mut Audit) -> Result<CheckReport, IndexError> {
        self.check_all(audit)
    }

    fn close(&mut self) -> Result<Option<Seal>, IndexError> {
        self.store_image()
    }
}
