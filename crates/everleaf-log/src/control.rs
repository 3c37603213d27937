//! The control file: where the log begins.
//!
//! Two slots that are written in turn, so that a torn write leaves the one before. A slot has two
//! blocks of 4096 bytes with the same content, written at once; a disk that damages one of them
//! damages no other. Each block carries a number and a checksum, within one sector: so after a
//! power failure each is what it was or what was written, and of a slot the greater number counts.
//!
//! The sector ends with what releases are told that were there before the one that wrote the block
//! ([`Features`]), and a checksum of its own; all zeros if there is nothing to tell. Whoever writes
//! the next block says the same of it.
//!
//! Both slots are written when the log is made. One of which neither block can be read is damage:
//! it may be the newer one, and its segments may be the only ones that are left.

use std::io;

use everleaf_pmem::{Features, Newer};

use crate::disk::{BLOCK, Disk, DiskFile};
use crate::segment::{FIRST, LIMIT};
use crate::weak::{Weak, Weakness};
use crate::{Damage, LogError};

/// Its name in the folder of the log.
pub(crate) const NAME: &str = "control";
/// The first eight bytes of a control block, "ELlogctl".
const MAGIC: u64 = u64::from_le_bytes(*b"ELlogctl");
/// Versions of the log's format: without and with sessions before the one that writes.
const ALONE: u64 = 3;
const VERSION: u64 = 4;
/// Words of a block, its checksum being the last, in each version.
const WORDS: usize = 18;
/// Sessions before the one that writes, at most: so many that a block stays within a sector.
pub(crate) const MOST_EARLIER: usize = if cfg!(test) { 3 } else { 16 };
/// The first of the words that tell of features; the one behind them is their checksum.
const FEATURES: usize = 59;
const _: () = assert!(WORDS + 2 * MOST_EARLIER <= FEATURES && (FEATURES + 5) * 8 == 512);
/// Bytes of a slot.
const SLOT: u64 = 2 * BLOCK;
/// Greater numbers are none that a log can reach.
const MAX_NUMBER: u64 = 1 << 62;

/// A place between two groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// The segment in which the next group is, or the one before it.
    pub segment: u64,
    /// Where in that segment it is, unless it begins the next one.
    pub offset: u64,
    /// The number of the next group.
    pub number: u64,
    /// The checksum of the group before.
    pub before: u32,
}

/// What the file of the pool says of the log: it holds nothing that is not in the groups up to one,
/// and everything that is in these but for the last few. So a log belongs to it that begins with
/// these few, or earlier, and leads to that group. In the file: three words, zeros before there was
/// one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub session: u64,
    /// The number of that group, and its checksum.
    pub number: u64,
    pub checksum: u32,
    /// How many groups up to that one the file may lack.
    pub lacking: u32,
}

impl Stamp {
    /// Of a file that may lack what the groups from `first` on hold.
    pub(crate) fn lacking_from(self, first: Place) -> Self {
        let lacking = (self.number + 1).saturating_sub(first.number);
        // A log of so many groups has 16 TiB.
        Self { lacking: u32::try_from(lacking).unwrap_or(u32::MAX), ..self }
    }

    /// Whether a log of the same session that begins here holds all that the file lacks.
    pub(crate) fn lets_begin_at(self, redo: Place) -> bool {
        redo.number.saturating_add(u64::from(self.lacking)) <= self.number.saturating_add(1)
    }

    /// As it stands in the file.
    pub(crate) fn words(self) -> [u64; 3] {
        let last = u64::from(self.checksum) | u64::from(self.lacking) << 32;
        [self.session, self.number, last]
    }

    pub(crate) fn of_words([session, number, last]: [u64; 3]) -> Self {
        Self { session, number, checksum: last as u32, lacking: (last >> 32) as u32 }
    }
}

/// A session whose groups the log still has, and which does not write any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ended {
    pub session: u64,
    /// The number of the first group that is not of this session.
    pub end: u64,
}

/// The sessions before the one that writes, in their order. Each group of theirs is durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Earlier {
    count: usize,
    sessions: [Ended; MOST_EARLIER],
}

impl Earlier {
    pub(crate) fn sessions(&self) -> &[Ended] {
        &self.sessions[..self.count]
    }

    pub(crate) fn is_full(&self) -> bool {
        self.count == MOST_EARLIER
    }

    /// One more, unless it has left nothing; not if there are as many as there may be.
    fn and(mut self, ended: Ended, redo: u64) -> Self {
        let begins = self.sessions().last().map_or(redo, |last| last.end);
        if begins < ended.end && !self.is_full() {
            self.sessions[self.count] = ended;
            self.count += 1;
        }
        self
    }

    /// Those of which a log has something that begins here.
    pub(crate) fn behind(self, redo: Place) -> Self {
        let mut left = Self::default();
        for ended in self.sessions().iter().filter(|ended| redo.number < ended.end) {
            left.sessions[left.count] = *ended;
            left.count += 1;
        }
        left
    }

    /// As it stands behind a block.
    fn words(&self) -> impl Iterator<Item = u64> {
        self.sessions().iter().flat_map(|ended| [ended.session, ended.end])
    }

    /// So many of these words; none if that is what no log has.
    fn of_words(count: u64, words: &[[u8; 8]], redo: u64) -> Option<Self> {
        let pairs = words.as_chunks::<2>().0.get(..usize::try_from(count).ok()?)?;
        let mut earlier = Self::default();
        for [session, end] in pairs {
            let [session, end] = [session, end].map(|word| u64::from_le_bytes(*word));
            let before = earlier.count;
            earlier = earlier.and(Ended { session, end }, redo);
            (earlier.count > before && end < MAX_NUMBER).then_some(())?;
        }
        Some(earlier)
    }
}

/// A control block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Control {
    /// One more than that of the block before.
    pub number: u64,
    pub uuid: u128,
    pub session: u64,
    pub previous_session: u64,
    /// Where replay begins.
    pub redo: Place,
    /// The stamp that the file of the pool had when this block was written: of an earlier session
    /// if this one has not marked the file yet.
    pub stamp: Stamp,
    /// Nothing follows the redo point: the session was closed.
    pub clean: bool,
    /// The sessions from the redo point to the one that writes.
    pub earlier: Earlier,
    /// Features of the log, as the block before told them.
    pub features: Features,
}

impl Control {
    fn encode(&self) -> [u8; BLOCK as usize] {
        let stamp = self.stamp.words();
        let mut block = [0; BLOCK as usize];
        let places = block.as_chunks_mut::<8>().0;
        for (place, word) in places[WORDS..].iter_mut().zip(self.earlier.words()) {
            *place = word.to_le_bytes();
        }
        let earlier = self.earlier.count;
        let words: [u64; WORDS - 1] = [
            MAGIC,
            if earlier == 0 { ALONE } else { VERSION },
            self.number,
            self.uuid as u64,
            (self.uuid >> 64) as u64,
            self.session,
            self.previous_session,
            self.redo.segment,
            self.redo.offset,
            self.redo.number,
            u64::from(self.redo.before),
            stamp[0],
            stamp[1],
            stamp[2],
            u64::from(self.clean),
            earlier as u64,
            if earlier == 0 { 0 } else { u64::from(crc_behind(&block, earlier)) },
        ];
        let places = block.as_chunks_mut::<8>().0;
        for (place, word) in places.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        for (place, word) in places[FEATURES..].iter_mut().zip(with_crc(self.features)) {
            *place = word.to_le_bytes();
        }
        let end = (WORDS - 1) * 8;
        let crc = crc32c::crc32c(&block[..end]);
        block[end..end + 4].copy_from_slice(&crc.to_le_bytes());
        block
    }

    /// The block in `bytes`; none if it is not valid.
    fn decode(bytes: &[u8]) -> Option<Result<Self, LogError>> {
        let end = (WORDS - 1) * 8;
        let crc = u32::from_le_bytes(*bytes.get(end..)?.first_chunk()?);
        if crc32c::crc32c(&bytes[..end]) != crc {
            return None;
        }
        let words = bytes.as_chunks::<8>().0;
        let word = |i: usize| u64::from_le_bytes(words[i]);
        let features = Features { words: std::array::from_fn(|i| word(FEATURES + i)) };
        if word(0) != MAGIC || with_crc(features)[4] != word(FEATURES + 4) {
            return None;
        }
        let (found, known, release) = (word(1), VERSION, features.release());
        if found < ALONE {
            return Some(Err(LogError::OlderVersion { found, supported: known }));
        }
        let newer = Newer::Format { found, known, release };
        let readable = if found > known { Err(newer) } else { features.check(false) };
        if let Err(newer) = readable {
            return Some(Err(LogError::Newer(newer)));
        }
        let count = if word(1) == ALONE { 0 } else { word(15) };
        let earlier = Earlier::of_words(count, &words[WORDS..], word(9))?;
        if count > 0 && u64::from(crc_behind(bytes, earlier.count)) != word(16) {
            return None;
        }
        let control = Self {
            number: word(2),
            uuid: u128::from(word(3)) | u128::from(word(4)) << 64,
            session: word(5),
            previous_session: word(6),
            redo: Place {
                segment: word(7),
                offset: word(8),
                number: word(9),
                before: word(10) as u32,
            },
            stamp: Stamp::of_words([word(11), word(12), word(13)]),
            clean: word(14) != 0,
            earlier,
            features,
        };
        control.is_sane().then_some(Ok(control))
    }

    /// Whether a log can state this: what no log has reached could only be counted beyond.
    fn is_sane(&self) -> bool {
        let Place { segment, offset, number, .. } = self.redo;
        (1..MAX_NUMBER).contains(&number)
            && self.number < MAX_NUMBER
            && segment < MAX_NUMBER
            && offset.is_multiple_of(BLOCK)
            && (FIRST..=LIMIT).contains(&offset)
    }

    /// The session of which the first group behind the redo point is.
    pub(crate) fn first_session(&self) -> u64 {
        self.earlier.sessions().first().map_or(self.session, |first| first.session)
    }

    /// The sessions before one that begins at the end of this one's.
    pub(crate) fn and_ended(&self, end: Place) -> Earlier {
        let ended = Ended { session: self.session, end: end.number };
        self.earlier.and(ended, self.redo.number)
    }

    fn offset(&self) -> u64 {
        self.number % 2 * SLOT
    }

    /// The first of a new log: both slots, of which the older one has the same content. The control
    /// block that counts.
    pub(crate) fn create(self, file: &dyn DiskFile) -> Result<Self, LogError> {
        let next = Self { number: self.number + 1, ..self };
        self.write(file, Weakness::default())?;
        next.write(file, Weakness::default())?;
        Ok(next)
    }

    /// Writes both blocks of the older slot, and syncs them.
    ///
    /// Crash before the sync: each block is the one before it in the slot, or this one, and nothing
    /// has been done that needs this one.
    pub(crate) fn write(&self, file: &dyn DiskFile, weak: Weakness) -> Result<(), LogError> {
        let block = self.encode();
        let blocks = [block, if weak.is(Weak::ControlOnce) { [0; BLOCK as usize] } else { block }];
        let write = || -> io::Result<()> {
            file.write(self.offset(), blocks.as_flattened())?;
            if weak.is(Weak::ControlNotSynced) { Ok(()) } else { file.sync() }
        };
        write().map_err(LogError::io("writing the log's control file"))
    }

    /// The newest in each slot; none in one that cannot be read.
    fn slots(disk: &dyn Disk) -> Result<[Option<Self>; 2], LogError> {
        let file = match disk.open(NAME) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(LogError::Missing),
            file => file.map_err(LogError::io("opening the log's control file"))?,
        };
        let failed = |source| LogError::io("reading the log's control file")(source);
        let mut blocks = [0; 2 * SLOT as usize];
        let there = file.length().map_err(failed)?.min(2 * SLOT) as usize;
        file.read(0, &mut blocks[..there]).map_err(failed)?;
        let mut slots: [Option<Self>; 2] = [None; 2];
        for (i, block) in blocks.as_chunks::<{ BLOCK as usize }>().0.iter().enumerate() {
            let Some(found) = Self::decode(block) else { continue };
            let (found, slot) = (found?, &mut slots[i / 2]);
            let newer = slot.is_none_or(|other| other.number < found.number);
            if found.offset() == i as u64 / 2 * SLOT && newer {
                *slot = Some(found);
            }
        }
        Ok(slots)
    }

    /// The block that counts.
    pub(crate) fn read(disk: &dyn Disk, weak: Weakness) -> Result<Self, LogError> {
        let slots = Self::slots(disk)?;
        let whole = slots.iter().all(Option::is_some) || weak.is(Weak::ControlFallsBack);
        let newest = slots.into_iter().flatten().max_by_key(|control| control.number);
        newest.filter(|_| whole).ok_or(LogError::damaged(Damage::Control, 0))
    }

    /// The newest that can be read of a damaged control file; none if there is none.
    pub(crate) fn newest_of_damaged(disk: &dyn Disk) -> Result<Option<Self>, LogError> {
        let slots = Self::slots(disk)?;
        Ok(slots.into_iter().flatten().max_by_key(|control| control.number))
    }
}

/// The words of features, and their checksum.
fn with_crc(features: Features) -> [u64; 5] {
    let words = features.words;
    let bytes = words.map(u64::to_le_bytes);
    let crc = if words == [0; 4] { 0 } else { crc32c::crc32c(bytes.as_flattened()) };
    [words[0], words[1], words[2], words[3], u64::from(crc)]
}

/// The checksum of what stands behind the words of a block, of so many sessions.
fn crc_behind(block: &[u8], sessions: usize) -> u32 {
    crc32c::crc32c(&block[WORDS * 8..(WORDS + 2 * sessions) * 8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_round_trips_with_any_number_of_sessions_and_every_flipped_bit_is_seen() {
        let redo = Place { segment: 3, offset: 8192, number: 5, before: 6 };
        for count in 0..=MOST_EARLIER as u64 {
            let mut control = Control {
                number: 9,
                uuid: 1 << 100 | 7,
                session: 11,
                previous_session: 12,
                redo,
                stamp: Stamp { session: 13, number: 4, checksum: 14, lacking: 1 },
                clean: false,
                earlier: Earlier::default(),
                features: Features { words: [7, count, 0, 0] },
            };
            for i in 0..count {
                let end = Place { number: 6 + i, ..redo };
                control.earlier = Control { session: 20 + i, ..control }.and_ended(end);
            }
            let block = control.encode();
            assert_eq!(Control::decode(&block).unwrap().unwrap(), control);
            assert_eq!(control.earlier.sessions().len() as u64, count);
            assert_eq!(control.first_session(), if count == 0 { 11 } else { 20 });
            let used = (WORDS + 2 * count as usize) * 64;
            assert!(used <= 512 * 8, "more than a sector");
            let unused = |bit: &usize| ((WORDS * 64 - 32)..WORDS * 64).contains(bit);
            for bit in (0..used).chain(FEATURES * 64..512 * 8).filter(|bit| !unused(bit)) {
                let mut flipped = block;
                flipped[bit / 8] ^= 1 << (bit % 8);
                let found = Control::decode(&flipped).and_then(Result::ok);
                assert_eq!(found, None, "{count} sessions, bit {bit}");
            }
            let nothing = control.and_ended(Place { number: 5 + count, ..redo });
            assert_eq!(nothing, control.earlier, "a session that has left nothing");
            for from in 5..=6 + count {
                let left = control.earlier.behind(Place { number: from, ..redo });
                assert_eq!(left.sessions().len() as u64, count - (from - 5).min(count), "{from}");
            }
        }
    }

    #[test]
    fn a_stamp_round_trips_and_lets_a_log_begin_with_what_the_file_lacks() {
        for (number, lacking) in [(0, 0), (1, 1), (7, 3), (7, 8), (u64::MAX, u32::MAX)] {
            let stamp = Stamp { session: u64::MAX, number, checksum: u32::MAX, lacking };
            assert_eq!(Stamp::of_words(stamp.words()), stamp);
        }
        let stamp = Stamp { session: 1, number: 9, checksum: 2, lacking: 0 };
        for first in 1..12 {
            let stamp = stamp.lacking_from(Place { number: first, ..Place::default() });
            for begins in 1..12 {
                let redo = Place { number: begins, ..Place::default() };
                assert_eq!(stamp.lets_begin_at(redo), begins <= first.min(10), "{first} {begins}");
            }
        }
    }
}
