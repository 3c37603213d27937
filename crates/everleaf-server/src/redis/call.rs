//! One command at work: its arguments, the keys that it reads and writes, its reply.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::time::Duration;

use everleaf::Direction;

use super::command::{Command, Known};
use super::failure::{
    Failure, NOT_FLOAT, NOT_INTEGER, Outcome, SYNTAX, WRONG_TYPE, check_length, wrong_number,
};
use super::long::{More, Rows};
use crate::data::{
    Awaited, Collection, DATABASES, HEADER_BYTES, Header, Held, Kind, Live, Part, Place, Source,
    Spot, Work, key_row, part_prefix,
};
use crate::resp::long_double::LongDouble;
use crate::resp::number::{bound, float, integer};
use crate::resp::reply::Reply;
#[cfg(feature = "scripts")]
use crate::scripts::Libraries;
use crate::shared::{Event, Shared};

/// How long a command waits; none: for ever.
#[derive(Clone, Copy)]
pub struct Timeout(pub Option<Duration>);

/// Whether a command may wait, and that it has to.
#[derive(Default)]
pub struct Blocking<'a> {
    /// Whether it may.
    pub may_wait: bool,
    /// Its place in line, where it has waited.
    pub place: Option<&'a Place>,
    /// Set by the command where there is nothing.
    pub wait: Option<Wait>,
}

/// What is waited for.
pub struct Wait {
    /// The rows of keys.
    pub rows: Vec<Vec<u8>>,
    /// What one of them is to hold.
    pub kind: Kind,
    /// What of streams.
    pub awaited: Awaited,
    /// How long.
    pub timeout: Timeout,
    /// How often it looks though nobody wakes it; none: never.
    pub again: Option<Duration>,
}

/// What a command does beside the store, once it is known that it has counted.
#[derive(Default)]
pub struct Effects {
    /// Messages and their channels.
    pub published: Vec<[Vec<u8>; 2]>,
    /// Lines for the log.
    pub logged: Vec<(tracing::Level, String)>,
    /// Lines for who monitors: of the commands of a script.
    pub monitored: Vec<String>,
    /// What the commands of a script have done to keys.
    pub events: Vec<Event>,
    /// The libraries of functions, if it has changed them.
    #[cfg(feature = "scripts")]
    pub libraries: Option<Arc<Libraries>>,
}

/// What a command is part of.
#[derive(Clone, Copy)]
pub struct Within<'a> {
    /// The database that is selected.
    pub database: u8,
    /// The keys that were declared.
    pub declared: &'a [&'a [u8]],
    /// What was written before.
    pub mark: usize,
}

/// The connection that a command works for, as far as commands ask for it.
pub trait Caller {
    /// Whether it leaves what takes long to another thread.
    fn leaves_long(&self) -> bool;

    /// Members of collections that a command is about, which say how long it takes.
    fn weight(&self, database: u8, args: &[&[u8]]) -> u64;

    /// The command of a name, in any case.
    fn find(&self, name: &[u8]) -> Option<&'static Command>;

    /// All commands, without second words.
    fn all_commands(&self) -> Vec<Known>;

    /// Does a command as part of the one at work; what it has done to keys, where that is told.
    fn run_within(
        &self,
        command: &'static Command,
        args: &[&[u8]],
        work: &mut Work<'_>,
        reply: Reply<'_>,
        within: Within<'_>,
    ) -> Outcome<Vec<Event>>;

    /// What those who monitor are told of a command of a script in a database; none: there is
    /// nobody, or it is not told.
    fn monitored(&self, args: &[&[u8]], database: u8) -> Option<String>;

    /// The libraries of functions, where a transaction at work has changed them.
    #[cfg(feature = "scripts")]
    fn libraries(&self) -> Option<&Arc<Libraries>>;

    /// How many will get a message that is sent later, and what its own connection gets.
    fn publish_later(&self, message: [&[u8]; 2]) -> (usize, Vec<Arc<[u8]>>);
}

/// The database of a number.
pub fn database(index: &[u8]) -> Outcome<u8> {
    let index = integer(index).ok_or(Failure::Said(NOT_INTEGER))?;
    match u8::try_from(index) {
        Ok(index) if index < DATABASES => Ok(index),
        _ => Err("ERR DB index is out of range".into()),
    }
}

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
    /// The connection.
    pub caller: &'a dyn Caller,
    /// The locks that it has, for what calls other commands.
    pub held: Option<&'a Held<'d>>,
    /// What it does beside.
    pub effects: Effects,
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

    /// Tells of what happened to a key, once this has counted.
    pub fn tell(&mut self, class: u8, name: &'static str, row: &[u8]) {
        self.effects.events.push(Event { class, name, row: row.to_vec() });
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
        if bytes > self.shared.longest.redis {
            return Err("ERR string exceeds maximum allowed size (proto-max-bulk-len)".into());
        }
        Ok(())
    }

    // ---- replies in parts
    // ---------------------------------------------------------------------------------------------

    /// Replies with rows.
    pub fn rows(&mut self, rows: Rows) -> Outcome {
        if !self.fits(&rows)? {
            self.more = Some(More::Rows(rows));
        }
        Ok(())
    }

    /// Replies with rows of several streams.
    pub fn streams(&mut self, streams: Vec<Rows>) -> Outcome {
        let start = self.reply.out.len();
        self.reply.streams(streams.len());
        for rows in &streams {
            if !self.fits(rows)? {
                self.reply.out.truncate(start);
                self.more = Some(More::Streams(streams, 0));
                break;
            }
        }
        Ok(())
    }

    /// Shows rows, unless they are too many for one part.
    fn fits(&mut self, rows: &Rows) -> Outcome<bool> {
        let mut part = rows.clone();
        let mut body = Vec::new();
        let room = self.part_bytes.unwrap_or(self.reply.end).saturating_sub(self.reply.out.len());
        let mut reply = Reply { out: &mut body, three: self.reply.three, end: usize::MAX };
        let ended = part.part(Source::Work(self.work), room, &mut reply)?;
        if !ended && self.part_bytes.is_some() {
            return Ok(false);
        }
        rows.head((rows.left - part.left) as usize, &mut self.reply);
        self.reply.out.extend_from_slice(&body);
        Ok(true)
    }

    /// Whether what follows belongs into another part.
    pub fn is_full(&self) -> bool {
        self.part_bytes.is_some_and(|bytes| self.reply.out.len() >= bytes)
    }

    // ---- waiting
    // ---------------------------------------------------------------------------------------------

    /// The seconds that an argument says.
    pub fn timeout(&self, at: usize) -> Outcome<Timeout> {
        let sentence = "ERR timeout is not a float or out of range";
        LongDouble::read(self.args[at]).ok_or(Failure::Said(sentence))?;
        let seconds = bound(self.args[at]).unwrap_or(f64::INFINITY);
        let ms = (seconds * 1000.0).ceil();
        if !(0.0..i64::MAX as f64).contains(&ms) {
            return Err("ERR timeout is negative".into());
        }
        Ok(Timeout((ms > 0.0).then(|| Duration::from_millis(ms as u64))))
    }

    /// Whether a key holds something of this kind that is not for others. What is of another kind
    /// is an error, but for who has waited.
    pub fn may_pop(&self, row: &[u8], kind: Kind) -> Outcome<bool> {
        match self.work.header(row)? {
            None => Ok(false),
            Some((header, _)) if header.kind == kind => {
                let Blocking { may_wait, place, .. } = self.blocking;
                Ok(!may_wait || self.work.data.waiting.is_turn(row, (kind, None), place))
            }
            Some(_) if self.blocking.place.is_some() => Ok(false),
            Some(_) => Err(WRONG_TYPE.into()),
        }
    }

    /// The milliseconds that an argument says.
    pub fn timeout_ms(&self, at: usize) -> Outcome<Timeout> {
        let sentence = "ERR timeout is not an integer or out of range";
        let ms = integer(self.args[at]).ok_or(Failure::Said(sentence))?;
        let ms = u64::try_from(ms).map_err(|_| Failure::Said("ERR timeout is negative"))?;
        Ok(Timeout((ms > 0).then(|| Duration::from_millis(ms))))
    }

    /// Waits for one of these keys, or replies that there is nothing.
    pub fn wait_for(&mut self, keys: &[&[u8]], kind: Kind, timeout: Timeout) -> Outcome {
        self.wait_for_some(keys, (kind, Awaited::default()), timeout)
    }

    /// The same, for some entries of streams.
    pub fn wait_for_some(
        &mut self,
        keys: &[&[u8]],
        (kind, awaited): (Kind, Awaited),
        timeout: Timeout,
    ) -> Outcome {
        self.reply.null_array();
        if self.blocking.may_wait {
            let rows = keys.iter().map(|key| self.row_of(key)).collect::<Outcome<_>>()?;
            self.blocking.wait = Some(Wait { rows, kind, awaited, timeout, again: None });
        }
        Ok(())
    }
}
