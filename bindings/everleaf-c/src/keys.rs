//! Single keys of a tree.

use std::ffi::{c_char, c_void};
use std::time::Duration;

use crate::TreeHandle;
use crate::boundary::{Failure, Status, bytes, give, given, guard, handle};

/// Stores a value, in place of the one that there may be.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_put(
    tree: *const TreeHandle,
    key: *const c_void,
    key_bytes: usize,
    value: *const c_void,
    value_bytes: usize,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        let (tree, key, value) =
            unsafe { (handle(tree)?, bytes(key, key_bytes)?, bytes(value, value_bytes)?) };
        tree.tree()?.put(key, value)?;
        Ok(Status::EverleafOk)
    })
}

/// Stores a value that expires `ttl_ms` milliseconds from now on, 1 at least: the key is absent
/// then, and its room is given back by `everleaf_remove_expired`, by the next write of the key, or
/// when the pool is full. A later `everleaf_put` of the key makes a value that stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_put_for(
    tree: *const TreeHandle,
    key: *const c_void,
    key_bytes: usize,
    value: *const c_void,
    value_bytes: usize,
    ttl_ms: u64,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        let (tree, key, value) =
            unsafe { (handle(tree)?, bytes(key, key_bytes)?, bytes(value, value_bytes)?) };
        tree.tree()?.put_for(key, value, life(ttl_ms)?)?;
        Ok(Status::EverleafOk)
    })
}

pub(crate) fn life(ttl_ms: u64) -> Result<Duration, Failure> {
    match ttl_ms {
        0 => Err(Failure::argument("a value cannot live for 0 ms; give 1 or more")),
        _ => Ok(Duration::from_millis(ttl_ms)),
    }
}

/// Stores a value if the key is absent, else EVERLEAF_CONFLICT. Of several threads that do so one
/// stores its value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_put_if_absent(
    tree: *const TreeHandle,
    key: *const c_void,
    key_bytes: usize,
    value: *const c_void,
    value_bytes: usize,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        let (tree, key, value) =
            unsafe { (handle(tree)?, bytes(key, key_bytes)?, bytes(value, value_bytes)?) };
        swapped(tree.tree()?.put_if_absent(key, value)?)
    })
}

/// Compare and swap: stores `value` if the value of the key is `expected`, else EVERLEAF_CONFLICT.
/// As `expected` NULL is an absent key, and as `value` it removes the key; a value of length 0 is
/// a pointer that is not NULL. The new value expires when the old one would have. Of several
/// threads that expect the same one succeeds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_compare_and_swap(
    tree: *const TreeHandle,
    key: *const c_void,
    key_bytes: usize,
    expected: *const c_void,
    expected_bytes: usize,
    value: *const c_void,
    value_bytes: usize,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        let (tree, key) = unsafe { (handle(tree)?, bytes(key, key_bytes)?) };
        // SAFETY: the same.
        let (expected, value) =
            unsafe { (given(expected, expected_bytes)?, given(value, value_bytes)?) };
        swapped(tree.tree()?.compare_and_swap(key, expected, value)?)
    })
}

fn swapped(done: bool) -> Result<Status, Failure> {
    match done {
        true => Ok(Status::EverleafOk),
        false => Err(Failure {
            status: Status::EverleafConflict,
            sentence: "the value of the key is not what was expected; read it again".to_owned(),
        }),
    }
}

/// Copies a value: `*value` is to be freed by `everleaf_free`, and a zero byte follows its last
/// byte, so that text can be printed as it is. EVERLEAF_NOT_FOUND if there is no such key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_get(
    tree: *const TreeHandle,
    key: *const c_void,
    key_bytes: usize,
    value: *mut *mut c_char,
    value_bytes: *mut usize,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        unsafe {
            let (tree, key) = (handle(tree)?, bytes(key, key_bytes)?);
            hand_out(|| Ok(tree.view().get(key)?), value, value_bytes)
        }
    })
}

/// Hands out a copy of what is found.
///
/// # Safety
/// As [`give`].
pub(crate) unsafe fn hand_out(
    find: impl FnOnce() -> Result<Option<Vec<u8>>, Failure>,
    value: *mut *mut c_char,
    value_bytes: *mut usize,
) -> Result<Status, Failure> {
    if value.is_null() || value_bytes.is_null() {
        return Err(Failure::argument("there is no place for the value: NULL was given"));
    }
    let Some(found) = find()? else { return Ok(Status::EverleafNotFound) };
    // SAFETY: the caller's promise.
    unsafe {
        give(value, copied(&found)?)?;
        give(value_bytes, found.len())?;
    }
    Ok(Status::EverleafOk)
}

/// A copy in memory of C's, with a zero byte behind it.
fn copied(bytes: &[u8]) -> Result<*mut c_char, Failure> {
    // SAFETY: any length may be asked for; it is one byte more than what is written.
    unsafe {
        let copy = libc::malloc(bytes.len() + 1).cast::<u8>();
        if copy.is_null() {
            return Err(Failure::argument("there is no memory for the value; free some"));
        }
        copy.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        copy.add(bytes.len()).write(0);
        Ok(copy.cast())
    }
}

/// Frees a value. NULL is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_free(value: *mut c_char) {
    // SAFETY: it comes of `malloc`, or is NULL.
    unsafe { libc::free(value.cast()) }
}

/// EVERLEAF_OK if there is such a key, else EVERLEAF_NOT_FOUND.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_contains(
    tree: *const TreeHandle,
    key: *const c_void,
    key_bytes: usize,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        let (tree, key) = unsafe { (handle(tree)?, bytes(key, key_bytes)?) };
        Ok(found(tree.view().contains_key(key)?))
    })
}

/// How many milliseconds the value of a key lives on; UINT64_MAX: it stays. EVERLEAF_NOT_FOUND if
/// there is no such key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_ttl(
    tree: *const TreeHandle,
    key: *const c_void,
    key_bytes: usize,
    ttl_ms: *mut u64,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        let (tree, key) = unsafe { (handle(tree)?, bytes(key, key_bytes)?) };
        let Some(left) = tree.view().ttl(key)? else { return Ok(Status::EverleafNotFound) };
        let left_ms = left.and_then(|left| u64::try_from(left.as_millis()).ok());
        // SAFETY: the header's contract.
        unsafe { give(ttl_ms, left_ms.unwrap_or(u64::MAX))? };
        Ok(Status::EverleafOk)
    })
}

/// Lets the value of a key expire `ttl_ms` milliseconds from now on, 1 at least, whatever expiry it
/// had. The value is written once more. EVERLEAF_NOT_FOUND if there is no such key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_touch(
    tree: *const TreeHandle,
    key: *const c_void,
    key_bytes: usize,
    ttl_ms: u64,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        let (tree, key) = unsafe { (handle(tree)?, bytes(key, key_bytes)?) };
        Ok(found(tree.tree()?.touch(key, life(ttl_ms)?)?))
    })
}

/// Lets the value of a key stay for ever. The value is written once more. EVERLEAF_NOT_FOUND if
/// there is no such key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_persist(
    tree: *const TreeHandle,
    key: *const c_void,
    key_bytes: usize,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        let (tree, key) = unsafe { (handle(tree)?, bytes(key, key_bytes)?) };
        Ok(found(tree.tree()?.persist(key)?))
    })
}

/// Removes a key. EVERLEAF_NOT_FOUND if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_remove(
    tree: *const TreeHandle,
    key: *const c_void,
    key_bytes: usize,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        let (tree, key) = unsafe { (handle(tree)?, bytes(key, key_bytes)?) };
        Ok(found(tree.tree()?.delete(key)?))
    })
}

pub(crate) fn found(is: bool) -> Status {
    if is { Status::EverleafOk } else { Status::EverleafNotFound }
}

/// Number of keys.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_count(tree: *const TreeHandle, keys: *mut u64) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        unsafe { give(keys, handle(tree)?.view().len()?)? };
        Ok(Status::EverleafOk)
    })
}
