//! Reads and writes that happen at one moment or not at all.

use std::sync::{Mutex, PoisonError};

use everleaf::Scan;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::convert::{key_of, key_to, life_of, scan_of, scan_of_prefix, value_of};
use crate::error::{Error, raised};
use crate::tree::Tree;
use crate::view::absent;

/// Is committed at the end of a `with` block; not if that ends by an exception.
#[pyclass(frozen, module = "everleaf")]
pub(crate) struct Transaction {
    transaction: Mutex<Option<everleaf::Transaction>>,
    /// What is meant where no map is named: the store's own.
    home: everleaf::Tree,
}

type Pair<'py> = (Bound<'py, PyAny>, Bound<'py, PyBytes>);

impl Transaction {
    pub(crate) fn new(store: &everleaf::Store, transaction: everleaf::Transaction) -> Self {
        let home = store.default_tree().clone();
        Self { transaction: Mutex::new(Some(transaction)), home }
    }

    /// What it was made of; it is over then.
    pub(crate) fn take(&self) -> Option<everleaf::Transaction> {
        self.transaction.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Does something, without Python's lock.
    fn with<R: Send>(
        &self,
        py: Python<'_>,
        tree: Option<&Tree>,
        work: impl FnOnce(&mut everleaf::TransactionOn<'_>) -> everleaf::Result<R> + Send,
    ) -> PyResult<R> {
        let tree = tree.map_or(&self.home, |tree| &tree.tree);
        let done = py.detach(|| {
            let mut locked = self.transaction.lock().unwrap_or_else(PoisonError::into_inner);
            Some(locked.as_mut()?.on(tree).and_then(|mut on| work(&mut on)))
        });
        done.ok_or_else(over)?.map_err(raised)
    }

    fn entries<'py>(
        &self,
        py: Python<'py>,
        scan: Scan,
        tree: Option<&Tree>,
    ) -> PyResult<Vec<Pair<'py>>> {
        let entries = self.with(py, tree, |on| on.scan(scan, usize::MAX))?;
        let pair =
            |(key, value): everleaf::Entry| Ok((key_to(py, &key)?, PyBytes::new(py, &value)));
        entries.into_iter().map(pair).collect()
    }
}

fn over() -> PyErr {
    Error::new_err("the transaction is over; begin another one")
}

#[pymethods]
impl Transaction {
    /// The value of a key, or `default`, of a map of the store's.
    #[pyo3(signature = (key, default=None, *, tree=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
        tree: Option<&Tree>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let key = key_of(key)?;
        let value = self.with(py, tree, |on| on.get(&key))?;
        Ok(value.map(|value| PyBytes::new(py, &value).into_any()).or(default))
    }

    /// Will store a value; with `ttl`, one that expires after so many seconds, or a timedelta.
    #[pyo3(signature = (key, value, ttl=None, *, tree=None))]
    fn put(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        ttl: Option<&Bound<'_, PyAny>>,
        tree: Option<&Tree>,
    ) -> PyResult<()> {
        let (key, value, ttl) = (key_of(key)?, value_of(value)?, ttl.map(life_of).transpose()?);
        self.with(py, tree, |on| match ttl {
            Some(ttl) => on.put_for(&key, &value, ttl).map(drop),
            None => on.put(&key, &value).map(drop),
        })
    }

    /// Will let a value expire after so many seconds, or a timedelta, from the beginning on; False
    /// if the key is absent.
    #[pyo3(signature = (key, ttl, *, tree=None))]
    fn touch(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        ttl: &Bound<'_, PyAny>,
        tree: Option<&Tree>,
    ) -> PyResult<bool> {
        let (key, ttl) = (key_of(key)?, life_of(ttl)?);
        self.with(py, tree, |on| on.touch(&key, ttl))
    }

    /// Will let a value stay for ever; False if the key is absent.
    #[pyo3(signature = (key, *, tree=None))]
    fn persist(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        tree: Option<&Tree>,
    ) -> PyResult<bool> {
        let key = key_of(key)?;
        self.with(py, tree, |on| on.persist(&key))
    }

    /// Will remove a key, and tells whether it is there.
    #[pyo3(signature = (key, *, tree=None))]
    fn delete(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        tree: Option<&Tree>,
    ) -> PyResult<bool> {
        let key = key_of(key)?;
        self.with(py, tree, |on| Ok(on.remove(&key)?.is_some()))
    }

    /// Keys and values from `start` on and before `stop`, as a list.
    #[pyo3(signature = (start=None, stop=None, *, reverse=false, tree=None))]
    fn range<'py>(
        &self,
        py: Python<'py>,
        start: Option<&Bound<'py, PyAny>>,
        stop: Option<&Bound<'py, PyAny>>,
        reverse: bool,
        tree: Option<&Tree>,
    ) -> PyResult<Vec<Pair<'py>>> {
        self.entries(py, scan_of(start, stop, reverse)?, tree)
    }

    /// Keys and values of the keys that begin with `prefix`, as a list.
    #[pyo3(signature = (prefix, *, reverse=false, tree=None))]
    fn prefix<'py>(
        &self,
        py: Python<'py>,
        prefix: &Bound<'py, PyAny>,
        reverse: bool,
        tree: Option<&Tree>,
    ) -> PyResult<Vec<Pair<'py>>> {
        self.entries(py, scan_of_prefix(prefix, reverse)?, tree)
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.get(py, key, None, None)?.ok_or_else(|| absent(key))
    }

    fn __setitem__(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.put(py, key, value, None, None)
    }

    fn __delitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        if self.delete(py, key, None)? { Ok(()) } else { Err(absent(key)) }
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.get(py, key, None, None)?.is_some())
    }

    /// Writes all of it, or raises ConflictError if others wrote what it had read.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        let transaction = self.take().ok_or_else(over)?;
        py.detach(|| transaction.commit()).map_err(raised)
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
        self.take();
        Ok(())
    }
}
