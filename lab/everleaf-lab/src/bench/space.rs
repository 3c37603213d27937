//! `bench space`.

use everleaf_bench::{RecordBytes, SpaceOptions, SpaceRow, run_space_with_progress};

use super::{Basics, show, with_bar};
use crate::names::OneEngine;
use everleaf_cli::failure::Outcome;

/// Fill and empty stores, and show the pool bytes per byte of data.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  everleaf-lab bench space --keys 1000000 --records 8/8,16/100,24/1000 --cycles 100 --json")]
pub struct Args {
    #[command(flatten)]
    engine: OneEngine,
    /// Bytes of a key and of a value, with commas between; a key of 8 bytes is a number.
    #[arg(long, value_name = "K/V,..", value_delimiter = ',')]
    #[arg(value_parser = str::parse::<RecordBytes>)]
    #[arg(default_value = "8/8,16/100,24/1000")]
    records: Vec<RecordBytes>,
    /// Records in a store when it is full.
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    keys: u64,
    /// Cycles of deleting (half, nine tenths, all) and filling up again with other keys.
    #[arg(long, value_name = "C", default_value_t = 100)]
    cycles: u32,
    #[command(flatten)]
    basics: Basics,
    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,
}

/// Measures.
pub fn run(args: Args) -> Outcome {
    let options = SpaceOptions {
        engine: args.engine.get()?,
        records: args.records,
        keys: args.keys,
        cycles: args.cycles,
        seed: args.basics.seed,
        pool: args.basics.place()?,
    };
    let rows = with_bar(|tell| run_space_with_progress(&options, tell))?;
    show(&rows, args.json, SpaceRow::table_heading(), SpaceRow::table_row)
}
