//! Growth: in portions, in few extents, and what of it is there after a crash.

use std::path::Path;
use std::sync::Arc;

use crate::common::KIND;
use everleaf_pmem::{Cpu, Mapped, Media, PCell, PPtr, Region, persistent};
use everleaf_pool::{Format, KeyType, OpenMode, Pool, PoolError, Record, create_file, open_file};

persistent! {
    struct Slots {
        records: [PCell<PPtr<Record>>; 512],
    }
}

const MIB: u64 = 1 << 20;
/// What a caller that needs little waits for at most.
const PORTION: u64 = 8 * MIB;

fn hardware(region: Region) -> Mapped {
    Mapped::new(region, &Cpu::detect()).unwrap()
}

fn created(region: Region) -> Arc<Pool<Mapped>> {
    Pool::create(
        hardware(region),
        &Format { engine: "test".into(), key_type: KeyType::Bytes, parameters: [0; 8] },
    )
    .unwrap()
}

fn created_at(path: &Path) -> Arc<Pool<Mapped>> {
    create_file(path, MIB, 1 << 30, |region| Ok::<_, PoolError>(created(region))).unwrap()
}

fn opened(path: &Path) -> Arc<Pool<Mapped>> {
    Pool::open(hardware(open_file(path, OpenMode::ReadWrite).unwrap())).unwrap().0
}

fn clean(pool: &Pool<Mapped>) {
    assert_eq!(
        crate::common::audit(pool, &pool.index_root::<Slots>().unwrap().records),
        Default::default()
    );
}

/// Takes runs until the pool has so many bytes; the sizes that it has had.
fn grow(pool: &Arc<Pool<Mapped>>, run_bytes: u64, to_bytes: u64) -> Vec<u64> {
    let mut worker = pool.worker().unwrap();
    let mut sizes = vec![pool.media().region().len()];
    while *sizes.last().unwrap() < to_bytes {
        worker.alloc_run(KIND, run_bytes, |_, _| Ok(())).unwrap();
        let size = pool.media().region().len();
        if size != *sizes.last().unwrap() {
            sizes.push(size);
        }
    }
    sizes
}

#[test]
fn a_pool_grows_in_portions_and_takes_few_places_for_extents() {
    // The runs are not touched, so this takes little memory.
    let pool = created(Region::anonymous(MIB, 16 << 30).unwrap());
    let sizes = grow(&pool, 100 << 10, 8 << 30);
    let steps = || sizes.windows(2).map(|pair| (pair[0], pair[1] - pair[0]));
    assert!(
        steps().all(|(from, step)| step <= PORTION && step >= (from / 16).min(PORTION / 2)),
        "{sizes:?}"
    );
    let doubled = |(from, step): (u64, u64)| from >= 16 * MIB || step == from.min(PORTION);
    assert!(steps().all(doubled), "a small pool doubles: {sizes:?}");
    assert!(
        steps()
            .filter(|(from, _)| *from >= 64 * MIB)
            .all(|(from, step)| (from + step) % (2 * MIB) == 0),
        "whole huge pages"
    );
    let header = pool.media().region().cells(256, 456).unwrap();
    let places =
        header.iter().filter(|cell| pool.media().load(cell) & 0xffff_ffff_ffff != 0).count();
    assert!(places < 140, "{places} places at 8 GiB: they must do for terabytes");
    clean(&pool);
}

#[test]
fn a_pool_that_was_cut_off_between_two_portions_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.pool");
    let pool = created_at(&path);
    let mut reached = Vec::new();
    let mut pool = Some(pool);
    for to_bytes in [2, 3, 5, 9, 17, 25, 33].map(|size| size * MIB) {
        let before = pool.take().unwrap();
        grow(&before, 20_000, to_bytes);
        let (runs, space) = (before.runs(KIND).unwrap(), before.space().unwrap());
        drop(before); // It is not closed.
        assert_eq!(
            std::fs::metadata(&path).unwrap().len(),
            space.total_bytes,
            "the file is as long as the pool, all of it allocated"
        );
        let after = opened(&path);
        assert_eq!((after.runs(KIND).unwrap(), after.space().unwrap()), (runs, space));
        clean(&after);
        reached.push(crate::common::extents(&path));
        pool = Some(after);
    }
    assert!(
        reached.iter().any(|extents| extents.last().unwrap().1 > 0),
        "the table of the last extent had lines for more: {reached:?}"
    );
    let longer = |pair: &[Vec<_>]| pair[0].len() == pair[1].len() && pair[0] != pair[1];
    assert!(reached.windows(2).any(longer), "an extent became longer where it was: {reached:?}");
}

#[test]
fn what_a_growth_that_was_cut_off_left_behind_is_used_by_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.pool");
    let pool = created_at(&path);
    grow(&pool, 20_000, 16 * MIB + 1);
    let (extents, length) =
        (crate::common::extents(&path), std::fs::metadata(&path).unwrap().len());
    drop(pool);
    // The file was longer already, and the lines of the new chunks held anything.
    let (_, table) = *extents.last().unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let start = 16 * MIB as usize;
    let lines = (length as usize - start) / 4096 * 64;
    bytes[start + lines..start + table as usize * 4096].fill(0xa5);
    bytes.resize(32 * MIB as usize, 0xa5);
    std::fs::write(&path, bytes).unwrap();
    let pool = opened(&path);
    clean(&pool);
    grow(&pool, 20_000, 33 * MIB);
    clean(&pool);
    drop(pool);
    clean(&opened(&path));
}

#[test]
fn a_run_that_is_larger_than_any_extent_before_it_takes_no_more_than_it_needs() {
    for run_bytes in [16 * MIB, 64 * MIB, 200 * MIB] {
        let pool = created(Region::anonymous(64 << 10, 1 << 30).unwrap());
        let mut worker = pool.worker().unwrap();
        worker.alloc_run(KIND, run_bytes, |_, _| Ok(())).unwrap();
        let total_bytes = pool.space().unwrap().total_bytes;
        assert!(
            total_bytes < run_bytes / 60 * 61 + 4 * MIB,
            "{total_bytes} for a run of {run_bytes}"
        );
        clean(&pool);
    }
}

#[test]
fn a_pool_that_may_not_grow_further_is_used_to_the_end_but_for_its_reserve() {
    for max_bytes in [5 * MIB, 5 * MIB + 4096, 5 * MIB + 300 * 1024] {
        let pool = created(Region::anonymous(MIB, max_bytes).unwrap());
        let mut worker = pool.worker().unwrap();
        let refused = loop {
            if let Err(error) = worker.alloc_run(KIND, 4096, |_, _| Ok(())) {
                break error;
            }
        };
        assert!(matches!(refused, PoolError::PoolFull { requested_bytes: 4096 }), "{refused}");
        let space = pool.space().unwrap();
        assert!(space.total_bytes + 3 * 4096 > max_bytes, "{space:?}");
        assert_eq!((space.free_bytes, space.reserve_bytes), (256 << 10, 256 << 10), "{space:?}");
        clean(&pool);
    }
}
