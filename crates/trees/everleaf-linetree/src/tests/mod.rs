//! Tests of the family: against the model, in a full pool, by counting, by threads, and with
//! crashes.

mod counters;
mod crash;
mod full;
mod model;
mod strings;
mod threads;

use std::sync::Arc;

use everleaf_crash::Dram;
use everleaf_index::Index;
use everleaf_pmem::{Cpu, Media, Region};
use everleaf_pool::{Audit, AuditReport, Format, Pool, Shutdown};

use super::{OFFER, open};
use everleaf_tree::key::{TestKey, TreeKey};
use everleaf_tree::parameters::Parameters;

/// The smallest sizes: every few operations split a leaf, end one, take or give back a group.
pub(super) const TINY: Parameters =
    Parameters { leaf_slots: 8, inner_keys: 4, value_words: 1, group_bytes: 4096 };

/// Of a tree by itself.
pub(super) fn format_of<K: TestKey>(parameters: Parameters) -> Format {
    let parameters = OFFER.pack(parameters);
    Format { engine: "linetree".into(), key_type: K::KEY_TYPE, parameters }
}

pub(super) fn dram_pool<K: TestKey>(parameters: Parameters, max_bytes: u64) -> Arc<Pool<Dram>> {
    let region = Region::anonymous(64 << 10, max_bytes).unwrap();
    Pool::create(Dram::new(region, &Cpu::detect()), &format_of::<K>(parameters)).unwrap()
}

/// As after a crash.
pub(super) fn opened<K: TreeKey, M: Media>(pool: &Arc<Pool<M>>) -> Box<dyn Index<K>> {
    open(pool, Shutdown::Crash.into()).unwrap()
}

/// Every invariant holds and nothing leaks.
pub(super) fn assert_sound<K: TreeKey, M: Media>(pool: &Pool<M>, tree: &dyn Index<K>) {
    let mut audit = Audit::new();
    let report = tree.check(&mut audit).unwrap();
    assert_eq!((report.violations, report.keys), (Vec::new(), tree.len()));
    assert_eq!(pool.finish_audit(audit), AuditReport::default());
}
