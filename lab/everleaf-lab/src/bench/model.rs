//! `bench model`.

use everleaf_bench::model::{Latency, ModelOptions, ModelRow, run_model_with_progress};

use super::{Load, show, with_bar};
use everleaf_cli::failure::Outcome;

/// Count what operations cost in lines of persistent memory, flushes, fences and allocations, and
/// their time at given latencies.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The same seed gives the same counts to the last digit, on every machine. Times are what the
latencies add to DRAM; with --rounds they stand beside what emulated latencies were measured to add.

Examples:
  everleaf-lab bench model --engines fptree,ptree,store --keys 1000000 \
    --phases insert,find,update,delete
  everleaf-lab bench model --engines fptree --keys 1000000 --warm 10000000 \
    --latencies 160,650,300/0/500 --rounds 3 --json")]
pub struct Args {
    /// The engines, with commas between: indexes and stores.
    #[arg(long, value_name = "E,..", value_delimiter = ',', required = true)]
    engines: Vec<String>,
    /// Nanoseconds that persistent memory takes beyond DRAM: L for reads and flushes, or
    /// READ/FLUSH/FENCE.
    #[arg(
        long,
        value_name = "L,..",
        value_delimiter = ',',
        default_value = "90,160,250,450,650,2000"
    )]
    #[arg(value_parser = str::parse::<Latency>)]
    latencies: Vec<Latency>,
    /// How often each is measured with the latencies emulated; 0 only counts.
    #[arg(long, value_name = "R", default_value_t = 0)]
    rounds: u32,
    #[command(flatten)]
    load: Load,
}

/// Counts.
pub fn run(args: Args) -> Outcome {
    let micro = args.load.options(args.engines.first().map_or("", String::as_str))?;
    let options = ModelOptions {
        engines: args.engines,
        latencies: args.latencies,
        rounds: args.rounds,
        micro,
    };
    let heading = ModelRow::table_heading(&options.latencies, options.rounds > 0);
    let rows = with_bar(|tell| run_model_with_progress(&options, tell))?;
    show(&rows, args.load.subject.json, heading, ModelRow::table_row)
}
