//! A map of keys to values, with a dictionary's manners.

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::convert::{expiry_of, key_of, key_to, life_of, value_of};
use crate::error::raised;
use crate::view::{Value, View, absent};

/// A map in a store: `store.tree(name)`, or the store itself.
#[pyclass(frozen, subclass, extends = View, module = "everleaf")]
pub(crate) struct Tree {
    /// A tree keeps its store open.
    pub(crate) store: everleaf::Store,
    pub(crate) tree: everleaf::Tree,
}

impl Tree {
    /// A map of a store's that is open.
    pub(crate) fn of(store: everleaf::Store, tree: everleaf::Tree) -> PyClassInitializer<Self> {
        PyClassInitializer::from(View::new(&store, &tree)).add_subclass(Self { store, tree })
    }

    /// Does what may wait, without Python's lock.
    fn with<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&everleaf::Tree) -> everleaf::Result<R> + Send,
    ) -> PyResult<R> {
        py.detach(|| work(&self.tree)).map_err(raised)
    }
}

#[pymethods]
impl Tree {
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

    /// Removes and returns the last entry, the one with the greatest key.
    fn popitem<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyBytes>)> {
        let popped = self.with(py, |tree| tree.pop_last())?;
        let (key, value) = popped.ok_or_else(|| PyKeyError::new_err("the map is empty"))?;
        Ok((key_to(py, &key)?, PyBytes::new(py, &value)))
    }

    /// The value of a key; stores `default` first if there is none.
    fn setdefault<'py>(
        this: PyRef<'py, Self>,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: &Bound<'py, PyAny>,
    ) -> PyResult<Value<'py>> {
        let (owned, value) = (key_of(key)?, value_of(default)?);
        let stored = this.with(py, |tree| tree.put_if_absent(&owned, &value))?;
        if stored { Ok(Some(PyBytes::new(py, &value))) } else { this.as_super().find(py, &owned) }
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

    /// Stores a value; with `ttl`, one that expires after so many seconds, or a timedelta.
    #[pyo3(signature = (key, value, ttl=None))]
    fn put(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        ttl: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let (key, value, ttl) = (key_of(key)?, value_of(value)?, ttl.map(life_of).transpose()?);
        let put = |tree: &everleaf::Tree| match ttl {
            Some(ttl) => tree.put_for(&key, &value, ttl),
            None => tree.put(&key, &value),
        };
        self.with(py, put).map(drop)
    }

    /// The same map, whose writes let values expire so: after `ttl` (seconds, or a timedelta); with
    /// None never; with "keep" when the value before would have.
    fn with_ttl(&self, py: Python<'_>, ttl: &Bound<'_, PyAny>) -> PyResult<Py<Self>> {
        let tree = self.tree.with_expiry(expiry_of(ttl)?);
        Py::new(py, Self::of(self.store.clone(), tree))
    }

    /// Lets a value expire after so many seconds, or a timedelta, from now on; False if the key is
    /// absent.
    fn touch(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        ttl: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let (key, ttl) = (key_of(key)?, life_of(ttl)?);
        self.with(py, |tree| tree.touch(&key, ttl))
    }

    /// Lets a value stay for ever; False if the key is absent.
    fn persist(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let key = key_of(key)?;
        self.with(py, |tree| tree.persist(&key))
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
