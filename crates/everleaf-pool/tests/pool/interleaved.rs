//! What others do between two steps of a worker, which the operating system may let happen at any
//! of them.

use std::sync::Arc;

use everleaf_crash::{Access, Interleaved};
use everleaf_pmem::{Cpu, Mapped, Media, PCell, PPtr, Region, persistent};
use everleaf_pool::{Format, KeyType, Pool, Record};

persistent! {
    struct Slots {
        records: [PCell<PPtr<Record>>; 64],
    }
}

fn pool() -> Arc<Pool<Interleaved>> {
    let region = Region::anonymous(1 << 20, 1 << 20).unwrap();
    let media = Interleaved::new(Mapped::new(region, &Cpu::detect()).unwrap());
    let format = Format { engine: "test".into(), key_type: KeyType::Bytes, parameters: [0; 8] };
    Pool::create(media, &format).unwrap()
}

#[test]
fn a_block_of_a_batch_that_ends_while_another_looks_for_room_stays_the_batchs() {
    let pool = pool();
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
    pool.media().after_next(Access::Load, batch_ends);
    other.alloc_record_into(&slots.records[3], &[&[5; 1000]]).unwrap();
    assert!(pool.media().has_interleaved());
    assert!(!staged.contains(&pool.media().load(&slots.records[3])), "the block is the batch's");
    for (record, byte) in staged.into_iter().zip([2, 3]) {
        assert_eq!(pool.pin().record(record).unwrap(), [byte; 1000]);
    }
    for (cell, record) in slots.records[4..].iter().zip(staged) {
        pool.media().store(cell, record);
    }
    assert_eq!(crate::common::audit(&pool, &slots.records), Default::default());
}
