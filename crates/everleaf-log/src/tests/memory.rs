//! Pages go back to the file, and nothing that was stored is lost by it.

use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use everleaf_pmem::Media;
use parking_lot::Mutex;

use super::*;

/// More than half of it are three pages.
const FOUR_PAGES: u64 = 4 * 4096;
pub(super) const PAGES: u64 = 40;

fn small(weak: Option<Weak>) -> LogOptions {
    LogOptions { memory_bytes: FOUR_PAGES, ..options(weak) }
}

pub(super) fn private(media: &Mapped) -> u64 {
    media.core().lines.private_pages()
}

pub(super) fn put(media: &Mapped, offset: u64, value: u64) {
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
    let media = Log::create(&base, Arc::new(disk.clone()), BYTES, small(weak)).unwrap();
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

fn created_small(weak: Option<Weak>) -> (SimulatedDisk, Mapped) {
    with_memory(FOUR_PAGES, || created(weak))
}

#[test]
fn a_page_that_a_thread_stores_to_all_the_time_never_shows_what_it_was() {
    const TIMES: u64 = 50_000;
    let (_, media) = with_memory(4096, || created(None));
    let stored = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 1..=TIMES {
                put(&media, A, i);
                let found = word(&media, A);
                stored.store(if found == i { i } else { TIMES }, Relaxed);
                assert_eq!(found, i);
            }
        });
        while stored.load(Relaxed) < TIMES {
            media.checkpoint().unwrap(); // It gives the page back, as soon as it is clean.
        }
    });
    media.checkpoint().unwrap();
    assert_eq!((private(&media), word(&media, A)), (0, TIMES));
    media.kill();
}

#[test]
fn what_a_growth_has_added_goes_back_to_the_file() {
    let (_, media) = created_small(None);
    media.grow(BYTES + 2 * 4096).unwrap();
    [B, C, BYTES, BYTES + 4096].into_iter().for_each(|at| put(&media, at, 1));
    media.checkpoint().unwrap();
    assert_eq!(private(&media), 1, "a quarter stays: the last page");
    assert_eq!(word(&media, BYTES), 1);
    media.kill();
}

#[test]
fn a_page_that_was_compared_and_not_changed_is_the_files() {
    let (disk, media) = created_small(None);
    let before = media.log_counts().unwrap().base_bytes;
    for at in [A, B, C] {
        assert_eq!(media.compare_exchange(cell(&media, at), 5, 6), Err(0));
    }
    assert_eq!(private(&media), 0);
    media.checkpoint().unwrap();
    assert_eq!((private(&media), media.log_counts().unwrap().base_bytes - before), (0, 2 * 4096));
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
pub(super) fn on_disk(memory_bytes: u64) -> (tempfile::TempDir, Base, LogOptions) {
    let folder = tempfile::tempdir().unwrap();
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(folder.path().join("pool"))
        .unwrap();
    let base = base_of(Arc::new(file), 9);
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
    let media = Log::create(&base, new.folder(), PAGES * 4096, how).unwrap();
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
    let all = |media: &Mapped| {
        (0..4).all(|thread| (1..PAGES).all(|page| word(media, at(thread, page)) == 29))
    };
    assert!(all(&media));
    drop(media);
    let media = Log::open(&base, new.folder(), how).unwrap();
    assert!(all(&media) && private(&media) == 0);
}

#[test]
fn one_operation_that_stores_to_more_than_the_memory_comes_to_its_end() {
    let (folder, base, how) = on_disk(8 * 4096);
    let new = crate::NewFolder::make(&folder.path().join("pool.log")).unwrap();
    let media = Log::create(&base, new.folder(), PAGES * 4096, how).unwrap();
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
    let media = Log::create(&base, new.folder(), PAGES * 4096, how).unwrap();
    for page in 1..PAGES {
        media.store(cell(&media, page * 4096 + 64), page);
        media.wait_durable(everleaf_pmem::DurablePoint::REACHED).unwrap();
        assert!(private(&media) <= 6, "page {page}");
    }
    assert!((1..PAGES).all(|page| word(&media, page * 4096 + 64) == page));
}

#[test]
fn one_value_that_is_stored_before_it_is_flushed_takes_no_more_than_the_memory() {
    for background in [true, false] {
        let (folder, base, how) = on_disk(8 * 4096);
        let new = crate::NewFolder::make(&folder.path().join("pool.log")).unwrap();
        let how = LogOptions { background, ..how };
        let media = Log::create(&base, new.folder(), PAGES * 4096, how).unwrap();
        let mut most = 0;
        for page in 1..PAGES {
            media.store(cell(&media, page * 4096 + 64), page);
            most = most.max(private(&media));
        }
        assert!(most <= 8, "{most} pages");
        for page in 1..PAGES {
            assert_eq!(media.compare_exchange(cell(&media, page * 4096 + 72), 0, page), Ok(()));
            most = most.max(private(&media));
        }
        assert!(most <= 8, "{most} pages");
        assert!((1..PAGES).all(|page| word(&media, page * 4096 + 64) == page));
        media.kill();
    }
}

/// Whether the page of a cell is there: bit 63 of its word.
fn is_there(cell: &PCell) -> bool {
    let (page, mut word) = (std::ptr::from_ref(cell).addr() as u64 / 4096, [0; 8]);
    let file = std::fs::File::open("/proc/self/pagemap").unwrap();
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut word, page * 8).unwrap();
    u64::from_le_bytes(word) >> 63 == 1
}

#[test]
fn a_page_is_read_before_a_latch_of_it_is_taken() {
    type Action = fn(&Mapped);
    let actions: [Action; 3] = [
        |media| media.store(cell(media, C), 7),
        |media| assert_eq!(media.compare_exchange(cell(media, C), 0, 7), Ok(())),
        |media| {
            let line = media.region().at::<Line>(C).unwrap();
            media.write_line(site!("test.cold"), line, [7; 8]);
        },
    ];
    for action in actions {
        let (disk, media) = created(None);
        drop(media);
        let media = open(&disk, None).unwrap();
        assert!(!is_there(cell(&media, C)));
        std::thread::scope(|scope| {
            let latch = media.core().latch(C / LINE as u64);
            scope.spawn(|| action(&media));
            let came = (0..10_000).any(|_| {
                std::thread::sleep(std::time::Duration::from_millis(1));
                is_there(cell(&media, C))
            });
            drop(latch);
            assert!(came, "the page is read under the latch");
        });
        assert_eq!(word(&media, C), 7);
        media.kill();
    }
}

#[test]
fn whoever_has_a_latch_holds_nobody_up_who_gives_pages_back_or_compares_in_vain() {
    let (_, media) = created_small(None);
    [A, B, C].into_iter().for_each(|at| put(&media, at, 1));
    media.checkpoint().unwrap();
    assert_eq!(private(&media), 1, "a quarter stays: the last page");
    [A, B].into_iter().for_each(|at| put(&media, at, 1));
    let latch = media.core().latch(C / LINE as u64 + 9);
    media.core().give_back();
    assert_eq!(private(&media), 3, "two are marked, and one is in use");
    assert_eq!(media.compare_exchange(cell(&media, C + 9 * 64), 5, 6), Err(0));
    drop(latch);
    media.core().give_back();
    assert_eq!(private(&media), 2);
    media.kill();
}
