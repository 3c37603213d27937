//! Growth: how a pool gets its chunks.
//!
//! An extent is a table and the chunks that it has lines for. Extents are few, because their places
//! in the header are; so they are large. Chunks come in portions, each when the one before is used
//! up: the system may take milliseconds for a MiB, and a thread that finds the pool full waits for
//! one portion and no more. A small pool doubles: the next extent is as long as the pool. In a
//! larger one the table of an extent has lines for several portions. So most often the last extent
//! becomes longer where it is; the next one begins when its lines are used up, or too few for a
//! run.
//!
//! ```text
//! G1  the file is allocated as far as the new chunks reach
//!     Crash: it is longer than the pool; the next growth uses that.
//! G2  the lines of the new chunks := free               flush each, fence
//!     Crash: as before. Lines behind those of an extent's chunks are not read.
//! G3  COMMIT the word of the extent in the header       flush, fence
//!     Crash: the chunks are there, and free.
//! ```
//!
//! Only then the chunks are made known in DRAM: what is handed out is allocated in the file, and a
//! store into it cannot fail for want of it. After a crash there is nothing to be found out: the
//! word says how far the file was allocated.

use everleaf_pmem::{LINE, Media, planted, site};

use crate::chunks::{Extent, lock_relaxing, table_chunks};
use crate::layout::{CHUNK, FIRST_EXTENT_CHUNK, MAX_EXTENTS};
use crate::word::Sealed;
use crate::{Pool, PoolError};

/// Chunks of the largest extent of a pool below 4 GiB: 64 MiB.
const LARGE_EXTENT: u64 = (64 << 20) / CHUNK;
/// An extent has lines for at least this part of the pool, so that there are places for extents for
/// every size.
const EXTENT_DIVISOR: u64 = 64;
/// The largest portion, but for the sake of a larger run: 8 MiB. On a virtual machine whose host
/// had to find the memory first a MiB took 6 ms.
const LARGE_PORTION: u64 = (8 << 20) / CHUNK;
/// The least that a pool grows by while it may grow further.
const MIN_GROWTH: u64 = (256 << 10) / CHUNK;
/// The pool does not grow while more than this, and than half of the pool, may still be read.
const LIMBO_BYTES: u64 = 16 << 20;
/// Chunks of a huge page. What is larger ends at the end of one: what lies in part of one would
/// stay in small pages.
const HUGE_PAGE: u64 = (2 << 20) / CHUNK;

/// Chunks in which a run of `chunks` fits beside the table that they need.
const fn with_table(chunks: u64) -> u64 {
    chunks + chunks.div_ceil(63) // For 63 chunks one of lines; the 64th is its own.
}

/// So many chunks from `start` on, or some more, so that they end where a huge page does.
const fn to_huge_page(start: u64, chunks: u64) -> u64 {
    if chunks < HUGE_PAGE { chunks } else { (start + chunks).next_multiple_of(HUGE_PAGE) - start }
}

/// The extents of a new pool of `total` chunks: a small part of the places for them, so that it can
/// grow further. They are no larger than those of a pool that grew, since each is looked through at
/// once when its memory is first asked for.
fn first_extents(total: u64) -> impl Iterator<Item = Extent> {
    let largest = LARGE_EXTENT.max(total / EXTENT_DIVISOR);
    let mut end = FIRST_EXTENT_CHUNK;
    std::iter::from_fn(move || {
        let rest = total.checked_sub(end).filter(|rest| *rest > 0)?;
        let extent = Extent::exact(end, if rest < largest + largest / 8 { rest } else { largest });
        end = extent.end();
        Some(extent)
    })
}

impl Extent {
    /// Chunks that it gets at a time.
    fn portion(&self) -> u64 {
        self.lines().min(LARGE_PORTION)
    }

    /// Chunks that it may get where it is.
    fn spare(&self) -> u64 {
        (self.lines() - self.chunks).min(Self::MAX_CHUNKS - self.chunks)
    }

    /// Whether it is lengthened for the sake of a run. Not for its last few lines: that is hardly
    /// less work than a whole portion.
    fn can_take(&self, run: u64) -> bool {
        self.spare() >= run.max((self.lines() / 8).min(LARGE_PORTION / 2))
    }
}

impl<M: Media> Pool<M> {
    /// Divides a region of `total` chunks, all of it allocated, among extents.
    pub(crate) fn add_first_extents(&self, total: u64) -> Result<(), PoolError> {
        for extent in first_extents(total).filter(|extent| extent.table < extent.chunks) {
            self.publish(extent, 0)?;
            self.chunks().add_extent(extent);
        }
        Ok(())
    }

    /// Grows so that a run of `run` chunks fits, which was looked for in vain. `before`: where the
    /// pool ended before that, so that what other threads have added since is looked at first.
    pub(crate) fn grow(&self, run: u64, before: u64) -> Result<(), PoolError> {
        let _growing = lock_relaxing(&self.growing, self.media());
        if self.chunks().end() > before {
            return Ok(()); // The caller looks again.
        }
        let left = (self.media().region().max_len() / CHUNK)
            .saturating_sub(before)
            .min(Extent::MAX_CHUNKS);
        let refused = PoolError::PoolFull { requested_bytes: run * CHUNK };
        // The reserve grows with the pool.
        let largest = before + left.min(run.saturating_add(LARGE_PORTION));
        let lacking = self.chunks().lacking_reserve(self.media(), largest);
        let run = run.saturating_add(lacking.min(left.saturating_sub(with_table(run))));
        match self.chunks().last_extent() {
            Some(last) if run <= left && last.can_take(run) => self.lengthen_last(last, run, left),
            _ if with_table(run) <= left && self.chunks().extent_count() < MAX_EXTENTS => {
                self.add_extent(before, run, left)
            }
            _ => Err(refused),
        }
    }

    /// As [`grow`](Pool::grow). Where the pool can't grow, or what may still be read is as much as
    /// the pool may grow by for its sake, the threads that read are given some time: one may have
    /// lost its processor in the middle of that.
    pub(crate) fn grow_or_wait(&self, run: u64, before: u64) -> Result<(), PoolError> {
        let most = LIMBO_BYTES.max(before * CHUNK / 2);
        let refused = match self.chunks().bytes_in_limbo() {
            bytes if bytes > most => None,
            _ => match self.grow(run, before) {
                Ok(()) => return Ok(()),
                Err(error) => Some(error),
            },
        };
        let (chunks, mut any) = (self.chunks(), false);
        chunks.wait_for_readers(self.media(), || {
            any = chunks.reclaim_all(self.media())?;
            Ok(any || chunks.bytes_in_limbo() == 0)
        })?;
        match chunks.bytes_in_limbo() {
            _ if any => Ok(()), // The caller looks again.
            0 => refused.map_or(Ok(()), Err),
            bytes => Err(PoolError::Held { bytes }),
        }
    }

    fn lengthen_last(&self, last: Extent, run: u64, left: u64) -> Result<(), PoolError> {
        let wish = to_huge_page(last.end(), last.portion().max(run)).min(last.spare()).min(left);
        let added = self.lengthen_file(last.end(), wish, run)?;
        self.publish(Extent { chunks: last.chunks + added, ..last }, last.chunks)?;
        self.chunks().lengthen_last(self.media(), added);
        Ok(())
    }

    fn add_extent(&self, start: u64, run: u64, left: u64) -> Result<(), PoolError> {
        let usual = to_huge_page(start, (start / EXTENT_DIVISOR).max(start.min(LARGE_EXTENT)));
        let whole = usual.min(Extent::MAX_LINES).max(with_table(run)).min(left);
        let mut extent = Extent { table: table_chunks(whole), ..Extent::exact(start, 0) };
        let wish = to_huge_page(start, extent.portion().max(extent.table + run)).min(whole);
        extent.chunks = self.lengthen_file(start, wish, with_table(run))?;
        if extent.chunks < extent.table + run || whole > Extent::MAX_LINES {
            // There is no disk for more anyway, or no bits.
            extent = Extent::exact(start, extent.chunks);
        }
        self.publish(extent, 0)?;
        self.chunks().add_extent(extent);
        Ok(())
    }

    /// G1: lengthens the region by as many chunks as the disk has space for, at most `wish`
    /// and at least `needed`; returns how many. A growth may take one of the few places for extents
    /// in the header: so a disk that is nearly full is not used up in the smallest steps.
    fn lengthen_file(&self, end: u64, wish: u64, needed: u64) -> Result<u64, PoolError> {
        let least = needed.max(MIN_GROWTH).min(wish);
        let mut step = wish;
        loop {
            match self.media().grow((end + step) * CHUNK) {
                Ok(()) => return Ok(step),
                Err(_) if step > least => step = (step / 2).max(least),
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// G2 and G3 for an extent that is new or had `before` chunks: the last one, or the one behind
    /// it.
    fn publish(&self, extent: Extent, before: u64) -> Result<(), PoolError> {
        let at = self.chunks().extent_count() - usize::from(before > 0);
        planted!(123, self.media().store(&self.header()?.extents[at], extent.seal()));
        let lines = extent.line_pointer(extent.start + before).offset();
        self.fill(
            site!("pool.grow.table"),
            lines,
            (extent.chunks - before - u64::from(planted(122))) * LINE as u64,
            Sealed::ZERO,
        )?;
        self.media().fence(site!("pool.grow.table.fence"));
        let cell = self
            .header()?
            .extents
            .get(at)
            .ok_or_else(|| PoolError::PoolFull { requested_bytes: extent.chunks * CHUNK })?;
        if !(planted(121) && before > 0) {
            self.media().store(cell, extent.seal());
        }
        self.media().flush(site!("pool.grow.extent"), cell);
        self.media().fence(site!("pool.grow.extent.fence"));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = (1 << 20) / CHUNK;

    #[test]
    fn a_large_new_pool_leaves_most_places_for_extents_free() {
        for total in
            [16, 17, 256, 4 << 10, 5 << 10, 15 << 10, 16 << 10, 17 << 10, 1 << 20, 100 << 20]
                .map(|mib| mib * MIB)
        {
            let extents: Vec<Extent> = first_extents(total).collect();
            assert!(extents.len() <= 65, "{} extents for {total} chunks", extents.len());
            assert_eq!(
                extents.iter().fold(FIRST_EXTENT_CHUNK, |start, extent| (extent.start == start)
                    .then(|| extent.end())
                    .unwrap()),
                total
            );
            assert!(
                extents
                    .iter()
                    .all(|extent| extent.table < extent.chunks
                        && extent.chunks <= Extent::MAX_CHUNKS)
            );
        }
    }

    #[test]
    fn a_run_fits_beside_the_table_of_as_many_chunks_as_it_needs() {
        for run in (1..20_000).chain([1 << 18, (1 << 30) / CHUNK + 32]) {
            let fits = |chunks: u64| chunks - table_chunks(chunks) >= run;
            assert!(fits(with_table(run)) && !fits(with_table(run) - 1), "{run}");
        }
    }
}
