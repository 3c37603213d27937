//! Signals that do not kill at once.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use everleaf_bench::Scratch;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::failure::{Failure, Outcome};

/// Lets a write beyond the limit of a file's size (`ulimit -f`) fail with an error, which is told as a full disk is, instead of killing the process.
/// The signal is caught and not ignored: programs that this one starts find it as it was.
pub fn survive_file_size_limit() -> Outcome {
    let caught = Arc::new(AtomicBool::new(false)); // Nobody asks: the write itself reports it.
    signal_hook::flag::register(SIGXFSZ, caught).map(drop).map_err(unusable)
}

/// A place for pools that do not stay: `pool`, or one of its own. They are removed before a signal that ends the process does so. Asked for once in a command.
pub fn swept(pool: Option<PathBuf>) -> Result<Scratch, Failure> {
    let scratch = Scratch::at(pool);
    let ignored = ignored_signals();
    let ending = [SIGHUP, SIGINT, SIGTERM].into_iter().filter(|signal| ignored & 1 << (signal - 1) == 0);
    let mut signals = Signals::new(ending).map_err(unusable)?;
    let swept = scratch.clone();
    let sweep = move || {
        if let Some(signal) = signals.forever().next() {
            // Dies by the signal, so that whoever waits for the process sees why.
            swept.end(|| drop(emulate_default_handler(signal)));
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(sweep).map_err(unusable)?;
    Ok(scratch)
}

/// The signals that this process was started to ignore, by `nohup` for instance: a bit each, the lowest is signal 1. It goes on ignoring them.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

fn unusable(error: std::io::Error) -> Failure {
    Failure::failed(format!("signals cannot be caught: {error}"))
}
