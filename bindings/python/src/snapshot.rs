//! A store as it was at one moment.

use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;

use crate::error::{ClosedError, raised};
use crate::view::View;

/// The store's own map as it was then, and those with names. It ends with a `with` block.
#[pyclass(frozen, extends = View, module = "everleaf")]
pub(crate) struct Snapshot {
    store: everleaf::Store,
    /// None once it has ended.
    snapshot: Mutex<Option<everleaf::Snapshot>>,
}

impl Snapshot {
    pub(crate) fn of(
        store: everleaf::Store,
        snapshot: everleaf::Snapshot,
    ) -> PyClassInitializer<Self> {
        let view = View::new(&store, &snapshot);
        let snapshot = Mutex::new(Some(snapshot));
        PyClassInitializer::from(view).add_subclass(Self { store, snapshot })
    }
}

#[pymethods]
impl Snapshot {
    /// The map of a name, as it was then.
    fn tree(&self, py: Python<'_>, name: &str) -> PyResult<View> {
        let found = py.detach(|| {
            let snapshot = self.snapshot.lock().unwrap_or_else(PoisonError::into_inner);
            let tree = self.store.existing_tree(name)?;
            let of =
                |snapshot: &everleaf::Snapshot| tree.map(|tree| snapshot.of(&tree)).transpose();
            snapshot.as_ref().map(of).transpose()
        });
        let ended = || ClosedError::new_err("the snapshot has ended; take another one");
        let view = found.map_err(raised)?.ok_or_else(ended)?;
        let view = view.ok_or_else(|| PyKeyError::new_err(name.to_owned()))?;
        Ok(View::new(&self.store, &view))
    }

    /// Ends it: what it has kept of values that changed is given back.
    fn close(this: PyRef<'_, Self>, py: Python<'_>) {
        this.as_super().end();
        let snapshot = this.snapshot.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(snapshot));
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
    ) {
        Self::close(this, py);
    }
}
