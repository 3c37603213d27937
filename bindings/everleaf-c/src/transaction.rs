//! Reads and writes that happen at one moment or not at all.

use std::ffi::{c_char, c_void};

use everleaf::{Scan, Transaction, TransactionOn};

use crate::boundary::{Failure, Status, bytes, give_handle, guard, handle, taken};
use crate::keys::{found, hand_out, life};
use crate::{IteratorHandle, StoreHandle, TreeHandle, prefix_of, range_of, show};

/// Reads and writes that happen at one moment or not at all, whatever other threads do and whatever
/// crash comes. Nothing is locked meanwhile: what it reads and what it writes is kept in DRAM, and
/// the commit writes, if everything that was read is still so. If not, it is EVERLEAF_CONFLICT, and
/// so is a read that can be of no one moment with those before: begin another transaction, and do
/// all again. Reads see what the transaction has written itself.
pub struct TransactionHandle {
    transaction: Transaction,
}

/// # Safety
/// The header's contract.
unsafe fn on<'t>(
    transaction: *mut TransactionHandle,
    tree: *const TreeHandle,
) -> Result<TransactionOn<'t>, Failure> {
    // SAFETY: the caller's promise.
    let (transaction, tree) = unsafe { (handle(transaction)?, handle(tree)?.tree()?) };
    Ok(transaction.transaction.on(tree)?)
}

/// Begins a transaction, which is ended by `everleaf_transaction_commit` or
/// `everleaf_transaction_rollback`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_transaction_begin(
    store: *const StoreHandle,
    transaction: *mut *mut TransactionHandle,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        let begun = unsafe { handle(store) }?.store()?.begin()?;
        // SAFETY: the same.
        unsafe { give_handle(transaction, TransactionHandle { transaction: begun })? };
        Ok(Status::EverleafOk)
    })
}

/// Copies a value of a tree of the store, or of its own, as `everleaf_get`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_transaction_get(
    transaction: *mut TransactionHandle,
    tree: *const TreeHandle,
    key: *const c_void,
    key_bytes: usize,
    value: *mut *mut c_char,
    value_bytes: *mut usize,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        unsafe {
            let (on, key) = (on(transaction, tree)?, bytes(key, key_bytes)?);
            hand_out(|| Ok(on.get(key)?), value, value_bytes)
        }
    })
}

/// Will store a value, in place of the one that there may be.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_transaction_put(
    transaction: *mut TransactionHandle,
    tree: *const TreeHandle,
    key: *const c_void,
    key_bytes: usize,
    value: *const c_void,
    value_bytes: usize,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        let (on, key, value) =
            unsafe { (on(transaction, tree)?, bytes(key, key_bytes)?, bytes(value, value_bytes)?) };
        on.put(key, value)?;
        Ok(Status::EverleafOk)
    })
}

/// Will store a value that expires `ttl_ms` milliseconds after the transaction began, as
/// `everleaf_put_for`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_transaction_put_for(
    transaction: *mut TransactionHandle,
    tree: *const TreeHandle,
    key: *const c_void,
    key_bytes: usize,
    value: *const c_void,
    value_bytes: usize,
    ttl_ms: u64,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        let (on, key, value) =
            unsafe { (on(transaction, tree)?, bytes(key, key_bytes)?, bytes(value, value_bytes)?) };
        on.put_for(key, value, life(ttl_ms)?)?;
        Ok(Status::EverleafOk)
    })
}

/// Will let the value of a key expire `ttl_ms` milliseconds after the transaction began, 1 at
/// least, whatever expiry it had. EVERLEAF_NOT_FOUND if there is no such key. It reads the value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_transaction_touch(
    transaction: *mut TransactionHandle,
    tree: *const TreeHandle,
    key: *const c_void,
    key_bytes: usize,
    ttl_ms: u64,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        let (on, key) = unsafe { (on(transaction, tree)?, bytes(key, key_bytes)?) };
        Ok(found(on.touch(key, life(ttl_ms)?)?))
    })
}

/// Will let the value of a key stay for ever. EVERLEAF_NOT_FOUND if there is no such key. It reads
/// the value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_transaction_persist(
    transaction: *mut TransactionHandle,
    tree: *const TreeHandle,
    key: *const c_void,
    key_bytes: usize,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        let (on, key) = unsafe { (on(transaction, tree)?, bytes(key, key_bytes)?) };
        Ok(found(on.persist(key)?))
    })
}

/// Will remove a key. EVERLEAF_NOT_FOUND if there is none, which is a read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_transaction_remove(
    transaction: *mut TransactionHandle,
    tree: *const TreeHandle,
    key: *const c_void,
    key_bytes: usize,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        let (on, key) = unsafe { (on(transaction, tree)?, bytes(key, key_bytes)?) };
        Ok(found(on.remove(key)?.is_some()))
    })
}

/// The entries of a range, as `everleaf_range`. All of them are read at once, and writers may have
/// to wait meanwhile. The iterator does not show what is written later.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_transaction_range(
    transaction: *mut TransactionHandle,
    tree: *const TreeHandle,
    from: *const c_void,
    from_bytes: usize,
    to: *const c_void,
    to_bytes: usize,
    backward: bool,
    iterator: *mut *mut IteratorHandle,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        unsafe {
            let scan = range_of(from, from_bytes, to, to_bytes, backward)?;
            read(on(transaction, tree)?, scan, iterator)
        }
    })
}

/// The entries whose keys begin with `prefix`, read as by `everleaf_transaction_range`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_transaction_prefix(
    transaction: *mut TransactionHandle,
    tree: *const TreeHandle,
    prefix: *const c_void,
    prefix_bytes: usize,
    backward: bool,
    iterator: *mut *mut IteratorHandle,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        unsafe {
            let scan = prefix_of(prefix, prefix_bytes, backward)?;
            read(on(transaction, tree)?, scan, iterator)
        }
    })
}

/// # Safety
/// As [`show`].
unsafe fn read(
    on: TransactionOn<'_>,
    scan: Scan,
    iterator: *mut *mut IteratorHandle,
) -> Result<Status, Failure> {
    let entries = on.scan(scan, usize::MAX)?;
    // SAFETY: the caller's promise.
    unsafe { show(iterator, entries.into_iter().map(Ok)) }
}

/// Does all writes of a transaction, as durable as a put when it returns, or none if it fails:
/// EVERLEAF_CONFLICT if others have written what it had read. The transaction is freed, whatever
/// this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_transaction_commit(
    transaction: *mut TransactionHandle,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        match unsafe { taken(transaction) } {
            Some(taken) => taken.transaction.commit()?,
            None => return Err(Failure::argument("there is no transaction: NULL was given")),
        };
        Ok(Status::EverleafOk)
    })
}

/// Frees a transaction and does nothing of it. NULL is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_transaction_rollback(transaction: *mut TransactionHandle) {
    guard(|| {
        // SAFETY: the header's contract.
        drop(unsafe { taken(transaction) });
        Ok(Status::EverleafOk)
    });
}
