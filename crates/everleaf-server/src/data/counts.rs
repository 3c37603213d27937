//! How many keys each database has: telling it costs nothing that grows with them.
//!
//! A key counts from the write that makes it until it is removed. What has expired counts until it
//! is swept, as in Redis; what was emptied counts no more.
//!
//! * N1. Who changes keys holds `whole` shared, and adds what has changed before it lets go.
//! * N2. After a crash the keys are counted stretch by stretch, with `whole` held alone. Meanwhile
//!   writers add for the keys that were counted; the others are still to be counted.
//! * N3. A close stores the numbers, with the bound of the numbers of writes. The opening that
//!   takes them forgets them in the store first: after a crash they would be wrong. They are wrong
//!   too if others have written since: then the bound is another one.

use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use everleaf::{Error, OwnedKey, Scan, Tree};
use parking_lot::RwLock;

use super::flush_words::Flushes;
use super::record::Header;
use super::rows::{DATABASES, key_of, keys_prefix, word_row};
use super::stored::Stored;

/// Keys that are counted while everybody waits: some hundred microseconds.
const STRETCH: usize = 2048;
const WORDS: usize = 2 * DATABASES as usize + 1;

/// By how many keys each database has grown.
pub(super) type Growth = [i64; DATABASES as usize];

/// The numbers of keys.
pub(super) struct Counts {
    keys: [AtomicI64; DATABASES as usize],
    /// How often a database was emptied since no key of it was found that had been.
    emptied: [AtomicU64; DATABASES as usize],
    /// Whether all keys were counted.
    is_whole: AtomicBool,
    /// The last row that was counted.
    counted: RwLock<Vec<u8>>,
}

fn row() -> Vec<u8> {
    word_row("keys")
}

impl Counts {
    /// They are to be counted.
    pub fn unknown() -> Self {
        Self {
            keys: [const { AtomicI64::new(0) }; DATABASES as usize],
            emptied: [const { AtomicU64::new(0) }; DATABASES as usize],
            is_whole: false.into(),
            counted: RwLock::new(keys_prefix(None)),
        }
    }

    /// What a close has stored; else they are to be counted.
    pub fn open(tree: &Tree, bound: u64) -> Result<Self, Error> {
        let counts = Self::unknown();
        let stored = tree.get(row())?.filter(|stored| stored.len() == 8 * WORDS);
        let Some(stored) = stored else { return Ok(counts) };
        tree.put(row(), b"")?; // N3; what is shorter has room in a full pool.
        let word = |at: usize| {
            stored[8 * at..][..8].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
        };
        if word(WORDS - 1) != bound {
            return Ok(counts);
        }
        for (at, (keys, emptied)) in counts.keys.iter().zip(&counts.emptied).enumerate() {
            keys.store(word(2 * at) as i64, Ordering::Relaxed);
            emptied.store(word(2 * at + 1), Ordering::Relaxed);
        }
        counts.is_whole.store(true, Ordering::Release);
        Ok(counts)
    }

    /// Stores them for the next opening, if they are known and there is room. Nobody may write.
    pub fn store(&self, tree: &Tree, bound: u64) -> Result<(), Error> {
        if !self.is_whole() {
            return Ok(());
        }
        let both = self.keys.iter().zip(&self.emptied).flat_map(|(keys, emptied)| {
            [keys.load(Ordering::Relaxed) as u64, emptied.load(Ordering::Relaxed)]
        });
        let words: Vec<u8> = both.chain([bound]).flat_map(u64::to_le_bytes).collect();
        match tree.put(row(), words) {
            Err(error) if !error.is_full() => Err(error),
            _ => Ok(()),
        }
    }

    /// Whether all keys were counted.
    pub fn is_whole(&self) -> bool {
        self.is_whole.load(Ordering::Acquire)
    }

    /// Whether writers of this key add.
    pub fn has_counted(&self, row: &[u8]) -> bool {
        self.is_whole() || *row <= **self.counted.read()
    }

    /// Adds what a write has changed.
    pub fn add(&self, growth: &Growth) {
        for (keys, by) in self.keys.iter().zip(growth) {
            if *by != 0 {
                keys.fetch_add(*by, Ordering::Relaxed);
            }
        }
    }

    /// Databases were emptied whose number is not 0; the caller holds all locks.
    pub fn empty(&self, since: &[u64; DATABASES as usize]) {
        let emptied = self.keys.iter().zip(&self.emptied).zip(since).filter(|(_, now)| **now > 0);
        for ((keys, emptied), _) in emptied {
            keys.store(0, Ordering::Relaxed);
            emptied.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How often a database was emptied; 0: it has no key of before.
    pub fn emptied(&self, database: u8) -> u64 {
        self.emptied.get(usize::from(database)).map_or(0, |n| n.load(Ordering::Relaxed))
    }

    /// The sweep has removed what was there before a database was emptied for the `times`th time.
    pub fn swept(&self, database: u8, times: u64) {
        if let Some(emptied) = self.emptied.get(usize::from(database)) {
            // Otherwise it was emptied again, and is swept again.
            let _ = emptied.compare_exchange(times, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Keys of a database; none as long as they are being counted.
    pub fn keys_of(&self, database: u8) -> Option<u64> {
        let keys = self.keys.get(usize::from(database))?;
        self.is_whole().then(|| keys.load(Ordering::Relaxed).try_into().unwrap_or(0))
    }

    /// Counts some keys, if not all were counted; true: now they are. Nobody may write.
    pub fn count_stretch(&self, rows: &Stored, flushes: &Flushes) -> Result<bool, Error> {
        if self.is_whole() {
            return Ok(true);
        }
        let mut scan = Scan::all().with_prefix(keys_prefix(None));
        scan.from = Bound::Excluded(OwnedKey::from(self.counted.read().clone()));
        let (mut looked_at, mut last) = (0, None);
        rows.scan_with(scan, |row, value| {
            if let (Some((database, _)), Some(header)) = (key_of(row), Header::read(value)) {
                let at = usize::from(database) % usize::from(DATABASES);
                match header.sequence >= flushes.since(database) {
                    true => self.keys[at].fetch_add(1, Ordering::Relaxed),
                    false => self.emptied[at].fetch_max(1, Ordering::Relaxed) as i64,
                };
            }
            looked_at += 1;
            if looked_at < STRETCH {
                return ControlFlow::Continue(());
            }
            last = Some(row.to_vec());
            ControlFlow::Break(())
        })?;
        match last {
            Some(last) => *self.counted.write() = last,
            None => self.is_whole.store(true, Ordering::Release),
        }
        Ok(self.is_whole())
    }
}
