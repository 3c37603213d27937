//! `bench report`.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use everleaf_bench::page::{ReportOptions, run_report_with_progress};

use super::{Basics, say, with_bar};
use crate::failure::{Failure, Outcome};

/// Measure everything and write one page of HTML: tables, plots, the machine, the commit, the commands.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  everleaf bench report --quick
  everleaf bench report --keys 10000000 --output measured.html")]
pub struct Args {
    /// Small sizes and one round: within three minutes; otherwise within thirty.
    #[arg(long)]
    quick: bool,
    /// Keys of the indexes, of which stores and figures take a part [default: 1000000, or 100000 with --quick].
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
    let options = ReportOptions { quick: args.quick, keys: args.keys, seed: args.basics.seed, pool: args.basics.place()? };
    let failed = |error: std::io::Error| Failure::failed(format!("{} cannot be written: {error}", args.output.display()));
    let writable = File::options().create(true).append(true).open(&args.output); // Before the work, not after it.
    writable.map_err(failed)?;
    let page = with_bar(|tell| run_report_with_progress(&options, tell)).inspect_err(|_| remove_if_empty(args))?;
    let mut file = File::create(&args.output).map_err(failed)?;
    file.write_all(page.as_bytes()).map_err(failed)?;
    say(&format!("{}", args.output.display()))
}

/// Takes the file away that only showed that it can be written.
fn remove_if_empty(args: &Args) {
    if std::fs::metadata(&args.output).is_ok_and(|file| file.len() == 0) {
        let _ = std::fs::remove_file(&args.output);
    }
}
