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

use std::sync::Arc;

use everleaf_index::{
    BatchSteps, Changes, CheckReport, Direction, IndexStatistics, InnerFrom, LinkSteps, Links,
    Result, SerialIndex, Start, Visitor,
};
use everleaf_pmem::Media;
use everleaf_pool::{Audit, Pool, Seal, Worker};

use super::layout::Shape;
use super::link::links_of;
use everleaf_tree::groups::Groups;
use everleaf_tree::inner_nodes::InnerNodes;
use everleaf_tree::key::TreeKey;
use everleaf_tree::operations::{ended, expect_words, in_groups};
use everleaf_tree::parameters::Parameters;
use everleaf_tree::scan::ScanRequest;
use everleaf_tree::statistics::pm_bytes;

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

impl<K: TreeKey, M: Media, S: Shape> SerialIndex<K> for FpTree<K, M, S> {
    fn value_words(&self) -> usize {
        self.shape.value_words()
    }

    #[inline]
    fn get_words(&self, key: K::Ref<'_>, value: &mut [u64]) -> Result<bool> {
        expect_words(self.shape.value_words(), [value.len()])?;
        ended(self.find(key, value), self.pool.media())
    }

    fn get_many(&self, keys: &[K::Ref<'_>], values: &mut [Option<u64>]) -> Result<()> {
        in_groups(self.pool.media(), keys, values, |keys, values| self.find_group(keys, values))
    }

    #[inline]
    fn insert_words(&mut self, key: K::Ref<'_>, value: &[u64]) -> Result<bool> {
        expect_words(self.shape.value_words(), [value.len()])?;
        ended(self.insert(key, value), self.pool.media())
    }

    #[inline]
    fn update_words(&mut self, key: K::Ref<'_>, value: &[u64], old: &mut [u64]) -> Result<bool> {
        expect_words(self.shape.value_words(), [value.len(), old.len()])?;
        ended(self.update(key, value, old), self.pool.media())
    }

    #[inline]
    fn upsert_words(&mut self, key: K::Ref<'_>, value: &[u64], old: &mut [u64]) -> Result<bool> {
        expect_words(self.shape.value_words(), [value.len(), old.len()])?;
        ended(self.upsert(key, value, old), self.pool.media())
    }

    #[inline]
    fn remove_words(&mut self, key: K::Ref<'_>, old: &mut [u64]) -> Result<bool> {
        expect_words(self.shape.value_words(), [old.len()])?;
        ended(self.remove(key, old), self.pool.media())
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
    ) -> Result<bool> {
        expect_words(self.shape.value_words(), [1])?;
        ended(self.link_entry(key, new, steps), self.pool.media())
    }

    fn link_all(&mut self, changes: &Changes<'_, K>, steps: &mut dyn BatchSteps) -> Result<bool> {
        if links_of::<K, S>(self.shape) != Links::All {
            return Ok(false);
        }
        ended(self.link_entries(changes, steps).map(|()| true), self.pool.media())
    }

    fn scan(&self, from: Start<'_, K>, direction: Direction, visit: Visitor<'_, K>) -> Result<()> {
        ended(self.scan_from(ScanRequest { from, direction, visit }), self.pool.media())
    }

    fn len(&self) -> u64 {
        self.keys
    }

    fn statistics(&self) -> IndexStatistics {
        let leftmost_is_empty =
            self.leaf(self.leftmost).is_ok_and(|leaf| leaf.live(self.pool.media()).is_empty());
        let node_bytes = self.groups.pm_bytes();
        IndexStatistics {
            keys: self.keys,
            height: self.inner.height() + 1,
            leaves: self.groups.used() - u64::from(leftmost_is_empty),
            leaf_slots: self.shape.slots() as u64,
            inner_nodes: self.inner.count(),
            pm_bytes: pm_bytes::<K, M>(&self.pool, node_bytes),
            node_bytes,
            dram_bytes: self.inner.dram_bytes()
                + self.groups.dram_bytes()
                + size_of::<Self>() as u64,
            inner_from: self.inner_from,
            ..IndexStatistics::default()
        }
    }

    fn check(&self, audit: &mut Audit) -> Result<CheckReport> {
        self.check_all(audit)
    }

    fn close(&mut self) -> Result<Option<Seal>> {
        self.store_image()
    }
}
