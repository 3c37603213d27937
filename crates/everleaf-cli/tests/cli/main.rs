//! The command line from outside. One program, because each is compiled and linked apart.

mod backup;
mod bad_input;
#[cfg(feature = "cluster")]
mod cluster;
mod commands;
mod common;
mod elsewhere;
mod faults;
mod forms;
mod full_disk;
mod inspect;
mod kill;
mod laboratory;
mod load;
mod log_folders;
mod options;
mod scan;
mod serve;
mod signals;
mod system_calls;
mod terminal;
mod tour;
mod trees;
mod truncation;

/// The program that is run.
const PROGRAM: &str = env!("CARGO_BIN_EXE_everleaf");
