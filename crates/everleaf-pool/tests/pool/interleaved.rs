//! What others do between two steps of a worker, which the operating system may let happen at any
//! of them.

use std::sync::{Arc, Mutex};

use everleaf_pmem::{
    Cpu, Hardware, Line, LineAtomicity, Media, PCell, PPtr, Persistent, Region, SimdLevel, Site,
    Word, persistent,
};
use everleaf_pool::{Format, KeyType, Pool, Record};

persistent! {
    struct Slots {
        records: [PCell<PPtr<Record>>; 64],
    }
}

/// What others do meanwhile.
type Meanwhile = Mutex<Option<Box<dyn FnOnce() + Send>>>;

/// Memory whose next load is followed by what others do, before the thread that loaded goes on.
struct Interleaved {
    hardware: Hardware,
    after_next_load: Arc<Meanwhile>,
}

impl Media for Interleaved {
    fn region(&self) -> &Region {
        self.hardware.region()
    }
    fn simd(&self) -> SimdLevel {
        self.hardware.simd()
    }
    fn load<T: Word>(&self, cell: &PCell<T>) -> T {
        let loaded = self.hardware.load(cell);
        let meanwhile = self.after_next_load.lock().unwrap().take();
        meanwhile.into_iter().for_each(|others| others());
        loaded
    }
    fn store<T: Word>(&self, cell: &PCell<T>, value: T) {
        self.hardware.store(cell, value);
    }
    fn compare_exchange<T: Word>(&self, cell: &PCell<T>, current: T, new: T) -> Result<(), T> {
        self.hardware.compare_exchange(cell, current, new)
    }
    fn match_line(&self, line: &Line, byte: u8) -> (u64, u64) {
        self.hardware.match_line(line, byte)
    }
    fn prefetch<T: Persistent>(&self, object: &T) {
        self.hardware.prefetch(object);
    }
    fn flush<T: Word>(&self, site: Site, cell: &PCell<T>) {
        self.hardware.flush(site, cell);
    }
    fn flush_object<T: Persistent>(&self, site: Site, object: &T) {
        self.hardware.flush_object(site, object);
    }
    fn fence(&self, site: Site) {
        self.hardware.fence(site);
    }
    fn order(&self, site: Site) {
        self.hardware.order(site);
    }
    fn write_line(&self, site: Site, line: &Line, words: [u64; 8]) -> LineAtomicity {
        self.hardware.write_line(site, line, words)
    }
    fn relax(&self) {
        self.hardware.relax();
    }
    fn end_operation(&self) {
        self.hardware.end_operation();
    }
}

fn pool() -> (Arc<Pool<Interleaved>>, Arc<Meanwhile>) {
    let hardware =
        Hardware::new(Region::anonymous(1 << 20, 1 << 20).unwrap(), &Cpu::detect()).unwrap();
    let after_next_load = Arc::default();
    let media = Interleaved { hardware, after_next_load: Arc::clone(&after_next_load) };
    let format = Format { engine: "test".into(), key_type: KeyType::Bytes, parameters: [0; 8] };
    (Pool::create(media, &format).unwrap(), after_next_load)
}

#[test]
fn a_block_of_a_batch_that_ends_while_another_looks_for_room_stays_the_batchs() {
    let (pool, after_next_load) = pool();
    let slots = pool.index_root::<Slots>().unwrap();
    let (mut batching, mut other) = (pool.worker().unwrap(), pool.worker().unwrap());
    // Four records fill a chunk: the batch has the last block, whose bit is not set yet, and lets
    // go of the chunk.
    slots.records[..3]
        .iter()
        .for_each(|cell| batching.alloc_record_into(cell, &[&[1; 1000]]).unwrap());
    batching.begin_batch();
    let staged = [2, 3].map(|byte| batching.stage(PPtr::at(0), Some(&[&[byte; 1000]])).unwrap());
    batching.log_batch().unwrap();
    // The other comes by the chunk, and fills the first block again.
    other.free_from(&slots.records[0]).unwrap();
    other.alloc_record_into(&slots.records[0], &[&[4; 1000]]).unwrap();
    assert_eq!(pool.media().load(&slots.records[0]).offset() / 4096, staged[0].offset() / 4096);
    // It looks at the bits of the chunk; meanwhile the batch happens, and ends.
    let batch_ends = move || {
        batching.commit_batch().unwrap();
        batching.settle_batch(true).unwrap();
    };
    *after_next_load.lock().unwrap() = Some(Box::new(batch_ends));
    other.alloc_record_into(&slots.records[3], &[&[5; 1000]]).unwrap();
    assert!(after_next_load.lock().unwrap().is_none());
    assert!(!staged.contains(&pool.media().load(&slots.records[3])), "the block is the batch's");
    for (record, byte) in staged.into_iter().zip([2, 3]) {
        assert_eq!(pool.pin().record(record).unwrap(), [byte; 1000]);
    }
    for (cell, record) in slots.records[4..].iter().zip(staged) {
        pool.media().store(cell, record);
    }
    assert_eq!(crate::common::audit(&pool, &slots.records), Default::default());
}
