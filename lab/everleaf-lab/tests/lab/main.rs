//! The laboratory's program from outside. One program, because each is compiled and linked apart.

mod bad_input;
mod bench;
#[path = "../../../../crates/everleaf-cli/tests/cli/common/mod.rs"]
mod common;
mod explore_scripts;
mod serve;
mod signals;
mod torture;

/// The program that is run.
const PROGRAM: &str = env!("CARGO_BIN_EXE_everleaf-lab");
