//! Threads, on a simulated disk and on a real one.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use everleaf_pmem::{DurablePoint, Media};

use super::*;
use crate::NewFolder;

const THREADS: u64 = 4;

/// Each thread has a line of every page, and counts in the one after the other; B of a thread
/// never knows more than its A.
fn count(media: &Mapped, thread: u64, stop: &AtomicBool, acknowledged: &AtomicU64, wait: bool) {
    let at = |page: u64| page * 4096 + (20 + thread) * LINE as u64;
    for i in 1..2_000_000 {
        if stop.load(Relaxed) {
            return;
        }
        for page in [1, 2, 3] {
            media.store(cell(media, at(page)), i);
            media.flush(site!("test.count"), cell(media, at(page)));
            media.fence(site!("test.count.fence"));
        }
        if wait {
            if media.wait_durable(media.durable_point()).is_err() {
                return;
            }
            acknowledged.store(i, Relaxed);
        }
    }
}

fn judge(media: &Mapped, acknowledged: &[AtomicU64]) -> Result<(), String> {
    for (thread, least) in (0..).zip(acknowledged) {
        let at = |page: u64| word(media, page * 4096 + (20 + thread) * LINE as u64);
        let found = [at(1), at(2), at(3)];
        let least = least.load(Relaxed);
        if !(found.is_sorted_by(|a, b| a >= b) && found[0] <= found[2] + 1 && found[2] >= least) {
            return Err(format!("thread {thread}: {found:?}, acknowledged {least}"));
        }
    }
    Ok(())
}

/// Runs the threads until the power fails before operation `cut`.
fn crash(seed: u64, cut: u64, wait: bool) -> Result<(), String> {
    let (disk, media) = created(None);
    disk.cut_before(disk.operations() + cut);
    let stop = AtomicBool::new(false);
    let acknowledged: Vec<AtomicU64> = (0..THREADS).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        for (thread, acknowledged) in (0..).zip(&acknowledged) {
            let (media, stop) = (&media, &stop);
            scope.spawn(move || count(media, thread, stop, acknowledged, wait));
        }
        while media.sync().is_ok() && media.checkpoint().is_ok() {}
        stop.store(true, Relaxed);
    });
    media.kill();
    for left in outcomes(&disk, 10, &mut Chance(seed)) {
        let media = open(&left, None)?;
        judge(&media, &acknowledged).map_err(|error| format!("seed {seed} cut {cut}: {error}"))?;
        media.kill();
    }
    Ok(())
}

#[test]
fn what_threads_have_flushed_in_order_is_there_in_order() {
    for seed in 0..60 {
        let cut = 1 + Chance(seed).below(60) as u64;
        crash(seed, cut, seed % 2 == 0).unwrap_or_else(|violation| panic!("{violation}"));
    }
}

/// A group that is lost and one behind it would be a hole, of which replay sees nothing.
#[test]
fn nothing_is_appended_behind_a_group_that_could_not_be() {
    let (disk, media) = created(None);
    let core = media.core();
    let durable = |value| {
        step(&media, value);
        media.sync()
    };
    durable(1).unwrap();
    std::thread::scope(|scope| {
        // Whoever commits has come as far as the log when the group before its own fails.
        let log = core.log.lock();
        let committed = scope.spawn(|| media.sync());
        std::thread::sleep(Duration::from_millis(20));
        core.fail("writing the log", std::io::ErrorKind::StorageFull.into());
        drop(log);
        committed.join().unwrap().unwrap_err();
    });
    let operations = disk.operations();
    durable(2).unwrap_err();
    assert_eq!(disk.operations(), operations);
    media.kill();
}

/// A checkpoint fails while a thread syncs for all: it wakes one to go on, who does not.
#[test]
fn everybody_who_waits_hears_of_a_failure_beside_a_sync() {
    let (disk, media) = created(None);
    let (core, gate) = (media.core(), Arc::new(AtomicBool::new(false)));
    let held = Arc::clone(&gate);
    step(&media, 1);
    std::thread::scope(|scope| {
        disk.watch(move |_| {
            while held.load(Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        gate.store(true, Relaxed);
        scope.spawn(|| media.sync()); // Its group is appended or synced: it is held there.
        std::thread::sleep(Duration::from_millis(20));
        step(&media, 2);
        let waiting: Vec<_> = (0..3).map(|_| scope.spawn(|| media.sync())).collect();
        std::thread::sleep(Duration::from_millis(20));
        core.fail("writing the pool", std::io::ErrorKind::StorageFull.into());
        gate.store(false, Relaxed);
        waiting.into_iter().for_each(|waiting| _ = waiting.join().unwrap().unwrap_err());
    });
    media.kill();
}

#[test]
fn threads_that_make_a_spare_at_once_make_one() {
    let (disk, media) = created(None);
    disk.watch(|_| std::thread::sleep(Duration::from_millis(2)));
    let core = media.core();
    core.log.lock().spares.clear();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| core.get_spare().unwrap());
        }
    });
    assert_eq!(core.log.lock().spares.len(), 1);
    media.kill();
}

#[test]
fn a_real_folder_keeps_what_threads_were_told_is_durable() {
    let folder = tempfile::tempdir().unwrap();
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(folder.path().join("pool"))
        .unwrap();
    let base = base_of(Arc::new(file), 9);
    let options = LogOptions { segment_bytes: 64 << 10, background: true, ..options(None) };
    let new = NewFolder::make(&folder.path().join("pool.log")).unwrap();
    let log = new.folder();
    let media = Log::create(&base, log.clone(), BYTES, options).unwrap();
    media.checkpoint().unwrap();
    let stop = AtomicBool::new(false);
    let acknowledged: Vec<AtomicU64> = (0..THREADS).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        for (thread, acknowledged) in (0..).zip(&acknowledged) {
            let (media, stop) = (&media, &stop);
            scope.spawn(move || count(media, thread, stop, acknowledged, true));
        }
        while acknowledged.iter().any(|n| n.load(Relaxed) < 20) {
            std::thread::sleep(Duration::from_millis(1));
        }
        stop.store(true, Relaxed);
    });
    let counts = media.log_counts().unwrap();
    let waited: u64 = acknowledged.iter().map(|n| n.load(Relaxed)).sum();
    assert!(counts.syncs < waited + counts.checkpoints * 4 + 4, "{counts:?}, {waited} waits");
    media.kill();
    let media = Log::open(&base, log.clone(), options).unwrap();
    judge(&media, &acknowledged).unwrap();
    drop(media);
    let media = Log::open(&base, log, options).unwrap();
    judge(&media, &acknowledged).unwrap();
}

#[test]
fn the_thread_behind_a_buffered_log_makes_everything_durable_in_time() {
    let (disk, media) = created(None);
    media.kill();
    let interval = Some(Duration::from_millis(5));
    let options = LogOptions { background: true, interval, ..options(None) };
    let media = Log::open(&base(&disk), Arc::new(disk.clone()), options).unwrap();
    step(&media, 1);
    let point = media.durable_point();
    while !media.is_durable(point) {
        std::thread::yield_now();
    }
    // A checkpoint that takes its time holds it up as little as writers do.
    let control = media.core().control.lock();
    media.core().signals.want_checkpoint();
    step(&media, 2);
    let point = media.durable_point();
    while !media.is_durable(point) {
        std::thread::yield_now();
    }
    drop(control);
    media.kill();
    let media = open(&disk.after_power_failure(|_| 0), None).unwrap();
    assert_eq!(word(&media, A), 2);
    media.kill();
}

#[test]
fn a_writer_of_a_buffered_log_waits_when_what_is_not_durable_is_too_old() {
    let (disk, media) = created(None);
    media.kill();
    let interval = Some(Duration::from_millis(20));
    let options = LogOptions { background: false, interval, ..options(None) };
    let media = Log::open(&base(&disk), Arc::new(disk.clone()), options).unwrap();
    media.wait_durable(media.durable_point()).unwrap();
    step(&media, 1);
    let point = media.durable_point();
    std::thread::sleep(Duration::from_millis(60));
    assert!(!media.is_durable(point), "nobody has waited");
    media.wait_durable(DurablePoint::REACHED).unwrap();
    assert!(media.is_durable(point));
    media.kill();
}
