//! What the lines of a shell do.

use std::ffi::OsStr;
use std::io::Write;
use std::time::Duration;

use everleaf::{Batch, Key, KeyType, Scan, Store, Tree};

use crate::escape::write_escaped;
use crate::keys::KeyArgument;
use crate::size::{display_counted, display_size};

/// Commands: name, what follows, what it does.
pub const COMMANDS: &[(&str, &str, &str)] = &[
    ("get", "KEY", "print a value"),
    (
        "put",
        "KEY VALUE [SECONDS]",
        "store a value, in place of another; with SECONDS it expires so long after",
    ),
    ("insert", "KEY VALUE", "store a value if the key is absent"),
    ("update", "KEY VALUE", "store a value if the key is present"),
    ("cas", "KEY OLD NEW", "replace the value if it is OLD"),
    ("del", "KEY", "remove a key"),
    ("scan", "[FROM [TO]]", "print the first 100 entries from FROM on, below TO"),
    ("prefix", "P", "print the first 100 entries whose keys begin with P"),
    ("first", "", "print the entry with the least key"),
    ("last", "", "print the entry with the greatest key"),
    ("count", "", "print how many keys there are"),
    (
        "use",
        "[TREE]",
        "go to a named tree, which is made if there is none, or back to the store itself",
    ),
    ("trees", "", "list the named trees"),
    ("drop", "TREE", "remove a named tree with all that is in it"),
    ("begin", "", "gather the puts, inserts, updates and dels that follow"),
    ("commit", "", "do all of them, or none"),
    ("abort", "", "forget them"),
    ("sweep", "", "remove what has expired"),
    ("copy", "FILE", "copy everything to a new pool"),
    ("info", "", "show how full the pool is"),
    ("check", "", "check everything"),
    ("help", "", "this list"),
    ("quit", "", "leave"),
];

/// Entries that a scan shows.
const SHOWN: usize = 100;

/// What becomes of the shell after a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    GoOn,
    Failed,
    Quit,
}

/// Where the shell stands.
pub struct Session<'s> {
    store: &'s Store,
    tree: Tree,
    name: Option<String>,
    batch: Option<Batch>,
}

type Sentence = String;

impl<'s> Session<'s> {
    pub fn new(store: &'s Store) -> Self {
        Self { store, tree: store.default_tree().clone(), name: None, batch: None }
    }

    /// The tree that lines are about.
    pub fn tree(&self) -> Tree {
        self.tree.clone()
    }

    pub fn prompt(&self) -> String {
        let batch = self.batch.as_ref().map_or(String::new(), |batch| {
            format!(" ({})", display_counted(batch.len() as u64, "write"))
        });
        format!("{}{batch}> ", self.name.as_deref().unwrap_or("everleaf"))
    }

    /// No more lines come.
    pub fn end(self) {
        if let Some(batch) = self.batch.filter(|batch| !batch.is_empty()) {
            crate::failure::complain(&format!(
                "{} not committed and forgotten",
                display_counted(batch.len() as u64, "write")
            ));
        }
    }

    fn key(&self, word: &str) -> Result<KeyArgument, Sentence> {
        KeyArgument::parse(OsStr::new(word), self.tree.key_type()).map_err(
            |failure| match failure {
                crate::failure::Failure::Usage(sentence)
                | crate::failure::Failure::Failed(sentence) => sentence,
                crate::failure::Failure::OutputClosed => "the output is closed".to_owned(),
            },
        )
    }

    /// Does a line; the error is a sentence for the user.
    pub fn run(&mut self, line: &str, output: &mut Vec<u8>) -> Result<After, Sentence> {
        let words = shell_words::split(line).map_err(|_| "a quote is not closed".to_owned())?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words[..] {
            [] => {}
            [word, ..] if word.starts_with('#') => {}
            ["quit" | "exit"] => return Ok(After::Quit),
            ["help"] => help(output),
            ["begin" | "commit" | "abort"] => self.gather(words[0], output)?,
            ["put" | "insert" | "update" | "del" | "cas", ..] => return self.write(&words, output),
            ["use" | "trees" | "drop", ..] => self.trees(&words, output)?,
            ["sweep" | "copy" | "info" | "check", ..] => return self.whole(&words, output),
            _ => return self.read(&words, output),
        }
        Ok(After::GoOn)
    }

    fn write(&mut self, words: &[&str], output: &mut Vec<u8>) -> Result<After, Sentence> {
        let say = |error: everleaf::Error| error.to_string();
        let key = self.key(words.get(1).ok_or_else(|| form(words[0]))?)?;
        let key = key.as_key();
        if let Some(batch) = &mut self.batch {
            let mut on = batch.on(&self.tree).map_err(say)?;
            match *words {
                ["put", _, value] => on.put(key, value.as_bytes()),
                ["put", _, value, seconds] => on.put_for(key, value.as_bytes(), life(seconds)?),
                ["insert", _, value] => on.put_if_absent(key, value.as_bytes()),
                ["update", _, value] => on.replace(key, value.as_bytes()),
                ["del", _] => on.delete(key),
                _ => return Err(form(words[0])),
            }
            .map(drop)
            .map_err(say)?;
            return Ok(After::GoOn);
        }
        let (done, refusal) = match *words {
            ["put", _, value] => (self.tree.put(key, value.as_bytes()).map(|_| true), ""),
            ["put", _, value, seconds] => {
                (self.tree.put_for(key, value.as_bytes(), life(seconds)?).map(|_| true), "")
            }
            ["insert", _, value] => {
                (self.tree.put_if_absent(key, value.as_bytes()), "the key is there already")
            }
            ["update", _, value] => {
                (self.tree.replace(key, value.as_bytes()), "there is no such key")
            }
            ["cas", _, old, new] => (
                self.tree.compare_and_swap(key, Some(old.as_bytes()), Some(new.as_bytes())),
                "the value is another one",
            ),
            ["del", _] => (self.tree.delete(key), "there is no such key"),
            _ => return Err(form(words[0])),
        };
        if done.map_err(say)? {
            return Ok(After::GoOn);
        }
        line(output, refusal);
        Ok(After::Failed)
    }

    fn read(&self, words: &[&str], output: &mut Vec<u8>) -> Result<After, Sentence> {
        let say = |error: everleaf::Error| error.to_string();
        match *words {
            ["get", key] => match self.tree.get(self.key(key)?.as_key()).map_err(say)? {
                Some(value) => show(output, None, &value),
                None => {
                    line(output, "there is no such key");
                    return Ok(After::Failed);
                }
            },
            ["scan"] => self.scan(Scan::all(), output)?,
            ["scan", from] => {
                self.scan(Scan::all().starting_at(self.key(from)?.as_key()), output)?
            }
            ["scan", from, to] => {
                let scan = Scan::all()
                    .starting_at(self.key(from)?.as_key())
                    .ending_before(self.key(to)?.as_key());
                self.scan(scan, output)?;
            }
            ["prefix", prefix] => self.scan(Scan::all().with_prefix(prefix), output)?,
            ["first"] => self
                .tree
                .first()
                .map_err(say)?
                .iter()
                .for_each(|(key, value)| show(output, Some(key.as_ref()), value)),
            ["last"] => self
                .tree
                .last()
                .map_err(say)?
                .iter()
                .for_each(|(key, value)| show(output, Some(key.as_ref()), value)),
            ["count"] => line(output, &self.tree.len().map_err(say)?.to_string()),
            [word, ..] => return Err(form(word)),
            [] => {}
        }
        Ok(After::GoOn)
    }

    fn scan(&self, scan: Scan, output: &mut Vec<u8>) -> Result<(), Sentence> {
        for (shown, entry) in self.tree.scan(scan).enumerate() {
            if shown == SHOWN {
                line(
                    output,
                    &format!("... only the first {SHOWN} are shown; go on with `scan KEY`"),
                );
                break;
            }
            let (key, value) = entry.map_err(|error| error.to_string())?;
            show(output, Some(key.as_ref()), &value);
        }
        Ok(())
    }

    fn trees(&mut self, words: &[&str], output: &mut Vec<u8>) -> Result<(), Sentence> {
        let say = |error: everleaf::Error| error.to_string();
        match *words {
            ["use"] => (self.tree, self.name) = (self.store.default_tree().clone(), None),
            ["use", name] => {
                let existing = self.store.existing_tree(name).map_err(say)?;
                self.tree = existing
                    .map_or_else(|| self.store.tree_with(name, KeyType::Bytes).map_err(say), Ok)?;
                self.name = Some(name.to_owned());
            }
            ["trees"] => self
                .store
                .tree_names()
                .map_err(say)?
                .iter()
                .for_each(|name| show(output, None, name)),
            ["drop", name] if self.batch.is_some() => {
                return Err(format!("commit or abort before {name} is dropped"));
            }
            ["drop", name] => {
                if !self.store.drop_tree(name).map_err(say)? {
                    return Err(format!("there is no tree {name}"));
                }
                if self.name.as_deref() == Some(name) {
                    (self.tree, self.name) = (self.store.default_tree().clone(), None);
                }
            }
            _ => return Err(form(words[0])),
        }
        Ok(())
    }

    fn gather(&mut self, word: &str, output: &mut Vec<u8>) -> Result<(), Sentence> {
        match (word, self.batch.take()) {
            ("begin", None) => self.batch = Some(self.store.batch()),
            ("begin", batch) => {
                self.batch = batch;
                return Err("a batch was begun already; commit or abort it".to_owned());
            }
            (_, None) => return Err("no batch was begun".to_owned()),
            ("commit", Some(batch)) => {
                let done = batch.commit().map_err(|error| error.to_string())?;
                let refused = done.iter().filter(|done| !**done).count() as u64;
                let committed = display_counted(done.len() as u64 - refused, "write");
                line(output, &format!("{committed} done, {refused} without effect"));
            }
            (_, Some(_)) => {}
        }
        Ok(())
    }

    fn whole(&self, words: &[&str], output: &mut Vec<u8>) -> Result<After, Sentence> {
        let say = |error: everleaf::Error| error.to_string();
        match *words {
            ["sweep"] => {
                let swept = self.store.remove_expired().map_err(say)?;
                line(output, &format!("{} of {} entries removed", swept.removed, swept.looked_at));
            }
            ["copy", file] => {
                let copied = self.store.copy(file).map_err(say)?;
                line(output, &format!("copied {} entries", copied.entries));
            }
            ["info"] => {
                let statistics = self.store.statistics().map_err(say)?;
                line(
                    output,
                    &format!("{}, {} keys of all trees", statistics.engine, statistics.keys),
                );
                let (used, total) =
                    (display_size(statistics.used_bytes), display_size(statistics.total_bytes));
                line(
                    output,
                    &format!(
                        "{used} of {total} in use; {} on {}",
                        statistics.durability, statistics.medium
                    ),
                );
            }
            ["check"] => {
                let outcome = self.store.check().map_err(say)?;
                outcome.violations.iter().for_each(|violation| line(output, violation));
                let state = if outcome.ok { "sound" } else { "damaged" };
                line(
                    output,
                    &format!(
                        "{state}: {} keys, {} leaked blocks",
                        outcome.keys, outcome.leaked_blocks
                    ),
                );
                return Ok(if outcome.ok { After::GoOn } else { After::Failed });
            }
            _ => return Err(form(words[0])),
        }
        Ok(After::GoOn)
    }
}

/// How a command is written.
fn form(word: &str) -> Sentence {
    match COMMANDS.iter().find(|(name, ..)| *name == word) {
        Some((name, follows, _)) => format!("write `{}`", format!("{name} {follows}").trim_end()),
        None => format!("`{word}` is no command; `help` lists them"),
    }
}

fn life(seconds: &str) -> Result<Duration, Sentence> {
    let life = seconds.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    life.ok_or_else(|| format!("`{seconds}` is no number of seconds"))
}

fn line(output: &mut Vec<u8>, text: &str) {
    output.extend_from_slice(text.as_bytes());
    output.push(b'\n');
}

/// An entry, or a value alone, as `scan` of the command line shows it. Writing to a vector cannot
/// fail.
fn show(output: &mut Vec<u8>, key: Option<Key<'_>>, value: &[u8]) {
    if let Some(key) = key {
        let _ = match key {
            Key::U64(key) => write!(output, "{key}"),
            Key::Bytes(key) => write_escaped(output, key),
        };
        output.push(b'\t');
    }
    let _ = write_escaped(output, value);
    output.push(b'\n');
}

fn help(output: &mut Vec<u8>) {
    for (name, follows, what) in COMMANDS {
        line(output, &format!("{:<28} {what}", format!("{name} {follows}")));
    }
}
