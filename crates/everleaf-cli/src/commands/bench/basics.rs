//! What every benchmark is told.

use std::path::PathBuf;

/// Its randomness and its place.
#[derive(Debug, clap::Args)]
pub struct Basics {
    /// Decides all that is random.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Make pools and files at this path, which must not exist, instead of on /dev/shm or in the temporary folder; they are removed.
    #[arg(long, value_name = "PATH")]
    pub pool: Option<PathBuf>,
}
