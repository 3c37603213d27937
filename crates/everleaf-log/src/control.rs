//! The control file: where the log begins.
//!
//! Two slots that are written in turn, so that a torn write leaves the one before. A slot has two
//! blocks of 4096 bytes with the same content, written at once; a disk that damages one of them
//! damages no other. Each block carries a number and a checksum, within one sector: so after a
//! power failure each is what it was or what was written, and of a slot the greater number counts.
//!
//! Both slots are written when the log is made. One of which neither block can be read is damage:
//! it may be the newer one, and its segments may be the only ones that are left.

use std::io;

use crate::disk::{BLOCK, Disk, DiskFile};
use crate::segment::{FIRST, LIMIT};
use crate::weak::{Weak, Weakness};
use crate::{Damage, LogError};

/// Its name in the folder of the log.
pub(crate) const NAME: &str = "control";
/// The first eight bytes of a control block, "ELlogctl".
const MAGIC: u64 = u64::from_le_bytes(*b"ELlogctl");
/// Version of the log's format.
const VERSION: u64 = 3;
/// Words of a block, its checksum being the last, in each version.
const WORDS: usize = 18;
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
}

impl Control {
    fn encode(&self) -> [u8; BLOCK as usize] {
        let stamp = self.stamp.words();
        let words: [u64; WORDS - 1] = [
            MAGIC,
            VERSION,
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
            0,
            0,
        ];
        let mut block = [0; BLOCK as usize];
        for (place, word) in block.as_chunks_mut::<8>().0.iter_mut().zip(words) {
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
        let supported = VERSION;
        match (word(0), word(1)) {
            (MAGIC, VERSION) => {}
            (MAGIC, found) if found < supported => {
                return Some(Err(LogError::OlderVersion { found, supported }));
            }
            (MAGIC, found) => return Some(Err(LogError::NewerVersion { found, supported })),
            _ => return None,
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

#[cfg(test)]
mod tests {
    use super::*;

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
