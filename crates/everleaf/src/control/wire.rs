//! What both sides say: a line of JSON each.

use std::io::{self, BufRead, Read, Write};
use std::ops::Bound;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::core::keyspace::Space;
use crate::{
    Capabilities, CheckOutcome, DurabilityMode, Engine, EngineParameters, Error, KeyType,
    MAX_KEY_BYTES, Progress,
};

/// The version of all of this.
pub(super) const PROTOCOL: u32 = 1;
/// The longest line of an asker: a byte of a key is a number, which has up to three digits.
pub(super) const REQUEST_BYTES: u64 = 4 * MAX_KEY_BYTES as u64 + 1024;
/// Bytes that are read and written together: most answers.
pub(super) const BUFFER_BYTES: usize = 64 << 10;
/// The longest line of an owner: a report of a thousand sentences, each with a long key.
pub(super) const ANSWER_BYTES: u64 = 256 << 20;

/// The owner's first line. Who knows another version does not read on.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Hello<P> {
    pub protocol: u32,
    pub pool: P,
}

/// What the pool is.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Described {
    pub engine: Engine,
    pub key_type: KeyType,
    pub parameters: EngineParameters,
    pub capabilities: Capabilities,
    pub chosen_durability: Option<DurabilityMode>,
}

/// What can be asked.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Request {
    /// The state of this moment, which all entries are of that are asked for afterwards; the time
    /// at which it began.
    Snapshot { limit_bytes: u64 },
    /// Entries of the snapshot.
    Entries {
        from: Bound<Vec<u8>>,
        backward: bool,
        limit: usize,
        /// Those before will not be asked for again.
        once: bool,
    },
    /// How many keys there are now, in a space or in all.
    Count { space: Option<Space> },
    /// Sizes of this moment.
    Statistics,
    /// Whether anything is wrong.
    Check,
}

/// What stands before entries.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Batch {
    /// Whether there are no more.
    pub at_end: bool,
}

/// A line that answers `Check`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Checked {
    /// How far it has come.
    Progress(Progress),
    /// What was found: the last line.
    Outcome(Result<CheckOutcome, Refusal>),
}

/// Why there is no answer.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Refusal {
    /// A sentence.
    pub what: String,
    /// The limit of the snapshot, where it is this that was lost.
    pub lost_limit_bytes: Option<u64>,
}

impl Refusal {
    pub fn of(what: impl Into<String>) -> Self {
        Self { what: what.into(), lost_limit_bytes: None }
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let lost_limit_bytes = match &error {
            Error::SnapshotLost { limit_bytes } => Some(*limit_bytes),
            _ => None,
        };
        Self { what: error.to_string(), lost_limit_bytes }
    }
}

/// Writes a line, to be followed by others.
pub(super) fn write_line(output: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    output.write_all(&line) // Whole: each write wakes the other side.
}

/// Writes a line that the other side waits for.
pub(super) fn send(output: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    write_line(output, message)?;
    output.flush()
}

/// Reads a line without its end; none where no more come.
pub(super) fn read_line(input: &mut impl BufRead, max_bytes: u64) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    input.by_ref().take(max_bytes).read_until(b'\n', &mut line)?;
    match line.pop() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(line)),
        Some(_) if line.len() as u64 + 1 == max_bytes => {
            Err(io::Error::new(io::ErrorKind::InvalidData, "a line is too long"))
        }
        Some(_) => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Reads a line as what it must be.
pub(super) fn receive<T: DeserializeOwned>(input: &mut impl BufRead) -> io::Result<T> {
    let line = read_line(input, ANSWER_BYTES)?.ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok(serde_json::from_slice(&line)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_bounded_and_whole() {
        let read = |mut bytes: &[u8]| {
            let line = read_line(&mut bytes, 8).map_err(|error| error.kind());
            (line, bytes.len())
        };
        assert_eq!(read(b""), (Ok(None), 0));
        assert_eq!(read(b"\n"), (Ok(Some(vec![])), 0));
        assert_eq!(read(b"1234567\nrest"), (Ok(Some(b"1234567".to_vec())), 4));
        assert_eq!(read(b"12345678\n").0, Err(io::ErrorKind::InvalidData));
        assert_eq!(read(b"1234").0, Err(io::ErrorKind::UnexpectedEof));
    }

    fn request_from(key: Vec<u8>) -> Request {
        let from = Bound::Included(key);
        Request::Entries { from, backward: true, limit: usize::MAX, once: true }
    }

    #[test]
    fn a_message_wakes_the_other_side_once() {
        struct Writes(usize);
        impl Write for Writes {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0 += 1;
                Ok(bytes.len())
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut writes = Writes(0);
        send(&mut writes, &request_from(vec![255; 100])).unwrap();
        assert_eq!(writes.0, 1);
    }

    #[test]
    fn the_request_with_the_longest_key_fits() {
        let key = vec![255; MAX_KEY_BYTES];
        let request = request_from(key.clone());
        let mut line = Vec::new();
        send(&mut line, &request).unwrap();
        assert!(line.len() as u64 <= REQUEST_BYTES);
        let request = receive(&mut &*line).unwrap();
        assert!(matches!(request, Request::Entries { from: Bound::Included(k), .. } if k == key));
    }
}
