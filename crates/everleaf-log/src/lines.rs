//! What is new in each line and in each page: a byte of DRAM a line that was stored to, by pages of
//! the system, and two bits a page.

use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU64};

use everleaf_pmem::zeroed_cells;

use crate::latch::Latch;

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
    /// The pages that were captured since they were written to the file last. A bit is set under
    /// the latch of a line of the page.
    pages: Box<[AtomicU64]>,
    /// The pages that were stored to, and not given back: as above.
    private: Box<[AtomicU64]>,
}

impl Part {
    fn new() -> Self {
        let bits = || zeroed_cells(PART_PAGES as usize / 64);
        Self { masks: zeroed_cells(PART_LINES as usize), pages: bits(), private: bits() }
    }

    fn masks_of(&self, page: u64) -> &[AtomicU8] {
        let first = (page % PART_PAGES * PAGE_LINES) as usize;
        &self.masks[first..first + PAGE_LINES as usize]
    }

    fn is_new(&self, page: u64) -> bool {
        self.masks_of(page).iter().any(|mask| mask.load(Relaxed) != 0)
    }
}

/// The word of a page, and its bit there.
fn bit_of(page: u64) -> (usize, u64) {
    ((page % PART_PAGES / 64) as usize, 1 << (page % 64))
}

/// Sets a bit; whether it was not set before.
fn set(bits: &[AtomicU64], page: u64) -> bool {
    let (word, bit) = bit_of(page);
    bits[word].load(Relaxed) & bit == 0 && bits[word].fetch_or(bit, Relaxed) & bit == 0
}

/// The numbers of the bits of a word.
fn ones(mut bits: u64) -> impl Iterator<Item = u64> {
    std::iter::from_fn(move || {
        let bit = (bits != 0).then(|| u64::from(bits.trailing_zeros()))?;
        bits &= bits - 1;
        Some(bit)
    })
}

/// Of a whole pool; parts are made when they are first stored to.
pub(crate) struct Lines {
    /// Each in a box, because a pool that may become large has thousands that are never made.
    parts: Box<[OnceLock<Box<Part>>]>,
    /// Pages that are private.
    private: AtomicU64,
}

impl Lines {
    pub(crate) fn new(max_bytes: u64) -> Self {
        let parts = max_bytes.div_ceil(PART_LINES * 64);
        Self { parts: (0..parts).map(|_| OnceLock::new()).collect(), private: AtomicU64::new(0) }
    }

    fn part(&self, line: u64) -> &Part {
        self.parts[(line / PART_LINES) as usize].get_or_init(|| Box::new(Part::new()))
    }

    /// Makes the part of a line, so that nothing is allocated under its latch.
    #[inline]
    pub(crate) fn prepare(&self, line: u64) {
        self.part(line);
    }

    /// Notes words that were stored to. Whether their page had no memory of its own before.
    #[inline]
    pub(crate) fn add(&self, line: u64, words: u8) -> bool {
        let part = self.part(line);
        let mask = &part.masks[(line % PART_LINES) as usize];
        let before = mask.load(Relaxed);
        mask.store(before | words, Relaxed);
        let is_first = before == 0 && set(&part.private, line / PAGE_LINES);
        if is_first {
            self.private.fetch_add(1, Relaxed);
        }
        is_first
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

    /// Notes that the page of a line was captured. Its latch is held still: in between the page
    /// would look clean.
    #[inline]
    pub(crate) fn mark_page(&self, line: u64, _held: &Latch<'_>) {
        set(&self.part(line).pages, line / PAGE_LINES);
    }

    /// The pages that are noted, ascending; none is noted any more. If `new_too`, also those of
    /// which a word is new.
    pub(crate) fn take_pages(&self, new_too: bool) -> Vec<u64> {
        self.list(|part, first, word| {
            let marked = part.pages[word].swap(0, Relaxed);
            if !new_too {
                return marked;
            }
            let unmarked = ones(part.private[word].load(Relaxed) & !marked);
            unmarked.filter(|bit| part.is_new(first + bit)).fold(marked, |all, bit| all | 1 << bit)
        })
    }

    /// The pages whose bits are given, of each part and each word of it, ascending. The number of
    /// its first page is told.
    fn list(&self, bits: impl Fn(&Part, u64, usize) -> u64) -> Vec<u64> {
        let mut pages = Vec::new();
        for (at, part) in (0..).zip(&self.parts) {
            let Some(part) = part.get() else { continue };
            for word in 0..part.pages.len() {
                let first = at * PART_PAGES + word as u64 * 64;
                pages.extend(ones(bits(part, first, word)).map(|bit| first + bit));
            }
        }
        pages
    }

    // ---- pages that were stored to

    /// How many pages are private.
    #[inline]
    pub(crate) fn private_pages(&self) -> u64 {
        self.private.load(Relaxed)
    }

    /// Which, ascending.
    pub(crate) fn list_private(&self) -> Vec<u64> {
        self.list(|part, _, word| part.private[word].load(Relaxed))
    }

    /// Whether a page was stored to, and not given back.
    pub(crate) fn is_private(&self, page: u64) -> bool {
        let (word, bit) = bit_of(page);
        self.part(page * PAGE_LINES).private[word].load(Relaxed) & bit != 0
    }

    /// Whether a page was captured since it was written. The caller has the latches of its lines.
    pub(crate) fn is_marked(&self, page: u64) -> bool {
        let (word, bit) = bit_of(page);
        self.part(page * PAGE_LINES).pages[word].load(Relaxed) & bit != 0
    }

    /// Whether a word of a page is new. The caller has the latches of its lines.
    pub(crate) fn is_new(&self, page: u64) -> bool {
        self.part(page * PAGE_LINES).is_new(page)
    }

    /// A page is private no more. The caller has the latches of its lines.
    pub(crate) fn forget_private(&self, page: u64) {
        let (word, bit) = bit_of(page);
        if self.part(page * PAGE_LINES).private[word].fetch_and(!bit, Relaxed) & bit != 0 {
            self.private.fetch_sub(1, Relaxed);
        }
    }
}
