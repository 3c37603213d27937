//! `torture`: real kills of a real process.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use everleaf::internal::InjectedAborts;
use everleaf::{Contract, CreateOptions, DurabilityMode, Engine, Transactions};
use everleaf_testkit::{
    Course, TortureError, TortureOptions, TortureReport, torture, torture_child,
};

use crate::scratch::ScratchPool;
use crate::scratch::swept;
use everleaf_cli::arguments::Keys;
use everleaf_cli::failure::{Failure, Outcome};
use everleaf_cli::names;
use everleaf_cli::progress::steps_bar;
use everleaf_cli::rtm::Rtm;

/// Name of the hidden command that is killed.
pub const WRITER: &str = "__torture-writer";
/// The pool that children write to; their keys and values fit into it many times over.
const POOL_BYTES: u64 = 16 << 20;
/// Shorter than a child lives, so that kills meet ends of epochs.
const EPOCH: DurabilityMode = DurabilityMode::Buffered { interval_ms: 3 };

/// Kill a writing process at random moments, reopen the pool, and compare it with what the process
/// had acknowledged.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  everleaf-lab torture --engine fptree --threads 1 --kills 100 --json
  everleaf-lab torture --threads 2 --kills 100 --batches 50
  everleaf-lab torture --threads 2 --kills 100 --rtm on")]
pub struct Args {
    /// The engine.
    #[arg(
        long,
        value_name = "E",
        default_value_t = Engine::default().name().to_owned(),
        value_parser = names::engines()
    )]
    pub engine: String,
    /// Threads that write.
    #[arg(
        long,
        value_name = "T",
        default_value_t = 1,
        value_parser = clap::value_parser!(u8).range(1..)
    )]
    pub threads: u8,
    /// How often to kill.
    #[arg(
        long,
        value_name = "K",
        default_value_t = 100,
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    pub kills: u64,
    /// Percent of the operations that are batches of up to 40 writes, which must be there wholly or
    /// not at all.
    #[arg(
        long,
        value_name = "P",
        default_value_t = 0,
        value_parser = clap::value_parser!(u8).range(..=100)
    )]
    pub batches: u8,
    /// Kind of keys.
    #[arg(long, value_name = "KIND", default_value = "bytes")]
    pub keys: Keys,
    /// Transactions of fptree-c: off, those of the processor, or simulated ones, a third of which
    /// abort. The result says what ran.
    #[arg(long, value_name = "WHICH", default_value = "off")]
    pub rtm: Rtm,
    /// The seed of the operations; the moments of the kills are the machine's.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
    /// Make the pool at this path, which must not exist, instead of on /dev/shm or in the temporary
    /// folder.
    #[arg(long, value_name = "PATH")]
    pub pool: Option<PathBuf>,
}

/// What the hidden command is told.
#[derive(Debug, clap::Args)]
pub struct WriterArgs {
    pool: PathBuf,
    threads: u8,
    batches: u8,
    seed: u64,
    rtm: Rtm,
}

/// A third of the simulated ones abort.
fn transactions(rtm: Rtm) -> Result<Transactions, Failure> {
    rtm.with(1, InjectedAborts::OneIn(3))
}

/// Tortures.
pub fn run(args: Args) -> Outcome {
    let engine: Engine = args.engine.parse()?;
    if args.threads > 1 && !engine.is_concurrent() {
        return Err(Failure::usage(format!("{engine} is single-threaded; use --threads 1")));
    }
    let transactions = transactions(args.rtm)?;
    let mut create =
        CreateOptions::new().engine(engine).key_type(args.keys.into()).size_bytes(POOL_BYTES);
    if engine.contract() == Contract::Buffered {
        create.durability = Some(EPOCH);
    }
    let (scratch, store) = ScratchPool::create(&swept(args.pool)?, &create)?;
    store.close()?;
    let program = std::env::current_exe()
        .map_err(|e| Failure::failed(format!("this program cannot be found again: {e}")))?;
    let child = |pool: &Path, Course { threads, batches, seed }: Course| {
        let mut command = Command::new(&program);
        command.arg(WRITER).arg(pool).args([
            threads.to_string(),
            batches.to_string(),
            seed.to_string(),
            args.rtm.to_string(),
        ]);
        command
    };
    let bar = steps_bar(args.kills);
    let options = TortureOptions {
        engine,
        threads: args.threads,
        kills: args.kills,
        batches: args.batches,
        seed: args.seed,
        pool: scratch.path().to_path_buf(),
        transactions,
    };
    let report =
        torture(&options, &child, &mut |kills| bar.set_position(kills)).map_err(failure)?;
    bar.finish_and_clear();
    show(&report, args.json)?;
    let wrong = report.lost + report.phantom + report.damaged;
    if wrong > 0 {
        return Err(Failure::failed(format!(
            "{engine} did not survive: {wrong} keys or reopenings were wrong (seed {})",
            args.seed
        )));
    }
    Ok(())
}

fn show(report: &TortureReport, json: bool) -> Outcome {
    let mut out = std::io::stdout().lock();
    let shown = if json {
        let text = serde_json::to_string(report).map_err(|e| Failure::failed(e.to_string()))?;
        writeln!(out, "{text}")
    } else {
        let TortureReport {
            engine,
            kills,
            operations,
            batches,
            cut_batches,
            lost,
            phantom,
            damaged,
            reopen_ms_max,
            concurrency,
            contract,
            syncs,
        } = report;
        writeln!(
            out,
            "{engine} ({concurrency}, {contract}): killed {kills} times, {operations} operations \
            returned, {batches} of them batches, and {syncs} syncs; {cut_batches} batches cut; \
            lost {lost}, phantom {phantom}, damaged {damaged}; longest reopening {reopen_ms_max} \
            ms"
        )
    };
    shown.map_err(|e| Failure::output(&e))
}

/// Writes until it is killed.
pub fn run_writer(args: WriterArgs) -> Outcome {
    let course = Course { threads: args.threads, batches: args.batches, seed: args.seed };
    torture_child(&args.pool, transactions(args.rtm)?, course, std::io::stdout()).map_err(failure)
}

fn failure(error: TortureError) -> Failure {
    Failure::failed(error.to_string())
}
