//! What functions return, and the last message.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use everleaf::Error;
use everleaf_c::boundary::{Failure, what};

/// The numbers of pmemkv. Those that nothing here returns are `CONFIG_PARSING_ERROR` (5, of the
/// library that reads JSON), `TRANSACTION_SCOPE_ERROR` (10) and `DEFRAG_ERROR` (11).
pub mod number {
    #![allow(missing_docs)]
    use std::ffi::c_int;

    pub const OK: c_int = 0;
    pub const UNKNOWN_ERROR: c_int = 1;
    pub const NOT_FOUND: c_int = 2;
    pub const NOT_SUPPORTED: c_int = 3;
    pub const INVALID_ARGUMENT: c_int = 4;
    pub const CONFIG_TYPE_ERROR: c_int = 6;
    pub const STOPPED_BY_CB: c_int = 7;
    pub const OUT_OF_MEMORY: c_int = 8;
    pub const WRONG_ENGINE_NAME: c_int = 9;
    pub const COMPARATOR_MISMATCH: c_int = 12;
}
use number::*;

/// Why a function has failed.
pub(crate) struct Fault {
    status: c_int,
    sentence: String,
}

pub(crate) type Result<T> = std::result::Result<T, Fault>;

impl Fault {
    pub(crate) fn new(status: c_int, sentence: impl Into<String>) -> Self {
        Self { status, sentence: sentence.into() }
    }

    pub(crate) fn argument(sentence: impl ToString) -> Self {
        Self::new(INVALID_ARGUMENT, sentence.to_string())
    }

    pub(crate) fn not_supported(what: &str) -> Self {
        Self::new(NOT_SUPPORTED, format!("{what} not supported by this engine"))
    }
}

impl From<Failure> for Fault {
    /// Of pointers.
    fn from(failure: Failure) -> Self {
        Self::argument(failure.sentence)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        let status = match &error {
            error if error.is_full() => OUT_OF_MEMORY,
            Error::ValueTooLong { .. }
            | Error::Index(everleaf::IndexError::KeyTooLong { .. })
            | Error::WrongKeyType { .. } => INVALID_ARGUMENT,
            _ => UNKNOWN_ERROR,
        };
        Self::new(status, error.to_string())
    }
}

thread_local! {
    /// Of a thread, as in pmemkv.
    static MESSAGE: RefCell<CString> = RefCell::default();
    static WITHOUT: RefCell<bool> = const { RefCell::new(true) };
}

/// The message of the last failure of this thread. Empty if its last call has returned `NOT_FOUND`
/// or `STOPPED_BY_CB`.
#[unsafe(no_mangle)]
pub extern "C" fn pmemkv_errormsg() -> *const c_char {
    if WITHOUT.try_with(|without| *without.borrow()).unwrap_or(true) {
        return c"".as_ptr();
    }
    // None is left of a thread that ends.
    MESSAGE.try_with(|message| message.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// Does the work of a function, and keeps the reason of a failure. No panic leaves it.
pub(crate) fn guard(function: &str, work: impl FnOnce() -> Result<c_int>) -> c_int {
    let done = catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|panic| Err(Fault::new(UNKNOWN_ERROR, what(&*panic))));
    let status = done.unwrap_or_else(|fault| {
        let message = format!("[{function}] {}", fault.sentence).replace('\0', " ");
        let message = CString::new(message).unwrap_or_default();
        let _ = MESSAGE.try_with(|last| last.replace(message)); // Not of a thread that ends.
        fault.status
    });
    let without = matches!(status, NOT_FOUND | STOPPED_BY_CB);
    let _ = WITHOUT.try_with(|last| last.replace(without));
    status
}

/// `OK` if it is so, else `NOT_FOUND`.
pub(crate) fn found(is: bool) -> c_int {
    if is { OK } else { NOT_FOUND }
}
