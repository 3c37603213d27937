//! Opening and closing a store; single keys.

use std::ffi::{c_char, c_void};
use std::str::FromStr;

use everleaf::{CreateOptions, DurabilityMode, Engine, Error, KeyType, Store};

use crate::boundary::{
    Failure, Status, bytes, give, give_handle, guard, handle, path, string, taken,
};

/// An opened pool: an ordered map from keys to values.
pub struct StoreHandle {
    pub(crate) store: Store,
}

/// How a pool is made. Zero and NULL, `everleaf_options options = {0}`, are the defaults.
#[repr(C)]
pub struct Options {
    /// Bytes of the file at first. 0: 1 MiB; it grows by itself.
    pub size_bytes: u64,
    /// Bytes that the file may grow to. 0: as much as addresses can be had for.
    pub max_size_bytes: u64,
    /// The engine; docs/guide.md has their names. NULL: fptree-c.
    pub engine: *const c_char,
    /// `immediate`, `buffered`, `buffered=MS` or `process`. NULL: the strongest that there is.
    pub durability: *const c_char,
}

/// Opens a pool to read and write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_open(
    pool: *const c_char,
    store: *mut *mut StoreHandle,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        unsafe { opened(Store::open(path(pool)?)?, store) }
    })
}

/// Opens a pool to read; several processes may do so while none writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_open_read_only(
    pool: *const c_char,
    store: *mut *mut StoreHandle,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        unsafe { opened(Store::open_read_only(path(pool)?)?, store) }
    })
}

/// Makes a pool and opens it. `options` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_create(
    pool: *const c_char,
    options: *const Options,
    store: *mut *mut StoreHandle,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        unsafe { opened(create_options(options)?.create(path(pool)?)?, store) }
    })
}

/// Opens a pool to read and write, or makes it if there is none. `options` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_open_or_create(
    pool: *const c_char,
    options: *const Options,
    store: *mut *mut StoreHandle,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        unsafe { opened(create_options(options)?.open_or_create(path(pool)?)?, store) }
    })
}

/// # Safety
/// As [`give_handle`].
unsafe fn opened(store: Store, place: *mut *mut StoreHandle) -> Result<Status, Failure> {
    if store.key_type() != KeyType::Bytes {
        return Err(Error::WrongKeyType { expected: store.key_type() }.into());
    }
    // SAFETY: the caller's promise.
    unsafe { give_handle(place, StoreHandle { store })? };
    Ok(Status::EverleafOk)
}

/// # Safety
/// The header's contract.
unsafe fn create_options(options: *const Options) -> Result<CreateOptions, Failure> {
    let mut create = CreateOptions::new();
    // SAFETY: the caller's promise.
    let Some(options) = (unsafe { options.as_ref() }) else { return Ok(create) };
    if options.size_bytes != 0 {
        create.size_bytes = options.size_bytes;
    }
    if options.max_size_bytes != 0 {
        create.max_size_bytes = Some(options.max_size_bytes);
    }
    // SAFETY: the caller's promise.
    unsafe {
        create.engine = named::<Engine>(options.engine)?.unwrap_or_default();
        create.durability = named::<DurabilityMode>(options.durability)?;
    }
    Ok(create)
}

/// What has a name; none if that is NULL.
///
/// # Safety
/// As [`string`].
unsafe fn named<T>(name: *const c_char) -> Result<Option<T>, Failure>
where
    T: FromStr,
    T::Err: std::fmt::Display,
{
    if name.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    let name = unsafe { string(name) }?.to_string_lossy();
    name.parse().map(Some).map_err(|error: T::Err| Failure::argument(error.to_string()))
}

/// Closes a store, which must not be used again, whatever this returns. Its iterators and batches
/// stay to be freed; all else that they are asked fails. With the defaults a process that dies
/// loses nothing either. In a process that was forked after the store was opened every call fails,
/// this one too, and the store goes on in the process that opened it; the pool stays locked until
/// the forked one has ended or runs another program. NULL is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_close(store: *mut StoreHandle) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        if let Some(taken) = unsafe { taken(store) } {
            taken.store.close()?;
        }
        Ok(Status::EverleafOk)
    })
}

/// Returns when everything done before is durable. With the defaults each write is when it returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_sync(store: *const StoreHandle) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        unsafe { handle(store) }?.store.sync()?;
        Ok(Status::EverleafOk)
    })
}

/// Stores a value, in place of the one that there may be.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_put(
    store: *const StoreHandle,
    key: *const c_void,
    key_bytes: usize,
    value: *const c_void,
    value_bytes: usize,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        let (store, key, value) =
            unsafe { (handle(store)?, bytes(key, key_bytes)?, bytes(value, value_bytes)?) };
        store.store.put(key, value)?;
        Ok(Status::EverleafOk)
    })
}

/// Copies a value: `*value` is to be freed by `everleaf_free`, and a zero byte follows its last
/// byte, so that text can be printed as it is. EVERLEAF_NOT_FOUND if there is no such key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_get(
    store: *const StoreHandle,
    key: *const c_void,
    key_bytes: usize,
    value: *mut *mut c_char,
    value_bytes: *mut usize,
) -> Status {
    guard(|| {
        if value.is_null() || value_bytes.is_null() {
            return Err(Failure::argument("there is no place for the value: NULL was given"));
        }
        // SAFETY: the header's contract.
        let (store, key) = unsafe { (handle(store)?, bytes(key, key_bytes)?) };
        let Some(found) = store.store.get(key)? else { return Ok(Status::EverleafNotFound) };
        // SAFETY: the header's contract.
        unsafe {
            give(value, copied(&found)?)?;
            give(value_bytes, found.len())?;
        }
        Ok(Status::EverleafOk)
    })
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
    store: *const StoreHandle,
    key: *const c_void,
    key_bytes: usize,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        let (store, key) = unsafe { (handle(store)?, bytes(key, key_bytes)?) };
        Ok(found(store.store.contains_key(key)?))
    })
}

/// Removes a key. EVERLEAF_NOT_FOUND if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_remove(
    store: *const StoreHandle,
    key: *const c_void,
    key_bytes: usize,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        let (store, key) = unsafe { (handle(store)?, bytes(key, key_bytes)?) };
        Ok(found(store.store.delete(key)?))
    })
}

fn found(is: bool) -> Status {
    if is { Status::EverleafOk } else { Status::EverleafNotFound }
}

/// Number of keys.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_count(store: *const StoreHandle, keys: *mut u64) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        unsafe { give(keys, handle(store)?.store.len()?)? };
        Ok(Status::EverleafOk)
    })
}
