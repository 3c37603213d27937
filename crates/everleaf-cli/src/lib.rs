//! The command line `everleaf`, and what the laboratory's program has in common with it: exit codes
//! and their sentences, sizes, bars, options of engines.
//!
//! Map of the files: `cli` (the command line) · `commands/` (one file a command) · `lab` (commands
//! of the laboratory's program) · `load/` (the files that `load` reads) · `input` (opening them) ·
//! `internal` (for the fuzzer) · `open` (a pool, wherever it is open) ·
//! `target` (which tree, which keys) · `keys` (arguments as keys) · `arguments` (kinds of
//! keys) · `names` (what completions offer) · `failure` (exit codes and sentences)
//! · `size` (64KiB) · `escape` (what `scan` shows) · `progress` (bars) · `rtm` (which
//! transactions) · `scratch` (the pool that the tour makes for itself) · `signals`
//! (what does not kill at once) · `truncation` (the file of an open pool became shorter).
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod arguments;
mod cli;
mod commands;
mod digits;
mod escape;
pub mod failure;
mod forms;
mod input;
#[doc(hidden)]
pub mod internal;
mod key_forms;
mod keys;
mod lab;
mod load;
pub mod names;
mod open;
pub mod progress;
pub mod rtm;
mod scratch;
pub mod signals;
pub mod size;
mod target;
mod truncation;

use std::process::ExitCode;

pub use self::cli::run;
pub use self::commands::{completions, dump, serve};
use self::failure::Outcome;

/// Does what a command line says, and reports how it ends.
pub fn finish(run: impl FnOnce() -> Outcome) -> ExitCode {
    match signals::prepare().and_then(|()| run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// For tests: every command below this one shows an example in its help.
pub fn every_command_shows_an_example(command: &clap::Command) {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    assert!(help.contains("Example"), "{}", command.get_name());
    command.get_subcommands().for_each(every_command_shows_an_example);
}
