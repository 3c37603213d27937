//! Opening, closing, and what concerns a whole store.

use std::fmt::Display;
use std::mem::swap;
use std::path::PathBuf;
use std::str::FromStr;

use everleaf::{CreateOptions, DurabilityMode, Engine, Error, KeyType, OpenOptions};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyInt, PyType};

use crate::batch::Batch;
use crate::error::raised;
use crate::snapshot::Snapshot;
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
        path, flag="c", *, keys=None, engine=None, durability=None, size=None, max_size=None,
        control_socket=false
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
        control_socket: bool,
    ) -> PyResult<PyClassInitializer<Self>> {
        let mut create = CreateOptions::new().key_type(key_type(keys)?);
        create.engine = engine.map(named::<Engine>).transpose()?.unwrap_or_default();
        create.durability = durability.map(named::<DurabilityMode>).transpose()?;
        create.size_bytes = size.unwrap_or(create.size_bytes);
        create.max_size_bytes = max_size;
        create.control_socket = control_socket;
        let mut open = OpenOptions::new();
        (open.durability, open.control_socket) = (create.durability, control_socket);
        let mode: Mode = named(flag)?;
        let opened = py.detach(|| match mode {
            Mode::OpenOrCreate => create.open_or_create(path),
            Mode::Open => open.open(path),
            Mode::Create => create.create(path),
            Mode::ReadOnly => open.read_only(true).open(path),
        });
        let store = opened.map_err(raised)?;
        let tree = store.default_tree().clone();
        Ok(Tree::of(store, tree).add_subclass(Self))
    }

    /// The map of a name, which is made if there is none. Its keys are `bytes` or `int`.
    #[pyo3(signature = (name, *, keys=None))]
    fn tree(
        this: PyRef<'_, Self>,
        py: Python<'_>,
        name: &str,
        keys: Option<&Bound<'_, PyType>>,
    ) -> PyResult<Py<Tree>> {
        let (store, kind) = (this.as_super().store.clone(), key_type(keys)?);
        let tree = py.detach(|| store.tree_with(name, kind)).map_err(raised)?;
        Py::new(py, Tree::of(store, tree))
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

    /// The store as it is now, to be read while it changes.
    fn snapshot(this: PyRef<'_, Self>, py: Python<'_>) -> PyResult<Py<Snapshot>> {
        let store = this.as_super().store.clone();
        let snapshot = py.detach(|| store.snapshot()).map_err(raised)?;
        Py::new(py, Snapshot::of(store, snapshot))
    }

    /// Copies everything to a new pool, as it is now, while others write; how many entries.
    fn copy(this: PyRef<'_, Self>, py: Python<'_>, path: PathBuf) -> PyResult<u64> {
        let store = &this.as_super().store;
        py.detach(|| store.copy(path)).map(|done| done.entries).map_err(raised)
    }

    /// Writes everything to a new file, as it is now, while others write; how many entries.
    /// `everleaf.restore` reads it.
    fn dump(this: PyRef<'_, Self>, py: Python<'_>, path: PathBuf) -> PyResult<u64> {
        let store = &this.as_super().store;
        py.detach(|| store.dump_file(path)).map(|done| done.entries).map_err(raised)
    }

    /// Reads and checks everything; writers wait meanwhile.
    fn check<'py>(this: PyRef<'py, Self>, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let store = &this.as_super().store;
        let found = py.detach(|| store.check()).map_err(raised)?;
        let report = PyDict::new(py);
        report.set_item("ok", found.ok)?;
        report.set_item("keys", found.keys)?;
        report.set_item("violations", found.violations)?;
        report.set_item("leaked_blocks", found.leaked_blocks)?;
        Ok(report)
    }

    /// How large the store is, and what it keeps of a write.
    fn statistics<'py>(this: PyRef<'py, Self>, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let store = &this.as_super().store;
        let found = py.detach(|| store.statistics()).map_err(raised)?;
        let told = PyDict::new(py);
        told.set_item("engine", found.engine.to_string())?;
        told.set_item("durability", found.durability.to_string())?;
        told.set_item("durability_mode", found.durability_mode.to_string())?;
        told.set_item("log", found.log)?;
        told.set_item("fill", found.fill)?;
        for (name, number) in [
            ("entries", found.entries),
            ("height", found.height.into()),
            ("leaves", found.leaves),
            ("inner_nodes", found.inner_nodes),
            ("used_bytes", found.used_bytes),
            ("free_bytes", found.free_bytes),
            ("total_bytes", found.total_bytes),
            ("max_bytes", found.max_bytes),
            ("dram_bytes", found.dram_bytes),
        ] {
            told.set_item(name, number)?;
        }
        Ok(told)
    }

    /// Removes the values that have expired; how many.
    fn remove_expired(this: PyRef<'_, Self>, py: Python<'_>) -> PyResult<u64> {
        let store = &this.as_super().store;
        py.detach(|| store.remove_expired()).map(|swept| swept.removed).map_err(raised)
    }

    /// Why there is no control socket although one was asked for, or None.
    fn no_control_socket(this: PyRef<'_, Self>) -> Option<String> {
        this.as_super().store.no_control_socket()
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

/// Fills an empty pool from a dump; how many entries.
#[pyfunction]
pub(crate) fn restore(py: Python<'_>, path: PathBuf, dump: PathBuf) -> PyResult<u64> {
    let dump = std::fs::File::open(dump)?;
    let dump = std::io::BufReader::new(dump);
    py.detach(|| everleaf::restore(path, dump)).map(|done| done.entries).map_err(raised)
}
