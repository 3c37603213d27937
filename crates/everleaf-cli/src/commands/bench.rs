//! `bench`: measurements.
use crate::failure::{Failure, Outcome};

/// Measure engines.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:")]
pub struct Args {}
/// Not yet.
pub fn run(_args: Args) -> Outcome {
    Err(Failure::failed("not yet"))
}
