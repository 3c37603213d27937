//! `create`: the only command that makes a pool.

use std::path::PathBuf;

use everleaf::{CreateOptions, DurabilityMode, Engine};

use crate::arguments::Keys;
use crate::failure::{Failure, Outcome};
use crate::names;
use crate::size::{display_size, parse_size};

/// Make a new, empty pool. A file that exists already is refused.
#[derive(Debug, clap::Args)]
#[command(after_help = after_help())]
pub struct Args {
    /// The file to make; on a DAX file system and on an ordinary disk it survives a power failure,
    /// on tmpfs a crash of the process.
    pool: PathBuf,
    /// The tree that keeps the keys in order: `fptree-c` for nearly all, `fptree` for one thread
    /// that writes, `circtree` to open at once, `masstree` to write as fast as in memory and lose
    /// 64 ms by a crash. The others are listed below.
    #[arg(
        long,
        value_name = "E",
        default_value_t = Engine::default().name().to_owned(),
        value_parser = names::engines(),
        hide_possible_values = true
    )]
    engine: String,
    /// Size of the file at first: bytes, or with a unit. The pool grows by itself.
    #[arg(
        long,
        value_name = "S",
        default_value = "1MiB",
        value_parser = parse_size,
        allow_hyphen_values = true
    )]
    size: u64,
    /// The size up to which the pool may grow [default: as far as its address reservation allows].
    #[arg(long, value_name = "S", value_parser = parse_size, allow_hyphen_values = true)]
    max_size: Option<u64>,
    /// Kind of keys.
    #[arg(long, value_name = "KIND", default_value = "bytes")]
    keys: Keys,
    /// When a write that has returned is durable: immediate (at once), buffered or buffered=MS (a
    /// crash loses at most about the last MS milliseconds), process (a write survives only the
    /// death of the process). On an ordinary disk the first two make a log beside the pool, the
    /// folder POOL.log; engines of epochs (masstree) offer buffered only [default: immediate; on
    /// tmpfs process; with engines of epochs buffered=64].
    #[arg(long, value_name = "MODE", value_parser = str::parse::<DurabilityMode>)]
    durability: Option<DurabilityMode>,
    /// Make the log in this folder, which must not exist, and a link to it beside the pool.
    #[arg(long, value_name = "FOLDER")]
    log: Option<PathBuf>,
}

fn after_help() -> String {
    let engines = Engine::available().map(Engine::name).collect::<Vec<_>>().join(", ");
    format!(
        "\
Examples:
  everleaf create words.pool
  everleaf create words.pool --log /mnt/fast/words.log
  everleaf create numbers.pool --keys u64 --engine fptree --size 64MiB

Engines: {engines}. What each is for: docs/guide.md, \"Choosing an engine\"."
    )
}

/// Creates.
pub fn run(args: Args) -> Outcome {
    if let Some(max_size) = args.max_size.filter(|max_size| *max_size < args.size) {
        let (size, max_size) = (display_size(args.size), display_size(max_size));
        return Err(Failure::usage(format!(
            "--max-size {max_size} is less than --size {size}; make it larger"
        )));
    }
    let mut options = CreateOptions::new()
        .engine(args.engine.parse()?)
        .key_type(args.keys.into())
        .size_bytes(args.size);
    (options.max_size_bytes, options.durability) = (args.max_size, args.durability);
    options.log_folder = args.log;
    Ok(options.create_closed(&args.pool)?)
}
