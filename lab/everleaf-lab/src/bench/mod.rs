//! `bench`: measurements.

mod basics;
pub mod figure;
mod growth;
mod model;
mod output;
mod report;
mod serve;
mod space;
mod stores;
mod subject;
mod ycsb;

use std::io::Write;

use everleaf_bench::{
    BenchError, CompareOptions, Comparison, MicroOptions, Phase, PhaseReport, Progress, Recovery,
    RecoveryOptions, run_compare_with_progress, run_micro_with_progress,
    run_recovery_with_progress,
};
use indicatif::ProgressBar;
use serde::Serialize;

use crate::failure::failure;
use basics::{Basics, Durability};
use everleaf_cli::failure::{Failure, Outcome};
use everleaf_cli::progress;
use subject::Subject;

/// Measure engines.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  everleaf-lab bench micro --engine fptree --keys 1000000 --json
  everleaf-lab bench compare --engines fptree,btreemap --keys 1000000 --rounds 5
  everleaf-lab bench stores --keys 1000000 --threads 1,2
  everleaf-lab bench growth --from 1MiB --to 8GiB
  everleaf-lab bench space --keys 1000000
  everleaf-lab bench serve --server memcached,redis,ours
  everleaf-lab bench recovery --engine fptree --keys 1000000 --threads 1,2
  everleaf-lab bench model --engines fptree,ptree,store --keys 1000000
  everleaf-lab bench figure fptree-7
  everleaf-lab bench report --quick
  everleaf-lab bench ycsb --workload a --engine store,lmdb,redb --keys 1000000 --operations 1000000

The peers lmdb, redb and fjall are in builds with the feature peers, plots in builds with the
feature plots: cargo build --release --features peers,plots")]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Micro(MicroArgs),
    Compare(CompareArgs),
    Stores(stores::Args),
    Growth(growth::Args),
    Space(space::Args),
    Serve(serve::Args),
    Recovery(RecoveryArgs),
    Ycsb(ycsb::Args),
    Model(model::Args),
    Figure(figure::Args),
    Report(report::Args),
}

/// Measure each phase of one engine: throughput, latencies and counters, in separate runs.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  everleaf-lab bench micro --engine fptree --keys 1000000 --phases insert,find --flush clwb")]
struct MicroArgs {
    /// The engine: an index, btreemap, stx, store (or store:E), skipmap; by the feature peers lmdb,
    /// redb and fjall, by the features rocksdb and sqlite these.
    #[arg(long, value_name = "E")]
    engine: String,
    #[command(flatten)]
    load: Load,
}

/// Measure the same phases on several engines in short turns, and compare them with the first.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  everleaf-lab bench compare --engines fptree,ptree,btreemap --keys 1000000 --rounds 5 --json
  everleaf-lab bench compare --engines lmdb,redb,skipmap,store --key-type string16 \
    --value-bytes 100 --keys 1000000
  everleaf-lab bench compare --engines fptree-c:separate,fptree-c --threads 2 --keys 1000000 \
    --phases insert,find,mixed")]
struct CompareArgs {
    /// The engines, with commas between. E:separate stands for an index of E for each thread, with
    /// its part of the keys; E:copies for one with all keys for each thread, on which it does all
    /// operations.
    #[arg(long, value_name = "A,B,..", value_delimiter = ',', required = true)]
    engines: Vec<String>,
    /// How often all of them are filled and measured.
    #[arg(long, value_name = "R", default_value_t = 5)]
    rounds: u32,
    /// Operations of a turn, of all threads together; scans are a tenth as many [default: 48000, or
    /// 4800 if stores are among the engines].
    #[arg(long, value_name = "N")]
    turn: Option<u64>,
    #[command(flatten)]
    load: Load,
}

/// Measure how long an index takes to open after a crash, or after a clean shutdown, with some
/// numbers of threads.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  everleaf-lab bench recovery --engine fptree-c --keys 10000000 --threads 1,2 --rounds 5 --json")]
struct RecoveryArgs {
    /// The engine.
    #[arg(long, value_name = "E")]
    engine: String,
    /// Numbers of threads that rebuild what the index keeps in DRAM, with commas between.
    #[arg(long, value_name = "T,..", value_delimiter = ',', default_value = "1")]
    threads: Vec<u32>,
    /// How often each is measured.
    #[arg(long, value_name = "R", default_value_t = 5)]
    rounds: u32,
    /// Close the index before each opening: how long opening takes after a clean shutdown.
    #[arg(long)]
    clean: bool,
    /// Close it without the image of its inner nodes, which engines with inner nodes in DRAM store.
    #[arg(long, requires = "clean")]
    without_image: bool,
    #[command(flatten)]
    subject: Subject,
}

/// What is done, and on what.
#[derive(Debug, clap::Args)]
struct Load {
    #[command(flatten)]
    subject: Subject,
    /// Keys that are inserted before the first phase.
    #[arg(long, value_name = "M", default_value_t = 0)]
    warm: u64,
    /// Threads that share the index.
    #[arg(long, value_name = "T", default_value_t = 1)]
    threads: u32,
    /// Among insert, find, multiget, update, delete, scan, mixed, in the order in which they are
    /// done.
    #[arg(long, value_name = "PHASES", value_delimiter = ',', value_parser = str::parse::<Phase>)]
    #[arg(default_value = "insert,find,multiget,update,scan,delete")]
    phases: Vec<Phase>,
    /// Operations of a phase of scans [default: as many as of the others].
    #[arg(long, value_name = "N")]
    scans: Option<u64>,
    /// Percent of the operations of mixed that insert.
    #[arg(long, value_name = "P", default_value_t = 50)]
    mixed_inserts: u32,
    /// Nanoseconds added to each flush of a pool; peers and trees in plain memory have no added
    /// latencies.
    #[arg(long, value_name = "X", default_value_t = 0)]
    flush_ns: u64,
    /// Nanoseconds added to each fence, likewise.
    #[arg(long, value_name = "X", default_value_t = 0)]
    fence_ns: u64,
    /// Nanoseconds added to each read of persistent memory that misses a modelled cache, likewise.
    #[arg(long, value_name = "X", default_value_t = 0)]
    read_ns: u64,
}

impl Load {
    fn options(&self, engine: &str) -> Result<MicroOptions, Failure> {
        Ok(MicroOptions {
            warm: self.warm,
            threads: self.threads,
            scans: self.scans,
            mixed_inserts: self.mixed_inserts,
            phases: self.phases.clone(),
            flush_ns: self.flush_ns,
            fence_ns: self.fence_ns,
            read_ns: self.read_ns,
            ..self.subject.options(engine)?
        })
    }
}

/// Measures.
pub fn run(args: Args) -> Outcome {
    match args.what {
        What::Micro(args) => micro(&args),
        What::Compare(args) => compare(args),
        What::Stores(args) => stores::run(args),
        What::Growth(args) => growth::run(args),
        What::Space(args) => space::run(args),
        What::Serve(args) => serve::run(args),
        What::Recovery(args) => recovery(args),
        What::Ycsb(args) => ycsb::run(&args),
        What::Model(args) => model::run(args),
        What::Figure(args) => figure::run(&args),
        What::Report(args) => report::run(&args),
    }
}

fn micro(args: &MicroArgs) -> Outcome {
    let options = args.load.options(&args.engine)?;
    let bar = progress::operations_bar();
    let mut printer = Printer::new(args.load.subject.json, PhaseReport::table_heading());
    let measured =
        run_micro_with_progress(&options, &mut |progress| tell(&bar, progress), &mut |report| {
            bar.suspend(|| printer.row(&report, PhaseReport::table_row));
        });
    bar.finish_and_clear();
    measured.map_err(failure)?;
    printer.outcome
}

fn compare(args: CompareArgs) -> Outcome {
    let micro = args.load.options(args.engines.first().map_or("", String::as_str))?;
    let CompareArgs { engines, rounds, turn, .. } = args;
    let options = CompareOptions { engines, rounds, turn, micro };
    let rows = with_bar(|tell| run_compare_with_progress(&options, tell))?;
    show(&rows, args.load.subject.json, Comparison::table_heading(), Comparison::table_row)
}

fn recovery(args: RecoveryArgs) -> Outcome {
    let micro = args.subject.options(&args.engine)?;
    let options = RecoveryOptions {
        threads: args.threads,
        rounds: args.rounds,
        clean: args.clean,
        image: !args.without_image,
        micro,
    };
    let rows = with_bar(|tell| run_recovery_with_progress(&options, tell))?;
    show(&rows, args.subject.json, Recovery::table_heading(), Recovery::table_row)
}

/// Prints a line.
fn say(line: &str) -> Outcome {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{line}")
        .and_then(|()| output.flush())
        .map_err(|error| Failure::output(&error))
}

/// Measures beside a progress bar.
fn with_bar<T>(
    measure: impl FnOnce(&mut dyn FnMut(Progress)) -> Result<T, BenchError>,
) -> Result<T, Failure> {
    let bar = progress::operations_bar();
    let measured = measure(&mut |progress| tell(&bar, progress));
    bar.finish_and_clear();
    measured.map_err(failure)
}

/// Prints all rows.
fn show<T: Serialize>(
    rows: &[T],
    json: bool,
    heading: String,
    for_people: impl Fn(&T) -> String,
) -> Outcome {
    let mut printer = Printer::new(json, heading);
    rows.iter().for_each(|row| printer.row(row, &for_people));
    printer.outcome
}

fn tell(bar: &ProgressBar, progress: Progress) {
    bar.set_length(progress.total);
    bar.set_position(progress.done);
    bar.set_message(progress.doing);
}

/// Prints rows as JSON or as a table. After the first failure it prints nothing more, and keeps it.
struct Printer {
    json: bool,
    heading: Option<String>,
    outcome: Outcome,
}

impl Printer {
    fn new(json: bool, heading: String) -> Self {
        Self { json, heading: (!json && !heading.is_empty()).then_some(heading), outcome: Ok(()) }
    }

    fn row<T: Serialize>(&mut self, row: &T, for_people: impl FnOnce(&T) -> String) {
        if self.outcome.is_err() {
            return;
        }
        let heading = self.heading.take().map_or(String::new(), |heading| heading + "\n");
        let text = if self.json { serde_json::to_string(row) } else { Ok(for_people(row)) };
        self.outcome = text.map_err(|error| Failure::failed(error.to_string())).and_then(|text| {
            let mut output = std::io::stdout().lock();
            writeln!(output, "{heading}{text}")
                .and_then(|()| output.flush())
                .map_err(|error| Failure::output(&error))
        });
    }
}
