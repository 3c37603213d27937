//! When items were used last, and whether they were fetched since they were stored: what flags h
//! and l tell.
//!
//! It stands in memory alone, in one of a million words that items share by their hash: reading
//! writes nothing to the pool. A word is that of the item that was used last. Of the others, and of
//! all after a start, nothing is known: they count as used when the server began, and not fetched.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::data::hash;

/// Words: 8 MiB, which the first item takes.
const WORDS: usize = 1 << 20;
const FETCHED: u64 = 1 << 32;

/// What is known of all items. A word: the second of the last use (32 bits), whether it was fetched
/// (1), and the item's part of the hash (31).
#[derive(Debug)]
pub struct Uses {
    words: OnceLock<Box<[AtomicU64]>>,
    /// When the server began, in seconds since 1970.
    began: u64,
}

/// What is known of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    /// The second since 1970.
    pub second: u64,
    /// Whether it was fetched since it was stored.
    pub fetched: bool,
}

/// Milliseconds as seconds of a word.
const fn second(ms: u64) -> u64 {
    (ms / 1000) & u32::MAX as u64
}

impl Uses {
    /// Nothing was used yet.
    pub const fn new(now_ms: u64) -> Self {
        Self { words: OnceLock::new(), began: second(now_ms) }
    }

    fn word(&self, row: &[u8]) -> (&AtomicU64, u64) {
        let words =
            self.words.get_or_init(|| (0..WORDS).map(|_| AtomicU64::new(0)).collect::<Box<[_]>>());
        let hash = hash(row);
        (&words[hash % WORDS], hash as u64 >> 33 << 33)
    }

    /// What is known of it.
    pub fn of(&self, row: &[u8]) -> Used {
        let (word, item) = self.word(row);
        let word = word.load(Ordering::Relaxed);
        match word != 0 && word >> 33 << 33 == item {
            true => Used { second: word & u32::MAX as u64, fetched: word & FETCHED != 0 },
            false => Used { second: self.began, fetched: false },
        }
    }

    /// It is fetched.
    pub fn fetched(&self, row: &[u8], now_ms: u64) {
        let (word, item) = self.word(row);
        let used = item | FETCHED | second(now_ms);
        if word.load(Ordering::Relaxed) != used {
            word.store(used, Ordering::Relaxed); // Once a second: threads share what is read often.
        }
    }

    /// It is stored anew.
    pub fn stored(&self, row: &[u8], now_ms: u64) {
        let (word, item) = self.word(row);
        word.store(item | second(now_ms), Ordering::Relaxed);
    }

    /// It is used in another way: whether it was fetched stays.
    pub fn changed(&self, row: &[u8], now_ms: u64) {
        match self.of(row).fetched {
            true => self.fetched(row, now_ms),
            false => self.stored(row, now_ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_that_of_the_item_used_last() {
        let uses = Uses::new(5_000);
        let unknown = Used { second: 5, fetched: false };
        assert_eq!(uses.of(b"a"), unknown);
        uses.stored(b"a", 7_999);
        assert_eq!(uses.of(b"a"), Used { second: 7, fetched: false });
        uses.fetched(b"a", 8_000);
        assert_eq!(uses.of(b"a"), Used { second: 8, fetched: true });
        uses.changed(b"a", 9_000);
        assert_eq!(uses.of(b"a"), Used { second: 9, fetched: true });
        let other = (0u64..).map(|n| n.to_le_bytes());
        let other = other.into_iter().find(|key| hash(key) % WORDS == hash(b"a") % WORDS).unwrap();
        assert_eq!(uses.of(&other), unknown);
        uses.stored(&other, 10_000);
        assert_eq!(uses.of(b"a"), unknown);
    }
}
