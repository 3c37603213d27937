//! `tour`: the newcomer's first minute. Each step does what it says on a real pool and prints what
//! came out.

mod steps;
mod writer;

use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use everleaf::{CreateOptions, Durability};

use crate::failure::{Failure, Outcome};
use crate::scratch::ScratchPool;
use crate::size::display_size;

pub use writer::{NAME as WRITER, WriterArgs, run as run_writer};

/// See in a few seconds what Everleaf does: load real data, read it, kill a writer, and lose
/// nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  everleaf tour")]
pub struct Args {
    /// Make the pool at this path, which must not exist, instead of on /dev/shm or in the temporary
    /// folder. It is removed at the end.
    #[arg(long, value_name = "PATH")]
    pool: Option<PathBuf>,
}

/// The words that the tour loads; see `data/README.md`.
const WORDS: &str = include_str!("../../data/words.txt");
/// Enough for the words and for what the killed writer can have written.
const POOL_BYTES: u64 = 64 << 20;

/// Shows.
pub fn run(args: Args) -> Outcome {
    let began = Instant::now();
    let mut guide = Guide::default();
    guide.say(
        "A tour of Everleaf: an ordered key-value store that restarts in milliseconds and \
        loses nothing.",
    )?;
    let options = CreateOptions::new().size_bytes(POOL_BYTES);
    let (made, took) = timed(|| ScratchPool::create(args.pool, &options));
    let (pool, store) = made?;
    let (engine, path, size) = (store.engine(), pool.path().display(), display_size(POOL_BYTES));
    guide.step(&format!("Made the pool {path} of {size} with the engine {engine}"), took)?;
    guide.say(match store.capabilities().durability {
        Durability::PowerFail => "   What it acknowledges survives a power failure.",
        _ => {
            "   On this medium, what it acknowledges survives the death of the process; on \
            persistent memory and on a disk, a power failure too."
        }
    })?;
    steps::load(&mut guide, &store)?;
    steps::read(&mut guide, &store)?;
    let on_a_disk = steps::waits_for_a_disk(&store)?;
    store.close()?;
    let acknowledged = steps::kill_a_writer(&mut guide, pool.path(), on_a_disk)?;
    steps::reopen_and_verify(&mut guide, pool.path(), acknowledged)?;
    let (_, took) = timed(|| drop(pool));
    guide.step("Removed the pool", took)?;
    guide.say(&format!(
        "\nThat was all, in {}. Make a pool of your own:",
        display_duration(began.elapsed())
    ))?;
    guide.say(
        "  everleaf create my.pool && everleaf put my.pool hello world && everleaf scan my.pool",
    )
}

/// Numbers the steps and prints them.
#[derive(Debug, Default)]
struct Guide {
    steps: u32,
}

impl Guide {
    fn say(&self, line: &str) -> Outcome {
        let mut output = std::io::stdout().lock();
        writeln!(output, "{line}")
            .and_then(|()| output.flush())
            .map_err(|error| Failure::output(&error))
    }

    fn step(&mut self, done: &str, took: Duration) -> Outcome {
        self.steps += 1;
        self.say(&format!("\n{}. {done}. [{}]", self.steps, display_duration(took)))
    }
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed())
}

fn display_duration(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds >= 1.0 {
        format!("{seconds:.1} s")
    } else if seconds >= 1e-3 {
        format!("{:.1} ms", seconds * 1e3)
    } else {
        format!("{:.1} µs", seconds * 1e6)
    }
}
