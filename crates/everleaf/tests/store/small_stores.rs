//! Stores of the default size: an empty one takes little, and one that is filled grows.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use everleaf::{CreateOptions, Engine, KeyType, Store, internal};
use everleaf_engines::all;
use everleaf_log::{Base, DiskFile, Log, LogOptions, SimulatedDisk};

use crate::common::folder;
use crate::logged::{Model, content, create_at};

/// What an empty store may take on a disk, its log included.
const EMPTY_BYTES: u64 = 3_000_000;

fn engines() -> impl Iterator<Item = Engine> {
    Engine::available().filter(|engine| engine.has_keys(KeyType::Bytes))
}

/// A folder on an ordinary disk, if the system has its temporary files there.
fn disk_folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Bytes on the disk, of a pool and its log, or of any folder.
fn disk_bytes(path: &Path) -> u64 {
    let Ok(found) = path.symlink_metadata() else { return 0 };
    let inside = || path.read_dir().unwrap().map(|entry| disk_bytes(&entry.unwrap().path()));
    found.blocks() * 512 + if found.is_dir() { inside().sum() } else { 0 }
}

#[test]
fn an_empty_store_takes_little_in_memory_and_on_a_disk() {
    for folder in [folder(), disk_folder()] {
        for engine in engines() {
            let within = |when: &str| {
                let bytes = disk_bytes(folder.path());
                assert!(bytes < EMPTY_BYTES, "{bytes} bytes of {engine} {when}");
            };
            let path = folder.path().join("a.pool");
            let store = CreateOptions::new().engine(engine).create(&path).unwrap();
            within("when it is made");
            store.close().unwrap();
            within("closed");
            let store = Store::open(&path).unwrap();
            within("when it is opened");
            store.put("a", "b").unwrap();
            store.close().unwrap();
            within("with one entry");
            assert_eq!(path.metadata().unwrap().len(), 1 << 20, "{engine}");
            std::fs::remove_file(&path).unwrap();
            let _ = std::fs::remove_dir_all(folder.path().join("a.pool.log"));
        }
    }
}

#[test]
fn a_store_of_each_engine_grows_from_one_mebibyte_to_a_hundred() {
    let folder = folder();
    for engine in engines() {
        let path = folder.path().join("a.pool");
        let store = CreateOptions::new().engine(engine).create(&path).unwrap();
        let value = |n: u32| vec![n as u8; 3900];
        let mut count = 0_u32;
        while path.metadata().unwrap().len() < 100 << 20 {
            store.put(count.to_be_bytes(), value(count)).unwrap();
            count += 1;
        }
        store.close().unwrap();
        let store = Store::open(&path).unwrap();
        assert_eq!(store.len().unwrap(), u64::from(count), "{engine}");
        for n in (0..count).step_by(97) {
            assert_eq!(*store.get(n.to_be_bytes()).unwrap().unwrap(), *value(n), "{engine}");
        }
        assert!(store.check().unwrap().ok, "{engine}");
        drop(store);
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn ten_stores_take_as_much_as_ten_empty_ones() {
    let folder = disk_folder();
    let stores: Vec<Store> =
        (0..10).map(|n| Store::create(folder.path().join(n.to_string())).unwrap()).collect();
    assert!(disk_bytes(folder.path()) < 10 * EMPTY_BYTES);
    for round in 0..20_u8 {
        for (n, store) in (0..).zip(&stores) {
            store.put([round], [n; 100]).unwrap();
        }
    }
    drop(stores);
    assert!(disk_bytes(folder.path()) < 10 * EMPTY_BYTES);
    for n in 0..10_u8 {
        let store = Store::open(folder.path().join(n.to_string())).unwrap();
        assert_eq!((store.len().unwrap(), &*store.get([7]).unwrap().unwrap()), (20, &[n; 100][..]));
    }
}

const BYTES: u64 = 64 << 10;

fn base(disk: &SimulatedDisk) -> Base {
    let file = disk.first_file();
    Base { file, uuid: 1, max_bytes: 64 << 20, stamp_offset: 232, read_whole: false }
}

/// A log that grows with the pool, of a tenth of the usual lengths.
fn lengths(bytes: u64) -> LogOptions {
    let mut options = LogOptions::for_pool(bytes);
    options.segment_bytes = (bytes / 4).next_multiple_of(4096);
    (options.log_bytes, options.background) = (bytes, false);
    options
}

fn growing() -> LogOptions {
    let mut options = lengths(BYTES);
    options.growth = Some(lengths);
    options
}

fn create(engine: Engine, disk: &SimulatedDisk) -> Store {
    let options = CreateOptions::new().engine(engine).engines(all()).size_bytes(BYTES);
    disk.nameless();
    create_at(&options, growing(), (&base(disk), BYTES), Arc::new(disk.clone())).0
}

/// Puts until it is refused: what was acknowledged, and with the write that was cut.
fn fill(store: &Store, most: u32) -> [Model; 2] {
    let mut acknowledged = Model::new();
    for n in 0..most {
        let mut next = acknowledged.clone();
        let (key, value) = (n.to_be_bytes().to_vec(), vec![n as u8; 3000]);
        next.insert(key.clone(), value.clone());
        if store.put(key, value).is_err() {
            return [acknowledged, next];
        }
        acknowledged = next;
    }
    [acknowledged.clone(), acknowledged]
}

/// What is left after a power failure or on a full disk.
fn opened(disk: &SimulatedDisk) -> (Store, Model) {
    let media = Log::open(&base(disk), Arc::new(disk.clone()), lengths(BYTES)).unwrap();
    let (store, _) = internal::open_on(all(), &crate::common::opening(), media).unwrap();
    let found = content(&store).unwrap();
    assert!(store.check().unwrap().ok);
    (store, found)
}

#[test]
fn power_that_fails_in_early_growths_takes_nothing_that_was_acknowledged() {
    const WRITES: u32 = 250;
    for engine in [Engine::FPTREE_C, Engine::NVTREE_C, Engine::CIRCTREE] {
        let whole = SimulatedDisk::new();
        let store = create(engine, &whole);
        let first = whole.operations();
        fill(&store, WRITES);
        assert!(whole.first_file().length().unwrap() >= 16 * BYTES, "it has doubled four times");
        let last = whole.operations();
        for cut in (first..last).step_by(41) {
            let disk = SimulatedDisk::new();
            let store = create(engine, &disk);
            disk.cut_before(cut);
            let expected = fill(&store, WRITES);
            drop(store);
            for way in [0, 1] {
                let left = disk.after_power_failure(|ways| way * (ways - 1));
                let (_, found) = opened(&left);
                assert!(expected.contains(&found), "{engine}, cut {cut}, {way}: {}", found.len());
            }
        }
    }
}

#[test]
fn a_disk_that_is_full_in_an_early_growth_loses_nothing() {
    for room in [400 << 10, 700 << 10, 1200 << 10, 2500 << 10] {
        let disk = SimulatedDisk::new();
        let store = create(Engine::FPTREE_C, &disk);
        disk.limit_room(room, true);
        let [acknowledged, _] = fill(&store, 2000);
        assert!(acknowledged.len() < 2000, "{room}");
        for n in 0..40_u32 {
            store.put(3_u32.to_be_bytes(), [n as u8; 3000]).unwrap(); // What is there is replaced.
        }
        assert_eq!(content(&store).unwrap().len(), acknowledged.len());
        drop(store);
        let (store, found) = opened(&disk);
        assert_eq!((found.len(), found[&3_u32.to_be_bytes()[..]][0]), (acknowledged.len(), 39));
        store.delete(3_u32.to_be_bytes()).unwrap();
    }
}
