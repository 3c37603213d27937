//! Tests of the family: against the model, with damage, in a full pool, by counting, and with
//! crashes.

mod counters;
mod crash;
mod damage;
mod full;
mod model;

use std::sync::Arc;

use everleaf_crash::Dram;
use everleaf_index::Index;
use everleaf_pmem::{Cpu, Hardware, Media, Region};
use everleaf_pool::{Audit, AuditReport, Format, Pool, Shutdown};

use super::{Parameters, Variant, open};
use crate::support::key::{TestKey, TreeKey};

/// The smallest sizes: every few operations change inner nodes, take or give back a run.
pub(super) const TINY: Parameters =
    Parameters { leaf_slots: 3, group_bytes: 4096, atomic_line: false, paper_order: false };

pub(super) fn format_of<K: TestKey>(parameters: Parameters) -> Format {
    let parameters = parameters.pack();
    Format { engine: "clftree-append".into(), key_type: K::KEY_TYPE, parameters }
}

pub(super) fn dram_pool<K: TestKey>(parameters: Parameters, max_bytes: u64) -> Arc<Pool<Dram>> {
    let region = Region::anonymous(64 << 10, max_bytes).unwrap();
    Pool::create(Dram::new(region, &Cpu::detect()), &format_of::<K>(parameters)).unwrap()
}

/// Of a media that promises words and no lines.
pub(super) fn hardware_pool<K: TestKey>(
    parameters: Parameters,
    max_bytes: u64,
) -> Arc<Pool<Hardware>> {
    let region = Region::anonymous(64 << 10, max_bytes).unwrap();
    let media = Hardware::new(region, &Cpu::detect()).unwrap();
    Pool::create(media, &format_of::<K>(parameters)).unwrap()
}

pub(super) fn opened<K: TreeKey, M: Media>(pool: &Arc<Pool<M>>) -> Box<dyn Index<K>> {
    open(pool, Variant::Append, Shutdown::Crash).unwrap()
}

/// Every invariant holds and nothing leaks.
pub(super) fn assert_sound<K: TreeKey, M: Media>(pool: &Pool<M>, tree: &dyn Index<K>) {
    let mut audit = Audit::new();
    let report = tree.check(&mut audit).unwrap();
    assert_eq!((report.violations, report.keys), (Vec::new(), tree.len()));
    assert_eq!(pool.finish_audit(audit), AuditReport::default());
}
