//! A store as it was at one moment.

use everleaf::Snapshot;

use crate::boundary::{Status, give_handle, guard, handle, taken};
use crate::{StoreHandle, TreeHandle};

/// A store, all its trees included, as it was at one moment, to be read while others write. What
/// they replace meanwhile is kept in DRAM for it. After 256 MiB the snapshot is lost: reads of it
/// fail then, and another one can be taken.
pub struct SnapshotHandle {
    snapshot: Snapshot,
}

/// Takes a snapshot. It waits until the writes that are under way have ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_snapshot_new(
    store: *const StoreHandle,
    snapshot: *mut *mut SnapshotHandle,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        let taken = unsafe { handle(store) }?.store()?.snapshot()?;
        // SAFETY: the same.
        unsafe { give_handle(snapshot, SnapshotHandle { snapshot: taken })? };
        Ok(Status::EverleafOk)
    })
}

/// A tree of the store, or its own, as it was then: `*view` is read as every tree is, refuses
/// writes by EVERLEAF_READ_ONLY, and is to be freed by `everleaf_tree_free`. It does not keep the
/// snapshot: once that is freed, reading fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_snapshot_tree(
    snapshot: *const SnapshotHandle,
    tree: *const TreeHandle,
    view: *mut *mut TreeHandle,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        let (snapshot, tree) = unsafe { (handle(snapshot)?, handle(tree)?.tree()?) };
        // SAFETY: the same.
        unsafe { give_handle(view, StoreHandle::View(snapshot.snapshot.of(tree)?))? };
        Ok(Status::EverleafOk)
    })
}

/// Ends a snapshot, and gives back what was kept for it. NULL is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_snapshot_free(snapshot: *mut SnapshotHandle) {
    guard(|| {
        // SAFETY: the header's contract.
        drop(unsafe { taken(snapshot) });
        Ok(Status::EverleafOk)
    });
}
