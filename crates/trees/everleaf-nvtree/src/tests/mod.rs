//! Tests of the family: against the model, with damage, in a full pool, by counting.

mod counters;
mod damage;
mod full;
mod model;

use std::sync::Arc;

use everleaf_crash::Dram;
use everleaf_index::Index;
use everleaf_pmem::{Cpu, Media, Region};
use everleaf_pool::{Audit, AuditReport, Format, Pool, Shutdown};

use super::{Parameters, Variant, open, pack};
use everleaf_tree::key::{TestKey, TreeKey};

/// The smallest sizes: every few operations change the list of leaves, spread parents, take or give
/// back a group.
pub(crate) const TINY: Parameters =
    Parameters { leaf_slots: 4, inner_keys: 4, value_words: 1, group_bytes: 4096 };

pub(crate) fn format_of<K: TestKey>(parameters: Parameters) -> Format {
    Format { engine: "nvtree".into(), key_type: K::KEY_TYPE, parameters: pack(parameters, true) }
}

pub(crate) fn dram_pool<K: TestKey>(parameters: Parameters, max_bytes: u64) -> Arc<Pool<Dram>> {
    let region = Region::anonymous(64 << 10, max_bytes).unwrap();
    Pool::create(Dram::new(region, &Cpu::detect()), &format_of::<K>(parameters)).unwrap()
}

/// The same, as if on a disk that is full, with room to grow otherwise.
pub(crate) fn full_disk_pool<K: TestKey>(parameters: Parameters) -> Arc<Pool<Dram>> {
    let region = Region::anonymous(64 << 10, 1 << 30).unwrap();
    let media = Dram::new(region, &Cpu::detect()).on_a_full_disk();
    Pool::create(media, &format_of::<K>(parameters)).unwrap()
}

/// Both trees of the family.
pub(crate) const VARIANTS: [Variant; 2] = [Variant::Serial, Variant::Concurrent];

pub(crate) fn opened<K: TreeKey, M: Media>(
    pool: &Arc<Pool<M>>,
    variant: Variant,
) -> Box<dyn Index<K>> {
    open(pool, variant, Shutdown::Crash).unwrap()
}

/// Every invariant holds and nothing leaks.
pub(crate) fn assert_sound<K: TreeKey, M: Media>(pool: &Pool<M>, tree: &dyn Index<K>) {
    let mut audit = Audit::new();
    let report = tree.check(&mut audit).unwrap();
    assert_eq!((report.violations, report.keys), (Vec::new(), tree.len()));
    assert_eq!(pool.finish_audit(audit), AuditReport::default());
}
