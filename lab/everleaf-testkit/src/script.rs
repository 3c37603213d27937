//! Scenarios: operations one a line, as `everleaf-lab explore --script` reads them, or drawn from a
//! seed.

use everleaf::{Engine, KeyType};
use std::fmt;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::lines::{batch_operations, parse_batch, parse_thread};

/// Why a script was refused.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScriptError {
    /// A line does not begin with a known operation.
    #[error(
        "line {line}: `{word}` is no operation; known are get, scan, insert, update, upsert, \
        remove, batch, move, copy, claim, sync, epoch, crash, reopen, close, \
          open, create, refused, cut, explore, thread"
    )]
    UnknownOperation {
        /// Its number, from 1.
        line: usize,
        /// What stands there.
        word: String,
    },
    /// An operation has too few or too many words.
    #[error("line {line}: write `{form}`")]
    Form {
        /// Its number, from 1.
        line: usize,
        /// What the operation looks like.
        form: &'static str,
    },
    /// A key or value is not of the type that is wanted.
    #[error("line {line}: `{word}` is no number of 64 bits")]
    NotANumber {
        /// Its number, from 1.
        line: usize,
        /// What stands there.
        word: String,
    },
    /// Something that a program of several threads cannot do.
    #[error("a script with `thread` cannot have `{operation}`; put it into a script of its own")]
    NotWithThreads {
        /// The operation.
        operation: String,
    },
    /// Lines `thread` for an engine that is used by one thread at a time.
    #[error(
        "{engine} is single-threaded; remove `thread` from the script, or choose a concurrent \
        engine"
    )]
    SingleThreaded {
        /// The engine.
        engine: Engine,
    },
    /// An operation stands where it makes no sense.
    #[error("line {line}: {rule}")]
    Misplaced {
        /// Its number, from 1.
        line: usize,
        /// Where it may stand.
        rule: &'static str,
    },
    /// Nothing to explore.
    #[error("the script has no operation to explore; add one, or move the line `explore` up")]
    Empty,
}

/// One operation on an index. Keys are text here; the key type decides what they mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Looks a key up.
    Get(Key),
    /// Visits everything, and finds each key that it has seen.
    Scan,
    /// Adds a key; refused if it is present.
    Insert(Key, u64),
    /// Replaces a value; refused if the key is absent.
    Update(Key, u64),
    /// Inserts or replaces.
    Upsert(Key, u64),
    /// Removes a key.
    Remove(Key),
    /// Makes everything before it durable; nothing on a strict engine.
    Sync,
    /// Ends the epoch of a buffered engine; nothing on a strict one.
    Epoch,
    /// Crash here, recover, go on.
    Crash,
    /// Close cleanly, open again, go on.
    Reopen,
    /// Several writes that happen together or not at all.
    Batch(Vec<Operation>),
    /// A transaction: the value of the first key becomes that of the second, if there is one.
    Move(Key, Key),
    /// A transaction: the value of the first key becomes that of the second as well, if there is
    /// one.
    Copy(Key, Key),
    /// A transaction: adds the third key if the store has none from the first up to the second.
    Claim(Key, Key, Key, u64),
    /// An operation of one of several threads.
    Thread {
        /// Its number, from 1.
        thread: u16,
        /// Consecutive operations of one round run concurrently.
        round: usize,
        /// What it does.
        operation: Box<Operation>,
    },
    /// Close cleanly.
    Close,
    /// Open what was closed, or what a crash left.
    Open,
    /// Make a new, empty pool, whatever the memory holds.
    Create,
    /// An operation that the pool has no room for: it must be refused and change nothing.
    Refused(Box<Operation>),
}

/// An operation that a power failure cuts in the preparation, so that the exploration begins with
/// the recovery from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The power fails when this barrier is first reached, everything stored before it being
    /// durable.
    pub site: String,
    /// What is cut.
    pub operation: Operation,
}

/// A key of a script, of either type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A number.
    U64(u64),
    /// A byte string.
    Bytes(Vec<u8>),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::U64(key) => write!(f, "{key}"),
            Key::Bytes(key) => f.write_str(&String::from_utf8_lossy(key)),
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operation::Get(key) => write!(f, "get {key}"),
            Operation::Scan => f.write_str("scan"),
            Operation::Insert(key, value) => write!(f, "insert {key} {value}"),
            Operation::Update(key, value) => write!(f, "update {key} {value}"),
            Operation::Upsert(key, value) => write!(f, "upsert {key} {value}"),
            Operation::Remove(key) => write!(f, "remove {key}"),
            Operation::Sync => f.write_str("sync"),
            Operation::Epoch => f.write_str("epoch"),
            Operation::Crash => f.write_str("crash"),
            Operation::Reopen => f.write_str("reopen"),
            Operation::Batch(operations) => {
                let operations: Vec<String> = operations.iter().map(ToString::to_string).collect();
                write!(f, "batch {}", operations.join("; "))
            }
            Operation::Move(from, to) => write!(f, "move {from} {to}"),
            Operation::Copy(from, to) => write!(f, "copy {from} {to}"),
            Operation::Claim(from, to, key, value) => {
                write!(f, "claim {from} {to} {key} {value}")
            }
            Operation::Thread { thread, operation, .. } => write!(f, "thread {thread} {operation}"),
            Operation::Close => f.write_str("close"),
            Operation::Open => f.write_str("open"),
            Operation::Create => f.write_str("create"),
            Operation::Refused(operation) => write!(f, "refused {operation}"),
        }
    }
}

/// The type of the keys of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptKeys {
    /// Numbers.
    U64,
    /// Byte strings.
    Bytes,
}

impl ScriptKeys {
    /// Whether an engine has such keys.
    pub fn are_of(self, engine: Engine) -> bool {
        engine.has_keys(match self {
            Self::U64 => KeyType::U64,
            Self::Bytes => KeyType::Bytes,
        })
    }
}

/// Operations that prepare, and operations that are explored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// The type of its keys.
    pub keys: ScriptKeys,
    /// Done before anything is explored.
    pub prepare: Vec<Operation>,
    /// Begun after the preparation and cut by a power failure; the first explored operation then
    /// opens what is left.
    pub cut: Option<Cut>,
    /// Explored, one after the other.
    pub explore: Vec<Operation>,
}

impl Scenario {
    /// Reads a script. Keys are numbers if every key is one and `keys` does not say otherwise.
    ///
    /// # Errors
    /// The first line that is wrong, with what to write instead.
    pub fn parse(text: &str, keys: Option<ScriptKeys>) -> Result<Self, ScriptError> {
        let lines: Vec<(usize, Vec<&str>)> = text
            .lines()
            .enumerate()
            .map(|(i, line)| (i + 1, line.split_whitespace().collect::<Vec<_>>()))
            .filter(|(_, words)| words.first().is_some_and(|word| !word.starts_with('#')))
            .collect();
        let numeric = || {
            lines
                .iter()
                .flat_map(|(_, words)| key_words(words))
                .all(|key| key.parse::<u64>().is_ok())
        };
        let keys =
            keys.unwrap_or_else(|| if numeric() { ScriptKeys::U64 } else { ScriptKeys::Bytes });
        let mut scenario = Self { keys, prepare: Vec::new(), cut: None, explore: Vec::new() };
        let mut round = 0;
        for (line, words) in &lines {
            if words[0] == "thread" {
                scenario.explore.push(parse_thread(*line, &words[1..], keys, round)?);
                continue;
            }
            round += 1;
            if words[..] == ["explore"] {
                scenario.prepare_so_far(*line)?;
            } else if words[0] == "cut" {
                scenario.read_cut(*line, &words[1..])?;
            } else if let Some(operation) = parse_operation(*line, words, keys)? {
                scenario.explore.push(operation);
            }
        }
        if scenario.explore.is_empty() { Err(ScriptError::Empty) } else { Ok(scenario) }
    }

    /// `explore`: what is above it prepares.
    fn prepare_so_far(&mut self, line: usize) -> Result<(), ScriptError> {
        if self.cut.is_some() {
            return Err(ScriptError::Misplaced {
                line,
                rule: "what follows `cut` is explored anyway; leave out `explore`",
            });
        }
        self.prepare.append(&mut self.explore);
        Ok(())
    }

    /// `cut SITE OPERATION`: what is above it prepares.
    fn read_cut(&mut self, line: usize, words: &[&str]) -> Result<(), ScriptError> {
        let form = ScriptError::Form { line, form: "cut SITE OPERATION" };
        let [site, operation @ ..] = words else { return Err(form) };
        let operation = parse_operation(line, operation, self.keys)?.ok_or(form)?;
        if self.cut.is_some() {
            return Err(ScriptError::Misplaced {
                line,
                rule: "a script has one `cut` at most; put further crashes into scripts of their \
                    own",
            });
        }
        self.prepare.append(&mut self.explore);
        self.cut = Some(Cut { site: (*site).to_owned(), operation });
        self.explore.push(Operation::Open);
        Ok(())
    }

    /// `count` operations drawn from a seed over few keys, so that they meet; about a third grow
    /// the tree beyond its leaves. Among them are crashes and reopenings, so that what follows one
    /// meets what it has left; and now and then a `sync` or an `epoch`, which mean something to a
    /// buffered engine alone.
    pub fn random(keys: ScriptKeys, count: usize, seed: u64) -> Self {
        Self::drawn(keys, count, seed, false)
    }

    /// The same with batches and transactions, which a store alone has.
    pub fn random_of_store(keys: ScriptKeys, count: usize, seed: u64) -> Self {
        Self::drawn(keys, count, seed, true)
    }

    fn drawn(keys: ScriptKeys, count: usize, seed: u64, batches: bool) -> Self {
        let mut draw = Draw {
            rng: StdRng::seed_from_u64(seed),
            keys,
            space: (count as u64 / 2).max(6),
            batches,
        };
        let explore = (0..count).map(|_| draw.operation()).collect();
        Self { keys, prepare: Vec::new(), cut: None, explore }
    }
}

/// The most writes of a batch that is drawn.
const MOST_DRAWN_WRITES: usize = 5;

/// What random operations are drawn from.
struct Draw {
    rng: StdRng,
    keys: ScriptKeys,
    /// So many keys.
    space: u64,
    /// Whether there are batches.
    batches: bool,
}

impl Draw {
    fn key(&mut self) -> Key {
        let number = self.rng.random_range(0..self.space);
        script_key(self.keys, number)
    }

    fn write(&mut self, kind: u32) -> Operation {
        let value = self.rng.random_range(0..4u64).wrapping_sub(1);
        let key = self.key();
        random_write(kind, key, value)
    }

    fn batch(&mut self) -> Operation {
        let writes = self.rng.random_range(1..=MOST_DRAWN_WRITES);
        let write = |_| {
            let kind = self.rng.random_range(0..10);
            self.write(kind)
        };
        Operation::Batch((0..writes).map(write).collect())
    }

    fn claim(&mut self) -> Operation {
        let (from, below, key) = (self.key(), self.key(), self.key());
        Operation::Claim(from, below, key, self.rng.random_range(0..4))
    }

    fn operation(&mut self) -> Operation {
        match self.rng.random_range(0..80) {
            79 | 78 => Operation::Reopen,
            75..78 => Operation::Crash,
            74 => Operation::Sync,
            73 => Operation::Epoch,
            72 => Operation::Scan,
            68..72 => Operation::Get(self.key()),
            58..68 if self.batches => self.batch(),
            56..58 if self.batches => Operation::Move(self.key(), self.key()),
            55 if self.batches => self.claim(),
            kind => self.write(kind % 10),
        }
    }
}

/// A key for a number: both ends of the space, and byte strings of several lengths.
pub(crate) fn script_key(keys: ScriptKeys, number: u64) -> Key {
    match keys {
        ScriptKeys::U64 => Key::U64([number, u64::MAX - number][usize::from(number % 5 == 4)]),
        ScriptKeys::Bytes => Key::Bytes(
            format!("{}{number}", "key-with-a-tail-".repeat((number % 3) as usize)).into_bytes(),
        ),
    }
}

pub(crate) fn random_write(kind: u32, key: Key, value: u64) -> Operation {
    match kind {
        0..5 => Operation::Insert(key, value),
        5..6 => Operation::Update(key, value),
        6..7 => Operation::Upsert(key, value),
        _ => Operation::Remove(key),
    }
}

/// The words of a line that are keys. What stands in what is as in lines that are read; nothing
/// else is looked into, however deep a line goes.
fn key_words<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let words = match words {
        ["thread" | "cut", _, operation @ ..] => operation,
        words => words,
    };
    match words {
        ["refused", "batch", operations @ ..] | ["batch", operations @ ..] => {
            let operations = batch_operations(operations);
            operations.iter().flat_map(|operation| keys_of(operation)).collect()
        }
        ["refused", operation @ ..] | operation => keys_of(operation),
    }
}

/// The words of an operation in which no other stands that are keys.
fn keys_of<'a>(words: &[&'a str]) -> Vec<&'a str> {
    match *words {
        ["get" | "insert" | "update" | "upsert" | "remove", key, ..] => vec![key],
        ["move" | "copy", from, to] => vec![from, to],
        ["claim", from, to, key, _] => vec![from, to, key],
        _ => Vec::new(),
    }
}

pub(crate) fn parse_operation(
    line: usize,
    words: &[&str],
    keys: ScriptKeys,
) -> Result<Option<Operation>, ScriptError> {
    let number =
        |word: &str| word.parse().map_err(|_| ScriptError::NotANumber { line, word: word.into() });
    let key = |word: &str| {
        Ok(match keys {
            ScriptKeys::U64 => Key::U64(number(word)?),
            ScriptKeys::Bytes => Key::Bytes(word.as_bytes().to_vec()),
        })
    };
    let operation = match *words {
        ["get", k] => Operation::Get(key(k)?),
        ["insert", k, value] => Operation::Insert(key(k)?, number(value)?),
        ["update", k, value] => Operation::Update(key(k)?, number(value)?),
        ["upsert", k, value] => Operation::Upsert(key(k)?, number(value)?),
        ["remove", k] => Operation::Remove(key(k)?),
        ["move", from, to] => Operation::Move(key(from)?, key(to)?),
        ["copy", from, to] => Operation::Copy(key(from)?, key(to)?),
        ["claim", from, to, k, value] => {
            Operation::Claim(key(from)?, key(to)?, key(k)?, number(value)?)
        }
        ["scan"] => Operation::Scan,
        ["sync"] => Operation::Sync,
        ["epoch"] => Operation::Epoch,
        ["crash"] => Operation::Crash,
        ["reopen"] => Operation::Reopen,
        ["get", ..] => return Err(ScriptError::Form { line, form: "get KEY" }),
        ["close"] => Operation::Close,
        ["open"] => Operation::Open,
        ["create"] => Operation::Create,
        ["refused", ref operation @ ..] => {
            let form = ScriptError::Form {
                line,
                form: "refused OPERATION, where OPERATION is insert, update, upsert or batch",
            };
            if !matches!(operation.first(), Some(&("insert" | "update" | "upsert" | "batch"))) {
                return Err(form);
            }
            Operation::Refused(Box::new(parse_operation(line, operation, keys)?.ok_or(form)?))
        }
        ["move", ..] => return Err(ScriptError::Form { line, form: "move KEY TO" }),
        ["copy", ..] => return Err(ScriptError::Form { line, form: "copy KEY TO" }),
        ["claim", ..] => {
            return Err(ScriptError::Form { line, form: "claim FROM BELOW KEY VALUE" });
        }
        ["insert", ..] => return Err(ScriptError::Form { line, form: "insert KEY VALUE" }),
        ["update", ..] => return Err(ScriptError::Form { line, form: "update KEY VALUE" }),
        ["upsert", ..] => return Err(ScriptError::Form { line, form: "upsert KEY VALUE" }),
        ["remove", ..] => return Err(ScriptError::Form { line, form: "remove KEY" }),
        [
            "scan" | "sync" | "epoch" | "crash" | "reopen" | "close" | "open" | "create"
            | "explore",
            ..,
        ] => {
            return Err(ScriptError::Form { line, form: "the word alone" });
        }
        ["batch", ref operations @ ..] => parse_batch(line, operations, keys)?,
        [word, ..] => return Err(ScriptError::UnknownOperation { line, word: word.into() }),
        [] => return Ok(None),
    };
    Ok(Some(operation))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_reads_as_written() {
        let text =
            "# first\ninsert 1 10\n\n insert 2 20\nepoch\nexplore\nupdate 1 11\nremove 2\nsync\n";
        let scenario = Scenario::parse(text, None).unwrap();
        assert_eq!(scenario.keys, ScriptKeys::U64);
        assert_eq!(
            scenario.prepare,
            [
                Operation::Insert(Key::U64(1), 10),
                Operation::Insert(Key::U64(2), 20),
                Operation::Epoch
            ]
        );
        assert_eq!(
            scenario.explore,
            [Operation::Update(Key::U64(1), 11), Operation::Remove(Key::U64(2)), Operation::Sync]
        );
        assert_eq!(Scenario::parse("insert a 1", None).unwrap().keys, ScriptKeys::Bytes);
        assert_eq!(
            Scenario::parse("insert 7 1", Some(ScriptKeys::Bytes)).unwrap().explore[0],
            Operation::Insert(Key::Bytes(b"7".to_vec()), 1)
        );
    }

    #[test]
    fn a_line_of_many_operations_in_each_other_is_refused() {
        for word in ["refused ", "batch ", "thread 1 ", "cut site "] {
            assert!(Scenario::parse(&word.repeat(100_000), None).is_err(), "{word}");
        }
    }

    #[test]
    fn a_wrong_line_is_named() {
        let error = |text| Scenario::parse(text, None).unwrap_err();
        assert!(matches!(
            error("insert 1 1\nfrobnicate 2"),
            ScriptError::UnknownOperation { line: 2, .. }
        ));
        assert!(matches!(error("insert 1"), ScriptError::Form { line: 1, .. }));
        assert!(matches!(error("insert 1 x"), ScriptError::NotANumber { line: 1, .. }));
        assert_eq!(error("insert 1 1\nexplore\n# nothing"), ScriptError::Empty);
        assert!(matches!(
            Scenario::parse("insert a 1", Some(ScriptKeys::U64)),
            Err(ScriptError::NotANumber { .. })
        ));
    }

    #[test]
    fn the_same_seed_draws_the_same_operations() {
        for keys in [ScriptKeys::U64, ScriptKeys::Bytes] {
            assert_eq!(Scenario::random(keys, 50, 7), Scenario::random(keys, 50, 7));
            assert_ne!(Scenario::random(keys, 50, 7), Scenario::random(keys, 50, 8));
        }
    }

    #[test]
    fn what_is_drawn_has_crashes_with_operations_between_them_and_batches_for_stores() {
        let count = |scenario: &Scenario, kind: fn(&Operation) -> bool| {
            scenario.explore.iter().filter(|operation| kind(operation)).count()
        };
        let crash = |operation: &Operation| *operation == Operation::Crash;
        let batch = |operation: &Operation| matches!(operation, Operation::Batch(_));
        let of_index = Scenario::random(ScriptKeys::U64, 200, 1);
        assert!(count(&of_index, crash) >= 2);
        assert_eq!(count(&of_index, batch), 0, "an index has no batches");
        for kind in [Operation::Reopen, Operation::Scan, Operation::Sync, Operation::Epoch] {
            assert!(of_index.explore.contains(&kind), "{kind}");
        }
        let of_store = Scenario::random_of_store(ScriptKeys::Bytes, 200, 1);
        assert!(count(&of_store, batch) >= 10 && count(&of_store, crash) >= 2);
        assert!(of_store.has_batches());
    }
}
