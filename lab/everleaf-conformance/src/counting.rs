//! Flushes and fences of a tree, exactly.

use std::collections::BTreeMap;

use everleaf_crash::{Counts, Instrumented};
use everleaf_index::KeyKind;
use everleaf_pmem::Site;
use everleaf_pool::{Pool, Shutdown};

use super::{Opened, TestedTree, counting_pool};

/// A fresh tree in memory that has counted nothing yet.
pub fn counted<K: KeyKind>(tested: impl TestedTree<K>) -> Opened<K, Instrumented> {
    counted_below(tested, 1 << 30)
}

/// The same in a pool of so many bytes at most.
pub fn counted_below<K: KeyKind>(
    tested: impl TestedTree<K>,
    max_bytes: u64,
) -> Opened<K, Instrumented> {
    let pool = counting_pool(tested, max_bytes);
    let tree = tested.open(&pool, Shutdown::Clean.into()).unwrap();
    pool.media().reset();
    (pool, tree)
}

/// Those of sites whose names begin so.
pub fn of(barriers: &BTreeMap<Site, u64>, prefix: &str) -> u64 {
    let named = barriers.iter().filter(|(site, _)| site.name().starts_with(prefix));
    named.map(|(_, count)| count).sum()
}

/// Those of the tree, without those of the pool.
pub fn own(barriers: &BTreeMap<Site, u64>) -> u64 {
    of(barriers, "") - of(barriers, "pool.")
}

/// Flushes and fences of the tree.
pub fn flushes_and_fences(counts: &Counts) -> (u64, u64) {
    (own(&counts.flushes), own(&counts.fences))
}

/// The same since the last time.
pub fn cost(pool: &Pool<Instrumented>) -> (u64, u64) {
    let counts = pool.media().counts();
    pool.media().reset();
    flushes_and_fences(&counts)
}

/// The key of a number, anywhere among all.
pub fn random(number: u64) -> u64 {
    let z = (number + 1).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (z ^ z >> 29).wrapping_mul(0x94d0_49bb_1331_11eb)
}
