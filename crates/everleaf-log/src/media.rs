//! The log of a memory: what its stores and flushes do, and how long it lives.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use everleaf_pmem::{
    Cpu, DurablePoint, LINE, Line, LogCounts, MapError, Mapped, Media, MediaError, PCell, RedoLog,
};

use parking_lot::Mutex;

use crate::LogError;
use crate::base::Base;
use crate::core::{Core, media_error};
use crate::disk::{Disk, is_full};
use crate::options::LogOptions;
use crate::recover;
use crate::thread::Background;
use crate::weak::Weak;

/// The log of memory of this process, and from time to time of the file of a pool.
///
/// A flush copies what is new in its line: no system call, about a hundred nanoseconds. A fence is
/// nothing. [`wait_durable`](Media::wait_durable) writes and syncs the log, once for all who wait.
/// A line written by [`write_line`](Media::write_line) is durable whole or not at all.
///
/// Dropping the memory writes a last checkpoint; if that fails, the next opening reads the log.
pub struct Log {
    pub(crate) core: Arc<Core>,
    background: Mutex<Option<Background>>,
    /// Whether the last checkpoint is still to be made.
    closes: AtomicBool,
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("length_bytes", &self.core.length_bytes()).finish()
    }
}

impl Log {
    /// Zeroed memory of `bytes` bytes and a new log for it in an empty folder. The names in the
    /// folder are durable on return; the file of the pool is complete after the first
    /// [`checkpoint`](Log::checkpoint).
    ///
    /// # Errors
    /// [`LogError::Io`], [`LogError::Map`].
    pub fn create(
        base: &Base,
        disk: Arc<dyn Disk>,
        bytes: u64,
        options: LogOptions,
    ) -> Result<Mapped, LogError> {
        Self::over(recover::create(base, disk, bytes, options)?)
    }

    /// What the file of a pool and its log hold. All of it is durable on return.
    ///
    /// # Errors
    /// [`LogError`]. Where the log is damaged or not the pool's, nothing was written.
    pub fn open(base: &Base, disk: Arc<dyn Disk>, options: LogOptions) -> Result<Mapped, LogError> {
        Self::over(recover::open(base, disk, options)?)
    }

    fn over(core: Core) -> Result<Mapped, LogError> {
        let core = Arc::new(core);
        let start = || Background::start(&core).map_err(LogError::io("starting the log's thread"));
        let background = core.options.background.then(start).transpose()?;
        let memory = Mapped::new(core.memory.region().share(), &Cpu::detect())?;
        let log = Self { core, background: Mutex::new(background), closes: AtomicBool::new(true) };
        Ok(memory.with_log(Box::new(log)))
    }

    /// The log of a memory that has one.
    pub fn of(memory: &Mapped) -> Option<&Self> {
        memory.log().and_then(|log| (log as &dyn Any).downcast_ref())
    }

    /// Writes what the log holds to the file of the pool, so that the log becomes short. Others
    /// write meanwhile.
    ///
    /// # Errors
    /// [`LogError`]; nothing more is made durable then.
    pub fn checkpoint(&self) -> Result<(), LogError> {
        self.core.checkpoint()
    }

    /// It ends as that of a killed process does when its memory is dropped: no last checkpoint.
    pub fn abandon(&self) {
        self.closes.store(false, Relaxed);
    }

    /// Reads a cell of a line that is to be stored to: where its page is on the disk only, the disk
    /// is waited for here, and not under a latch, unless the page is given back in between.
    #[inline(always)]
    fn fault_in(&self, line: u64, cell: &PCell) {
        std::hint::black_box(self.core.memory.load(cell));
        self.core.lines.prepare(line);
    }
}

/// A line and a bit for a word of it.
fn place(offset: u64) -> (u64, u8) {
    (offset / LINE as u64, 1 << (offset / 8 % 8))
}

impl Drop for Log {
    fn drop(&mut self) {
        *self.background.get_mut() = None;
        if !std::thread::panicking() {
            // What goes wrong is found by the next opening: the log is durable.
            let _ = self.finish();
        }
    }
}

impl RedoLog for Log {
    fn store(&self, offset: u64, cell: &PCell, word: u64) {
        let (line, bit) = place(offset);
        self.fault_in(line, cell);
        let latch = self.core.latch(line);
        self.core.memory.store(cell, word);
        let is_first = self.core.lines.add(line, bit);
        drop(latch);
        if is_first {
            self.core.bound_memory();
        }
    }
    /// Where the cell holds something else nothing is exchanged: for the processor that would be a
    /// store too, and the page would take memory.
    fn compare_exchange(
        &self,
        offset: u64,
        cell: &PCell,
        current: u64,
        new: u64,
    ) -> Result<(), u64> {
        let (line, bit) = place(offset);
        let compare = || {
            let found = self.core.memory.load(cell);
            if found == current { Ok(()) } else { Err(found) }
        };
        compare()?;
        self.core.lines.prepare(line);
        let latch = self.core.latch(line);
        compare()?;
        let exchanged = self.core.memory.compare_exchange(cell, current, new);
        let is_first = exchanged.is_ok() && self.core.lines.add(line, bit);
        drop(latch);
        if is_first {
            self.core.bound_memory();
        }
        exchanged
    }
    /// Stored under one latch, so no capture sees a part; captured at once.
    fn write_line(&self, offset: u64, line: &Line, words: [u64; 8]) {
        let number = offset / LINE as u64;
        self.fault_in(number, &line.0[0]);
        {
            let _latch = self.core.latch(number);
            for (cell, word) in line.0.iter().zip(words) {
                self.core.memory.store(cell, word);
            }
            self.core.lines.add(number, u8::MAX);
        }
        self.core.capture(std::iter::once(number));
    }
    fn capture(&self, lines: Range<u64>) {
        self.core.capture(lines);
    }
    fn capture_at(&self, offsets: &mut dyn Iterator<Item = u64>) {
        let count = self.core.line_count();
        self.core.capture(offsets.map(|offset| {
            let line = offset / LINE as u64;
            assert!(line < count, "lines are noted as they are written to");
            line
        }));
    }

    fn point(&self) -> DurablePoint {
        DurablePoint::new(self.core.point())
    }
    fn is_durable(&self, point: DurablePoint) -> bool {
        self.core.is_reached(point.number()) || self.core.weak.is(Weak::ReadShowsEarly)
    }
    fn wait_durable(&self, upto: DurablePoint) -> Result<(), MediaError> {
        if self.core.weak.is(Weak::WriteReturnsEarly) {
            return Ok(());
        }
        self.core.wait(upto.number())
    }
    fn sync(&self) -> Result<(), MediaError> {
        self.core.wait_for(self.core.point())
    }
    /// The last checkpoint. Nothing may be stored afterwards.
    fn finish(&self) -> Result<(), MediaError> {
        *self.background.lock() = None; // No group may follow.
        let finished = !self.closes.swap(false, Relaxed);
        if finished { Ok(()) } else { self.core.checkpoint_at_end().map_err(media_error) }
    }
    fn lengthen(&self, new_len: u64) -> Result<(), MapError> {
        let requested_bytes = new_len.saturating_sub(self.core.memory.region().len());
        self.core.lengthen(new_len).map_err(|error| match error {
            LogError::Io { source, .. } if is_full(&source) => {
                MapError::DiskFull { requested_bytes }
            }
            LogError::Io { action, source } => MapError::System { action, source },
            error => {
                let source = std::io::Error::from(media_error(error));
                MapError::System { action: "lengthening the pool", source }
            }
        })
    }

    fn counts(&self) -> LogCounts {
        let load = |count: &AtomicU64| count.load(Relaxed);
        let (core, zero_bytes) = (&self.core, self.core.log.lock().zero_bytes);
        LogCounts::new([
            load(&core.syncs),
            load(&core.appended_bytes),
            zero_bytes,
            load(&core.checkpoints),
            load(&core.base_bytes),
        ])
    }
}
