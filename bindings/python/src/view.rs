//! What can be read of a map: as it is now, or as it was when a snapshot began.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use everleaf::{OwnedKey, Scan};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PySlice};

use crate::convert::{key_of, scan_of, scan_of_prefix, scan_of_slice};
use crate::entries::{Entries, Part};
use crate::error::{ClosedError, raised};

/// A map that is read.
#[pyclass(frozen, subclass, module = "everleaf")]
pub(crate) struct View {
    /// A view keeps its store open.
    store: everleaf::Store,
    /// None once its snapshot has ended.
    view: Mutex<Option<everleaf::View>>,
}

pub(crate) type Value<'py> = Option<Bound<'py, PyBytes>>;

impl View {
    pub(crate) fn new(store: &everleaf::Store, view: &everleaf::View) -> Self {
        Self { store: store.clone(), view: Mutex::new(Some(view.clone())) }
    }

    /// Nothing is read any more.
    pub(crate) fn end(&self) {
        self.view.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    fn view(&self) -> PyResult<everleaf::View> {
        let view = self.view.lock().unwrap_or_else(PoisonError::into_inner).clone();
        view.ok_or_else(|| ClosedError::new_err("the snapshot has ended; take another one"))
    }

    /// Reads what may wait, without Python's lock.
    fn read<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&everleaf::View) -> everleaf::Result<R> + Send,
    ) -> PyResult<R> {
        let view = self.view()?;
        py.detach(|| work(&view)).map_err(raised)
    }

    pub(crate) fn find<'py>(&self, py: Python<'py>, key: &OwnedKey) -> PyResult<Value<'py>> {
        let value = self.read(py, |view| view.get(key))?;
        Ok(value.map(|value| PyBytes::new(py, &value)))
    }

    fn entries(&self, scan: Scan, part: Part) -> PyResult<Entries> {
        Ok(Entries::new(&self.store, &self.view()?, scan, part))
    }
}

/// The key is absent.
pub(crate) fn absent(key: &Bound<'_, PyAny>) -> PyErr {
    PyKeyError::new_err(key.clone().unbind())
}

#[pymethods]
impl View {
    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let Ok(slice) = key.cast::<PySlice>() {
            let entries = self.entries(scan_of_slice(slice)?, Part::Both)?;
            return Ok(Bound::new(py, entries)?.into_any());
        }
        let found = self.find(py, &key_of(key)?)?.ok_or_else(|| absent(key))?;
        Ok(found.into_any())
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let key = key_of(key)?;
        self.read(py, |view| view.contains_key(&key))
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.read(py, |view| view.len())? as usize)
    }

    fn __iter__(&self) -> PyResult<Entries> {
        self.keys()
    }

    fn __reversed__(&self) -> PyResult<Entries> {
        self.entries(Scan::all().backward(), Part::Key)
    }

    /// The keys in order.
    fn keys(&self) -> PyResult<Entries> {
        self.entries(Scan::all(), Part::Key)
    }

    /// The values in the order of their keys.
    fn values(&self) -> PyResult<Entries> {
        self.entries(Scan::all(), Part::Value)
    }

    /// Keys and values in the order of the keys.
    fn items(&self) -> PyResult<Entries> {
        self.entries(Scan::all(), Part::Both)
    }

    /// Keys and values from `start` on and before `stop`; None is no bound.
    #[pyo3(signature = (start=None, stop=None, *, reverse=false))]
    fn range(
        &self,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        reverse: bool,
    ) -> PyResult<Entries> {
        self.entries(scan_of(start, stop, reverse)?, Part::Both)
    }

    /// Keys and values of the keys that begin with `prefix`.
    #[pyo3(signature = (prefix, *, reverse=false))]
    fn prefix(&self, prefix: &Bound<'_, PyAny>, reverse: bool) -> PyResult<Entries> {
        self.entries(scan_of_prefix(prefix, reverse)?, Part::Both)
    }

    /// The value of a key, or `default`.
    #[pyo3(signature = (key, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.find(py, &key_of(key)?)?.map(Bound::into_any).or(default))
    }

    /// In how many seconds the value of a key expires; None: never.
    fn ttl(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Option<f64>> {
        let owned = key_of(key)?;
        let left = self.read(py, |view| view.ttl(&owned))?.ok_or_else(|| absent(key))?;
        Ok(left.as_ref().map(Duration::as_secs_f64))
    }
}
