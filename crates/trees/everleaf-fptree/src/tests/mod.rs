//! Tests of the family: against the model, under crashes, with damage, by counting.

mod batches;
mod counters;
mod crash;
mod damage;
mod model;

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use everleaf_crash::{Dram, Traced};
use everleaf_index::{CheckReport, Direction, Index, IndexError, KeyKind};
use everleaf_pmem::{Cpu, Media, Region};
use everleaf_pool::{Audit, AuditReport, Format, Pool, Shutdown};

use super::{Parameters, Variant, offer, open};
pub(super) use everleaf_tree::key::{TestKey, TreeKey};

/// The smallest sizes: every few operations split a leaf, an inner node, take or give back a group.
pub(super) const TINY: Parameters =
    Parameters { leaf_slots: 4, inner_keys: 4, value_words: 1, group_bytes: 4096 };

pub(super) fn format_of<K: TestKey>(parameters: Parameters) -> Format {
    Format {
        engine: "fptree".into(),
        key_type: K::KEY_TYPE,
        parameters: offer(Variant::FpTree).pack(parameters),
    }
}

pub(super) fn dram_pool<K: TestKey>(parameters: Parameters, max_bytes: u64) -> Arc<Pool<Dram>> {
    let region = Region::anonymous(64 << 10, max_bytes).unwrap();
    Pool::create(Dram::new(region, &Cpu::detect()), &format_of::<K>(parameters)).unwrap()
}

pub(super) fn traced_pool<K: TestKey>(parameters: Parameters, bytes: u64) -> Arc<Pool<Traced>> {
    let traced = Traced::new(bytes, bytes, 7).unwrap();
    traced.record(false, false);
    Pool::create(traced, &format_of::<K>(parameters)).unwrap()
}

pub(super) fn opened<K: TreeKey, M: Media>(
    pool: &Arc<Pool<M>>,
    variant: Variant,
) -> Box<dyn Index<K>> {
    open(pool, variant, Shutdown::Crash).unwrap()
}

/// Every invariant holds and nothing leaks.
pub(super) fn problems<K: TreeKey, M: Media>(pool: &Pool<M>, tree: &dyn Index<K>) -> Vec<String> {
    let mut audit = Audit::new();
    let CheckReport { keys, mut violations } = match tree.check(&mut audit) {
        Ok(report) => report,
        Err(e) => return vec![e.to_string()],
    };
    if keys != tree.len() {
        violations.push(format!("{keys} keys found, {} counted", tree.len()));
    }
    let AuditReport { leaked_blocks, violations: more } = pool.finish_audit(audit);
    violations.extend(more);
    if leaked_blocks > 0 {
        violations.push(format!("{leaked_blocks} blocks leaked"));
    }
    violations
}

pub(super) fn assert_sound<K: TreeKey, M: Media>(pool: &Pool<M>, tree: &dyn Index<K>) {
    assert_eq!(problems(pool, tree), Vec::<String>::new());
}

/// Keys and values.
pub(super) type Entries<K> = Vec<(<K as KeyKind>::Owned, Vec<u64>)>;

/// Up to `limit` entries from a bound on.
pub(super) fn scanned<K: TreeKey>(
    tree: &dyn Index<K>,
    from: Bound<K::Ref<'_>>,
    direction: Direction,
    limit: usize,
) -> Result<Entries<K>, IndexError> {
    let mut entries = Vec::new();
    tree.scan(from, direction, &mut |key, value| {
        entries.push((K::to_owned(key), value.to_vec()));
        if entries.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(entries)
}
