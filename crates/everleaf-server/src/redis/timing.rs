//! Under which name the time of a request is counted.

use super::command::Command;
use super::greeting;
use super::table::COMMANDS;
use super::transaction::AT_ONCE;
use crate::resp::argument::is;

/// What waits for EXEC, and what there is not.
const OTHERS: [&str; 2] = ["queued", "unknown"];

/// Those of commands that are not in the table.
fn more() -> impl Iterator<Item = &'static str> {
    greeting::COMMANDS.iter().map(|(name, _)| *name).chain(AT_ONCE.iter().copied())
}

/// All names.
pub fn names() -> Vec<&'static str> {
    COMMANDS.iter().map(|command| command.name).chain(more()).chain(OTHERS).collect()
}

/// The place of a command among the names.
pub fn command(found: Option<&'static Command>, name: &[u8], is_queued: bool) -> usize {
    let [queued, unknown] = [OTHERS.len(), 1].map(|from_end| names_len() - from_end);
    if is_queued {
        return queued;
    }
    match found {
        Some(command) => COMMANDS.element_offset(command).unwrap_or(unknown),
        None => more().position(|word| is(name, word)).map_or(unknown, |at| COMMANDS.len() + at),
    }
}

const fn names_len() -> usize {
    COMMANDS.len() + greeting::COMMANDS.len() + AT_ONCE.len() + OTHERS.len()
}

#[cfg(test)]
mod tests {
    use super::super::table::find;
    use super::*;

    #[test]
    fn every_command_is_counted_under_its_name() {
        let names = names();
        let name_of = |name: &str| names[command(find(name.as_bytes()), name.as_bytes(), false)];
        for command in COMMANDS {
            assert_eq!(name_of(command.name), command.name);
        }
        for name in more() {
            assert_eq!(name_of(name), name);
        }
        assert_eq!(
            (name_of("evalx"), names[command(find(b"get"), b"get", true)]),
            ("unknown", "queued")
        );
    }
}
