//! Tests of the family: against the model, by counting, of single steps in every state of a node,
//! of what changes of the structure leave to others.

mod changes;
mod counters;
mod model;
mod steps;
mod threads;

use std::sync::Arc;

use everleaf_index::Index;
use everleaf_pmem::Media;
use everleaf_pool::{Audit, AuditReport, Format, KeyType, Pool};

use super::{OFFER, TUNED};
use everleaf_tree::key::TreeKey;
use everleaf_tree::parameters::Parameters;

pub(super) fn format(key_type: KeyType, node_slots: u64) -> Format {
    let parameters = OFFER.pack(Parameters { leaf_slots: node_slots, ..TUNED });
    Format { engine: "circtree".into(), key_type, parameters }
}

/// Every invariant holds and nothing leaks.
pub(super) fn assert_sound<K: TreeKey, M: Media>(pool: &Arc<Pool<M>>, tree: &dyn Index<K>) {
    let mut audit = Audit::new();
    let report = tree.check(&mut audit).unwrap();
    assert_eq!((report.violations, report.keys), (Vec::new(), tree.len()));
    assert_eq!(pool.finish_audit(audit), AuditReport::default());
}
