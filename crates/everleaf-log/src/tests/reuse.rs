//! Segments that are used again, with stale groups in them.

use everleaf_pmem::Media;

use super::chains::{History, broken_without, end, fail_power, open_base, session};
use super::*;
use crate::disk::{BLOCK, Disk};
use crate::group::{HEADER, Header};
use crate::segment::{FIRST, segment_name, segment_number};

/// What a session had begun with.
pub(super) struct Begun {
    segment: u64,
    zero_bytes: u64,
}

impl Begun {
    pub(super) fn of(media: &Mapped) -> Self {
        let log = media.core().log.lock();
        Self { segment: log.place.segment, zero_bytes: log.zero_bytes }
    }

    /// How many segments were used again since then, at least.
    pub(super) fn used_again(&self, media: &Mapped) -> u64 {
        let log = media.core().log.lock();
        let made = (log.zero_bytes - self.zero_bytes).div_ceil(log.segment_bytes);
        (log.place.segment - self.segment).saturating_sub(made)
    }
}

fn spares(disk: &SimulatedDisk) -> usize {
    disk.names().unwrap().iter().filter(|name| name.starts_with("segment.")).count()
}

fn segments(disk: &SimulatedDisk) -> Vec<u64> {
    disk.names().unwrap().iter().filter_map(|name| segment_number(name)).collect()
}

#[test]
fn a_log_that_has_its_length_takes_no_zeros() {
    let (disk, media) = created(None);
    let mut program = Program::default();
    program.run(&media, 40);
    let (begun, before) = (Begun::of(&media), media.log_counts().unwrap());
    let mut most = 0;
    for steps in 41..240 {
        program.run(&media, steps);
        most = most.max(segments(&disk).len() + spares(&disk));
    }
    let after = media.log_counts().unwrap();
    assert_eq!(after.zero_bytes, before.zero_bytes);
    assert!(begun.used_again(&media) > 40, "{after:?}");
    assert!(most <= 7, "twice 15 blocks, in segments of 5, and one: {most}");
    media.sync().unwrap();
    program.acknowledged = program.begun;
    let killed = disk.after_kill();
    assert!(spares(&killed) > 0);
    drop(media);
    assert_eq!((spares(&disk), segments(&disk).len()), (1, 1), "a closed log");
    for disk in [killed, disk] {
        let old = segments(&disk);
        let media = open(&disk, None).unwrap();
        assert_eq!(program.judge(&media), Ok(program.begun));
        assert!(spares(&disk) + segments(&disk).len() <= 7, "{old:?}");
        media.kill();
    }
}

#[test]
fn a_segment_of_another_length_is_not_used_again() {
    let (disk, media) = created(None);
    media.kill();
    for blocks in [6, 6, 5, 7] {
        let bytes = blocks * 4096;
        let options = LogOptions { segment_bytes: bytes, ..options(None) };
        let media = Log::open(&base(&disk), Arc::new(disk.clone()), options).unwrap();
        let segment = || media.core().log.lock().place.segment;
        let last = segment() + 3;
        (0..).take_while(|_| segment() < last).for_each(|i| touch(&media, i));
        media.checkpoint().unwrap();
        let found = media.core().log.lock().spares.clone();
        assert_eq!(spares(&disk), found.len());
        assert!(found.iter().any(|spare| spare.bytes == bytes), "{blocks}: {found:?}");
        let others = found.iter().filter(|spare| spare.bytes != bytes);
        assert!(others.count() <= 1, "{blocks}: {found:?}");
        media.kill();
    }
    // One whose header cannot be read any more is none either.
    let segment = segments(&disk)[0];
    let media = open(&disk, None).unwrap();
    let (mut chance, mut history) = (Chance(1), History::default());
    while media.core().log.lock().place.segment < segment + 3 {
        session(&media, &mut history, &mut chance).unwrap();
    }
    for number in segments(&disk) {
        disk.change(&segment_name(number), |bytes| bytes[9] ^= 1).unwrap();
    }
    media.core().log.lock().spares.clear();
    let (before, live) = (spares(&disk), media.core().log.lock().place.segment);
    media.checkpoint().unwrap();
    assert_eq!((spares(&disk), segments(&disk)), (before, vec![live]));
    media.kill();
}

/// A program that has made checkpoints, and goes on until the power fails.
fn cut_program(weak: Option<Weak>, cut: u64) -> (SimulatedDisk, Program) {
    let (disk, media) = created(weak);
    let mut program = Program::default();
    program.run(&media, 16);
    let begun = Begun::of(&media);
    disk.cut_before(disk.operations() + cut);
    program.run(&media, 28);
    assert!(disk.is_off() || begun.used_again(&media) > 2);
    media.kill();
    (disk, program)
}

/// Whether a power failure has left the last segment its new name and an older one.
fn names_left(disk: &SimulatedDisk, left: &SimulatedDisk) -> Option<(bool, bool)> {
    let last = segments(disk).last().copied()?;
    let (now, found) = (disk.names().unwrap(), left.names().unwrap());
    let older = found.iter().any(|name| !now.contains(name) && name.starts_with("segment"));
    Some((found.contains(&segment_name(last)), older))
}

#[test]
fn each_cut_while_segments_are_used_again_loses_nothing() {
    let mut chance = Chance(8);
    let mut seen = std::collections::BTreeMap::new();
    for cut in 0.. {
        let (disk, program) = cut_program(None, cut);
        let at = |error| format!("cut {cut}: {error}");
        for left in [disk.after_kill()].into_iter().chain(outcomes(&disk, 50, &mut chance)) {
            *seen.entry(names_left(&disk, &left)).or_insert(0) += 1;
            let media = open(&left, None).map_err(at).unwrap();
            let found = program.judge(&media).map_err(at).unwrap();
            // The session after it comes to use segments again, and the power fails once more.
            let mut next = Program { begun: complete(&media, found), acknowledged: found };
            let until = next.begun + 4 + chance.below(12) as u64;
            next.run(&media, until);
            media.kill();
            for left in outcomes(&left, 3, &mut chance) {
                let media = open(&left, None).map_err(at).unwrap();
                next.judge(&media).map_err(at).unwrap();
                media.kill();
            }
        }
        if !disk.is_off() {
            break;
        }
    }
    println!("{seen:?}");
    for new in [false, true] {
        for older in [false, true] {
            let times = seen.get(&Some((new, older))).copied().unwrap_or(0);
            assert!(times > 20, "the new name {new}, an older one {older}: {seen:?}");
        }
    }
}

#[test]
fn the_new_name_is_durable_before_the_segment_before_speaks_of_it() {
    let violation = broken_without(Weak::OtherNameNotSynced);
    assert!(violation.contains("missing"), "{violation}");
}

// ---- stale groups

/// Blocks of a segment here.
const BLOCKS: u64 = 9;

fn open_long(disk: &SimulatedDisk) -> Mapped {
    let options = LogOptions { segment_bytes: BLOCKS * BLOCK, ..options(None) };
    Log::open(&base(disk), Arc::new(disk.clone()), options).unwrap()
}

/// A group of one block, acknowledged.
fn touch(media: &Mapped, i: u64) {
    media.store(cell(media, 512), i);
    media.flush(site!("test.touch"), cell(media, 512));
    media.wait_durable(media.durable_point()).unwrap();
}

/// What [`fill`] stores to a word: nothing that repeats.
fn filling(offset: u64) -> u64 {
    Chance(offset).below(usize::MAX) as u64
}

/// A group of four blocks that nobody waits for.
fn fill(media: &Mapped) {
    let offsets = (A..BYTES).step_by(8);
    offsets.clone().for_each(|at| media.store(cell(media, at), filling(at)));
    media.flush_lines(site!("test.fill"), (A..BYTES).step_by(LINE));
    let from = media.core().log.lock().place.offset;
    assert_eq!(media.core().close_for_checkpoint().unwrap().offset, from + 4 * BLOCK);
}

/// Whether the group of [`fill`] is there; it is so whole or not at all.
fn is_filled(media: &Mapped) -> bool {
    let mut found = (A..BYTES).step_by(8).map(|at| word(media, at) == filling(at));
    let first = found.next().unwrap();
    assert!(found.all(|word| word == first), "torn");
    first
}

/// The blocks of a segment that begin with a stale group.
fn stale(disk: &SimulatedDisk, segment: u64) -> Vec<u64> {
    let file = disk.open(&segment_name(segment)).unwrap();
    let header = |at: u64| {
        let mut bytes = [0; HEADER];
        file.read(at, &mut bytes).unwrap();
        Header::decode(&bytes).map(|(header, _)| header)
    };
    let blocks = (FIRST..BLOCKS * BLOCK).step_by(BLOCK as usize);
    blocks.filter(|at| header(*at).is_some_and(|header| header.segment < segment)).collect()
}

/// A pool in whose last segment so many groups stand before stale ones: of the same session or of
/// the one before. The last `touch`.
fn over_stale(groups: u64, other_session: bool) -> (SimulatedDisk, Mapped, u64) {
    let (disk, media) = created(None);
    media.kill();
    let (mut media, mut i) = (open_long(&disk), 0);
    let mut touches = |media: &Mapped, times: u64| {
        (i + 1..=i + times).for_each(|i| touch(media, i));
        i += times;
        i
    };
    touches(&media, 3 * BLOCKS);
    if other_session {
        media.kill();
        media = open_long(&disk);
    }
    media.checkpoint().unwrap();
    assert!(spares(&disk) > 1);
    let segment = media.core().log.lock().place.segment;
    while media.core().log.lock().place.segment == segment {
        touches(&media, 1);
    }
    let last = touches(&media, groups - 1);
    let place = media.core().log.lock().place;
    assert_eq!(place.offset, FIRST + groups * BLOCK);
    let expected: Vec<u64> = (place.offset..(BLOCKS) * BLOCK).step_by(BLOCK as usize).collect();
    assert_eq!(stale(&disk, place.segment), expected);
    (disk, media, last)
}

#[test]
fn stale_groups_behind_the_end_are_none_and_no_damage() {
    for (groups, other_session) in (1..7).flat_map(|groups| [(groups, false), (groups, true)]) {
        let (disk, media, last) = over_stale(groups, other_session);
        media.kill();
        for left in [disk.after_kill(), disk.after_power_failure(|_| 0)] {
            let media = open_long(&left);
            assert_eq!(word(&media, 512), last);
            media.kill();
        }
    }
}

#[test]
fn a_torn_group_over_stale_ones_is_not_there() {
    let (mut torn, mut headless, mut whole, mut chance) = (0, 0, 0, Chance(4));
    for (groups, other_session) in (1..4).flat_map(|groups| [(groups, false), (groups, true)]) {
        let (disk, media, last) = over_stale(groups, other_session);
        let place = media.core().log.lock().place;
        fill(&media);
        media.kill();
        // Each sector is as it was or as it was written; now and then most of them as written.
        let (mut lost, mut tries) = (0, 0);
        while tries < 200 {
            tries += 1;
            let few = [2, 40][tries % 2];
            let left = disk.after_power_failure(|ways| match chance.below(few) {
                0 => 0,
                _ => ways - 1,
            });
            let old = stale(&left, place.segment);
            let inside = |at: &&u64| (place.offset..place.offset + 4 * BLOCK).contains(*at);
            let media = open_long(&left);
            assert_eq!(word(&media, 512), last);
            match (is_filled(&media), old.contains(&place.offset)) {
                (true, _) => whole += 1,
                (false, true) => headless += 1,
                (false, false) if old.iter().any(|at| inside(&at)) => torn += 1,
                (false, false) => lost += 1,
            }
            media.kill();
        }
        assert!(lost > 0, "a torn group without a stale one in it");
    }
    assert!(torn > 100 && headless > 100 && whole > 20, "{torn} {headless} {whole}");
}

#[test]
fn damage_in_the_middle_of_a_segment_that_is_used_again_is_told() {
    for other_session in [false, true] {
        let (disk, media, last) = over_stale(4, other_session);
        media.core().seal().unwrap();
        let segment = media.core().log.lock().place.segment;
        media.kill();
        let used = HEADER + 5; // A line, two masks, and one byte of a word.
        for at in (1..BLOCKS).flat_map(|block| (0..used as u64).map(move |at| block * BLOCK + at)) {
            let copy = disk.after_kill();
            copy.change(&segment_name(segment), |bytes| bytes[at as usize] ^= 16).unwrap();
            let opened = crate::read_only(&base(&copy), &copy);
            // Four groups and the empty one behind them.
            if at < 5 * BLOCK {
                let error = opened.err().unwrap_or_else(|| panic!("byte {at}")).to_string();
                assert!(error.contains("damaged"), "byte {at}: {error}");
            } else {
                let media = super::salvage::media_of(opened.unwrap());
                assert_eq!(media.load(media.region().at::<PCell>(512).unwrap()), last);
            }
        }
    }
}

// ---- long histories

/// Sessions with many checkpoints, closed, killed and cut at any operation.
fn long_history(seed: u64, seen: &mut Seen) -> Result<(), String> {
    let mut chance = Chance(seed);
    let chance = &mut chance;
    let mut disk = SimulatedDisk::new();
    disk.nameless();
    let base = open_base(&disk);
    Log::create(&base, Arc::new(disk.clone()), BYTES, options(None)).unwrap();
    let mut history = History::default();
    for number in 0..12 {
        let at = |error: String| format!("seed {seed}, session {number}: {error}");
        if chance.below(2) == 0 {
            disk.cut_before(chance.below(600) as u64);
        }
        match Log::open(&open_base(&disk), Arc::new(disk.clone()), options(None)) {
            Ok(media) => {
                history.serve(&media).map_err(at)?;
                let begun = Begun::of(&media);
                let cut = (0..12).any(|_| session(&media, &mut history, chance).is_err());
                seen.cuts += u64::from(cut);
                seen.used_again += begun.used_again(&media);
                seen.states += 1;
                end(media, chance);
            }
            Err(_) if disk.is_off() => {}
            Err(error) => return Err(at(format!("not opened: {error}"))),
        }
        disk = if chance.below(3) == 0 { disk.after_kill() } else { fail_power(&disk, chance) };
    }
    Ok(())
}

#[test]
fn long_histories_with_checkpoints_lose_nothing() {
    let mut seen = Seen::default();
    for seed in 0..60 {
        long_history(seed, &mut seen).unwrap_or_else(|violation| panic!("{violation}"));
    }
    println!("{seen:?}");
    assert!(seen.used_again > 3000 && seen.cuts > 100, "{seen:?}");
}
