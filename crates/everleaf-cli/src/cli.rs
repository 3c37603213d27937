//! The command line: its names are a contract.

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};

#[cfg(feature = "cluster")]
use crate::commands::cluster;
use crate::commands::{
    cas, check, completions, copy, count, create, del, drop, dump, expire, get, incr, info, load,
    man, put, restore, scan, serve, shell, tour, trees, ttl, upgrade,
};
use crate::failure::{Failure, Outcome};
use crate::lab;

/// An ordered key-value store for persistent memory that restarts in milliseconds and loses
/// nothing.
#[derive(Debug, Parser)]
#[command(
    name = "everleaf",
    version,
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true
)]
#[command(after_help = "\
Example:
  everleaf create words.pool
  everleaf put words.pool leaf 'a blade of a plant'
  everleaf get words.pool leaf

Exit codes: 0 success, 1 failure (one sentence on stderr), 2 wrong usage.
New here? `everleaf tour` shows what it can do in a few seconds.")]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Create(create::Args),
    Load(load::Args),
    Put(put::Args),
    Get(get::Args),
    Del(del::Args),
    Scan(scan::Args),
    Count(count::Args),
    Cas(cas::Args),
    Incr(incr::Args),
    Ttl(ttl::Args),
    Expire(expire::Args),
    Persist(expire::PersistArgs),
    Trees(trees::Args),
    Drop(drop::Args),
    Dump(dump::Args),
    Restore(restore::Args),
    Copy(copy::Args),
    Upgrade(upgrade::Args),
    Shell(shell::Args),
    Info(info::Args),
    Check(check::Args),
    Serve(Box<serve::Args>),
    #[cfg(feature = "cluster")]
    Cluster(cluster::Args),
    /// Measure engines (a command of the program everleaf-lab).
    #[command(after_help = "Example:\n  everleaf bench micro --engine fptree --keys 100000")]
    Bench(lab::Words),
    /// Explore every state that a power failure can leave (of everleaf-lab).
    #[command(after_help = "Example:\n  everleaf explore --engine fptree --ops 20 --seed 1")]
    Explore(lab::Words),
    /// Kill a writing process again and again, and compare (of everleaf-lab).
    #[command(after_help = "Example:\n  everleaf torture --kills 20")]
    Torture(lab::Words),
    Tour(tour::Args),
    Completions(completions::CompletionArgs),
    Man(man::Args),
}

/// What this program runs itself as: no part of the contract, so not among the commands that help,
/// completions and manual pages list.
#[derive(Debug, Parser)]
struct Internal {
    #[command(subcommand)]
    command: InternalCommand,
}

#[derive(Debug, Subcommand)]
enum InternalCommand {
    /// The process that the tour kills.
    #[command(name = tour::WRITER)]
    TourWriter(tour::WriterArgs),
}

/// Does what the command line of this process says; wrong usage ends it.
pub fn run() -> Outcome {
    if std::env::args_os().nth(1).is_some_and(|first| first == tour::WRITER) {
        let InternalCommand::TourWriter(args) = Internal::parse().command;
        return tour::run_writer(args);
    }
    match Cli::try_parse() {
        Ok(cli) => cli.run(),
        Err(error) if asks_among_keys(&error) => Err(Failure::usage(
            "put --help or --version directly after the command; write `--` before keys and values \
            that begin with `-`",
        )),
        Err(error) => error.exit(),
    }
}

/// Whether the help or the version was asked for where a key or a value is expected: a script that
/// stores a key `-h` must not take a printed help for success.
fn asks_among_keys(error: &clap::Error) -> bool {
    let mut arguments = std::env::args_os().skip(1);
    let (name, next) = (arguments.next(), arguments.next().unwrap_or_default());
    let command = name.and_then(|name| Cli::command().find_subcommand(name).cloned());
    let takes_keys = command.is_some_and(|command| {
        command.get_positionals().any(|argument| argument.get_id() == "key")
    });
    let asks = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    takes_keys && asks && !["-h", "--help", "-V", "--version"].iter().any(|word| next == *word)
}

impl Cli {
    /// Does what the command line says.
    fn run(self) -> Outcome {
        match self.command {
            Command::Create(args) => create::run(args),
            Command::Load(args) => load::run(args),
            Command::Put(args) => put::run(args),
            Command::Get(args) => get::run(args),
            Command::Del(args) => del::run(args),
            Command::Scan(args) => scan::run(args),
            Command::Count(args) => count::run(args),
            Command::Cas(args) => cas::run(args),
            Command::Incr(args) => incr::run(args),
            Command::Ttl(args) => ttl::run(args),
            Command::Expire(args) => expire::run(args),
            Command::Persist(args) => expire::run_persist(args),
            Command::Trees(args) => trees::run(args),
            Command::Drop(args) => drop::run(args),
            Command::Dump(args) => dump::run(args),
            Command::Restore(args) => restore::run(args),
            Command::Copy(args) => copy::run(args),
            Command::Upgrade(args) => upgrade::run(args),
            Command::Shell(args) => shell::run(args),
            Command::Info(args) => info::run(args),
            Command::Check(args) => check::run(args),
            Command::Serve(args) => serve::run(*args),
            #[cfg(feature = "cluster")]
            Command::Cluster(args) => cluster::run(args),
            Command::Bench(words) => lab::run("bench", words),
            Command::Explore(words) => lab::run("explore", words),
            Command::Torture(words) => lab::run("torture", words),
            Command::Tour(args) => tour::run(args),
            Command::Completions(args) => completions::run::<Self>(args),
            Command::Man(args) => man::run::<Self>(args),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_are_consistent() {
        Cli::command().debug_assert();
        Internal::command().debug_assert();
    }

    #[test]
    fn every_command_shows_an_example() {
        crate::every_command_shows_an_example(&Cli::command());
    }
}
