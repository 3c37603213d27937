//! Pages go back to the file, and nothing that was stored is lost by it.

use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use everleaf_pmem::Media;
use parking_lot::Mutex;

use super::*;
use crate::base_file;
use crate::disk::DiskFile;

/// More than half of it are three pages.
const FOUR_PAGES: u64 = 4 * 4096;
const PAGES: u64 = 40;

fn small(weak: Option<Weak>) -> LogOptions {
    LogOptions { memory_bytes: FOUR_PAGES, ..options(weak) }
}

fn private(media: &Logged) -> u64 {
    media.core.lines.private_pages()
}

fn put(media: &Logged, offset: u64, value: u64) {
    media.store(cell(media, offset), value);
    media.flush(site!("test.memory"), cell(media, offset));
}

#[test]
fn no_power_failure_takes_back_anything_while_pages_go_back_to_the_file() {
    let extent = Extent { steps: 21, outcomes: 6, stride: 7 };
    for pages in [2, 4] {
        let seen = with_memory(pages * 4096, || explore(None, extent, pages));
        let seen = seen.unwrap_or_else(|violation| panic!("{violation}"));
        assert!(seen.cuts > 50 && seen.states > 1000, "{seen:?}");
    }
}

#[test]
fn what_is_read_after_a_page_went_back_is_what_was_stored() {
    for pages in [2, 3] {
        let (_, media) = with_memory(pages * 4096, || created(None));
        let mut program = Program::default();
        let mut went_back = 0;
        for last in 1..60 {
            let before = private(&media);
            program.run(&media, last);
            went_back += u64::from(private(&media) < before);
            assert_eq!((word(&media, A), word(&media, C)), (last, last), "{pages} pages");
            program.judge(&media).unwrap_or_else(|violation| panic!("{pages}: {violation}"));
        }
        assert!(went_back > 5, "{pages} pages: {went_back}");
        media.kill();
    }
}

type Event = Box<dyn Fn() + Send + Sync>;

/// The file of a pool, in whose next sync something happens: after a checkpoint has copied and
/// written its pages, and before they go back.
struct Meanwhile(Arc<dyn DiskFile>, Arc<Mutex<Option<Event>>>);

impl DiskFile for Meanwhile {
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
        let event = self.1.lock().take();
        event.into_iter().for_each(|event| event());
        self.0.sync()
    }
    fn to_map(&self) -> io::Result<Option<std::fs::File>> {
        self.0.to_map()
    }
}

/// What A is after a checkpoint in which it was stored to, and flushed if so.
fn stored_meanwhile(weak: Option<Weak>, flushed: bool) -> u64 {
    let disk = SimulatedDisk::new();
    disk.nameless();
    let event = Arc::default();
    let file = Arc::new(Meanwhile(disk.first_file(), Arc::clone(&event)));
    let base = Base { file, ..base(&disk) };
    let media = Logged::create(&base, Arc::new(disk.clone()), BYTES, small(weak)).unwrap();
    let media = Arc::new(media);
    [A, B, C].into_iter().for_each(|at| put(&media, at, 1));
    let other = Arc::downgrade(&media);
    *event.lock() = Some(Box::new(move || {
        let media = other.upgrade().unwrap();
        if flushed { put(&media, A, 2) } else { media.store(cell(&*media, A), 2) }
    }));
    media.checkpoint().unwrap();
    assert_eq!(private(&media), 1, "a quarter stays");
    word(&*media, A)
}

#[test]
fn a_store_between_the_copy_of_a_page_and_its_going_back_keeps_it() {
    assert_eq!(stored_meanwhile(None, false), 2);
    assert_eq!(stored_meanwhile(Some(Weak::UnflushedGoes), false), 1);
}

#[test]
fn a_capture_between_the_copy_of_a_page_and_its_going_back_keeps_it() {
    assert_eq!(stored_meanwhile(None, true), 2);
    assert_eq!(stored_meanwhile(Some(Weak::DirtyGoes), true), 1);
}

fn created_small(weak: Option<Weak>) -> (SimulatedDisk, Logged) {
    with_memory(FOUR_PAGES, || created(weak))
}

#[test]
fn a_page_is_marked_before_another_thread_can_take_it_for_clean() {
    let found = |weak| {
        let (_, media) = created_small(weak);
        [A, B, C].into_iter().for_each(|at| put(&media, at, 1));
        let found = [A, B, C].map(|at| word(&media, at));
        media.kill();
        found
    };
    assert_eq!(found(None), [1; 3]);
    assert_ne!(found(Some(Weak::MarkLate)), [1; 3]);
}

#[test]
fn what_a_growth_has_added_goes_back_to_the_file() {
    let found = |weak| {
        let (_, media) = created_small(weak);
        media.grow(BYTES + 2 * 4096).unwrap();
        [B, C, BYTES, BYTES + 4096].into_iter().for_each(|at| put(&media, at, 1));
        media.checkpoint().unwrap();
        assert_eq!(private(&media), 1, "a quarter stays: the last page");
        let found = word(&media, BYTES);
        media.kill();
        found
    };
    assert_eq!(found(None), 1);
    assert_eq!(found(Some(Weak::GrowthIsMemory)), 0);
}

#[test]
fn a_page_that_was_compared_and_not_changed_counts_and_goes_back() {
    let (disk, media) = created_small(None);
    let before = media.log_counts().unwrap().base_bytes;
    for at in [A, B, C] {
        assert_eq!(media.compare_exchange(cell(&media, at), 5, 6), Err(0));
    }
    assert_eq!(private(&media), 3);
    media.checkpoint().unwrap();
    assert_eq!((private(&media), media.log_counts().unwrap().base_bytes - before), (1, 2 * 4096));
    disk.first_file().write(A, &[7; 8]).unwrap();
    assert_eq!(word(&media, A), u64::from_le_bytes([7; 8]), "it is the file's");
    media.kill();
}

#[test]
fn the_first_page_stays() {
    let stamp = |weak| {
        let (_, media) = created_small(weak);
        [512, A, B, C].into_iter().for_each(|at| put(&media, at, 1));
        media.checkpoint().unwrap();
        let found = [0, 8, 16].map(|at| word(&media, 232 + at));
        assert_eq!(word(&media, 512), 1);
        media.kill();
        found
    };
    assert_eq!(stamp(None), [0; 3]);
    assert_ne!(stamp(Some(Weak::FirstPageGoes)), [0; 3]);
}

/// A pool of some pages in a file, with a thread of its own.
fn on_disk(memory_bytes: u64) -> (tempfile::TempDir, Base, LogOptions) {
    let folder = tempfile::tempdir().unwrap();
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(folder.path().join("pool"))
        .unwrap();
    let base =
        Base { file: base_file(file, false), uuid: 9, max_bytes: 1 << 20, stamp_offset: 232 };
    let how = LogOptions {
        segment_bytes: 64 << 10,
        log_bytes: 1 << 30,
        background: true,
        memory_bytes,
        ..options(None)
    };
    (folder, base, how)
}

#[test]
fn threads_that_write_more_than_the_memory_wait_and_lose_nothing() {
    let (folder, base, how) = on_disk(8 * 4096);
    let new = crate::NewFolder::make(&folder.path().join("pool.log")).unwrap();
    let media = Logged::create(&base, new.folder(), PAGES * 4096, how).unwrap();
    media.checkpoint().unwrap();
    let most = AtomicU64::new(0);
    let at = |thread: u64, page: u64| page * 4096 + (20 + thread) * LINE as u64;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let (media, at, most) = (&media, &at, &most);
                scope.spawn(move || {
                    for i in 1..30 {
                        for page in 1..PAGES {
                            let cell = cell(media, at(thread, page));
                            assert_eq!(media.load(cell), i - 1, "thread {thread} page {page}");
                            media.store(cell, i);
                            most.fetch_max(private(media), Relaxed);
                            if (page + i) % 5 > 0 {
                                media.flush(site!("test.memory"), cell);
                            }
                            if page % 3 == 0 {
                                media.wait_durable(media.durable_point()).unwrap();
                            }
                        }
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    // Each thread stores once before it looks, and twice before it flushes.
    assert!(most.load(Relaxed) <= 8 + 2 * 4, "{most:?} pages");
    let counts = media.log_counts().unwrap();
    assert!(counts.checkpoints > 20 && counts.zero_bytes < counts.log_bytes / 4, "{counts:?}");
    let all = |media: &Logged| {
        (0..4).all(|thread| (1..PAGES).all(|page| word(media, at(thread, page)) == 29))
    };
    assert!(all(&media));
    drop(media);
    let media = Logged::open(&base, new.folder(), how).unwrap();
    assert!(all(&media) && private(&media) == 0);
}

#[test]
fn one_operation_that_stores_to_more_than_the_memory_comes_to_its_end() {
    let (folder, base, how) = on_disk(8 * 4096);
    let new = crate::NewFolder::make(&folder.path().join("pool.log")).unwrap();
    let media = Logged::create(&base, new.folder(), PAGES * 4096, how).unwrap();
    let mut most = 0;
    for page in 1..PAGES {
        put(&media, page * 4096 + 64, page);
        most = most.max(private(&media));
    }
    assert!(most <= 9, "{most} pages");
    assert!((1..PAGES).all(|page| word(&media, page * 4096 + 64) == page));
}

#[test]
fn what_nobody_flushes_goes_back_too() {
    let (folder, base, how) = on_disk(8 * 4096);
    let new = crate::NewFolder::make(&folder.path().join("pool.log")).unwrap();
    let media = Logged::create(&base, new.folder(), PAGES * 4096, how).unwrap();
    for page in 1..PAGES {
        media.store(cell(&media, page * 4096 + 64), page);
        media.wait_durable(everleaf_pmem::DurablePoint::REACHED).unwrap();
        assert!(private(&media) <= 6, "page {page}");
    }
    assert!((1..PAGES).all(|page| word(&media, page * 4096 + 64) == page));
}

#[test]
fn what_replay_has_stored_goes_back_too() {
    let (folder, base, how) = on_disk(u64::MAX);
    let new = crate::NewFolder::make(&folder.path().join("pool.log")).unwrap();
    let media = Logged::create(&base, new.folder(), PAGES * 4096, how).unwrap();
    media.checkpoint().unwrap();
    (1..PAGES).for_each(|page| put(&media, page * 4096 + 64, page));
    media.sync().unwrap();
    assert_eq!(private(&media), PAGES - 1);
    media.kill();
    for memory_pages in [8, PAGES] {
        let how = LogOptions { memory_bytes: memory_pages * 4096, ..how };
        let media = Logged::open(&base, new.folder(), how).unwrap();
        assert!(private(&media) <= memory_pages / 4 * 3, "{memory_pages}");
        assert!((1..PAGES).all(|page| word(&media, page * 4096 + 64) == page));
        media.kill();
    }
}

/// The file of a pool that counts the pages that are written to it between two syncs, at most.
struct Counted(Arc<dyn DiskFile>, AtomicU64, AtomicU64);

impl DiskFile for Counted {
    fn length(&self) -> io::Result<u64> {
        self.0.length()
    }
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, bytes)
    }
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.2.fetch_max(self.1.fetch_add(1, Relaxed) + 1, Relaxed);
        self.0.write(offset, bytes)
    }
    fn allocate(&self, length: u64) -> io::Result<()> {
        self.0.allocate(length)
    }
    fn sync(&self) -> io::Result<()> {
        self.1.store(0, Relaxed);
        self.0.sync()
    }
    fn to_map(&self) -> io::Result<Option<std::fs::File>> {
        self.0.to_map()
    }
}

#[test]
fn replay_takes_no_more_than_half_of_the_memory_and_a_few_pages() {
    let (folder, base, how) = on_disk(u64::MAX);
    let new = crate::NewFolder::make(&folder.path().join("pool.log")).unwrap();
    let media = Logged::create(&base, new.folder(), PAGES * 4096, how).unwrap();
    media.checkpoint().unwrap();
    for round in 1..4 {
        (1..PAGES).for_each(|page| put(&media, page * 4096 + 64, page * round));
        media.sync().unwrap();
    }
    media.kill();
    let counted = Arc::new(Counted(Arc::clone(&base.file), 0.into(), 0.into()));
    let base = Base { file: counted.clone(), ..base };
    let how = LogOptions { memory_bytes: 8 * 4096, background: false, ..how };
    let media = Logged::open(&base, new.folder(), how).unwrap();
    // All that is private is written before it is given back.
    assert!(counted.2.load(Relaxed) <= 6, "{:?} pages", counted.2);
    assert!(private(&media) <= 5);
    assert!((1..PAGES).all(|page| word(&media, page * 4096 + 64) == page * 3));
    media.kill();
}

/// A pool is killed, and an opening that has little memory is cut before each operation; what it
/// has written to the file is in the log that counts then.
#[test]
fn pages_go_back_in_replay_and_no_power_failure_shows_what_the_log_has_not() {
    let (mut chance, mut states) = (Chance(5), 0);
    for last in [6, 9, 14] {
        let (disk, media) = created(None);
        let mut program = Program::default();
        program.run(&media, last);
        media.kill();
        let killed = disk.after_kill();
        for cut in 0.. {
            let again = killed.after_kill();
            again.cut_before(cut);
            let opened = with_memory(2 * 4096, || open(&again, None));
            let done = opened.is_ok();
            opened.into_iter().for_each(Logged::kill);
            // And once more, where what the first has written is in the page cache only.
            let twice = again.after_kill();
            twice.cut_before(cut);
            with_memory(2 * 4096, || open(&twice, None)).into_iter().for_each(Logged::kill);
            for disk in [again, twice] {
                for left in outcomes(&disk, 8, &mut chance) {
                    let media = open(&left, None).unwrap();
                    program.judge(&media).unwrap_or_else(|error| panic!("cut {cut}: {error}"));
                    media.kill();
                    states += 1;
                }
            }
            if done {
                break;
            }
        }
    }
    assert!(states > 500, "{states}");
}
