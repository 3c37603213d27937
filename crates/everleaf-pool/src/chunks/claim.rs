//! Chunks in a row that are kept from all workers, so that they become free together.
//!
//! A long record needs chunks in a row, and blocks of one size need a whole chunk where another
//! size has them. If the records in such chunks are removed while others allocate there, the chunks
//! never become free. So they are claimed first: a chunk of blocks is owned, as by a worker that
//! takes nothing from it, and a free one is taken out of what is free. Then what leads to the
//! records there is removed, or they are written once more and come to lie elsewhere; and the claim
//! ends. All of this is in DRAM: after a crash no chunk is claimed.

use std::ops::Range;
use std::sync::atomic::Ordering;

use everleaf_pmem::Media;

use super::{Chunks, Free, LISTED, OWNED, lock_relaxing, shadow, shadow_byte};
use crate::PoolError;
use crate::classes::Usage;

/// What was claimed.
pub(crate) struct ClaimedChunks {
    /// All chunks of the place; a run that begins within it may be longer.
    pub chunks: Range<u64>,
    blocks: Vec<u64>,
    free: Vec<u64>,
}

impl Chunks {
    /// Claims `chunks` chunks in a row that hold nothing but records, some at least, and that no
    /// worker owns. The search begins at chunk `from` and goes once around. None: there are none.
    pub fn claim<M: Media>(
        &self,
        media: &M,
        from: u64,
        chunks: u64,
    ) -> Result<Option<ClaimedChunks>, PoolError> {
        let mut free = lock_relaxing(&self.free, media);
        self.scan_all(media, &mut free)?;
        let count = self.extents.count();
        let first = self.extents.position(from).unwrap_or(0);
        for (at, from) in (first..count).map(|at| (at, from)).chain((0..count).map(|at| (at, 0))) {
            let extent = self.extents.get(at);
            let places = extent.first_usable().max(from)..extent.end();
            if let Some(place) = self.find_place(media, places, chunks)?
                && let Some(claimed) = self.claim_place(media, &mut free, place)?
            {
                return Ok(Some(claimed));
            }
        }
        Ok(None)
    }

    /// Whether a run of so many chunks had room if there were no records at all: nodes stay where
    /// they are.
    pub fn has_place<M: Media>(&self, media: &M, chunks: u64) -> Result<bool, PoolError> {
        self.scan_all(media, &mut lock_relaxing(&self.free, media))?;
        let wanted = chunks.saturating_add(self.reserve());
        let (mut all, mut longest) = (0, 0);
        for at in (0..self.extents.count()).rev() {
            let (extent, mut row) = (self.extents.get(at), 0);
            for chunk in (extent.first_usable()..extent.end()).rev() {
                let can_be_free = shadow::is_free_or_of_records(self.shadow_of(chunk));
                row = if can_be_free { row + 1 } else { 0 };
                (all, longest) = (all + u64::from(can_be_free), longest.max(row));
                if longest >= chunks && all >= wanted {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// So many chunks in a row that could be claimed.
    fn find_place<M: Media>(
        &self,
        media: &M,
        within: Range<u64>,
        chunks: u64,
    ) -> Result<Option<Range<u64>>, PoolError> {
        let (mut start, mut at, mut records) = (within.start, within.start, false);
        while at < within.end {
            let usage = match self.shadow_of(at) {
                shadow::FREE => Usage::Free,
                _ => self.usage(media, at)?,
            };
            // What does not agree is within a run, is being changed, or is a free chunk that
            // another claim has.
            let agrees = self.shadow_of(at) == shadow_byte(usage);
            let owned = self.flags[at as usize].load(Ordering::SeqCst) == OWNED;
            let fits = match usage {
                Usage::Free | Usage::RecordRun(_) => agrees,
                Usage::RecordBlocks(_) => agrees && !owned,
                Usage::NodeBlocks(..) | Usage::NodeRun(..) => false,
            };
            at += if agrees { usage.chunks() } else { 1 };
            records = fits && (records || usage != Usage::Free);
            if !fits {
                start = at;
            } else if records && at - start >= chunks {
                return Ok(Some(start..at));
            }
        }
        Ok(None)
    }

    fn claim_place<M: Media>(
        &self,
        media: &M,
        free: &mut Free,
        place: Range<u64>,
    ) -> Result<Option<ClaimedChunks>, PoolError> {
        let mut claimed = ClaimedChunks { chunks: place.clone(), blocks: vec![], free: vec![] };
        for chunk in place {
            match self.shadow_of(chunk) {
                shadow::FREE => {
                    self.fill(chunk, 1, shadow::SYSTEM);
                    free.chunks -= 1;
                    claimed.free.push(chunk);
                }
                shadow::RECORD_RUN => {}
                _ => {
                    let flags = &self.flags[chunk as usize];
                    let claim = |expected| {
                        let (success, failure) = (Ordering::SeqCst, Ordering::SeqCst);
                        flags.compare_exchange(expected, OWNED, success, failure).is_ok()
                    };
                    if !claim(0) && !claim(LISTED) {
                        self.end_free(free, &claimed);
                        self.let_go_of(media, free, &claimed.blocks)?;
                        return Ok(None);
                    }
                    claimed.blocks.push(chunk);
                }
            }
        }
        Ok(Some(claimed))
    }

    fn end_free(&self, free: &mut Free, claimed: &ClaimedChunks) {
        claimed.free.iter().for_each(|chunk| self.release(free, *chunk, 1));
    }

    /// Ends a claim: what is empty is free, and what has free blocks is listed.
    pub fn end_claim<M: Media>(&self, media: &M, claimed: &ClaimedChunks) -> Result<(), PoolError> {
        let mut free = lock_relaxing(&self.free, media);
        self.end_free(&mut free, claimed);
        self.let_go_of(media, &mut free, &claimed.blocks)
    }
}
