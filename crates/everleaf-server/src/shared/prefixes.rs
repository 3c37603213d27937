//! What was done with keys by their prefix, for `stats detail`: what comes before the first colon.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// Prefixes that are counted, at most: what comes later is not.
const MOST: usize = 4096;
/// What parts a prefix from the rest of a key.
pub const DELIMITER: u8 = b':';

/// What is done with a key.
#[derive(Clone, Copy, Debug)]
pub enum Use {
    /// It is asked for; whether it is there.
    Get(bool),
    /// It is stored, or somebody tries to.
    Set,
    /// It is deleted, or somebody tries to.
    Delete,
}

#[derive(Debug, Default)]
struct Counts {
    gets: u64,
    hits: u64,
    sets: u64,
    deletes: u64,
}

/// The numbers of all prefixes. All threads share them: they count nothing unless it is asked for.
#[derive(Debug, Default)]
pub struct Prefixes {
    on: AtomicBool,
    counts: Mutex<BTreeMap<Vec<u8>, Counts>>,
}

impl Prefixes {
    /// Counts from now on, or no more.
    pub fn turn(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
    }

    /// Whether it counts.
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Counts, if it does.
    pub fn add(&self, key: &[u8], what: Use) {
        if self.is_on() {
            self.count(key, what);
        }
    }

    #[cold]
    fn count(&self, key: &[u8], what: Use) {
        let Some(end) = key.iter().position(|byte| *byte == DELIMITER) else { return };
        let mut counts = self.counts.lock();
        if counts.len() >= MOST && !counts.contains_key(&key[..end]) {
            return;
        }
        let counts = counts.entry(key[..end].to_vec()).or_default();
        match what {
            Use::Get(hit) => {
                (counts.gets, counts.hits) = (counts.gets + 1, counts.hits + u64::from(hit));
            }
            Use::Set => counts.sets += 1,
            Use::Delete => counts.deletes += 1,
        }
    }

    /// Begins anew.
    pub fn reset(&self) {
        self.counts.lock().clear();
    }

    /// A line for each prefix.
    pub fn tell(&self, out: &mut Vec<u8>) {
        for (prefix, Counts { gets, hits, sets, deletes }) in self.counts.lock().iter() {
            out.extend_from_slice(b"PREFIX ");
            out.extend_from_slice(prefix);
            // Writing to a vector does not fail.
            let _ = write!(out, " get {gets} hit {hits} set {sets} del {deletes}\r\n");
        }
    }
}
