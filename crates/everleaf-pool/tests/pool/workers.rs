//! Many workers at a time: whose blocks are whose, and what becomes of the chunks that they came
//! by.

use std::sync::{Arc, Mutex};

use everleaf_pmem::{Cpu, Mapped, Media, PCell, PPtr, Region, persistent};
use everleaf_pool::{Format, KeyType, Pool, Record, Worker};

persistent! {
    struct Slots {
        records: [PCell<PPtr<Record>>; 64],
    }
}

fn pool(max_bytes: u64) -> Arc<Pool<Mapped>> {
    let format = Format { engine: "test".into(), key_type: KeyType::Bytes, parameters: [0; 8] };
    let region = Region::anonymous(64 << 10, max_bytes).unwrap();
    Pool::create(Mapped::new(region, &Cpu::detect()).unwrap(), &format).unwrap()
}

fn clean(pool: &Pool<Mapped>) {
    assert_eq!(
        crate::common::audit(pool, &pool.index_root::<Slots>().unwrap().records),
        Default::default()
    );
}

/// Fills cells with records of a chunk each until the pool is full, and frees them.
fn chunks_to_be_had(pool: &Pool<Mapped>, worker: &mut Worker<Mapped>) -> usize {
    let slots = pool.index_root::<Slots>().unwrap();
    let had = slots
        .records
        .iter()
        .take_while(|cell| worker.alloc_record_into(cell, &[&[7; 4000]]).is_ok())
        .count();
    slots.records.iter().for_each(|cell| worker.free_from(cell).unwrap());
    had
}

#[test]
fn what_an_idle_worker_came_by_is_taken_back_where_memory_runs_out() {
    let pool = pool(64 << 10);
    let slots = pool.index_root::<Slots>().unwrap();
    let fresh = chunks_to_be_had(&pool, &mut pool.worker().unwrap());
    assert!((8..16).contains(&fresh));
    let mut idle = pool.worker().unwrap();
    // Four records fill a chunk.
    let mut filled = 0;
    while filled < 64 && idle.alloc_record_into(&slots.records[filled], &[&[1; 1000]]).is_ok() {
        filled += 1;
    }
    assert!(filled > 4 * (fresh - 2), "{filled}");
    slots.records.iter().for_each(|cell| idle.free_from(cell).unwrap());
    clean(&pool);
    let had = chunks_to_be_had(&pool, &mut pool.worker().unwrap());
    assert!(
        had >= fresh - 1,
        "{had} of {fresh}: only the chunk that the idle worker allocates from is kept"
    );
    drop(idle);
    assert_eq!(chunks_to_be_had(&pool, &mut pool.worker().unwrap()), fresh);
}

#[test]
fn what_a_worker_freed_that_is_gone_is_any_workers_when_it_is_no_longer_read() {
    let pool = pool(64 << 10);
    let slots = pool.index_root::<Slots>().unwrap();
    let mut worker = pool.worker().unwrap();
    // Four records fill a chunk; the fifth makes the worker let go of it.
    for cell in &slots.records[..5] {
        worker.alloc_record_into(cell, &[&[1; 1000]]).unwrap();
    }
    let reader = pool.pin();
    slots.records[..5].iter().for_each(|cell| worker.free_from(cell).unwrap());
    drop(worker);
    drop(reader);
    let space = pool.space().unwrap();
    assert_eq!(space.free_in_blocks_bytes, 0, "no chunk stays with the worker: {space:?}");
}

#[test]
fn threads_never_get_each_others_blocks_and_all_memory_comes_back() {
    threads_share_a_pool(4, 1 << 20);
}

#[test]
fn many_threads_never_get_each_others_blocks_where_memory_is_scarce() {
    threads_share_a_pool(16, 256 << 10);
}

fn threads_share_a_pool(threads: u64, max_bytes: u64) {
    const TURNS: u64 = 50_000;
    let pool = pool(max_bytes);
    let slots = pool.index_root::<Slots>().unwrap();
    let fresh = chunks_to_be_had(&pool, &mut pool.worker().unwrap());
    // The thread that has the lock of a cell fills it, or compares it with what it was filled with
    // and empties it.
    let contents: Vec<Mutex<Option<Vec<u8>>>> =
        slots.records.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (pool, contents) = (&pool, &contents);
            scope.spawn(move || {
                let mut worker = pool.worker().unwrap();
                let mut random = thread + 1;
                for turn in 0..TURNS {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    let at = (random >> 8) as usize % contents.len();
                    let mut content = contents[at].lock().unwrap();
                    let cell = &slots.records[at];
                    match content.take() {
                        Some(content) => {
                            assert_eq!(
                                pool.pin().record(pool.media().load(cell)).unwrap(),
                                content,
                                "thread {thread}, turn {turn}"
                            );
                            worker.free_from(cell).unwrap();
                        }
                        None => {
                            let bytes =
                                [20, 50, 500, 1500, 3000, 9000][(random >> 32) as usize % 6];
                            let new: Vec<u8> =
                                (0..bytes).map(|i| (i ^ turn ^ thread << 6) as u8).collect();
                            match worker.alloc_record_into(cell, &[&new]) {
                                Ok(()) => *content = Some(new),
                                Err(error) if error.is_full() => {}
                                Err(error) => panic!("{error}"),
                            }
                        }
                    }
                }
            });
        }
    });
    clean(&pool);
    let mut worker = pool.worker().unwrap();
    slots.records.iter().for_each(|cell| worker.free_from(cell).unwrap());
    drop(worker);
    clean(&pool);
    let space = pool.space().unwrap();
    assert_eq!(space.free_in_blocks_bytes, 0, "no chunk stays behind: {space:?}");
    assert!(chunks_to_be_had(&pool, &mut pool.worker().unwrap()) >= fresh);
}

#[test]
fn a_batch_takes_a_block_that_was_freed_before_those_it_has_taken() {
    let pool = pool(1 << 20);
    let slots = pool.index_root::<Slots>().unwrap();
    let (mut batching, mut freeing) = (pool.worker().unwrap(), pool.worker().unwrap());
    // Four records fill a chunk, which stays the worker's.
    slots.records[..4]
        .iter()
        .for_each(|cell| batching.alloc_record_into(cell, &[&[1; 1000]]).unwrap());
    freeing.free_from(&slots.records[2]).unwrap();
    batching.begin_batch();
    let first = batching.stage(PPtr::at(0), Some(&[&[2; 1000]])).unwrap();
    freeing.free_from(&slots.records[0]).unwrap();
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let second = batching.stage(PPtr::at(0), Some(&[&[3; 1000]])).unwrap();
        batching.abandon_batch().unwrap();
        done.send(second).unwrap();
    });
    let second = is_done
        .recv_timeout(std::time::Duration::from_secs(20))
        .expect("the search for a block ends");
    assert_ne!(first, second);
}

#[test]
fn no_thread_finds_a_pool_full_that_another_thread_has_just_let_grow() {
    // 12 chunks at first, and 15 more when it has grown once: one for each thread.
    const THREADS: usize = 20;
    const ROUNDS: usize = 500;
    for round in 0..ROUNDS {
        let pool = pool(128 << 10);
        let barrier = std::sync::Barrier::new(THREADS);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (pool, barrier) = (&pool, &barrier);
                scope.spawn(move || {
                    let cell = &pool.index_root::<Slots>().unwrap().records[thread];
                    let mut worker = pool.worker().unwrap();
                    barrier.wait();
                    let allocated = worker.alloc_record_into(cell, &[&[7; 4000]]);
                    allocated.unwrap_or_else(|error| panic!("round {round}: {error}"));
                });
            }
        });
    }
}
