//! Between C and Rust: statuses, the last error of a thread, pointers, panics.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use everleaf::{Error, IndexError, PoolError};

/// What a function returns.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It is done.
    EverleafOk = 0,
    /// There is no such key or tree, or no further entry. There is no sentence to it.
    EverleafNotFound = 1,
    /// What the sentence says; none of the following.
    EverleafError = 2,
    /// An argument cannot be: a NULL, a name that is none, a key or value that is too long.
    EverleafInvalidArgument = 3,
    /// No room is left, in the pool or on the disk.
    EverleafFull = 4,
    /// The pool is damaged.
    EverleafCorrupt = 5,
    /// There is no pool, or no dump, at the path.
    EverleafMissing = 6,
    /// There is a file at the path already.
    EverleafExists = 7,
    /// The pool is open already, here or in another process.
    EverleafLocked = 8,
    /// The pool was opened to read, or the tree is of a snapshot.
    EverleafReadOnly = 9,
    /// A defect of Everleaf. Close the store and open it again.
    EverleafPanic = 10,
    /// Others were first: they have written what a transaction had read, or the value is not what
    /// the caller expected. Nothing was written; read again.
    EverleafConflict = 11,
}

/// Why a function has failed.
pub struct Failure {
    /// What the function returns.
    pub status: Status,
    /// What the caller is told.
    pub sentence: String,
}

impl Failure {
    /// An argument that cannot be.
    pub fn argument(sentence: impl Into<String>) -> Self {
        Self { status: Status::EverleafInvalidArgument, sentence: sentence.into() }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { status: status_of(&error), sentence: error.to_string() }
    }
}

fn status_of(error: &Error) -> Status {
    match error {
        error if error.is_full() => Status::EverleafFull,
        error if error.is_corruption() => Status::EverleafCorrupt,
        Error::Pool(PoolError::Missing { .. }) => Status::EverleafMissing,
        Error::Pool(PoolError::Exists { .. }) => Status::EverleafExists,
        Error::Pool(PoolError::Locked { .. }) => Status::EverleafLocked,
        Error::ReadOnly | Error::NoSuchTree { .. } => Status::EverleafReadOnly,
        Error::Conflict => Status::EverleafConflict,
        Error::UnknownEngine { .. }
        | Error::Index(IndexError::KeyTooLong { .. })
        | Error::OtherStore
        | Error::NoByteStrings { .. }
        | Error::WrongKeyType { .. }
        | Error::ValueTooLong { .. } => Status::EverleafInvalidArgument,
        _ => Status::EverleafError,
    }
}

thread_local! {
    /// Of a thread, as `errno` is: a function that fails to open has no handle to keep it in.
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

/// Why the last call of this thread that failed has failed: one sentence, which says what to do.
/// Empty if none has. It lasts until the next call of this thread that fails.
#[unsafe(no_mangle)]
pub extern "C" fn everleaf_last_error() -> *const c_char {
    // None is left of a thread that ends.
    LAST_ERROR.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// Does the work of a function, and keeps the reason of a failure. No panic leaves it.
pub fn guard(work: impl FnOnce() -> Result<Status, Failure>) -> Status {
    let done = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let sentence = format!("a defect of Everleaf, please report it: {}", what(&*panic));
        Err(Failure { status: Status::EverleafPanic, sentence })
    });
    done.unwrap_or_else(|failure| {
        // A zero byte can come from a path or a name only.
        let sentence = CString::new(failure.sentence.replace('\0', " ")).unwrap_or_default();
        let _ = LAST_ERROR.try_with(|last| last.replace(sentence)); // Not of a thread that ends.
        failure.status
    })
}

/// What a panic says.
pub fn what(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic")
}

/// Bytes of the caller's.
///
/// # Safety
/// `start` leads to so many bytes, which nobody changes meanwhile, or the length is 0.
pub unsafe fn bytes<'a>(start: *const c_void, length: usize) -> Result<&'a [u8], Failure> {
    match (start.is_null(), length) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Failure::argument("the bytes are NULL; give a pointer to them")),
        // SAFETY: the caller's promise.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(start.cast(), length) }),
    }
}

/// The same where NULL is none, and not the bytes of length 0.
///
/// # Safety
/// As [`bytes`].
pub unsafe fn given<'a>(start: *const c_void, length: usize) -> Result<Option<&'a [u8]>, Failure> {
    // SAFETY: the caller's promise.
    let bytes = unsafe { bytes(start, length) }?;
    Ok((!start.is_null()).then_some(bytes))
}

/// What a handle leads to.
///
/// # Safety
/// It is NULL, or was handed out and not freed.
pub unsafe fn handle<'a, T>(handle: *const T) -> Result<&'a T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { handle.as_ref() }.ok_or_else(null)
}

/// The same of one that no other thread uses meanwhile.
///
/// # Safety
/// As [`handle`].
pub unsafe fn handle_mut<'a, T>(handle: *mut T) -> Result<&'a mut T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { handle.as_mut() }.ok_or_else(null)
}

/// What a handle has led to; it must not be used again.
///
/// # Safety
/// As [`handle`], of a handle that was made by [`Box::into_raw`].
pub unsafe fn taken<T>(handle: *mut T) -> Option<Box<T>> {
    // SAFETY: the caller's promise.
    (!handle.is_null()).then(|| unsafe { Box::from_raw(handle) })
}

/// A string of the caller's.
///
/// # Safety
/// It is NULL, or ends with a zero byte.
pub unsafe fn string<'a>(text: *const c_char) -> Result<&'a CStr, Failure> {
    match text.is_null() {
        true => Err(null()),
        // SAFETY: the caller's promise.
        false => Ok(unsafe { CStr::from_ptr(text) }),
    }
}

/// A path of the caller's.
///
/// # Safety
/// As [`string`].
pub unsafe fn path<'a>(text: *const c_char) -> Result<&'a Path, Failure> {
    use std::os::unix::ffi::OsStrExt;
    // SAFETY: the caller's promise.
    let text = unsafe { string(text) }?;
    Ok(Path::new(std::ffi::OsStr::from_bytes(text.to_bytes())))
}

/// Where something is to be handed out.
///
/// # Safety
/// It is NULL, or may be written.
pub unsafe fn give<T>(place: *mut T, value: T) -> Result<(), Failure> {
    if place.is_null() {
        return Err(null());
    }
    // SAFETY: the caller's promise.
    unsafe { place.write(value) };
    Ok(())
}

/// Hands out what the caller need not want: NULL is no place for it.
///
/// # Safety
/// As [`give`].
pub unsafe fn offer<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: the caller's promise.
        unsafe { place.write(value) };
    }
}

/// Hands out a handle.
///
/// # Safety
/// As [`give`].
pub unsafe fn give_handle<T>(place: *mut *mut T, value: T) -> Result<(), Failure> {
    if place.is_null() {
        return Err(null());
    }
    // SAFETY: the caller's promise.
    unsafe { give(place, Box::into_raw(Box::new(value))) }
}

fn null() -> Failure {
    Failure::argument("a pointer is NULL; give one that leads to what the header names")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_status_and_a_sentence() {
        let status = guard(|| panic!("node {} is upside down", 7));
        assert_eq!(status, Status::EverleafPanic);
        // SAFETY: it was just handed out.
        let sentence = unsafe { CStr::from_ptr(everleaf_last_error()) }.to_str().unwrap();
        assert!(sentence.ends_with("please report it: node 7 is upside down"), "{sentence}");
    }
}
