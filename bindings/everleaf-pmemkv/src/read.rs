//! Reading: one key, and ranges. Callbacks get copies, and may use the database.

use std::ffi::{c_char, c_int, c_void};
use std::ops::Bound::{self, Excluded, Included, Unbounded};

use everleaf::{OwnedKey, Scan};
use everleaf_c::boundary::{bytes, give, handle};

use crate::Db;
use crate::status::number::{NOT_FOUND, OK, OUT_OF_MEMORY, STOPPED_BY_CB};
use crate::status::{Fault, Result, found, guard};

/// Is shown a key and its value; what is not 0 ends the call.
pub type GetKvCallback =
    unsafe extern "C" fn(*const c_char, usize, *const c_char, usize, *mut c_void) -> c_int;
/// Is shown a value.
pub type GetVCallback = unsafe extern "C" fn(*const c_char, usize, *mut c_void);

/// `OK` if the key is there, else `NOT_FOUND`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemkv_exists(db: *const Db, k: *const c_char, kb: usize) -> c_int {
    guard("pmemkv_exists", || {
        // SAFETY: the caller's contract.
        let (db, key) = unsafe { (handle(db)?, bytes(k.cast(), kb)?) };
        let Some(store) = &db.store else { return Ok(NOT_FOUND) };
        Ok(found(store.contains_key(key)?))
    })
}

/// Shows a value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemkv_get(
    db: *const Db,
    k: *const c_char,
    kb: usize,
    callback: Option<GetVCallback>,
    arg: *mut c_void,
) -> c_int {
    guard("pmemkv_get", || {
        // SAFETY: the caller's contract.
        let (db, key) = unsafe { (handle(db)?, bytes(k.cast(), kb)?) };
        let Some(store) = &db.store else { return Ok(NOT_FOUND) };
        let callback = callback.ok_or_else(no_callback)?;
        let Some(value) = store.get(key)? else { return Ok(NOT_FOUND) };
        // SAFETY: the caller's contract.
        unsafe { callback(value.as_ptr().cast(), value.len(), arg) };
        Ok(OK)
    })
}

/// Copies a value into a buffer, whose rest is filled with zeros, and tells its length.
/// `OUT_OF_MEMORY` if the buffer is too small. Buffer and length may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemkv_get_copy(
    db: *const Db,
    k: *const c_char,
    kb: usize,
    buffer: *mut c_char,
    buffer_size: usize,
    value_size: *mut usize,
) -> c_int {
    guard("pmemkv_get_copy", || {
        // SAFETY: the caller's contract.
        let (db, key) = unsafe { (handle(db)?, bytes(k.cast(), kb)?) };
        if !buffer.is_null() {
            // SAFETY: the caller's contract.
            unsafe { buffer.write_bytes(0, buffer_size) };
        }
        let Some(store) = &db.store else { return Ok(NOT_FOUND) };
        let copied = store.get_with(key, |value| {
            let fits = value.len() <= buffer_size;
            // SAFETY: the caller's contract; it fits.
            unsafe {
                if !value_size.is_null() {
                    value_size.write(value.len());
                }
                if fits && !buffer.is_null() {
                    buffer.copy_from_nonoverlapping(value.as_ptr().cast(), value.len());
                }
            }
            if fits { OK } else { OUT_OF_MEMORY }
        })?;
        Ok(copied.unwrap_or(NOT_FOUND))
    })
}

fn no_callback() -> Fault {
    Fault::argument("the callback is NULL; give a function")
}

/// A key of the caller's.
type Raw = (*const c_char, usize);

/// # Safety
/// The caller's contract.
unsafe fn scan_of(from: Bound<Raw>, to: Bound<Raw>) -> Result<Scan> {
    // SAFETY: the caller's contract.
    let bound = |bound: Bound<Raw>| unsafe {
        Ok::<_, Fault>(match bound {
            Included((k, kb)) => Included(OwnedKey::from(bytes(k.cast(), kb)?)),
            Excluded((k, kb)) => Excluded(OwnedKey::from(bytes(k.cast(), kb)?)),
            Unbounded => Unbounded,
        })
    };
    let mut scan = Scan::all();
    (scan.from, scan.to) = (bound(from)?, bound(to)?);
    Ok(scan)
}

/// # Safety
/// The caller's contract.
unsafe fn count(
    function: &str,
    db: *const Db,
    (from, to): (Bound<Raw>, Bound<Raw>),
    count: *mut usize,
) -> c_int {
    guard(function, || {
        // SAFETY: the caller's contract.
        let (db, scan) = unsafe { (handle(db)?, scan_of(from, to)?) };
        let entries = db.store.as_ref().map_or(Ok(0), |store| store.count_in(scan))?;
        // SAFETY: the caller's contract.
        unsafe { give(count, entries as usize) }?;
        Ok(OK)
    })
}

/// # Safety
/// The caller's contract.
unsafe fn show(
    function: &str,
    db: *const Db,
    (from, to): (Bound<Raw>, Bound<Raw>),
    callback: Option<GetKvCallback>,
    arg: *mut c_void,
) -> c_int {
    guard(function, || {
        // SAFETY: the caller's contract.
        let (db, scan) = unsafe { (handle(db)?, scan_of(from, to)?) };
        let Some(store) = &db.store else { return Ok(NOT_FOUND) };
        let callback = callback.ok_or_else(no_callback)?;
        for entry in store.scan(scan) {
            let (key, value) = entry?;
            let key = key.as_bytes().unwrap_or_default();
            let (k, v) = (key.as_ptr().cast(), value.as_ptr().cast());
            // SAFETY: the caller's contract.
            if unsafe { callback(k, key.len(), v, value.len(), arg) } != 0 {
                return Ok(STOPPED_BY_CB);
            }
        }
        Ok(OK)
    })
}

/// The two functions of a range: one that counts, and one that shows it.
macro_rules! range {
    ($what:literal, $count:ident, $get:ident, ($($k:ident $kb:ident),*), $from:expr, $to:expr) => {
        #[doc = concat!("Counts ", $what, ".")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $count(
            db: *const Db,
            $($k: *const c_char, $kb: usize,)*
            cnt: *mut usize,
        ) -> c_int {
            // SAFETY: the caller's contract.
            unsafe { count(stringify!($count), db, ($from, $to), cnt) }
        }

        #[doc = concat!("Shows ", $what, ", in their order.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $get(
            db: *const Db,
            $($k: *const c_char, $kb: usize,)*
            callback: Option<GetKvCallback>,
            arg: *mut c_void,
        ) -> c_int {
            // SAFETY: the caller's contract.
            unsafe { show(stringify!($get), db, ($from, $to), callback, arg) }
        }
    };
}
range!("all entries", pmemkv_count_all, pmemkv_get_all, (), Unbounded, Unbounded);
range!(
    "the entries behind a key",
    pmemkv_count_above,
    pmemkv_get_above,
    (k kb),
    Excluded((k, kb)),
    Unbounded
);
range!(
    "the entries from a key on",
    pmemkv_count_equal_above,
    pmemkv_get_equal_above,
    (k kb),
    Included((k, kb)),
    Unbounded
);
range!(
    "the entries up to a key",
    pmemkv_count_equal_below,
    pmemkv_get_equal_below,
    (k kb),
    Unbounded,
    Included((k, kb))
);
range!(
    "the entries before a key",
    pmemkv_count_below,
    pmemkv_get_below,
    (k kb),
    Unbounded,
    Excluded((k, kb))
);
range!(
    "the entries between two keys",
    pmemkv_count_between,
    pmemkv_get_between,
    (k1 kb1, k2 kb2),
    Excluded((k1, kb1)),
    Excluded((k2, kb2))
);
