//! What every benchmark is told.

use std::path::PathBuf;

use everleaf_bench::Scratch;

use crate::scratch::swept;
use everleaf_cli::failure::Failure;

/// Its randomness and its place.
#[derive(Debug, clap::Args)]
pub struct Basics {
    /// Decides all that is random.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Make pools and files at this path, which must not exist, instead of on /dev/shm or in the
    /// temporary folder; they are removed.
    #[arg(long, value_name = "PATH")]
    pool: Option<PathBuf>,
}

impl Basics {
    /// Where pools and files are made; a signal takes them away too.
    pub fn place(&self) -> Result<Scratch, Failure> {
        swept(self.pool.clone())
    }
}
