//! Disks that are full: a log lives on what it has, and an opening finds its room in it.

use everleaf_pmem::{MapError, Media};

use super::chains::{History, end, fail_power, open_base, session};
use super::*;

use crate::control::MOST_EARLIER;
use crate::disk::Disk;

/// Leaves so many blocks free.
fn fill(disk: &SimulatedDisk, blocks: u64, tells: bool) {
    disk.limit_room(disk.used_bytes() + blocks * 4096, tells);
}

/// Stores and waits, so many times.
fn write(media: &Mapped, history: &mut History, times: u64) {
    for i in 0..times {
        history.store_and_wait(media, 8192 + i % 50 * 8).unwrap_or_else(|e| panic!("{i}: {e}"));
    }
}

#[test]
fn a_log_on_a_full_disk_is_written_to_without_end() {
    for how in 0..3 {
        let (mut disk, media) = created(None);
        let mut history = History::default();
        fill(&disk, 0, false);
        write(&media, &mut history, 60);
        // Closed, killed, or without power again and again.
        let mut media = Some(media);
        for round in 0..12 {
            if how > 0 {
                media.take().unwrap().kill();
            }
            drop(media.take());
            disk = match how {
                2 => disk.after_power_failure(|ways| (round + ways - 1) % ways),
                _ => disk.after_kill(),
            };
            let opened = open(&disk, None).unwrap_or_else(|e| panic!("{how} {round}: {e}"));
            history.serve(&opened).unwrap_or_else(|error| panic!("{how} {round}: {error}"));
            write(&opened, &mut history, 1 + 7 * round as u64);
            media = Some(opened);
        }
        media.unwrap().kill();
    }
}

#[test]
fn a_log_on_a_full_disk_serves_threads_without_end() {
    let disk = SimulatedDisk::new();
    disk.nameless();
    let options = LogOptions { background: true, segment_bytes: 20 * 4096, ..options(None) };
    let media = Log::create(&base(&disk), Arc::new(disk.clone()), BYTES, options).unwrap();
    media.checkpoint().unwrap();
    fill(&disk, 0, false);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let media = &media;
            scope.spawn(move || {
                for i in 1..400 {
                    let at = cell(media, A + thread * LINE as u64);
                    media.store(at, i);
                    media.flush(site!("test.full"), at);
                    media.wait_durable(media.durable_point()).unwrap();
                }
            });
        }
    });
    media.kill();
    let media = open(&disk.after_kill(), None).unwrap();
    (0..3).for_each(|thread| assert_eq!(word(&media, A + thread * LINE as u64), 399));
    media.kill();
}

#[test]
fn a_pool_leaves_the_room_that_its_log_needs() {
    let (disk, media) = created(None);
    let longest = 7 * 5 * 4096;
    let there = disk.used_bytes() - BYTES;
    disk.limit_room(BYTES + longest + 3 * 4096, true);
    assert!(there < longest);
    media.grow(BYTES + 3 * 4096).unwrap();
    let refused = media.grow(BYTES + 4 * 4096);
    assert!(matches!(refused, Err(MapError::DiskFull { .. })), "{refused:?}");
    assert_eq!(disk.first_file().length().unwrap(), BYTES + 3 * 4096);
    write(&media, &mut History::default(), 20);
    // Where nobody can say how much is left, the pool takes it.
    disk.limit_room(BYTES + longest + 3 * 4096, false);
    media.grow(BYTES + 4 * 4096).unwrap();
    media.kill();
}

#[test]
fn a_short_spare_is_not_made_twice_where_there_is_no_room_for_a_long_one() {
    let disk = SimulatedDisk::new();
    disk.nameless();
    let options = LogOptions { segment_bytes: 1 << 20, ..options(None) };
    let media = Log::create(&base(&disk), Arc::new(disk.clone()), BYTES, options).unwrap();
    fill(&disk, 140, false);
    {
        let mut log = media.core().log.lock();
        (log.file_bytes, log.appended_bytes) = (4096, 1 << 20); // More than half, and much.
        assert!(log.wants_spare());
    }
    media.core().get_spare().unwrap();
    let spares = media.core().log.lock().spares.clone();
    assert_eq!(spares.len(), 1, "{spares:?}");
    assert!(disk.open(&spares[0].name).is_ok());
    media.kill();
}

/// A pool that was killed again and again, with a log of some segments and of as many sessions as
/// it may have.
fn killed() -> (SimulatedDisk, History) {
    let (mut disk, mut media) = created(None);
    let mut history = History::default();
    for session in 0..=MOST_EARLIER as u64 {
        for i in 0..4 {
            history.store(&media, 4096 + (session * 4 + i) * 8, 100);
            media.sync().unwrap();
        }
        history.acknowledge_all();
        if session == MOST_EARLIER as u64 {
            break;
        }
        media.kill();
        disk = disk.after_kill();
        media = open(&disk, None).unwrap();
        assert_eq!(media.log_counts().unwrap().checkpoints, 0);
    }
    history.store(&media, 8192, 5);
    media.core().close_for_checkpoint().unwrap(); // Perhaps it is there.
    media.kill();
    (disk.after_kill(), history)
}

/// Opens on a full disk a log that has no place for one more session, is cut before each
/// operation, and goes on where power failed. Images that were looked at, and openings that came to
/// their end.
fn cut_openings(weak: Option<Weak>) -> Result<(u64, u64), String> {
    let (pool, history) = killed();
    let (mut chance, mut states, mut opened_whole) = (Chance(5), 0, 0);
    for memory in [u64::MAX, 2 * 4096] {
        for cut in 0.. {
            let disk = pool.after_kill();
            fill(&disk, 0, false);
            disk.cut_before(cut);
            let opened = with_memory(memory, || open(&disk, weak));
            let checkpoints = |media: &Mapped| media.log_counts().unwrap().checkpoints;
            let done = opened.as_ref().is_ok_and(|media| checkpoints(media) > 0);
            opened.into_iter().for_each(Logged::kill);
            opened_whole += u64::from(done);
            for left in [disk.after_kill()].into_iter().chain(outcomes(&disk, 8, &mut chance)) {
                let mut history = history.clone();
                let at = |error: String| format!("cut {cut}: {error}");
                let media = open(&left, None).map_err(at)?;
                history.serve(&media).map_err(at)?;
                for i in 0..12 {
                    history.store_and_wait(&media, 8192 + i * 8).map_err(at)?;
                }
                media.kill();
                let left = fail_power(&left, &mut chance);
                let media = open(&left, None).map_err(at)?;
                history.serve(&media).map_err(at)?;
                media.kill();
                states += 2;
            }
            if done {
                break;
            }
        }
    }
    Ok((states, opened_whole))
}

#[test]
fn an_opening_that_makes_a_checkpoint_first_is_cut_before_each_operation() {
    let (states, opened) = cut_openings(None).unwrap_or_else(|violation| panic!("{violation}"));
    assert!(states > 500 && opened == 2, "{states} {opened}");
}

#[test]
fn what_may_be_in_the_page_cache_only_is_written_again_before_the_pool_gets_it() {
    cut_openings(Some(Weak::ServeTheCache)).unwrap_err();
    cut_openings(Some(Weak::TailNotSynced)).unwrap_err();
}

#[test]
fn an_opening_that_finds_no_room_says_how_much_it_takes_and_reading_takes_none() {
    let (disk, media) = created(None);
    let mut history = History::default();
    let is_at_end = |media: &Mapped| {
        let log = media.core().log.lock();
        log.place.offset + 2 * 4096 > log.file_bytes
    };
    while !is_at_end(&media) {
        history.store_and_wait(&media, 8192).unwrap();
    }
    media.kill();
    let disk = disk.after_kill();
    for name in disk.names().unwrap().iter().filter(|name| name.starts_with("segment.")) {
        disk.remove(name).unwrap();
    }
    fill(&disk, 0, false);
    let refused = Log::open(&base(&disk), Arc::new(disk.clone()), options(None)).err().unwrap();
    let LogError::NoRoom { bytes } = refused else { panic!("{refused}") };
    super::chains::judge_read_only(&disk, &history).unwrap();
    fill(&disk, bytes / 4096, false);
    let media = open(&disk, None).unwrap();
    history.serve(&media).unwrap();
    write(&media, &mut history, 30);
    media.kill();
}

/// A chain of sessions on a disk with little room or none, whether it says so or not.
fn chain(seed: u64, seen: &mut [u64; 4]) -> Result<(), String> {
    let mut chance = Chance(seed);
    let chance = &mut chance;
    let (mut disk, media) = created(None);
    let mut history = History::default();
    let _ = session(&media, &mut history, chance);
    end(media, chance);
    for number in 0..8 {
        disk = if chance.below(2) == 0 { disk.after_kill() } else { fail_power(&disk, chance) };
        let at = |error: String| format!("seed {seed}, session {number}: {error}");
        fill(&disk, [0, 0, 1, 4, 9, 30][chance.below(6)], chance.below(2) == 0);
        if chance.below(4) == 0 {
            disk.cut_before(chance.below(80) as u64);
        } else if chance.below(6) == 0 {
            disk.fail_sync_after(chance.below(20) as u64);
        }
        let memory_bytes = [u64::MAX, 4 * 4096][chance.below(2)];
        let blocks = [3, 5, 8][chance.below(3)];
        let options = LogOptions { segment_bytes: blocks * 4096, memory_bytes, ..options(None) };
        match Log::open(&open_base(&disk), Arc::new(disk.clone()), options) {
            Ok(media) => {
                seen[0] += 1;
                seen[1] += u64::from(media.log_counts().unwrap().checkpoints > 0);
                history.serve(&media).map_err(at)?;
                seen[2] += u64::from(session(&media, &mut history, chance).is_err());
                history.is_shown(&media).map_err(at)?;
                end(media, chance);
            }
            Err(LogError::NoRoom { .. }) => {
                seen[3] += 1;
                super::chains::judge_read_only(&disk, &history).map_err(at)?;
            }
            Err(_) if disk.is_off() => {}
            Err(error) if error.to_string().contains("os error 5") => {}
            Err(error) => return Err(at(format!("not opened: {error}"))),
        }
    }
    Ok(())
}

#[test]
fn no_chain_of_sessions_on_full_disks_loses_anything() {
    let mut seen = [0; 4];
    for seed in 0..400 {
        chain(seed, &mut seen).unwrap_or_else(|violation| panic!("{violation}"));
    }
    println!("opened, after a checkpoint, ended early, no room: {seen:?}");
    assert!(seen[0] > 1500 && seen[1] > 50, "{seen:?}");
}

/// `cargo test -p everleaf-log --lib --release -- --ignored --nocapture many_full`
#[test]
#[ignore = "takes minutes"]
fn many_full_disks_lose_nothing() {
    let mut seen = [0; 4];
    for seed in 1_000_000..1_100_000 {
        chain(seed, &mut seen).unwrap_or_else(|violation| panic!("{violation}"));
    }
    println!("opened, after a checkpoint, ended early, no room: {seen:?}");
}
