//! Errors of the store as Python's exceptions, with the same sentences.

use everleaf::{Error as StoreError, PoolError};
use pyo3::create_exception;
use pyo3::exceptions::{
    PyException, PyFileExistsError, PyFileNotFoundError, PyTypeError, PyValueError,
};
use pyo3::prelude::*;

create_exception!(everleaf, Error, PyException, "What a store refuses, and why.");
create_exception!(everleaf, FullError, Error, "No room is left.");
create_exception!(everleaf, CorruptError, Error, "The pool is damaged.");
create_exception!(
    everleaf,
    ConflictError,
    Error,
    "Others wrote what a transaction had read, or it expired."
);
create_exception!(everleaf, ClosedError, Error, "The store is closed.");
create_exception!(everleaf, LockedError, Error, "The pool is open elsewhere.");

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("Error", py.get_type::<Error>())?;
    module.add("FullError", py.get_type::<FullError>())?;
    module.add("CorruptError", py.get_type::<CorruptError>())?;
    module.add("ConflictError", py.get_type::<ConflictError>())?;
    module.add("ClosedError", py.get_type::<ClosedError>())?;
    module.add("LockedError", py.get_type::<LockedError>())
}

/// The exception for an error.
pub(crate) fn raised(error: StoreError) -> PyErr {
    let sentence = error.to_string();
    match error {
        error if error.is_full() => FullError::new_err(sentence),
        error if error.is_corruption() => CorruptError::new_err(sentence),
        StoreError::Conflict => ConflictError::new_err(sentence),
        StoreError::Closed | StoreError::Forked => ClosedError::new_err(sentence),
        StoreError::Pool(PoolError::Locked { .. }) => LockedError::new_err(sentence),
        StoreError::Pool(PoolError::Missing { .. }) => PyFileNotFoundError::new_err(sentence),
        StoreError::Pool(PoolError::Exists { .. }) => PyFileExistsError::new_err(sentence),
        StoreError::WrongKeyType { .. } => PyTypeError::new_err(sentence),
        StoreError::UnknownEngine { .. }
        | StoreError::NoByteStrings { .. }
        | StoreError::ValueTooLong { .. } => PyValueError::new_err(sentence),
        _ => Error::new_err(sentence),
    }
}
