//! The binary `everleaf`.
//!
//! Map of the files: `cli` (the command line) · `commands/` (one file a command) · `load/` (the
//! files that `load` reads) · `input` (opening them) · `target` (which tree, which keys) · `keys`
//! (arguments as keys) · `names` (what completions offer) · `failure` (exit codes and sentences) ·
//! `size` (64KiB) · `escape` (what `scan` shows) · `progress` (bars) · `scratch` (pools that a
//! command makes for itself) · `signals` (what does not kill at once).
#![forbid(unsafe_code)]

mod cli;
mod commands;
mod escape;
mod failure;
mod input;
mod keys;
mod load;
mod names;
mod progress;
mod rtm;
mod scratch;
mod signals;
mod size;
mod target;

use std::process::ExitCode;

fn main() -> ExitCode {
    match signals::survive_file_size_limit().and_then(|()| cli::run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
