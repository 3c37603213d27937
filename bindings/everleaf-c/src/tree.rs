//! Named trees by their names.

use std::ffi::{c_char, c_uint};
use std::time::{Duration, SystemTime};

use everleaf::{Error, Expiry, KeyType, Tree};

use crate::boundary::{Failure, Status, give_handle, guard, handle, string, taken};
use crate::keys::{found, life};
use crate::{IteratorHandle, StoreHandle, TreeHandle, show};

/// Opens the tree of a name, to be freed by `everleaf_tree_free`. EVERLEAF_NOT_FOUND if there is
/// none, EVERLEAF_INVALID_ARGUMENT if its keys are numbers, which other languages have.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_tree_open(
    store: *const StoreHandle,
    name: *const c_char,
    tree: *mut *mut TreeHandle,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        let (store, name) = unsafe { (handle(store)?.store()?, string(name)?.to_bytes()) };
        match store.existing_tree(name)? {
            // SAFETY: the header's contract.
            Some(found) => unsafe { opened(found, tree) },
            None => Ok(Status::EverleafNotFound),
        }
    })
}

/// As `everleaf_tree_open`, and makes the tree if there is none: EVERLEAF_READ_ONLY if the pool was
/// opened to read. A store has at most 65,536 trees.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_tree_open_or_create(
    store: *const StoreHandle,
    name: *const c_char,
    tree: *mut *mut TreeHandle,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        let (store, name) = unsafe { (handle(store)?.store()?, string(name)?.to_bytes()) };
        // SAFETY: the same.
        unsafe { opened(store.tree(name)?, tree) }
    })
}

/// # Safety
/// As [`give_handle`].
unsafe fn opened(tree: Tree, place: *mut *mut TreeHandle) -> Result<Status, Failure> {
    if tree.key_type() != KeyType::Bytes {
        return Err(Error::WrongKeyType { expected: tree.key_type() }.into());
    }
    // SAFETY: the caller's promise.
    unsafe { give_handle(place, StoreHandle::Tree(tree))? };
    Ok(Status::EverleafOk)
}

/// EVERLEAF_OK if there is a tree of that name, else EVERLEAF_NOT_FOUND.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_tree_exists(
    store: *const StoreHandle,
    name: *const c_char,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        let (store, name) = unsafe { (handle(store)?.store()?, string(name)?.to_bytes()) };
        Ok(found(store.existing_tree(name)?.is_some()))
    })
}

/// Removes the tree of a name with all that is in it. EVERLEAF_NOT_FOUND if there is none. From the
/// first moment on there is no such tree, whatever crash comes; its entries are then removed a part
/// at a time. Handles of it stay to be freed; all else that they are asked fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_tree_drop(
    store: *const StoreHandle,
    name: *const c_char,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        let (store, name) = unsafe { (handle(store)?.store()?, string(name)?.to_bytes()) };
        Ok(found(store.drop_tree(name)?))
    })
}

/// The names of all trees, in order, as they are now: the keys that the iterator shows. Names that
/// were given in Rust may have zero bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_tree_names(
    store: *const StoreHandle,
    iterator: *mut *mut IteratorHandle,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        let names = unsafe { handle(store) }?.store()?.tree_names()?.into_iter();
        // SAFETY: the same.
        unsafe { show(iterator, names.map(|name| Ok((name.into(), Vec::new())))) }
    })
}

/// When the values expire that are written through a tree of `everleaf_tree_with_expiry`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpiryKind {
    /// Never.
    EverleafExpiryNever = 0,
    /// So many milliseconds after the write, 1 at least; in a batch after the call that adds it, in
    /// a transaction after its beginning.
    EverleafExpiryAfter = 1,
    /// At this time, in milliseconds since 1970.
    EverleafExpiryAt = 2,
    /// When the value that is replaced would have; never where there is none.
    EverleafExpiryKept = 3,
}

/// The same tree, whose writes let values expire so, in the same step: `expiry` is an
/// `everleaf_expiry`, and `ms` the milliseconds that two of them need. It is used like the other
/// one, also for batches and transactions, and is to be freed by `everleaf_tree_free`. Through a
/// tree that was opened by its name, `everleaf_compare_and_swap` keeps the expiry, and what stores
/// a value clears it. What has a `ttl_ms`, touches or persists goes by that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_tree_with_expiry(
    tree: *const TreeHandle,
    expiry: c_uint,
    ms: u64,
    with_expiry: *mut *mut TreeHandle,
) -> Status {
    const NEVER: c_uint = ExpiryKind::EverleafExpiryNever as c_uint;
    const AFTER: c_uint = ExpiryKind::EverleafExpiryAfter as c_uint;
    const AT: c_uint = ExpiryKind::EverleafExpiryAt as c_uint;
    const KEPT: c_uint = ExpiryKind::EverleafExpiryKept as c_uint;
    guard(|| {
        let expiry = match expiry {
            NEVER => Expiry::Never,
            AFTER => Expiry::After(life(ms)?),
            // Seconds have 63 bits: it is never too late.
            AT => Expiry::At(SystemTime::UNIX_EPOCH + Duration::from_millis(ms)),
            KEPT => Expiry::Kept,
            _ => return Err(Failure::argument("this is no everleaf_expiry; give one of them")),
        };
        // SAFETY: the header's contract.
        let tree = unsafe { handle(tree) }?.tree()?.with_expiry(expiry);
        // SAFETY: the same.
        unsafe { give_handle(with_expiry, StoreHandle::Tree(tree))? };
        Ok(Status::EverleafOk)
    })
}

/// Frees a tree, which stays in the store. NULL is ignored. It is not for stores.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_tree_free(tree: *mut TreeHandle) {
    guard(|| {
        // SAFETY: the header's contract.
        if let Some(StoreHandle::Store(_)) = unsafe { tree.as_ref() } {
            return Err(Failure::argument("this is a store; close it by everleaf_close"));
        }
        // SAFETY: the same.
        drop(unsafe { taken(tree) });
        Ok(Status::EverleafOk)
    });
}
