//! Memory of every kind, with a pool in it.

use std::sync::Arc;

use everleaf_crash::{Dram, Instrumented, Traced};
use everleaf_index::KeyKind;
use everleaf_pmem::{Cpu, Mapped, Region};
use everleaf_pool::Pool;

use super::TestedTree;

/// Bytes that a pool begins with.
const BEGIN: u64 = 64 << 10;
/// Bytes that a pool may grow to where nothing is to end it.
const AMPLE: u64 = 1 << 30;

fn dram(max_bytes: u64) -> Dram {
    Dram::new(Region::anonymous(BEGIN, max_bytes).unwrap(), &Cpu::detect())
}

/// An empty pool in plain memory that may grow to `max_bytes`.
pub fn dram_pool<K: KeyKind>(tested: impl TestedTree<K>, max_bytes: u64) -> Arc<Pool<Dram>> {
    Pool::create(dram(max_bytes), &tested.format()).unwrap()
}

/// The same, as if on a disk that is full, with room to grow otherwise.
pub fn full_disk_pool<K: KeyKind>(tested: impl TestedTree<K>) -> Arc<Pool<Dram>> {
    Pool::create(dram(AMPLE).on_a_full_disk(), &tested.format()).unwrap()
}

/// An empty pool of so many bytes in memory that was full of garbage. Nothing is recorded.
pub fn traced_pool<K: KeyKind>(tested: impl TestedTree<K>, bytes: u64) -> Arc<Pool<Traced>> {
    let traced = Traced::new(bytes, bytes, 7).unwrap();
    traced.record(false, false);
    Pool::create(traced, &tested.format()).unwrap()
}

/// An image at an address of its own. Nothing is recorded.
pub fn image_of(image: &[u64]) -> Traced {
    let traced = Traced::from_image(image, size_of_val(image) as u64, 3).unwrap();
    traced.record(false, false);
    traced
}

/// An empty pool in memory that counts, which may grow to `max_bytes`.
pub fn counting_pool<K: KeyKind>(
    tested: impl TestedTree<K>,
    max_bytes: u64,
) -> Arc<Pool<Instrumented>> {
    let region = Region::anonymous(BEGIN, max_bytes).unwrap();
    let media = Instrumented::counting(Mapped::new(region, &Cpu::detect()).unwrap());
    Pool::create(media, &tested.format()).unwrap()
}
