//! Damage to a log, and logs that do not belong to the pool.

use everleaf_pmem::Media;

use super::*;
use crate::Damage;
use crate::control::MOST_EARLIER;
use crate::disk::{Disk, DiskFile};
use crate::group::{HEADER, Header};
use crate::segment::segment_number;

/// A pool that was killed after `steps`, all of them acknowledged, and sealed.
fn killed_after(steps: u64) -> (SimulatedDisk, Program) {
    let (disk, media) = created(None);
    let mut program = Program::default();
    program.run(&media, steps);
    media.sync().unwrap();
    program.acknowledged = steps;
    media.core().seal().unwrap();
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

/// A pool that was killed again and again: the log has groups of as many sessions as it may have.
fn killed_often() -> (SimulatedDisk, Program) {
    let (mut disk, mut program) = killed_after(3);
    for _ in 0..MOST_EARLIER {
        let media = open(&disk, None).unwrap();
        let next = program.begun + 1;
        step(&media, next);
        media.sync().unwrap();
        program = Program { begun: next, acknowledged: next };
        media.core().seal().unwrap();
        assert!(!media.core().control.lock().earlier.sessions().is_empty());
        media.kill();
        disk = disk.after_kill();
    }
    (disk, program)
}

#[test]
fn damage_to_what_an_earlier_session_has_written_is_reported() {
    let (disk, program) = killed_often();
    let (mut reported, mut salvaged) = (0, 0);
    let all = outcome(&disk, &program).unwrap();
    for (name, block) in segments(&disk).iter().flat_map(|name| (1..5).map(move |at| (name, at))) {
        let copy = disk.after_kill();
        copy.change(name, |bytes| bytes[block * 4096 + 100] ^= 1).unwrap();
        match outcome(&copy, &program) {
            Ok(found) => assert_eq!(found, all, "nothing was there"),
            Err(error) => {
                assert!(error.contains("damaged"), "{name} block {block}: {error}");
                reported += 1;
                let (region, _) = crate::read_damaged(&base(&copy), &copy).unwrap();
                let any = Program { acknowledged: 0, ..program };
                let found = any.judge(&super::salvage::media_of(region)).unwrap();
                salvaged += u64::from(found > 0);
            }
        }
    }
    assert!(reported > 4 && salvaged > 0, "{reported} reported, {salvaged} salvaged in part");
}

#[test]
fn without_its_control_file_a_log_of_many_sessions_is_salvaged_whole() {
    let (disk, program) = killed_often();
    disk.remove("control").unwrap();
    let (region, why) = crate::read_damaged(&base(&disk), &disk).unwrap();
    assert!(matches!(why, Some(LogError::Missing)), "{why:?}");
    program.judge(&super::salvage::media_of(region)).unwrap();
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
}

#[test]
fn a_missing_segment_is_an_error_whichever_it_is() {
    let mut lost = 0;
    for (disk, program) in (19..29).map(killed_after) {
        for name in &segments(&disk) {
            let copy = disk.after_kill();
            copy.remove(name).unwrap();
            let error = outcome(&copy, &program).unwrap_err();
            assert!(error.contains("missing"), "{name}: {error}");
            // Without the rule what it held is lost.
            if let Ok(media) = open(&copy, Some(Weak::GapIsEnd)) {
                lost += u64::from(program.judge(&media).is_err());
                media.kill();
            }
        }
    }
    assert!(lost > 0, "nothing is silently lost");
}

#[test]
fn segments_that_an_opening_has_left_behind_the_end_are_no_damage() {
    let (disk, program) = killed_after(19);
    for cut in 0..40 {
        let copy = disk.after_kill();
        copy.cut_before(cut);
        open(&copy, None).into_iter().for_each(Logged::kill);
        let again = copy.after_kill();
        again.cut_before(cut / 2);
        open(&again, None).into_iter().for_each(Logged::kill);
        assert_eq!(outcome(&again, &program), Ok(19), "cut {cut}");
    }
}

#[test]
fn damage_to_one_control_block_loses_nothing_and_to_two_is_noticed() {
    let (disk, program) = killed_after(19);
    let flip = |disk: &SimulatedDisk, blocks: &[usize]| {
        let change = |bytes: &mut Vec<u8>| blocks.iter().for_each(|i| bytes[i * 4096 + 50] ^= 4);
        disk.change("control", change).unwrap();
    };
    for block in 0..4 {
        let copy = disk.after_kill();
        flip(&copy, &[block]);
        assert_eq!(outcome(&copy, &program), Ok(19), "block {block}");
    }
    for blocks in [&[0, 1][..], &[2, 3], &[0, 1, 2, 3], &[0, 1, 3]] {
        let copy = disk.after_kill();
        flip(&copy, blocks);
        let error = outcome(&copy, &program).unwrap_err();
        assert!(error.contains("control"), "{error}");
    }
}

#[test]
fn without_a_copy_a_damaged_control_block_loses_the_pool() {
    let mut refused = 0;
    for rule in [Weak::ControlOnce, Weak::ControlFallsBack] {
        let (disk, media) = created(Some(rule));
        let mut program = Program::default();
        program.run(&media, 35);
        media.kill();
        for slot in 0..2 {
            let copy = disk.after_kill();
            copy.change("control", |bytes| bytes[slot * 8192 + 50] ^= 4).unwrap();
            if rule == Weak::ControlFallsBack {
                copy.change("control", |bytes| bytes[slot * 8192 + 4146] ^= 4).unwrap();
            }
            // What is opened must be whole.
            let opened = open(&copy, Some(rule)).and_then(|media| program.judge(&media));
            refused += u64::from(opened.is_err());
        }
        assert!(refused > 0, "{rule:?}");
    }
}

#[test]
fn a_control_block_that_states_what_no_log_has_is_an_error() {
    let (disk, program) = killed_after(19);
    for word in 2..17 {
        for value in [0, 1, 4097, 1 << 32, 1 << 50, 1 << 62, u64::MAX] {
            let copy = disk.after_kill();
            let forge = |bytes: &mut Vec<u8>| {
                for block in bytes.chunks_mut(4096) {
                    block[word * 8..word * 8 + 8].copy_from_slice(&u64::to_le_bytes(value));
                    let crc = crc32c::crc32c(&block[..17 * 8]);
                    block[17 * 8..17 * 8 + 4].copy_from_slice(&crc.to_le_bytes());
                }
            };
            copy.change("control", forge).unwrap();
            // Neither a panic nor an abort; what is not refused can be read.
            let _ = outcome(&copy, &program);
            super::salvage::salvaged(&copy);
        }
    }
}

#[test]
fn a_group_of_any_bytes_whose_checksums_hold_is_read_or_refused() {
    let (disk, program) = killed_after(19);
    let mut chance = Chance(6);
    let (mut refused, mut read) = (0, 0);
    for name in segments(&disk) {
        for block in (1..5).flat_map(|block| [block; 40]) {
            let copy = disk.after_kill();
            let forge = |bytes: &mut Vec<u8>| {
                let group = &mut bytes[block * 4096..(block + 1) * 4096];
                let Some((header, _)) = Header::decode(group) else { return };
                let end = HEADER + header.payload_bytes as usize;
                for _ in 0..=chance.below(20) {
                    if let Some(byte) = group.get_mut(HEADER + chance.below(4000)) {
                        *byte = chance.below(256) as u8;
                    }
                }
                let payload_crc = crc32c::crc32c(&group[HEADER..end]);
                let forged = Header { payload_crc, ..header }.encode().0;
                group[..HEADER].copy_from_slice(&forged);
            };
            copy.change(&name, forge).unwrap();
            // A forged group breaks the chain of checksums, unless it is the last.
            *(if outcome(&copy, &program).is_err() { &mut refused } else { &mut read }) += 1;
            super::salvage::salvaged(&copy);
        }
    }
    assert!(refused > 50 && read > 50, "{refused} refused, {read} read");
}

#[test]
fn a_segment_that_is_longer_than_it_was_made_is_read_as_far_as_it_was() {
    let (disk, program) = killed_after(19);
    let huge = Arc::new(Huge(disk.after_kill()));
    let media = Log::open(&base(&huge.0), huge.clone(), options(None)).unwrap();
    assert_eq!(program.judge(&media), Ok(19));
    media.kill();
    // One whose header is damaged is refused; to be salvaged it is read as far as it is valid.
    for name in segments(&disk) {
        let copy = disk.after_kill();
        copy.change(&name, |bytes| bytes[9] ^= 1).unwrap();
        let huge = Huge(copy);
        let error = crate::read_only(&base(&huge.0), &huge).err().unwrap();
        assert!(error.to_string().contains("header of the segment"), "{error}");
        let (region, why) = crate::read_damaged(&base(&huge.0), &huge).unwrap();
        assert!(why.is_some());
        assert_eq!(program.judge(&super::salvage::media_of(region)), Ok(19));
    }
}

/// A disk whose files say that they have an EiB, zeros behind what was written.
struct Huge(SimulatedDisk);

struct HugeFile(Arc<dyn DiskFile>);

impl DiskFile for HugeFile {
    fn length(&self) -> std::io::Result<u64> {
        Ok(1 << 60)
    }
    fn read(&self, offset: u64, bytes: &mut [u8]) -> std::io::Result<()> {
        bytes.fill(0);
        let there = self.0.length()?.saturating_sub(offset).min(bytes.len() as u64);
        self.0.read(offset, &mut bytes[..there as usize])
    }
    fn write(&self, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
        self.0.write(offset, bytes)
    }
    fn allocate(&self, length: u64) -> std::io::Result<()> {
        self.0.allocate(length)
    }
    fn sync(&self) -> std::io::Result<()> {
        self.0.sync()
    }
}

impl Disk for Huge {
    fn names(&self) -> std::io::Result<Vec<String>> {
        self.0.names()
    }
    fn open(&self, name: &str) -> std::io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(HugeFile(self.0.open(name)?)))
    }
    fn create(&self, name: &str) -> std::io::Result<Arc<dyn DiskFile>> {
        self.0.create(name)
    }
    fn rename(&self, from: &str, to: &str) -> std::io::Result<()> {
        self.0.rename(from, to)
    }
    fn remove(&self, name: &str) -> std::io::Result<()> {
        self.0.remove(name)
    }
    fn sync(&self) -> std::io::Result<()> {
        self.0.sync()
    }
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
        let refused = Log::open(&mixed, Arc::new(log.after_kill()), options(None));
        let error = refused.expect_err("mixed");
        assert!(matches!(error, LogError::OtherTime), "{error}");
    }
    assert!(outcome(&earlier, &program).is_ok() || outcome(&later, &program).is_ok());
}

#[test]
fn foreign_missing_and_newer_logs_are_recognised() {
    let (disk, program) = killed_after(5);
    let foreign = Base { uuid: 8, ..base(&disk) };
    let refused = Log::open(&foreign, Arc::new(disk.clone()), options(None)).err().unwrap();
    assert!(matches!(refused, LogError::Foreign), "{refused}");
    let empty = Arc::new(SimulatedDisk::new());
    let refused = Log::open(&base(&disk), empty, options(None)).err().unwrap();
    assert!(matches!(refused, LogError::Missing), "{refused}");
    for version in [1, 2, 5] {
        let other = disk.after_kill();
        let change = |bytes: &mut Vec<u8>| {
            bytes.truncate(8192);
            for block in bytes.chunks_mut(4096) {
                block[8] = version;
                let crc = crc32c::crc32c(&block[..17 * 8]);
                block[17 * 8..17 * 8 + 4].copy_from_slice(&crc.to_le_bytes());
            }
        };
        other.change("control", change).unwrap();
        let error = outcome(&other, &program).unwrap_err();
        assert!(error.contains(&format!("format {version}")), "{error}");
    }
    assert_eq!(outcome(&disk, &program), Ok(5));
}

#[test]
fn reading_changes_nothing_and_sees_everything() {
    let (disk, _) = killed_after(18);
    let copy = disk.after_kill();
    let region = crate::read_only(&base(&copy), &copy).unwrap();
    assert_eq!(copy.operations(), 0);
    let cpu = everleaf_pmem::Cpu::detect();
    let media = everleaf_pmem::Mapped::new(region, &cpu).unwrap();
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
    short.first_file().read(0, &mut bytes).unwrap();
    file.first_file().write(0, &bytes).unwrap();
    let cut = Base { file: file.first_file(), ..base(&short) };
    let refused = Log::open(&cut, Arc::new(short.clone()), options(None)).err().unwrap();
    assert!(matches!(refused, LogError::Damaged { what: Damage::Outside, .. }), "{refused}");
    assert!(outcome(&disk, &program).is_ok());
}
