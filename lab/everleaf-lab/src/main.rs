//! The binary `everleaf-lab`: what proves and measures the product.
//!
//! Map of the files: `cli` (the command line) · `explore`, `torture`, `bench` (a command each) ·
//! `names` (what completions offer) · `failure` · `scratch` (pools that a command
//! makes for itself). What it has in common with the command line of the product, such as exit
//! codes, sizes and bars, is everleaf-cli's.
#![forbid(unsafe_code)]

mod bench;
mod cli;
mod explore;
mod failure;
mod names;
mod parameters;
mod scratch;
mod torture;

use std::process::ExitCode;

fn main() -> ExitCode {
    everleaf_cli::finish(cli::run)
}
