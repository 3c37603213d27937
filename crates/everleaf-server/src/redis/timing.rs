//! Under which name the time of a request is counted.

use std::sync::LazyLock;

use super::command::Command;
use super::names::{AT_ONCE, CONNECTION, OTHERS, SUBCOMMANDS};
use super::table::COMMANDS;
use crate::resp::argument::is;

/// Commands with their second words.
static LONG_NAMES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let words = |(command, words): &(&str, &[(&str, i8)])| {
        words.iter().map(|(word, _)| format!("{command}|{word}")).collect::<Vec<_>>()
    };
    SUBCOMMANDS.iter().flat_map(words).collect()
});

/// Those of commands that are not in the table.
fn more() -> impl Iterator<Item = &'static str> {
    CONNECTION.iter().map(|(name, _)| *name).chain(AT_ONCE.iter().copied())
}

/// All names.
pub fn names() -> Vec<&'static str> {
    let short = COMMANDS.iter().map(|command| command.name).chain(more());
    short.chain(OTHERS).chain(LONG_NAMES.iter().map(String::as_str)).collect()
}

/// The name of a place, as Redis writes it.
pub fn name(place: usize) -> String {
    names().get(place).map_or_else(String::new, |name| name.to_ascii_lowercase())
}

/// The place of what waits for EXEC.
pub const fn queued() -> usize {
    short_len() - OTHERS.len()
}

/// The place of what there is not.
pub const fn unknown() -> usize {
    short_len() - 1
}

/// The place of a request among the names.
pub fn command(found: Option<&'static Command>, args: &[&[u8]]) -> usize {
    let unknown = unknown();
    let Some(name) = args.first() else { return unknown };
    if let Some(word) = args.get(1)
        && found.is_none_or(Command::may_have_second_words)
        && let Some(at) = long(name, word)
    {
        return at.map_or(unknown, |at| short_len() + at);
    }
    match found {
        Some(command) => COMMANDS.element_offset(command).unwrap_or(unknown),
        None => more().position(|word| is(name, word)).map_or(unknown, |at| COMMANDS.len() + at),
    }
}

/// The place of a command with its second word among these, if the command has such words; none
/// of these: it has not this one.
fn long(name: &[u8], word: &[u8]) -> Option<Option<usize>> {
    let mut before = 0;
    for (command, words) in SUBCOMMANDS {
        if is(name, command) {
            let at = words.iter().position(|(known, _)| is(word, known));
            return Some(at.map(|at| before + at));
        }
        before += words.len();
    }
    None
}

const fn short_len() -> usize {
    COMMANDS.len() + CONNECTION.len() + AT_ONCE.len() + OTHERS.len()
}

#[cfg(test)]
mod tests {
    use super::super::table::find;
    use super::*;

    #[test]
    fn every_command_is_counted_under_its_name() {
        let names = names();
        let place_of = |words: &[&[u8]]| command(find(words[0]), words);
        for command in COMMANDS {
            assert_eq!(names[place_of(&[command.name.as_bytes()])], command.name);
        }
        for name in more() {
            assert_eq!(names[place_of(&[name.as_bytes()])], name);
        }
        for (command, words) in SUBCOMMANDS {
            for (word, _) in *words {
                let place = place_of(&[command.as_bytes(), word.as_bytes(), b"x"]);
                assert_eq!(name(place), format!("{command}|{word}"));
            }
        }
        assert_eq!((names[place_of(&[b"nonsense"])], names[queued()]), ("unknown", "queued"));
        assert_eq!(names[place_of(&[b"config", b"nonsense"])], "unknown");
    }
}
