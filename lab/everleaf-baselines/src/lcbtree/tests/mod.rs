//! Tests of the family: against the model, with damage, in a full pool, by counting, and with
//! crashes.

mod counters;
mod crash;
mod damage;
mod full;
mod model;

use std::sync::Arc;

use everleaf_crash::Dram;
use everleaf_index::{Index, U64Keys};
use everleaf_pmem::{Cpu, Media, Region};
use everleaf_pool::{Audit, AuditReport, Format, KeyType, Pool};

use super::{Logging, Parameters, open};

/// The smallest sizes: every few operations split a node, empty one, take or give back a group.
pub(super) const TINY: Parameters =
    Parameters { slots: 4, group_bytes: 4096, logging: Logging::WholeNodes };

pub(super) const BOTH: [Logging; 2] = [Logging::WholeNodes, Logging::Ranges];

pub(super) fn format_of(parameters: Parameters) -> Format {
    Format { engine: "lcbtree".into(), key_type: KeyType::U64, parameters: parameters.pack() }
}

pub(super) fn dram_pool(parameters: Parameters, max_bytes: u64) -> Arc<Pool<Dram>> {
    let region = Region::anonymous(64 << 10, max_bytes).unwrap();
    Pool::create(Dram::new(region, &Cpu::detect()), &format_of(parameters)).unwrap()
}

pub(super) fn opened<M: Media>(pool: &Arc<Pool<M>>) -> Box<dyn Index<U64Keys>> {
    open(pool).unwrap()
}

/// Every invariant holds and nothing leaks.
pub(super) fn assert_sound<M: Media>(pool: &Pool<M>, tree: &dyn Index<U64Keys>) {
    let mut audit = Audit::new();
    let report = tree.check(&mut audit).unwrap();
    assert_eq!((report.violations, report.keys), (Vec::new(), tree.len()));
    assert_eq!(pool.finish_audit(audit), AuditReport::default());
}
