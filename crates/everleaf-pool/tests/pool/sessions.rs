//! How a pool was left, and what a session may believe of that: each transition of the state word.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use everleaf_crash::{Event, Traced};
use everleaf_pmem::{
    Cpu, LINE, Line, LineAtomicity, Mapped, Media, MediaError, PCell, Persistent, Region,
    SimdLevel, Site, SyncLatch, Word,
};
use everleaf_pool::{
    Format, KeyType, OpenMode, Opened, Pool, PoolError, Seal, Shutdown, create_file, open_file,
};

const BYTES: u64 = 64 << 10;
/// Where the state word is, and behind it the boot id.
const STATE: usize = 192;
const CLOSED: u64 = 1;
const OPEN: u64 = 2;
const OPEN_PERSISTENT: u64 = 3;
const SYNC_FAILED: u64 = 4;

fn format() -> Format {
    Format { engine: "test".into(), key_type: KeyType::Bytes, parameters: [0; 8] }
}

fn hardware(region: Region) -> Mapped {
    Mapped::new(region, &Cpu::detect()).unwrap()
}

/// As docs/format.md defines it.
fn sealed(content: u64) -> u64 {
    let mixed = (content ^ (content >> 23)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    content | ((mixed >> 48) ^ 0x5ea1) << 48
}

fn content(word: u64) -> u64 {
    word & ((1 << 48) - 1)
}

fn set_word(bytes: &mut [u8], at: usize, word: u64) {
    bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
}

fn word_of(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).unwrap();
    change(&mut bytes);
    std::fs::write(path, bytes).unwrap();
}

fn set_state(bytes: &mut [u8], state: u64) {
    set_word(bytes, STATE, sealed(state));
}

/// As another boot of the machine would have left it.
fn set_other_boot(bytes: &mut [u8]) {
    (0..3).for_each(|part| set_word(bytes, STATE + 8 + 8 * part, sealed(12345)));
}

/// As a session left it that could not find out under which boot it ran.
fn set_unknown_boot(bytes: &mut [u8]) {
    (0..3).for_each(|part| set_word(bytes, STATE + 8 + 8 * part, sealed(0)));
}

/// A pool on an ordinary file, left open by a session of this process.
fn left_open(path: &Path) {
    create_file(path, BYTES, 1 << 20, |region| Pool::create(hardware(region), &format())).unwrap();
}

fn opened(path: &Path) -> Result<(Arc<Pool<Mapped>>, Opened), PoolError> {
    Pool::open(hardware(open_file(path, OpenMode::ReadWrite).unwrap()))
}

#[test]
fn a_session_on_an_ordinary_file_is_trusted_under_the_same_boot_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.pool");
    left_open(&path);
    assert_eq!(content(word_of(&std::fs::read(&path).unwrap(), STATE)), OPEN);
    let (pool, found) = opened(&path).unwrap();
    assert_eq!(found.shutdown, Shutdown::Crash);
    drop(pool);
    for (forge, certain, begins) in [
        (set_other_boot as fn(&mut [u8]), true, "the machine restarted while"),
        (set_unknown_boot, false, "it is not known whether the machine restarted while"),
    ] {
        change(&path, |bytes| forge(bytes));
        let before = std::fs::read(&path).unwrap();
        let refused = opened(&path).map(|_| ()).unwrap_err();
        assert!(
            matches!(refused, PoolError::OtherBoot { certain: is, .. } if is == certain)
                && refused.to_string().starts_with(begins),
            "{refused:?}"
        );
        assert_eq!(std::fs::read(&path).unwrap(), before, "what is refused is not written to");
    }
    change(&path, |bytes| set_state(bytes, CLOSED));
    let (pool, found) = opened(&path).expect("closed pools are trusted under every boot");
    assert_eq!(found.shutdown, Shutdown::Clean);
    assert_eq!(content(word_of(&std::fs::read(&path).unwrap(), STATE)), OPEN);
    pool.close().unwrap();
    assert_eq!(content(word_of(&std::fs::read(&path).unwrap(), STATE)), CLOSED);
}

#[test]
fn what_a_session_on_persistent_memory_left_is_trusted_and_no_longer_taken_for_that() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.pool");
    left_open(&path);
    change(&path, |bytes| {
        set_state(bytes, OPEN_PERSISTENT);
        set_other_boot(bytes);
    });
    let (pool, found) = opened(&path).expect("its stores were durable");
    assert_eq!(found.shutdown, Shutdown::Crash);
    // From the first change on what this session stores must not be taken for durable.
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(content(word_of(&bytes, STATE)), OPEN);
    drop(pool);
    change(&path, |bytes| set_other_boot(bytes));
    let refused = opened(&path).map(|_| ());
    assert!(matches!(refused, Err(PoolError::OtherBoot { .. })), "{refused:?}");
}

#[test]
fn a_session_on_persistent_memory_refuses_what_another_boot_left_in_the_page_cache() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.pool");
    left_open(&path);
    let mut bytes = std::fs::read(&path).unwrap();
    set_other_boot(&mut bytes);
    let refused = Pool::open(traced(&bytes)).map(|_| ());
    assert!(matches!(refused, Err(PoolError::OtherBoot { .. })), "{refused:?}");
}

/// Recorded memory, which stands for persistent memory, with what a file held.
fn traced(bytes: &[u8]) -> Traced {
    let words: Vec<u64> = (0..bytes.len()).step_by(8).map(|at| word_of(bytes, at)).collect();
    Traced::from_image(&words, 1 << 20, 1).unwrap()
}

#[test]
fn a_session_on_persistent_memory_writes_back_what_another_one_left_in_the_caches() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.pool");
    left_open(&path);
    let media = traced(&std::fs::read(&path).unwrap());
    media.take_events();
    let (pool, found) = Pool::open(media).unwrap();
    assert_eq!(found.shutdown, Shutdown::Crash);
    let events = pool.media().take_events();
    let mut written_back = BTreeSet::new();
    let (mut fenced, mut marked) = (0, false);
    for event in events {
        match event {
            Event::Flush { line, site, .. } if site.name() == "pool.write_back.lines" => {
                written_back.insert(line);
            }
            Event::Fence { site, .. } if site.name() == "pool.write_back.fence" => {
                fenced = written_back.len();
            }
            Event::Store { offset, new, .. } if offset == STATE as u64 => {
                assert_eq!(content(new), OPEN_PERSISTENT);
                assert_eq!(fenced, BYTES as usize / LINE, "every line, before the mark");
                marked = true;
            }
            _ => {}
        }
    }
    assert!(marked);
    // What this session leaves is trusted by the next one, which needs no such thing: this memory
    // knows of no boot.
    let image = pool.media().image();
    let bytes: Vec<u8> = image.iter().flat_map(|word| word.to_le_bytes()).collect();
    let (pool, _) = Pool::open(traced(&bytes)).unwrap();
    assert!(pool.media().take_events().iter().all(
        |event| !matches!(event, Event::Flush { site, .. } if site.name() == "pool.write_back.lines")
    ));
    pool.close().unwrap();
    assert_eq!(content(pool.media().image()[STATE / 8]), CLOSED);
}

/// Lines that the opening of recorded memory writes back before its first store.
fn written_back(bytes: &[u8]) -> usize {
    let media = traced(bytes);
    media.take_events();
    let (pool, _) = Pool::open(media).unwrap();
    let events = pool.media().take_events();
    let before_stores = events.iter().take_while(|event| !matches!(event, Event::Store { .. }));
    let written_back = |event: &&Event| match event {
        Event::Flush { site, .. } => site.name() == "pool.write_back.lines",
        _ => false,
    };
    before_stores.filter(written_back).count()
}

#[test]
fn what_a_killed_session_on_persistent_memory_left_in_the_caches_is_written_back_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.pool");
    left_open(&path);
    let mut bytes = std::fs::read(&path).unwrap();
    set_state(&mut bytes, OPEN_PERSISTENT);
    assert_eq!(written_back(&bytes), BYTES as usize / LINE, "the machine has not stopped since");
    set_other_boot(&mut bytes);
    assert_eq!(written_back(&bytes), 0, "the caches are empty since");
    set_state(&mut bytes, CLOSED);
    assert_eq!(written_back(&bytes), 0, "closed");
}

/// A file whose next sync fails, once: the one after it would succeed, as on Linux.
struct Failing {
    hardware: Mapped,
    next_fails: Arc<AtomicBool>,
    syncs: SyncLatch,
    /// Pages whose first word was exchanged since the last sync, and how many were at each sync.
    dirtied: Mutex<(BTreeSet<u64>, Vec<usize>)>,
    /// What the pool said of its state at each sync.
    states: Mutex<Vec<u64>>,
}

impl Failing {
    fn on(path: &Path, next_fails: &Arc<AtomicBool>) -> Self {
        Self {
            hardware: hardware(open_file(path, OpenMode::ReadWrite).unwrap()),
            next_fails: Arc::clone(next_fails),
            syncs: SyncLatch::default(),
            dirtied: Mutex::default(),
            states: Mutex::default(),
        }
    }

    fn offset_of<T: Word>(&self, cell: &PCell<T>) -> u64 {
        let first: &PCell = self.region().at(0).unwrap();
        (std::ptr::from_ref(cell).addr() - std::ptr::from_ref(first).addr()) as u64
    }
}

impl Media for Failing {
    fn region(&self) -> &Region {
        self.hardware.region()
    }
    fn simd(&self) -> SimdLevel {
        self.hardware.simd()
    }
    fn load<T: Word>(&self, cell: &PCell<T>) -> T {
        self.hardware.load(cell)
    }
    fn store<T: Word>(&self, cell: &PCell<T>, value: T) {
        self.hardware.store(cell, value);
    }
    fn compare_exchange<T: Word>(&self, cell: &PCell<T>, current: T, new: T) -> Result<(), T> {
        self.dirtied.lock().unwrap().0.insert(self.offset_of(cell));
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
    fn sync(&self) -> Result<(), MediaError> {
        let state: &PCell = self.region().at(STATE as u64).unwrap();
        self.states.lock().unwrap().push(content(self.load(state)));
        let mut dirtied = self.dirtied.lock().unwrap();
        let pages = std::mem::take(&mut dirtied.0);
        dirtied.1.push(pages.iter().filter(|offset| offset.is_multiple_of(4096)).count());
        self.syncs.attempt("syncing", || match self.next_fails.swap(false, Ordering::Relaxed) {
            true => Err(std::io::Error::from_raw_os_error(libc::EIO)),
            false => self.hardware.region().sync().map_err(Into::into),
        })
    }
}

#[test]
fn after_a_failed_sync_nothing_is_synced_and_the_pool_is_never_marked_closed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.pool");
    left_open(&path);
    let next_fails = Arc::new(AtomicBool::new(false));
    let (pool, _) = Pool::open(Failing::on(&path, &next_fails)).unwrap();
    pool.sync().unwrap();
    next_fails.store(true, Ordering::Relaxed);
    assert!(matches!(pool.sync(), Err(PoolError::Media(MediaError::Failed { .. }))));
    for refused in [pool.sync(), pool.close(), pool.sync(), pool.close()] {
        let Err(PoolError::Media(error @ MediaError::FailedBefore { .. })) = refused else {
            panic!("{refused:?}");
        };
        let said = error.to_string();
        assert!(
            said.contains("earlier attempt failed") && said.contains("open it again"),
            "{said}"
        );
    }
    drop(pool);
    assert_eq!(content(word_of(&std::fs::read(&path).unwrap(), STATE)), SYNC_FAILED);
    // Its syncs would succeed, and prove nothing of the pages that the failed one has left out.
    let (pool, found) = Pool::open(Failing::on(&path, &next_fails)).unwrap();
    assert_eq!(found.shutdown, Shutdown::Crash);
    let at_syncs = pool.media().dirtied.lock().unwrap().1.clone();
    assert_eq!(at_syncs[0], BYTES as usize / 4096, "every page is written again, first of all");
    assert_eq!(content(word_of(&std::fs::read(&path).unwrap(), STATE)), OPEN);
    pool.close().unwrap();
    assert_eq!(content(word_of(&std::fs::read(&path).unwrap(), STATE)), CLOSED);
    let states = pool.media().states.lock().unwrap();
    assert!(states.ends_with(&[OPEN, CLOSED]), "it is synced before it says that: {states:?}");
}

#[test]
fn what_a_failed_sync_left_is_refused_after_a_restart_and_on_persistent_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.pool");
    left_open(&path);
    change(&path, |bytes| set_state(bytes, SYNC_FAILED));
    let refused = Pool::open(traced(&std::fs::read(&path).unwrap())).map(|_| ());
    assert!(matches!(refused, Err(PoolError::SyncFailed)), "{refused:?}");
    change(&path, |bytes| set_other_boot(bytes));
    let refused = opened(&path).map(|_| ());
    assert!(matches!(refused, Err(PoolError::OtherBoot { .. })), "{refused:?}");
}

#[test]
fn a_pool_whose_first_sync_fails_is_not_opened() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.pool");
    left_open(&path);
    opened(&path).unwrap().0.close().unwrap();
    let refused = Pool::open(Failing::on(&path, &Arc::new(AtomicBool::new(true))));
    assert!(matches!(refused, Err(PoolError::Media(_))), "{:?}", refused.err());
    assert_eq!(content(word_of(&std::fs::read(&path).unwrap(), STATE)), SYNC_FAILED);
}

/// A closed file that has a seal.
fn sealed_file(path: &Path, seal: Seal) {
    left_open(path);
    opened(path).unwrap().0.close_with(Some(seal)).unwrap();
    assert_eq!(content(word_of(&std::fs::read(path).unwrap(), STATE)), CLOSED);
}

#[test]
fn a_seal_is_what_the_next_opening_finds_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.pool");
    let seal = Seal::new(7, 0xdead_beef);
    sealed_file(&path, seal);
    let (pool, found) = opened(&path).unwrap();
    assert_eq!((found.seal, found.shutdown), (Some(seal), Shutdown::Clean));
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(content(word_of(&bytes, STATE)), OPEN, "and the boot id is there again");
    drop(pool);
    let (pool, found) = opened(&path).unwrap();
    assert_eq!((found.seal, found.shutdown), (None, Shutdown::Crash));
    pool.close().unwrap();
    drop(pool);
    assert_eq!(opened(&path).unwrap().1.seal, None, "closed without one");
}

#[test]
fn a_seal_of_which_a_word_is_damaged_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.pool");
    for word in 1..4 {
        for damage in [0, sealed(1 << 40), u64::MAX] {
            let _ = std::fs::remove_file(&path);
            sealed_file(&path, Seal::new(1, 2));
            change(&path, |bytes| set_word(bytes, STATE + word * 8, damage));
            let found = opened(&path).unwrap().1;
            assert_eq!(found.shutdown, Shutdown::Clean);
            assert_ne!(found.seal, Some(Seal::new(1, 2)), "word {word}");
            let is_another_number = word == 1 && damage == sealed(1 << 40);
            assert_eq!(found.seal.is_some(), is_another_number, "word {word}");
        }
    }
}

#[test]
fn a_pool_is_not_sealed_while_a_worker_could_write() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.pool");
    left_open(&path);
    let (pool, _) = opened(&path).unwrap();
    let worker = pool.worker().unwrap();
    pool.close_with(Some(Seal::new(1, 2))).unwrap();
    drop((worker, pool));
    let found = opened(&path).unwrap().1;
    assert_eq!((found.seal, found.shutdown), (None, Shutdown::Clean));
}

#[test]
fn a_pool_whose_last_sync_fails_behind_a_seal_is_still_of_this_boot() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.pool");
    left_open(&path);
    let next_fails = Arc::new(AtomicBool::new(false));
    let (pool, _) = Pool::open(Failing::on(&path, &next_fails)).unwrap();
    pool.close_with(Some(Seal::new(1, 2))).unwrap();
    next_fails.store(true, Ordering::Relaxed);
    assert!(pool.sync().is_err());
    drop(pool);
    assert_eq!(content(word_of(&std::fs::read(&path).unwrap(), STATE)), SYNC_FAILED);
    let found = opened(&path).unwrap().1;
    assert_eq!((found.seal, found.shutdown), (None, Shutdown::Crash));
}
