//! `torture`: real kills of a real process.

use std::path::PathBuf;

use crate::failure::{Failure, Outcome};

/// Kill a writing process at random moments, reopen the pool, and compare it with what the process had acknowledged.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  everleaf torture --engine fptree-c --threads 4 --kills 100 --json")]
pub struct Args {
    /// The engine.
    #[arg(long, value_name = "E")]
    pub engine: String,
    /// Threads that write.
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u64).range(1..))]
    pub threads: u64,
    /// How often to kill.
    #[arg(long, value_name = "K")]
    pub kills: u64,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
    /// Make the pool at this path, which must not exist, instead of on /dev/shm or in the temporary folder.
    #[arg(long, value_name = "PATH")]
    pub pool: Option<PathBuf>,
}

/// Not wired up yet.
pub fn run(_args: Args) -> Outcome {
    Err(Failure::failed("`torture` is not part of this release"))
}
