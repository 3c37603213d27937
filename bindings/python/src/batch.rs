//! Writes that happen together or not at all.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;

use crate::convert::{key_of, life_of, value_of};
use crate::error::{Error, raised};
use crate::tree::Tree;

/// Writes that are gathered, and done at the end of a `with` block; not if it ends by an exception.
#[pyclass(frozen, module = "everleaf")]
pub(crate) struct Batch {
    batch: Mutex<Option<everleaf::Batch>>,
    /// What is meant where no map is named: the store's own.
    home: everleaf::Tree,
}

impl Batch {
    pub(crate) fn new(store: &everleaf::Store) -> Self {
        Self { batch: Mutex::new(Some(store.batch())), home: store.default_tree().clone() }
    }

    fn lock(&self) -> MutexGuard<'_, Option<everleaf::Batch>> {
        self.batch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn on(
        &self,
        tree: Option<&Tree>,
        add: impl FnOnce(&mut everleaf::BatchOn<'_>) -> everleaf::Result<()>,
    ) -> PyResult<()> {
        let tree = tree.map_or(&self.home, |tree| &tree.tree);
        let mut batch = self.lock();
        let batch = batch.as_mut().ok_or_else(over)?;
        batch.on(tree).and_then(|mut on| add(&mut on)).map_err(raised)
    }
}

fn over() -> PyErr {
    Error::new_err("the batch is over; begin another one")
}

#[pymethods]
impl Batch {
    /// Will store a value, in a map of the store's; with `ttl`, one that expires after so many
    /// seconds, or a timedelta.
    #[pyo3(signature = (key, value, ttl=None, *, tree=None))]
    fn put(
        &self,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        ttl: Option<&Bound<'_, PyAny>>,
        tree: Option<&Tree>,
    ) -> PyResult<()> {
        let (key, value, ttl) = (key_of(key)?, value_of(value)?, ttl.map(life_of).transpose()?);
        self.on(tree, |on| match ttl {
            Some(ttl) => on.put_for(&key, &value, ttl).map(drop),
            None => on.put(&key, &value).map(drop),
        })
    }

    /// Will let the value that a key has then expire after so many seconds, or a timedelta, from
    /// now on.
    #[pyo3(signature = (key, ttl, *, tree=None))]
    fn touch(
        &self,
        key: &Bound<'_, PyAny>,
        ttl: &Bound<'_, PyAny>,
        tree: Option<&Tree>,
    ) -> PyResult<()> {
        let (key, ttl) = (key_of(key)?, life_of(ttl)?);
        self.on(tree, |on| on.touch(&key, ttl).map(drop))
    }

    /// Will let the value that a key has then stay for ever.
    #[pyo3(signature = (key, *, tree=None))]
    fn persist(&self, key: &Bound<'_, PyAny>, tree: Option<&Tree>) -> PyResult<()> {
        let key = key_of(key)?;
        self.on(tree, |on| on.persist(&key).map(drop))
    }

    /// Will remove a key of a map of the store's, if it is there then.
    #[pyo3(signature = (key, *, tree=None))]
    fn delete(&self, key: &Bound<'_, PyAny>, tree: Option<&Tree>) -> PyResult<()> {
        let key = key_of(key)?;
        self.on(tree, |on| on.delete(&key).map(drop))
    }

    fn __setitem__(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.put(key, value, None, None)
    }

    fn __delitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        self.delete(key, None)
    }

    /// Does the writes, all or none.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        let batch = self.lock().take().ok_or_else(over)?;
        py.detach(|| batch.commit()).map(drop).map_err(raised)
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _exception: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        if kind.is_none() {
            return self.commit(py);
        }
        self.lock().take();
        Ok(())
    }
}
