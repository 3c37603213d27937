//! `bench report`.

use std::path::PathBuf;

use everleaf_bench::page::{ReportOptions, check, run_report_with_progress};

use super::output::Output;
use super::{Basics, say, with_bar};
use crate::failure::failure;
use everleaf_cli::failure::Outcome;

/// Measure everything and write one page of HTML: tables, plots, the machine, the commit, the
/// commands.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  everleaf-lab bench report --quick
  everleaf-lab bench report --keys 10000000 --output measured.html")]
pub struct Args {
    /// Small sizes and one round: within three minutes; otherwise within thirty.
    #[arg(long)]
    quick: bool,
    /// Keys of the indexes, of which stores and figures take a part [default: 1000000, or 100000
    /// with --quick].
    #[arg(long, value_name = "N")]
    keys: Option<u64>,
    /// The page; one that is there is replaced.
    #[arg(long, value_name = "FILE", default_value = "everleaf-report.html")]
    output: PathBuf,
    #[command(flatten)]
    basics: Basics,
}

/// Measures and writes.
pub fn run(args: &Args) -> Outcome {
    let place = args.basics.place()?;
    let options = ReportOptions {
        quick: args.quick,
        keys: args.keys,
        seed: args.basics.seed,
        pool: place.clone(),
        program: std::env::current_exe().ok(),
    };
    check(&options).map_err(failure)?;
    let output = Output::open(&place, &args.output)?;
    let page = with_bar(|tell| run_report_with_progress(&options, tell))?;
    output.write(page.as_bytes())?;
    say(&format!("{}", args.output.display()))
}
