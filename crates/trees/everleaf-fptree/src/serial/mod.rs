//! FPTree and PTree for one thread at a time: the leaves come in groups, and one micro-log serves
//! all splits. What is done in a leaf is in the files of the [family](super).
//!
//! # Map of the files
//! `groups` (leaf groups) · `search` `scan` `insert` `split` `update` `remove` `link` `batch` (an
//! operation each) · `close` (the image of inner nodes) · `recover` (crash states and opening) ·
//! `check` (I1 to I10).

mod batch;
mod check;
mod close;
mod groups;
mod insert;
mod link;
mod recover;
mod remove;
mod scan;
mod search;
mod split;
mod update;

use std::ops::Bound;
use std::sync::Arc;

use everleaf_index::{
    BatchSteps, Changes, CheckReport, Direction, IndexError, IndexStatistics, InnerFrom, LinkSteps,
    Links, SerialIndex, Visit,
};
use everleaf_pmem::Media;
use everleaf_pool::{Audit, Pool, Seal, Worker};

use super::layout::Shape;
use super::link::links_of;
use everleaf_tree::groups::Groups;
use everleaf_tree::inner_nodes::InnerNodes;
use everleaf_tree::key::TreeKey;
use everleaf_tree::parameters::Parameters;

/// An FPTree or PTree (as its [`Shape`] says) for one thread at a time; [`create`](super::create)
/// and [`open`](super::open) put it behind a lock.
pub struct FpTree<K: TreeKey, M: Media, S: Shape> {
    pool: Arc<Pool<M>>,
    worker: Worker<M>,
    inner: InnerNodes<K>,
    groups: Groups,
    shape: S,
    parameters: Parameters,
    /// The leaf that takes all keys below the second leaf's bound; it stays in the tree when it is
    /// empty.
    leftmost: u64,
    keys: u64,
    inner_from: InnerFrom,
}

impl<K: TreeKey, M: Media, S: Shape> FpTree<K, M, S> {
    fn expect_words(&self, words: usize) -> Result<(), IndexError> {
        let expected = self.shape.value_words();
        if words == expected { Ok(()) } else { Err(IndexError::ValueWords { words, expected }) }
    }
}

impl<K: TreeKey, M: Media, S: Shape> SerialIndex<K> for FpTree<K, M, S> {
    fn value_words(&self) -> usize {
        self.shape.value_words()
    }

    #[inline]
    fn get_words(&self, key: K::Ref<'_>, value: &mut [u64]) -> Result<bool, IndexError> {
        self.expect_words(value.len())?;
        let found = self.find(key, value);
        self.pool.media().end_operation();
        found
    }

    fn get_many(&self, keys: &[K::Ref<'_>], values: &mut [Option<u64>]) -> Result<(), IndexError> {
        self.find_many(keys, values)
    }

    #[inline]
    fn insert_words(&mut self, key: K::Ref<'_>, value: &[u64]) -> Result<bool, IndexError> {
        self.expect_words(value.len())?;
        let inserted = self.insert(key, value);
        self.pool.media().end_operation();
        inserted
    }

    #[inline]
    fn update_words(
        &mut self,
        key: K::Ref<'_>,
        value: &[u64],
        old: &mut [u64],
    ) -> Result<bool, IndexError> {
        self.expect_words(value.len())?;
        self.expect_words(old.len())?;
        let updated = self.update(key, value, old);
        self.pool.media().end_operation();
        updated
    }

    #[inline]
    fn upsert_words(
        &mut self,
        key: K::Ref<'_>,
        value: &[u64],
        old: &mut [u64],
    ) -> Result<bool, IndexError> {
        self.expect_words(value.len())?;
        self.expect_words(old.len())?;
        let updated = self.upsert(key, value, old);
        self.pool.media().end_operation();
        updated
    }

    #[inline]
    fn remove_words(&mut self, key: K::Ref<'_>, old: &mut [u64]) -> Result<bool, IndexError> {
        self.expect_words(old.len())?;
        let removed = self.remove(key, old);
        self.pool.media().end_operation();
        removed
    }

    fn links(&self) -> Links {
        links_of::<K, S>(self.shape)
    }

    #[inline]
    fn link(
        &mut self,
        key: K::Ref<'_>,
        new: Option<u64>,
        steps: &mut dyn LinkSteps,
    ) -> Result<bool, IndexError> {
        self.expect_words(1)?;
        let linked = self.link_entry(key, new, steps);
        self.pool.media().end_operation();
        linked
    }

    fn link_all(
        &mut self,
        changes: &Changes<'_, K>,
        steps: &mut dyn BatchSteps,
    ) -> Result<bool, IndexError> {
        if links_of::<K, S>(self.shape) != Links::All {
            return Ok(false);
        }
        let linked = self.link_entries(changes, steps).map(|()| true);
        self.pool.media().end_operation();
        linked
    }

    fn scan(
        &self,
        from: Bound<K::Ref<'_>>,
        direction: Direction,
        visit: &mut Visit<'_, K>,
    ) -> Result<(), IndexError> {
        let scanned = self.scan_from(from, direction, visit);
        self.pool.media().end_operation();
        scanned
    }

    fn len(&self) -> u64 {
        self.keys
    }

    fn statistics(&self) -> IndexStatistics {
        let used: u64 = self.groups.all().iter().map(|group| group.used).sum();
        let leftmost_is_empty =
            self.leaf(self.leftmost).is_ok_and(|leaf| leaf.live(self.pool.media()).is_empty());
        let records =
            if K::RECORDS { self.pool.space().map_or(0, |space| space.used_bytes) } else { 0 };
        let node_bytes = self.groups.pm_bytes();
        IndexStatistics {
            keys: self.keys,
            height: self.inner.height() + 1,
            leaves: used - u64::from(leftmost_is_empty),
            leaf_slots: self.shape.slots() as u64,
            inner_nodes: self.inner.count(),
            pm_bytes: node_bytes.max(records),
            node_bytes,
            dram_bytes: self.inner.dram_bytes()
                + self.groups.dram_bytes()
                + size_of::<Self>() as u64,
            inner_from: self.inner_from,
            ..IndexStatistics::default()
        }
    }

    fn check(&self, audit: &mut Audit) -> Result<CheckReport, IndexError> {
        self.check_all(audit)
    }

    fn close(&mut self) -> Result<Option<Seal>, IndexError> {
        self.store_image()
    }
}
