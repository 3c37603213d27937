//! Damage to a log, and logs that do not belong to the pool.

use everleaf_pmem::Media;

use super::*;
use crate::disk::Disk;
use crate::writer::segment_number;
use crate::{Damage, LogError};

/// A pool that was killed after `steps`, all of them acknowledged, and sealed.
fn killed_after(steps: u64) -> (SimulatedDisk, Program) {
    let (disk, media) = created(None);
    let mut program = Program::default();
    program.run(&media, steps);
    media.sync().unwrap();
    program.acknowledged = steps;
    media.core.seal().unwrap();
    media.kill();
    (disk, program)
}

fn segments(disk: &SimulatedDisk) -> Vec<String> {
    let names = disk.names().unwrap().into_iter();
    names.filter(|name| segment_number(name).is_some()).collect()
}

/// What an opening of a copy of the disk says.
fn outcome(disk: &SimulatedDisk, program: &Program) -> Result<u64, String> {
    let copy = disk.after_kill();
    let media = open(&copy, None)?;
    let found = program.judge(&media);
    media.kill();
    found.map_err(|error| format!("SILENT: {error}"))
}

#[test]
fn damage_to_what_was_acknowledged_is_reported_and_never_silent() {
    let (disk, program) = killed_after(19);
    let mut chance = Chance(5);
    let (mut reported, mut harmless) = (0, 0);
    for name in segments(&disk) {
        let mut length = 0;
        disk.after_kill().change(&name, |bytes| length = bytes.len()).unwrap();
        // Each byte of each header, and some of what follows it.
        let near = (0..length).filter(|at| at % 4096 < 200);
        let places: Vec<usize> = near.chain((0..200).map(|_| chance.below(length))).collect();
        for at in places {
            let copy = disk.after_kill();
            let bit = chance.below(8);
            copy.change(&name, |bytes| bytes[at] ^= 1 << bit).unwrap();
            match outcome(&copy, &program) {
                Ok(found) => harmless += u64::from(found == 19),
                Err(error) => {
                    assert!(error.contains("damaged"), "{name} byte {at} bit {bit}: {error}");
                    reported += 1;
                }
            }
        }
    }
    assert!(reported > 100 && harmless > 100, "{reported} reported, {harmless} harmless");
}

#[test]
fn without_the_rule_damage_is_taken_for_the_end() {
    let (disk, program) = killed_after(19);
    let mut lost = 0;
    for name in segments(&disk) {
        for block in 0..5 {
            let copy = disk.after_kill();
            copy.change(&name, |bytes| bytes[block * 4096 + 100] ^= 1).unwrap();
            if outcome(&copy, &program).is_ok_and(|found| found == 19) {
                continue; // Nothing was there.
            }
            if let Ok(media) = open(&copy, Some(Weak::DamageIsTail)) {
                lost += u64::from(program.judge(&media).is_err());
                media.kill();
            }
        }
    }
    assert!(lost > 0, "nothing is silently lost");
}

#[test]
fn a_truncated_or_missing_segment_is_an_error() {
    let (disk, program) = killed_after(19);
    for name in segments(&disk) {
        for blocks in 0..5 {
            let copy = disk.after_kill();
            copy.change(&name, |bytes| bytes.truncate(blocks * 4096)).unwrap();
            let error = outcome(&copy, &program).unwrap_err();
            assert!(error.contains("truncated"), "{name} {blocks}: {error}");
        }
    }
    let first = segments(&disk).remove(0);
    disk.remove(&first).unwrap();
    let error = outcome(&disk, &program).unwrap_err();
    assert!(error.contains("missing"), "{error}");
}

#[test]
fn a_damaged_control_block_is_noticed_or_harmless() {
    let (disk, program) = killed_after(19);
    for block in 0..2 {
        let copy = disk.after_kill();
        copy.change("control", |bytes| bytes[block * 4096 + 50] ^= 4).unwrap();
        match outcome(&copy, &program) {
            Ok(found) => assert_eq!(found, 19),
            Err(error) => assert!(!error.contains("SILENT"), "block {block}: {error}"),
        }
    }
    disk.change("control", |bytes| (bytes[50], bytes[4146]) = (!bytes[50], !bytes[4146])).unwrap();
    let error = outcome(&disk, &program).unwrap_err();
    assert!(error.contains("control"), "{error}");
}

#[test]
fn a_log_that_was_copied_earlier_or_later_than_the_pool_is_refused() {
    let (disk, media) = created(None);
    let mut program = Program::default();
    program.run(&media, 7);
    let earlier = disk.after_kill();
    program.run(&media, 33);
    media.kill();
    let later = disk.after_kill();
    // The pool's file of one time beside the log of the other.
    for (file, log) in [(&later, &earlier), (&earlier, &later)] {
        let mixed = Base { file: file.after_kill().first_file(), ..base(log) };
        let refused = Logged::open(&mixed, Arc::new(log.after_kill()), options(None));
        let error = refused.err().expect("mixed");
        assert!(matches!(error, LogError::OtherTime), "{error}");
    }
    assert!(outcome(&earlier, &program).is_ok() || outcome(&later, &program).is_ok());
}

#[test]
fn foreign_missing_and_newer_logs_are_recognised() {
    let (disk, program) = killed_after(5);
    let foreign = Base { uuid: 8, ..base(&disk) };
    let refused = Logged::open(&foreign, Arc::new(disk.clone()), options(None)).err().unwrap();
    assert!(matches!(refused, LogError::Foreign), "{refused}");
    let empty = Arc::new(SimulatedDisk::new());
    let refused = Logged::open(&base(&disk), empty, options(None)).err().unwrap();
    assert!(matches!(refused, LogError::Missing), "{refused}");
    assert_eq!(outcome(&disk, &program), Ok(5));
}

#[test]
fn reading_changes_nothing_and_sees_everything() {
    let (disk, _) = killed_after(18);
    let copy = disk.after_kill();
    let region = crate::read_only(&base(&copy), &copy).unwrap();
    assert_eq!(copy.operations(), 0);
    let cpu = everleaf_pmem::Cpu::detect();
    let media = everleaf_pmem::Hardware::new(region, &cpu).unwrap();
    assert_eq!(media.load(media.region().at::<PCell>(A).unwrap()), 18);
}

#[test]
fn a_group_that_leads_outside_the_pool_is_damage() {
    let (disk, program) = killed_after(9);
    let short = disk.after_kill();
    // The pool's file was cut behind the lines that the log speaks of.
    let file = SimulatedDisk::new();
    file.nameless();
    let mut bytes = vec![0; 8192];
    use crate::disk::DiskFile;
    short.first_file().read(0, &mut bytes).unwrap();
    file.first_file().write(0, &bytes).unwrap();
    let cut = Base { file: file.first_file(), ..base(&short) };
    let refused = Logged::open(&cut, Arc::new(short.clone()), options(None)).err().unwrap();
    assert!(matches!(refused, LogError::Damaged { what: Damage::Outside, .. }), "{refused}");
    assert!(outcome(&disk, &program).is_ok());
}
