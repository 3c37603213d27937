//! `explore`: every state that a crash can leave.

use std::path::PathBuf;

use super::create::{EngineParameters, Keys};
use crate::failure::{Failure, Outcome};

/// Explore every state that a power failure can leave of a sequence of operations, and recover from each.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  everleaf explore --engine fptree --ops 200 --seed 1 --json
  everleaf explore --engine fptree-c --script split.script --mutate")]
#[command(group(clap::ArgGroup::new("operations").required(true).args(["script", "ops"])))]
pub struct Args {
    /// The engine.
    #[arg(long, value_name = "E")]
    pub engine: String,
    /// A script, one operation a line: insert, update, upsert KEY VALUE; remove KEY; batch OP; OP; ..; sync; epoch; crash; explore;
    /// thread N OP.
    #[arg(long, value_name = "FILE")]
    pub script: Option<PathBuf>,
    /// Draw N operations at random.
    #[arg(long, value_name = "N", requires = "seed")]
    pub ops: Option<u64>,
    /// The seed of what is drawn.
    #[arg(long, value_name = "S", requires = "ops")]
    pub seed: Option<u64>,
    /// Threads whose operations run concurrently.
    #[arg(long, value_name = "T", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub threads: u64,
    /// Suppress each barrier in turn, and see whether anybody notices.
    #[arg(long)]
    pub mutate: bool,
    /// Stop after so many states.
    #[arg(long, value_name = "IMAGES")]
    pub budget: Option<u64>,
    /// Kind of keys [default: u64 if every key of the script is a number, else bytes].
    #[arg(long, value_name = "KIND")]
    pub keys: Option<Keys>,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
    /// Explore in a pool at this path, which must not exist, instead of in memory.
    #[arg(long, value_name = "PATH")]
    pub pool: Option<PathBuf>,
    /// Parameters of the engine.
    #[command(flatten)]
    pub parameters: EngineParameters,
}

/// Not wired up yet.
pub fn run(_args: Args) -> Outcome {
    Err(Failure::failed("`explore` is not part of this release"))
}
