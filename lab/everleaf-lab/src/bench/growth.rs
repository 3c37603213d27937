//! `bench growth`.

use everleaf_bench::{Growth, GrowthOptions, run_growth_with_progress};

use super::subject::Scheme;
use super::{show, with_bar};
use crate::names::OneEngine;
use everleaf_cli::failure::Outcome;
use everleaf_cli::size::parse_size;

/// Let a pool grow under load, and show the puts that took longest.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A put that takes long has either run long, which is a pause of the store, or waited for the
processor, which other threads had: both times are shown.

Example:
  everleaf-lab bench growth --from 1MiB --to 8GiB --json")]
pub struct Args {
    #[command(flatten)]
    engine: OneEngine,
    /// Size of the pool at first.
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = parse_size)]
    from: u64,
    /// Size at which the load ends.
    #[arg(long, value_name = "SIZE", default_value = "8GiB", value_parser = parse_size)]
    to: u64,
    /// Bytes of a value.
    #[arg(long, value_name = "B", default_value_t = 100)]
    value_bytes: u32,
    /// Threads that put.
    #[arg(long, value_name = "T", default_value_t = 1)]
    threads: u32,
    #[command(flatten)]
    scheme: Scheme,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Measures.
pub fn run(args: Args) -> Outcome {
    let options = GrowthOptions {
        engine: args.engine.get()?,
        from_bytes: args.from,
        to_bytes: args.to,
        value_bytes: args.value_bytes,
        threads: args.threads,
        transactions: args.scheme.transactions()?,
        seed: args.scheme.basics.seed,
        pool: args.scheme.basics.place()?,
    };
    let grown = with_bar(|tell| run_growth_with_progress(&options, tell))?;
    show(&[grown], args.json, String::new(), Growth::table)
}
