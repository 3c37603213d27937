//! A bitmap of blocks and the slots that own them. An intent makes both change together.

use everleaf_crash::Traced;
use everleaf_pmem::{Media, Site, site};

use super::{Structure, cell, flush, load, store};

const BITMAP: usize = 1;
const INTENT: usize = 2;
/// Slot `i` has a line of its own.
const SLOTS: usize = 8;
const SLOT_COUNT: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    /// First the bitmap, then the slot: what is lost in between has no owner.
    Leak,
    /// First the slot, then the bitmap: what is taken in between is handed out again.
    DoubleAllocation,
}

pub struct Allocator(pub Fault);

impl Allocator {
    fn take(&self, media: &Traced, slot: usize, block: u64) {
        store(media, BITMAP, 0, load(media, BITMAP, 0) | 1 << block);
        flush(media, site!("allocator.take.bitmap"), BITMAP);
        if self.0 == Fault::Leak {
            media.fence(site!("allocator.take.between"));
        }
        store(media, SLOTS + slot, 0, block + 1);
        flush(media, site!("allocator.take.slot"), SLOTS + slot);
        media.fence(site!("allocator.take.fence"));
    }
}

impl Structure for Allocator {
    fn create(&self, media: &Traced) {
        for line in [BITMAP, INTENT].into_iter().chain(SLOTS..SLOTS + SLOT_COUNT) {
            store(media, line, 0, 0);
            flush(media, site!("allocator.create.line"), line);
        }
        media.fence(site!("allocator.create.fence"));
    }

    /// Allocates the lowest free block for slot `i`.
    fn operate(&self, media: &Traced, i: usize) {
        let block = u64::from(load(media, BITMAP, 0).trailing_ones());
        match self.0 {
            Fault::None => {
                // A1: the intent. Crash: recovery completes what it says. The next intent replaces
                // it, once A2 is durable.
                store(media, INTENT, 0, 1 << 63 | (i as u64) << 16 | block);
                flush(media, site!("allocator.A1.intent"), INTENT);
                media.fence(site!("allocator.A1.fence"));
                self.take(media, i, block);
            }
            Fault::Leak => self.take(media, i, block),
            Fault::DoubleAllocation => {
                store(media, SLOTS + i, 0, block + 1);
                flush(media, site!("allocator.slot"), SLOTS + i);
                media.fence(site!("allocator.slot.fence"));
                media.store(cell(media, BITMAP, 0), load(media, BITMAP, 0) | 1 << block);
                flush(media, site!("allocator.bitmap"), BITMAP);
                media.fence(site!("allocator.bitmap.fence"));
            }
        }
    }

    fn recover(&self, media: &Traced) {
        let intent = load(media, INTENT, 0);
        if intent >> 63 == 1 {
            let (slot, block) = ((intent >> 16 & 0xff) as usize, intent & 0x3f);
            store(media, BITMAP, 0, load(media, BITMAP, 0) | 1 << block);
            flush(media, site!("allocator.recover.bitmap"), BITMAP);
            store(media, SLOTS + slot, 0, block + 1);
            flush(media, site!("allocator.recover.slot"), SLOTS + slot);
            media.fence(site!("allocator.recover.fence"));
        }
    }

    fn completed(&self, media: &Traced) -> Result<usize, String> {
        let bitmap = load(media, BITMAP, 0);
        let blocks: Vec<u64> = (0..SLOT_COUNT)
            .map(|i| load(media, SLOTS + i, 0))
            .take_while(|block| *block != 0)
            .collect();
        let owned: u64 = blocks.iter().fold(0, |owned, block| owned | 1 << ((block - 1) & 63));
        if owned.count_ones() as usize != blocks.len() {
            return Err(format!("a block was handed out twice: {blocks:?}"));
        }
        let leaked = bitmap & !owned;
        if leaked != 0 {
            return Err(format!("blocks are allocated without an owner: {leaked:#b}"));
        }
        Ok(blocks.len())
    }

    fn sites(&self) -> Vec<Site> {
        vec![
            site!("allocator.A1.intent"),
            site!("allocator.A1.fence"),
            site!("allocator.take.bitmap"),
            site!("allocator.take.slot"),
            site!("allocator.take.fence"),
            site!("allocator.recover.bitmap"),
            site!("allocator.recover.slot"),
            site!("allocator.recover.fence"),
        ]
    }
}
