//! What every benchmark is told.

use std::path::PathBuf;

use everleaf_bench::{Acknowledged, Scratch};

use crate::scratch::swept;
use everleaf_cli::failure::Failure;

/// Its randomness and its place.
#[derive(Debug, clap::Args)]
pub struct Basics {
    /// The seed of all random choices.
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

/// What a write waits for.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Durability {
    Immediate,
    Buffered,
    Process,
}

impl From<Durability> for Acknowledged {
    fn from(durability: Durability) -> Self {
        match durability {
            Durability::Immediate => Self::Immediate,
            Durability::Buffered => Self::Buffered,
            Durability::Process => Self::Process,
        }
    }
}
