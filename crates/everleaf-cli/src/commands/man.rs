//! `man`: the manual pages, made of what `--help` says.

use std::io;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use super::completions::show;
use crate::failure::{Failure, Outcome};

/// Print the manual page, or write the pages of all commands to a folder.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  everleaf man | man -l -
  everleaf man /usr/local/share/man/man1")]
pub struct Args {
    /// The folder, which must exist; files of the same names are replaced.
    folder: Option<PathBuf>,
}

/// The statuses of every command, with what they mean.
const STATUSES: &[(&str, &str)] = &[
    ("0", "Success."),
    (
        "1",
        "Failure, or a negative answer: a missing key, a check that found something. One \
        sentence on standard error says what happened and what to do.",
    ),
    ("2", "Wrong usage."),
];

/// Files that commands read or write, with what they are.
const FILES: &[(&str, &str)] = &[
    ("POOL", "The pool. One process at a time writes to it."),
    (
        "POOL.log",
        "The folder of its log, on an ordinary disk. The two belong together: move or copy \
        both, while no process has the pool open.",
    ),
    (
        "NAME.unfinished",
        "What a copy, a dump or a salvaged pool is called until it is complete. If a \
        process was killed meanwhile it can be removed.",
    ),
    ("~/.everleaf_history", "The lines of the shell."),
];

/// Prints or writes the pages of the program `P`.
pub fn run<P: CommandFactory>(args: Args) -> Outcome {
    let mut command = P::command().disable_help_subcommand(true);
    command.build(); // Subcommands get their full names.
    match args.folder {
        None => {
            let mut text = Vec::new();
            page(&command, None, &mut text).map_err(|error| Failure::output(&error))?;
            show(&text)
        }
        Some(folder) => pages(&command, &folder).map_err(|error| {
            Failure::failed(format!("the pages cannot be written to {}: {error}", folder.display()))
        }),
    }
}

/// Writes the page of a command, and those of its subcommands.
fn pages(command: &Command, folder: &Path) -> io::Result<()> {
    write_pages(command, None, folder)
}

fn write_pages(command: &Command, parent: Option<&Command>, folder: &Path) -> io::Result<()> {
    let mut text = Vec::new();
    page(command, parent, &mut text)?;
    std::fs::write(folder.join(Man::new(command.clone()).get_filename()), text)?;
    let shown = command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set());
    shown.into_iter().try_for_each(|subcommand| write_pages(subcommand, Some(command), folder))
}

/// One page.
fn page(command: &Command, parent: Option<&Command>, text: &mut Vec<u8>) -> io::Result<()> {
    let man = Man::new(command.clone()).manual("Everleaf");
    man.render_title(text)?;
    man.render_name_section(text)?;
    synopsis(command).to_writer(text)?;
    man.render_description_section(text)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        man.render_options_section(text)?;
    }
    if command.has_subcommands() {
        man.render_subcommands_section(text)?;
    }
    listed("EXIT STATUS", STATUSES).to_writer(text)?;
    listed("FILES", FILES).to_writer(text)?;
    if let Some(help) = command.get_after_long_help().or(command.get_after_help()) {
        after_help(&help.to_string()).to_writer(text)?;
    }
    if let Some(parent) = parent {
        let mut roff = Roff::new();
        roff.control("SH", ["SEE ALSO"]);
        roff.text([bold(name_of(parent)), roman("(1)")]);
        roff.to_writer(text)?;
    } else {
        man.render_version_section(text)?;
    }
    Ok(())
}

/// How the command is written: its options with what follows them, and what stands behind them.
fn synopsis(command: &Command) -> Roff {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let shown = command.get_arguments().filter(|argument| !argument.is_hide_set());
    let (mut words, options): (Vec<_>, Vec<_>) =
        shown.partition(|argument| argument.is_positional());
    words.sort_by_key(|word| word.get_index());
    let mut line = vec![bold(name)];
    for option in options {
        let text =
            if option.is_required_set() { format!(" {option}") } else { format!(" [{option}]") };
        line.push(roman(text));
    }
    line.extend(words.iter().map(|word| roman(format!(" {word}"))));
    if command.has_subcommands() {
        line.push(roman(" <COMMAND>"));
    }
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]);
    roff.text(line);
    roff
}

/// What its page is called.
fn name_of(command: &Command) -> String {
    command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned()
}

/// A section of words with what they mean.
fn listed(section: &str, items: &[(&str, &str)]) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", [section]);
    for (word, meaning) in items {
        roff.control("TP", []);
        roff.text([bold(*word)]);
        roff.text([roman(*meaning)]);
    }
    roff
}

/// What stands below a help text: examples as they are typed, and whatever else there is, line for
/// line.
fn after_help(help: &str) -> Roff {
    let mut roff = Roff::new();
    let examples = help.starts_with("Example");
    roff.control("SH", [if examples { "EXAMPLES" } else { "NOTES" }]);
    roff.control("nf", []);
    for line in help.lines().skip(usize::from(examples)) {
        if line.is_empty() {
            roff.control("sp", []);
        } else {
            roff.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
        }
    }
    roff.control("fi", []);
    roff
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;

    #[test]
    fn every_page_says_what_its_statuses_files_and_examples_are() {
        let mut command = Cli::command().disable_help_subcommand(true);
        command.build();
        for subcommand in command.get_subcommands().filter(|command| !command.is_hide_set()) {
            let mut text = Vec::new();
            page(subcommand, Some(&command), &mut text).unwrap();
            let text = String::from_utf8(text).unwrap();
            for section in ["NAME", "SYNOPSIS", "\"EXIT STATUS\"", "FILES", "\"SEE ALSO\""] {
                assert!(text.contains(&format!(".SH {section}")), "{section}: {text}");
            }
            assert!(!text.contains(".SH EXTRA"), "{text}");
        }
    }

    #[test]
    fn synopses_have_the_values_of_options() {
        let mut command = Cli::command().disable_help_subcommand(true);
        command.build();
        let text_of = |command| synopsis(command).render().replace("\\-", "-");
        for subcommand in command.get_subcommands() {
            let text = text_of(subcommand);
            for argument in subcommand.get_arguments().filter(|argument| !argument.is_hide_set()) {
                assert!(
                    text.contains(&format!(" {argument}"))
                        || text.contains(&format!(" [{argument}]")),
                    "{argument}: {text}"
                );
            }
        }
        let text = text_of(command.find_subcommand("put").unwrap());
        assert!(
            text.contains(" [--ttl <TIME>]") && text.contains(" <POOL> <KEY> [VALUE]"),
            "{text}"
        );
    }

    #[test]
    fn no_page_shows_an_escaped_quote() {
        let mut command = Cli::command().disable_help_subcommand(true);
        command.build();
        for subcommand in command.get_subcommands() {
            let mut text = Vec::new();
            page(subcommand, Some(&command), &mut text).unwrap();
            let text = String::from_utf8(text).unwrap();
            assert!(!text.contains("\\\""), "{text}");
        }
    }

    #[test]
    fn examples_stand_as_they_are_typed() {
        let text = after_help("Examples:\n  everleaf a\n\n.b").render();
        assert!(text.contains(".SH EXAMPLES"), "{text}");
        assert!(text.contains("\neverleaf a\n.sp\n\\&.b\n"), "{text}");
    }
}
