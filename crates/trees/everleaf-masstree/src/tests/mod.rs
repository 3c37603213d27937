//! Tests of the module: against the model, with several threads, at the edges of slices.

mod crash;
mod damage;
mod durable;
mod edges;
mod log;
mod model;
mod threads;

use std::sync::Arc;

use everleaf_crash::Dram;
use everleaf_index::Index;
use everleaf_pmem::{Cpu, Media, Region};
use everleaf_pool::{Audit, AuditReport, Format, KeyType, Pool};

use super::engine::BUFFERS;
use super::layout::WIDTH;
use super::{OFFER, TUNED};
use everleaf_tree::key::SliceKey;
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
    let format =
        Format { engine: "masstree-transient".into(), key_type: KeyType::Bytes, parameters };
    let region = Region::anonymous(64 << 10, max_bytes).unwrap();
    Pool::create(Dram::new(region, &Cpu::detect()), &format).unwrap()
}

/// Every invariant holds and nothing leaks.
pub(super) fn assert_sound<K: SliceKey, M: Media>(pool: &Arc<Pool<M>>, tree: &dyn Index<K>) {
    let mut audit = Audit::new();
    let report = tree.check(&mut audit).unwrap();
    assert_eq!((report.violations, report.keys), (Vec::new(), tree.len()));
    assert_eq!(pool.finish_audit(audit), AuditReport::default());
}

/// Full nodes of the transient tree.
pub(super) const FULL: Parameters = Parameters { leaf_slots: WIDTH as u64, ..TUNED };

/// Sizes of nodes that tests use.
pub(super) const SIZES: [Parameters; 3] = [
    Parameters { leaf_slots: 3, inner_keys: 3, ..TUNED },
    Parameters { leaf_slots: 8, inner_keys: 4, ..TUNED },
    FULL,
];
