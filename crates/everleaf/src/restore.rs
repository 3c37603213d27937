//! Restoring a dump, all or nothing: while a pool is filled it has a mark, and every opening but
//! that of a restore refuses it.
//!
//! ```text
//! R1  the mark; sync                                            Pool::set_mark
//!     Crash before: the pool is empty, as it was. Afterwards: it is refused.
//! R2  what the dump holds, a frame at a time
//!     Crash: it is refused. The next restore removes what stands, and goes on with R2.
//! R3  sync: all of it is durable
//! R4  COMMIT the mark is taken away; sync                       Pool::clear_mark
//!     Crash before: as in R2. Afterwards: the pool is complete.
//! ```
//!
//! A dump that is found to be damaged, or a caller who ends it: in R2 what stands is removed, and
//! R3 and R4 follow. If that fails too, the pool keeps its mark. Where fences only order (a log) or
//! nothing is durable before an epoch ends, the syncs of R1 and R4 are what makes the mark durable
//! before the first entry, and all entries before the mark goes.

use std::io::Read;
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::sync::Arc;

use everleaf_index::Direction;
use everleaf_pmem::{planted, unless_planted};

use crate::core::entry_batches::{BATCH_ENTRIES, Fetched};
use crate::core::progress::{Progress, Watch};
use crate::core::tree_liveness::TreeLiveness;
use crate::core::write::Write;
use crate::dump::{read_entries, read_head_for};
use crate::scan::Cursor;
use crate::{Error, OpenOptions, Store};

/// Fills the empty pool at `path` from a dump, all or nothing: until it is complete, every opening
/// of the pool but another restore is refused, with [`Error::BeingRestored`], whatever ends the
/// process or the machine. The next restore begins anew over what a cut one has left. If anything
/// is wrong with the dump, the pool is empty again. What was restored is durable on return, as far
/// as the pool's medium keeps it.
///
/// # Errors
/// As [`Store::open`] and [`Store::restore`].
///
/// # Examples
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = |name| folder.path().join(name);
/// # let create = |name| everleaf::Store::create(path(name));
/// let (store, mut dump) = (create("a.pool")?, Vec::new());
/// store.put("oak", "Quercus robur")?;
/// store.dump(&mut dump)?;
/// create("b.pool")?.close()?;
/// everleaf::restore(path("b.pool"), &*dump)?;
/// assert_eq!(everleaf::Store::open(path("b.pool"))?.len()?, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn restore(path: impl AsRef<Path>, input: impl Read) -> Result<Progress, Error> {
    restore_with(path, input, |_| ControlFlow::Continue(()))
}

/// As [`restore`], with a callback, which is told how far it has come and may end it.
///
/// # Errors
/// As [`restore`]; [`Error::Aborted`].
pub fn restore_with(
    path: impl AsRef<Path>,
    mut input: impl Read,
    mut watch: impl FnMut(&Progress) -> ControlFlow<()>,
) -> Result<Progress, Error> {
    restore_at(path.as_ref(), &mut input, &mut watch)
}

/// Not generic, so that it is compiled here, once.
fn restore_at(path: &Path, input: &mut dyn Read, watch: &mut Watch<'_>) -> Result<Progress, Error> {
    let store = OpenOptions::to_restore().open(path)?;
    let restored = store.restore_all(input, watch)?;
    store.close()?;
    Ok(restored)
}

impl Store {
    /// Fills the store, which must be empty, from a dump of a store with the same kind of keys and
    /// any engine. If that fails the store is empty again: no other thread may use it meanwhile.
    ///
    /// If the process or the machine dies meanwhile, or what was stored cannot be removed again,
    /// the pool is refused when it is opened the next time, with [`Error::BeingRestored`], until it
    /// is restored by [`restore`](crate::restore()). What was restored is durable on return, as far
    /// as the pool's medium keeps it.
    ///
    /// # Errors
    /// [`Error::NotEmpty`], [`Error::Dump`] if it is not a dump, is damaged or was cut off,
    /// [`Error::WrongKeyType`], [`Error::Stream`], [`Error::is_full`].
    pub fn restore(&self, input: impl Read) -> Result<Progress, Error> {
        self.restore_with(input, |_| ControlFlow::Continue(()))
    }

    /// As [`restore`](Store::restore), with a callback, which is told how far it has come and may
    /// end it.
    ///
    /// # Errors
    /// As [`restore`](Store::restore); [`Error::Aborted`].
    pub fn restore_with(
        &self,
        mut input: impl Read,
        mut watch: impl FnMut(&Progress) -> ControlFlow<()>,
    ) -> Result<Progress, Error> {
        self.restore_all(&mut input, &mut watch)
    }

    fn restore_all(&self, input: &mut dyn Read, watch: &mut Watch<'_>) -> Result<Progress, Error> {
        let backend = self.backend();
        if !self.capabilities().writable {
            return Err(Error::ReadOnly);
        }
        let was_cut = backend.is_being_restored()?;
        if !was_cut && self.statistics()?.entries > 0 {
            return Err(Error::NotEmpty);
        }
        let key_type = read_head_for(self, input)?; // Another file changes nothing.
        unless_planted!(342, backend.mark_being_restored(true)?); // R1
        // R2. R3 waits once for all of it.
        let fill = || {
            let removed = if was_cut && !planted(343) { self.remove_everything() } else { Ok(()) };
            let filled = removed.and_then(|()| read_entries(self, key_type, input, watch));
            let can_end = filled.is_ok() || self.remove_everything().is_ok();
            (filled, can_end)
        };
        let ((filled, can_end), _waits_for_the_sync) = self.unsynced(fill);
        self.forget_tree_numbers();
        if !can_end {
            return filled; // The mark stays.
        }
        let ended = backend.sync().and_then(|()| backend.mark_being_restored(false)); // R3, R4
        filled.and_then(|progress| ended.map(|()| progress))
    }

    /// Removes everything, named trees and what has expired included.
    fn remove_everything(&self) -> Result<(), Error> {
        let everything = (Bound::Unbounded, Bound::Unbounded);
        let mut cursor =
            Cursor::new(Arc::clone(self.backend()), TreeLiveness::OF_STORE, None, everything)
                .with_expired();
        let removal = |entry: Fetched| Write::removal(TreeLiveness::OF_STORE, entry.key);
        while !cursor.exhausted {
            let fetched = cursor.fetch(Direction::Forward, BATCH_ENTRIES)?;
            self.handle().remove_all(&fetched.into_iter().map(removal).collect::<Vec<_>>())?;
        }
        Ok(())
    }
}
