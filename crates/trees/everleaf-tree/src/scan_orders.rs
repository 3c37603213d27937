//! In which order the entries of a leaf follow one another: kept in DRAM by the first scan that
//! sorts the leaf, so that the next one sorts nothing.
//!
//! A line of DRAM a leaf, found by the leaf's offset: the version that the leaf's lock had, how
//! many entries there are, and their places, six bits each. The version tells whether the order
//! still holds: every change of a leaf gives its lock another one, and so does the end of a leaf
//! whose memory another one takes. A changed leaf of the same lock makes an order look old, which
//! costs one sort. Whoever reads or writes the order of a leaf has the leaf locked.
//!
//! The lines are those of a reservation of addresses. A scan that sorts a leaf takes memory for
//! them as far as the line of that leaf: at most a sixteenth of the pool. It is given back with the
//! tree.

use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;

use everleaf_pmem::{DramArena, DramLine, DramSource, LINE, planted};
use parking_lot::Mutex;

use crate::version_locks::LockGuard;

/// Entries of which a line has the places.
pub const MAX_ORDERED: usize = (WORDS - 2) * PLACES;
/// Words of a line; the first two are the version and the count.
const WORDS: usize = 8;
/// Places in a word.
const PLACES: usize = 10;
/// Bits of a place.
const BITS: usize = 6;

const _: () = assert!(PLACES * BITS <= 64 && MAX_ORDERED <= 1 << BITS);

/// The orders of all leaves of a tree.
#[derive(Debug)]
pub struct ScanOrders {
    /// None before the first scan, or where the system has no addresses.
    arena: OnceLock<Option<DramArena>>,
    /// Held while the arena grows.
    growing: Mutex<()>,
    /// Bytes that the pool may have: no leaf is behind.
    max_bytes: u64,
    /// The binary logarithm of the size of a leaf, or less: no two leaves have one line.
    shift: u32,
}

impl ScanOrders {
    /// None yet, of leaves of so many bytes in a pool of at most `max_bytes`. Takes no memory.
    pub fn new(leaf_bytes: u64, max_bytes: u64) -> Self {
        let shift = leaf_bytes.max(LINE as u64).ilog2();
        Self { arena: OnceLock::new(), growing: Mutex::new(()), max_bytes, shift }
    }

    /// Which line a leaf has.
    #[inline(always)]
    fn number(&self, leaf_offset: u64) -> u32 {
        u32::try_from(leaf_offset >> self.shift).unwrap_or(u32::MAX)
    }

    #[inline(always)]
    fn lines(&self) -> Option<&DramArena> {
        self.arena.get()?.as_ref()
    }

    /// Asks for the order of a leaf ahead of its use.
    #[inline(always)]
    pub fn prefetch(&self, leaf_offset: u64) {
        if let Some(lines) = self.lines() {
            lines.prefetch(self.number(leaf_offset));
        }
    }

    /// The places of all entries of a leaf, in the order of their keys; none if no scan has sorted
    /// them since the leaf was changed. The leaf is locked.
    #[inline(always)]
    pub fn of(&self, leaf_offset: u64, locked: &LockGuard<'_>) -> Option<Order> {
        let [line] = self.lines()?.get(self.number(leaf_offset), 1)? else { return None };
        let words: [u64; WORDS] = std::array::from_fn(|word| line.0[word].load(Relaxed));
        (words[0] == stamp(locked) || words[0] != 0 && planted(388)).then_some(Order(words))
    }

    /// Keeps what a scan has sorted. The leaf is locked. Where there is no memory nothing is kept.
    pub fn keep(
        &self,
        dram: DramSource<'_>,
        leaf_offset: u64,
        locked: &LockGuard<'_>,
        places: impl ExactSizeIterator<Item = u8>,
    ) {
        let count = places.len();
        let Some(line) = self.line_of(dram, leaf_offset).filter(|_| count <= MAX_ORDERED) else {
            return;
        };
        let mut words = [0; WORDS];
        (words[0], words[1]) = (stamp(locked), count as u64);
        for (at, place) in places.enumerate() {
            words[2 + at / PLACES] |= u64::from(place) << (at % PLACES * BITS);
        }
        line.0.iter().zip(words).for_each(|(kept, word)| kept.store(word, Relaxed));
    }

    /// The line of a leaf, which may have to be taken from the system.
    fn line_of(&self, dram: DramSource<'_>, leaf_offset: u64) -> Option<&DramLine> {
        let reserved = (self.max_bytes >> self.shift).saturating_add(1).checked_mul(LINE as u64);
        let reserve = || reserved.and_then(|bytes| dram.reserve(bytes).ok());
        let lines = self.arena.get_or_init(reserve).as_ref()?;
        let number = self.number(leaf_offset);
        if lines.get(number, 1).is_none() {
            let _growing = self.growing.lock();
            lines.ensure(number as usize + 1).ok()?;
        }
        lines.get(number, 1)?.first()
    }

    /// Bytes of DRAM taken, at most.
    pub fn dram_bytes(&self) -> u64 {
        self.lines().map_or(0, DramArena::bytes)
    }
}

/// What an order has of the version of a lock: never the zeros of a line that was not written.
#[inline(always)]
fn stamp(locked: &LockGuard<'_>) -> u64 {
    locked.version().wrapping_add(1)
}

/// The order of a leaf's entries.
#[derive(Clone, Copy, Debug)]
pub struct Order([u64; WORDS]);

impl Order {
    /// The places of the entries, ascending by key.
    #[inline(always)]
    pub fn places(&self) -> impl Iterator<Item = usize> + Clone + '_ {
        let places = self.0[2..].iter().flat_map(|word| {
            (0..PLACES).map(move |place| (word >> (place * BITS)) as usize & ((1 << BITS) - 1))
        });
        places.take(self.len())
    }

    /// How many entries there are.
    #[inline(always)]
    pub fn len(&self) -> usize {
        (self.0[1] as usize).min(MAX_ORDERED)
    }

    /// Whether there is none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The place of an entry, by the order of the keys; `at` is less than [`len`](Self::len).
    #[inline(always)]
    pub fn place(&self, at: usize) -> usize {
        let word = self.0[2..].get(at / PLACES).copied().unwrap_or_default();
        (word >> (at % PLACES * BITS)) as usize & ((1 << BITS) - 1)
    }
}

#[cfg(test)]
mod tests {
    use everleaf_pmem::SimdLevel;

    use super::*;
    use crate::version_locks::VersionLocks;

    fn relax() {}

    #[test]
    fn an_order_holds_until_the_leaf_is_changed() {
        let locks = VersionLocks::new(1 << 10).unwrap();
        let orders = ScanOrders::new(1024, 1 << 20);
        let lock = |leaf: u64| locks.lock(&relax, leaf);
        let found = |leaf: u64, locked: &LockGuard<'_>| {
            orders
                .of(leaf, locked)
                .map(|order| (0..order.len()).map(|at| order.place(at)).collect::<Vec<_>>())
        };
        let keep = |leaf: u64, locked: &LockGuard<'_>, places: &[u8]| {
            orders.keep(SimdLevel::SCALAR.into(), leaf, locked, places.iter().copied());
        };
        let most: Vec<u8> = (0..MAX_ORDERED as u8).rev().collect();
        for (leaf, places) in [(64, &[59, 0, 7][..]), (64 + 1024, &[]), (900 << 10, &most)] {
            let locked = lock(leaf);
            assert_eq!(found(leaf, &locked), None);
            keep(leaf, &locked, places);
            let expected: Vec<usize> = places.iter().map(|place| usize::from(*place)).collect();
            assert_eq!(found(leaf, &locked).as_ref(), Some(&expected));
            locked.unlock_unchanged();
            let locked = lock(leaf);
            assert_eq!(found(leaf, &locked), Some(expected), "nobody has changed the leaf");
            drop(locked);
            assert_eq!(found(leaf, &lock(leaf)), None, "it was changed");
        }
        assert!(orders.dram_bytes() >= 900 * LINE as u64);
    }

    #[test]
    fn leaves_behind_the_reservation_have_no_order() {
        let (locks, orders) = (VersionLocks::new(1).unwrap(), ScanOrders::new(1024, 1 << 20));
        let locked = locks.lock(&relax, 64);
        for leaf in [1 << 40, u64::MAX] {
            orders.keep(SimdLevel::SCALAR.into(), leaf, &locked, [1, 2].into_iter());
            assert!(orders.of(leaf, &locked).is_none());
        }
        locked.unlock_unchanged();
    }
}
