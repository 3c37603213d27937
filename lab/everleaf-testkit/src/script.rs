//! Scenarios: operations one a line, as `everleaf-lab explore --script` reads them.

use everleaf::{Engine, KeyType};

use crate::parse::{key_words, known_words, parse_operation, parse_thread};
use crate::{Cut, Operation};

/// Why a script was refused.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScriptError {
    /// A line does not begin with a known operation.
    #[error("line {line}: `{word}` is no operation; known are {}", known_words())]
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
    #[error("line {line}: `{word}` is not a number of 64 bits")]
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;

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
}
