//! Tests of the family: against the model, with damage, in a full pool, by counting, and with
//! crashes.

mod counters;
mod crash;
mod damage;
mod full;
mod model;

use std::sync::Arc;

use everleaf_crash::Dram;
use everleaf_index::{Index, IndexError};
use everleaf_pmem::{Cpu, Hardware, Media, Region};
use everleaf_pool::{Audit, AuditReport, Format, Pool, Shutdown};

use super::encode::MAX_ENTRIES;
use super::{Parameters, Variant, open};
use crate::support::key::{TestKey, TreeKey};

/// The smallest sizes: every few operations change inner nodes, take or give back a run.
pub(super) const TINY: Parameters =
    Parameters { leaf_slots: 3, group_bytes: 4096, atomic_line: false, paper_order: false };

/// Leaves of one encoded line.
pub(super) const ENCODED: Parameters = Parameters { leaf_slots: MAX_ENTRIES as u64, ..TINY };

/// The tree whose leaves have so many entries: those of each are another's nowhere.
pub(super) fn variant_of(parameters: Parameters) -> Variant {
    if parameters.leaf_slots == ENCODED.leaf_slots { Variant::Encoded } else { Variant::Append }
}

pub(super) fn format_of<K: TestKey>(parameters: Parameters) -> Format {
    let engine = match variant_of(parameters) {
        Variant::Encoded => "clftree-encoded",
        _ => "clftree-append",
    };
    Format { engine: engine.into(), key_type: K::KEY_TYPE, parameters: parameters.pack() }
}

pub(super) fn opened_after<K: TreeKey, M: Media>(
    pool: &Arc<Pool<M>>,
    shutdown: Shutdown,
) -> Result<Box<dyn Index<K>>, IndexError> {
    let encoded = pool.format().engine == "clftree-encoded";
    open(pool, if encoded { Variant::Encoded } else { Variant::Append }, shutdown)
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
    opened_after(pool, Shutdown::Crash).unwrap()
}

/// Every invariant holds and nothing leaks.
pub(super) fn assert_sound<K: TreeKey, M: Media>(pool: &Pool<M>, tree: &dyn Index<K>) {
    let mut audit = Audit::new();
    let report = tree.check(&mut audit).unwrap();
    assert_eq!((report.violations, report.keys), (Vec::new(), tree.len()));
    assert_eq!(pool.finish_audit(audit), AuditReport::default());
}
