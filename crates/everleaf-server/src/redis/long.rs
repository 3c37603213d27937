//! Replies of many values, which are sent in parts where they are long.
//!
//! A reply that fits into one part is made under the locks of its command's keys. Where it does
//! not, a moment of the store is kept (`data/moment.rs`), under the same locks, and each part is
//! read from it when the one before has been sent: so what waits to be sent is one part, and the
//! reply is nevertheless that of one moment. A part begins where the one before ended, so the time
//! is proportional to the reply. A command in a transaction replies whole.

use std::ops::{Bound, ControlFlow};

use everleaf::Direction;

use super::failure::Outcome;
use crate::data::{
    Ends, HEADER_BYTES, Header, Id, Kind, Live, Moment, Part, Source, behind, key_ends, key_of,
    key_row, part_prefix, part_rest, part_row, strings,
};
use crate::resp::glob;
use crate::resp::number::of_ordered;
use crate::resp::parse::Parser;
use crate::resp::reply::Reply;

/// What of a row is shown.
#[derive(Clone, Debug)]
pub enum Show {
    /// What stands behind the prefix: a field, a member.
    Names,
    /// The same, as members of a set.
    Members,
    /// The value.
    Values,
    /// Both, as pairs.
    Entries,
    /// A member of a sorted set, whose row is of this part, maybe with its score.
    Scored(Part, bool),
    /// The keys that match a pattern and are there.
    Keys(Vec<u8>, Live),
    /// Entries of a stream, behind its key where that is told.
    Stream(Option<Vec<u8>>),
}

/// Rows that are a reply.
#[derive(Clone, Debug)]
pub struct Rows {
    ends: Ends,
    direction: Direction,
    skip: u64,
    pub(super) left: u64,
    /// Whether as many as are left are there.
    known: bool,
    /// Whether the head of the reply is written.
    begun: bool,
    show: Show,
}

/// A reply of which more is to come than fits into one part.
pub enum More {
    /// Rows from the first on: nothing of it is written.
    Rows(Rows),
    /// Strings whose keys are the arguments from this one on.
    Strings(usize),
    /// Rows of several streams, of which this one is the next.
    Streams(Vec<Rows>, usize),
    /// Fields of a hash whose names are the arguments from this one on; none: nothing is there.
    Fields(Option<u64>, usize),
}

/// A reply that is sent in parts.
pub struct Long {
    /// What is read.
    pub moment: Moment,
    /// What of it is there.
    pub live: Live,
    /// The database of its keys.
    pub database: u8,
    /// What is to come.
    pub more: More,
}

impl Rows {
    /// `count` rows of a range, if there are as many, without the first `skip`.
    pub fn of(ends: Ends, direction: Direction, (skip, count): (u64, u64), show: Show) -> Self {
        Self { ends, direction, skip, left: count, known: false, begun: false, show }
    }

    /// All rows of a part of a collection, which has so many.
    pub fn all(id: u64, part: Part, members: u64, show: Show) -> Self {
        let ends = (Bound::Included(part_prefix(id, part)), Bound::Excluded(behind(id, part)));
        Self::of(ends, Direction::Forward, (0, members), show).known()
    }

    /// The keys of a database that match a pattern.
    pub fn keys(database: u8, pattern: &[u8], live: Live) -> Self {
        Self::of(
            key_ends(database),
            Direction::Forward,
            (0, u64::MAX),
            Show::Keys(pattern.to_vec(), live),
        )
    }

    /// The same where `count` rows are there.
    pub fn known(self) -> Self {
        Self { known: true, ..self }
    }

    /// Begins the reply.
    pub(super) fn head(&self, count: usize, reply: &mut Reply<'_>) {
        match &self.show {
            Show::Stream(Some(key)) => {
                reply.stream(key);
                reply.array(count);
            }
            Show::Members => reply.set(count),
            Show::Entries => reply.map(count),
            Show::Scored(_, true) if !reply.three => reply.array(2 * count),
            _ => reply.array(count),
        }
    }

    /// Shows rows until the reply has so many bytes. Whether these were the last.
    pub(super) fn part(
        &mut self,
        source: Source<'_, '_>,
        bytes: usize,
        reply: &mut Reply<'_>,
    ) -> Outcome<bool> {
        if self.left == 0 {
            return Ok(true);
        }
        let (mut skip, mut left, mut last) = (self.skip, self.left, None);
        source.scan(self.ends.clone(), self.direction, |row, value| {
            if !self.show.shows(row, value) {
                return ControlFlow::Continue(());
            }
            if skip > 0 {
                skip -= 1;
                return ControlFlow::Continue(());
            }
            self.show.row(row, value, reply);
            left -= 1;
            if left > 0 && reply.out.len() >= bytes {
                last = Some(row.to_vec());
            }
            match left == 0 || last.is_some() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })?;
        (self.skip, self.left) = (skip, left);
        let Some(last) = last else { return Ok(true) };
        match self.direction {
            Direction::Forward => self.ends.0 = Bound::Excluded(last),
            Direction::Backward => self.ends.1 = Bound::Excluded(last),
        }
        Ok(false)
    }

    /// Goes on with the reply: whether this was the end of it.
    fn go_on(&mut self, moment: &Moment, bytes: usize, reply: &mut Reply<'_>) -> Outcome<bool> {
        if !self.begun {
            let count = self.count(moment)?;
            self.head(count, reply);
            self.begun = true;
        }
        let ended = self.part(Source::Moment(moment), bytes, reply)?;
        match ended && self.left > 0 {
            true => Err("ERR a collection has fewer members than it says".into()),
            false => Ok(ended),
        }
    }

    /// Counts what will be shown.
    fn count(&mut self, moment: &Moment) -> Outcome<usize> {
        let rows = match self.show {
            _ if self.known => self.left,
            Show::Keys(..) => {
                let mut rows = 0;
                Source::Moment(moment).scan(self.ends.clone(), self.direction, |row, value| {
                    rows += u64::from(self.show.shows(row, value));
                    ControlFlow::Continue(())
                })?;
                rows
            }
            _ if self.left == u64::MAX => {
                moment.count(self.ends.clone())?.saturating_sub(self.skip)
            }
            // No more of them are counted than are shown.
            _ => {
                let (mut rows, most) = (0, self.skip.saturating_add(self.left));
                Source::Moment(moment).scan(self.ends.clone(), self.direction, |_, _| {
                    rows += 1;
                    match rows < most {
                        true => ControlFlow::Continue(()),
                        false => ControlFlow::Break(()),
                    }
                })?;
                rows.saturating_sub(self.skip)
            }
        };
        (self.left, self.known) = (self.left.min(rows), true);
        Ok(usize::try_from(self.left).unwrap_or(usize::MAX))
    }
}

impl Show {
    fn shows(&self, row: &[u8], value: &[u8]) -> bool {
        let Self::Keys(pattern, live) = self else { return true };
        Header::read(value).is_some_and(|header| live.shows(&header))
            && key_of(row).is_some_and(|(_, key)| glob::matches(pattern, key))
    }

    fn row(&self, row: &[u8], value: &[u8], reply: &mut Reply<'_>) {
        let rest = part_rest(row);
        match self {
            Self::Names | Self::Members => reply.bulk(rest),
            Self::Values => reply.bulk(value),
            Self::Entries => {
                reply.bulk(rest);
                reply.bulk(value);
            }
            Self::Scored(part, with_score) => {
                let (name, score) = match part {
                    Part::Score => (&rest[8.min(rest.len())..], rest),
                    _ => (rest, value),
                };
                if *with_score && reply.three {
                    reply.array(2);
                }
                reply.bulk(name);
                if *with_score {
                    reply.double(of_ordered(score).unwrap_or(0.0));
                }
            }
            Self::Stream(_) => show_entry(Id::of_row(row), value, reply),
            Self::Keys(..) => reply.bulk(key_of(row).map_or(&[][..], |(_, key)| key)),
        }
    }
}

/// Shows an entry of a stream.
pub fn show_entry(id: Id, value: &[u8], reply: &mut Reply<'_>) {
    reply.array(2);
    reply.bulk(id.to_string());
    reply.array(strings(value).count());
    strings(value).for_each(|string| reply.bulk(string));
}

/// Shows a string; what is none is not there.
pub fn show_string(
    source: Source<'_, '_>,
    row: &[u8],
    live: Live,
    reply: &mut Reply<'_>,
) -> Outcome {
    let found = source.show(row, |value| {
        let header = Header::read(value).filter(|header| live.shows(header))?;
        (header.kind == Kind::String).then(|| reply.bulk(&value[HEADER_BYTES..]))
    })?;
    if found.flatten().is_none() {
        reply.null();
    }
    if let Source::Work(work) = source {
        work.looked_up(found.flatten().is_some());
    }
    Ok(())
}

/// Shows a field of a hash.
pub fn show_field(
    source: Source<'_, '_>,
    hash: Option<u64>,
    name: &[u8],
    reply: &mut Reply<'_>,
) -> Outcome {
    let found = match hash {
        Some(id) => source.show(&part_row(id, Part::Member, name), |value| reply.bulk(value))?,
        None => None,
    };
    if found.is_none() {
        reply.null();
    }
    Ok(())
}

impl Long {
    /// Whether much may have to be read for little that is shown.
    pub fn seeks(&self) -> bool {
        matches!(&self.more, More::Rows(Rows { show: Show::Keys(..), .. }))
    }

    /// Writes a part, until there are so many bytes: whether it was the last one.
    ///
    /// # Errors
    /// The reply cannot be ended: what was sent of it cannot be taken back.
    pub fn part(
        &mut self,
        parser: &Parser,
        input: &[u8],
        bytes: usize,
        reply: &mut Reply<'_>,
    ) -> Outcome<bool> {
        let source = Source::Moment(&self.moment);
        let (at, hash) = match &mut self.more {
            More::Rows(rows) => return rows.go_on(&self.moment, bytes, reply),
            More::Streams(streams, at) => {
                if *at == 0 && streams.first().is_some_and(|first| !first.begun) {
                    reply.streams(streams.len());
                }
                while let Some(rows) = streams.get_mut(*at) {
                    let is_full = *at > 0 && reply.out.len() >= bytes;
                    if is_full || !rows.go_on(&self.moment, bytes, reply)? {
                        return Ok(false);
                    }
                    *at += 1;
                }
                return Ok(true);
            }
            More::Strings(at) => (at, None),
            More::Fields(id, at) => (at, Some(*id)),
        };
        while *at < parser.len() {
            if reply.out.len() >= bytes {
                return Ok(false);
            }
            let name = parser.argument(input, *at);
            match hash {
                None => show_string(source, &key_row(self.database, name), self.live, reply)?,
                Some(id) => show_field(source, id, name, reply)?,
            }
            *at += 1;
        }
        Ok(true)
    }
}
