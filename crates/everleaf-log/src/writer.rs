//! Appending groups to segments.

use std::io;
use std::sync::Arc;

use crate::control::{Place, Stamp};
use crate::disk::{BLOCK, Disk, DiskFile, is_full, to_block};
use crate::group::{Capture, HEADER, Header};
use crate::options::LogOptions;
use crate::payload::encode_payload;
use crate::segment::{
    FIRST, LIMIT, SPARE, Segment, UNFINISHED, bytes_for, head, make, segment_name,
};
use crate::spares::{LEAST, Spare, Spares};
use crate::weak::{Weak, Weakness};

/// Where a session writes.
pub(crate) struct Writer {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) uuid: u128,
    pub(crate) session: u64,
    pub(crate) previous_session: u64,
    /// Whether the control block of the session is durable.
    pub(crate) served: bool,
    /// Length of a new segment, if its first group has room there.
    pub(crate) segment_bytes: u64,
    /// How many segments there may be, spares included: as many as a log at which writers wait.
    max_segments: u64,
    /// Where the next group goes.
    pub(crate) place: Place,
    /// The segment of `place`.
    pub(crate) file: Option<Arc<dyn DiskFile>>,
    pub(crate) file_bytes: u64,
    /// The greatest number that is durable.
    pub(crate) synced_through: u64,
    /// The checksum of that group.
    pub(crate) synced_checksum: u32,
    /// Files with groups that are not.
    unsynced: Vec<Arc<dyn DiskFile>>,
    /// Segments that have no number yet.
    pub(crate) spares: Vec<Spare>,
    /// In this segment it was found that the disk has no room for a spare.
    pub(crate) none_in: u64,
    /// Bytes that were appended, ever.
    pub(crate) appended_bytes: u64,
    /// Bytes of zeros that segments were made of.
    pub(crate) zero_bytes: u64,
    pub(crate) weak: Weakness,
    buffer: Vec<u8>,
}

/// The length of a new segment, and how many segments there may be.
fn lengths(how: &LogOptions) -> (u64, u64) {
    let segment_bytes = to_block(how.segment_bytes.min(LIMIT)).max(bytes_for(BLOCK));
    (segment_bytes, how.log_bytes.saturating_mul(2).div_ceil(segment_bytes) + 1)
}

/// What those hear who need room on the disk of the log, and get none.
#[derive(Debug, thiserror::Error)]
#[error(
    "the disk of the log is full: make room for {bytes} bytes there, and open the pool again \
    (nothing that was acknowledged is lost)"
)]
struct NoRoom {
    bytes: u64,
}

impl Writer {
    pub(crate) fn new(disk: Arc<dyn Disk>, uuid: u128, place: Place, how: &LogOptions) -> Self {
        let (segment_bytes, max_segments) = lengths(how);
        Self {
            disk,
            uuid,
            session: 0,
            previous_session: 0,
            served: false,
            segment_bytes,
            max_segments,
            place,
            file: None,
            file_bytes: 0,
            synced_through: place.number.saturating_sub(1),
            synced_checksum: place.before,
            unsynced: Vec::new(),
            spares: Vec::new(),
            none_in: u64::MAX,
            appended_bytes: 0,
            zero_bytes: 0,
            weak: how.weak,
            buffer: Vec::new(),
        }
    }

    /// From the next segment on, segments have this length.
    pub(crate) fn set_lengths(&mut self, how: &LogOptions) {
        (self.segment_bytes, self.max_segments) = lengths(how);
    }

    /// Appends a group; it is durable once [`take_unsynced`](Self::take_unsynced) was synced.
    pub(crate) fn append(&mut self, captures: &[Capture]) -> io::Result<()> {
        let mut group = std::mem::take(&mut self.buffer);
        group.clear();
        group.resize(HEADER, 0);
        encode_payload(captures, &mut group);
        let appended = self.append_encoded(&mut group);
        self.buffer = group;
        appended
    }

    /// A group behind room for its header. In its segment there is room for one block more.
    fn append_encoded(&mut self, group: &mut Vec<u8>) -> io::Result<()> {
        let end = group.len();
        let total = to_block(end as u64);
        group.resize(total as usize, 0);
        if self.file.is_none() || self.place.offset + total + BLOCK > self.file_bytes {
            self.next_segment(total)?;
        }
        self.put(group, end, false)
    }

    /// Writes a group of whole blocks, `end` bytes of which are of use.
    fn put(&mut self, group: &mut [u8], end: usize, closes: bool) -> io::Result<()> {
        let Some(file) = self.file.clone() else { return Err(io::ErrorKind::NotFound.into()) };
        let header = Header {
            uuid: self.uuid,
            session: self.session,
            previous_session: self.previous_session,
            served: self.served,
            closes,
            segment: self.place.segment,
            number: self.place.number,
            before: self.place.before,
            synced_through: self.synced_through,
            payload_bytes: (end - HEADER) as u64,
            payload_crc: crc32c::crc32c(&group[HEADER..end]),
        };
        let (bytes, checksum) = header.encode();
        group[..HEADER].copy_from_slice(&bytes);
        file.write(self.place.offset, group)?;
        let synced = closes && self.weak.is(Weak::CloseNotSynced);
        if !synced && !self.unsynced.last().is_some_and(|last| Arc::ptr_eq(last, &file)) {
            self.unsynced.push(file);
        }
        self.place.offset += group.len() as u64;
        self.place.number += 1;
        self.place.before = checksum;
        self.appended_bytes += group.len() as u64;
        Ok(())
    }

    /// Begins the next segment, with room for a group of `group` bytes: S1 to S3 of `segment`.
    pub(crate) fn next_segment(&mut self, group: u64) -> io::Result<()> {
        let bytes = self.segment_bytes.max(bytes_for(group));
        if bytes > LIMIT {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let number = self.place.segment + 1;
        let Spare { name, bytes, durable } = match self.take_spare(bytes) {
            Some(spare) => spare,
            None => self.make(bytes).or_else(|full| self.make_do(group, full))?, // S1
        };
        if !durable {
            head(&*self.disk.open(&name)?, (self.uuid, bytes), self.weak)?; // S1
        }
        let used_again = name.strip_prefix(SPARE).is_some_and(|rest| rest.starts_with('-'));
        let unsynced = self.weak.is(Weak::NameNotSynced)
            || used_again && self.weak.is(Weak::OtherNameNotSynced);
        if self.weak.is(Weak::CloseBeforeName) {
            self.close_segment()?;
        }
        self.disk.rename(&name, &segment_name(number))?; // S2
        if !unsynced {
            self.disk.sync()?;
        }
        if !self.weak.is(Weak::CloseBeforeName) {
            self.close_segment()?; // S3
        }
        self.file = Some(self.disk.open(&segment_name(number))?);
        self.file_bytes = bytes;
        (self.place.segment, self.place.offset) = (number, FIRST);
        Ok(())
    }

    /// A spare of this length, if there is one.
    fn take_spare(&mut self, bytes: u64) -> Option<Spare> {
        let at = self.spares.iter().position(|spare| spare.bytes == bytes)?;
        Some(self.spares.swap_remove(at))
    }

    fn make(&mut self, bytes: u64) -> io::Result<Spare> {
        make(&*self.disk, UNFINISHED, (self.uuid, bytes), self.weak)?;
        self.zero_bytes += bytes;
        Ok(Spare { name: UNFINISHED.to_owned(), bytes, durable: true })
    }

    /// A segment for a group of so many bytes where there is no room for a usual one: any spare
    /// that is long enough, or one that is as long as it must be, in the place of all spares if
    /// need be.
    fn make_do(&mut self, group: u64, full: io::Error) -> io::Result<Spare> {
        let least = bytes_for(group.max(BLOCK));
        if !is_full(&full) {
            return Err(full);
        }
        let suits = |spare: &&Spare| spare.bytes >= least;
        let longest = self.spares.iter().filter(suits).map(|spare| spare.bytes).max();
        if let Some(spare) = longest.and_then(|bytes| self.take_spare(bytes)) {
            return Ok(spare);
        }
        for spare in self.spares.drain(..) {
            self.disk.remove(&spare.name)?;
        }
        let shorter = least.max(LEAST.min(self.segment_bytes));
        self.make(shorter).or_else(|_| self.make(least)).map_err(|error| match is_full(&error) {
            true => io::Error::new(error.kind(), NoRoom { bytes: least }),
            false => error,
        })
    }

    /// Whether a group has room, without another segment than a spare.
    pub(crate) fn has_room(&self) -> bool {
        !self.spares.is_empty() || self.place.offset + 2 * BLOCK <= self.file_bytes
    }

    /// Makes the least spare where there is none, and room for it.
    pub(crate) fn get_spare(&mut self) -> io::Result<()> {
        if self.spares.is_empty() {
            match self.spares().make_least() {
                Err(error) if is_full(&error) => {}
                spare => self.spares.push(spare?),
            }
        }
        Ok(())
    }

    /// Goes on in the segment of its place.
    pub(crate) fn go_on(&mut self, segment: Segment) {
        (self.file_bytes, self.file) = (segment.bytes, Some(segment.file));
    }

    /// Writes the last group of a segment.
    fn close_segment(&mut self) -> io::Result<()> {
        if self.file.is_none() {
            return Ok(()); // The session begins with the next one.
        }
        self.put(&mut [0; BLOCK as usize], HEADER, true)
    }

    /// Whether a segment should be made ahead of need: there is no spare at all; or half of this
    /// segment is used, and the session writes more than a few groups, as one for a single `put`
    /// does.
    pub(crate) fn wants_spare(&self) -> bool {
        let writes_much = self.appended_bytes > self.segment_bytes / 8;
        let at_half = writes_much && self.place.offset > self.file_bytes / 2;
        let wants = self.spares.is_empty() || at_half && !self.fits_spare();
        wants && self.none_in != self.place.segment
    }

    /// Whether a spare has the length of a new segment.
    fn fits_spare(&self) -> bool {
        self.spares.iter().any(|spare| spare.bytes == self.segment_bytes)
    }

    /// Removes all spares but the shortest.
    pub(crate) fn keep_one_spare(&mut self) -> io::Result<()> {
        self.spares.sort_by_key(|spare| spare.bytes);
        for spare in self.spares.drain(1.min(self.spares.len())..) {
            self.disk.remove(&spare.name)?;
        }
        Ok(())
    }

    /// Removes the spares that no segment will be made of since its length has changed, but for the
    /// least, and for the last one.
    pub(crate) fn drop_unfit_spares(&mut self) -> io::Result<()> {
        let unfit = |spare: &Spare| spare.bytes != self.segment_bytes && spare.bytes > LEAST;
        while self.spares.len() > 1
            && let Some(at) = self.spares.iter().position(unfit)
        {
            self.disk.remove(&self.spares[at].name)?;
            self.spares.remove(at);
        }
        Ok(())
    }

    /// What makes spares, without the writer.
    pub(crate) fn spares(&self) -> Spares {
        let (disk, most) = (Arc::clone(&self.disk), self.max_segments);
        Spares { disk, uuid: self.uuid, bytes: self.segment_bytes, most }
    }

    /// The same of a log with other lengths.
    pub(crate) fn spares_of(&self, how: &LogOptions) -> Spares {
        let (bytes, most) = lengths(how);
        Spares { bytes, most, ..self.spares() }
    }

    /// The files that hold groups which are not durable, and where the groups in them end.
    pub(crate) fn take_unsynced(&mut self) -> (Vec<Arc<dyn DiskFile>>, Place) {
        (std::mem::take(&mut self.unsynced), self.place)
    }

    /// What was appended up to `place` is durable.
    pub(crate) fn note_synced(&mut self, place: Place) {
        (self.synced_through, self.synced_checksum) = (place.number - 1, place.before);
    }

    /// The stamp of a file that holds all that is durable.
    pub(crate) fn stamp(&self) -> Stamp {
        let (number, checksum) = (self.synced_through, self.synced_checksum);
        Stamp { session: self.session, number, checksum, lacking: 0 }
    }
}
