//! Named trees by their names.

use std::ffi::c_char;

use everleaf::{Error, KeyType, Tree};

use crate::boundary::{Failure, Status, give_handle, guard, handle, string, taken};
use crate::keys::found;
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
