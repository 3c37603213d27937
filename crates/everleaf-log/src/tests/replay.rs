//! Replay keeps to the memory.

use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use everleaf_pmem::Media;

use super::memory::{PAGES, on_disk, private, put};
use super::*;
use crate::group::Capture;

#[test]
fn what_replay_has_stored_goes_back_too() {
    let (folder, base, how) = on_disk(u64::MAX);
    let new = crate::NewFolder::make(&folder.path().join("pool.log")).unwrap();
    let media = Log::create(&base, new.folder(), PAGES * 4096, how).unwrap();
    media.checkpoint().unwrap();
    (1..PAGES).for_each(|page| put(&media, page * 4096 + 64, page));
    media.sync().unwrap();
    assert_eq!(private(&media), PAGES - 1);
    media.kill();
    for memory_pages in [8, PAGES] {
        let how = LogOptions { memory_bytes: memory_pages * 4096, ..how };
        let media = Log::open(&base, new.folder(), how).unwrap();
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
    let media = Log::create(&base, new.folder(), PAGES * 4096, how).unwrap();
    media.checkpoint().unwrap();
    for round in 1..4 {
        (1..PAGES).for_each(|page| put(&media, page * 4096 + 64, page * round));
        media.sync().unwrap();
    }
    media.kill();
    let counted = Arc::new(Counted(Arc::clone(&base.file), 0.into(), 0.into()));
    let base = Base { file: counted.clone(), ..base };
    let how = LogOptions { memory_bytes: 8 * 4096, background: false, ..how };
    let media = Log::open(&base, new.folder(), how).unwrap();
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

#[test]
fn threads_that_share_captures_leave_what_one_does() {
    let (_, media) = created(None);
    let (_, alone) = created(None);
    let mut chance = Chance(12);
    let lines = (BYTES / LINE as u64 - 64) as usize;
    let captures: Vec<Capture> = (1..=1000)
        .map(|i| Capture {
            line: 64 + chance.below(lines) as u64,
            order: 0,
            mask: 1 << chance.below(8) | 1 << chance.below(8),
            words: [i; 8],
        })
        .collect();
    media.core().set_all(&captures);
    captures.iter().for_each(|capture| alone.core().set_all(std::slice::from_ref(capture)));
    for at in (4096..BYTES).step_by(8) {
        assert_eq!(word(&media, at), word(&alone, at), "at {at}");
    }
    assert_eq!(private(&media), private(&alone));
    media.kill();
    alone.kill();
}
