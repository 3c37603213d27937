//! One command at work: its arguments, the keys that it reads and writes, its reply.

use std::ops::{Bound, ControlFlow};

use everleaf::{Direction, Error};

use super::blocking::Blocking;
use super::long::More;
use super::number::{float, integer};
use super::reply::Reply;
use crate::data::{
    Collection, HEADER_BYTES, Header, Kind, Live, MAX_KEY_BYTES, Part, Spot, Work, key_row,
    part_prefix,
};
use crate::shared::Shared;

/// Why a command was not done.
#[derive(Debug)]
pub enum Failure {
    /// The sentence that Redis says.
    Said(&'static str),
    /// A sentence of ours.
    Text(String),
    /// The store failed.
    Store(Error),
    /// It takes long: some of it is done, and the rest when it is asked again.
    Later,
    /// A request that takes long has the locks that it needs: nothing of it is done.
    Locked,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl From<&'static str> for Failure {
    fn from(sentence: &'static str) -> Self {
        Self::Said(sentence)
    }
}

/// What a command returns.
pub type Outcome<T = ()> = Result<T, Failure>;

pub const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
pub const SYNTAX: &str = "ERR syntax error";
pub const NOT_INTEGER: &str = "ERR value is not an integer or out of range";
pub const NOT_FLOAT: &str = "ERR value is not a valid float";
pub const NO_SUM: &str = "ERR increment would produce NaN or Infinity";
pub const NO_KEY: &str = "ERR no such key";
pub const OUT_OF_RANGE: &str = "ERR index out of range";
pub const TOO_LONG: &str = "ERR the reply takes too much memory; ask for less at a time";

/// One command at work.
pub struct Call<'a, 'd, 'o> {
    /// What it writes.
    pub work: &'a mut Work<'d>,
    /// Its name and what follows.
    pub args: &'a [&'a [u8]],
    /// Where its reply goes.
    pub reply: Reply<'o>,
    /// The database that is selected.
    pub database: u8,
    /// What all connections share.
    pub shared: &'a Shared,
    /// Bytes at which the reply is sent and goes on in another part; none: it is made whole.
    pub part_bytes: Option<usize>,
    /// What is left for other parts.
    pub more: Option<More>,
    /// Whether it may wait.
    pub blocking: Blocking<'a>,
}

/// Whether an argument is this word, in any case.
pub fn is(arg: &[u8], word: &str) -> bool {
    arg.eq_ignore_ascii_case(word.as_bytes())
}

impl<'a> Call<'a, '_, '_> {
    /// The arguments from one on.
    pub fn rest(&self, from: usize) -> &'a [&'a [u8]] {
        self.args.get(from..).unwrap_or_default()
    }

    /// The row of a key.
    pub fn row_of(&self, key: &[u8]) -> Outcome<Vec<u8>> {
        check_length(key)?;
        Ok(key_row(self.database, key))
    }

    /// The row of the key that an argument is.
    pub fn row(&self, at: usize) -> Outcome<Vec<u8>> {
        self.row_of(self.args[at])
    }

    /// What is there of the database that is selected.
    pub fn live(&self) -> Live {
        self.work.live(self.database)
    }

    /// Refuses more arguments than a command has.
    pub fn at_most(&self, arguments: usize) -> Outcome {
        match self.args.len() <= arguments {
            true => Ok(()),
            false => Err(wrong_number(self.args[0])),
        }
    }

    /// The same, in the words of commands that have options.
    pub fn at_most_or_syntax(&self, arguments: usize) -> Outcome {
        if self.args.len() <= arguments { Ok(()) } else { Err(SYNTAX.into()) }
    }

    /// A whole number between two others.
    pub fn range(&self, at: usize, least: i64, most: i64) -> Outcome<i64> {
        let number = self.integer(at)?;
        if (least..=most).contains(&number) {
            return Ok(number);
        }
        let sentence = format!("ERR value is out of range, value must between {least} and {most}");
        Err(Failure::Text(sentence))
    }

    /// A whole number.
    pub fn integer(&self, at: usize) -> Outcome<i64> {
        integer(self.args[at]).ok_or(Failure::Said(NOT_INTEGER))
    }

    /// A whole number that is at least so much; if not, `sentence` says it.
    pub fn at_least(&self, at: usize, least: i64, sentence: &'static str) -> Outcome<u64> {
        match integer(self.args[at]) {
            Some(number) if number >= least => Ok(number.unsigned_abs()),
            _ => Err(Failure::Said(sentence)),
        }
    }

    /// A number with a fraction.
    pub fn float(&self, at: usize) -> Outcome<f64> {
        float(self.args[at]).ok_or(Failure::Said(NOT_FLOAT))
    }

    /// The lines of HELP of this command.
    pub fn help(&mut self, lines: &[&str]) {
        self.reply.help(self.args[0], lines);
    }

    // ---- ranks
    // ---------------------------------------------------------------------------------------------

    /// How many rows of a part of a collection lie before a row. To be asked before anything is
    /// written.
    pub fn rank(&self, collection: &Collection, part: Part, row: &[u8]) -> Outcome<u64> {
        let (prefix, waits) = (part_prefix(collection.id, part), self.part_bytes.is_none());
        self.work.rank(&prefix, collection.members, row, waits)?.ok_or(Failure::Later)
    }

    /// Where the row of a part lies that has `number` others before it. As [`rank`](Call::rank).
    pub fn spot(&self, collection: &Collection, part: Part, number: u64) -> Outcome<Spot> {
        let (prefix, waits) = (part_prefix(collection.id, part), self.part_bytes.is_none());
        self.work.spot(&prefix, collection.members, number, waits)?.ok_or(Failure::Later)
    }

    /// That row, and its value; none: there are fewer.
    pub fn row_at(
        &self,
        collection: &Collection,
        part: Part,
        number: u64,
    ) -> Outcome<Option<(Vec<u8>, Vec<u8>)>> {
        let Spot { from, mut skip, to, .. } = self.spot(collection, part, number)?;
        let mut found = None;
        let ends = (Bound::Included(from), Bound::Excluded(to));
        self.work.scan(ends, Direction::Forward, |row, value| {
            if skip == 0 {
                found = Some((row.to_vec(), value.to_vec()));
                return ControlFlow::Break(());
            }
            skip -= 1;
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }

    // ---- keys
    // ---------------------------------------------------------------------------------------------

    /// A string; none if the key is not there.
    pub fn string(&self, row: &[u8]) -> Outcome<Option<(Header, Vec<u8>)>> {
        match self.work.value(row)? {
            Some((header, _)) if header.kind != Kind::String => Err(WRONG_TYPE.into()),
            Some((header, mut value)) => Ok(Some((header, value.split_off(HEADER_BYTES)))),
            None => Ok(None),
        }
    }

    /// A collection; none if the key is not there.
    pub fn collection(&self, row: &[u8], kind: Kind) -> Outcome<Option<(Header, Collection)>> {
        match self.work.header(row)? {
            None => Ok(None),
            Some((header, Some(collection))) if header.kind == kind => {
                Ok(Some((header, collection)))
            }
            Some(_) => Err(WRONG_TYPE.into()),
        }
    }

    /// The number of keys that an argument says, and where they end.
    pub fn counted_keys(&self, at: usize) -> Outcome<(&'a [&'a [u8]], usize)> {
        let count = self.at_least(at, 1, "ERR numkeys should be greater than 0")?;
        let keys = self.rest(at + 1);
        let count = usize::try_from(count).ok().filter(|count| *count < keys.len());
        let count = count.ok_or(Failure::Said(SYNTAX))?;
        Ok((&keys[..count], at + 1 + count))
    }

    /// A collection, a new one if the key is not there.
    pub fn collection_to_write(&mut self, row: &[u8], kind: Kind) -> Outcome<(Header, Collection)> {
        match self.collection(row, kind)? {
            Some(found) => Ok(found),
            None => {
                self.work.remove_key(row)?; // What expired may still lie there.
                Ok(self.work.new_collection(kind)?)
            }
        }
    }

    /// Stores a string, without what the key had before.
    pub fn put_string(&mut self, row: &[u8], body: &[u8], expires_ms: Option<u64>) -> Outcome {
        let header =
            Header { expires_ms, ..Header::new(Kind::String, self.work.data.next_number()?) };
        self.check_value(body.len())?;
        Ok(self.work.put_string(row, &header, body)?)
    }

    /// Refuses what is longer than a value may be.
    pub fn check_value(&self, bytes: usize) -> Outcome {
        if bytes > self.shared.options.limits.value_bytes {
            return Err("ERR string exceeds maximum allowed size (proto-max-bulk-len)".into());
        }
        Ok(())
    }
}

/// What Redis says where a command has too few or too many arguments.
pub fn wrong_number(name: &[u8]) -> Failure {
    let name = name.escape_ascii().to_string().to_ascii_lowercase();
    Failure::Text(format!("ERR wrong number of arguments for '{name}' command"))
}

/// Refuses a key, field or member that the store would not take.
pub fn check_length(key: &[u8]) -> Outcome {
    if key.len() > MAX_KEY_BYTES {
        return Err(Failure::Text(format!(
            "ERR a key, field or member has at most {MAX_KEY_BYTES} bytes, not {}",
            key.len()
        )));
    }
    Ok(())
}

/// The part of a list of `length` that two indexes, which may count from its end, stand for.
pub fn slice(from: i64, to: i64, length: u64) -> std::ops::Range<u64> {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let absolute = |at: i64| if at < 0 { at.saturating_add(length) } else { at };
    let (from, to) = (absolute(from).max(0), absolute(to).min(length - 1));
    if from > to { 0..0 } else { from as u64..to as u64 + 1 }
}
