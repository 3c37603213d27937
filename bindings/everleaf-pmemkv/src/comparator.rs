//! Orders of keys. A store has one, that of their bytes; others can be made, and are refused when a
//! database is opened.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use everleaf_c::boundary::{string, taken};

use crate::status::guard;
use crate::status::number::OK;

/// Compares two keys.
pub type CompareFunction =
    unsafe extern "C" fn(*const c_char, usize, *const c_char, usize, *mut c_void) -> c_int;

/// An order of keys, of which the name is all that is looked at.
pub struct Comparator {
    pub(crate) name: CString,
}

impl Comparator {
    /// The name of the order of bytes.
    pub(crate) const BINARY: &CStr = c"__pmemkv_binary_comparator";
}

/// NULL if the function or the name is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemkv_comparator_new(
    compare: Option<CompareFunction>,
    name: *const c_char,
    _arg: *mut c_void,
) -> *mut Comparator {
    let mut comparator = std::ptr::null_mut();
    guard("pmemkv_comparator_new", || {
        // SAFETY: the caller's contract.
        let name = unsafe { string(name) }?.to_owned();
        if compare.is_some() {
            comparator = Box::into_raw(Box::new(Comparator { name }));
        }
        Ok(OK)
    });
    comparator
}

/// Frees a comparator that no config has taken.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemkv_comparator_delete(comparator: *mut Comparator) {
    // SAFETY: the caller's contract.
    drop(unsafe { taken(comparator) });
}
