//! Writes that happen together or not at all.

use std::ffi::c_void;

use everleaf::{Batch, BatchOn, Tree};

use crate::TreeHandle;
use crate::boundary::{Failure, Status, bytes, give_handle, guard, handle, handle_mut, taken};
use crate::keys::life;

/// Writes that are gathered until `everleaf_batch_commit` does all of them or none, whatever
/// crash comes. A later one sees what an earlier one does.
pub struct BatchHandle {
    batch: Batch,
    tree: Tree,
}

impl BatchHandle {
    fn here(&mut self) -> everleaf::Result<BatchOn<'_>> {
        self.batch.on(&self.tree)
    }
}

/// Begins a batch, of writes to a tree.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_batch_new(
    tree: *const TreeHandle,
    batch: *mut *mut BatchHandle,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        let tree = unsafe { handle(tree) }?.tree()?.clone();
        // SAFETY: the same.
        unsafe { give_handle(batch, BatchHandle { batch: tree.batch(), tree })? };
        Ok(Status::EverleafOk)
    })
}

/// Makes what follows write to another tree of the same store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_batch_on(
    batch: *mut BatchHandle,
    tree: *const TreeHandle,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        let (batch, tree) = unsafe { (handle_mut(batch)?, handle(tree)?.tree()?) };
        batch.batch.on(tree)?; // Not of another store.
        batch.tree = tree.clone();
        Ok(Status::EverleafOk)
    })
}

/// Will store a value, in place of the one that there may be.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_batch_put(
    batch: *mut BatchHandle,
    key: *const c_void,
    key_bytes: usize,
    value: *const c_void,
    value_bytes: usize,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        let (batch, key, value) =
            unsafe { (handle_mut(batch)?, bytes(key, key_bytes)?, bytes(value, value_bytes)?) };
        batch.here()?.put(key, value)?;
        Ok(Status::EverleafOk)
    })
}

/// Will store a value that expires `ttl_ms` milliseconds from now on, as `everleaf_put_for`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_batch_put_for(
    batch: *mut BatchHandle,
    key: *const c_void,
    key_bytes: usize,
    value: *const c_void,
    value_bytes: usize,
    ttl_ms: u64,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        let (batch, key, value) =
            unsafe { (handle_mut(batch)?, bytes(key, key_bytes)?, bytes(value, value_bytes)?) };
        batch.here()?.put_for(key, value, life(ttl_ms)?)?;
        Ok(Status::EverleafOk)
    })
}

/// Will let the value that a key has then expire `ttl_ms` milliseconds from now on, 1 at least. An
/// absent key is left alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_batch_touch(
    batch: *mut BatchHandle,
    key: *const c_void,
    key_bytes: usize,
    ttl_ms: u64,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        let (batch, key) = unsafe { (handle_mut(batch)?, bytes(key, key_bytes)?) };
        batch.here()?.touch(key, life(ttl_ms)?)?;
        Ok(Status::EverleafOk)
    })
}

/// Will let the value that a key has then stay for ever. An absent key is left alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_batch_persist(
    batch: *mut BatchHandle,
    key: *const c_void,
    key_bytes: usize,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        let (batch, key) = unsafe { (handle_mut(batch)?, bytes(key, key_bytes)?) };
        batch.here()?.persist(key)?;
        Ok(Status::EverleafOk)
    })
}

/// Will remove a key, if it is present then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_batch_remove(
    batch: *mut BatchHandle,
    key: *const c_void,
    key_bytes: usize,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        let (batch, key) = unsafe { (handle_mut(batch)?, bytes(key, key_bytes)?) };
        batch.here()?.delete(key)?;
        Ok(Status::EverleafOk)
    })
}

/// Does all writes of a batch, as durable as a put when it returns, or none if it fails. The batch
/// is freed, whatever this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_batch_commit(batch: *mut BatchHandle) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        match unsafe { taken(batch) } {
            Some(taken) => taken.batch.commit()?,
            None => return Err(Failure::argument("there is no batch: NULL was given")),
        };
        Ok(Status::EverleafOk)
    })
}

/// Frees a batch and does nothing of it. NULL is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_batch_free(batch: *mut BatchHandle) {
    guard(|| {
        // SAFETY: the header's contract.
        drop(unsafe { taken(batch) });
        Ok(Status::EverleafOk)
    });
}
