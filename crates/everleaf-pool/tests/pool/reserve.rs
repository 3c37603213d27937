//! The reserve of a full pool: who gets it, and that it is whole again afterwards.

use everleaf_pmem::{Cpu, Mapped, Media, PPtr, Region, site};
use everleaf_pool::{
    Audit, EpochWorker, Format, KeyType, NodeKind, Pool, PoolError, Record, SpaceUsage, Worker,
};

const KIND: NodeKind = NodeKind::new(3);

type HardwarePool = std::sync::Arc<Pool<Mapped>>;

fn created(bytes: u64) -> HardwarePool {
    let media = Mapped::new(Region::anonymous(bytes, bytes).unwrap(), &Cpu::detect()).unwrap();
    let format = Format { engine: "test".into(), key_type: KeyType::Bytes, parameters: [0; 8] };
    Pool::create(media, &format).unwrap()
}

fn link(
    worker: &mut Worker<Mapped>,
    old: PPtr<Record>,
    bytes: usize,
) -> Result<PPtr<Record>, PoolError> {
    let new = worker.begin_link(old, Some(&[&vec![7; bytes]]))?;
    worker.end_link(true)?;
    Ok(new)
}

/// Records of so many bytes until the pool is full.
fn fill(worker: &mut Worker<Mapped>, bytes: usize) -> Vec<PPtr<Record>> {
    let mut records = Vec::new();
    loop {
        match link(worker, PPtr::NULL, bytes) {
            Ok(record) => records.push(record),
            Err(PoolError::PoolFull { .. }) => return records,
            Err(error) => panic!("{error}"),
        }
    }
}

fn clean(pool: &HardwarePool, records: &[PPtr<Record>]) {
    let mut audit = Audit::new();
    records.iter().for_each(|record| audit.reach(record.offset()));
    let report = pool.finish_audit(audit);
    assert!(report.leaked_blocks == 0 && report.violations.is_empty(), "{report:?}");
}

fn in_chunks(space: SpaceUsage) -> u64 {
    space.free_bytes - space.free_in_blocks_bytes
}

#[test]
fn the_reserve_is_a_part_of_the_pool_within_limits_and_nothing_else_gets_it() {
    for (bytes, reserve) in [(64 << 10, 12 << 10), (1 << 20, 64 << 10), (16 << 20, 256 << 10)] {
        let pool = created(bytes);
        let mut worker = pool.worker().unwrap();
        let records = fill(&mut worker, 4000);
        assert!(matches!(fill(&mut worker, 10)[..], []), "no chunk for another size");
        assert!(worker.alloc_run(KIND, 4096, |_, _| Ok(())).is_err());
        let space = pool.space().unwrap();
        assert_eq!((in_chunks(space), space.reserve_bytes), (reserve, reserve), "{space:?}");
        clean(&pool, &records);
    }
}

#[test]
fn a_record_that_was_drawn_from_the_reserve_moves_to_the_place_of_the_one_before() {
    let pool = created(256 << 10);
    let mut worker = pool.worker().unwrap();
    let records = fill(&mut worker, 1000);
    let before = pool.space().unwrap();
    // Whichever sizes follow each other, and whichever worker has the chunks.
    let mut other = pool.worker().unwrap();
    for (at, bytes) in [(0, 1000), (1, 10), (5, 500), (0, 1000), (1, 999), (20, 1), (1, 10)] {
        let old = records[at];
        assert!(pool.takes_no_more(old, bytes as u64).unwrap());
        assert!(link(&mut other, old, bytes).is_err(), "the pool is full");
        let reserve = pool.draw_on_reserve();
        let place = reserve.keep(old).unwrap().unwrap();
        let drawn = link(&mut other, old, bytes).unwrap();
        assert!(pool.is_drawn(drawn).unwrap() && place.is_left().unwrap());
        let back = other.begin_return(drawn, &[&vec![8; bytes]], &place).unwrap();
        other.end_link(true).unwrap();
        drop(place);
        drop(reserve);
        assert_eq!(back, old, "at its place");
        assert_eq!(pool.space().unwrap(), before);
    }
    assert!(!pool.takes_no_more(records[0], 2000).unwrap());
    clean(&pool, &records);
}

#[test]
fn a_place_that_is_kept_goes_to_no_other_worker_and_is_free_when_it_is_let_go() {
    let pool = created(256 << 10);
    let mut worker = pool.worker().unwrap();
    let records = fill(&mut worker, 1000);
    let reserve = pool.draw_on_reserve();
    let place = reserve.keep(records[3]).unwrap().unwrap();
    worker.begin_link(records[3], None).unwrap();
    worker.end_link(true).unwrap();
    std::thread::scope(|scope| {
        let refused = scope.spawn(|| link(&mut pool.worker().unwrap(), PPtr::NULL, 1000));
        assert!(refused.join().unwrap().is_err(), "neither the place nor the reserve");
    });
    assert!(place.is_left().unwrap());
    drop(place);
    drop(reserve);
    assert_eq!(fill(&mut worker, 1000), [records[3]]);
    clean(&pool, &records);
}

#[test]
fn a_place_that_is_read_is_not_left() {
    let pool = created(256 << 10);
    let mut worker = pool.worker().unwrap();
    let records = fill(&mut worker, 1000);
    let reserve = pool.draw_on_reserve();
    let place = reserve.keep(records[3]).unwrap().unwrap();
    let reader = pool.pin();
    let drawn = link(&mut worker, records[3], 1000).unwrap();
    assert!(!place.is_left().unwrap());
    drop(reader);
    assert!(place.is_left().unwrap());
    assert!(!pool.is_drawn(worker.begin_return(drawn, &[b"new"], &place).unwrap()).unwrap());
    worker.end_link(true).unwrap();
    drop(place);
    drop(reserve);
    clean(&pool, &records);
}

#[test]
fn the_log_of_a_batch_of_removals_comes_from_the_reserve() {
    let pool = created(1 << 20);
    let mut worker = pool.worker().unwrap();
    let mut records = fill(&mut worker, 200);
    for removed in [2, 100, 2000] {
        let before = in_chunks(pool.space().unwrap());
        let reserve = pool.draw_on_reserve();
        let gone = records.split_off(records.len() - removed);
        worker.begin_batch();
        gone.iter().for_each(|old| _ = worker.stage(*old, None).unwrap());
        worker.log_batch().unwrap();
        worker.commit_batch().unwrap();
        worker.settle_batch(true).unwrap();
        drop(reserve);
        assert!(in_chunks(pool.space().unwrap()) >= before);
    }
    clean(&pool, &records);
}

#[test]
fn an_epoch_draws_a_record_and_its_log_and_gives_both_back() {
    let pool = created(256 << 10);
    let mut worker = EpochWorker::new(pool.worker().unwrap()).unwrap();
    let mut epoch = 0;
    let mut end = |worker: &mut EpochWorker<Mapped>| {
        epoch += 1;
        worker.prepare(epoch).unwrap();
        pool.media().fence(site!("reserve.fence"));
        pool.commit_epoch(epoch).unwrap();
        worker.finish().unwrap();
        worker.release_spare_log().unwrap();
    };
    let mut records = Vec::new();
    while let Ok(record) = worker.alloc_record(&[&[7; 1000]]) {
        records.push(record);
    }
    end(&mut worker);
    while let Ok(record) = worker.alloc_record(&[&[7; 1000]]) {
        records.push(record);
        end(&mut worker);
    }
    let before = in_chunks(pool.space().unwrap());
    for at in [0, 7, 0] {
        let reserve = pool.draw_on_reserve();
        let place = reserve.keep(records[at]).unwrap().unwrap();
        let drawn = worker.alloc_record(&[&[8; 900]]).unwrap();
        worker.retire(records[at]).unwrap();
        assert!(pool.is_drawn(drawn).unwrap() && !place.is_left().unwrap());
        end(&mut worker);
        assert!(place.is_left().unwrap());
        let back = worker.alloc_record_at(&[&[8; 900]], &place).unwrap();
        worker.retire(drawn).unwrap();
        end(&mut worker);
        assert_eq!(back, records[at]);
    }
    assert!(in_chunks(pool.space().unwrap()) >= before);
    clean(&pool, &records);
}
