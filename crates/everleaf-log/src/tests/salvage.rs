//! What is taken from logs that are refused.

use everleaf_pmem::{Cpu, Region};

use super::*;
use crate::disk::Disk;
use crate::read_damaged;
use crate::segment::segment_number;

pub(super) fn media_of(region: Region) -> Mapped {
    Mapped::new(region, &Cpu::detect()).unwrap()
}

/// What is salvaged of a copy of the disk, and why it was refused. Nothing is written.
pub(super) fn salvaged(disk: &SimulatedDisk) -> (Mapped, Option<LogError>) {
    let copy = disk.after_kill();
    let (region, why) = read_damaged(&base(&copy), &copy).unwrap();
    assert_eq!(copy.operations(), 0);
    (media_of(region), why)
}

/// A pool that was killed after `steps`, and its segments.
fn killed_after(steps: u64) -> (SimulatedDisk, Program, Vec<String>) {
    let (disk, media) = created(None);
    let mut program = Program::default();
    program.run(&media, steps);
    media.sync().unwrap();
    media.core().seal().unwrap();
    media.kill();
    let mut names = disk.names().unwrap();
    names.retain(|name| segment_number(name).is_some());
    (disk, Program { acknowledged: 0, ..program }, names)
}

/// Of damages from the beginning of the log to its end ever more is taken, in the end everything.
fn takes_all_before(damages: Vec<SimulatedDisk>, program: &Program) {
    let mut before = 0;
    for (i, disk) in damages.iter().enumerate() {
        let (media, why) = salvaged(disk);
        if why.is_none() {
            continue; // Not where the log is read.
        }
        let newest = program.judge(&media).unwrap_or_else(|error| panic!("damage {i}: {error}"));
        assert!(newest >= before, "damage {i}: {newest}, {before} with one before it: {why:?}");
        before = newest;
    }
    assert!(before + 4 >= program.begun, "{before}");
}

#[test]
fn of_a_sound_log_everything_is_taken_and_nothing_is_said() {
    let (disk, program, _) = killed_after(19);
    let (media, why) = salvaged(&disk);
    assert_eq!(program.judge(&media), Ok(19));
    assert!(why.is_none(), "{why:?}");
}

#[test]
fn groups_before_a_damaged_one_are_taken() {
    let (disk, program, names) = killed_after(19);
    let blocks = names.iter().flat_map(|name| (1..5).map(move |block| (name, block)));
    let damage = |(name, block): (&String, usize)| {
        let copy = disk.after_kill();
        copy.change(name, |bytes| bytes[block * 4096 + 99] ^= 1).unwrap();
        copy
    };
    takes_all_before(blocks.map(damage).collect(), &program);
}

#[test]
fn segments_before_one_that_is_short_or_missing_are_taken() {
    let (disk, program, names) = killed_after(19);
    for blocks in [None, Some(0), Some(1), Some(3)] {
        let damage = |name: &String| {
            let copy = disk.after_kill();
            match blocks {
                None => copy.remove(name).unwrap(),
                Some(blocks) => {
                    copy.change(name, |bytes| bytes.truncate(blocks * 4096)).unwrap();
                }
            }
            copy
        };
        takes_all_before(names.iter().map(damage).collect(), &program);
    }
}

#[test]
fn without_control_blocks_everything_is_taken() {
    for closed in [false, true] {
        for steps in 1..40 {
            let (disk, mut program, _) = killed_after(steps);
            // A session more, so that the control blocks are those of two sessions.
            let media = open(&disk, None).unwrap();
            program.run(&media, steps + 3);
            media.sync().unwrap();
            if closed {
                drop(media)
            } else {
                media.kill()
            }
            for blocks in [&[0, 1][..], &[2, 3], &[0, 1, 2, 3]] {
                let copy = disk.after_kill();
                let flip = |bytes: &mut Vec<u8>| blocks.iter().for_each(|i| bytes[i * 4096] ^= 4);
                copy.change("control", flip).unwrap();
                let (media, why) = salvaged(&copy);
                assert!(why.is_some_and(|why| why.to_string().contains("control")));
                assert_eq!(program.judge(&media), Ok(steps + 3), "{steps} {blocks:?} {closed}");
            }
            disk.remove("control").unwrap();
            let (media, why) = salvaged(&disk);
            assert!(matches!(why, Some(LogError::Missing)), "{why:?}");
            assert_eq!(program.judge(&media), Ok(steps + 3), "{steps} {closed}");
        }
    }
}

#[test]
fn of_a_log_of_another_time_or_pool_nothing_is_taken() {
    let (disk, _, _) = killed_after(19);
    let other = Base { uuid: 8, ..base(&disk) };
    let (region, why) = read_damaged(&other, &disk).unwrap();
    assert!(matches!(why, Some(LogError::Foreign)), "{why:?}");
    let file = word(&media_of(region), A);
    assert!(file < 19, "the file alone has {file}");
    let (later, media) = (disk.after_kill(), open(&disk, None).unwrap());
    Program { begun: 19, ..Program::default() }.run(&media, 60);
    media.kill();
    let mixed = Base { file: disk.first_file(), ..base(&later) };
    let (region, why) = read_damaged(&mixed, &later).unwrap();
    assert!(matches!(why, Some(LogError::OtherTime)), "{why:?}");
    assert!(word(&media_of(region), A) > 50, "the file alone");
}
