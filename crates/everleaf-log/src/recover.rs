//! Making a log, and opening one: what a crash has left, and what is done about it.
//!
//! ```text
//! R1  the newest valid control block; the file of the pool is mapped privately: the image. The
//!     groups from the redo point on, as far as they are valid, are stored into it, and never into
//!     the file
//! R2  spares of the session before are removed, and what it left unfinished
//!     Segments behind the end are removed, the last one first, and the folder is synced after each
//!     Crash: those that are left follow the end without a gap; they are removed.
//!     What the groups hold is written into new segments there, under a new session, and synced; so
//!     is the stamp of the file, as it was read
//!     Crash: no control block speaks of the segments; they are behind the end, and are removed.
//! R3  COMMIT the control block of the new session, with that stamp, written and synced
//!     Crash: it is the stamp that the file has.
//! R4  the file gets the stamp of the new session, and is synced
//!     Crash: the file has this stamp or the one before, and the control block fits both.
//! R5  the old segments become spares, or are removed (`spares`)
//!     Crash: the next opening removes them.
//! ```
//!
//! Only now the pool is served: nothing is in it that another crash takes back. What was read may
//! have existed in the page cache only; so without the syncs of R2 a crash after R3 may leave a log
//! without what was served, or a stamp that the control block does not fit. Without the sync of R4
//! a log of an earlier session, put back, is accepted after a crash, without what this session has
//! acknowledged.
//!
//! What is behind the end holds no group that counts; the name of the last of these segments may
//! not be durable. If one were made behind it, a crash could leave that one alone: a gap. And
//! openings that are cut one after another would take ever more room.
//!
//! A session that was closed is gone on with where it ended: no group follows there, and its stamp
//! was durable before its control block, so R2 and R5 have nothing to do. Its last segment keeps
//! its length, whatever that of new ones is.
//!
//! A page of the image that was never stored to shows what is written to the file. So the first one
//! is stored to at once: the file gets stamps there, for which the image has zeros. And replay
//! stores a word that is there already too: the page cache may have what the disk has not got, and
//! a page that is not stored to is in no log and in no checkpoint. What replay has stored takes
//! memory: where that is too much, a checkpoint follows before the pool is served (`memory`).
//!
//! The end of the log is the first invalid group. If a later one of the same session knows that it
//! was durable, it is damage; otherwise it was never acknowledged. Of a group that was not
//! acknowledged any sectors may be there, and groups behind it too.

use std::io;
use std::sync::Arc;

use everleaf_pmem::{Cpu, Hardware, LINE, Media, Region};

use crate::checkpoint::{put_stamp, stamp_in};
use crate::control::{self, Control, Place, Stamp};
use crate::core::{Core, Parts};
use crate::disk::{BLOCK, Disk, DiskFile, PIECE};
use crate::group::{Capture, WORDS};
use crate::lines::Lines;
use crate::media::LogOptions;
use crate::payload::decode_payload;
use crate::reader::Reader;
use crate::segment::{Segment, segment_number, segment_numbers};
use crate::spares::remove_unused;
use crate::weak::{Weak, Weakness};
use crate::writer::Writer;
use crate::{Damage, LogError};

/// Captures that a recovery writes in one group; in the tests, whose pools are small, a few.
const GROUP: usize = if cfg!(test) { 4 } else { 1 << 15 };

/// The file of a pool.
#[derive(Clone)]
pub struct Base {
    /// The file.
    pub file: Arc<dyn DiskFile>,
    /// The identity of the pool, which its log bears too.
    pub uuid: u128,
    /// Bytes that the pool may grow to.
    pub max_bytes: u64,
    /// Where three words are that the pool keeps at zero, in its first 4096 bytes: in the file they
    /// say which log belongs to it.
    pub stamp_offset: u64,
}

/// The pool in memory, as its file and groups of the log leave it.
pub(crate) struct Image {
    hardware: Hardware,
    lines: Lines,
    /// The lines that were captured, in the order of the log.
    captured: Vec<u64>,
    /// Whether every group was inside the pool.
    inside: bool,
    weak: Weakness,
}

impl Image {
    /// The file of the pool, and the stamp in it.
    pub(crate) fn of(base: &Base, weak: Weakness) -> Result<(Self, Stamp), LogError> {
        let bytes = base.file.length().map_err(LogError::io("reading the pool"))? / BLOCK * BLOCK;
        let max_bytes = base.max_bytes.max(bytes);
        let hardware = match mapped(base, bytes, max_bytes)? {
            Some(hardware) => hardware,
            None => read(base, bytes, max_bytes)?,
        };
        let stamp = take_stamp(base, &hardware, weak)?;
        let lines = Lines::new(hardware.region().max_len());
        Ok((Self { hardware, lines, captured: Vec::new(), inside: true, weak }, stamp))
    }

    /// Sets the words of a group.
    pub(crate) fn apply(&mut self, payload: &[u8]) {
        let Self { hardware, lines, captured, inside, weak } = self;
        *inside &= decode_payload(payload, |capture| {
            let Some(cells) = hardware.region().cells(capture.line * LINE as u64, WORDS) else {
                *inside = false;
                return;
            };
            let equal = |word: &usize| hardware.load(&cells[*word]) == capture.words[*word];
            let given = (0..WORDS).filter(|word| capture.mask & 1 << word != 0);
            if weak.is(Weak::EqualIsDone) && given.clone().all(|word| equal(&word)) {
                return;
            }
            for word in given {
                hardware.store(&cells[word], capture.words[word]);
            }
            lines.add(capture.line, capture.mask);
            captured.push(capture.line);
        });
    }

    pub(crate) fn into_region(self) -> Region {
        self.hardware.into_region()
    }
}

/// What the groups of a log have left.
pub(crate) struct Replayed {
    pub(crate) image: Image,
    /// Where the valid groups end.
    end: Place,
    control: Control,
    /// What the file bears.
    stamp: Stamp,
}

/// The pool as the log leaves it, in memory that no other process sees. Nothing is written.
///
/// # Errors
/// [`LogError`].
pub fn read_only(base: &Base, disk: &dyn Disk) -> Result<Region, LogError> {
    Ok(replay(base, disk, Weakness::default())?.image.into_region())
}

/// A new log in an empty folder, for a pool of `bytes` bytes whose file means nothing yet.
pub(crate) fn create(
    base: &Base,
    disk: Arc<dyn Disk>,
    bytes: u64,
    options: LogOptions,
) -> Result<Core, LogError> {
    let making = |source| LogError::io("making the log")(source);
    base.file.allocate(bytes).map_err(LogError::io("allocating the pool"))?;
    let hardware = match mapped(base, bytes, base.max_bytes)? {
        Some(hardware) => hardware,
        None => memory(bytes, base.max_bytes)?,
    };
    take_stamp(base, &hardware, options.weak)?; // The first page is stored to.
    let control_file = disk.create(control::NAME).map_err(making)?;
    let session = random_word();
    let place = Place { segment: 0, offset: 0, number: 1, before: 0 };
    let mut writer = Writer::new(Arc::clone(&disk), base.uuid, place, &options);
    (writer.session, writer.served) = (session, true);
    writer.next_segment(0).map_err(making)?;
    let control = Control {
        number: 0,
        uuid: base.uuid,
        session,
        previous_session: 0,
        redo: writer.place,
        stamp: Stamp::default(), // The file is zeros.
        clean: false,
    };
    let control = control.create(&*control_file)?;
    disk.sync().map_err(making)?;
    Ok(Core::new(Parts {
        lines: Lines::new(hardware.region().max_len()),
        hardware,
        writer,
        base: Arc::clone(&base.file),
        stamp_offset: base.stamp_offset,
        control,
        control_file,
        options,
    }))
}

/// What is there, made durable and ready to be written.
pub(crate) fn open(
    base: &Base,
    disk: Arc<dyn Disk>,
    options: LogOptions,
) -> Result<Core, LogError> {
    let failed = |source| LogError::io("writing the log of a new session")(source);
    let weak = options.weak;
    let Replayed { image, end, control, stamp } = replay(base, &*disk, weak)?; // R1
    let Image { hardware, lines, mut captured, .. } = image;
    let control_file = disk.open(control::NAME).map_err(failed)?;
    let last = segment_numbers(&*disk)?.last().copied().unwrap_or(0).max(end.segment);
    let goes_on = control.clean && last == end.segment
        || weak.is(Weak::SessionsAreOne)
        || weak.is(Weak::ServeTheCache);
    remove_unused(&*disk).map_err(failed)?;
    let mut writer = Writer::new(Arc::clone(&disk), base.uuid, end, &options);
    writer.session = if weak.is(Weak::SessionsAreOne) { control.session } else { random_word() };
    writer.previous_session = control.session;
    if goes_on {
        let missing = LogError::damaged(Damage::MissingSegment, end.segment);
        let segment = Segment::open(&*disk, end.segment, base.uuid)?.ok_or(missing)?;
        let own = weak.is(Weak::SizeOfTheSession);
        writer.file_bytes = if own { options.segment_bytes } else { segment.bytes };
        writer.file = Some(segment.file);
    } else {
        remove_behind(&*disk, end.segment, weak).map_err(failed)?;
        writer.next_segment(0).map_err(failed)?;
    }
    let redo = if weak.is(Weak::ServeTheCache) { control.redo } else { writer.place };
    captured.sort_unstable();
    captured.dedup();
    captured.iter().for_each(|line| lines.mark_page(*line));
    if !goes_on {
        copy_log(&hardware, &lines, &captured, &mut writer).map_err(failed)?; // R2
        write_stamp(base, stamp, !weak.is(Weak::StampOfTheCache))?;
    }
    let served = Control {
        number: control.number + 1,
        session: writer.session,
        previous_session: control.session,
        redo,
        stamp,
        clean: false,
        ..control
    };
    served.write(&*control_file, weak)?; // R3
    writer.served = true;
    let stamp = writer.stamp().lacking_from(redo);
    write_stamp(base, stamp, !weak.is(Weak::SessionNotMarked))?; // R4
    if !goes_on {
        writer.spares = writer.spares().set_free(redo.segment).map_err(failed)?; // R5
    }
    Ok(Core::new(Parts {
        hardware,
        lines,
        writer,
        base: Arc::clone(&base.file),
        stamp_offset: base.stamp_offset,
        control: served,
        control_file,
        options,
    }))
}

/// R2: the segments behind the last one that counts.
fn remove_behind(disk: &dyn Disk, last: u64, weak: Weakness) -> io::Result<()> {
    let mut names = disk.names()?;
    names.retain(|name| segment_number(name).is_some_and(|number| number > last));
    names.sort_unstable_by(|a, b| b.cmp(a)); // As their numbers, which have one length.
    for name in names {
        disk.remove(&name)?;
        if !weak.is(Weak::RemovalNotSynced) {
            disk.sync()?;
        }
    }
    Ok(())
}

/// R2: the lines that the log has left, as groups of the new session.
fn copy_log(
    hardware: &Hardware,
    lines: &Lines,
    captured: &[u64],
    writer: &mut Writer,
) -> io::Result<()> {
    for part in captured.chunks(GROUP) {
        let captures: Vec<Capture> = part
            .iter()
            .map(|line| {
                let mask = lines.take(*line);
                let mut capture = Capture { line: *line, order: 0, mask, words: [0; WORDS] };
                let cells = hardware.region().cells(line * LINE as u64, WORDS).unwrap_or_default();
                for (word, cell) in capture.words.iter_mut().zip(cells) {
                    *word = hardware.load(cell);
                }
                capture
            })
            .collect();
        writer.append(&captures)?;
    }
    let (files, place) = writer.take_unsynced();
    if !writer.weak.is(Weak::CopyNotSynced) {
        files.iter().try_for_each(|file| file.sync())?;
    }
    writer.note_synced(place);
    Ok(())
}

/// Writes a stamp into the file, beside what the file holds there already, and syncs it.
fn write_stamp(base: &Base, stamp: Stamp, synced: bool) -> Result<(), LogError> {
    let write = || -> io::Result<()> {
        let mut page = [0; BLOCK as usize];
        base.file.read(0, &mut page)?;
        put_stamp(&mut page, base.stamp_offset, stamp);
        base.file.write(0, &page)?;
        if synced { base.file.sync() } else { Ok(()) }
    };
    write().map_err(LogError::io("writing the file of the pool"))
}

/// R1.
pub(crate) fn replay(base: &Base, disk: &dyn Disk, weak: Weakness) -> Result<Replayed, LogError> {
    let control = Control::read(disk, weak)?;
    if control.uuid != base.uuid {
        return Err(LogError::Foreign);
    }
    let mut log = Reader::new(disk, &control, weak)?;
    let (mut image, stamp) = Image::of(base, weak)?;
    let mut reaches_stamp = log.is_at(stamp);
    while log.next()? {
        image.apply(log.payload());
        reaches_stamp |= log.is_at(stamp);
    }
    if !image.inside {
        return Err(LogError::damaged(Damage::Outside, log.end.segment));
    }
    log.check_end()?;
    let end = log.end;
    let fits = match stamp.session == control.session {
        true => reaches_stamp && stamp.lets_begin_at(control.redo),
        false => stamp == control.stamp,
    };
    if fits { Ok(Replayed { image, end, control, stamp }) } else { Err(LogError::OtherTime) }
}

/// The file as private memory; none where it cannot be mapped.
fn mapped(base: &Base, bytes: u64, max_bytes: u64) -> Result<Option<Hardware>, LogError> {
    let file = base.file.to_map().map_err(LogError::io("opening the pool"))?;
    let region = file.map(|file| Region::image(file, bytes, max_bytes)).transpose()?.flatten();
    Ok(region.map(|region| Hardware::new(region, &Cpu::detect())).transpose()?)
}

/// The file read into memory whole.
fn read(base: &Base, bytes: u64, max_bytes: u64) -> Result<Hardware, LogError> {
    let hardware = memory(bytes, max_bytes)?;
    let mut piece = vec![0; PIECE];
    for offset in (0..bytes).step_by(PIECE) {
        let length = (bytes - offset).min(PIECE as u64) as usize;
        let piece = &mut piece[..length];
        base.file.read(offset, piece).map_err(LogError::io("reading the pool"))?;
        let cells = hardware.region().cells(offset, length / 8).unwrap_or_default();
        for (cell, word) in cells.iter().zip(piece.as_chunks::<8>().0) {
            if *word != [0; 8] {
                hardware.store(cell, u64::from_le_bytes(*word)); // Fresh memory is zero.
            }
        }
    }
    Ok(hardware)
}

/// The stamp of the file, for which the image has zeros from now on.
fn take_stamp(base: &Base, hardware: &Hardware, weak: Weakness) -> Result<Stamp, LogError> {
    let Some(cells) = hardware.region().cells(base.stamp_offset, 3) else {
        return Ok(Stamp::default());
    };
    let mut page = [0; BLOCK as usize];
    base.file.read(0, &mut page).map_err(LogError::io("reading the pool"))?;
    if !weak.is(Weak::FirstPageUntouched) {
        cells.iter().for_each(|cell| hardware.store(cell, 0));
    }
    Ok(stamp_in(&page, base.stamp_offset))
}

fn memory(bytes: u64, max_bytes: u64) -> Result<Hardware, LogError> {
    Ok(Hardware::new(Region::anonymous(bytes, max_bytes)?, &Cpu::detect())?)
}

fn random_word() -> u64 {
    uuid::Uuid::new_v4().as_u64_pair().0 | 1 // Zero is no session.
}
