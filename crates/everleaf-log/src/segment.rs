//! The files that hold groups.
//!
//! ```text
//! header    one block: "ELsegmt2" · the pool's uuid · bytes of the segment · 4 zeros and a CRC
//! groups    each begins on a block; the last one of a full segment says that the next one follows
//! ```
//!
//! The order in which one comes into use, step by step:
//!
//! ```text
//! S1  it is made under another name, filled with zeros and headed, and synced; or it is one that
//!     is before the redo point of a durable control block, and gets the name of a spare (`spares`)
//!     Crash: a file that the next opening removes, or takes over as a spare; it may have its old
//!     name still, or both. The header of one that is taken over is written again and synced.
//! S2  it gets its name, and the folder is synced: from now on it has no other
//!     Crash: it is there or not, and may have names of S1 as well; nothing speaks of it, and no
//!     group of its number is in it. The next opening removes it, durably, and spares, before it
//!     sets segments free that stand before the redo point.
//! S3  the segment before gets its last group, which says that this one follows; it is synced
//!     together with the first group of this one (`Writer::append`)
//!     Crash: the group is there or not, as any that nobody was told of.
//! ```
//!
//! So the numbers have no gap from the redo point on, a segment is as long as its header says, and
//! where a last group was read the next segment must be there: anything else is damage.
//!
//! One that is used again is not filled with zeros: behind its own groups, and in what a crash has
//! left of one, it has *stale* groups. Each names a segment of a lower number than this one; but
//! those behind the end of a session before (R2 of `recover`) have its name, are of that session or
//! of an earlier one, and so of no later one. For only segments before a durable redo point are
//! used again, and new ones are behind it; those that an opening removes behind the end, whose
//! numbers come again, are never used again. So:
//!
//! * The reader takes no stale group for one of the log: a group must name its segment. It must
//!   also have the session, the number and the checksum that follow the group before.
//! * A header is in one sector. Where that of a torn group was not written a stale one may stand:
//!   the end. Where it was, the checksum of its payload fails: the end. Blocks in its middle are
//!   looked at for what they say of the end only, as all that follow are.
//! * A stale group says nothing of the end (`Reader::check_later`). If it is of the session that is
//!   read, its number, and so the greatest that it knows to be durable, is before the redo point.
//!   If it is of another session, that is an older one, and so the one before it is not this one.
//! * Groups of the log behind the end say what they say of it: damage in the middle of a segment is
//!   told whether it is used again or not.

use std::io;
use std::sync::Arc;

use crate::disk::{BLOCK, Disk, DiskFile};
use crate::weak::{Weak, Weakness};
use crate::{Damage, LogError};

/// The name of a segment that is being made.
pub(crate) const UNFINISHED: &str = "segment.new";
/// The name of a segment that was made ahead of need.
pub(crate) const SPARE: &str = "segment.spare";
/// The first eight bytes of a segment.
const MAGIC: u64 = u64::from_le_bytes(*b"ELsegmt2");
/// Words of a header, its checksum being in the last.
const WORDS: usize = 5;
/// Where the first group is.
pub(crate) const FIRST: u64 = BLOCK;
/// Bytes that a segment has at most.
pub(crate) const LIMIT: u64 = 4 << 30;

/// The name of a segment.
pub(crate) fn segment_name(number: u64) -> String {
    format!("segment-{number:016x}")
}

/// The number of the segment with this name. None has the greatest: there would be no next one.
pub(crate) fn segment_number(name: &str) -> Option<u64> {
    let number = u64::from_str_radix(name.strip_prefix("segment-")?, 16).ok()?;
    (segment_name(number) == name && number < u64::MAX).then_some(number)
}

/// The numbers of the segments that are there, ascending.
pub(crate) fn segment_numbers(disk: &dyn Disk) -> Result<Vec<u64>, LogError> {
    let names = disk.names().map_err(LogError::io("reading the folder of the log"))?;
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| segment_number(name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Bytes of a segment with room for a group of `group` bytes and the last one.
pub(crate) const fn bytes_for(group: u64) -> u64 {
    FIRST.saturating_add(group).saturating_add(BLOCK)
}

/// S1: a file of zeros with a header, durable but for its name.
pub(crate) fn make(
    disk: &dyn Disk,
    name: &str,
    (uuid, bytes): (u128, u64),
    weak: Weakness,
) -> io::Result<Arc<dyn DiskFile>> {
    let file = disk.create(name)?;
    let made = file.allocate(bytes).and_then(|()| head(&*file, (uuid, bytes), weak));
    if made.is_err() {
        let _ = disk.remove(name); // Otherwise the next opening does.
    }
    made.map(|()| file)
}

/// S1 of a file of zeros, or of a spare whose header may be in the page cache only.
pub(crate) fn head(
    file: &dyn DiskFile,
    (uuid, bytes): (u128, u64),
    weak: Weakness,
) -> io::Result<()> {
    let words = [MAGIC, uuid as u64, (uuid >> 64) as u64, bytes];
    let mut header = [0; BLOCK as usize];
    for (place, word) in header.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *place = word.to_le_bytes();
    }
    let (end, crc) = (WORDS * 8, crc32c::crc32c(&header[..WORDS * 8 - 4]));
    header[end - 4..end].copy_from_slice(&crc.to_le_bytes());
    file.write(0, &header)?;
    if weak.is(Weak::SegmentNotSynced) { Ok(()) } else { file.sync() }
}

/// A segment to be read.
pub(crate) struct Segment {
    pub(crate) number: u64,
    pub(crate) file: Arc<dyn DiskFile>,
    /// Its length, as its header says; the file is no shorter.
    pub(crate) bytes: u64,
}

impl Segment {
    /// The segment; none if there is none.
    pub(crate) fn open(disk: &dyn Disk, number: u64, uuid: u128) -> Result<Option<Self>, LogError> {
        let Some(whole) = Self::find(disk, number)? else { return Ok(None) };
        if whole.bytes < BLOCK {
            return Err(LogError::damaged(Damage::Truncated, number));
        }
        let mut header = [0; WORDS * 8];
        whole.read(0, &mut header)?;
        let bytes = bytes_in(&header, uuid);
        let bytes = bytes.ok_or(LogError::damaged(Damage::SegmentHeader, number))?;
        if whole.bytes < bytes {
            return Err(LogError::damaged(Damage::Truncated, number));
        }
        Ok(Some(Self { bytes, ..whole }))
    }

    /// As much of a segment as there is.
    pub(crate) fn open_damaged(disk: &dyn Disk, number: u64) -> Result<Option<Self>, LogError> {
        let found = Self::find(disk, number)?;
        Ok(found.map(|whole| Self { bytes: whole.bytes.min(LIMIT), ..whole }))
    }

    /// The file, as long as it is.
    fn find(disk: &dyn Disk, number: u64) -> Result<Option<Self>, LogError> {
        let failed = |source| LogError::io("reading the log")(source);
        match disk.open(&segment_name(number)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            file => {
                let file = file.map_err(failed)?;
                let bytes = file.length().map_err(failed)?;
                Ok(Some(Self { number, file, bytes }))
            }
        }
    }

    /// Fills `bytes`, whole or as far as the segment goes; how far.
    pub(crate) fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<usize, LogError> {
        let there = self.bytes.saturating_sub(offset).min(bytes.len() as u64) as usize;
        let read = self.file.read(offset, &mut bytes[..there]);
        read.map_err(LogError::io("reading the log")).map(|()| there)
    }
}

/// The length of a segment that has no number, as its header says; none if it is not one of this
/// pool, or shorter than that.
pub(crate) fn bytes_of(disk: &dyn Disk, name: &str, uuid: u128) -> Option<u64> {
    let file = disk.open(name).ok()?;
    let mut header = [0; WORDS * 8];
    file.read(0, &mut header).ok()?;
    bytes_in(&header, uuid).filter(|bytes| file.length().is_ok_and(|length| length >= *bytes))
}

/// The length that a header states; none if it is not one of this pool.
fn bytes_in(header: &[u8; WORDS * 8], uuid: u128) -> Option<u64> {
    let words = header.as_chunks::<8>().0;
    let word = |i: usize| u64::from_le_bytes(words[i]);
    let crc = u32::from_le_bytes(*header.last_chunk()?);
    let valid = word(0) == MAGIC
        && u128::from(word(1)) | u128::from(word(2)) << 64 == uuid
        && crc32c::crc32c(&header[..WORDS * 8 - 4]) == crc;
    let bytes = word(3);
    (valid && bytes.is_multiple_of(BLOCK) && (FIRST..=LIMIT).contains(&bytes)).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::SimulatedDisk;

    #[test]
    fn names_round_trip_and_no_other_is_one() {
        for number in [0, 1, 0xabc, u64::MAX - 1] {
            assert_eq!(segment_number(&segment_name(number)), Some(number));
        }
        for name in [
            "segment-+00000000000005",
            "segment-000000000000000A",
            "segment-5",
            "segment-ffffffffffffffff",
            "control",
        ] {
            assert_eq!(segment_number(name), None, "{name}");
        }
    }

    #[test]
    fn every_flipped_bit_of_a_segments_header_is_seen() {
        let disk = SimulatedDisk::new();
        let (name, bytes) = (segment_name(3), 5 * BLOCK);
        make(&disk, &name, (7 << 90 | 5, bytes), Weakness::default()).unwrap();
        let open = |disk: &SimulatedDisk, uuid| Segment::open(disk, 3, uuid);
        assert_eq!(open(&disk, 7 << 90 | 5).unwrap().unwrap().bytes, bytes);
        assert!(open(&disk, 7).is_err(), "another pool's");
        for bit in (0..WORDS * 8 - 8).chain(WORDS * 8 - 4..WORDS * 8) {
            let damaged = disk.after_kill();
            damaged.change(&name, |bytes| bytes[bit] ^= 1 << (bit % 8)).unwrap();
            assert!(open(&damaged, 7 << 90 | 5).is_err(), "byte {bit}");
        }
        disk.change(&name, |bytes| bytes.truncate(5 * 4096 - 1)).unwrap();
        let refused = open(&disk, 7 << 90 | 5).err().unwrap();
        let truncated = LogError::damaged(Damage::Truncated, 3);
        assert_eq!(refused.to_string(), truncated.to_string());
    }
}
