//! Captures and group commit.
//!
//! A capture takes the lock of a buffer, then the latch of its line's stripe, and reads under the
//! latch which group is open. Stores take the latch too. So if a thread flushed one line and then
//! stored to another, a capture of the second store reads a number that is no smaller (I1).
//! Closing a group increments the number, then visits every buffer: whoever read the old number
//! has deposited its capture before it gives the buffer's lock back. Under a latch nothing waits,
//! allocates or does input and output: what may be on the disk only is read before the latch is
//! taken.
//!
//! The waiter that comes first writes and syncs for all. The number of a *point* counts closings,
//! that of a *group* counts what was written: a point without captures is reached without a sync.

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize};
use std::time::{Duration, Instant};

use crossbeam_utils::{Backoff, CachePadded};
use everleaf_pmem::{LINE, Mapped, Mapping, Media, MediaError, SyncLatch, zeroed_cells};
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::control::Control;
use crate::disk::{BLOCK, DiskFile, is_full};
use crate::group::{Capture, WORDS, merge};
use crate::latch::Latch;
use crate::lines::Lines;
use crate::options::LogOptions;
use crate::signals::Signals;
use crate::weak::{Weak, Weakness};
use crate::writer::Writer;

/// Latches: so many that two threads seldom want one.
const STRIPES: usize = 1 << 16;
/// Buffers: threads share one by chance.
const BUFFERS: usize = 16;
/// Captures in one buffer after which the group is closed, at most: about 0.5 MiB, so a group has
/// at most 8 MiB.
const FULL: usize = 6000;
/// Bytes that a capture takes in a log, at most, and its share of what surrounds it.
pub(crate) const CAPTURE_BYTES: u64 = 80;

/// What was captured: of the open group, and of the one that is being closed, by parity.
#[derive(Default)]
struct Buffer {
    captures: [Vec<Capture>; 2],
}

/// What the threads share.
pub(crate) struct Core {
    pub(crate) memory: Mapped,
    pub(crate) lines: Lines,
    /// Lowest bit: taken. Above it: how often it was given back.
    stripes: Box<[AtomicU64]>,
    buffers: Box<[CachePadded<Mutex<Buffer>>]>,
    /// Captures in one buffer after which the group is closed: several groups have room in a
    /// segment.
    full: AtomicUsize,
    /// The point that is open.
    open: CachePadded<AtomicU64>,
    /// The greatest point that is reached.
    durable: CachePadded<AtomicU64>,
    failed: AtomicBool,
    failure: SyncLatch,
    /// Whether a thread is writing for all.
    busy: Mutex<bool>,
    /// Those who wait for a point, by its parity.
    wake: [Condvar; 2],
    /// Before `base`, in the order in which they are dropped: the folder is unlocked before the
    /// pool, so that whoever gets the lock of the pool gets that of the folder.
    pub(crate) log: Mutex<Writer>,
    pub(crate) base: Arc<dyn DiskFile>,
    pub(crate) stamp_offset: u64,
    /// Held by a checkpoint. The control block that is durable.
    pub(crate) control: Mutex<Control>,
    pub(crate) control_file: Arc<dyn DiskFile>,
    pub(crate) options: LogOptions,
    /// Bytes of the log after which a checkpoint begins now.
    log_bytes: AtomicU64,
    /// Pages that may be private; without an image any number.
    pub(crate) memory_pages: u64,
    /// The system gives no page back: the limit says nothing then.
    pub(crate) keeps_pages: AtomicBool,
    /// What this session had appended where the log begins; less than nothing where the log has
    /// groups of sessions before.
    pub(crate) redo_bytes: AtomicI64,
    pub(crate) appended_bytes: AtomicU64,
    /// There is no segment ahead of need, and it was not yet found that there can be none.
    pub(crate) lacks_spare: AtomicBool,
    /// What the thread behind the media is to do.
    pub(crate) signals: Signals,
    pub(crate) syncs: AtomicU64,
    /// When it was made.
    began: Instant,
    /// Everything that was captured so many milliseconds after that is durable.
    durable_ms: AtomicU64,
    pub(crate) checkpoints: AtomicU64,
    pub(crate) base_bytes: AtomicU64,
    /// Held while the file grows.
    pub(crate) growing: Mutex<()>,
    /// Held while a spare is made: two would have one name.
    sparing: Mutex<()>,
    pub(crate) weak: Weakness,
}

/// What an opening hands over.
pub(crate) struct Parts {
    pub(crate) memory: Mapped,
    pub(crate) lines: Lines,
    pub(crate) writer: Writer,
    pub(crate) base: Arc<dyn DiskFile>,
    pub(crate) stamp_offset: u64,
    pub(crate) control: Control,
    pub(crate) control_file: Arc<dyn DiskFile>,
    pub(crate) options: LogOptions,
}

impl Core {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { memory, lines, writer, base, stamp_offset, control, control_file, options } =
            parts;
        let (appended_bytes, weak) = (AtomicU64::new(writer.appended_bytes), writer.weak);
        let limited = memory.region().mapping() == Mapping::Image;
        let memory_bytes = if limited { options.memory_bytes } else { u64::MAX };
        Self {
            memory,
            lines,
            stripes: zeroed_cells(STRIPES),
            buffers: (0..BUFFERS).map(|_| CachePadded::default()).collect(),
            full: AtomicUsize::new(full_of(&options)),
            open: CachePadded::new(AtomicU64::new(1)),
            durable: CachePadded::new(AtomicU64::new(0)),
            failed: AtomicBool::new(false),
            failure: SyncLatch::default(),
            busy: Mutex::new(false),
            wake: Default::default(),
            log: Mutex::new(writer),
            base,
            stamp_offset,
            control: Mutex::new(control),
            control_file,
            options,
            log_bytes: AtomicU64::new(options.log_bytes),
            memory_pages: memory_bytes / BLOCK,
            keeps_pages: AtomicBool::new(false),
            redo_bytes: AtomicI64::new(0),
            appended_bytes,
            lacks_spare: AtomicBool::new(false),
            signals: Default::default(),
            syncs: AtomicU64::new(0),
            began: Instant::now(),
            durable_ms: AtomicU64::new(0),
            checkpoints: AtomicU64::new(0),
            base_bytes: AtomicU64::new(0),
            growing: Mutex::new(()),
            sparing: Mutex::new(()),
            weak,
        }
    }

    /// From here on a new session writes the log, of which so many bytes are there already.
    pub(crate) fn begin_session(&self, writer: Writer, control: Control, bytes: u64) {
        self.redo_bytes.store(-(bytes as i64), Relaxed);
        self.appended_bytes.store(writer.appended_bytes, Relaxed);
        self.lacks_spare.store(writer.spares.is_empty(), Relaxed);
        *self.control.lock() = control;
        *self.log.lock() = writer;
    }

    /// From the next segment on the log has these lengths.
    pub(crate) fn set_lengths(&self, lengths: &LogOptions) {
        self.log.lock().set_lengths(lengths);
        self.log_bytes.store(lengths.log_bytes, Relaxed);
        self.full.store(full_of(lengths), Relaxed);
    }

    /// Bytes of the log after which a checkpoint begins.
    pub(crate) fn log_bytes(&self) -> u64 {
        self.log_bytes.load(Relaxed)
    }

    // ---- latches

    /// Takes the latch of a line's stripe. What is done under it ends soon.
    #[inline]
    pub(crate) fn latch(&self, line: u64) -> Latch<'_> {
        let backoff = Backoff::new();
        loop {
            if let Some(latch) = self.try_latch(line) {
                return latch;
            }
            backoff.snooze();
        }
    }

    /// The same, if nobody has it.
    #[inline]
    pub(crate) fn try_latch(&self, line: u64) -> Option<Latch<'_>> {
        Latch::of(&self.stripes[line as usize % STRIPES])
    }

    // ---- captures

    fn buffer(&self) -> MutexGuard<'_, Buffer> {
        self.buffers[place_of_thread() % BUFFERS].lock()
    }

    /// Captures what is new in lines.
    pub(crate) fn capture(&self, lines: impl Iterator<Item = u64>) {
        if self.failed.load(Relaxed) {
            return; // Nothing is acknowledged any more.
        }
        let mut buffer = self.buffer();
        for line in lines {
            if self.capture_into(&mut buffer, line, None) {
                drop(buffer);
                self.close_early();
                buffer = self.buffer();
            }
        }
        drop(buffer);
        self.bound_memory();
    }

    /// Captures a line, and copies it as it is then. Whether the buffer is full. The page is marked
    /// under the latch, unless the copy of it is to be written.
    fn capture_into(&self, buffer: &mut Buffer, line: u64, copy: Option<&mut [u8]>) -> bool {
        let mut capture = Capture { line, order: 0, mask: 0, words: [0; WORDS] };
        let latch = self.latch(line);
        capture.order = latch.count;
        let point = self.open.load(SeqCst);
        if let Some(cells) = self.memory.region().cells(line * LINE as u64, WORDS) {
            if copy.is_none() || !self.weak.is(Weak::CopyUncaptured) {
                capture.mask = self.lines.take(line);
            }
            if capture.mask != 0 || copy.is_some() {
                for (word, cell) in capture.words.iter_mut().zip(cells) {
                    *word = self.memory.load(cell);
                }
            }
        }
        if capture.mask != 0 && copy.is_none() {
            self.lines.mark_page(line, &latch);
        }
        drop(latch);
        if let Some(copy) = copy {
            for (place, word) in copy.as_chunks_mut::<8>().0.iter_mut().zip(capture.words) {
                *place = word.to_le_bytes();
            }
        }
        if capture.mask == 0 {
            return false;
        }
        let captures = &mut buffer.captures[(point & 1) as usize];
        captures.push(capture);
        captures.len() >= self.full.load(Relaxed)
    }

    /// Copies a page of which nothing is left to be captured: what is new in its lines is captured
    /// now, as a cache may write a line back at any time.
    pub(crate) fn copy_page(&self, first_line: u64, copy: &mut [u8]) {
        let mut buffer = self.buffer();
        for (line, copy) in (first_line..).zip(copy.chunks_exact_mut(LINE)) {
            self.capture_into(&mut buffer, line, Some(copy));
        }
    }

    // ---- groups

    /// Closes the open point and appends what was captured in it. The caller has the log. The point
    /// that was closed. After a failure nothing is appended: a group would follow one that is lost.
    fn append_group(&self, log: &mut Writer) -> Result<u64, MediaError> {
        self.check()?;
        let point = self.open.fetch_add(1, SeqCst);
        let mut captures = Vec::new();
        for buffer in &self.buffers {
            let mut buffer = buffer.lock();
            captures.append(&mut buffer.captures[(point & 1) as usize]);
        }
        if !captures.is_empty() {
            merge(&mut captures);
            let segment = log.place.segment;
            log.append(&captures).map_err(|source| self.fail("writing the log", source))?;
            self.appended_bytes.store(log.appended_bytes, Relaxed);
            if log.place.segment != segment && log.spares.is_empty() {
                self.lacks_spare.store(true, Relaxed);
            }
        }
        Ok(point)
    }

    /// Closes a group that has become large; whoever waits for it syncs it. The thread may hold
    /// locks of an engine, but no latch and no buffer; the log waits for nothing but these.
    fn close_early(&self) {
        let mut log = self.log.lock();
        let _ = self.append_group(&mut log); // A failure is kept for those who wait.
        drop(log);
        if self.options.background && self.length_bytes() > self.log_bytes() {
            self.signals.want_checkpoint(); // Perhaps nobody waits.
        }
        let _ = self.wait_for_spare(); // As above.
    }

    /// Appends what was captured, and says where the next group begins.
    pub(crate) fn close_for_checkpoint(&self) -> Result<crate::control::Place, MediaError> {
        let mut log = self.log.lock();
        self.append_group(&mut log)?;
        Ok(log.place)
    }

    /// Writes and syncs what was captured, with nobody else doing so.
    fn commit(&self) -> Result<u64, MediaError> {
        let begun_ms = self.now_ms();
        let (point, (files, place)) = {
            let mut log = self.log.lock();
            let point = self.append_group(&mut log)?;
            if self.weak.is(Weak::PublishEarly) {
                self.durable.fetch_max(point, AcqRel);
            }
            (point, log.take_unsynced())
        };
        if !files.is_empty() {
            self.syncs.fetch_add(1, Relaxed);
        }
        for file in files {
            file.sync().map_err(|source| self.fail("syncing the log", source))?;
        }
        let wants_spare = {
            let mut log = self.log.lock();
            log.note_synced(place);
            log.wants_spare()
        };
        self.signals.note_commit(wants_spare);
        self.durable_ms.fetch_max(begun_ms, Relaxed);
        Ok(point)
    }

    /// As what it acknowledges: returns when all that was captured before `point` was drawn is
    /// durable. Whoever finds nobody writing writes for all.
    pub(crate) fn wait_for(&self, point: u64) -> Result<(), MediaError> {
        loop {
            if self.durable.load(Acquire) >= point {
                return Ok(());
            }
            let mut busy = self.busy.lock();
            if self.durable.load(Acquire) >= point {
                return Ok(());
            }
            if let Err(error) = self.check() {
                // Who committed may have woken one only, to go on: this one.
                self.wake.iter().for_each(|wake| _ = wake.notify_all());
                return Err(error);
            }
            if *busy {
                self.wake[(point & 1) as usize].wait(&mut busy);
                continue;
            }
            *busy = true;
            drop(busy);
            let committed = self.commit();
            let mut busy = self.busy.lock();
            *busy = false;
            self.publish(&committed);
            drop(busy);
            committed?;
        }
    }

    /// Wakes those who waited, and one of those who wait for the next group, to write it.
    fn publish(&self, committed: &Result<u64, MediaError>) {
        let Ok(point) = *committed else {
            self.wake.iter().for_each(|wake| _ = wake.notify_all());
            return;
        };
        let before = self.durable.fetch_max(point, AcqRel);
        self.wake[(point & 1) as usize].notify_all();
        let next = &self.wake[((point + 1) & 1) as usize];
        if point == before + 1 && self.open.load(SeqCst) == point + 1 {
            next.notify_one();
        } else {
            next.notify_all();
        }
    }

    /// As [`wait_for`](Self::wait_for), of 0 for nothing; holds the caller up while the log is too
    /// long, or the image takes too much memory. The caller holds nothing.
    pub(crate) fn wait(&self, point: u64) -> Result<(), MediaError> {
        match point {
            0 => self.wait_if_old()?,
            _ if self.is_reached(point) => return Ok(()),
            _ => self.wait_for(point)?,
        }
        if self.takes_quarters(3) {
            self.make_room(3)?;
        } else if self.takes_quarters(2) && self.options.background {
            self.signals.want_checkpoint();
        }
        self.wait_for_spare()?;
        let length = self.length_bytes();
        if length <= self.log_bytes() {
            return Ok(());
        }
        if !self.options.background {
            return self.checkpoint().map_err(media_error);
        }
        self.signals.want_checkpoint();
        while self.length_bytes() > 2 * self.log_bytes() {
            self.check()?;
            self.signals.want_checkpoint();
            self.signals.wait_for_room(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Holds the caller up until there is a segment ahead of need, or it was found that there can
    /// be none. The caller has no latch and no buffer.
    #[inline]
    fn wait_for_spare(&self) -> Result<(), MediaError> {
        if self.lacks_spare.load(Relaxed) { self.wait_for_lacking_spare() } else { Ok(()) }
    }

    #[cold]
    fn wait_for_lacking_spare(&self) -> Result<(), MediaError> {
        if !self.options.background {
            return self.get_spare();
        }
        while self.lacks_spare.load(Relaxed) && !self.signals.is_stopped() {
            self.check()?;
            self.signals.want_spare();
            self.signals.wait_for_room(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Makes a segment ahead of need if one is wanted. If the disk has no room for it, a checkpoint
    /// sets others free.
    pub(crate) fn get_spare(&self) -> Result<(), MediaError> {
        let _sparing = self.sparing.lock();
        let spares = {
            let log = self.log.lock();
            log.wants_spare().then(|| (log.spares(), log.spares.is_empty()))
        };
        let made = spares.map(|(spares, is_first)| spares.make(is_first));
        let done = match made {
            Some(Ok(spare)) => {
                let mut log = self.log.lock();
                log.zero_bytes += spare.bytes;
                log.spares.push(spare);
                Ok(())
            }
            Some(Err(error)) if !is_full(&error) => Err(self.fail("writing the log", error)),
            Some(Err(_)) => {
                let done = self.checkpoint().map_err(media_error);
                let mut log = self.log.lock();
                log.none_in = log.place.segment;
                done
            }
            None => Ok(()),
        };
        self.lacks_spare.store(false, Relaxed);
        done
    }

    fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    /// Of a buffered log: waits where what is not durable is older than two intervals, which the
    /// thread that commits would not let happen if the disk were fast enough.
    fn wait_if_old(&self) -> Result<(), MediaError> {
        self.check()?;
        let Some(interval) = self.options.interval else { return Ok(()) };
        let age_ms = self.now_ms().saturating_sub(self.durable_ms.load(Relaxed));
        if u128::from(age_ms) <= 2 * interval.as_millis() {
            return Ok(());
        }
        self.wait_for(self.point())
    }

    /// Writes an empty group behind the last one, so that damage to that is seen.
    pub(crate) fn seal(&self) -> Result<(), MediaError> {
        {
            let mut log = self.log.lock();
            self.check()?;
            if log.synced_through + 1 != log.place.number {
                return Ok(()); // There is something else to come.
            }
            log.append(&[]).map_err(|source| self.fail("writing the log", source))?;
        }
        self.wait_for(self.point())
    }

    /// Bytes of the log that a recovery would read.
    pub(crate) fn length_bytes(&self) -> u64 {
        let appended = self.appended_bytes.load(Relaxed) as i64;
        (appended - self.redo_bytes.load(Relaxed)).max(0) as u64
    }

    /// The point that holds everything that was captured so far.
    #[inline]
    pub(crate) fn point(&self) -> u64 {
        self.open.load(SeqCst)
    }

    /// Whether this point is reached.
    pub(crate) fn is_reached(&self, point: u64) -> bool {
        self.durable.load(Acquire) >= point
    }

    // ---- failure

    /// Keeps the first failure.
    pub(crate) fn fail(&self, action: &'static str, source: std::io::Error) -> MediaError {
        self.failed.store(true, Release);
        match self.failure.attempt(action, || Err(source)) {
            Err(error) => error,
            Ok(()) => MediaError::Failed { action, source: std::io::ErrorKind::Other.into() },
        }
    }

    /// An error once there was one.
    pub(crate) fn check(&self) -> Result<(), MediaError> {
        if self.failed.load(Acquire) { self.failure.attempt("writing", || Ok(())) } else { Ok(()) }
    }
}

/// Captures in one buffer after which a group is closed.
fn full_of(lengths: &LogOptions) -> usize {
    let full = (lengths.segment_bytes / 4 / CAPTURE_BYTES).clamp(16, FULL as u64) as usize;
    if cfg!(test) { FULL } else { full }
}

/// What a checkpoint reports, to those who wait.
pub(crate) fn media_error(error: crate::LogError) -> MediaError {
    match error {
        crate::LogError::Media(error) => error,
        error => MediaError::Failed {
            action: "writing a checkpoint",
            source: std::io::Error::other(error),
        },
    }
}

/// A number that spreads threads: where the stack lies. Any would be right.
#[inline]
fn place_of_thread() -> usize {
    let here = 0_u8;
    let stack = (std::ptr::from_ref(&here).addr() >> 16) as u64;
    (stack.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
}
