//! Records that are lent: what is freed meanwhile is not used again before they are given back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use everleaf_pmem::{Cpu, Mapped, Media, PCell, PPtr, Region, persistent};
use everleaf_pool::{Format, KeyType, Pool, PoolError, Record};

persistent! {
    struct Slots {
        records: [PCell<PPtr<Record>>; 64],
    }
}

fn pool(bytes: u64) -> Arc<Pool<Mapped>> {
    let format = Format { engine: "test".into(), key_type: KeyType::Bytes, parameters: [0; 8] };
    let region = Region::anonymous(bytes, bytes).unwrap();
    Pool::create(Mapped::new(region, &Cpu::detect()).unwrap(), &format).unwrap()
}

fn clean(pool: &Pool<Mapped>) {
    let slots = pool.index_root::<Slots>().unwrap();
    assert_eq!(crate::common::audit(pool, &slots.records), Default::default());
}

#[test]
fn what_is_lent_does_not_change_although_it_is_freed() {
    // Blocks that share a chunk, a chunk of their own, runs; freed by exchanges, links and batches.
    for bytes in [40, 1000, 4000, 9000] {
        for how in 0..3 {
            let pool = pool(256 << 10);
            let cells = &pool.index_root::<Slots>().unwrap().records;
            let mut worker = pool.worker().unwrap();
            worker.alloc_record_into(&cells[0], &[&vec![1; bytes]]).unwrap();
            let old = pool.media().load(&cells[0]);
            let records = pool.pin();
            let lent = records.record(old).unwrap();
            match how {
                0 => worker.free_from(&cells[0]).unwrap(),
                1 => {
                    worker.begin_link(old, None).unwrap();
                    pool.media().store(&cells[0], PPtr::NULL);
                    worker.end_link(true).unwrap();
                }
                _ => {
                    worker.begin_batch();
                    worker.stage(old, None).unwrap();
                    worker.log_batch().unwrap();
                    worker.commit_batch().unwrap();
                    pool.media().store(&cells[0], PPtr::NULL);
                    worker.settle_batch(true).unwrap();
                }
            }
            // Everything that is left is used, by this worker and another.
            let mut other = pool.worker().unwrap();
            let filled = cells[1..]
                .iter()
                .take_while(|cell| {
                    let new = vec![2; bytes.max(1000)];
                    worker.alloc_record_into(cell, &[&new]).is_ok()
                        || other.alloc_record_into(cell, &[&new]).is_ok()
                })
                .count();
            assert!(filled > 10 || bytes > 4000 && filled > 5, "{filled}");
            assert!(lent.iter().all(|byte| *byte == 1), "{bytes} bytes, freed by way {how}");
            clean(&pool);
            drop(records);
            cells[1..].iter().for_each(|cell| worker.free_from(cell).unwrap());
            drop((worker, other));
            let space = pool.space().unwrap();
            assert_eq!(space.free_in_blocks_bytes, 0, "all of it came back: {space:?}");
            clean(&pool);
        }
    }
}

#[test]
fn a_full_pool_gets_back_what_is_read_no_more() {
    let pool = pool(64 << 10);
    let cells = &pool.index_root::<Slots>().unwrap().records;
    let mut worker = pool.worker().unwrap();
    let fill = |worker: &mut everleaf_pool::Worker<Mapped>| {
        let filled = |cell| worker.alloc_record_into(cell, &[&[7; 4000]]).is_ok();
        cells.iter().map(filled).take_while(|filled| *filled).count()
    };
    let free = |worker: &mut everleaf_pool::Worker<Mapped>| {
        cells.iter().for_each(|cell| worker.free_from(cell).unwrap());
    };
    let most = fill(&mut worker);
    let mut records = pool.pin();
    free(&mut worker);
    let refused = worker.alloc_record_into(&cells[0], &[&[7; 4000]]);
    let Err(PoolError::Held { bytes }) = refused else { panic!("{refused:?}") };
    assert_eq!(bytes, most as u64 * 4096, "all that was freed waits for the reader");
    records.renew();
    assert_eq!(fill(&mut worker), most, "a new guard does not read what was freed before it");
    free(&mut worker);
    drop(records);
    assert_eq!(fill(&mut worker), most);
    clean(&pool);
}

#[test]
fn threads_read_what_others_replace() {
    let pool = pool(1 << 20);
    let cells = &pool.index_root::<Slots>().unwrap().records;
    let stop = AtomicBool::new(false);
    let content = |round: u64, bytes: usize| vec![(round * 31) as u8; bytes];
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut read = 0_u64;
                while !stop.load(Ordering::Relaxed) || read < 1000 {
                    let records = pool.pin();
                    let cell = &cells[(read % 4) as usize];
                    read += 1;
                    // Replaced by one store: the cell always leads to a whole record.
                    let pointer = pool.media().load(cell);
                    if pointer.is_null() {
                        continue;
                    }
                    let record = records.record(pointer).unwrap();
                    let first = record[0];
                    assert!(record.iter().all(|byte| *byte == first));
                    assert_eq!(records.record(pointer).unwrap(), record);
                }
            });
        }
        let mut worker = pool.worker().unwrap();
        for round in 0..40_000 {
            let cell = &cells[(round % 4) as usize];
            let bytes = [20, 60, 500, 5000][(round / 7 % 4) as usize];
            let old = pool.media().load(cell);
            let content = content(round, bytes);
            // A reader may be without a processor for longer than this thread waits for it.
            let new = loop {
                match worker.begin_link(old, Some(&[&content])) {
                    Ok(new) => break new,
                    Err(error) if error.is_full() => std::thread::yield_now(),
                    Err(error) => {
                        stop.store(true, Ordering::Relaxed);
                        panic!("{error}");
                    }
                }
            };
            pool.media().store(cell, new);
            worker.end_link(true).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    clean(&pool);
    let mut worker = pool.worker().unwrap();
    cells[..4].iter().for_each(|cell| worker.free_from(cell).unwrap());
    drop(worker);
    let space = pool.space().unwrap();
    assert_eq!(space.free_in_blocks_bytes, 0, "{space:?}");
}

/// What a batch frees while it is read comes back once, whoever finds that it is read no more.
#[test]
fn chunks_that_a_batch_frees_come_back_once_while_other_threads_reclaim() {
    let pool = pool(1 << 20);
    let cells = &pool.index_root::<Slots>().unwrap().records[..4];
    let stop = AtomicBool::new(false);
    let mut worker = pool.worker().unwrap();
    let before = pool.space().unwrap().free_bytes;
    let replace = |worker: &mut everleaf_pool::Worker<Mapped>, parts: Option<&[&[u8]]>| {
        worker.begin_batch();
        let olds = cells.iter().map(|cell| pool.media().load(cell));
        let news: Vec<_> = olds.map(|old| worker.stage(old, parts)).collect();
        let logged = worker.log_batch();
        if logged.is_err() || news.iter().any(Result::is_err) {
            worker.abandon_batch().unwrap(); // The reader is without a processor.
            return;
        }
        worker.commit_batch().unwrap();
        for (cell, new) in cells.iter().zip(news) {
            pool.media().store(cell, new.unwrap());
        }
        worker.settle_batch(true).unwrap();
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                drop(pool.pin());
            }
        });
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    pool.space().unwrap();
                }
            });
        }
        (0..20_000).for_each(|_| replace(&mut worker, Some(&[&[7; 5000]])));
        stop.store(true, Ordering::Relaxed);
    });
    clean(&pool);
    replace(&mut worker, None);
    drop(worker);
    assert_eq!(pool.space().unwrap().free_bytes, before);
}

#[test]
fn more_guards_than_there_are_slots_hold_back_all_the_same() {
    let pool = pool(64 << 10);
    let cells = &pool.index_root::<Slots>().unwrap().records;
    let mut worker = pool.worker().unwrap();
    worker.alloc_record_into(&cells[0], &[&[1; 4000]]).unwrap();
    let mut guards: Vec<_> = (0..100).map(|_| pool.pin()).collect();
    let last = guards.pop().unwrap();
    let lent = last.record(pool.media().load(&cells[0])).unwrap();
    worker.free_from(&cells[0]).unwrap();
    drop(guards);
    while cells
        .iter()
        .filter(|cell| pool.media().load(cell).is_null())
        .take(1)
        .any(|cell| worker.alloc_record_into(cell, &[&[2; 4000]]).is_ok())
    {}
    assert!(lent.iter().all(|byte| *byte == 1));
}
