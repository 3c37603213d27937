//! What a crash left of the workers' intents. Every arm is idempotent: a crash in recovery is
//! recovered like the first.

use everleaf_pmem::{Media, PPtr, Site, planted, site};

use crate::batch::PendingBatch;
use crate::chunks::Block;
use crate::intent::{blocks, corrupt};
use crate::layout::{BATCH_TAG, EPOCH_TAG, Intent, LINK_TAG, WORKER_SLOTS};
use crate::word::Sealed;
use crate::{Pool, PoolError, Record, Worker};

const BLOCKS: Site = site!("pool.recover.blocks");

/// A record that was being linked, or unlinked, when the crash came. The owner looks whether the
/// index holds `new` (or, where `new` is null, whether it no longer holds `old`) and calls
/// [`Worker::resolve_link`] before anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingLink {
    pub(crate) slot: usize,
    /// The record that was to replace `old`; null if `old` was to be removed.
    pub new: PPtr<Record>,
    /// The record that was to be replaced or removed; null if there was none.
    pub old: PPtr<Record>,
}

/// Completes or undoes every exchange that was cut; returns the links, which only their owner can
/// judge, and the batches, which only it can complete.
pub(crate) fn recover_intents<M: Media>(
    pool: &Pool<M>,
) -> Result<(Vec<PendingLink>, Vec<PendingBatch>), PoolError> {
    let (mut pending, mut batches) = (Vec::new(), Vec::new());
    for slot in 0..WORKER_SLOTS {
        let intent = pool.intent(slot)?;
        let media = pool.media();
        match media.load(&intent.tag).open() {
            // Before A1 or L1 was durable, or after A3 or L4: nothing is being done.
            Some(0) => {}
            // Between L1 and L4: the index decides.
            Some(LINK_TAG) => {
                let (old, new) = blocks(pool, intent)?;
                if !hold(pool, slot, intent)? {
                    settle(pool, slot, intent, false)?;
                    continue;
                }
                let pointer =
                    |block: Option<Block>| PPtr::at(block.map_or(0, |block| block.offset));
                pending.push(PendingLink { slot, new: pointer(new), old: pointer(old) });
            }
            // Between B2 and B5: it has happened.
            Some(BATCH_TAG) => {
                let log = blocks(pool, intent)?.1.ok_or_else(|| corrupt(pool, intent))?;
                batches.push(PendingBatch::read(pool, slot, log)?);
            }
            // Between E2 and E5: the pool's epoch decides.
            Some(EPOCH_TAG) => {
                let (number, log) = blocks(pool, intent)?;
                let log = log.ok_or_else(|| corrupt(pool, intent))?;
                pool.recover_epoch(intent, number.map_or(0, |number| number.offset), log)?;
            }
            Some(_) if planted(107) => {}
            // Between A1 and A3: the destination decides.
            Some(destination) => {
                let (old, new) = blocks(pool, intent)?;
                let new = if planted(108) { old } else { new };
                let holds = media.load(pool.cell(destination)?);
                settle(pool, slot, intent, holds == pool.destination_word(destination, new))?;
            }
            None => return Err(corrupt(pool, intent)),
        }
    }
    // A new worker would write its own intents over these.
    let slots =
        pending.iter().map(|link| link.slot).chain(batches.iter().map(|batch| batch.slot()));
    *pool.slots.lock() |= slots.fold(0, |taken, slot| taken | 1 << slot);
    Ok((pending, batches))
}

/// Marks both blocks of a link as allocated: its owner has to read them, and opens its index before
/// it judges, which allocates. False if the crash came before L1 was wholly durable: then the chunk
/// of `new` is not the one that the intent names, nothing was linked, and there is nothing to
/// judge.
fn hold<M: Media>(pool: &Pool<M>, slot: usize, intent: &Intent) -> Result<bool, PoolError> {
    let (old, new) = blocks(pool, intent)?;
    if let Some(new) = new
        && !pool.chunks().fits(pool.media(), new)?
    {
        return Ok(false);
    }
    for block in [old, new].into_iter().flatten() {
        // Not fenced: a crash is recovered in the same way.
        pool.chunks().mark(pool.media(), slot, BLOCKS, block, true)?;
    }
    Ok(true)
}

/// Makes the bits agree with what happened, durably, and then retires the intent.
/// `done`: new is allocated and old is free; otherwise old is allocated and new is free.
fn settle<M: Media>(
    pool: &Pool<M>,
    slot: usize,
    intent: &Intent,
    done: bool,
) -> Result<(), PoolError> {
    let (media, chunks) = (pool.media(), pool.chunks());
    let (old, new) = blocks(pool, intent)?;
    for (block, allocated) in [(new, done), (old, !done)] {
        let Some(block) = block else { continue };
        // A new block's chunk becomes one of such blocks with the fence of A1 or L1. If it is none,
        // no bit of it was ever set.
        if allocated || chunks.fits(media, block)? {
            chunks.mark(media, slot, BLOCKS, block, allocated)?;
        }
    }
    media.fence(site!("pool.recover.blocks.fence"));
    media.store(&intent.tag, Sealed::ZERO);
    media.flush(site!("pool.recover.retire"), &intent.tag);
    media.fence(site!("pool.recover.retire.fence"));
    Ok(())
}

/// The records that links and batches name.
pub(crate) fn named_by(links: &[PendingLink], batches: &[PendingBatch]) -> Vec<PPtr<Record>> {
    let of_batches = batches.iter().flat_map(PendingBatch::links);
    let pairs = links.iter().map(|link| (link.old, link.new)).chain(of_batches);
    let mut named: Vec<_> = pairs.flat_map(|(old, new)| [old, new]).collect();
    named.extend(batches.iter().map(PendingBatch::log));
    named
}

/// Ends a link whose fate its owner has found out. One of the two blocks is free from now on.
fn finish_link<M: Media>(pool: &Pool<M>, slot: usize, changed: bool) -> Result<(), PoolError> {
    let intent = pool.intent(slot)?;
    let (old, new) = blocks(pool, intent)?;
    let freed = if changed { old } else { new };
    if let Some(block) = freed {
        pool.chunks().begin_freeing(pool.media(), slot, block)?;
    }
    settle(pool, slot, intent, changed)?;
    if let Some(block) = freed {
        pool.chunks().freed(pool.media(), slot, block)?;
    }
    *pool.slots.lock() &= !(1 << slot);
    Ok(())
}

impl<M: Media> Worker<M> {
    /// Ends a link that a crash cut: `changed` tells whether the index holds the change. 4 flushes,
    /// 2 fences; idempotent.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`] if the intent is damaged.
    pub fn resolve_link(&mut self, pending: PendingLink, changed: bool) -> Result<(), PoolError> {
        finish_link(&self.pool, pending.slot, changed)
    }
}
