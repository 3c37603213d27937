//! What the tests of all tree families do, written once: a family says how its pools are made and
//! opened ([`TestedTree`]), and gives sizes, keys, scenarios and the cells that it damages.
//!
//! Map of the files: `pools` (memory of every kind, with a pool in it) · `sound` (every invariant
//! holds, nothing leaks) · `explore` (crashes at every event) · `model` (random operations beside a
//! map) · `full` (a pool without room) · `damage` (cells that are overwritten) · `counting`
//! (flushes and fences) · `threads` (threads that work beside each other).
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod counting;
pub mod damage;
pub mod explore;
pub mod full;
pub mod model;
mod pools;
mod sound;
pub mod threads;

use std::fmt::Debug;
use std::sync::Arc;

use everleaf_index::{Index, IndexError, KeyKind};
use everleaf_pmem::Media;
use everleaf_pool::{Format, Pool, Shutdown};
use everleaf_tree::Opening;

pub use pools::{counting_pool, dram_pool, full_disk_pool, image_of, traced_pool};
pub use sound::{Entries, assert_sound, problems, scanned};

/// A tree that is tested: a variant of a family with its sizes, over one kind of keys.
pub trait TestedTree<K: KeyKind>: Copy + Debug {
    /// What a new pool says of it.
    fn format(self) -> Format;

    /// Opens the tree of a pool, and makes one in a fresh pool.
    ///
    /// # Errors
    /// Those of the family.
    fn open<M: Media>(
        self,
        pool: &Arc<Pool<M>>,
        opening: Opening,
    ) -> Result<Box<dyn Index<K>>, IndexError>;
}

/// A pool and its tree.
pub type Opened<K, M> = (Arc<Pool<M>>, Box<dyn Index<K>>);

/// The keys that a test makes of numbers.
pub type KeyOf<K> = fn(u64) -> <K as KeyKind>::Owned;

/// The tree of a pool, as after a crash.
pub fn opened<K: KeyKind>(
    tested: impl TestedTree<K>,
    pool: &Arc<Pool<impl Media>>,
) -> Box<dyn Index<K>> {
    tested.open(pool, Shutdown::Crash.into()).unwrap()
}
