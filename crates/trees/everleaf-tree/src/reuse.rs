//! Looking at what others may free, without being pinned.
//!
//! Being [pinned](everleaf_pool::Pins) costs an atomic exchange, which waits for the flushes of the
//! operation before. Who only loads, and can tell afterwards that what it saw is void, need not
//! hold anything back: it remembers how often memory that had left the structure was made free, and
//! asks in the end whether it still is as often. Meanwhile it may see anything: indices and
//! pointers are checked before they are followed, errors do not count.
//!
//! Why this is right in the memory model, as of a latch (`latch`): who makes memory free took it
//! out of the structure before, and then counts (Release); so a thread that saw the new number
//! (Acquire) does not find the memory. A thread that saw the number before it, and a word that was
//! written to the memory since, has met the release fence that comes before that word by its own
//! acquire fence; so it sees the new number then.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use crossbeam_utils::CachePadded;

use super::latch;

/// How often memory that had left was made free.
#[derive(Debug, Default)]
pub struct Reuse(CachePadded<AtomicU64>);

/// The number that a thread saw.
#[derive(Clone, Copy, Debug)]
#[must_use = "what was looked at counts only if it is current"]
pub struct Glance<'r>(&'r AtomicU64, u64);

impl Reuse {
    /// Begins to look. One load.
    #[inline(always)]
    pub fn glance(&self) -> Glance<'_> {
        Glance(&self.0, self.0.load(Ordering::Acquire))
    }

    /// To be called when memory that has left is made free, before the lock is given up under which
    /// others find it free.
    pub fn freed(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }

    /// To be called between taking memory, under that lock, and writing to it.
    #[inline(always)]
    pub fn taken(&self) {
        fence(Ordering::Release);
    }
}

impl Glance<'_> {
    /// Whether nothing that was looked at since can have been used for anything else. One load.
    #[inline(always)]
    pub fn is_current(self) -> bool {
        latch::is_still(self.0, self.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glance_is_current_until_memory_is_made_free() {
        let reuse = Reuse::default();
        let before = reuse.glance();
        reuse.taken();
        assert!(before.is_current());
        reuse.freed();
        assert!(!before.is_current() && reuse.glance().is_current());
    }

    /// Two blocks serve in turns; each has the same number in all its words while it can be found.
    #[test]
    fn what_a_current_glance_saw_was_there() {
        const TURNS: u64 = 200_000;
        let (reuse, at) = (Reuse::default(), AtomicU64::new(0));
        let blocks = [const { [const { AtomicU64::new(0) }; 4] }; 2];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for turn in 1..=TURNS {
                    let block = turn as usize % 2;
                    // What was found before the turn before has left then.
                    reuse.freed();
                    reuse.taken();
                    blocks[block].iter().for_each(|word| word.store(turn, Ordering::Relaxed));
                    at.store(block as u64, Ordering::Release);
                }
            });
            let mut last = 0;
            while last < TURNS {
                let glance = reuse.glance();
                let block = &blocks[at.load(Ordering::Acquire) as usize];
                let words = block.each_ref().map(|word| word.load(Ordering::Relaxed));
                if glance.is_current() {
                    assert!(words.iter().all(|word| *word == words[0]), "{words:?}");
                    assert!(words[0] >= last);
                    last = words[0];
                }
            }
        });
    }
}
