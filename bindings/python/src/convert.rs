//! Keys and values.

use std::borrow::Cow;
use std::ops::Bound as End;
use std::time::Duration;

use everleaf::{Expiry, OwnedKey, Scan};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyInt, PyMemoryView, PySlice, PyString};

/// What is given as a key: bytes, a string (in UTF-8), or a number.
pub(crate) fn key_of(given: &Bound<'_, PyAny>) -> PyResult<OwnedKey> {
    if given.is_instance_of::<PyInt>() {
        return Ok(OwnedKey::U64(given.extract()?));
    }
    let bytes = bytes_of(given, "a key is bytes, str or int")?;
    Ok(OwnedKey::from(&*bytes))
}

/// What is given as a value: bytes, or a string (in UTF-8).
pub(crate) fn value_of<'v>(given: &'v Bound<'_, PyAny>) -> PyResult<Cow<'v, [u8]>> {
    bytes_of(given, "a value is bytes or str")
}

fn bytes_of<'v>(given: &'v Bound<'_, PyAny>, wanted: &str) -> PyResult<Cow<'v, [u8]>> {
    if let Ok(bytes) = given.cast::<PyBytes>() {
        Ok(Cow::Borrowed(bytes.as_bytes()))
    } else if let Ok(text) = given.cast::<PyString>() {
        Ok(Cow::Owned(text.to_cow()?.into_owned().into_bytes()))
    } else if let Ok(bytes) = given.cast::<PyByteArray>() {
        Ok(Cow::Owned(bytes.to_vec()))
    } else if given.is_instance_of::<PyMemoryView>() {
        Ok(Cow::Owned(given.call_method0("tobytes")?.extract()?))
    } else {
        let kind = given.get_type().name()?.to_string();
        Err(PyTypeError::new_err(format!("{wanted}, not {kind}")))
    }
}

/// A key as Python has it.
pub(crate) fn key_to<'py>(py: Python<'py>, key: &OwnedKey) -> PyResult<Bound<'py, PyAny>> {
    Ok(match key {
        OwnedKey::U64(number) => number.into_pyobject(py)?.into_any(),
        OwnedKey::Bytes(bytes) => PyBytes::new(py, bytes).into_any(),
    })
}

/// The keys from `start` on and before `stop`; None is no bound.
pub(crate) fn scan_of(
    start: Option<&Bound<'_, PyAny>>,
    stop: Option<&Bound<'_, PyAny>>,
    reverse: bool,
) -> PyResult<Scan> {
    let mut scan = Scan::all();
    let key = |given: Option<&Bound<'_, PyAny>>| given.map(key_of).transpose();
    scan.from = key(start)?.map_or(End::Unbounded, End::Included);
    scan.to = key(stop)?.map_or(End::Unbounded, End::Excluded);
    Ok(if reverse { scan.backward() } else { scan })
}

/// The keys of a slice.
pub(crate) fn scan_of_slice(slice: &Bound<'_, PySlice>) -> PyResult<Scan> {
    let end = |name: &str| slice.getattr(name).map(|end| (!end.is_none()).then_some(end));
    if end("step")?.is_some() {
        return Err(PyValueError::new_err("a slice of keys has no step; leave it out"));
    }
    scan_of(end("start")?.as_ref(), end("stop")?.as_ref(), false)
}

/// The keys that begin with a prefix.
pub(crate) fn scan_of_prefix(prefix: &Bound<'_, PyAny>, reverse: bool) -> PyResult<Scan> {
    let scan = Scan::all().with_prefix(bytes_of(prefix, "a prefix is bytes or str")?);
    Ok(if reverse { scan.backward() } else { scan })
}

/// When a value expires: after a life; None: never; "keep": when the value before would have.
pub(crate) fn expiry_of(given: &Bound<'_, PyAny>) -> PyResult<Expiry> {
    if given.is_none() {
        Ok(Expiry::Never)
    } else if given.cast::<PyString>().is_ok_and(|text| text == "keep") {
        Ok(Expiry::Kept)
    } else {
        life_of(given).map(Expiry::After)
    }
}

/// How long a value lives: a number of seconds, or a timedelta.
pub(crate) fn life_of(given: &Bound<'_, PyAny>) -> PyResult<Duration> {
    let seconds = match given.hasattr("total_seconds")? {
        true => given.call_method0("total_seconds")?.extract::<f64>(),
        false => given.extract::<f64>(),
    };
    let seconds = seconds.map_err(|_| {
        PyTypeError::new_err("a time to live is a number of seconds, or a timedelta")
    })?;
    let life = Duration::try_from_secs_f64(seconds).ok().filter(|life| !life.is_zero());
    life.ok_or_else(|| {
        PyValueError::new_err(format!(
            "a value cannot live for {seconds} seconds; give more than 0"
        ))
    })
}
