//! Every invariant holds and nothing leaks; and what a scan finds.

use std::ops::{Bound, ControlFlow};

use everleaf_index::{Direction, Index, IndexError, KeyKind};
use everleaf_pmem::Media;
use everleaf_pool::{Audit, Pool};

/// What is wrong with a tree, or with its pool if it has nothing else: each a sentence.
pub fn problems<K: KeyKind>(pool: &Pool<impl Media>, tree: &dyn Index<K>) -> Vec<String> {
    let mut audit = Audit::new();
    let report = match tree.check(&mut audit) {
        Ok(report) => report,
        Err(error) => return vec![error.to_string()],
    };
    let mut problems = report.violations;
    if report.keys != tree.len() {
        problems.push(format!("{} keys found, {} counted", report.keys, tree.len()));
    }
    let audited = pool.finish_audit(audit);
    problems.extend(audited.violations);
    if audited.leaked_blocks > 0 {
        problems.push(format!("{} blocks leaked", audited.leaked_blocks));
    }
    problems
}

/// Every invariant holds and nothing leaks.
#[track_caller]
pub fn assert_sound<K: KeyKind>(pool: &Pool<impl Media>, tree: &dyn Index<K>) {
    assert_eq!(problems(pool, tree), Vec::<String>::new());
}

/// Keys and values.
pub type Entries<K> = Vec<(<K as KeyKind>::Owned, Vec<u64>)>;

/// Up to `limit` entries from a bound on.
///
/// # Errors
/// Those of the scan.
pub fn scanned<K: KeyKind>(
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
