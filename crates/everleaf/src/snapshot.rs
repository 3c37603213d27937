//! Snapshots: the state of one moment, read while others write (`core/images.rs`).

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::core::images::Images;
use crate::handle::Handle;
use crate::view::View;
use crate::{Entry, Error, Range, Result, Tree};

/// Bytes of images that a snapshot may gather if nothing else is said: 256 MiB.
pub const DEFAULT_SNAPSHOT_BYTES: u64 = 256 << 20;
/// A store as it was at one moment, whatever is written since.
///
/// Writers copy what they replace to DRAM while a snapshot lives; when that exceeds its limit (256
/// MiB, see [`Store::snapshot_with_limit`](crate::Store::snapshot_with_limit)), the snapshot is
/// lost: reading it gives [`Error::SnapshotLost`], and the writers go on. It does not outlive the
/// process.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
/// store.put("key", "before")?;
/// let snapshot = store.snapshot()?;
/// store.put("key", "after")?;
/// store.put("another", "")?;
/// assert_eq!(snapshot.get("key")?.as_deref(), Some(&b"before"[..]));
/// assert_eq!(snapshot.iter().count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// It is a [`View`] of the store's own tree as it was then; [`of`](Snapshot::of) gives those of the
/// named ones.
pub struct Snapshot {
    view: View,
    images: Arc<Images>,
}

impl Snapshot {
    pub(crate) fn begin(handle: &Handle, limit_bytes: u64) -> Result<Self> {
        let images = handle.backend().begin_snapshot(limit_bytes)?;
        Ok(Self { view: View::new(handle.in_snapshot(&images)), images })
    }

    #[cfg(feature = "control")]
    pub(crate) fn images(&self) -> &Arc<Images> {
        &self.images
    }

    /// A named tree as it was then, typed as `tree`, which is what it is now.
    ///
    /// # Errors
    /// [`Error::OtherStore`], [`Error::TreeDropped`].
    pub fn of<K, V>(&self, tree: &Tree<K, V>) -> Result<View<K, V>> {
        if !tree.handle().is_of(self.handle().backend()) {
            return Err(Error::OtherStore);
        }
        // Of a tree that is dropped later the snapshot still has what was in it.
        tree.handle().life().check()?;
        Ok(View::new(tree.handle().in_snapshot(&self.images)))
    }

    /// The store's own tree as it was then, as a [`View`].
    pub fn view(&self) -> View {
        self.view.clone()
    }

    /// Bytes of DRAM that it has gathered.
    pub fn dram_bytes(&self) -> u64 {
        self.images.bytes()
    }
}

/// Reading the store's own tree as it was then.
impl Deref for Snapshot {
    type Target = View;

    fn deref(&self) -> &View {
        &self.view
    }
}

impl<'s> IntoIterator for &'s Snapshot {
    type Item = Result<Entry>;
    type IntoIter = Range<'s>;

    fn into_iter(self) -> Range<'s> {
        self.iter()
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.handle().backend().end_snapshot(&self.images);
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("dram_bytes", &self.dram_bytes()).finish_non_exhaustive()
    }
}
