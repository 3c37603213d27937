//! Logs that become longer because their pools do.

use everleaf_pmem::Media;

use super::*;
use crate::disk::{BLOCK, Disk};
use crate::segment::{bytes_of, segment_number};
use crate::spares::LEAST;

/// A block more in each segment for every two of the pool.
fn lengths(bytes: u64) -> LogOptions {
    let segment_bytes = 5 * BLOCK + (bytes - BYTES) / 2;
    LogOptions { segment_bytes, log_bytes: 3 * segment_bytes, ..options(None) }
}

fn created() -> (SimulatedDisk, Mapped) {
    let disk = SimulatedDisk::new();
    disk.nameless();
    let options = LogOptions { growth: Some(lengths), ..lengths(BYTES) };
    let media = Log::create(&base(&disk), Arc::new(disk.clone()), BYTES, options).unwrap();
    media.checkpoint().unwrap();
    (disk, media)
}

/// A program in whose course the pool grows twice, until the power fails.
fn run(media: &Mapped, program: &mut Program) {
    for (steps, blocks) in [(9, 4), (18, 12), (32, 12)] {
        program.run(media, steps);
        if program.begun < steps || media.grow(BYTES + blocks * BLOCK).is_err() {
            return;
        }
    }
}

/// Blocks of the segments, in their order.
fn blocks(disk: &SimulatedDisk) -> Vec<u64> {
    let mut names = disk.names().unwrap();
    names.retain(|name| segment_number(name).is_some());
    names.sort();
    names.iter().filter_map(|name| Some(bytes_of(disk, name, 7)? / BLOCK)).collect()
}

#[test]
fn a_log_becomes_longer_with_its_pool_and_keeps_to_its_options_without_growth() {
    let (disk, media) = created();
    let mut program = Program::default();
    program.run(&media, 9);
    assert_eq!((blocks(&disk).pop(), media.core().log_bytes()), (Some(5), 15 * BLOCK));
    media.grow(BYTES + 12 * BLOCK).unwrap();
    assert_eq!(media.core().log_bytes(), 33 * BLOCK);
    program.run(&media, 40);
    assert!(blocks(&disk).iter().all(|blocks| *blocks == 11), "{:?}", blocks(&disk));
    media.kill();
    let (disk, media) = super::created(None);
    media.grow(BYTES + 12 * BLOCK).unwrap();
    program = Program::default();
    program.run(&media, 40);
    assert!(blocks(&disk).iter().all(|blocks| *blocks == 5), "{:?}", blocks(&disk));
    media.kill();
}

#[test]
fn each_cut_while_a_log_becomes_longer_loses_nothing() {
    let mut chance = Chance(11);
    let mut mixed = 0;
    for cut in (0..).step_by(3) {
        let (disk, media) = created();
        disk.cut_before(disk.operations() + cut);
        let mut program = Program::default();
        run(&media, &mut program);
        media.kill();
        let at = |error| format!("seed 11, cut {cut}: {error}");
        for left in [disk.after_kill()].into_iter().chain(outcomes(&disk, 3, &mut chance)) {
            let lengths = blocks(&left);
            mixed += u64::from(lengths.windows(2).any(|pair| pair[0] != pair[1]));
            let media = open(&left, None).map_err(at).unwrap();
            let found = program.judge(&media).map_err(at).unwrap();
            // What the next session writes is judged as well.
            let a = word(&media, A).max(found);
            let mut next = Program { begun: a, acknowledged: found };
            next.run(&media, a + 6);
            media.kill();
            let media = open(&left.after_kill(), None).map_err(at).unwrap();
            assert!(word(&media, A) >= next.acknowledged, "seed 11, cut {cut}");
            media.kill();
        }
        if !disk.is_off() {
            break;
        }
    }
    assert!(mixed > 20, "segments of two lengths: {mixed}");
}

#[test]
fn spares_of_the_length_before_go_but_for_the_least_and_the_last() {
    let (disk, media) = super::created(None);
    let mut log = media.core().log.lock();
    let give = |log: &mut Writer, bytes| {
        let spare = LogOptions { segment_bytes: bytes, ..options(None) };
        let spare = log.spares_of(&spare).make(false).unwrap();
        log.spares.push(spare);
    };
    let lengths = |log: &Writer| -> Vec<u64> {
        let lengths = log.spares.iter().map(|spare| spare.bytes).collect::<Vec<_>>();
        let names = log.spares.iter().all(|spare| disk.open(&spare.name).is_ok());
        assert!(names && disk.names().unwrap().len() == lengths.len() + 2, "and the control file");
        lengths
    };
    log.spares.drain(..).for_each(|spare| disk.remove(&spare.name).unwrap());
    let (short, long) = (LEAST * 2, LEAST * 4);
    give(&mut log, short);
    log.drop_unfit_spares().unwrap();
    assert_eq!(lengths(&log), [short], "the last one stays");
    give(&mut log, LEAST);
    give(&mut log, long);
    log.set_lengths(&LogOptions { segment_bytes: long, ..options(None) });
    log.drop_unfit_spares().unwrap();
    assert_eq!(lengths(&log), [LEAST, long]);
    drop(log);
    media.kill();
}

#[test]
fn a_pool_leaves_the_room_that_its_log_needs_and_a_longer_one_has_if_there_is_some() {
    let (disk, media) = created();
    let (now, then) = (7 * 5 * BLOCK, 7 * 12 * BLOCK);
    disk.limit_room(BYTES + 10 * BLOCK + now, true);
    let refused = media.grow(BYTES + 12 * BLOCK);
    assert!(matches!(refused, Err(everleaf_pmem::MapError::DiskFull { .. })), "{refused:?}");
    disk.limit_room(BYTES + 12 * BLOCK + now, true);
    media.grow(BYTES + 12 * BLOCK).unwrap();
    assert_eq!(media.core().log_bytes(), 15 * BLOCK, "the log stays as it is");
    disk.limit_room(BYTES + 14 * BLOCK + then, true);
    media.grow(BYTES + 14 * BLOCK).unwrap();
    assert_eq!(media.core().log_bytes(), 36 * BLOCK, "now it becomes longer");
    media.kill();
}

#[test]
fn the_log_of_a_small_pool_takes_three_mebibytes_and_that_of_a_large_one_few_lengths() {
    let small = LogOptions::for_pool(1 << 20);
    assert_eq!((small.segment_bytes, small.log_bytes), (1 << 20, 4 << 20));
    let sizes = (20..40).flat_map(|bits| [1 << bits, 3 << (bits - 1)]);
    let mut lengths: Vec<u64> = sizes.map(|at| LogOptions::for_pool(at).segment_bytes).collect();
    assert!(lengths.is_sorted());
    lengths.dedup();
    assert_eq!(lengths, [1 << 20, 2 << 20, 4 << 20, 8 << 20, 16 << 20]);
}
