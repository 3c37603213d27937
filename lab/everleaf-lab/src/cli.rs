//! The command line of the laboratory: its names are a contract.

use clap::{Parser, Subcommand};
use everleaf::OpenOptions;
use everleaf_cli::completions::{self, CompletionArgs};
use everleaf_cli::failure::Outcome;
use everleaf_cli::{dump, serve};
use everleaf_engines::all;

use crate::{bench, explore, torture};

/// Prove and measure Everleaf: explore crashes, kill writers, benchmark engines.
#[derive(Debug, Parser)]
#[command(
    name = "everleaf-lab",
    version,
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true
)]
#[command(after_help = "\
Example:
  everleaf-lab explore --engine fptree --ops 20 --seed 1
  everleaf-lab torture --kills 20
  everleaf-lab bench micro --engine fptree --keys 100000

Exit codes: 0 success, 1 failure (one sentence on stderr), 2 wrong usage.
`everleaf bench`, `everleaf explore` and `everleaf torture` run this program.")]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Bench(bench::Args),
    Explore(explore::Args),
    Torture(torture::Args),
    Dump(dump::Args),
    Completions(CompletionArgs),
}

/// What this program runs itself as: no part of the contract, so help does not list it.
#[derive(Debug, Parser)]
struct Internal {
    #[command(subcommand)]
    command: InternalCommand,
}

#[derive(Debug, Subcommand)]
enum InternalCommand {
    /// The process that torture kills.
    #[command(name = torture::WRITER)]
    TortureWriter(torture::WriterArgs),
    /// The server that `bench serve` measures.
    #[command(name = everleaf_bench::serve::SERVER)]
    Serve(Box<serve::Args>),
}

/// Does what the command line of this process says; wrong usage ends it.
pub fn run() -> Outcome {
    let internal = [torture::WRITER, everleaf_bench::serve::SERVER];
    if std::env::args_os().nth(1).is_some_and(|first| internal.iter().any(|name| first == *name)) {
        return match Internal::parse().command {
            InternalCommand::TortureWriter(args) => torture::run_writer(args),
            InternalCommand::Serve(args) => {
                serve::run_with(*args, OpenOptions::new().engines(all()))
            }
        };
    }
    match Cli::parse().command {
        Command::Bench(args) => bench::run(args),
        Command::Explore(args) => explore::run(args),
        Command::Torture(args) => torture::run(args),
        Command::Dump(args) => dump::run_with(args, &OpenOptions::new().engines(all())),
        Command::Completions(args) => completions::run::<Cli>(args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definitions_are_consistent() {
        Cli::command().debug_assert();
        Internal::command().debug_assert();
    }

    #[test]
    fn commands_that_show_what_the_papers_show_are_commands() {
        for one in crate::bench::figure::the_evidence() {
            let Some(command) = &one.command else { continue };
            let words = shell_words::split(command).unwrap();
            if let Err(error) = Cli::try_parse_from(&words) {
                panic!("{}, {}: {command}: {error}", one.paper, one.place);
            }
            assert_eq!(words[..2], ["everleaf-lab", "bench"], "{command}");
        }
    }

    #[test]
    fn every_command_shows_an_example() {
        everleaf_cli::every_command_shows_an_example(&Cli::command());
    }
}
