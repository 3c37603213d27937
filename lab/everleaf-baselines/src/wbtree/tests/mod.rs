//! Tests of the family: against the model, with damage, in a full pool, by counting, and with
//! crashes.

mod counters;
mod crash;
mod damage;
mod full;
mod model;
mod opening;

use std::sync::Arc;

use everleaf_crash::Dram;
use everleaf_index::Index;
use everleaf_pmem::{Cpu, Media, Region};
use everleaf_pool::{Audit, AuditReport, Format, KeyType, Pool};

use super::{Variant, open};
use everleaf_tree::TreeFamily;
use everleaf_tree::key::TreeKey;
use everleaf_tree::parameters::Parameters;

pub(super) const BOTH: [Variant; 2] = [Variant::Slot, Variant::Bitmap];

/// The smallest sizes: every few operations split a node, empty one, or take a group.
pub(super) const TINY: Parameters =
    Parameters { leaf_slots: 4, inner_keys: 0, value_words: 1, group_bytes: 4096 };

pub(super) fn format_of<K: TreeKey>(variant: Variant, parameters: Parameters) -> Format {
    let engine = if variant == Variant::Slot { "wbtree-slot" } else { "wbtree-bitmap" };
    let key_type = if K::RECORDS { KeyType::Bytes } else { KeyType::U64 };
    Format { engine: engine.into(), key_type, parameters: variant.offer().pack(parameters) }
}

pub(super) fn dram_pool<K: TreeKey>(
    variant: Variant,
    parameters: Parameters,
    max_bytes: u64,
) -> Arc<Pool<Dram>> {
    let region = Region::anonymous(64 << 10, max_bytes).unwrap();
    let media = Dram::new(region, &Cpu::detect());
    Pool::create(media, &format_of::<K>(variant, parameters)).unwrap()
}

pub(super) fn opened<K: TreeKey, M: Media>(
    pool: &Arc<Pool<M>>,
    variant: Variant,
) -> Box<dyn Index<K>> {
    open(pool, variant).unwrap()
}

/// Every invariant holds and nothing leaks.
pub(super) fn assert_sound<K: TreeKey, M: Media>(pool: &Pool<M>, tree: &dyn Index<K>) {
    let mut audit = Audit::new();
    let report = tree.check(&mut audit).unwrap();
    assert_eq!((report.violations, report.keys), (Vec::new(), tree.len()));
    assert_eq!(pool.finish_audit(audit), AuditReport::default());
}
