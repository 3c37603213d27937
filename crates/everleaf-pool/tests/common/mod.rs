//! What several tests of the pool look at.

use everleaf_pmem::{Hardware, Media, PCell, PPtr};
use everleaf_pool::{Audit, AuditReport, Pool, Record};

/// What leaks, or is reached and not there, where these cells lead to all records and nothing else takes runs.
pub fn audit(pool: &Pool<Hardware>, records: &[PCell<PPtr<Record>>]) -> AuditReport {
    let mut audit = Audit::new();
    for cell in records {
        let pointer = pool.media().load(cell);
        if !pointer.is_null() {
            audit.reach(pointer.offset());
        }
    }
    for run in pool.runs().unwrap() {
        audit.reach(run.offset);
    }
    pool.finish_audit(audit)
}
