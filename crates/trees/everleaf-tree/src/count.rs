//! The number of keys, counted by many threads.

use std::sync::atomic::{AtomicI64, Ordering};

/// Parts of the count: enough that two threads seldom meet in one.
const PARTS: usize = 64;

/// A part on lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Part(AtomicI64);

/// A sum of parts, so that threads that count do not all write to one line.
#[derive(Debug)]
pub struct Count(Box<[Part]>);

impl Count {
    /// A count that begins with `keys`.
    pub fn new(keys: u64) -> Self {
        let parts: Box<[Part]> = (0..PARTS).map(|_| Part::default()).collect();
        parts[0].0.store(keys as i64, Ordering::Relaxed);
        Self(parts)
    }

    /// Adds to the part that the place of a leaf chooses.
    #[inline(always)]
    pub fn add(&self, leaf_offset: u64, keys: i64) {
        let part = (leaf_offset >> 10) as usize % PARTS;
        self.0[part].0.fetch_add(keys, Ordering::Relaxed);
    }

    /// The sum; exact when no thread counts.
    pub fn get(&self) -> u64 {
        self.0.iter().map(|part| part.0.load(Ordering::Relaxed)).sum::<i64>().max(0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up() {
        let count = Count::new(1000);
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let count = &count;
                scope.spawn(move || {
                    (0..1000u64).for_each(|i| {
                        count.add((thread * 1000 + i) << 10, if i % 4 == 0 { -1 } else { 1 })
                    })
                });
            }
        });
        assert_eq!(count.get(), 1000 + 4 * 500);
    }
}
