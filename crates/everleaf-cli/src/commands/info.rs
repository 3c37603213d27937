//! `info`: what a pool is and how full.

use std::io::Write;
use std::path::PathBuf;

use everleaf::Store;
use serde::Serialize;

use crate::failure::{Failure, Outcome};
use crate::size::{display_count, display_size};

/// Show what a pool is, how full it is, and what it can promise.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  everleaf info words.pool --json")]
pub struct Args {
    /// The pool; it is not written.
    pool: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}
