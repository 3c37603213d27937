//! `bench stores`.

use std::path::PathBuf;

use everleaf_bench::{
    BenchKeyType, MicroOptions, Reopened, StoresOptions, StoresRow, reopen_store,
    run_stores_with_progress,
};

use super::subject::{FlushKind, Scheme};
use super::{Durability, show, with_bar};
use everleaf_cli::failure::{Failure, Outcome};
use everleaf_cli::size::parse_size;

/// Put, get, replace and scan in the store and in its peers, in turn: the same keys and medium, and
/// with each number what a write survives.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Each store has the settings by which an acknowledged write survives what --durability says: see
docs/benchmarks.md. The ratio is to the first; `best other` is the ratio to the fastest of the
others, `to raw` that to a loop of one thread that appends a block and syncs it. Threads are the
clients: each waits for its own writes.

Example:
  everleaf-lab bench stores --keys 1000000 --threads 1,2 --rounds 3 --json
  everleaf-lab bench stores --durability immediate --keys 20000 --threads 1,8,64")]
pub struct Args {
    /// The stores, with commas between.
    #[arg(
        long,
        value_name = "A,B,..",
        value_delimiter = ',',
        default_value = "lmdb,redb,fjall,store"
    )]
    engines: Vec<String>,
    /// Keys: random strings of 16 bytes.
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    keys: u64,
    /// Scans of 100 records [default: a twentieth of the keys].
    #[arg(long, value_name = "N")]
    scans: Option<u64>,
    /// Bytes of a value, at least 8.
    #[arg(long, value_name = "B", default_value_t = 100)]
    value_bytes: u32,
    /// Numbers of threads, with commas between.
    #[arg(long, value_name = "T,..", value_delimiter = ',', default_value = "1,2")]
    threads: Vec<u32>,
    /// What a write waits for: a sync, shared with others who wait; nothing but that it outlives
    /// the process, with a bound for what is lost with the machine where a store has one; or the
    /// process alone, without a log.
    #[arg(long, value_enum, default_value = "process")]
    durability: Durability,
    /// Keys that are inserted or replaced together, all or none; an operation is a key.
    #[arg(long, value_name = "N", default_value_t = 1)]
    batch: u32,
    /// The cache of a peer that has one.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "1GiB")]
    cache: u64,
    /// How often each is measured.
    #[arg(long, value_name = "R", default_value_t = 3)]
    rounds: u32,
    /// The flush instruction of our store.
    #[arg(long, default_value = "auto")]
    flush: FlushKind,
    /// Measure no more than how long it takes until the store answers that is in this folder, which
    /// a run of `bench stores` with one of --engines has left when it was killed.
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["scans", "batch", "rounds"])]
    reopen: Option<PathBuf>,
    #[command(flatten)]
    scheme: Scheme,
    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,
}

/// Measures.
pub fn run(args: Args) -> Outcome {
    let micro = MicroOptions {
        keys: args.keys,
        scans: args.scans,
        key_type: BenchKeyType::String16,
        value_bytes: Some(args.value_bytes),
        flush: args.flush.into(),
        transactions: args.scheme.transactions()?,
        acknowledged: args.durability.into(),
        batch: args.batch,
        cache_bytes: args.cache,
        seed: args.scheme.basics.seed,
        pool: args.scheme.basics.place()?,
        ..MicroOptions::default()
    };
    if let Some(folder) = &args.reopen {
        let [engine] = &args.engines[..] else {
            return Err(Failure::usage("--reopen is of one store: name it with --engines"));
        };
        let micro = MicroOptions { engine: engine.clone(), ..micro };
        let reopened = with_bar(|_| reopen_store(&micro, folder))?;
        let row = |of: &Reopened| format!("{:<8} {:>8.2} {:>9}", of.engine, of.open_ms, of.keys);
        return show(&[reopened], args.json, "store     open ms      keys".into(), row);
    }
    let options =
        StoresOptions { engines: args.engines, threads: args.threads, rounds: args.rounds, micro };
    let rows = with_bar(|tell| run_stores_with_progress(&options, tell))?;
    show(&rows, args.json, StoresRow::table_heading(), StoresRow::table_row)
}
