//! What several tests of the pool look at.

use std::os::unix::fs::FileExt;
use std::path::Path;

use everleaf_pmem::{Media, PCell, PPtr};
use everleaf_pool::{Audit, AuditReport, NodeKind, Pool, Record};

/// The kind of nodes in these tests.
pub const KIND: NodeKind = NodeKind::new(3);

/// What leaks, or is reached and not there, where these cells lead to all records and nothing else
/// takes runs.
pub fn audit<M: Media>(pool: &Pool<M>, records: &[PCell<PPtr<Record>>]) -> AuditReport {
    let mut audit = Audit::new();
    for cell in records {
        let pointer = pool.media().load(cell);
        if !pointer.is_null() {
            audit.reach(pointer.offset());
        }
    }
    for run in pool.runs(KIND).unwrap() {
        audit.reach(run.offset);
    }
    pool.finish_audit(audit)
}

/// The chunks of each extent of a pool's file, and those of its table where that has lines for
/// more.
pub fn extents(path: &Path) -> Vec<(u64, u64)> {
    let mut words = [0; 456 * 8];
    std::fs::File::open(path).unwrap().read_exact_at(&mut words, 256).unwrap();
    let words = words.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
    words
        .map(|word| (word & 0x3fff_ffff, word >> 30 & 0x3_ffff))
        .take_while(|(chunks, _)| *chunks > 0)
        .collect()
}
