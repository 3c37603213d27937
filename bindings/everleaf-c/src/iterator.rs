//! Entries in the order of their keys.

use std::ffi::c_void;
use std::ops::Bound;

use everleaf::{Entry, OwnedKey, Scan};

use crate::TreeHandle;
use crate::boundary::{
    Failure, Status, bytes, give, give_handle, given, guard, handle, handle_mut, taken,
};

/// Entries in the order of their keys. It shows, in order, every key that is present all the time,
/// and each value as it was at some moment; of a snapshot and of a transaction it shows their
/// moment.
pub struct IteratorHandle {
    entries: Box<dyn Iterator<Item = everleaf::Result<Entry>> + Send>,
    /// The entry that was shown last, which the caller looks at.
    shown: Option<Entry>,
}

/// The entries from the key `from` on and before the key `to`, or the greatest first if `backward`.
/// A NULL is no bound.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_range(
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
            iterate(tree, scan, iterator)
        }
    })
}

/// The entries whose keys begin with `prefix`, or the greatest first if `backward`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_prefix(
    tree: *const TreeHandle,
    prefix: *const c_void,
    prefix_bytes: usize,
    backward: bool,
    iterator: *mut *mut IteratorHandle,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        unsafe { iterate(tree, prefix_of(prefix, prefix_bytes, backward)?, iterator) }
    })
}

/// # Safety
/// As [`bytes`].
pub(crate) unsafe fn range_of(
    from: *const c_void,
    from_bytes: usize,
    to: *const c_void,
    to_bytes: usize,
    backward: bool,
) -> Result<Scan, Failure> {
    let mut scan = Scan::all();
    // SAFETY: the caller's promise.
    let (from, to) = unsafe { (given(from, from_bytes)?, given(to, to_bytes)?) };
    scan.from = from.map_or(Bound::Unbounded, |key| Bound::Included(OwnedKey::from(key)));
    scan.to = to.map_or(Bound::Unbounded, |key| Bound::Excluded(OwnedKey::from(key)));
    Ok(if backward { scan.backward() } else { scan })
}

/// # Safety
/// As [`bytes`].
pub(crate) unsafe fn prefix_of(
    prefix: *const c_void,
    prefix_bytes: usize,
    backward: bool,
) -> Result<Scan, Failure> {
    // SAFETY: the caller's promise.
    let scan = Scan::all().with_prefix(unsafe { bytes(prefix, prefix_bytes) }?);
    Ok(if backward { scan.backward() } else { scan })
}

/// # Safety
/// The header's contract.
unsafe fn iterate(
    tree: *const TreeHandle,
    scan: Scan,
    iterator: *mut *mut IteratorHandle,
) -> Result<Status, Failure> {
    // SAFETY: the caller's promise.
    unsafe { show(iterator, handle(tree)?.view().scan(scan).into_owned()) }
}

/// Hands out an iterator over entries.
///
/// # Safety
/// As [`give_handle`].
pub(crate) unsafe fn show(
    place: *mut *mut IteratorHandle,
    entries: impl Iterator<Item = everleaf::Result<Entry>> + Send + 'static,
) -> Result<Status, Failure> {
    let entries = Box::new(entries);
    // SAFETY: the caller's promise.
    unsafe { give_handle(place, IteratorHandle { entries, shown: None })? };
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
        iterator.shown = iterator.entries.next().transpose()?;
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
