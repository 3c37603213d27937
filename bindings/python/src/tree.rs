//! A map of keys to values, with a dictionary's manners.

use everleaf::{OwnedKey, Scan};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PySlice};

use crate::convert::{key_of, key_to, scan_of, scan_of_prefix, scan_of_slice, value_of};
use crate::entries::{Entries, Part};
use crate::error::raised;

/// A map in a store: `store.tree(name)`, or the store itself.
#[pyclass(frozen, subclass, module = "everleaf")]
pub(crate) struct Tree {
    /// A tree keeps its store open.
    pub(crate) store: everleaf::Store,
    pub(crate) tree: everleaf::Tree,
}

type Value<'py> = Option<Bound<'py, PyBytes>>;

impl Tree {
    /// Does what may wait, without Python's lock.
    fn with<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&everleaf::Tree) -> everleaf::Result<R> + Send,
    ) -> PyResult<R> {
        py.detach(|| work(&self.tree)).map_err(raised)
    }

    fn find<'py>(&self, py: Python<'py>, key: &OwnedKey) -> PyResult<Value<'py>> {
        let value = self.with(py, |tree| tree.get(key))?;
        Ok(value.map(|value| PyBytes::new(py, &value)))
    }

    fn entries(&self, scan: Scan, part: Part) -> Entries {
        Entries::new(&self.store, &self.tree, scan, part)
    }
}

/// The key is absent.
pub(crate) fn absent(key: &Bound<'_, PyAny>) -> PyErr {
    PyKeyError::new_err(key.clone().unbind())
}

#[pymethods]
impl Tree {
    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let Ok(slice) = key.cast::<PySlice>() {
            let entries = self.entries(scan_of_slice(slice)?, Part::Both);
            return Ok(Bound::new(py, entries)?.into_any());
        }
        let found = self.find(py, &key_of(key)?)?.ok_or_else(|| absent(key))?;
        Ok(found.into_any())
    }

    fn __setitem__(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (key, value) = (key_of(key)?, value_of(value)?);
        self.with(py, |tree| tree.put(&key, &value)).map(drop)
    }

    fn __delitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let owned = key_of(key)?;
        let removed = self.with(py, |tree| tree.delete(&owned))?;
        if removed { Ok(()) } else { Err(absent(key)) }
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let key = key_of(key)?;
        self.with(py, |tree| tree.contains_key(&key))
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.with(py, |tree| tree.len())? as usize)
    }

    fn __iter__(&self) -> Entries {
        self.keys()
    }

    fn __reversed__(&self) -> Entries {
        self.entries(Scan::all().backward(), Part::Key)
    }

    /// The keys in order.
    fn keys(&self) -> Entries {
        self.entries(Scan::all(), Part::Key)
    }

    /// The values in the order of their keys.
    fn values(&self) -> Entries {
        self.entries(Scan::all(), Part::Value)
    }

    /// Keys and values in the order of the keys.
    fn items(&self) -> Entries {
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
        Ok(self.entries(scan_of(start, stop, reverse)?, Part::Both))
    }

    /// Keys and values of the keys that begin with `prefix`.
    #[pyo3(signature = (prefix, *, reverse=false))]
    fn prefix(&self, prefix: &Bound<'_, PyAny>, reverse: bool) -> PyResult<Entries> {
        Ok(self.entries(scan_of_prefix(prefix, reverse)?, Part::Both))
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

    /// Removes a key and returns its value, or `default` if one is given.
    #[pyo3(signature = (key, *default))]
    fn pop<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: &Bound<'py, pyo3::types::PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let owned = key_of(key)?;
        match self.with(py, |tree| tree.remove(&owned))? {
            Some(value) => Ok(PyBytes::new(py, &value).into_any()),
            None => default.get_item(0).map_err(|_| absent(key)),
        }
    }

    /// Removes and returns the entry with the least key.
    fn popitem<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyBytes>)> {
        let popped = self.with(py, |tree| tree.pop_first())?;
        let (key, value) = popped.ok_or_else(|| PyKeyError::new_err("the map is empty"))?;
        Ok((key_to(py, &key)?, PyBytes::new(py, &value)))
    }

    /// The value of a key; stores `default` first if there is none.
    fn setdefault<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: &Bound<'py, PyAny>,
    ) -> PyResult<Value<'py>> {
        let (owned, value) = (key_of(key)?, value_of(default)?);
        let stored = self.with(py, |tree| tree.put_if_absent(&owned, &value))?;
        if stored { Ok(Some(PyBytes::new(py, &value))) } else { self.find(py, &owned) }
    }

    /// Stores the entries of a mapping, or pairs, all or none.
    fn update(&self, py: Python<'_>, entries: &Bound<'_, PyAny>) -> PyResult<()> {
        let pairs = match entries.hasattr("items")? {
            true => entries.call_method0("items")?,
            false => entries.clone(),
        };
        let mut batch = self.tree.batch();
        for pair in pairs.try_iter()? {
            let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair?.extract()?;
            batch.put(key_of(&key)?, value_of(&value)?).map_err(raised)?;
        }
        py.detach(|| batch.commit()).map(drop).map_err(raised)
    }

    /// Removes everything.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |tree| tree.clear()).map(drop)
    }

    /// Stores `new` if the value is `expected`, and tells whether it did. None is no entry.
    fn compare_and_swap(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        expected: Option<&Bound<'_, PyAny>>,
        new: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        let key = key_of(key)?;
        let expected = expected.map(value_of).transpose()?;
        let new = new.map(value_of).transpose()?;
        self.with(py, |tree| tree.compare_and_swap(&key, expected.as_deref(), new.as_deref()))
    }
}
