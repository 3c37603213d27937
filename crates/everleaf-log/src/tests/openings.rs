//! Openings that a crash ends, one after another.

use super::*;
use crate::disk::Disk;

/// An opening is cut before each of so many operations.
const CUTS: u64 = 24;

/// A pool that was killed, with a log of some segments.
fn killed() -> (SimulatedDisk, Program) {
    let (disk, media) = created(None);
    let mut program = Program::default();
    program.run(&media, 14);
    media.sync().unwrap();
    program.acknowledged = program.begun;
    media.kill();
    (disk.after_kill(), program)
}

/// A pool of which the power has failed while several segments were not synced: they are there,
/// and the log ends before them.
fn torn() -> (SimulatedDisk, Program) {
    let (disk, media) = created(None);
    let mut program = Program::default();
    program.run(&media, 14);
    media.sync().unwrap();
    program.acknowledged = program.begun;
    let segment = || media.core().log.lock().place.segment;
    let last = segment() + 3;
    while segment() < last {
        program.begun += 1;
        step(&media, program.begun);
        media.core().close_for_checkpoint().unwrap();
    }
    media.kill();
    (disk.after_power_failure(|_| 0), program)
}

/// Opens, and is killed before an operation of the disk. What it leaves.
fn cut_opening(disk: &SimulatedDisk, weak: Option<Weak>, cut: u64) -> SimulatedDisk {
    disk.cut_before(cut);
    let _ = open(disk, weak).map(Logged::kill);
    disk.after_kill()
}

/// The power fails in an opening that follows one which was killed.
fn power_failures(weak: Option<Weak>) -> Result<(), String> {
    let (mut chance, (pool, program)) = (Chance(11), torn());
    for cuts in (0..CUTS * CUTS).map(|i| (i / CUTS, i % CUTS)) {
        let disk = cut_opening(&pool.after_kill(), weak, cuts.0);
        disk.cut_before(cuts.1);
        let _ = open(&disk, weak).map(Logged::kill);
        for _ in 0..4 {
            let left = disk.after_power_failure(|ways| chance.below(ways));
            let media = open(&left, None).map_err(|error| format!("cuts {cuts:?}: {error}"))?;
            program.judge(&media)?;
            media.kill();
        }
    }
    Ok(())
}

#[test]
fn a_segment_whose_name_was_not_durable_leaves_no_gap_below_one_whose_name_is() {
    power_failures(None).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn segments_behind_the_end_are_gone_durably_before_others_are_made() {
    let violation = power_failures(Some(Weak::RemovalNotSynced)).unwrap_err();
    assert!(violation.contains("missing"), "{violation}");
}

#[test]
fn a_session_that_has_written_little_wants_no_segment_ahead_of_need() {
    let options = LogOptions { segment_bytes: 40 * 4096, ..options(None) };
    let disk = SimulatedDisk::new();
    disk.nameless();
    let wants = |media: &Mapped| media.core().log.lock().wants_spare();
    let log = Arc::new(disk.clone());
    let media = Log::create(&base(&disk), log.clone(), BYTES, options).unwrap();
    let mut i = 0;
    media.core().log.lock().spares[0].bytes = 3 * 4096; // There is a short one.
    let mut step_and_sync = |media: &Mapped| {
        i += 1;
        step(media, i);
        media.sync().unwrap();
    };
    while !wants(&media) {
        step_and_sync(&media);
    }
    drop(media);
    let media = Log::open(&base(&disk), log, options).unwrap();
    let short =
        crate::spares::Spare { name: "segment.spare.3000".into(), bytes: 3 * 4096, durable: true };
    media.core().log.lock().spares = vec![short];
    step_and_sync(&media);
    assert!(!wants(&media), "one group");
    (0..5).for_each(|_| step_and_sync(&media));
    assert!(wants(&media), "more than an eighth of a segment");
    media.kill();
}

#[test]
fn openings_that_are_cut_one_after_another_take_no_more_room_than_one() {
    let length = |disk: &SimulatedDisk, name: &str| disk.open(name).unwrap().length().unwrap();
    let control = |disk: &SimulatedDisk| {
        let mut bytes = vec![0; 4 * 4096];
        disk.open("control").unwrap().read(0, &mut bytes).map(|()| bytes).unwrap()
    };
    let room = |disk: &SimulatedDisk| {
        let names = disk.names().unwrap();
        names.iter().map(|name| length(disk, name)).sum::<u64>()
    };
    let (pool, program) = killed();
    let spared = room(&pool);
    let bare = pool.after_kill();
    let is_spare = |name: &&String| name.starts_with("segment.");
    bare.names().unwrap().iter().filter(is_spare).for_each(|name| bare.remove(name).unwrap());
    assert!(room(&bare) < spared);
    // The spares of a session before are the first to go: until then, no more than they took.
    for (pool, most, cut) in (0..CUTS).flat_map(|cut| [(&bare, 0, cut), (&pool, spared, cut)]) {
        let (mut disk, mut rooms) = (pool.after_kill(), Vec::new());
        for _ in 0..5 {
            disk = cut_opening(&disk, None, cut);
            rooms.push(room(&disk));
        }
        if control(&disk) != control(pool) {
            assert!(cut > 3, "a session was served before cut {cut}");
            break;
        }
        let most = most.max(rooms[0]);
        assert!(rooms.iter().all(|bytes| *bytes <= most), "cut {cut}: {rooms:?}");
        program.judge(&open(&disk, None).unwrap()).unwrap();
    }
}
