//! Opening, closing, and what concerns a whole store.

use std::fmt::Display;
use std::mem::swap;
use std::path::PathBuf;
use std::str::FromStr;

use everleaf::{CreateOptions, DurabilityMode, Engine, Error, KeyType, OpenOptions};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyType};

use crate::batch::Batch;
use crate::error::raised;
use crate::transaction::Transaction;
use crate::tree::Tree;

/// A pool file that is open: a map, with further ones by name beside it.
#[pyclass(frozen, extends = Tree, module = "everleaf")]
pub(crate) struct Store;

/// What becomes of a pool that is there or not.
enum Mode {
    OpenOrCreate,
    Open,
    Create,
    ReadOnly,
}

impl FromStr for Mode {
    type Err = &'static str;

    /// As Python's `dbm` calls them.
    fn from_str(flag: &str) -> Result<Self, Self::Err> {
        match flag {
            "c" => Ok(Self::OpenOrCreate),
            "w" => Ok(Self::Open),
            "x" => Ok(Self::Create),
            "r" => Ok(Self::ReadOnly),
            _ => Err("the flag is c (open or create), w (open), x (create) or r (read only)"),
        }
    }
}

fn named<T: FromStr<Err: Display>>(name: &str) -> PyResult<T> {
    name.parse().map_err(|error: T::Err| PyValueError::new_err(error.to_string()))
}

/// The kind of keys: `bytes` or `int`.
fn key_type(keys: Option<&Bound<'_, PyType>>) -> PyResult<KeyType> {
    let Some(keys) = keys else { return Ok(KeyType::Bytes) };
    let py = keys.py();
    if keys.is(py.get_type::<PyBytes>()) {
        Ok(KeyType::Bytes)
    } else if keys.is(py.get_type::<PyInt>()) {
        Ok(KeyType::U64)
    } else {
        Err(PyTypeError::new_err("the type of keys is bytes or int"))
    }
}

#[pymethods]
impl Store {
    /// Opens a pool.
    #[new]
    #[pyo3(signature = (
        path, flag="c", *, keys=None, engine=None, durability=None, size=None, max_size=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "by their names in Python")]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        flag: &str,
        keys: Option<&Bound<'_, PyType>>,
        engine: Option<&str>,
        durability: Option<&str>,
        size: Option<u64>,
        max_size: Option<u64>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let mut create = CreateOptions::new().key_type(key_type(keys)?);
        create.engine = engine.map(named::<Engine>).transpose()?.unwrap_or_default();
        create.durability = durability.map(named::<DurabilityMode>).transpose()?;
        create.size_bytes = size.unwrap_or(create.size_bytes);
        create.max_size_bytes = max_size;
        let mut open = OpenOptions::new();
        open.durability = create.durability;
        let mode: Mode = named(flag)?;
        let opened = py.detach(|| match mode {
            Mode::OpenOrCreate => create.open_or_create(path),
            Mode::Open => open.open(path),
            Mode::Create => create.create(path),
            Mode::ReadOnly => open.read_only(true).open(path),
        });
        let store = opened.map_err(raised)?;
        let tree = store.default_tree().clone();
        Ok(PyClassInitializer::from(Tree { store, tree }).add_subclass(Self))
    }

    /// The map of a name, which is made if there is none. Its keys are `bytes` or `int`.
    #[pyo3(signature = (name, *, keys=None))]
    fn tree(
        this: PyRef<'_, Self>,
        py: Python<'_>,
        name: &str,
        keys: Option<&Bound<'_, PyType>>,
    ) -> PyResult<Tree> {
        let (store, kind) = (this.as_super().store.clone(), key_type(keys)?);
        let tree = py.detach(|| store.tree_with(name, kind)).map_err(raised)?;
        Ok(Tree { store, tree })
    }

    /// The names of the maps.
    fn trees(this: PyRef<'_, Self>, py: Python<'_>) -> PyResult<Vec<String>> {
        let store = &this.as_super().store;
        let names = py.detach(|| store.tree_names()).map_err(raised)?;
        Ok(names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect())
    }

    /// Removes a map, and tells whether there was one.
    fn drop_tree(this: PyRef<'_, Self>, py: Python<'_>, name: &str) -> PyResult<bool> {
        let store = &this.as_super().store;
        py.detach(|| store.drop_tree(name)).map_err(raised)
    }

    /// Writes that happen together or not at all, at the end of a `with` block.
    fn batch(this: PyRef<'_, Self>) -> Batch {
        Batch::new(&this.as_super().store)
    }

    /// Reads and writes that happen at one moment or not at all, at the end of a `with` block.
    fn transaction(this: PyRef<'_, Self>, py: Python<'_>) -> PyResult<Transaction> {
        let store = &this.as_super().store;
        let begun = py.detach(|| store.begin()).map_err(raised)?;
        Ok(Transaction::new(store, begun))
    }

    /// Calls `work` with a transaction, again if others wrote what it had read, and returns what it
    /// returns.
    fn transact(this: PyRef<'_, Self>, py: Python<'_>, work: Py<PyAny>) -> PyResult<Py<PyAny>> {
        let store = &this.as_super().store;
        py.detach(|| store.try_transaction(|tx| attempt(store, tx, &work)).map_err(Failed::raised))
    }

    /// Returns when everything done before is durable.
    fn sync(this: PyRef<'_, Self>, py: Python<'_>) -> PyResult<()> {
        let store = &this.as_super().store;
        py.detach(|| store.sync()).map_err(raised)
    }

    /// Closes the store. To close it again does nothing.
    fn close(this: PyRef<'_, Self>, py: Python<'_>) -> PyResult<()> {
        let store = this.as_super().store.clone();
        match py.detach(|| store.close()) {
            Err(Error::Closed | Error::Forked) | Ok(()) => Ok(()),
            Err(error) => Err(raised(error)),
        }
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __exit__(
        this: PyRef<'_, Self>,
        py: Python<'_>,
        _kind: &Bound<'_, PyAny>,
        _exception: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        Self::close(this, py)
    }
}

/// Why a transaction's function ended early.
enum Failed {
    Store(Error),
    Python(PyErr),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl Failed {
    fn raised(self) -> PyErr {
        match self {
            Self::Store(error) => raised(error),
            Self::Python(error) => error,
        }
    }
}

/// Lends a transaction to a function of Python's.
fn attempt(
    store: &everleaf::Store,
    tx: &mut everleaf::Transaction,
    work: &Py<PyAny>,
) -> Result<Py<PyAny>, Failed> {
    let mut lent = store.begin()?;
    swap(tx, &mut lent);
    Python::attach(|py| {
        let lent = Bound::new(py, Transaction::new(store, lent)).map_err(Failed::Python)?;
        let done = work.call1(py, (&lent,));
        if let Some(mut used) = lent.get().take() {
            swap(tx, &mut used);
        }
        done.map_err(|error| match error.is_instance_of::<crate::error::ConflictError>(py) {
            true => Failed::Store(Error::Conflict),
            false => Failed::Python(error),
        })
    })
}
