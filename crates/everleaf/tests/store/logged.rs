//! Stores whose pool has a log: on a simulated disk whose power fails, and in real files.

use everleaf_engines::all;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use everleaf::internal;
use everleaf::{
    CreateOptions, Durability, DurabilityMode, Engine, Error, KeyType, LogError, Medium, Store,
};
use everleaf_log::{Base, Disk, DiskFile, Log, LogOptions, SimulatedDisk};
use everleaf_pmem::Mapped;
use everleaf_pool::Pool;
use parking_lot::{Condvar, Mutex};

pub(crate) const BYTES: u64 = 256 << 10;

pub(crate) fn log_options() -> LogOptions {
    let mut options = LogOptions::for_pool(BYTES);
    (options.segment_bytes, options.log_bytes) = (32 << 10, 100 << 10);
    options.background = false;
    options
}

/// The same with room for twelve pages that were changed.
pub(crate) fn small_memory() -> LogOptions {
    let mut options = log_options();
    options.memory_bytes = 12 * 4096;
    options
}

pub(crate) fn base(disk: &SimulatedDisk) -> Base {
    let file = disk.first_file();
    Base { file, uuid: 1, max_bytes: 4 << 20, stamp_offset: 232, read_whole: false }
}

pub(crate) fn options(engine: Engine) -> CreateOptions {
    CreateOptions::new().engine(engine).engines(everleaf_engines::all()).size_bytes(BYTES)
}

fn create(engine: Engine, disk: &SimulatedDisk, log: Arc<dyn Disk>) -> Store {
    create_as(&options(engine), log_options(), disk, log).0
}

pub(crate) fn create_as(
    options: &CreateOptions,
    how: LogOptions,
    disk: &SimulatedDisk,
    log: Arc<dyn Disk>,
) -> (Store, Arc<Pool<Mapped>>) {
    disk.nameless();
    create_at(options, how, (&base(disk), BYTES), log)
}

/// In a file of so many bytes.
pub(crate) fn create_at(
    options: &CreateOptions,
    how: LogOptions,
    (base, bytes): (&Base, u64),
    log: Arc<dyn Disk>,
) -> (Store, Arc<Pool<Mapped>>) {
    let media = Log::create(base, log, bytes, how).unwrap();
    let (store, pool) = internal::create_on(all(), options, media).unwrap();
    Log::of(pool.media()).unwrap().checkpoint().unwrap();
    (store, pool)
}

pub(crate) type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn value(i: u32) -> Vec<u8> {
    let length = if i.is_multiple_of(7) { 3000 } else { 20 + i as usize };
    (0..length).map(|at| (at as u32 * 31 + i) as u8).collect()
}

/// One write of the program, on a store or on the model of it.
pub(crate) fn write(i: u32, store: Option<&Store>, model: &mut Model) -> Result<(), Error> {
    let key = |i: u32| format!("key{:03}", i * 7 % 23).into_bytes();
    match i % 4 {
        3 => {
            model.remove(&key(i / 2));
            store.map_or(Ok(()), |store| store.delete(key(i / 2)).map(drop))
        }
        2 => {
            let (one, two) = (key(i), key(i + 1));
            model.insert(one.clone(), value(i));
            model.insert(two.clone(), value(i + 1));
            let Some(store) = store else { return Ok(()) };
            let mut batch = store.batch();
            batch.put(&one, value(i))?;
            batch.put(&two, value(i + 1))?;
            batch.commit().map(drop)
        }
        _ => {
            model.insert(key(i), value(i));
            store.map_or(Ok(()), |store| store.put(key(i), value(i)).map(drop))
        }
    }
}

pub(crate) fn content(store: &Store) -> Result<Model, Error> {
    store
        .iter()
        .map(|entry| {
            let (key, value) = entry?;
            let everleaf::OwnedKey::Bytes(key) = key else { unreachable!("byte-string keys") };
            Ok((key.to_vec(), value.to_vec()))
        })
        .collect()
}

/// The program until the power fails: what was acknowledged, and with the write that was cut.
fn run_until(store: &Store, writes: u32) -> [Model; 2] {
    let mut acknowledged = Model::new();
    for i in 0..writes {
        let mut next = acknowledged.clone();
        if write(i, Some(store), &mut next).is_err() {
            return [acknowledged, next];
        }
        acknowledged = next;
    }
    [acknowledged.clone(), acknowledged]
}

fn judge(disk: &SimulatedDisk, how: LogOptions, expected: &[Model; 2]) -> Result<(), String> {
    let media = Log::open(&base(disk), Arc::new(disk.clone()), how);
    let media = media.map_err(|error| format!("the log: {error}"))?;
    let (store, _pool) =
        internal::open_on(everleaf_engines::all(), &crate::common::opening(), media)
            .map_err(|error| format!("the pool: {error}"))?;
    let found = content(&store).map_err(|error| error.to_string())?;
    if !expected.contains(&found) {
        let keys = |model: &Model| -> Vec<String> {
            model.keys().map(|key| String::from_utf8_lossy(key).into_owned()).collect()
        };
        let (found, least) = (keys(&found), keys(&expected[0]));
        return Err(format!("found {found:?}, acknowledged {least:?}"));
    }
    let outcome = store.check().map_err(|error| error.to_string())?;
    if outcome.ok { Ok(()) } else { Err(format!("{:?}", outcome.violations)) }
}

#[test]
fn a_store_on_a_disk_loses_nothing_that_was_acknowledged() {
    loses_nothing(log_options(), 5);
    loses_nothing(small_memory(), 151);
}

/// Cuts before every so many operations of the disk.
fn loses_nothing(how: LogOptions, step: usize) {
    const WRITES: u32 = 40;
    for engine in [Engine::FPTREE_C, Engine::FPTREE, Engine::CIRCTREE, Engine::NVTREE] {
        let create =
            |disk: &SimulatedDisk| create_as(&options(engine), how, disk, Arc::new(disk.clone())).0;
        let whole = SimulatedDisk::new();
        let store = create(&whole);
        let first = whole.operations();
        run_until(&store, WRITES);
        let last = whole.operations();
        assert!(last - first > u64::from(WRITES), "each write waits for a sync");
        for cut in (0..last - first).step_by(step) {
            let disk = SimulatedDisk::new();
            let store = create(&disk);
            disk.cut_before(disk.operations() + cut);
            let expected = run_until(&store, WRITES);
            drop(store);
            let mut chance = cut;
            for outcome in 0..3 {
                let left = disk.after_power_failure(|ways| match outcome {
                    0 => 0,
                    1 => ways - 1,
                    _ => {
                        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
                        (chance >> 33) as usize % ways
                    }
                });
                judge(&left, how, &expected).unwrap_or_else(|error| {
                    panic!("{engine}, cut {cut}, outcome {outcome}: {error}")
                });
            }
        }
    }
}

/// Whether syncs go on, and how many wait.
#[derive(Default)]
struct Gate {
    state: Mutex<(bool, usize)>,
    changed: Condvar,
}

impl Gate {
    fn pass(&self) {
        let mut state = self.state.lock();
        state.1 += 1;
        self.changed.notify_all();
        while state.0 {
            self.changed.wait(&mut state);
        }
        state.1 -= 1;
    }
    fn close(&self) {
        self.state.lock().0 = true;
    }
    fn open(&self) {
        self.state.lock().0 = false;
        self.changed.notify_all();
    }
    fn is_closed(&self) -> bool {
        self.state.lock().0
    }
    fn wait_for_one(&self) {
        let mut state = self.state.lock();
        while state.1 == 0 {
            self.changed.wait(&mut state);
        }
    }
}

/// A disk whose syncs stop at a gate.
#[derive(Clone)]
struct Gated(SimulatedDisk, Arc<Gate>);

struct GatedFile(Arc<dyn DiskFile>, Arc<Gate>);

impl Gated {
    fn gated(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(GatedFile(file, Arc::clone(&self.1)))
    }
}

impl Disk for Gated {
    fn names(&self) -> io::Result<Vec<String>> {
        self.0.names()
    }
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.gated(self.0.open(name)?))
    }
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.gated(self.0.create(name)?))
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }
    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
}

impl DiskFile for GatedFile {
    fn length(&self) -> io::Result<u64> {
        self.0.length()
    }
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, bytes)
    }
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write(offset, bytes)
    }
    fn allocate(&self, length: u64) -> io::Result<()> {
        self.0.allocate(length)
    }
    fn sync(&self) -> io::Result<()> {
        self.1.pass();
        self.0.sync()
    }
    fn to_map(&self) -> io::Result<Option<std::fs::File>> {
        self.0.to_map()
    }
}

/// What a read may reveal of a write that is not durable.
type Read = fn(&Store);

#[test]
fn nobody_is_shown_what_a_power_failure_takes_back() {
    let reads: [(&str, Read); 8] = [
        ("get", |store| assert_eq!(store.get("put").unwrap().as_deref(), Some(&b"new"[..]))),
        ("absent", |store| assert_eq!(store.get("deleted").unwrap(), None)),
        ("insert", |store| assert!(!store.put_if_absent("put", b"other").unwrap())),
        ("get_many", |store| drop(store.get_many(["put", "other"]).unwrap())),
        ("scan", |store| assert_eq!(content(store).unwrap().len(), 2)),
        ("len", |store| assert_eq!(store.len().unwrap(), 2)),
        ("snapshot", |store| drop(store.snapshot().unwrap())),
        ("first", |store| drop(store.first().unwrap())),
    ];
    for (name, read) in reads {
        let (disk, gate) = (SimulatedDisk::new(), Arc::new(Gate::default()));
        let gated = Gated(disk.clone(), Arc::clone(&gate));
        let store = create(Engine::FPTREE_C, &disk, Arc::new(gated));
        store.put("other", b"old").unwrap();
        store.put("deleted", b"old").unwrap();
        gate.close();
        std::thread::scope(|scope| {
            scope.spawn(|| store.delete("deleted").unwrap());
            gate.wait_for_one();
            scope.spawn(|| store.put("put", b"new").unwrap());
            scope.spawn(|| {
                // The put is visible before it is durable.
                while store.statistics().unwrap().entries < 2 {
                    std::thread::yield_now();
                }
                // A read of what is durable waits for nobody.
                assert_eq!(store.get("other").unwrap().as_deref(), Some(&b"old"[..]));
                assert!(gate.is_closed(), "{name}: a read of another key has waited");
                std::thread::sleep(std::time::Duration::from_millis(20)); // The put ends.
                read(&store);
                assert!(!gate.is_closed(), "{name} has shown what is not durable");
            });
            std::thread::sleep(std::time::Duration::from_millis(80));
            gate.open();
        });
    }
}

#[test]
fn what_waits_for_no_sync_is_durable_when_it_was_waited_for() {
    let disk = SimulatedDisk::new();
    let store = create(Engine::FPTREE_C, &disk, Arc::new(disk.clone()));
    let content_after = |ways: fn(usize) -> usize| {
        let left = disk.after_power_failure(ways);
        let media = Log::open(&base(&left), Arc::new(left.clone()), log_options()).unwrap();
        content(
            &internal::open_on(everleaf_engines::all(), &crate::common::opening(), media)
                .unwrap()
                .0,
        )
        .unwrap()
        .len()
    };
    let before = disk.operations();
    let (seen, unsynced) = store.unsynced(|| {
        for key in ["a", "b"] {
            store.put(key, b"1").unwrap();
        }
        let mut batch = store.batch();
        batch.put("c", b"1").unwrap().delete("b").unwrap();
        batch.commit().unwrap();
        store.transaction(|tx| tx.put("d", b"1").map(drop)).unwrap();
        (store.get("a").unwrap(), content(&store).unwrap().len(), store.first().unwrap())
    });
    assert_eq!((seen.0.as_deref(), seen.1), (Some(&b"1"[..]), 3));
    assert_eq!(disk.operations(), before, "nothing has waited");
    assert!(!unsynced.is_durable());
    assert_eq!(content_after(|_| 0), 0);
    // One who only reads what is not durable holds its answer back as well.
    let (_, seen) = store.unsynced(|| store.get("a").unwrap());
    assert!(!seen.is_durable());
    let all = unsynced.and(seen);
    all.wait().unwrap();
    assert!(all.is_durable());
    assert_eq!(content_after(|_| 0), 3);
    assert!(store.unsynced(|| store.get("a").unwrap()).1.is_durable());
    // Another thread's calls wait, and so do those behind it.
    let (_, unsynced) = store.unsynced(|| {
        std::thread::scope(|scope| scope.spawn(|| store.put("e", b"1").unwrap()).join().unwrap())
    });
    assert!(unsynced.is_durable());
    assert_eq!(content_after(|_| 0), 4);
    // Of a store that was closed nobody can tell, and its pool is not kept open.
    let (_, left) = store.unsynced(|| store.put("g", b"1").unwrap());
    let copy = disk.after_kill();
    drop(store);
    assert!(matches!(left.wait(), Err(Error::Closed)) && !left.is_durable());
    let media = Log::open(&base(&copy), Arc::new(copy.clone()), log_options()).unwrap();
    let (store, _pool) =
        internal::open_on(everleaf_engines::all(), &crate::common::opening(), media).unwrap();
    copy.fail_sync_after(0);
    let (put, unsynced) = store.unsynced(|| store.put("f", b"1"));
    assert!(!put.unwrap() && unsynced.wait().is_err() && !unsynced.is_durable());
}

#[test]
fn a_log_for_which_nobody_waits_stays_short_too() {
    let disk = SimulatedDisk::new();
    let store = create(Engine::FPTREE_C, &disk, Arc::new(disk.clone()));
    let (_, unsynced) = store.unsynced(|| {
        for round in 0..8000_u32 {
            store.put(format!("{}", round % 20), value(7 * round)).unwrap();
        }
    });
    let bytes = |name: &String| disk.open(name).unwrap().length().unwrap();
    let all: u64 = disk.names().unwrap().iter().map(bytes).sum();
    assert!(all < 10 * log_options().log_bytes, "{all} bytes, for 24 MB that were written");
    unsynced.wait().unwrap();
}

/// A folder on an ordinary file system, if temporary files are on one.
pub(crate) fn ordinary() -> Option<tempfile::TempDir> {
    let folder = tempfile::tempdir().unwrap();
    let store = options(Engine::FPTREE).create(folder.path().join("probe")).unwrap();
    let medium = store.statistics().unwrap().medium;
    drop(store);
    (medium == Medium::PageCache).then_some(folder)
}

pub(crate) fn log_of(pool: &Path) -> PathBuf {
    let mut name = pool.as_os_str().to_owned();
    name.push(".log");
    name.into()
}

/// Copies pool and log as they are, as a killed process leaves them.
pub(crate) fn copy_both(from: &Path, to: &Path) {
    std::fs::copy(from, to).unwrap();
    std::fs::create_dir(log_of(to)).unwrap();
    for file in std::fs::read_dir(log_of(from)).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), log_of(to).join(file.file_name())).unwrap();
    }
}

#[test]
fn a_pool_with_a_log_is_made_opened_read_copied_and_refused_without_it() {
    let Some(folder) = ordinary() else { return };
    let (path, copy) = (folder.path().join("a.pool"), folder.path().join("b.pool"));
    let chosen = options(Engine::default()).durability(DurabilityMode::Immediate);
    let store = chosen.create(&path).unwrap();
    let statistics = store.statistics().unwrap();
    assert_eq!(statistics.durability, Durability::PowerFail);
    assert_eq!((statistics.durability_mode, statistics.log), (DurabilityMode::Immediate, true));
    for i in 0..50 {
        write(i, Some(&store), &mut Model::new()).unwrap();
    }
    assert!(matches!(chosen.create(&path), Err(Error::Pool(_))), "it exists");
    let expected = content(&store).unwrap();
    copy_both(&path, &copy); // Nobody writes meanwhile.
    for read_only in [true, false, true] {
        let store = crate::common::opening().read_only(read_only).open(&copy).unwrap();
        assert_eq!(content(&store).unwrap(), expected);
    }
    let dump = folder.path().join("c.pool");
    store.copy(&dump).unwrap();
    assert_eq!(content(&crate::common::open(&dump).unwrap()).unwrap(), expected);
    store.close().unwrap();
    assert_eq!(content(&crate::common::open(&path).unwrap()).unwrap(), expected);

    let refused = |path: &Path| match crate::common::open(path).unwrap_err() {
        Error::Log { source, .. } => *source,
        error => panic!("{error}"),
    };
    let other = folder.path().join("d.pool");
    chosen.create(&other).unwrap().close().unwrap();
    std::fs::rename(log_of(&path), folder.path().join("kept")).unwrap();
    assert!(matches!(refused(&path), LogError::Missing));
    assert!(crate::common::open_read_only(&path).is_err());
    std::fs::rename(log_of(&other), log_of(&path)).unwrap();
    assert!(matches!(refused(&path), LogError::Foreign));
    std::fs::rename(log_of(&path), log_of(&other)).unwrap();
    // The log as it was before the last session, beside the pool of now.
    std::fs::rename(log_of(&copy), log_of(&path)).unwrap();
    assert!(matches!(refused(&path), LogError::OtherTime));
    std::fs::rename(log_of(&path), log_of(&copy)).unwrap();
    std::fs::rename(folder.path().join("kept"), log_of(&path)).unwrap();
    assert_eq!(content(&crate::common::open(&path).unwrap()).unwrap(), expected);
    // A folder that belongs to no pool is not taken.
    std::fs::remove_file(&other).unwrap();
    assert!(matches!(chosen.create(&other), Err(Error::LogInTheWay { .. })));
    assert!(!other.exists());
}

#[test]
fn a_buffered_pool_waits_for_sync_only_and_grows() {
    let Some(folder) = ordinary() else { return };
    let path = folder.path().join("a.pool");
    let buffered = DurabilityMode::Buffered { interval_ms: 20 };
    let numbers = options(Engine::default()).key_type(KeyType::U64).durability(buffered);
    let store = numbers.create(&path).unwrap();
    for key in 0..20_000_u64 {
        store.put(key, key.to_le_bytes()).unwrap();
    }
    store.sync().unwrap();
    assert!(store.statistics().unwrap().total_bytes > BYTES);
    drop(store);
    let store = crate::common::open(&path).unwrap();
    assert_eq!(store.len().unwrap(), 20_000);
    assert_eq!(store.get(19_999).unwrap().as_deref(), Some(&19_999_u64.to_le_bytes()[..]));
    assert!(store.check().unwrap().ok);
    drop(store);
    assert_eq!(crate::common::open_read_only(&path).unwrap().len().unwrap(), 20_000);
}

#[test]
fn a_pool_that_is_read_whole_is_not_the_files_any_more_whether_it_is_written_or_not() {
    let Some(folder) = ordinary() else { return };
    for read_only in [true, false] {
        let path = folder.path().join(format!("{read_only}.pool"));
        options(Engine::default()).create(&path).unwrap().put("a", vec![7; 9000]).unwrap();
        let open = crate::common::opening().read_only(read_only).prefault(true);
        let store = open.open(&path).unwrap();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_len(4096).unwrap();
        assert_eq!(store.get("a").unwrap(), Some(vec![7; 9000]));
        if !read_only {
            // A growth does not hide it.
            let refused = (0..10).find_map(|i| store.put([i], vec![i; 100_000]).err());
            let refused = format!("{:?}", refused.expect("no write was refused"));
            assert!(refused.contains("truncated"), "{refused}");
        }
        std::mem::forget(store); // It cannot be closed.
    }
}
