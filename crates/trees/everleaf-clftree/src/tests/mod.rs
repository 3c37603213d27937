//! Tests of the family: against the model, with damage, in a full pool, by counting, and with
//! crashes.

mod counters;
mod crash;
mod damage;
mod full;
mod model;
mod shadow;

use std::sync::Arc;

use everleaf_crash::Dram;
use everleaf_index::{Index, IndexError};
use everleaf_pmem::{Cpu, Mapped, Media, Region};
use everleaf_pool::{Audit, AuditReport, Format, Pool, Shutdown};

use super::encode::MAX_ENTRIES;
use super::{Parameters, Variant, open};
use everleaf_tree::key::{TestKey, TreeKey};

/// The smallest sizes: every few operations change inner nodes, take or give back a run.
pub(super) const TINY: Tested =
    Tested { variant: Variant::Append, leaf_slots: 3, group_bytes: 4096, paper_order: false };

/// The same with inner nodes that are copied.
pub(super) const SHADOW: Tested = Tested { variant: Variant::Shadow, ..TINY };

/// Leaves of one encoded line.
pub(super) const ENCODED: Tested =
    Tested { variant: Variant::Encoded, leaf_slots: MAX_ENTRIES as u64, ..TINY };

/// The same with lines that are copied.
pub(super) const ENCODED_SHADOW: Tested = Tested { variant: Variant::EncodedShadow, ..ENCODED };

/// A tree and its sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tested {
    pub variant: Variant,
    pub leaf_slots: u64,
    pub group_bytes: u64,
    pub paper_order: bool,
}

/// Trees by the names of their engines.
const NAMES: [(&str, Variant); 5] = [
    ("clftree-append", Variant::Append),
    ("clftree-inplace", Variant::InPlace),
    ("clftree-shadow", Variant::Shadow),
    ("clftree-encoded", Variant::Encoded),
    ("clftree-encoded-shadow", Variant::EncodedShadow),
];

pub(super) fn format_of<K: TestKey>(tested: Tested) -> Format {
    let Tested { variant, leaf_slots, group_bytes, paper_order } = tested;
    let (engine, _) = NAMES.into_iter().find(|(_, of)| *of == variant).unwrap();
    let parameters = Parameters { leaf_slots, group_bytes, paper_order, ..Parameters::default() };
    Format { engine: engine.into(), key_type: K::KEY_TYPE, parameters: parameters.pack() }
}

pub(super) fn opened_after<K: TreeKey, M: Media>(
    pool: &Arc<Pool<M>>,
    shutdown: Shutdown,
) -> Result<Box<dyn Index<K>>, IndexError> {
    let (_, variant) = NAMES.into_iter().find(|(name, _)| *name == pool.format().engine).unwrap();
    open(pool, variant, shutdown)
}

pub(super) fn dram_pool<K: TestKey>(tested: Tested, max_bytes: u64) -> Arc<Pool<Dram>> {
    let region = Region::anonymous(64 << 10, max_bytes).unwrap();
    Pool::create(Dram::new(region, &Cpu::detect()), &format_of::<K>(tested)).unwrap()
}

/// The same, as if on a disk that is full, with room to grow otherwise.
pub(super) fn full_disk_pool<K: TestKey>(tested: Tested) -> Arc<Pool<Dram>> {
    let region = Region::anonymous(64 << 10, 1 << 30).unwrap();
    let media = Dram::new(region, &Cpu::detect()).on_a_full_disk();
    Pool::create(media, &format_of::<K>(tested)).unwrap()
}

/// Of a media that promises words and no lines.
pub(super) fn hardware_pool<K: TestKey>(tested: Tested, max_bytes: u64) -> Arc<Pool<Mapped>> {
    let region = Region::anonymous(64 << 10, max_bytes).unwrap();
    let media = Mapped::new(region, &Cpu::detect()).unwrap();
    Pool::create(media, &format_of::<K>(tested)).unwrap()
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
