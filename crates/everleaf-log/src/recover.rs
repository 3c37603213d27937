//! Making a log, and opening one: what a crash has left, and what is done about it.
//!
//! ```text
//! R1  the newest valid control block; the file of the pool is mapped privately: the image. The
//!     groups from the redo point on are read as far as they are valid, and checked
//! R2  segments behind the end are removed, the last one first, and the folder is synced after each
//!     Crash: those that are left follow the end without a gap; they are removed.
//!     Spares are taken over (`spares`); what was left unfinished is removed
//!     What the groups hold is written into new segments there, under a new session, and synced; so
//!     is the stamp of the file, as it was read
//!     Crash: no control block speaks of the segments; they are behind the end, and are removed.
//! R3  COMMIT the control block of the new session, with that stamp, written and synced
//!     Crash: it is the stamp that the file has.
//! R4  the file gets the stamp of the new session, and is synced
//!     Crash: the file has this stamp or the one before, and the control block fits both.
//! R5  the old segments become spares, or are removed (`spares`)
//!     Crash: the next opening removes them.
//! R6  the groups of the new session are stored into the image. Where more than half of the memory
//!     is taken, pages are written to the file, it is synced, and they are given back
//!     Crash: the file holds some of what the log holds. Replay begins where it did.
//! ```
//!
//! Only now the pool is served: nothing is in it that another crash takes back. What was read may
//! have existed in the page cache only; so without the syncs of R2 a crash after R3 may leave a log
//! without what was served, or a stamp that the control block does not fit. Without the sync of R4
//! a log of an earlier session, put back, is accepted after a crash, without what this session has
//! acknowledged.
//!
//! R6 writes to the file, so it comes behind R2: what is in the file must be in the log that counts
//! after a crash, and of the old groups a crash may take back what was in the page cache only; a
//! sync of theirs is worth nothing after one that has failed. It comes behind R3 and R4 too: the
//! log that counts is the new one then, and leads to the last of its groups. The redo point stays
//! before all of them, and words are absolute values: replay sets each word that the file may have
//! early, and the end of the log is behind what any page has. So a page may be written between any
//! two captures. It is not given back before it is synced: what the system could not write it may
//! forget, and the page would show what it was.
//!
//! Where the disk has no room for the copy of R2, the file of the pool gets what the log holds:
//!
//! ```text
//! F1  the groups that are not known to be durable are written again where they are, and synced
//!     Crash: each sector is what it was, or what was written, which is the same.
//! F2  the stamp as it was read is written again and synced; then the control block as it was read,
//!     under the next number, with that stamp. Both may have been in the page cache only
//!     Crash: the stamp fits the control block before it as well: it is that of R2, or of a
//!     checkpoint (C4, C6).
//! F3  the groups are stored into the image, as in R6
//!     Crash: as there. The log that counts is durable up to its end, and begins where it did.
//! F4  a checkpoint of the session before, C1 to C8: the log begins at its end, and the segments
//!     before become spares
//!     Crash: as in any checkpoint.
//! ```
//!
//! Then the new session begins behind that end, in the same segment, and has nothing to copy: R3
//! to R6 follow. Until R3 nothing stands there that counts. What may stand there has the session
//! before or an earlier one, and no reader of the new session takes it for its own. Without F1 a
//! crash in F3 or F4 may take back groups that the file holds in part.
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
//! a page that is not stored to is in no checkpoint.
//!
//! The log is read three times, and never held in memory whole. A group that is not what it was the
//! time before is damage: a disk that has failed may show another one when it is read again.
//!
//! The end of the log is the first invalid group. If a later one of the same session knows that it
//! was durable, it is damage; otherwise it was never acknowledged. Of a group that was not
//! acknowledged any sectors may be there, and groups behind it too.

use std::io;
use std::sync::Arc;

use everleaf_pmem::Media;

use crate::base::{Base, mapped, take_stamp, write_stamp, zeroed};
use crate::control::{self, Control, Place, Stamp};
use crate::core::{Core, Parts};
use crate::disk::{Disk, PIECE, is_full};
use crate::group::{Capture, merge};
use crate::lines::Lines;
use crate::options::LogOptions;
use crate::payload::decode_payload;
use crate::reader::Reader;
use crate::replay::{Found, find};
use crate::segment::{FIRST, Segment, segment_number, segment_numbers};
use crate::weak::{Weak, Weakness};
use crate::writer::Writer;
use crate::{Damage, LogError};

/// Captures that a recovery writes in one group; in the tests, whose pools are small, a few.
const GROUP: usize = if cfg!(test) { 4 } else { 1 << 15 };

/// A new log in an empty folder, for a pool of `bytes` bytes whose file means nothing yet.
pub(crate) fn create(
    base: &Base,
    disk: Arc<dyn Disk>,
    bytes: u64,
    options: LogOptions,
) -> Result<Core, LogError> {
    let making = |source| LogError::io("making the log")(source);
    base.file.allocate(bytes).map_err(LogError::io("allocating the pool"))?;
    let memory = match mapped(base, bytes, base.max_bytes)? {
        Some(memory) => memory,
        None => zeroed(bytes, base.max_bytes)?,
    };
    take_stamp(base, &memory, options.weak)?; // The first page is stored to.
    let control_file = disk.create(control::NAME).map_err(making)?;
    let session = random_word();
    let place = Place { segment: 0, offset: 0, number: 1, before: 0 };
    let mut writer = Writer::new(Arc::clone(&disk), base.uuid, place, &options);
    (writer.session, writer.served) = (session, true);
    writer.next_segment(0).map_err(making)?;
    writer.spares = vec![writer.spares().make_least().map_err(making)?];
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
        lines: Lines::new(memory.region().max_len()),
        memory,
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
    let weak = options.weak;
    let Found { memory, control, end, durable, stamp } = find(base, &*disk, weak)?; // R1
    let control_file = disk.open(control::NAME).map_err(failed)?;
    let last = segment_numbers(&*disk)?.last().copied().unwrap_or(0).max(end.segment);
    let goes_on = control.clean && last == end.segment
        || weak.is(Weak::SessionsAreOne)
        || weak.is(Weak::ServeTheCache);
    let mut before = Writer::new(Arc::clone(&disk), base.uuid, end, &options);
    (before.session, before.previous_session) = (control.session, control.previous_session);
    let core = Core::new(Parts {
        lines: Lines::new(memory.region().max_len()),
        memory,
        writer: before,
        base: Arc::clone(&base.file),
        stamp_offset: base.stamp_offset,
        control,
        control_file,
        options,
    });
    let opening = Opening { base, disk, core: &core, end };
    let (writer, stamp) = match opening.begin(if goes_on { Begin::Here } else { Begin::Anew }) {
        Err(error) if !goes_on && lacks_room(&error) => {
            let stamp = opening.checkpoint_first(stamp, durable)?;
            (opening.begin(Begin::HereAnew)?, stamp)
        }
        writer => (writer?, stamp),
    };
    opening.serve(writer, stamp, goes_on)?;
    Ok(core)
}

/// Where a session begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Begin {
    /// Behind the end of a session that was closed.
    Here,
    /// In a new segment, with a copy of the log.
    Anew,
    /// Behind the end of a log whose content the file of the pool has got.
    HereAnew,
}

/// A log that is being opened, from R2 on.
struct Opening<'o> {
    base: &'o Base,
    disk: Arc<dyn Disk>,
    /// The core of the session before until there is a new one.
    core: &'o Core,
    /// Where the log ends.
    end: Place,
}

/// Where a session writes, and where its log begins.
type Begun = (Writer, Place);

impl Opening<'_> {
    /// R2. What is written here counts for nothing yet.
    fn begin(&self, begin: Begin) -> Result<Begun, LogError> {
        let (weak, control) = (self.core.weak, *self.core.control.lock());
        let (disk, uuid, end) = (&*self.disk, self.base.uuid, self.end);
        let mut writer = Writer::new(Arc::clone(&self.disk), uuid, end, &self.core.options);
        let one = weak.is(Weak::SessionsAreOne);
        writer.session = if one { control.session } else { random_word() };
        writer.previous_session = control.session;
        if begin != Begin::Here {
            remove_behind(disk, end.segment, weak).map_err(failed)?;
        }
        writer.spares = writer.spares().take_over().map_err(failed)?;
        writer.makes_do = begin != Begin::Anew;
        if begin == Begin::Anew {
            writer.next_segment(0).map_err(failed)?;
        } else {
            let missing = LogError::damaged(Damage::MissingSegment, end.segment);
            let segment = Segment::open(disk, end.segment, uuid)?.ok_or(missing)?;
            writer.go_on(segment);
            if weak.is(Weak::SizeOfTheSession) {
                writer.file_bytes = self.core.options.segment_bytes;
            }
        }
        let redo = if weak.is(Weak::ServeTheCache) { control.redo } else { writer.place };
        if begin == Begin::Anew {
            let mut log = Reader::new(disk, &control, weak)?;
            copy_log(&mut log, &mut writer)?;
            log.check_place(end)?;
        }
        writer.makes_do = true;
        Ok((writer, redo))
    }

    /// F1 to F4: the file of the pool gets all that the log holds. The stamp that it has then.
    fn checkpoint_first(&self, stamp: Stamp, durable: Place) -> Result<Stamp, LogError> {
        let (core, weak, end) = (self.core, self.core.weak, self.end);
        let control = *core.control.lock();
        remove_behind(&*self.disk, end.segment, weak).map_err(failed)?;
        if end == control.redo {
            return Ok(stamp);
        }
        if !weak.is(Weak::TailOfTheCache) {
            self.write_again(durable)?; // F1
        }
        write_stamp(self.base, stamp, true)?;
        let again = Control { number: control.number + 1, stamp, ..control };
        again.write(&*core.control_file, weak)?; // F2
        *core.control.lock() = again;
        let mut log = Reader::new(&*self.disk, &again, weak)?;
        core.replay(&mut log)?; // F3
        log.check_place(end)?;
        core.checkpoint()?; // F4
        Ok(core.control.lock().stamp)
    }

    /// F1: writes the blocks of the groups behind `from` again, as they are, and syncs them.
    fn write_again(&self, from: Place) -> Result<(), LogError> {
        let mut piece = vec![0; PIECE];
        for number in from.segment..=self.end.segment {
            let missing = LogError::damaged(Damage::MissingSegment, number);
            let segment = Segment::open(&*self.disk, number, self.base.uuid)?.ok_or(missing)?;
            let first = if number == from.segment { from.offset } else { FIRST };
            let end = if number == self.end.segment { self.end.offset } else { segment.bytes };
            for at in (first..end).step_by(PIECE) {
                let piece = &mut piece[..(end - at).min(PIECE as u64) as usize];
                segment.read(at, piece)?;
                segment.file.write(at, piece).map_err(failed)?;
            }
            segment.file.sync().map_err(failed)?;
        }
        Ok(())
    }

    /// R3 to R6. The file has this stamp so far.
    fn serve(&self, begun: Begun, stamp: Stamp, goes_on: bool) -> Result<(), LogError> {
        let (core, weak) = (self.core, self.core.weak);
        let (mut writer, redo) = begun;
        let control = *core.control.lock();
        if !goes_on {
            write_stamp(self.base, stamp, !weak.is(Weak::StampOfTheCache))?;
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
        served.write(&*core.control_file, weak)?; // R3
        writer.served = true;
        let stamp = writer.stamp().lacking_from(redo);
        write_stamp(self.base, stamp, !weak.is(Weak::SessionNotMarked))?; // R4
        if !goes_on {
            let spares = writer.spares().set_free(redo.segment).map_err(failed)?; // R5
            writer.spares.extend(spares);
        }
        writer.get_spare().map_err(failed)?;
        if !writer.has_room() {
            return Err(LogError::NoRoom { bytes: writer.spares().bytes });
        }
        let (written, place) = (if goes_on { control } else { served }, writer.place);
        core.begin_session(writer, served);
        let mut log = Reader::new(&*self.disk, &written, weak)?;
        core.replay(&mut log)?; // R6
        log.check_place(place)
    }
}

fn failed(source: io::Error) -> LogError {
    LogError::io("writing the log of a new session")(source)
}

fn lacks_room(error: &LogError) -> bool {
    matches!(error, LogError::Io { source, .. } if is_full(source))
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

/// R2: what the log holds, as groups of the new session. Small ones become one, with one capture a
/// line.
fn copy_log(log: &mut Reader<'_>, writer: &mut Writer) -> Result<(), LogError> {
    let mut captures = Vec::new();
    loop {
        let goes_on = log.next()?;
        if goes_on {
            decode_payload(log.payload(), |capture| {
                captures.push(Capture { order: captures.len() as u64, ..capture });
            });
        }
        if captures.len() >= GROUP || !goes_on && !captures.is_empty() {
            merge(&mut captures);
            captures.chunks(GROUP).try_for_each(|group| writer.append(group)).map_err(failed)?;
            captures.clear();
        }
        if !goes_on {
            break;
        }
    }
    let (files, place) = writer.take_unsynced();
    if !writer.weak.is(Weak::CopyNotSynced) {
        files.iter().try_for_each(|file| file.sync()).map_err(failed)?;
    }
    writer.note_synced(place);
    Ok(())
}

fn random_word() -> u64 {
    uuid::Uuid::new_v4().as_u64_pair().0 | 1 // Zero is no session.
}
