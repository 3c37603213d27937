//! Going through the groups of a log.

use std::collections::VecDeque;

use crate::control::{Control, Ended, Place, Stamp};
use crate::disk::{BLOCK, Disk, PIECE};
use crate::group::{HEADER, Header};
use crate::segment::{FIRST, Segment, segment_numbers};
use crate::weak::{Weak, Weakness};
use crate::{Damage, LogError};

/// Goes through the groups of the sessions of a log.
pub(crate) struct Reader<'d> {
    disk: &'d dyn Disk,
    uuid: u128,
    /// That of the group at the end.
    session: u64,
    /// Sessions that end later, and the one behind the last of them, which writes.
    ends: VecDeque<Ended>,
    writing: u64,
    /// That of `end`.
    segment: Segment,
    /// Of the group that was found last.
    payload: Vec<u8>,
    /// Of all groups that were found.
    pub(crate) bytes: u64,
    /// Where the next group would be.
    pub(crate) end: Place,
    /// The same of the last group that is known to be durable.
    pub(crate) durable: Place,
    /// The same of each group after that one.
    undecided: VecDeque<Place>,
    weak: Weakness,
    /// Whether segments are read whose header is damaged.
    salvages: bool,
}

impl<'d> Reader<'d> {
    /// From the redo point on. From there the numbers of the segments have no gap.
    pub(crate) fn new(
        disk: &'d dyn Disk,
        control: &Control,
        weak: Weakness,
    ) -> Result<Self, LogError> {
        let end = control.redo;
        let missing = LogError::damaged(Damage::MissingSegment, end.segment);
        let segment = Segment::open(disk, end.segment, control.uuid)?.ok_or(missing)?;
        if end.offset > segment.bytes {
            return Err(LogError::damaged(Damage::Control, end.segment));
        }
        if !weak.is(Weak::GapIsEnd) {
            let numbers = segment_numbers(disk)?.into_iter().filter(|n| *n >= end.segment);
            if let Some((gap, _)) = (end.segment..).zip(numbers).find(|(n, found)| n != found) {
                return Err(LogError::damaged(Damage::MissingSegment, gap));
            }
        }
        Ok(Self {
            disk,
            uuid: control.uuid,
            session: control.first_session(),
            ends: control.earlier.sessions().iter().copied().collect(),
            writing: control.session,
            segment,
            payload: Vec::new(),
            bytes: 0,
            end,
            durable: end,
            undecided: VecDeque::new(),
            weak,
            salvages: false,
        })
    }

    /// Of a damaged log: from the redo point on.
    pub(crate) fn of_damaged(disk: &'d dyn Disk, control: &Control) -> Result<Self, LogError> {
        let mut reader = Self::of_damaged_segment(disk, control.uuid, control.redo.segment)?;
        (reader.end, reader.session) = (control.redo, control.first_session());
        reader.ends = control.earlier.sessions().iter().copied().collect();
        reader.writing = control.session;
        Ok(reader)
    }

    /// Of a damaged log: from the first group of a segment on, whichever it is.
    pub(crate) fn of_damaged_segment(
        disk: &'d dyn Disk,
        uuid: u128,
        number: u64,
    ) -> Result<Self, LogError> {
        let missing = LogError::damaged(Damage::MissingSegment, number);
        let segment = Segment::open_damaged(disk, number)?.ok_or(missing)?;
        let own = |header: &Header| header.uuid == uuid && header.segment == number;
        let first = header_at(&segment, FIRST)?.filter(own);
        let (session, end) = first.map_or((0, Place::default()), |first| {
            let (number, before) = (first.number, first.before);
            (first.session, Place { segment: segment.number, offset: FIRST, number, before })
        });
        Ok(Self {
            disk,
            uuid,
            session,
            ends: VecDeque::new(),
            writing: session,
            segment,
            payload: Vec::new(),
            bytes: 0,
            end,
            durable: end,
            undecided: VecDeque::new(),
            weak: Weakness::default(),
            salvages: true,
        })
    }

    fn open(&self, number: u64) -> Result<Option<Segment>, LogError> {
        if self.salvages {
            Segment::open_damaged(self.disk, number)
        } else {
            Segment::open(self.disk, number, self.uuid)
        }
    }

    /// Whether the groups so far end with the one that a stamp names.
    pub(crate) fn is_at(&self, stamp: Stamp) -> bool {
        let here = (self.session, self.end.number - 1, self.end.before);
        (stamp.session, stamp.number, stamp.checksum) == here
    }

    /// Goes on to the next group; false at the end.
    pub(crate) fn next(&mut self) -> Result<bool, LogError> {
        let Some((header, checksum)) = self.valid()? else { return Ok(false) };
        let damaged = LogError::damaged(Damage::Group, self.end.segment);
        let Some(number) = header.number.checked_add(1) else { return Err(damaged) };
        let bytes = header.total_bytes().unwrap_or(BLOCK);
        (self.bytes, self.end.offset) = (self.bytes + bytes, self.end.offset + bytes);
        (self.end.number, self.end.before) = (number, checksum);
        if header.closes {
            let Some(next) = self.end.segment.checked_add(1) else { return Err(damaged) };
            match self.open(next)? {
                Some(segment) => {
                    (self.end.segment, self.end.offset) = (next, FIRST);
                    self.segment = segment;
                }
                None if self.weak.is(Weak::GapIsEnd) => {}
                None => return Err(LogError::damaged(Damage::MissingSegment, next)),
            }
        }
        self.undecided.push_back(self.end);
        self.note_durable(header.synced_through);
        if self.ends.pop_front_if(|ended| ended.end == number).is_some() {
            self.session = self.ends.front().map_or(self.writing, |next| next.session);
            self.note_durable(number - 1); // It was, before the next one began.
        }
        Ok(true)
    }

    /// Groups up to this one are known to be durable: a later one says so, or the file's stamp.
    pub(crate) fn note_durable(&mut self, number: u64) {
        while let Some(place) = self.undecided.pop_front_if(|place| place.number - 1 <= number) {
            self.durable = place;
        }
    }

    /// The payload of the group that was found last.
    pub(crate) fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// The header of the group at the end if it is the next one, whole, and its checksum. Its
    /// payload is read.
    fn valid(&mut self) -> Result<Option<(Header, u32)>, LogError> {
        let at = self.end.offset;
        let mut block = [0; BLOCK as usize];
        let there = self.segment.read(at, &mut block)?;
        let Some((header, checksum)) = Header::decode(&block[..there]) else { return Ok(None) };
        let one = self.weak.is(Weak::SessionsAreOne);
        let next = header.uuid == self.uuid
            && header.segment == self.segment.number
            && header.number == self.end.number
            && (one || header.session == self.session && header.before == self.end.before);
        if !next {
            return Ok(None);
        }
        let room = self.segment.bytes - at;
        if header.total_bytes().is_none_or(|total| total > room) {
            return Err(LogError::damaged(Damage::Truncated, self.segment.number));
        }
        let whole = self.read_payload(&header, &block)? || self.weak.is(Weak::NoChecksum);
        Ok(whole.then_some((header, checksum)))
    }

    /// Reads the payload of the group at the end, whose first block is given; whether it is whole.
    fn read_payload(&mut self, header: &Header, block: &[u8]) -> Result<bool, LogError> {
        let (from, length) = (self.end.offset + HEADER as u64, header.payload_bytes as usize);
        self.payload.clear();
        if let Some(payload) = block[HEADER..].get(..length) {
            self.payload.extend(payload);
        } else {
            // No memory is taken for what is not valid.
            if length > PIECE && self.checksum(from, header.payload_bytes)? != header.payload_crc {
                return Ok(false);
            }
            self.payload.resize(length, 0);
            self.segment.read(from, &mut self.payload)?;
        }
        Ok(crc32c::crc32c(&self.payload) == header.payload_crc)
    }

    fn checksum(&self, from: u64, length: u64) -> Result<u32, LogError> {
        let (mut piece, mut crc) = (vec![0; PIECE], 0);
        for done in (0..length).step_by(PIECE) {
            let piece = &mut piece[..(length - done).min(PIECE as u64) as usize];
            self.segment.read(from + done, piece)?;
            crc = crc32c::crc32c_append(crc, piece);
        }
        Ok(crc)
    }

    /// Whether it has come to this end, as the log's writer or another reader has.
    pub(crate) fn check_place(&self, end: Place) -> Result<(), LogError> {
        let damaged = LogError::damaged(Damage::Group, self.end.segment);
        let is_there = self.end == end || self.weak.is(Weak::GapIsEnd);
        if is_there { Ok(()) } else { Err(damaged) }
    }

    /// Whether what looks like the end is one: no later group knows of a durable one there, and
    /// none is of the session that follows.
    pub(crate) fn check_end(&self) -> Result<(), LogError> {
        self.check_behind(&self.segment, self.end.offset)?;
        for number in segment_numbers(self.disk)?.into_iter().filter(|n| *n > self.end.segment) {
            if let Some(segment) = self.open(number)? {
                self.check_behind(&segment, FIRST)?;
            }
        }
        Ok(())
    }

    fn check_behind(&self, segment: &Segment, from: u64) -> Result<(), LogError> {
        let mut piece = vec![0; PIECE];
        for at in (from..segment.bytes).step_by(PIECE) {
            let there = segment.read(at, &mut piece)?;
            for block in piece[..there].chunks(BLOCK as usize) {
                if let Some((header, _)) = Header::decode(block) {
                    self.check_later(&header, segment.number)?;
                }
            }
        }
        Ok(())
    }

    /// What a group behind the end says of the end.
    fn check_later(&self, header: &Header, segment: u64) -> Result<(), LogError> {
        if header.uuid != self.uuid || header.segment < segment {
            return Ok(()); // A stale one.
        }
        let same = header.session == self.session;
        let knows = header.synced_through >= self.end.number;
        if same && (knows && !self.weak.is(Weak::DamageIsTail))
            || same && self.weak.is(Weak::TailIsDamage)
        {
            return Err(LogError::damaged(Damage::Group, self.end.segment));
        }
        if !same && header.previous_session == self.session && header.served {
            return Err(LogError::damaged(Damage::UnknownSession, segment));
        }
        Ok(())
    }

    /// Of a damaged log: goes on with the session that began where this one ends, if there is one.
    /// What a session that was never served holds is in the next one as well, so the newest counts.
    pub(crate) fn follow_session(&mut self) -> Result<bool, LogError> {
        let numbers = segment_numbers(self.disk)?;
        let later = numbers.into_iter().rev().take_while(|number| *number > self.end.segment);
        let here = std::iter::once((self.end.segment, self.end.offset));
        for (number, at) in here.chain(later.map(|number| (number, FIRST))) {
            // One that cannot be read does not hide another.
            let Ok(Some(segment)) = self.open(number) else { continue };
            let Ok(Some(header)) = header_at(&segment, at) else { continue };
            let follows = header.uuid == self.uuid
                && header.segment == number
                && header.session != self.session
                && (header.number, header.before) == (self.end.number, self.end.before);
            if follows {
                (self.session, self.writing) = (header.session, header.session);
                self.ends.clear();
                (self.end.segment, self.end.offset, self.segment) = (number, at, segment);
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn header_at(segment: &Segment, at: u64) -> Result<Option<Header>, LogError> {
    let mut bytes = [0; HEADER];
    let there = segment.read(at, &mut bytes)?;
    Ok(Header::decode(&bytes[..there]).map(|(header, _)| header))
}
