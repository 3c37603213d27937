//! `drop`: a named tree with all that is in it.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::failure::{Failure, Outcome};
use crate::keys::readable;
use crate::open;

/// Remove a named tree with all its entries. A missing tree exits 1.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  everleaf drop words.pool sessions")]
pub struct Args {
    /// The pool.
    pool: PathBuf,
    /// Name of the tree.
    tree: OsString,
}

/// Drops; durable when it returns.
pub fn run(args: Args) -> Outcome {
    let store = open::to_write(&args.pool)?;
    let dropped = store.drop_tree(args.tree.as_bytes())?;
    store.close()?;
    if dropped {
        return Ok(());
    }
    let (name, pool) = (readable(args.tree.as_bytes()), args.pool.display());
    Err(Failure::failed(format!(
        "there is no tree `{name}` in {pool}; `everleaf trees` lists them"
    )))
}
