//! Making a log, and opening one: what a crash has left, and what is done about it.
//!
//! ```text
//! R1  the newest valid control block; the file of the pool is mapped privately: the image. The
//!     groups from the redo point on are read as far as they are valid, and checked
//! R2  the groups that are not known to be durable are written again where they are, and synced
//!     Crash: each sector is what it was, or what was written, which is the same.
//!     Segments behind the end are removed, the last one first, and the folder is synced before and
//!     after each
//!     Crash: those that are left follow the end without a gap; they are removed.
//!     Spares are taken over (`spares`); what was left unfinished is removed
//!     The stamp of the file is written again as it was read, and synced. A session that was closed
//!     has done so.
//! R3  COMMIT the control block of the new session, with that stamp, written and synced. It names
//!     the session before, and the number at which that one ends
//!     Crash: it is the stamp that the file has.
//! R4  the file gets the stamp of the new session, and is synced
//!     Crash: the file has this stamp or the one before, and the control block fits both.
//! R5  segments before the redo point become spares, or are removed (`spares`)
//!     Crash: the next opening removes them.
//! R6  the groups are stored into the image. Where more than half of the memory is taken, pages are
//!     written to the file, it is synced, and they are given back
//!     Crash: the file holds some of what the log holds. Replay begins where it did.
//! ```
//!
//! Only now the pool is served: nothing is in it that another crash takes back. What was read may
//! have existed in the page cache only; so without R2 a crash after R3 may leave a log without what
//! was served, or a stamp that the control block does not fit. What a later group knows to be
//! durable, or a stamp, was synced by the session that says so. Without the sync of R4 a log of an
//! earlier session, put back, is accepted after a crash, without what this session has
//! acknowledged.
//!
//! The new session begins where the one before ends, in the same segment: nothing is copied. The
//! log goes from session to session, at the numbers that the control block names, until a
//! checkpoint lets it begin behind them. Until R3 nothing stands behind the end that counts. What
//! may stand there has the session before or an earlier one, and no reader of the new session takes
//! it for its own. A session that has left no group is not named.
//!
//! R6 writes to the file, so it comes behind R2: what is in the file must be in the log that counts
//! after a crash. It comes behind R3 and R4 too: the log that counts is the new one then, and leads
//! to the last of its groups. The redo point stays before all of them, and words are absolute
//! values: replay sets each word that the file may have early, and the end of the log is behind
//! what any page has. So a page may be written between any two captures. It is not given back
//! before it is synced: what the system could not write it may forget, and the page would show what
//! it was.
//!
//! Where the control block has no place for one more session, or the disk no room for a group, the
//! file of the pool gets what the log holds, between R2 and R3:
//!
//! ```text
//! F1  the stamp as it was read is written again and synced; then the control block as it was read,
//!     under the next number, with that stamp. Both may have been in the page cache only
//!     Crash: the stamp fits the control block before it as well: it is that of R2, or of a
//!     checkpoint (C4, C6).
//! F2  the groups are stored into the image, as in R6
//!     Crash: as there. The log that counts is durable up to its end, and begins where it did.
//! F3  a checkpoint of the session before, C1 to C8: the log begins at its end, and the segments
//!     before become spares
//!     Crash: as in any checkpoint.
//! ```
//!
//! What is behind the end holds no group that counts; the name of the last of these segments may
//! not be durable, and its removal by an opening that was killed may not be either. If one were
//! made behind it, a crash could leave that one alone: a gap.
//!
//! A page of the image that was never stored to shows what is written to the file. So the first one
//! is stored to at once: the file gets stamps there, for which the image has zeros. And replay
//! stores a word that is there already too: the page cache may have what the disk has not got, and
//! a page that is not stored to is in no checkpoint.
//!
//! The log is read twice, and never held in memory whole. A group that is not what it was the time
//! before is damage: a disk that has failed may show another one when it is read again.
//!
//! The end of the log is the first invalid group. If a later one of the same session knows that it
//! was durable, it is damage; otherwise it was never acknowledged. Of a group that was not
//! acknowledged any sectors may be there, and groups behind it too.

use std::io;
use std::sync::Arc;

use everleaf_pmem::{Features, Media};

use crate::base::{Base, mapped, take_stamp, write_stamp, zeroed};
use crate::control::{self, Control, Earlier, Place, Stamp};
use crate::core::{Core, Parts};
use crate::disk::{Disk, PIECE};
use crate::lines::Lines;
use crate::options::LogOptions;
use crate::reader::Reader;
use crate::replay::{Found, find};
use crate::segment::{FIRST, Segment, segment_number};
use crate::weak::{Weak, Weakness};
use crate::writer::Writer;
use crate::{Damage, LogError};

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
        earlier: Earlier::default(),
        features: Features::default(),
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
    let found = find(base, &*disk, options.weak)?; // R1
    found.control.features.check(true).map_err(LogError::Newer)?;
    let Found { memory, control, end, durable, bytes, stamp } = found;
    let control_file = disk.open(control::NAME).map_err(failed)?;
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
    opening.make_durable(durable)?;
    let writer = opening.begin()?;
    if writer.has_room() && !control.earlier.is_full() {
        opening.serve(writer, stamp, bytes)?;
    } else {
        let stamp = opening.checkpoint_first(stamp)?;
        opening.serve(opening.begin()?, stamp, 0)?;
    }
    Ok(core)
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

impl Opening<'_> {
    /// R2: what the groups behind `from` hold, and that nothing stands behind the end.
    fn make_durable(&self, from: Place) -> Result<(), LogError> {
        let weak = self.core.weak;
        if from != self.end && !weak.is(Weak::ServeTheCache) {
            self.write_again(from)?;
        }
        remove_behind(&*self.disk, self.end.segment, weak).map_err(failed)
    }

    /// A writer of a new session, at the end. What it writes counts for nothing yet.
    fn begin(&self) -> Result<Writer, LogError> {
        let (weak, control) = (self.core.weak, *self.core.control.lock());
        let (uuid, end) = (self.base.uuid, self.end);
        let mut writer = Writer::new(Arc::clone(&self.disk), uuid, end, &self.core.options);
        let one = weak.is(Weak::SessionsAreOne);
        writer.session = if one { control.session } else { random_word() };
        writer.previous_session = control.session;
        writer.spares = writer.spares().take_over().map_err(failed)?;
        writer.get_spare().map_err(failed)?;
        let missing = LogError::damaged(Damage::MissingSegment, end.segment);
        writer.go_on(Segment::open(&*self.disk, end.segment, uuid)?.ok_or(missing)?);
        if weak.is(Weak::SizeOfTheSession) {
            writer.file_bytes = self.core.options.segment_bytes;
        }
        Ok(writer)
    }

    /// F1 to F3: the file of the pool gets all that the log holds. The stamp that it has then.
    fn checkpoint_first(&self, stamp: Stamp) -> Result<Stamp, LogError> {
        let core = self.core;
        let control = *core.control.lock();
        if self.end == control.redo {
            return Ok(stamp);
        }
        write_stamp(self.base, stamp, true)?;
        let again = Control { number: control.number + 1, stamp, ..control };
        again.write(&*core.control_file, core.weak)?; // F1
        *core.control.lock() = again;
        self.replay(&again, self.end)?; // F2
        core.checkpoint()?; // F3
        Ok(core.control.lock().stamp)
    }

    /// R6.
    fn replay(&self, control: &Control, end: Place) -> Result<(), LogError> {
        let mut log = Reader::new(&*self.disk, control, self.core.weak)?;
        self.core.replay(&mut log)?;
        log.check_place(end)
    }

    /// Writes the blocks of the groups behind `from` again, as they are, and syncs them.
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
            if !self.core.weak.is(Weak::TailNotSynced) {
                segment.file.sync().map_err(failed)?;
            }
        }
        Ok(())
    }

    /// R3 to R6. The file has this stamp so far, and the log so many bytes.
    fn serve(&self, mut writer: Writer, stamp: Stamp, bytes: u64) -> Result<(), LogError> {
        let (core, weak) = (self.core, self.core.weak);
        if !writer.has_room() {
            return Err(LogError::NoRoom { bytes: writer.spares().bytes });
        }
        let control = *core.control.lock();
        if !control.clean {
            write_stamp(self.base, stamp, !weak.is(Weak::StampOfTheCache))?;
        }
        let served = Control {
            number: control.number + 1,
            session: writer.session,
            previous_session: control.session,
            stamp,
            clean: false,
            earlier: control.and_ended(self.end),
            ..control
        };
        served.write(&*core.control_file, weak)?; // R3
        writer.served = true;
        let stamp = writer.stamp().lacking_from(served.redo);
        write_stamp(self.base, stamp, !weak.is(Weak::SessionNotMarked))?; // R4
        let spares = writer.spares().set_free(served.redo.segment).map_err(failed)?; // R5
        writer.spares.extend(spares);
        core.begin_session(writer, served, bytes);
        self.replay(&served, self.end) // R6
    }
}

fn failed(source: io::Error) -> LogError {
    LogError::io("writing the log of a new session")(source)
}

/// R2: the segments behind the last one that counts. A removal may be another opening's, which was
/// killed before it was durable: so the folder is synced before each as well.
fn remove_behind(disk: &dyn Disk, last: u64, weak: Weakness) -> io::Result<()> {
    let mut names = disk.names()?;
    names.retain(|name| segment_number(name).is_some_and(|number| number > last));
    names.sort_unstable_by(|a, b| b.cmp(a)); // As their numbers, which have one length.
    let sync = || if weak.is(Weak::RemovalNotSynced) { Ok(()) } else { disk.sync() };
    for name in &names {
        sync()?;
        disk.remove(name)?;
    }
    if names.is_empty() { Ok(()) } else { sync() }
}

fn random_word() -> u64 {
    uuid::Uuid::new_v4().as_u64_pair().0 | 1 // Zero is no session.
}
