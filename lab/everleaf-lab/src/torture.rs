//! `torture`: real kills of a real process.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use everleaf::internal::InjectedAborts;
use everleaf::{Contract, CreateOptions, DurabilityMode, Engine, KeyType, Transactions};
use everleaf_testkit::{
    Course, TortureError, TortureOptions, TortureReport, torture, torture_child,
};

use crate::names::OneEngine;
use crate::scratch::ScratchPool;
use crate::scratch::swept;
use everleaf_cli::arguments::Keys;
use everleaf_cli::failure::{Failure, Outcome};
use everleaf_cli::progress::steps_bar;
use everleaf_cli::rtm::Rtm;
use everleaf_engines::all;

/// Name of the hidden command that is killed.
pub const WRITER: &str = "__torture-writer";
/// The pool that children write to: it grows under them, and what they write fits into it.
const POOL_BYTES: u64 = 1 << 20;
const MAX_POOL_BYTES: u64 = 256 << 20;
/// Kills of one pool; then another begins, small again.
const KILLS_PER_POOL: u64 = 25;
/// Shorter than a child lives, so that kills meet ends of epochs and commits of the log.
const BRIEF: DurabilityMode = DurabilityMode::Buffered { interval_ms: 3 };

/// Kill a writing process at random moments, reopen the pool, and compare it with what the process
/// had acknowledged.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  everleaf-lab torture --engine fptree --threads 1 --kills 100 --json
  everleaf-lab torture --threads 2 --kills 100 --batches 50 --medium memory
  everleaf-lab torture --threads 2 --kills 100 --rtm on")]
pub struct Args {
    #[command(flatten)]
    pub engine: OneEngine,
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
    /// Percent of the operations that are batches, most of them of up to 40 writes and some of
    /// 3,000, which must be there wholly or not at all.
    #[arg(
        long,
        value_name = "P",
        default_value_t = 15,
        value_parser = clap::value_parser!(u8).range(..=100)
    )]
    pub batches: u8,
    /// Percent of the operations that are transactions, as long as batches.
    #[arg(
        long,
        value_name = "P",
        default_value_t = 10,
        value_parser = clap::value_parser!(u8).range(..=100)
    )]
    pub transactions: u8,
    /// Where the pools are. Without it, in turn: memory, and a disk with each durability.
    #[arg(long, value_name = "WHERE")]
    pub medium: Option<Place>,
    /// What the pools on a disk promise. Without it, each in turn.
    #[arg(long, value_name = "MODE", value_parser = str::parse::<DurabilityMode>)]
    pub durability: Option<DurabilityMode>,
    /// Kind of keys [default: bytes, where the engine has them].
    #[arg(long, value_name = "KIND")]
    pub keys: Option<Keys>,
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
    /// Make the pools at this path, which must not exist, instead of on /dev/shm and in the
    /// temporary folder.
    #[arg(long, value_name = "PATH")]
    pub pool: Option<PathBuf>,
}

/// Where a pool is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Place {
    /// On /dev/shm.
    Memory,
    /// In the temporary folder, by a log.
    Disk,
}

/// What the hidden command is told.
#[derive(Debug, clap::Args)]
pub struct WriterArgs {
    pool: PathBuf,
    threads: u8,
    batches: u8,
    transactions: u8,
    seed: u64,
    rtm: Rtm,
}

/// A third of the simulated ones abort.
fn processor_transactions(rtm: Rtm) -> Result<Transactions, Failure> {
    rtm.with(1, InjectedAborts::OneIn(3))
}

/// Tortures.
pub fn run(args: Args) -> Outcome {
    let engine = args.engine.get()?;
    if args.threads > 1 && !engine.is_concurrent() {
        return Err(Failure::usage(format!("{engine} is single-threaded; use --threads 1")));
    }
    let has_bytes = engine.has_keys(KeyType::Bytes);
    let usual = if has_bytes { KeyType::Bytes } else { KeyType::U64 };
    let key_type = args.keys.map_or(usual, KeyType::from);
    let rtm = processor_transactions(args.rtm)?;
    let program = std::env::current_exe()
        .map_err(|e| Failure::failed(format!("this program cannot be found again: {e}")))?;
    let child = |pool: &Path, Course { threads, batches, transactions, seed }: Course| {
        let mut command = Command::new(&program);
        command.arg(WRITER).arg(pool).args([
            threads.to_string(),
            batches.to_string(),
            transactions.to_string(),
            seed.to_string(),
            args.rtm.to_string(),
        ]);
        command
    };
    let bar = steps_bar(args.kills);
    let (mut report, place) = (TortureReport::default(), swept(args.pool.clone())?);
    for (pool, (medium, durability)) in (0..).zip(turns(&args, engine).into_iter().cycle()) {
        let before = report.kills;
        if before >= args.kills {
            break;
        }
        let create = CreateOptions::new()
            .engines(all())
            .engine(engine)
            .key_type(key_type)
            .size_bytes(POOL_BYTES)
            .max_size_bytes(MAX_POOL_BYTES);
        let create = match durability {
            Some(mode) => create.durability(mode),
            None => create,
        };
        let (scratch, store) = match medium {
            Place::Memory => ScratchPool::create(&place, &create)?,
            Place::Disk => ScratchPool::create_on_disk(&place, &create)?,
        };
        store.close()?;
        let options = TortureOptions {
            engine,
            threads: args.threads,
            kills: KILLS_PER_POOL.min(args.kills - before),
            batches: args.batches,
            transactions: args.transactions,
            seed: args.seed.wrapping_add(pool),
            pool: scratch.path().to_path_buf(),
            rtm,
        };
        let of_pool = torture(&options, &child, &mut |kills| bar.set_position(before + kills));
        report.add(of_pool.map_err(failure)?);
    }
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

/// Where the pools are, one after the other, and what they promise; none: what there is.
fn turns(args: &Args, engine: Engine) -> Vec<(Place, Option<DurabilityMode>)> {
    let buffered = engine.contract() == Contract::Buffered;
    let on_disk = match args.durability {
        Some(mode) => vec![mode],
        None if buffered => vec![BRIEF],
        None => vec![DurabilityMode::Immediate, BRIEF, DurabilityMode::Process],
    };
    let on_disk = on_disk.into_iter().map(|mode| (Place::Disk, Some(mode)));
    let in_memory = std::iter::once((Place::Memory, buffered.then_some(BRIEF)));
    match args.medium {
        Some(Place::Memory) => in_memory.collect(),
        Some(Place::Disk) => on_disk.collect(),
        None => in_memory.chain(on_disk).collect(),
    }
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
            openings,
            operations,
            batches,
            transactions,
            cut_batches,
            lost,
            phantom,
            damaged,
            reopen_ms_max,
            concurrency,
            contract,
            syncs,
            ran,
        } = report;
        let ran: Vec<&str> = ran.iter().map(String::as_str).collect();
        let ran = ran.join("; ");
        writeln!(
            out,
            "{engine} ({concurrency}, {contract}) in {ran}: killed {kills} times, and {openings} \
            times while it opened; {operations} operations returned, {batches} of them batches and \
            {transactions} transactions, and {syncs} syncs; {cut_batches} batches and transactions \
            cut; lost {lost}, phantom {phantom}, damaged {damaged}; longest reopening \
            {reopen_ms_max} ms"
        )
    };
    shown.map_err(|e| Failure::output(&e))
}

/// Writes until it is killed.
pub fn run_writer(args: WriterArgs) -> Outcome {
    let WriterArgs { pool, threads, batches, transactions, seed, rtm } = args;
    let course = Course { threads, batches, transactions, seed };
    torture_child(&pool, processor_transactions(rtm)?, course, std::io::stdout()).map_err(failure)
}

fn failure(error: TortureError) -> Failure {
    Failure::failed(error.to_string())
}
