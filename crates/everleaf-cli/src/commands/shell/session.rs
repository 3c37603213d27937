//! What the lines of a shell do.

use std::ffi::OsStr;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use everleaf::{Batch, Entry, Error, Key, KeyType, Scan, Store, Tree};

use super::words::{Shown, help, usage, without_options};
use crate::commands::incr::add;
use crate::commands::ttl::display_life;
use crate::escape::{Controls, write_escaped};
use crate::failure::{Failure, complain};
use crate::keys::KeyArgument;
use crate::size::{display_count, display_counted, display_size};
use crate::target::{expiry, life};

/// What becomes of the shell after a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum After {
    /// The next line is done.
    GoOn,
    /// The same; this one failed.
    Failed,
    /// The lines of a file are to be done.
    Read(PathBuf),
    /// It ends.
    Quit,
}

/// Where the shell stands.
pub struct Session<'s> {
    store: &'s Store,
    tree: Tree,
    name: Option<String>,
    batch: Option<Batch>,
    /// Whether each line's time is shown.
    pub timer: bool,
    /// Ends the command that runs.
    interrupted: Arc<AtomicBool>,
    controls: Controls,
}

type Sentence = String;

impl<'s> Session<'s> {
    /// In the default tree.
    pub fn new(store: &'s Store) -> Self {
        let interrupted = Arc::new(AtomicBool::new(false));
        let tree = store.default_tree().clone();
        let controls = Controls::on_stdout();
        Self { store, tree, name: None, batch: None, timer: false, interrupted, controls }
    }

    /// What ends the command that runs, when it is set.
    pub fn interruption(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.interrupted)
    }

    fn ending(&self) -> ControlFlow<()> {
        match self.interrupted.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    /// The tree that lines are about.
    pub fn tree(&self) -> Tree {
        self.tree.clone()
    }

    /// What stands before the next line.
    pub fn prompt(&self) -> String {
        let batch = self.batch.as_ref().map_or(String::new(), |batch| {
            format!(" ({})", display_counted(batch.len() as u64, "write"))
        });
        format!("{}{batch}> ", self.name.as_deref().unwrap_or("everleaf"))
    }

    /// No more lines come.
    pub fn end(self) {
        if let Some(batch) = self.batch.filter(|batch| !batch.is_empty()) {
            complain(&format!(
                "{} not committed and forgotten",
                display_counted(batch.len() as u64, "write")
            ));
        }
    }

    fn key(&self, word: &str) -> Result<KeyArgument, Sentence> {
        let name = self.name.as_deref().map(str::as_bytes);
        KeyArgument::parse(OsStr::new(word), self.tree.key_type(), name)
            .map_err(Failure::into_sentence)
    }

    /// Does a line; the error is a sentence for the user.
    pub fn run(&mut self, line: &str, output: &mut Vec<u8>) -> Result<After, Sentence> {
        let words = shell_words::split(line).map_err(|_| "a quote is not closed".to_owned())?;
        let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
        // `.read` is `read`, as users of sqlite3 write it.
        if let Some(first) = words.first_mut() {
            *first = first.strip_prefix('.').unwrap_or(first);
        }
        self.interrupted.store(false, Ordering::Relaxed);
        if words.first().is_none_or(|word| word.starts_with('#')) {
            return Ok(After::GoOn);
        }
        let (words, shown) = without_options(&words)?;
        match words[..] {
            ["quit" | "exit"] => return Ok(After::Quit),
            ["help"] => output.extend_from_slice(help(columns()).as_bytes()),
            ["read", file] => return Ok(After::Read(file.into())),
            ["timer", "on"] => self.timer = true,
            ["timer", "off"] => self.timer = false,
            ["begin" | "commit" | "abort"] => self.gather(words[0], output)?,
            ["put" | "insert" | "update" | "del" | "cas" | "incr" | "expire" | "persist", ..] => {
                self.write(&words, output)?
            }
            ["use" | "trees" | "drop", ..] => self.trees(&words, output)?,
            ["sweep" | "copy" | "info" | "check", ..] => return self.whole(&words, output),
            _ => self.read(&words, shown, output)?,
        }
        Ok(After::GoOn)
    }

    fn write(&mut self, words: &[&str], output: &mut Vec<u8>) -> Result<(), Sentence> {
        let key = self.key(words.get(1).ok_or_else(|| usage(words[0]))?)?;
        if self.batch.is_some() {
            return self.gather_write(words, &key);
        }
        let (tree, absent) = (&self.tree, "there is no such key");
        let (done, refusal) = match *words {
            ["put", _, value] => (tree.put(key.as_key(), value).map(|_| true), ""),
            ["put", _, value, time] => {
                (tree.with_expiry(expiry(time)?).put(key.as_key(), value).map(|_| true), "")
            }
            ["insert", _, value] => {
                (tree.put_if_absent(key.as_key(), value), "the key is there already")
            }
            ["update", _, value] => (tree.replace(key.as_key(), value), absent),
            ["cas", _, old, new] => {
                let swapped =
                    tree.compare_and_swap(key.as_key(), Some(old.as_bytes()), Some(new.as_bytes()));
                let is_there = tree.contains_key(key.as_key()).map_err(say)?;
                (swapped, if is_there { "the value is another one" } else { absent })
            }
            ["incr", _] | ["incr", _, _] => {
                let by = words.get(2).unwrap_or(&"1");
                let by = by.parse().map_err(|_| format!("`{by}` is not a whole number"))?;
                line(output, &add(tree, &key, by).map_err(Failure::into_sentence)?);
                (Ok(true), "")
            }
            ["expire", _, time] => (tree.touch(key.as_key(), life(time)?), absent),
            ["persist", _] => (tree.persist(key.as_key()), absent),
            ["del", _] => (tree.delete(key.as_key()), absent),
            _ => return Err(usage(words[0])),
        };
        if done.map_err(say)? { Ok(()) } else { Err(refusal.to_owned()) }
    }

    /// A write that waits for `commit`.
    fn gather_write(&mut self, words: &[&str], key: &KeyArgument) -> Result<(), Sentence> {
        let Some(batch) = &mut self.batch else { return Ok(()) };
        let (mut tree, key) = (self.tree.clone(), key.as_key());
        if let ["put", _, _, time] = *words {
            tree = tree.with_expiry(expiry(time)?);
        }
        let mut on = batch.on(&tree).map_err(say)?;
        match *words {
            ["put", _, value] | ["put", _, value, _] => on.put(key, value.as_bytes()),
            ["insert", _, value] => on.put_if_absent(key, value.as_bytes()),
            ["update", _, value] => on.replace(key, value.as_bytes()),
            ["expire", _, time] => on.touch(key, life(time)?),
            ["persist", _] => on.persist(key),
            ["del", _] => on.delete(key),
            [word @ ("cas" | "incr"), ..] => {
                return Err(format!("a batch has no {word}; commit or abort it first"));
            }
            _ => return Err(usage(words[0])),
        }
        .map(drop)
        .map_err(say)
    }

    fn read(&self, words: &[&str], shown: Shown, output: &mut Vec<u8>) -> Result<(), Sentence> {
        let absent = || "there is no such key".to_owned();
        match *words {
            ["get", key] => {
                let value = self.tree.get(self.key(key)?.as_key()).map_err(say)?;
                self.show(output, None, &value.ok_or_else(absent)?);
            }
            ["ttl", key] => {
                let expiry = self.tree.expiry(self.key(key)?.as_key()).map_err(say)?;
                line(output, &display_life(expiry.ok_or_else(absent)?));
            }
            ["scan", ref bounds @ ..] => {
                let scan = match *bounds {
                    [] => Scan::all(),
                    [from] => Scan::all().starting_at(self.key(from)?.as_key()),
                    [from, to] => Scan::all()
                        .starting_at(self.key(from)?.as_key())
                        .ending_before(self.key(to)?.as_key()),
                    _ => return Err(usage("scan")),
                };
                self.scan(scan, shown, output)?;
            }
            ["prefix", prefix] => {
                self.scan(Scan::all().with_prefix(prefix), shown, output)?;
            }
            ["first"] => self.show_entry(output, self.tree.first().map_err(say)?),
            ["last"] => self.show_entry(output, self.tree.last().map_err(say)?),
            ["count"] => line(output, &self.tree.len().map_err(say)?.to_string()),
            [word, ..] => return Err(usage(word)),
            [] => {}
        }
        Ok(())
    }

    fn scan(&self, scan: Scan, show: Shown, output: &mut Vec<u8>) -> Result<(), Sentence> {
        for (shown, entry) in self.tree.scan(show.turn(scan)).enumerate() {
            if shown == show.limit {
                if !show.asked {
                    let shown = display_count(shown as u64);
                    complain(&format!("only the first {shown} are shown; give a --limit for more"));
                }
                break;
            }
            if self.ending().is_break() {
                return Err("interrupted".to_owned());
            }
            self.show_entry(output, Some(entry.map_err(say)?));
        }
        Ok(())
    }

    fn trees(&mut self, words: &[&str], output: &mut Vec<u8>) -> Result<(), Sentence> {
        match *words {
            ["use"] => (self.tree, self.name) = (self.store.default_tree().clone(), None),
            ["use", name] => {
                self.tree = match self.store.existing_tree(name).map_err(say)? {
                    Some(tree) => tree,
                    None => {
                        let tree = self.store.tree_with(name, KeyType::Bytes).map_err(say)?;
                        complain(&format!("the tree {name} is new"));
                        tree
                    }
                };
                self.name = Some(name.to_owned());
            }
            ["trees"] => self
                .store
                .tree_names()
                .map_err(say)?
                .iter()
                .for_each(|name| self.show(output, None, name)),
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
            _ => return Err(usage(words[0])),
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
                let refused = display_count(refused);
                line(output, &format!("{committed} done, {refused} without effect"));
            }
            (_, Some(_)) => {}
        }
        Ok(())
    }

    fn whole(&self, words: &[&str], output: &mut Vec<u8>) -> Result<After, Sentence> {
        match *words {
            ["sweep"] => {
                let swept = self.store.remove_expired().map_err(say)?;
                line(
                    output,
                    &format!("{} removed", display_counted(swept.removed, "expired entry")),
                );
            }
            ["copy", file] => {
                let copied = self.store.copy_with(file, |_| self.ending()).map_err(say)?;
                line(output, &format!("copied {}", display_counted(copied.entries, "entry")));
            }
            ["info"] => {
                let statistics = self.store.statistics().map_err(say)?;
                let keys = self.store.len_of_all_trees().map_err(say)?;
                let keys = display_counted(keys, "key");
                line(output, &format!("{}, {keys} of all trees", statistics.engine));
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
                let outcome = self.store.check_with(|_| self.ending()).map_err(say)?;
                outcome.violations.iter().for_each(|violation| line(output, violation));
                let state = if outcome.ok { "sound" } else { "damaged" };
                line(
                    output,
                    &format!(
                        "{state}: {}, {}",
                        display_counted(outcome.keys, "key"),
                        display_counted(outcome.leaked_blocks, "leaked block")
                    ),
                );
                return Ok(if outcome.ok { After::GoOn } else { After::Failed });
            }
            _ => return Err(usage(words[0])),
        }
        Ok(After::GoOn)
    }

    /// An entry, or a value alone, as `scan` of the command line shows it. Writing to a vector
    /// cannot fail.
    fn show(&self, output: &mut Vec<u8>, key: Option<Key<'_>>, value: &[u8]) {
        if let Some(key) = key {
            let _ = match key {
                Key::U64(key) => write!(output, "{key}"),
                Key::Bytes(key) => write_escaped(output, key, self.controls),
            };
            output.push(b'\t');
        }
        let _ = write_escaped(output, value, self.controls);
        output.push(b'\n');
    }

    fn show_entry(&self, output: &mut Vec<u8>, entry: Option<Entry>) {
        if let Some((key, value)) = entry {
            self.show(output, Some(key.as_ref()), &value);
        }
    }
}

/// An error as a sentence for the user.
fn say(error: Error) -> Sentence {
    match error {
        Error::Aborted => "interrupted".to_owned(),
        error => error.to_string(),
    }
}

fn line(output: &mut Vec<u8>, text: &str) {
    output.extend_from_slice(text.as_bytes());
    output.push(b'\n');
}

/// Columns of the terminal; 80 where there is none.
fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
    size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(80)
}
