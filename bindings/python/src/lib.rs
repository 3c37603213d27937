//! Everleaf for Python: a store with a dictionary's manners. `everleaf.pyi` has the interface.
//!
//! What may wait (for a lock, a disk, a sync) is done without Python's global lock.
//!
//! Map of the files: `error` · `convert` (keys and values) · `view` (a dictionary that is
//! read) · `tree` (one that is written) · `store` · `snapshot` · `entries` (iterators) · `batch` ·
//! `transaction`.

mod batch;
mod convert;
mod entries;
mod error;
mod snapshot;
mod store;
mod transaction;
mod tree;
mod view;

use pyo3::prelude::*;

/// An embedded, ordered key-value store for persistent memory.
#[pymodule(name = "everleaf")]
fn everleaf_module(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    error::add_to(module)?;
    module.add_class::<view::View>()?;
    module.add_class::<tree::Tree>()?;
    module.add_class::<store::Store>()?;
    module.add_class::<entries::Entries>()?;
    module.add_class::<batch::Batch>()?;
    module.add_class::<transaction::Transaction>()?;
    module.add_class::<snapshot::Snapshot>()?;
    module.add_function(wrap_pyfunction!(store::restore, module)?)?;
    let kinds = py.import("collections.abc")?;
    kinds.getattr("Mapping")?.call_method1("register", (py.get_type::<view::View>(),))?;
    kinds.getattr("MutableMapping")?.call_method1("register", (py.get_type::<tree::Tree>(),))?;
    Ok(())
}
