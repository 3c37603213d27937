//! Going through a log: what it leads to (R1 of `recover`), and storing it into memory (R6).

use std::thread;
use std::time::{Duration, Instant};

use everleaf_pmem::{LINE, Mapped, Media, PCell, Region};

use crate::base::{Base, image, image_of_damaged};
use crate::control::{Control, Place, Stamp};
use crate::core::Core;
use crate::disk::{BLOCK, Disk};
use crate::group::{Capture, WORDS};
use crate::lines::PAGE_LINES;
use crate::payload::decode_payload;
use crate::reader::Reader;
use crate::weak::{Weak, Weakness};
use crate::{Damage, LogError};

/// Captures that are stored before memory is looked after; in the tests, whose pools are small,
/// two.
const AT_ONCE: u64 = if cfg!(test) { 2 } else { 1 << 16 };
/// Captures for which a thread more pays.
const SHARE: usize = if cfg!(test) { 64 } else { 1 << 12 };
/// More threads would wait for the memory.
const MOST_THREADS: usize = 8;
/// Captures whose pages are asked for before the first of them is stored.
const AHEAD: usize = 256;
/// What a capture takes, on average, whose page is not in memory, at least: a page that is takes a
/// few microseconds.
const SLOW: Duration = Duration::from_micros(15);

/// A pool and its log, which belong together.
pub(crate) struct Found {
    /// The image.
    pub(crate) memory: Mapped,
    pub(crate) control: Control,
    /// Where the valid groups end.
    pub(crate) end: Place,
    /// Where those end that are known to be durable: what is behind may be in the page cache only.
    pub(crate) durable: Place,
    /// Of all groups.
    pub(crate) bytes: u64,
    /// What the file bears.
    pub(crate) stamp: Stamp,
}

/// R1. Nothing is stored into the image, and nothing is written.
pub(crate) fn find(base: &Base, disk: &dyn Disk, weak: Weakness) -> Result<Found, LogError> {
    let show = |memory: &Mapped, capture: &Capture| words_of(memory, capture).is_some();
    through(base, disk, weak, image, show)
}

/// The pool as the log leaves it, in memory that no other process sees. Nothing is written.
///
/// # Errors
/// [`LogError`].
pub fn read_only(base: &Base, disk: &dyn Disk) -> Result<Region, LogError> {
    let found = through(base, disk, Weakness::default(), image, set)?;
    Ok(found.memory.into_region())
}

/// The same of a file that may end within a block.
pub(crate) fn read_only_damaged(base: &Base, disk: &dyn Disk) -> Result<Region, LogError> {
    let image = |base: &Base, _| image_of_damaged(base);
    let found = through(base, disk, Weakness::default(), image, set)?;
    Ok(found.memory.into_region())
}

/// Shows each capture; false where it leads outside the pool.
fn through(
    base: &Base,
    disk: &dyn Disk,
    weak: Weakness,
    image: impl FnOnce(&Base, Weakness) -> Result<(Mapped, Stamp), LogError>,
    show: impl Fn(&Mapped, &Capture) -> bool,
) -> Result<Found, LogError> {
    let control = Control::read(disk, weak)?;
    if control.uuid != base.uuid {
        return Err(LogError::Foreign);
    }
    let mut log = Reader::new(disk, &control, weak)?;
    let (memory, stamp) = image(base, weak)?;
    let (mut reaches_stamp, mut inside) = (log.is_at(stamp), true);
    while log.next()? {
        inside &= decode_payload(log.payload(), |capture| inside &= show(&memory, &capture));
        if log.is_at(stamp) {
            reaches_stamp = true;
            log.note_durable(stamp.number); // It was, when the stamp was written.
        }
    }
    if !inside {
        return Err(LogError::damaged(Damage::Outside, log.end.segment));
    }
    log.check_end()?;
    let end = log.end;
    if stamp.session != control.session && control.previous_session != 0 {
        log.note_durable(u64::MAX); // They were, before the control block.
    }
    let (durable, bytes) = (log.durable, log.bytes);
    let fits = match stamp.session == control.session {
        true => reaches_stamp && stamp.lets_begin_at(control.redo),
        false => stamp == control.stamp,
    };
    let found = Found { memory, control, end, durable, bytes, stamp };
    if fits { Ok(found) } else { Err(LogError::OtherTime) }
}

/// The words of a line; none outside the pool.
fn words_of<'m>(memory: &'m Mapped, capture: &Capture) -> Option<&'m [PCell]> {
    memory.region().cells(capture.line * LINE as u64, WORDS)
}

/// Stores what is new in a line; false if it is outside the pool.
pub(crate) fn set(memory: &Mapped, capture: &Capture) -> bool {
    let Some(cells) = words_of(memory, capture) else { return false };
    for word in given(capture) {
        memory.store(&cells[word], capture.words[word]);
    }
    true
}

fn given(capture: &Capture) -> impl Iterator<Item = usize> {
    (0..WORDS).filter(|word| capture.mask & 1 << word != 0)
}

impl Core {
    /// R6. Nobody else stores to the image.
    pub(crate) fn replay(&self, log: &mut Reader<'_>) -> Result<(), LogError> {
        let at_once = (self.memory_pages / 8).clamp(2, AT_ONCE) as usize;
        let (mut captures, mut goes_on) = (Vec::new(), true);
        while goes_on {
            goes_on = log.next()?;
            if goes_on {
                decode_payload(log.payload(), |capture| captures.push(capture));
            }
            if captures.len() >= at_once || !goes_on {
                for captures in captures.chunks(at_once) {
                    self.set_all(captures);
                    self.give_back_early()?;
                }
                captures.clear();
            }
        }
        Ok(())
    }

    /// Threads share captures by their pages: those of a page are stored in their order.
    pub(crate) fn set_all(&self, captures: &[Capture]) {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let threads = (captures.len() / SHARE).clamp(1, processors.min(MOST_THREADS)) as u64;
        thread::scope(|scope| {
            for share in 1..threads {
                let set = move || self.set_share(captures, share, threads);
                if thread::Builder::new().spawn_scoped(scope, set).is_err() {
                    set(); // The system gives no thread: this one does it.
                }
            }
            self.set_share(captures, 0, threads);
        });
    }

    /// Those of every page whose number leaves `share` when it is divided by `shares`. Pages are
    /// asked for ahead where the first ones were slow: so they are not in memory yet.
    fn set_share(&self, captures: &[Capture], share: u64, shares: u64) {
        let own = captures.iter().filter(|of| of.line / PAGE_LINES % shares == share);
        let own: Vec<&Capture> = own.collect();
        let mut ahead = 1;
        for some in own.chunks(AHEAD) {
            if ahead > 0 {
                self.read_ahead(some);
                ahead -= 1;
            }
            let begun = Instant::now();
            some.iter().for_each(|capture| self.set_captured(capture));
            if begun.elapsed() > SLOW * some.len() as u32 {
                ahead = 64;
            }
        }
    }

    /// Lets the system read the pages of captures that are not in memory yet, many at a time. One
    /// outside the pool is no page.
    fn read_ahead(&self, captures: &[&Capture]) {
        let pages = captures.chunk_by(|a, b| a.line / PAGE_LINES == b.line / PAGE_LINES);
        let pages = pages.map(|of_page| of_page[0].line / PAGE_LINES);
        let inside = pages.filter(|page| *page < self.line_count() / PAGE_LINES);
        for page in inside.filter(|page| !self.lines.is_private(*page)) {
            self.memory.region().will_need(page * BLOCK, BLOCK);
        }
    }

    fn set_captured(&self, capture: &Capture) {
        if self.weak.is(Weak::EqualIsDone) {
            let equal = |cells: &[PCell]| {
                given(capture).all(|word| self.memory.load(&cells[word]) == capture.words[word])
            };
            if words_of(&self.memory, capture).is_some_and(equal) {
                return;
            }
        }
        if set(&self.memory, capture) {
            let latch = self.latch(capture.line);
            self.lines.add(capture.line, capture.mask);
            self.lines.take(capture.line);
            self.lines.mark_page(capture.line, &latch);
        }
    }
}
