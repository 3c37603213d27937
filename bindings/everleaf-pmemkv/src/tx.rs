//! Transactions, which only write: they are batches.

use std::ffi::{c_char, c_int};
use std::mem::replace;

use everleaf::{Batch, Store};
use everleaf_c::boundary::{bytes, give_handle, handle, handle_mut, taken};

use crate::Db;
use crate::status::number::OK;
use crate::status::{Fault, guard};

/// Writes that happen together or not at all.
pub struct Tx {
    store: Store,
    batch: Batch,
}

impl Tx {
    /// What was gathered; it begins anew.
    fn take(&mut self) -> Batch {
        replace(&mut self.batch, self.store.batch())
    }
}

/// Begins a transaction.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemkv_tx_begin(db: *const Db, tx: *mut *mut Tx) -> c_int {
    guard("pmemkv_tx_begin", || {
        if tx.is_null() {
            return Err(Fault::argument("there is no place for the transaction; give one"));
        }
        // SAFETY: the caller's contract.
        let db = unsafe { handle(db) }?;
        let Some(store) = db.store.as_ref().filter(|_| db.engine.transactions) else {
            return Err(Fault::not_supported("transactions are"));
        };
        // SAFETY: the caller's contract.
        unsafe { give_handle(tx, Tx { store: store.clone(), batch: store.batch() }) }?;
        Ok(OK)
    })
}

/// Will store a value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemkv_tx_put(
    tx: *mut Tx,
    k: *const c_char,
    kb: usize,
    v: *const c_char,
    vb: usize,
) -> c_int {
    guard("pmemkv_tx_put", || {
        // SAFETY: the caller's contract.
        let (tx, key, value) =
            unsafe { (handle_mut(tx)?, bytes(k.cast(), kb)?, bytes(v.cast(), vb)?) };
        tx.batch.put(key, value)?;
        Ok(OK)
    })
}

/// Will remove a key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemkv_tx_remove(tx: *mut Tx, k: *const c_char, kb: usize) -> c_int {
    guard("pmemkv_tx_remove", || {
        // SAFETY: the caller's contract.
        let (tx, key) = unsafe { (handle_mut(tx)?, bytes(k.cast(), kb)?) };
        tx.batch.delete(key)?;
        Ok(OK)
    })
}

/// Does all that was gathered, or nothing if it fails. The transaction begins anew.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemkv_tx_commit(tx: *mut Tx) -> c_int {
    guard("pmemkv_tx_commit", || {
        // SAFETY: the caller's contract.
        unsafe { handle_mut(tx) }?.take().commit()?;
        Ok(OK)
    })
}

/// Forgets what was gathered. The transaction begins anew.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemkv_tx_abort(tx: *mut Tx) {
    guard("pmemkv_tx_abort", || {
        // SAFETY: the caller's contract.
        drop(unsafe { handle_mut(tx) }?.take());
        Ok(OK)
    });
}

/// Frees a transaction. NULL is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemkv_tx_end(tx: *mut Tx) {
    guard("pmemkv_tx_end", || {
        // SAFETY: the caller's contract.
        drop(unsafe { taken(tx) });
        Ok(OK)
    });
}
