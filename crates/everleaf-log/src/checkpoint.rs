//! A checkpoint: what the log holds goes to the file of the pool, and the log begins later.
//!
//! ```text
//! C1  the open group is closed; replay may begin behind it
//!     The pages that were captured up to it are noted, and forgotten for the next time.
//! C2  pages are copied line by line, under the latches of the lines; what is new in them is
//!     captured first
//! C3  the group that is open then becomes durable    Crash: the file is as it was.
//! C4  the copies are written, the first page before the others. Its stamp says that the file needs
//!     the log from where it begins now, as far as C3
//!                                                    Crash: replay begins where it did, and sets
//!                                                    every word that was captured since.
//! C5  the file is synced                             Crash: as before.
//! C6  the first page again. Its stamp says that the file needs the log from C1 on; synced
//!                                                    Crash: replay begins where it did, which is
//!                                                    early enough for this stamp too.
//! C7  COMMIT the control block, written and synced   Crash: replay begins here or there.
//! C8  the segments before C1 become spares, or are removed (`spares`)
//!                                                    Crash: the next opening removes them.
//!     Pages are given back to the file, if they take too much memory (`memory`).
//! ```
//!
//! C2 to C4 are done for a few pages at a time. Only the latches of lines are taken, for one line
//! at a time.
//!
//! Until C6 the stamp lets the log begin where it began before, and no later. So a copy of the file
//! whose first page was read before C6 fits the log as it is before C7, and no later one. A copy
//! whose first page was read after C6 lacks nothing of what stands before C1, however long the rest
//! of the copying takes.
//!
//! Both syncs of the file are needed. Without C5 the stamp may be durable before the pages, and
//! what a power failure leaves of the file is taken for complete beside a later log. Without C6
//! the control block may name a beginning that the stamp of the file does not allow.

use std::io;
use std::sync::atomic::Ordering::Relaxed;

use everleaf_pmem::{LINE, Media};

use crate::LogError;
use crate::base::put_stamp;
use crate::control::{Control, Place, Stamp};
use crate::core::{CAPTURE_BYTES, Core};
use crate::disk::BLOCK;
use crate::lines::PAGE_LINES;
use crate::spares::Spares;
use crate::weak::Weak;

/// Pages that are copied at a time, at most; in the tests, whose pools are small, two.
const BATCH: u64 = if cfg!(test) { 2 } else { 256 };

/// The first page as it was copied last.
type FirstPage = [u8; BLOCK as usize];

impl Core {
    /// Writes what the log holds to the file of the pool.
    pub(crate) fn checkpoint(&self) -> Result<(), LogError> {
        self.checkpoint_as(false)
    }

    /// The last one: nothing is stored any more, and the control block says so.
    pub(crate) fn checkpoint_at_end(&self) -> Result<(), LogError> {
        self.checkpoint_as(true)
    }

    fn checkpoint_as(&self, last: bool) -> Result<(), LogError> {
        let mut control = self.control.lock();
        self.check()?;
        self.write_checkpoint(&mut control, last).map_err(|error| match error {
            LogError::Io { action, source } => LogError::Media(self.fail(action, source)),
            error => error,
        })
    }

    fn write_checkpoint(&self, control: &mut Control, last: bool) -> Result<(), LogError> {
        let mut redo = self.close_for_checkpoint()?; // C1
        let mut redo_bytes = self.appended_bytes.load(Relaxed) as i64;
        self.check_length()?;
        // Where memory is scarce, those too of which nothing was captured: now it is.
        let mut pages = self.lines.take_pages(self.takes_quarters(2));
        pages.retain(|page| *page != 0); // It is written with each batch.
        let mut first = [0; BLOCK as usize];
        // What is captured of them has room in half a segment.
        let at_once = self.log.lock().segment_bytes / 2 / (PAGE_LINES * CAPTURE_BYTES);
        let at_once = at_once.clamp(2, BATCH) as usize;
        let mut batches: Vec<&[u64]> = pages.chunks(at_once).collect();
        if batches.is_empty() {
            batches.push(&[]);
        }
        let mut stamp = Stamp::default();
        for batch in batches {
            stamp = self.write_pages(batch, &mut first, control.redo)?;
        }
        if last {
            redo = self.close_for_checkpoint()?;
            redo_bytes = self.appended_bytes.load(Relaxed) as i64;
            self.wait_for(self.point())?;
            stamp = self.stamp();
        }
        if self.weak.is(Weak::RecycleEarly) {
            self.set_free(redo.segment, false)?;
        }
        self.sync_base(Weak::PagesNotSynced)?; // C5
        let stamp = stamp.lacking_from(redo);
        put_stamp(&mut first, self.stamp_offset, stamp);
        self.write_page(0, &first)?;
        self.sync_base(Weak::StampNotSynced)?; // C6
        let (number, clean) = (control.number + 1, last);
        let earlier = control.earlier.behind(redo);
        let next = Control { number, redo, stamp, clean, earlier, ..*control };
        next.write(&*self.control_file, self.weak)?; // C7
        *control = next;
        self.redo_bytes.store(redo_bytes, Relaxed);
        self.checkpoints.fetch_add(1, Relaxed);
        self.give_back();
        self.set_free(redo.segment, last) // C8
    }

    fn sync_base(&self, without: Weak) -> Result<(), LogError> {
        if self.weak.is(without) || self.weak.is(Weak::BaseNotSynced) {
            return Ok(());
        }
        self.base.sync().map_err(LogError::io("syncing the file of the pool"))
    }

    pub(crate) fn write_page(&self, page: u64, copy: &[u8]) -> Result<(), LogError> {
        self.base_bytes.fetch_add(BLOCK, Relaxed);
        self.base.write(page * BLOCK, copy).map_err(LogError::io("writing the pool"))
    }

    /// A file that others have truncated lacks what the log does not hold any more. Nothing is
    /// written to it, and the log stays as it is.
    fn check_length(&self) -> Result<(), LogError> {
        let action = "writing the pool";
        let bytes = self.base.length().map_err(LogError::io(action))?;
        if bytes < self.memory.region().len() {
            let what = "its file was truncated while it was open; restore it from a backup";
            return Err(LogError::io(action)(io::Error::other(what)));
        }
        Ok(())
    }

    /// Sets the segments before this one free; at the end of the session spares go too, but for
    /// one.
    fn set_free(&self, segment: u64, last: bool) -> Result<(), LogError> {
        let of = self.log.lock().spares();
        let set_free = || -> io::Result<()> {
            let spares = of.set_free(segment)?;
            let mut log = self.log.lock();
            log.spares.extend(spares);
            if last { log.keep_one_spare() } else { log.drop_unfit_spares() }
        };
        set_free().map_err(LogError::io("removing old segments"))
    }

    /// C2 to C4, for these pages and the first one. The log begins at `redo`. The stamp that the
    /// file has got.
    fn write_pages(
        &self,
        pages: &[u64],
        first: &mut FirstPage,
        redo: Place,
    ) -> Result<Stamp, LogError> {
        let mut copies = vec![0; pages.len() * BLOCK as usize];
        for (page, copy) in pages.iter().zip(copies.chunks_exact_mut(BLOCK as usize)) {
            self.copy_page(page * PAGE_LINES, copy);
        }
        self.copy_page(0, first);
        if !self.weak.is(Weak::WriteBeforeGroup) {
            self.wait_for(self.point())?; // C3
        }
        let stamp = self.stamp().lacking_from(redo);
        put_stamp(first, self.stamp_offset, stamp);
        self.write_page(0, first)?;
        for (page, copy) in pages.iter().zip(copies.chunks_exact(BLOCK as usize)) {
            self.write_page(*page, copy)?;
        }
        Ok(stamp)
    }

    /// The last group that is durable: replay must come as far.
    fn stamp(&self) -> Stamp {
        self.log.lock().stamp()
    }

    /// Lengthens the file, durably, before anything beyond its end is captured. The log may become
    /// longer then, from its next segment on, where there is room for that.
    pub(crate) fn lengthen(&self, bytes: u64) -> Result<(), LogError> {
        let action = "lengthening the pool";
        let _growing = self.growing.lock();
        self.check_length()?; // What is added must not hide that it was truncated.
        let had = self.base.length().map_err(LogError::io(action))?;
        let bytes = bytes.next_multiple_of(BLOCK);
        if had < bytes {
            let log = self.log.lock();
            let lengths = self.options.grown(bytes, log.disk.space());
            let (now, longer) = (log.spares(), log.spares_of(&lengths));
            drop(log);
            // Where a longer log has no room the one that there is may have some.
            let become_longer =
                self.has_room(bytes - had, &longer).map_err(LogError::io(action))?;
            if !become_longer && !self.has_room(bytes - had, &now).map_err(LogError::io(action))? {
                return Err(LogError::io(action)(io::ErrorKind::StorageFull.into()));
            }
            self.base.allocate(bytes).map_err(LogError::io(action))?;
            self.base
                .sync()
                .map_err(|source| LogError::Media(self.fail("syncing the pool", source)))?;
            if become_longer {
                self.set_lengths(&lengths);
            }
        }
        Ok(())
    }

    /// Whether the file can be longer by so many bytes without the log's missing them, on the same
    /// disk: for the longest that writers do not wait for, of these lengths.
    fn has_room(&self, bytes: u64, log: &Spares) -> io::Result<bool> {
        let (Some(of_pool), Some(of_log)) = (self.base.space(), log.disk.space()) else {
            return Ok(true); // The log makes do with what it has.
        };
        let left = of_log.free_bytes.saturating_sub(bytes);
        Ok(of_pool.device != of_log.device || left >= log.lacking_bytes()?)
    }

    /// Lines of the image.
    pub(crate) fn line_count(&self) -> u64 {
        self.memory.region().len() / LINE as u64
    }
}
