//! Every barrier of the pool, by name.

use everleaf_pmem::{Site, declared_sites};

/// The barriers of creation, opening, closing, growth, allocation, freeing, links, doubts, batches,
/// runs, roots and recovery, in the order of the code.
pub const SITES: &[Site] = declared_sites![
    "pool.rs",
    "growth.rs",
    "record.rs",
    "chunks/free.rs",
    "intent.rs",
    "worker.rs",
    "doubt.rs",
    "batch.rs",
    "epoch.rs",
    "roots.rs",
    "recover.rs",
];

#[cfg(test)]
mod tests {
    #[test]
    fn every_file_with_a_barrier_is_in_the_list() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let wrong = everleaf_pmem::undeclared_sites(&folder, &[super::SITES]).unwrap();
        assert!(wrong.is_empty(), "{wrong:?}");
    }
}
