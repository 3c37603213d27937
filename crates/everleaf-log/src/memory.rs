//! How much memory the image takes: pages that were stored to, which the file has not got before a
//! checkpoint has written them.
//!
//! ```text
//! D1  a checkpoint has written and synced its pages, and its control block is durable
//! D2  of a page that is private the latches of all 64 lines are taken, if nobody has one of them
//! D3  it is clean: no word of it is new, and nothing of it was captured since it was written
//! D4  it is given back to the file, which has what it showed; it counts as private no more
//! ```
//!
//! Under the latches nobody stores to the page, so what is written is all there is. D3 needs both:
//! a word that is stored and not flushed is new and makes no page dirty; a word that was flushed
//! after the page was copied is new no more. A page is marked as captured before the latch of the
//! line is given back: otherwise it looked clean in between. The first page stays: the file has
//! words there that the image has not (`recover`). And what a growth adds is the file's from the
//! beginning: memory would show zeros when it is given back.
//!
//! Replay gives pages back before any checkpoint (R6 of `recover`): D1 is then that they are
//! written and synced, and that what they hold is durable in a log that begins before it.
//!
//! Above half the limit a checkpoint begins, and gives back what it can. Above three quarters
//! writers wait for it between two operations, when they hold nothing; above the limit at a flush,
//! and at the first store to a page, where an operation may hold locks of its store: a checkpoint
//! waits for nothing but latches, buffers and the disk. Nobody waits longer than for two
//! checkpoints: what is stored to again and again meanwhile must have room.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use everleaf_pmem::{Media, MediaError};

use crate::LogError;
use crate::core::{Core, media_error};
use crate::disk::BLOCK;
use crate::latch::Latch;
use crate::lines::PAGE_LINES;
use crate::weak::Weak;

/// How long a thread sleeps before it looks again.
const PAUSE: Duration = Duration::from_millis(20);

impl Core {
    /// Whether more than so many quarters of the memory are taken.
    #[inline]
    pub(crate) fn takes_quarters(&self, quarters: u64) -> bool {
        self.lines.private_pages() > self.memory_pages * quarters / 4
            && !self.keeps_pages.load(Relaxed)
    }

    /// Holds the caller up where more than all of the memory is taken. It has no latch and no
    /// buffer.
    #[inline]
    pub(crate) fn bound_memory(&self) {
        if self.takes_quarters(4) {
            let _ = self.make_room(4); // A failure is kept for those who wait.
        }
    }

    /// Sees to it that no more than so many quarters of the memory are taken, at the price of two
    /// checkpoints. The caller has no latch and no buffer.
    #[cold]
    pub(crate) fn make_room(&self, quarters: u64) -> Result<(), MediaError> {
        if !self.options.background {
            return self.checkpoint().map_err(media_error);
        }
        let done = self.checkpoints.load(Relaxed);
        self.signals.want_checkpoint();
        let wants = || self.takes_quarters(quarters) && !self.signals.is_stopped();
        while wants() && self.checkpoints.load(Relaxed) < done + 2 {
            self.check()?;
            self.signals.want_checkpoint();
            self.signals.wait_for_room(PAUSE);
        }
        Ok(())
    }

    /// D2 to D4, after D1, where more than half of the memory is taken: until a quarter is.
    pub(crate) fn give_back(&self) {
        if !self.takes_quarters(2) {
            return;
        }
        for page in self.lines.list_private() {
            if !self.takes_quarters(1) {
                break;
            }
            if page != 0 || self.weak.is(Weak::FirstPageGoes) {
                self.give_back_page(page);
            }
        }
    }

    /// As a part of a checkpoint, in replay: pages are written, synced, and given back, where more
    /// than half of the memory is taken. The log begins where it did.
    pub(crate) fn give_back_early(&self) -> Result<(), LogError> {
        if !self.takes_quarters(2) {
            return Ok(());
        }
        let mut pages = self.lines.take_pages(false);
        pages.retain(|page| *page != 0); // Each checkpoint writes it.
        let mut copy = [0; BLOCK as usize];
        for page in pages {
            self.copy_page(page * PAGE_LINES, &mut copy);
            self.write_page(page, &copy)?;
        }
        self.base.sync().map_err(LogError::io("syncing the file of the pool"))?;
        self.give_back();
        Ok(())
    }

    /// A page that is in use stays: whoever has a latch of it may wait for the processor, and
    /// others would wait for the latches that this has.
    fn give_back_page(&self, page: u64) {
        let first = page * PAGE_LINES;
        let latches: [Option<Latch<'_>>; PAGE_LINES as usize] =
            std::array::from_fn(|line| self.try_latch(first + line as u64));
        let clean = latches.iter().all(Option::is_some)
            && (self.weak.is(Weak::DirtyGoes) || !self.lines.is_marked(page))
            && (self.weak.is(Weak::UnflushedGoes) || !self.lines.is_new(page));
        if !clean {
            return;
        }
        match self.memory.region().revert(page * BLOCK, BLOCK) {
            true => self.lines.forget_private(page),
            // Memory that the program has locked: to wait for it would be in vain, for ever.
            false => self.keeps_pages.store(true, Relaxed),
        }
    }
}
