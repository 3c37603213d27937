//! The intent line of a worker: how its words are written and read.
//!
//! The order in which an operation stores and retires its intent stands with the operation
//! (`worker.rs`, `batch.rs`, `epoch.rs`); what a crash left of it is decided in `recover.rs`.

use everleaf_pmem::{Media, planted, site};

use crate::chunks::Block;
use crate::classes::Usage;
use crate::layout::Intent;
use crate::word::Sealed;
use crate::{Corruption, Pool, PoolError};

/// The records of a link that was begun.
#[derive(Clone, Copy)]
pub(crate) struct Pair {
    pub(crate) old: Option<Block>,
    pub(crate) new: Option<Block>,
}

/// The words of an intent, its tag last; they share a line, so the tag is durable no earlier than
/// they are.
pub(crate) fn write_intent<M: Media>(
    media: &M,
    intent: &Intent,
    tag: u64,
    old: Option<Block>,
    new: Option<Block>,
) {
    planted!(106, media.store(&intent.tag, Sealed::of(tag)));
    let words = [(&intent.old, &intent.old_extent, old), (&intent.new, &intent.new_extent, new)];
    for (offset, extent, block) in words {
        media.store(offset, Sealed::of(block.map_or(0, |block| block.offset)));
        media.store(extent, block.and_then(|block| block.run).map_or(Sealed::ZERO, Usage::seal));
    }
    media.order(site!("pool.intent.order"));
    media.store(&intent.tag, Sealed::of(tag));
}

/// The blocks that an intent names: old, new.
pub(crate) fn blocks<M: Media>(
    pool: &Pool<M>,
    intent: &Intent,
) -> Result<(Option<Block>, Option<Block>), PoolError> {
    let media = pool.media();
    let read = |offset: Sealed, extent: Sealed| {
        let offset = offset.open().ok_or_else(|| corrupt(pool, intent))?;
        let run = match Usage::unseal(extent).ok_or_else(|| corrupt(pool, intent))? {
            Usage::Free => None,
            blocks if blocks.class().is_some() => return Err(corrupt(pool, intent)),
            run => Some(run),
        };
        Ok((offset != 0).then_some(Block { offset, run }))
    };
    let old = read(media.load(&intent.old), media.load(&intent.old_extent))?;
    let new = read(media.load(&intent.new), media.load(&intent.new_extent))?;
    Ok((old, new))
}

/// The words of an intent say something impossible.
pub(crate) fn corrupt<M: Media>(pool: &Pool<M>, intent: &Intent) -> PoolError {
    PoolError::corrupt(pool.pointer_to(intent).offset(), Corruption::Intent)
}
