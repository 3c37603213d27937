//! `completions`: what shells complete by.

use std::io::Write;

use clap::CommandFactory;
use clap_complete::Shell;

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

/// Prints completions of the program `P`.
pub fn run<P: CommandFactory>(args: CompletionArgs) -> Outcome {
    let mut command = P::command();
    let (mut text, name) = (Vec::new(), command.get_name().to_owned());
    clap_complete::generate(args.shell, &mut command, name, &mut text);
    show(&text)
}

/// Writes a text to standard output.
pub fn show(text: &[u8]) -> Outcome {
    let mut output = std::io::stdout().lock();
    output.write_all(text).and_then(|()| output.flush()).map_err(|error| Failure::output(&error))
}
