//! The binary `everleaf`: see the library of this crate.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    everleaf_cli::finish(everleaf_cli::run)
}
