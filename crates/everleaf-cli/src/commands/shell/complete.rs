//! What TAB offers: commands, names of trees, keys; and what is shown behind the cursor: the
//! words that a command wants.

use std::borrow::Cow;

use everleaf::{Key, KeyType, Scan, Store, Tree};
use rustyline::completion::Completer;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};

use super::words::{COMMANDS, looks_like_option};

/// Keys that are offered at most.
const OFFERED: usize = 50;

/// Completes the word before the cursor.
pub struct Completion<'s> {
    store: &'s Store,
    tree: Tree,
}

impl<'s> Completion<'s> {
    pub fn new(store: &'s Store) -> Self {
        Self { store, tree: store.default_tree().clone() }
    }

    /// The tree whose keys are offered.
    pub fn stand_in(&mut self, tree: Tree) {
        self.tree = tree;
    }

    /// What the last of the words may become.
    fn offers(&self, words: &[&str], begun: &str) -> Vec<String> {
        // Behind `--` a word may begin with a hyphen.
        let (words, any) = match words {
            [words @ .., "--"] => (words, true),
            words => (words, false),
        };
        let can_stand = |word: &String| any || !looks_like_option(word);
        match words {
            [] => COMMANDS
                .iter()
                .map(|(name, ..)| (*name).to_owned())
                .filter(|name| name.starts_with(begun))
                .collect(),
            ["use" | "drop"] => {
                let names = self.store.tree_names().unwrap_or_default();
                let names = names.into_iter().filter_map(|name| String::from_utf8(name).ok());
                names.filter(|name| name.starts_with(begun)).filter(can_stand).collect()
            }
            [
                "get" | "put" | "update" | "cas" | "incr" | "ttl" | "expire" | "persist" | "del"
                | "scan" | "prefix",
            ] if self.tree.key_type() == KeyType::Bytes => {
                let entries = self.tree.scan(Scan::all().with_prefix(begun)).take(OFFERED);
                let text = |key: Key<'_>| match key {
                    Key::Bytes(bytes) => String::from_utf8(bytes.to_vec()).ok(),
                    Key::U64(number) => Some(number.to_string()),
                };
                // Damage is told by the command itself.
                let keys = entries.filter_map(Result::ok).filter_map(|(key, _)| text(key.as_ref()));
                keys.filter(can_stand).collect()
            }
            _ => Vec::new(),
        }
    }
}

impl Completer for Completion<'_> {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let before = &line[..position];
        let start = before.rfind(' ').map_or(0, |blank| blank + 1);
        let words: Vec<&str> = before[..start].split_whitespace().collect();
        let quoted = |word: String| shell_words::quote(&word).into_owned();
        Ok((start, self.offers(&words, &before[start..]).into_iter().map(quoted).collect()))
    }
}

impl Hinter for Completion<'_> {
    type Hint = String;

    /// The words that the command wants, until the first of them is begun.
    fn hint(&self, line: &str, position: usize, _: &Context<'_>) -> Option<String> {
        let command = line[..position].strip_suffix(' ').filter(|_| position == line.len())?;
        let command = command.strip_prefix('.').unwrap_or(command);
        let (_, follows, _) = COMMANDS.iter().find(|(name, ..)| *name == command)?;
        Some((*follows).to_owned())
    }
}

impl Highlighter for Completion<'_> {
    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        const FAINT: &str = "\x1b[2m";
        const PLAIN: &str = "\x1b[0m";
        Cow::Owned(format!("{FAINT}{hint}{PLAIN}"))
    }
}
impl Validator for Completion<'_> {}
impl Helper for Completion<'_> {}
