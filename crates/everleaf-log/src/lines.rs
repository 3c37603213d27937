//! What is new in each line and in each page: a byte of DRAM a line, a bit a page.

use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU64};

/// Lines of a part: 64 MiB of a pool.
const PART_LINES: u64 = 1 << 20;
/// Lines of a page.
pub(crate) const PAGE_LINES: u64 = 64;
/// Pages of a part.
const PART_PAGES: u64 = PART_LINES / PAGE_LINES;

/// Of a part of the pool.
struct Part {
    /// Of each line the words that were stored to since they were captured last. Changed under the
    /// latch of the line's stripe.
    masks: Box<[AtomicU8]>,
    /// The pages that were captured since they were written to the file last.
    pages: Box<[AtomicU64]>,
}

impl Part {
    fn new() -> Self {
        let masks = (0..PART_LINES).map(|_| AtomicU8::new(0)).collect();
        let pages = (0..PART_PAGES / 64).map(|_| AtomicU64::new(0)).collect();
        Self { masks, pages }
    }
}

/// Of a whole pool; parts are made when they are first stored to.
pub(crate) struct Lines {
    parts: Box<[OnceLock<Part>]>,
}

impl Lines {
    pub(crate) fn new(max_bytes: u64) -> Self {
        let parts = max_bytes.div_ceil(PART_LINES * 64);
        Self { parts: (0..parts).map(|_| OnceLock::new()).collect() }
    }

    fn part(&self, line: u64) -> &Part {
        self.parts[(line / PART_LINES) as usize].get_or_init(Part::new)
    }

    /// Notes words that were stored to.
    #[inline]
    pub(crate) fn add(&self, line: u64, words: u8) {
        let mask = &self.part(line).masks[(line % PART_LINES) as usize];
        mask.store(mask.load(Relaxed) | words, Relaxed);
    }

    /// The words that are new, which count as captured from now on.
    #[inline]
    pub(crate) fn take(&self, line: u64) -> u8 {
        let mask = &self.part(line).masks[(line % PART_LINES) as usize];
        let words = mask.load(Relaxed);
        if words != 0 {
            mask.store(0, Relaxed);
        }
        words
    }

    /// Notes that the page of a line was captured.
    #[inline]
    pub(crate) fn mark_page(&self, line: u64) {
        let page = line % PART_LINES / PAGE_LINES;
        let word = &self.part(line).pages[(page / 64) as usize];
        if word.load(Relaxed) & 1 << (page % 64) == 0 {
            word.fetch_or(1 << (page % 64), Relaxed);
        }
    }

    /// The pages that are noted, ascending; none is noted any more.
    pub(crate) fn take_pages(&self) -> Vec<u64> {
        let mut pages = Vec::new();
        for (at, part) in self.parts.iter().enumerate() {
            let Some(part) = part.get() else { continue };
            for (word, bits) in part.pages.iter().enumerate() {
                let mut bits = bits.swap(0, Relaxed);
                while bits != 0 {
                    let bit = u64::from(bits.trailing_zeros());
                    pages.push(at as u64 * PART_PAGES + word as u64 * 64 + bit);
                    bits &= bits - 1;
                }
            }
        }
        pages
    }
}
