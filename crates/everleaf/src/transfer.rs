//! Copying whole stores: what dump, restore, copy and salvage share, and copying to a new pool.
//!
//! Entries travel with the keys of the index, so that all named trees travel together.

use std::collections::VecDeque;
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::sync::Arc;

use everleaf_index::Direction;

use crate::core::backend::Backend;
use crate::core::entry_batches::{BATCH_ENTRIES, Fetched};
use crate::core::images::Images;
use crate::core::progress::{Progress, Watch, report};
use crate::core::tree_liveness::TreeLiveness;
use crate::core::value::NewExpiry;
use crate::core::write::{Kind, Write};
use crate::scan::Cursor;
use crate::unfinished::Unfinished;
use crate::{CreateOptions, DurabilityMode, Error, OwnedKey, Store};

/// What writers may replace ahead of a copy, in DRAM: 4 GiB.
const IMAGES_BYTES: u64 = 4 << 30;
/// The smallest pool that a copy begins with.
const SMALLEST_COPY: u64 = 1 << 20;

/// In what a copy differs from the store that is copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopyOptions {
    /// Bytes that the copy may grow to. Default: as many as the store.
    pub max_size_bytes: Option<u64>,
    /// When a write to the copy is durable. Default: what was chosen for the store, where the
    /// copy's medium keeps that.
    pub durability: Option<DurabilityMode>,
}

impl CopyOptions {
    /// The defaults: in nothing.
    pub fn new() -> Self {
        Self::default()
    }
}

/// Bounds of keys of the index.
pub(crate) type KeyBounds = (Bound<OwnedKey>, Bound<OwnedKey>);

/// Everything in a store as it is at one moment, in order, a step at a time; or what lies within
/// bounds.
pub(crate) struct Everything<'b> {
    backend: &'b Arc<dyn Backend>,
    images: Arc<Images>,
    cursors: VecDeque<Cursor>,
}

impl<'b> Everything<'b> {
    pub(crate) fn of(backend: &'b Arc<dyn Backend>) -> Result<Self, Error> {
        Self::within(backend, (Bound::Unbounded, Bound::Unbounded))
    }

    /// What lies within these bounds.
    pub(crate) fn within(backend: &'b Arc<dyn Backend>, bounds: KeyBounds) -> Result<Self, Error> {
        let images = backend.begin_snapshot(IMAGES_BYTES)?;
        let mut within = Self { backend, images, cursors: VecDeque::new() };
        within.show(bounds);
        Ok(within)
    }

    /// Shows, after everything else, what lay within these bounds at the same moment.
    pub(crate) fn show(&mut self, bounds: KeyBounds) {
        let (backend, images) = (Arc::clone(self.backend), Some(Arc::clone(&self.images)));
        let cursor = Cursor::new(backend, TreeLiveness::OF_STORE, images, bounds).once();
        self.cursors.push_back(cursor);
    }

    /// The next entries; none at the end.
    pub(crate) fn next(&mut self) -> Result<Vec<Fetched>, Error> {
        while let Some(cursor) = self.cursors.front_mut() {
            if !cursor.exhausted {
                let entries = cursor.fetch(Direction::Forward, 2 * BATCH_ENTRIES)?;
                if !entries.is_empty() {
                    return Ok(entries);
                }
            }
            self.cursors.pop_front();
        }
        Ok(Vec::new())
    }
}

impl Drop for Everything<'_> {
    fn drop(&mut self) {
        self.backend.end_snapshot(&self.images);
    }
}

/// Stores entries, all or none.
pub(crate) fn store_all(backend: &Arc<dyn Backend>, entries: Vec<Fetched>) -> Result<(), Error> {
    let write = |entry: Fetched| Write {
        life: TreeLiveness::OF_STORE,
        key: entry.key,
        kind: Kind::Put,
        value: entry.value.into_boxed_slice(),
        expiry: NewExpiry::At(entry.expires_ms),
    };
    backend.apply(&entries.into_iter().map(write).collect::<Vec<_>>()).map(drop)
}

impl Store {
    /// Copies the store, as it is at one moment, to a new pool at `path`, while others go on
    /// reading and writing. The copy has the same engine, kind of keys, sizes of nodes, largest
    /// size and chosen durability, and is compact: entries are stored in key order, and nothing is
    /// between them. Where its medium cannot keep that durability, or none was chosen, the copy has
    /// the default of its medium. What writers replace ahead of the copy is held in DRAM meanwhile.
    ///
    /// # Errors
    /// [`Error::is_full`], as [`CreateOptions::create`]; no file is left then.
    /// [`Error::SnapshotLost`] if more than 4 GiB are replaced ahead.
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// store.put("key", "value")?;
    /// let backup = folder.path().join("backup.pool");
    /// store.copy(&backup)?;
    /// assert_eq!(everleaf::Store::open(&backup)?.get("key")?, Some(b"value".to_vec()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn copy(&self, path: impl AsRef<Path>) -> Result<Progress, Error> {
        self.copy_with(path, |_| ControlFlow::Continue(()))
    }

    /// As [`copy`](Store::copy), with a callback, which is told how far it has come and may end it.
    ///
    /// # Errors
    /// As [`copy`](Store::copy); [`Error::Aborted`].
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// use std::ops::ControlFlow;
    ///
    /// store.copy_with(folder.path().join("backup.pool"), |progress| {
    ///     println!("{} entries", progress.entries);
    ///     ControlFlow::Continue(())
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn copy_with(
        &self,
        path: impl AsRef<Path>,
        mut watch: impl FnMut(&Progress) -> ControlFlow<()>,
    ) -> Result<Progress, Error> {
        self.copy_to(path.as_ref(), &CopyOptions::new(), &mut watch)
    }

    /// As [`copy_with`](Store::copy_with), to a pool that may grow to `max_size_bytes`: the way out
    /// of one that is full.
    ///
    /// # Errors
    /// As [`copy_with`](Store::copy_with).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let options = everleaf::CreateOptions::new().max_size_bytes(1 << 20);
    /// # let full = options.create(folder.path().join("a.pool"))?;
    /// use std::ops::ControlFlow;
    ///
    /// let larger = folder.path().join("larger.pool");
    /// full.copy_to_max_size(&larger, 1 << 30, |_| ControlFlow::Continue(()))?;
    /// assert_eq!(everleaf::Store::open(&larger)?.statistics()?.max_bytes, 1 << 30);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn copy_to_max_size(
        &self,
        path: impl AsRef<Path>,
        max_size_bytes: u64,
        watch: impl FnMut(&Progress) -> ControlFlow<()>,
    ) -> Result<Progress, Error> {
        let mut options = CopyOptions::new();
        options.max_size_bytes = Some(max_size_bytes);
        self.copy_with_options(path, &options, watch)
    }

    /// As [`copy_with`](Store::copy_with), to a pool that differs from this one as the options say.
    ///
    /// # Errors
    /// As [`copy_with`](Store::copy_with). A durability that the options ask for and the medium
    /// cannot keep is [`Error::DurabilityOfMedium`].
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// use std::ops::ControlFlow;
    ///
    /// use everleaf::{CopyOptions, DurabilityMode, Store};
    ///
    /// let mut options = CopyOptions::new();
    /// options.durability = Some(DurabilityMode::Process);
    /// let path = folder.path().join("scratch.pool");
    /// store.copy_with_options(&path, &options, |_| ControlFlow::Continue(()))?;
    /// let mode = Store::open(&path)?.capabilities().durability_mode;
    /// assert_eq!(mode, DurabilityMode::Process);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn copy_with_options(
        &self,
        path: impl AsRef<Path>,
        options: &CopyOptions,
        mut watch: impl FnMut(&Progress) -> ControlFlow<()>,
    ) -> Result<Progress, Error> {
        self.copy_to(path.as_ref(), options, &mut watch)
    }

    fn copy_to(
        &self,
        path: &Path,
        copying: &CopyOptions,
        watch: &mut Watch<'_>,
    ) -> Result<Progress, Error> {
        let mut unfinished = Unfinished::of(path)?;
        let statistics = self.statistics()?;
        let max_bytes = copying.max_size_bytes.unwrap_or(statistics.max_bytes);
        let size = (statistics.used_bytes / 8 * 9).max(SMALLEST_COPY).min(max_bytes);
        let mut options = CreateOptions::new()
            .key_type(self.backend().key_type())
            .with_tree(self.engine(), self.backend().parameters())
            .size_bytes(size)
            .max_size_bytes(max_bytes);
        options.durability = copying.durability;
        let made = match copying.durability {
            Some(_) => options.create_part(&mut unfinished),
            None => options.create_part_as(&mut unfinished, self.backend().chosen_durability()?),
        };
        // The name is dropped before the pool, which is closed then: that can take long, and a
        // process that has aborted the work may not wait for it.
        let (copy, unfinished) = (made?, unfinished);
        let progress = self.copy_entries(&copy, statistics.entries, watch)?;
        copy.close()?;
        unfinished.finish()?;
        Ok(progress)
    }

    fn copy_entries(
        &self,
        copy: &Store,
        keys: u64,
        watch: &mut Watch<'_>,
    ) -> Result<Progress, Error> {
        let mut progress = Progress::of(Some(keys));
        let mut everything = Everything::of(self.backend())?;
        loop {
            let entries = everything.next()?;
            if entries.is_empty() {
                return Ok(progress);
            }
            entries.iter().for_each(|entry| progress.add(entry));
            let (stored, _) = copy.unsynced(|| store_all(copy.backend(), entries));
            stored?; // It is synced when it is closed, before it has its name.
            report(watch, &progress)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_does_not_wait_for_a_sync_with_each_step() {
        let folder = tempfile::tempdir().unwrap();
        let made = |name| Store::create(folder.path().join(name)).unwrap();
        let (store, copy) = (made("store"), made("copy"));
        store.put_many((0..10_000).map(|i| (i.to_string(), "value"))).unwrap();
        if copy.statistics().unwrap().log_counts.is_none() {
            println!("skipped: the temporary folder is a tmpfs, where stores have no log");
            return;
        }
        let syncs = || copy.statistics().unwrap().log_counts.map_or(0, |counts| counts.syncs);
        let before = syncs();
        store.copy_entries(&copy, 10_000, &mut |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(copy.len().unwrap(), 10_000);
        assert!(syncs() - before < 10, "{} for 40 steps", syncs() - before);
    }
}
