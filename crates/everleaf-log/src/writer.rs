//! Appending groups to segments.
//!
//! A segment is made under another name, filled with zeros and synced; then it gets its name, and
//! the folder is synced; then it is written. So a segment that is too short is damaged.

use std::io;
use std::sync::Arc;

use crate::control::Place;
use crate::disk::{Disk, DiskFile, to_block};
use crate::group::{Capture, HEADER, Header, encode_payload};
use crate::weak::{Weak, Weakness};

/// The name of a segment that is being made.
const UNFINISHED: &str = "segment.new";
/// The name of a segment that was made ahead of need.
const SPARE: &str = "segment.spare";

/// The name of a segment.
pub(crate) fn segment_name(number: u64) -> String {
    format!("segment-{number:016x}")
}

/// The number of the segment with this name.
pub(crate) fn segment_number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("segment-").filter(|digits| digits.len() == 16)?;
    u64::from_str_radix(digits, 16).ok()
}

/// Where a session writes.
pub(crate) struct Writer {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) uuid: u128,
    pub(crate) session: u64,
    pub(crate) previous_session: u64,
    /// Whether the control block of the session is durable.
    pub(crate) served: bool,
    /// Length of a new segment, if its first group is not longer.
    pub(crate) segment_bytes: u64,
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
    /// A segment that was made ahead of need.
    spare: Option<Arc<dyn DiskFile>>,
    /// Bytes that were appended, ever.
    pub(crate) appended_bytes: u64,
    pub(crate) weak: Weakness,
    buffer: Vec<u8>,
}

impl Writer {
    pub(crate) fn new(disk: Arc<dyn Disk>, uuid: u128, place: Place, segment_bytes: u64) -> Self {
        Self {
            disk,
            uuid,
            session: 0,
            previous_session: 0,
            served: false,
            segment_bytes,
            place,
            file: None,
            file_bytes: 0,
            synced_through: place.number.saturating_sub(1),
            synced_checksum: place.before,
            unsynced: Vec::new(),
            spare: None,
            appended_bytes: 0,
            weak: Weakness::default(),
            buffer: Vec::new(),
        }
    }

    /// Appends a group; it is durable once [`take_unsynced`](Self::take_unsynced) was synced.
    pub(crate) fn append(&mut self, captures: &[Capture]) -> io::Result<()> {
        self.buffer.clear();
        self.buffer.resize(HEADER, 0);
        encode_payload(captures, &mut self.buffer);
        let end = self.buffer.len();
        let total = to_block(end as u64);
        self.buffer.resize(total as usize, 0);
        if self.file.is_none() || self.place.offset + total > self.file_bytes {
            self.next_segment(total)?;
        }
        let Some(file) = self.file.clone() else { return Err(io::ErrorKind::NotFound.into()) };
        let header = Header {
            uuid: self.uuid,
            session: self.session,
            previous_session: self.previous_session,
            served: self.served,
            segment: self.place.segment,
            number: self.place.number,
            before: self.place.before,
            synced_through: self.synced_through,
            payload_bytes: (end - HEADER) as u64,
            payload_crc: crc32c::crc32c(&self.buffer[HEADER..end]),
        };
        let (bytes, checksum) = header.encode();
        self.buffer[..HEADER].copy_from_slice(&bytes);
        file.write(self.place.offset, &self.buffer)?;
        if !self.unsynced.last().is_some_and(|last| Arc::ptr_eq(last, &file)) {
            self.unsynced.push(file);
        }
        self.place.offset += total;
        self.place.number += 1;
        self.place.before = checksum;
        self.appended_bytes += total;
        Ok(())
    }

    /// Begins the next segment, with room for a group of `least` bytes.
    pub(crate) fn next_segment(&mut self, least: u64) -> io::Result<()> {
        let bytes = self.segment_bytes.max(least);
        let number = self.place.segment + 1;
        let spare = self.spare.take().filter(|_| least <= self.segment_bytes);
        let (file, name) = match spare {
            Some(file) => (file, SPARE),
            None => (make(&*self.disk, UNFINISHED, bytes)?, UNFINISHED),
        };
        self.disk.rename(name, &segment_name(number))?;
        if !self.weak.is(Weak::NameNotSynced) {
            self.disk.sync()?;
        }
        (self.file, self.file_bytes) = (Some(file), bytes);
        (self.place.segment, self.place.offset) = (number, 0);
        Ok(())
    }

    /// Whether a segment should be made ahead of need: half of this one is used.
    pub(crate) fn wants_spare(&self) -> bool {
        self.spare.is_none() && self.place.offset > self.file_bytes / 2
    }

    /// What makes one, without the writer: its disk and its length.
    pub(crate) fn spare_parts(&self) -> (Arc<dyn Disk>, u64) {
        (Arc::clone(&self.disk), self.segment_bytes)
    }

    /// A segment made ahead of need, to be given to [`put_spare`](Self::put_spare).
    pub(crate) fn make_spare(disk: &dyn Disk, bytes: u64) -> io::Result<Arc<dyn DiskFile>> {
        make(disk, SPARE, bytes)
    }

    pub(crate) fn put_spare(&mut self, file: Arc<dyn DiskFile>) {
        self.spare = Some(file);
    }

    /// The files that hold groups which are not durable, and where the groups in them end.
    pub(crate) fn take_unsynced(&mut self) -> (Vec<Arc<dyn DiskFile>>, Place) {
        (std::mem::take(&mut self.unsynced), self.place)
    }

    /// What was appended up to `place` is durable.
    pub(crate) fn note_synced(&mut self, place: Place) {
        (self.synced_through, self.synced_checksum) = (place.number - 1, place.before);
    }

    /// Removes the segments before `first`, and what was left unfinished. A removal that a crash
    /// undoes is made again by the next opening.
    pub(crate) fn remove_before(disk: &dyn Disk, first: u64) -> io::Result<()> {
        for name in disk.names()? {
            if segment_number(&name).is_some_and(|number| number < first) {
                disk.remove(&name)?;
            }
        }
        Ok(())
    }

    /// Removes the segments behind `last`, which no control block speaks of, and the unfinished.
    pub(crate) fn remove_behind(disk: &dyn Disk, last: u64) -> io::Result<()> {
        for name in disk.names()? {
            let behind = segment_number(&name).is_some_and(|number| number > last);
            if behind || name == UNFINISHED || name == SPARE {
                disk.remove(&name)?;
            }
        }
        Ok(())
    }
}

/// A file of zeros, durable but for its name.
fn make(disk: &dyn Disk, name: &str, bytes: u64) -> io::Result<Arc<dyn DiskFile>> {
    let file = disk.create(name)?;
    file.allocate(bytes)?;
    file.sync()?;
    Ok(file)
}
