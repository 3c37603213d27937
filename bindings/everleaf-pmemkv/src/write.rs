//! Writing one key.

use std::ffi::{c_char, c_int};

use everleaf_c::boundary::{bytes, handle};

use crate::Db;
use crate::status::number::OK;
use crate::status::{Fault, found, guard};

/// Stores a value, in place of the one that there may be.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemkv_put(
    db: *const Db,
    k: *const c_char,
    kb: usize,
    v: *const c_char,
    vb: usize,
) -> c_int {
    guard("pmemkv_put", || {
        // SAFETY: the caller's contract.
        let (db, key, value) = unsafe { (handle(db)?, bytes(k.cast(), kb)?, bytes(v.cast(), vb)?) };
        if let Some(store) = &db.store {
            store.put(key, value)?;
        }
        Ok(OK)
    })
}

/// Removes a key. `NOT_FOUND` if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemkv_remove(db: *const Db, k: *const c_char, kb: usize) -> c_int {
    guard("pmemkv_remove", || {
        // SAFETY: the caller's contract.
        let (db, key) = unsafe { (handle(db)?, bytes(k.cast(), kb)?) };
        let Some(store) = &db.store else { return Ok(OK) };
        Ok(found(store.delete(key)?))
    })
}

/// Has nothing to do: a store finds a record as fast wherever it lies. A compact pool is made by
/// `everleaf copy`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemkv_defrag(
    db: *const Db,
    start_percent: f64,
    amount_percent: f64,
) -> c_int {
    guard("pmemkv_defrag", || {
        // SAFETY: the caller's contract.
        if unsafe { handle(db) }?.store.is_none() {
            return Err(Fault::not_supported("defragmentation is"));
        }
        let sound = start_percent >= 0.0
            && amount_percent >= 0.0
            && start_percent + amount_percent <= 100.0;
        if !sound {
            return Err(Fault::argument("start and amount must be at least 0, and 100 together"));
        }
        Ok(OK)
    })
}
