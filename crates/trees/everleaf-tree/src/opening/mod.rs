//! Opening a tree whose leaves persist their lower bounds: what several threads have found of the
//! leaves is put in order (`sample_sort`), and inner nodes are built above it (`build`).

pub mod build;
pub mod sample_sort;

/// A pool of no tree.
#[cfg(test)]
fn dram_pool<K: super::key::TestKey>(
    max_bytes: u64,
) -> std::sync::Arc<everleaf_pool::Pool<everleaf_crash::Dram>> {
    use everleaf_pmem::{Cpu, Region};
    let format = everleaf_pool::Format {
        engine: "none".into(),
        key_type: K::KEY_TYPE,
        parameters: Default::default(),
    };
    let region = Region::anonymous(64 << 10, max_bytes).unwrap();
    let media = everleaf_crash::Dram::new(region, &Cpu::detect());
    everleaf_pool::Pool::create(media, &format).unwrap()
}
