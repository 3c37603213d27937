//! Entries in the order of their keys.

use std::ffi::c_void;
use std::ops::Bound;

use everleaf::{Entry, OwnedKey, Range, Scan};

use crate::StoreHandle;
use crate::boundary::{
    Failure, Status, bytes, give, give_handle, guard, handle, handle_mut, taken,
};

/// Entries in the order of their keys. It shows, in order, every key that is present all the time,
/// and each value as it was at some moment.
pub struct IteratorHandle {
    range: Range<'static>,
    /// The entry that was shown last, which the caller looks at.
    shown: Option<Entry>,
}

/// The entries from the key `from` on and before the key `to`, or the greatest first if `backward`.
/// A NULL is no bound.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_range(
    store: *const StoreHandle,
    from: *const c_void,
    from_bytes: usize,
    to: *const c_void,
    to_bytes: usize,
    backward: bool,
    iterator: *mut *mut IteratorHandle,
) -> Status {
    guard(|| {
        let mut scan = Scan::all();
        // SAFETY: the header's contract.
        unsafe {
            scan.from = bound(from, from_bytes)?.map_or(Bound::Unbounded, Bound::Included);
            scan.to = bound(to, to_bytes)?.map_or(Bound::Unbounded, Bound::Excluded);
            iterate(store, scan, backward, iterator)
        }
    })
}

/// The entries whose keys begin with `prefix`, or the greatest first if `backward`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_prefix(
    store: *const StoreHandle,
    prefix: *const c_void,
    prefix_bytes: usize,
    backward: bool,
    iterator: *mut *mut IteratorHandle,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        unsafe {
            let scan = Scan::all().with_prefix(bytes(prefix, prefix_bytes)?);
            iterate(store, scan, backward, iterator)
        }
    })
}

/// # Safety
/// As [`bytes`].
unsafe fn bound(key: *const c_void, key_bytes: usize) -> Result<Option<OwnedKey>, Failure> {
    // SAFETY: the caller's promise.
    let bytes = unsafe { bytes(key, key_bytes) }?;
    Ok((!key.is_null()).then(|| OwnedKey::from(bytes)))
}

/// # Safety
/// The header's contract.
unsafe fn iterate(
    store: *const StoreHandle,
    scan: Scan,
    backward: bool,
    iterator: *mut *mut IteratorHandle,
) -> Result<Status, Failure> {
    let scan = if backward { scan.backward() } else { scan };
    // SAFETY: the caller's promise.
    unsafe {
        let range = handle(store)?.store.scan(scan).into_owned();
        give_handle(iterator, IteratorHandle { range, shown: None })?;
    }
    Ok(Status::EverleafOk)
}

/// Shows the next entry, until the next call with this iterator. EVERLEAF_NOT_FOUND at the end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_next(
    iterator: *mut IteratorHandle,
    key: *mut *const c_void,
    key_bytes: *mut usize,
    value: *mut *const c_void,
    value_bytes: *mut usize,
) -> Status {
    guard(|| {
        if key.is_null() || key_bytes.is_null() || value.is_null() || value_bytes.is_null() {
            return Err(Failure::argument("there is no place for the entry: NULL was given"));
        }
        // SAFETY: the header's contract.
        let iterator = unsafe { handle_mut(iterator) }?;
        iterator.shown = iterator.range.next().transpose()?;
        let Some((at, found)) = &iterator.shown else { return Ok(Status::EverleafNotFound) };
        let at = at.as_bytes().unwrap_or_default();
        // SAFETY: the header's contract.
        unsafe {
            give(key, at.as_ptr().cast())?;
            give(key_bytes, at.len())?;
            give(value, found.as_ptr().cast())?;
            give(value_bytes, found.len())?;
        }
        Ok(Status::EverleafOk)
    })
}

/// Frees an iterator. NULL is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_iterator_free(iterator: *mut IteratorHandle) {
    guard(|| {
        // SAFETY: the header's contract.
        drop(unsafe { taken(iterator) });
        Ok(Status::EverleafOk)
    });
}
