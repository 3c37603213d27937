//! Iterators in the order of the keys.

use std::sync::{Mutex, PoisonError};

use everleaf::{Range, Scan};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::convert::key_to;
use crate::error::raised;

/// What is shown of an entry.
#[derive(Clone, Copy)]
pub(crate) enum Part {
    Key,
    Value,
    Both,
}

/// An iterator over keys, values, or both. It is not a snapshot: it shows each key that is there
/// all the time.
#[pyclass(frozen, module = "everleaf")]
pub(crate) struct Entries {
    range: Mutex<Range<'static>>,
    part: Part,
    /// An iterator keeps its store open.
    _store: everleaf::Store,
}

impl Entries {
    pub(crate) fn new(
        store: &everleaf::Store,
        view: &everleaf::View,
        scan: Scan,
        part: Part,
    ) -> Self {
        let range = Mutex::new(view.scan(scan).into_owned());
        Self { range, part, _store: store.clone() }
    }
}

#[pymethods]
impl Entries {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let next = py.detach(|| self.range.lock().unwrap_or_else(PoisonError::into_inner).next());
        let Some((key, value)) = next.transpose().map_err(raised)? else { return Ok(None) };
        let value = PyBytes::new(py, &value);
        Ok(Some(match self.part {
            Part::Key => key_to(py, &key)?,
            Part::Value => value.into_any(),
            Part::Both => (key_to(py, &key)?, value).into_pyobject(py)?.into_any(),
        }))
    }
}
