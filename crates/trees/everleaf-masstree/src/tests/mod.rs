//! Tests of the module: against the model, with several threads, at the edges of slices.

mod crash;
mod damage;
mod durable;
mod edges;
mod log;
mod model;
mod threads;

use std::sync::Arc;

use everleaf_conformance::{TestedTree, dram_pool};
use everleaf_crash::Dram;
use everleaf_index::{BytesKeys, Index, IndexError};
use everleaf_pmem::Media;
use everleaf_pool::{Format, KeyType, Pool};
use everleaf_tree::Opening;
use everleaf_tree::key::SliceKey;

use super::engine::BUFFERS;
use super::layout::WIDTH;
use super::{OFFER, TUNED, create};
pub(super) use everleaf_conformance::assert_sound;
pub(super) use everleaf_tree::parameters::Parameters;

/// An empty pool in DRAM that may grow to `max_bytes`.
pub(super) fn pool(parameters: Parameters, max_bytes: u64) -> Arc<Pool<Dram>> {
    pool_of(OFFER.pack(parameters), max_bytes)
}

/// Sizes as they stand in the header of a pool, and whether values stand in buffers.
pub(super) fn packed(sizes: Parameters, buffers: bool) -> [u64; 8] {
    let mut words = OFFER.pack(sizes);
    words[0] |= if buffers { BUFFERS } else { 0 };
    words
}

/// The same of such a header.
pub(super) fn pool_of(parameters: [u64; 8], max_bytes: u64) -> Arc<Pool<Dram>> {
    dram_pool::<BytesKeys>(Transient(parameters), max_bytes)
}

/// The transient tree, by the header of its pool. It is never opened again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transient(pub [u64; 8]);

impl<K: SliceKey> TestedTree<K> for Transient {
    fn format(self) -> Format {
        let engine = "masstree-transient".into();
        Format { engine, key_type: KeyType::Bytes, parameters: self.0 }
    }

    fn open<M: Media>(
        self,
        pool: &Arc<Pool<M>>,
        _: Opening,
    ) -> Result<Box<dyn Index<K>>, IndexError> {
        create(pool)
    }
}

/// Full nodes of the transient tree.
pub(super) const FULL: Parameters = Parameters { leaf_slots: WIDTH as u64, ..TUNED };

/// Sizes of nodes that tests use.
pub(super) const SIZES: [Parameters; 3] = [
    Parameters { leaf_slots: 3, inner_keys: 3, ..TUNED },
    Parameters { leaf_slots: 8, inner_keys: 4, ..TUNED },
    FULL,
];
