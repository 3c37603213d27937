//! `completions` and `man`: what a packager installs.

use std::io::Write;
use std::path::PathBuf;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::failure::{Failure, Outcome};

/// Print the completions of a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  everleaf completions bash > ~/.local/share/bash-completion/completions/everleaf
  everleaf completions fish > ~/.config/fish/completions/everleaf.fish")]
pub struct CompletionArgs {
    /// The shell.
    shell: Shell,
}

/// Print the manual page, or write the pages of all commands to a folder.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  everleaf man | man -l -
  everleaf man /usr/local/share/man/man1")]
pub struct ManArgs {
    /// The folder, which must exist; files of the same names are replaced.
    folder: Option<PathBuf>,
}

/// Prints completions.
pub fn run(args: CompletionArgs) -> Outcome {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "everleaf", &mut text);
    show(&text)
}

/// Prints or writes manual pages.
pub fn run_man(args: ManArgs) -> Outcome {
    let command = Cli::command();
    match args.folder {
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(command)
                .render(&mut page)
                .map_err(|error| Failure::output(&error))?;
            show(&page)
        }
        Some(folder) => clap_mangen::generate_to(command, &folder).map_err(|error| {
            Failure::failed(format!("the pages cannot be written to {}: {error}", folder.display()))
        }),
    }
}

fn show(text: &[u8]) -> Outcome {
    let mut output = std::io::stdout().lock();
    output.write_all(text).and_then(|()| output.flush()).map_err(|error| Failure::output(&error))
}
