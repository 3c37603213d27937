//! The pool from outside: allocation, growth, reopening, refusals, damage.

use std::path::Path;
use std::sync::Arc;

use crate::common::KIND;
use everleaf_pmem::{Cpu, Mapped, Mapping, Media, PCell, PPtr, Region, persistent};
use everleaf_pool::{
    Audit, Format, KeyType, Node, NodeKind, OpenMode, Pool, PoolError, Record, RootName, Shutdown,
    create_file, open_file,
};

persistent! {
    struct Slots {
        records: [PCell<PPtr<Record>>; 64],
    }

    struct Small {
        words: [PCell; 8],
    }
}

impl Node for Small {
    const KIND: NodeKind = KIND;
}

impl Node for Slots {
    const KIND: NodeKind = KIND;
}

fn format() -> Format {
    Format { engine: "test".into(), key_type: KeyType::Bytes, parameters: [1, 2, 3, 4, 5, 6, 7, 8] }
}

fn pool(bytes: u64, max_bytes: u64) -> Arc<Pool<Mapped>> {
    let region = Region::anonymous(bytes, max_bytes).unwrap();
    Pool::create(Mapped::new(region, &Cpu::detect()).unwrap(), &format()).unwrap()
}

fn audit(pool: &Pool<Mapped>) -> everleaf_pool::AuditReport {
    crate::common::audit(pool, &pool.index_root::<Slots>().unwrap().records)
}

fn clean(pool: &Pool<Mapped>) {
    assert_eq!(audit(pool), Default::default());
}

#[test]
fn records_of_every_size_are_written_read_and_freed() {
    let pool = pool(64 << 10, 64 << 20);
    let slots = pool.index_root::<Slots>().unwrap();
    let mut worker = pool.worker().unwrap();
    for size in
        (0..300).chain([1000, 2039, 2040, 2041, 4087, 4088, 4089, 10_000, 1_000_000, 9_000_000])
    {
        let cell = &slots.records[size % 64];
        worker.free_from(cell).unwrap();
        let bytes: Vec<u8> = (0..size).map(|i| (i * 7 + size) as u8).collect();
        let (left, right) = bytes.split_at(size / 3);
        worker.alloc_record_into(cell, &[left, b"", right]).unwrap();
        assert_eq!(pool.pin().record(pool.media().load(cell)).unwrap(), bytes);
        clean(&pool);
    }
    for cell in &slots.records {
        worker.free_from(cell).unwrap();
    }
    drop(worker);
    clean(&pool);
    let space = pool.space().unwrap();
    assert!(space.used_bytes < space.total_bytes / 20, "everything was freed: {space:?}");
}

/// Nodes of several sizes, runs of nodes and of records, and chunks that were given back and became
/// the inside of a run.
#[test]
fn the_parts_of_the_table_together_hold_every_node_once() {
    let pool = pool(1 << 20, 4 << 20);
    let slots = pool.index_root::<Slots>().unwrap();
    let mut worker = pool.worker().unwrap();
    for (i, cell) in slots.records.iter().enumerate() {
        let bytes = [64, 1000, 2000][i % 3];
        worker.alloc_sized_node_into(cell.view::<PPtr<Small>>(), bytes).unwrap();
    }
    let nodes = slots.records[..40].iter().map(|cell| cell.view::<PPtr<Small>>());
    nodes.for_each(|cell| worker.free_from(cell).unwrap());
    for (i, cell) in slots.records[..40].iter().enumerate() {
        match i % 4 {
            0 => worker.alloc_record_into(cell, &[&[7; 30_000]]).unwrap(),
            1 => worker.alloc_sized_node_into(cell.view::<PPtr<Small>>(), 20_000).unwrap(),
            2 => worker.alloc_sized_node_into(cell.view::<PPtr<Small>>(), 256).unwrap(),
            _ => worker.alloc_record_into(cell, &[b"short"]).unwrap(),
        }
    }
    let whole = pool.nodes(KIND).unwrap();
    let allocated =
        slots.records.iter().enumerate().filter(|(i, _)| *i >= 40 || matches!(i % 4, 1 | 2));
    let mut allocated: Vec<u64> =
        allocated.map(|(_, cell)| pool.media().load(cell).offset()).collect();
    allocated.sort_unstable();
    assert_eq!(whole, allocated);
    for parts in [1, 2, 3, 7, 64, 1000, 100_000] {
        let mut found = Vec::new();
        for part in pool.table_parts(parts) {
            pool.for_each_node_in(KIND, &part, |offset| found.push(offset)).unwrap();
        }
        assert_eq!(found, whole, "{parts} parts");
    }
    let places_of = |nodes: &[u64]| {
        nodes.iter().map(|node| node / 4096).collect::<std::collections::BTreeSet<_>>()
    };
    let all_places = places_of(&whole);
    assert!(all_places.len() > 8);
    for places in [1, 2, 5, 8, 64, usize::MAX] {
        let some = pool.sample_nodes(KIND, places);
        assert!(
            some.is_sorted_by(|a, b| a < b) && some.iter().all(|node| whole.contains(node)),
            "{places}: {some:?}"
        );
        let found = places_of(&some);
        assert!(
            (places.min(all_places.len()) / 2..=places).contains(&found.len()) && !found.is_empty(),
            "{places}: {found:?}"
        );
        let of_each =
            found.iter().map(|place| some.iter().filter(|node| *node / 4096 == *place).count());
        assert_eq!(of_each.max(), Some(4), "a few of each place: {some:?}");
    }
    assert_eq!(places_of(&pool.sample_nodes(KIND, usize::MAX)), all_places);
}

#[test]
fn nodes_of_two_chunks_are_sampled_wherever_they_begin() {
    for (first, bytes) in
        [(None, 64 << 20), (Some(64), 64 << 20), (Some(64), 65 << 20), (Some(64), 2 << 20)]
    {
        let pool = pool(bytes, bytes);
        let mut worker = pool.worker().unwrap();
        let cell = &pool.index_root::<Slots>().unwrap().records[0];
        let mut fill = |node_bytes| {
            worker
                .alloc_sized_node_into(cell.view::<PPtr<Small>>(), node_bytes)
                .map(|()| pool.media().store(cell, PPtr::NULL))
        };
        first.into_iter().for_each(|node_bytes| fill(node_bytes).unwrap());
        while fill(6848).is_ok() {}
        let sampled = pool.sample_nodes(KIND, 64).len();
        assert!((32..=64).contains(&sampled), "{sampled} in {bytes} bytes, the first of {first:?}");
    }
}

#[test]
fn a_full_pool_refuses_and_serves_again_after_a_release() {
    let pool = pool(64 << 10, 64 << 10);
    let slots = pool.index_root::<Slots>().unwrap();
    let mut worker = pool.worker().unwrap();
    let big = vec![7; 4000];
    let filled = slots
        .records
        .iter()
        .take_while(|cell| worker.alloc_record_into(cell, &[&big]).is_ok())
        .count();
    assert!((8..16).contains(&filled), "{filled}");
    let refused = worker.alloc_record_into(&slots.records[filled], &[&big]);
    assert!(matches!(refused, Err(PoolError::PoolFull { .. })));
    clean(&pool);
    worker.free_from(&slots.records[0]).unwrap();
    worker.alloc_record_into(&slots.records[filled], &[&big]).unwrap();
    clean(&pool);
}

#[test]
fn runs_grow_the_pool_and_are_listed() {
    let pool = pool(64 << 10, 256 << 20);
    let mut worker = pool.worker().unwrap();
    let runs: Vec<_> =
        (0..40).map(|_| worker.alloc_run(KIND, 1 << 20, |_, _| Ok(())).unwrap()).collect();
    assert_eq!(pool.runs(KIND).unwrap().len(), 40);
    for run in &runs {
        pool.node::<Slots>(PPtr::at(run.offset)).unwrap();
        pool.node::<Slots>(PPtr::at(run.offset + run.bytes - 512)).unwrap();
        assert!(pool.node::<Slots>(PPtr::at(run.offset + 8)).is_err(), "misaligned");
        assert!(pool.pin().record(PPtr::at(run.offset)).is_err(), "a node is no record");
    }
    clean(&pool);
    for run in &runs[..20] {
        worker.free_run(KIND, run.offset).unwrap();
        assert!(pool.node::<Slots>(PPtr::at(run.offset)).is_err());
    }
    assert_eq!(pool.runs(KIND).unwrap().len(), 20);
    assert!(worker.free_run(KIND, runs[0].offset).is_err(), "freed twice");
}

const OTHER: NodeKind = NodeKind::new(5);

persistent! {
    struct OfOther {
        words: [PCell; 16],
    }
}

impl Node for OfOther {
    const KIND: NodeKind = OTHER;
}

#[test]
fn structures_that_share_a_pool_never_reach_each_others_nodes() {
    let pool = pool(1 << 20, 1 << 20);
    let cells = &pool.index_root::<Slots>().unwrap().records;
    let mut worker = pool.worker().unwrap();
    let (ours, theirs) = (cells[0].view::<PPtr<Small>>(), cells[1].view::<PPtr<OfOther>>());
    worker.alloc_node_into(ours).unwrap();
    worker.alloc_sized_node_into(theirs, 192).unwrap();
    let [our_run, their_run] =
        [KIND, OTHER].map(|kind| worker.alloc_run(kind, 8192, |_, _| Ok(())).unwrap().offset);
    let our_node = pool.media().load(ours);
    let their_node = pool.media().load(theirs);
    pool.node(our_node).unwrap();
    pool.node(their_node).unwrap();
    let refused = |offset, what: &str| {
        let found = pool.node::<OfOther>(PPtr::at(offset)).map(|_| ());
        assert!(matches!(found, Err(PoolError::Corrupt { .. })), "{what}: {found:?}");
    };
    refused(our_node.offset(), "a node of another kind");
    refused(their_node.offset() + 64, "the inside of a block");
    refused(our_run, "a run of another kind");
    refused(their_run + 8192 - 64, "a node that reaches beyond its run");
    pool.node::<OfOther>(PPtr::at(their_run + 4096 - 64)).expect("anywhere in a run");
    // A block that is too small for the type, although it is of the kind.
    persistent! {
        struct Large {
            words: [PCell; 32],
        }
    }
    impl Node for Large {
        const KIND: NodeKind = OTHER;
    }
    assert!(pool.node::<Large>(their_node.cast()).is_err());

    assert_eq!((pool.nodes(KIND).unwrap().len(), pool.nodes(OTHER).unwrap().len()), (2, 2));
    assert_eq!(pool.runs(OTHER).unwrap()[0].offset, their_run);
    assert!(worker.free_run(KIND, their_run).is_err(), "not ours");
    let as_ours = cells[1].view::<PPtr<Small>>();
    assert!(worker.free_from(as_ours).is_err(), "a node of another kind");
    assert!(worker.free_from(&cells[0]).is_err(), "no record");
    worker.free_from(theirs).unwrap();
    worker.free_from(ours).unwrap();
    worker.free_run(KIND, our_run).unwrap();
    worker.free_run(OTHER, their_run).unwrap();
    drop(worker);
    assert_eq!(pool.finish_audit(Audit::new()), Default::default());
}

#[test]
fn roots_are_found_by_their_names_and_stay() {
    const LOG: RootName = RootName::new("log");
    const IMAGE: RootName = RootName::new("image");
    const MARK: RootName = RootName::new("mark");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p.pool");
    let pool = create(&path, 64 << 10, 1 << 20).unwrap();
    let found = pool.root::<Slots>(LOG).map(|_| ());
    assert!(matches!(found, Err(PoolError::NoRoot { name }) if name == LOG), "{found:?}");
    let mut worker = pool.worker().unwrap();
    worker.create_root::<Slots>(LOG).unwrap();
    worker.create_root::<OfOther>(IMAGE).unwrap();
    assert!(!pool.has_root(MARK));
    pool.set_mark(MARK).unwrap();
    pool.set_mark(MARK).expect("it is there");
    pool.media().store(pool.root::<Slots>(LOG).unwrap().records[63].as_word(), 77);
    worker.create_root::<Slots>(LOG).expect("it is there");
    let refused = worker.create_root::<Slots>(IMAGE);
    assert!(matches!(refused, Err(PoolError::TooLarge { bytes: 512, .. })), "{refused:?}");
    let (log, index) = (pool.root::<Slots>(LOG).unwrap(), pool.index_root::<Slots>().unwrap());
    assert_eq!(pool.media().load(log.records[63].as_word()), 77);
    assert!(std::ptr::eq(pool.root::<Slots>(RootName::INDEX).unwrap(), index));
    assert!(log.records[..63].iter().all(|cell| pool.media().load(cell).is_null()), "zeros");
    clean(&pool);
    drop(worker);
    drop(pool);
    let pool = Pool::open(hardware(open_file(&path, OpenMode::ReadWrite).unwrap())).unwrap().0;
    let log = pool.root::<Slots>(LOG).unwrap();
    assert_eq!(pool.media().load(log.records[63].as_word()), 77);
    pool.root::<OfOther>(IMAGE).unwrap();
    assert!(pool.has_root(MARK));
    clean(&pool);
    let names = ["a", "b", "c", "d", "e", "f", "g", "abcdef"].map(RootName::new);
    let mut worker = pool.worker().unwrap();
    names.iter().for_each(|name| worker.create_root::<Small>(*name).unwrap());
    let refused = worker.create_root::<Small>(RootName::new("more"));
    assert!(matches!(refused, Err(PoolError::RootsExhausted { places: 12 })), "{refused:?}");
    let refused = pool.set_mark(RootName::new("more"));
    assert!(matches!(refused, Err(PoolError::RootsExhausted { places: 12 })), "{refused:?}");
    clean(&pool);
    drop(worker);
    pool.close().unwrap();
    drop(pool);
    // A damaged place is an error.
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[4096 - 192 + 24] ^= 64;
    std::fs::write(&path, bytes).unwrap();
    let refused = Pool::open(hardware(open_file(&path, OpenMode::ReadWrite).unwrap()));
    assert!(matches!(refused, Err(PoolError::Corrupt { .. })), "{:?}", refused.err());
}

#[test]
fn links_replace_records_wherever_they_are_kept() {
    let pool = pool(64 << 10, 1 << 20);
    let index = &pool.index_root::<Slots>().unwrap().records[0];
    let mut worker = pool.worker().unwrap();
    let mut set = |parts: Option<&[&[u8]]>, changes: bool| {
        let new = worker.begin_link(pool.media().load(index), parts).unwrap();
        if changes {
            pool.media().store(index, new);
        }
        worker.end_link(changes).unwrap();
        clean(&pool);
    };
    set(Some(&[b"one"]), true);
    set(Some(&[b"two"]), false);
    assert_eq!(pool.pin().record(pool.media().load(index)).unwrap(), b"one");
    set(Some(&[b"three", &[0; 9000]]), true);
    set(Some(&[b"four"]), true);
    set(None, true);
    assert!(pool.media().load(index).is_null());
}

fn hardware(region: Region) -> Mapped {
    Mapped::new(region, &Cpu::detect()).unwrap()
}

fn create(path: &Path, bytes: u64, max_bytes: u64) -> Result<Arc<Pool<Mapped>>, PoolError> {
    create_file(path, bytes, max_bytes, |region| Pool::create(hardware(region), &format()))
}

#[test]
fn a_file_keeps_what_was_written_and_knows_how_it_was_left() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p.pool");
    let created = create(&path, 64 << 10, 64 << 20).unwrap();
    assert!(matches!(create(&path, 64 << 10, 64 << 10), Err(PoolError::Exists { .. })));
    assert!(matches!(open_file(&path, OpenMode::ReadWrite), Err(PoolError::Locked { .. })));
    let mut worker = created.worker().unwrap();
    let cell = &created.index_root::<Slots>().unwrap().records[5];
    worker.alloc_record_into(cell, &[&[9; 100_000]]).unwrap();
    drop(worker);
    drop(created);

    let (pool, opened) =
        Pool::open(hardware(open_file(&path, OpenMode::ReadWrite).unwrap())).unwrap();
    assert_eq!(opened.shutdown, Shutdown::Crash);
    assert_eq!(*pool.format(), format());
    assert_eq!(
        pool.pin()
            .record(pool.media().load(&pool.index_root::<Slots>().unwrap().records[5]))
            .unwrap(),
        [9; 100_000]
    );
    clean(&pool);
    pool.close().unwrap();
    drop(pool);

    let bytes = std::fs::read(&path).unwrap();
    let region = open_file(&path, OpenMode::ReadOnly).unwrap();
    assert_eq!(region.mapping(), Mapping::Private);
    open_file(&path, OpenMode::ReadOnly).expect("readers share");
    assert!(matches!(open_file(&path, OpenMode::ReadWrite), Err(PoolError::Locked { .. })));
    let (pool, opened) = Pool::open(hardware(region)).unwrap();
    assert_eq!(opened.shutdown, Shutdown::Clean);
    pool.worker().unwrap().free_from(&pool.index_root::<Slots>().unwrap().records[5]).unwrap();
    clean(&pool);
    drop(pool);
    assert_eq!(std::fs::read(&path).unwrap(), bytes, "a private mapping never writes");
}

#[test]
fn files_that_are_no_pools_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p.pool");
    assert!(matches!(open_file(&path, OpenMode::ReadOnly), Err(PoolError::Missing { .. })));
    assert!(matches!(
        open_file(directory.path(), OpenMode::ReadOnly),
        Err(PoolError::NotAFile { .. })
    ));
    assert!(matches!(create(&path, 100, 100), Err(PoolError::TooSmall { .. })));
    assert!(!path.exists());
    for junk in [&b""[..], b"hello", &[0; 8192], &[0xff; 100_000]] {
        std::fs::write(&path, junk).unwrap();
        assert!(matches!(open_file(&path, OpenMode::ReadWrite), Err(PoolError::NotAPool { .. })));
    }
    std::fs::remove_file(&path).unwrap();
    create(&path, 64 << 10, 1 << 20).unwrap().close().unwrap();
    let good = std::fs::read(&path).unwrap();

    std::fs::write(&path, &good[..40_000]).unwrap();
    assert!(matches!(open_file(&path, OpenMode::ReadWrite), Err(PoolError::Map(_))), "truncated");
    for bit in 64..192 * 8 {
        let mut damaged = good.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&path, &damaged).unwrap();
        let outcome = open_file(&path, OpenMode::ReadOnly);
        assert!(
            matches!(outcome, Err(PoolError::Corrupt { .. })),
            "bit {bit} of the identity: {:?}",
            outcome.err()
        );
    }
}

#[test]
fn a_pool_that_has_lost_its_name_is_opened_through_its_descriptor() {
    use std::os::fd::AsRawFd;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p.pool");
    create(&path, 64 << 10, 1 << 20).unwrap().close().unwrap();
    let kept = std::fs::File::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let path = format!("/proc/self/fd/{}", kept.as_raw_fd());
    Pool::open(hardware(open_file(path.as_ref(), OpenMode::ReadWrite).unwrap()))
        .unwrap()
        .0
        .close()
        .unwrap();
}
