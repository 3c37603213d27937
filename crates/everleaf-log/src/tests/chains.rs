//! Sessions in a chain: pools that grow, parameters that change, checkpoints, kills and power
//! failures between and in all of them, syncs that fail.
//!
//! Every store has a number of its own, greater than all before, and is flushed at once, in order.
//! So an image is legal if some store is the newest in it and every word holds what was stored to
//! it last by then.

use std::collections::BTreeMap;

use everleaf_pmem::Media;

use super::reuse::Begun;
use super::*;

/// Bytes that a pool may grow to.
const MAX_BYTES: u64 = 40 * 4096;
/// Sessions of a chain.
const SESSIONS: usize = 6;

/// What was stored, and what must be there.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    /// Where the store of value i + 1 went.
    offsets: Vec<u64>,
    /// The stores that nothing takes back.
    acknowledged: usize,
}

impl History {
    /// Stores so many words in neighbouring lines, flushed by one call.
    pub(super) fn store(&mut self, media: &Mapped, offset: u64, lines: u64) {
        let lines = (0..lines).map(|i| offset / 64 * 64 + i * 64);
        for line in lines.clone() {
            let at = line + offset % 64;
            self.offsets.push(at);
            media.store(cell(media, at), wide(self.offsets.len() as u64, at));
        }
        media.flush_lines(site!("test.chain"), lines);
        media.fence(site!("test.chain.fence"));
    }

    /// Stores a word, and waits until it is durable.
    pub(super) fn store_and_wait(&mut self, media: &Mapped, offset: u64) -> Result<(), String> {
        self.store(media, offset, 1);
        media.wait_durable(media.durable_point()).map_err(|error| error.to_string())?;
        self.acknowledge_all();
        Ok(())
    }

    /// All that was stored is durable.
    pub(super) fn acknowledge_all(&mut self) {
        self.acknowledged = self.offsets.len();
    }

    /// Whether an image is that of some moment, and of none before what was acknowledged; which.
    fn judge(&self, load: impl Fn(u64) -> Option<u64>) -> Result<usize, String> {
        let mut places: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (i, offset) in self.offsets.iter().enumerate() {
            places.entry(*offset).or_default().push(i + 1);
        }
        let of = |word, offset| narrow(word, offset).unwrap_or(u64::MAX) as usize;
        let found = |at: &u64| of(load(*at).unwrap_or(0), *at); // None: not grown so far.
        let newest = places.keys().map(found).max().unwrap_or(0);
        if newest > self.offsets.len() {
            return Err(format!("{newest} of {} was never stored", self.offsets.len()));
        }
        if newest < self.acknowledged {
            return Err(format!("lost: {newest} is there, {} was promised", self.acknowledged));
        }
        for (offset, stores) in &places {
            let expected = stores.iter().rev().find(|i| **i <= newest).copied().unwrap_or(0);
            if found(offset) != expected {
                let found = found(offset);
                return Err(format!("at {offset} {found}, not {expected}; the newest is {newest}"));
            }
        }
        Ok(newest)
    }

    /// Whether the session shows what it has stored, whatever the disk has done.
    pub(super) fn is_shown(&self, media: &Mapped) -> Result<(), String> {
        let last: BTreeMap<u64, usize> = self.offsets.iter().copied().zip(1..).collect();
        let differs = |(offset, value): (&u64, &usize)| {
            let found = narrow(word(media, *offset), *offset);
            (found != Some(*value as u64))
                .then(|| format!("{found:?} is shown at {offset}, not {value}"))
        };
        last.iter().find_map(differs).map_or(Ok(()), Err)
    }

    /// What was served is there from now on, and nothing else.
    pub(super) fn serve(&mut self, media: &Mapped) -> Result<(), String> {
        let there = |offset: u64| media.region().at::<PCell>(offset);
        let newest = self.judge(|offset| there(offset).map(|cell| media.load(cell)))?;
        self.offsets.truncate(newest);
        self.acknowledged = newest;
        Ok(())
    }
}

/// Another choice for every session.
fn any_options(weak: Option<Weak>, chance: &mut Chance) -> LogOptions {
    let blocks = [3, 4, 5, 8, 13, 30][chance.below(6)];
    let log_blocks = [6, 15, 50][chance.below(3)];
    let memory_bytes = if log_blocks == 15 { 8 * 4096 } else { u64::MAX };
    let (segment_bytes, log_bytes) = (blocks * 4096, log_blocks * 4096);
    LogOptions { segment_bytes, log_bytes, memory_bytes, ..options(weak) }
}

/// One session: until an operation fails, or to its end.
pub(super) fn session(
    media: &Mapped,
    history: &mut History,
    chance: &mut Chance,
) -> Result<(), ()> {
    for _ in 0..chance.below(40) {
        let length = media.region().len();
        let lines = |most: usize, chance: &mut Chance| 1 + chance.below(most) as u64;
        match chance.below(16) {
            0 => {
                let wanted = length + (1 + chance.below(4) as u64) * 4096;
                if wanted <= MAX_BYTES {
                    media.grow(wanted).map_err(drop)?;
                    // At the end of what is new, soon to be captured.
                    history.store(media, wanted - 64, 1);
                }
            }
            1 => media.checkpoint().map_err(drop)?,
            2 => media.core().seal().map_err(drop)?,
            3 => _ = media.core().close_for_checkpoint().map_err(drop)?,
            4 => {
                // Now and then more than a segment holds.
                let lines = lines(200, chance).min((length - 4096) / 64);
                history.store(media, length - lines * 64, lines);
            }
            5..=9 => {
                let stored = history.offsets.len();
                let point = media.durable_point();
                // Who was refused asks again: it must be refused again.
                media.wait_durable(point).or_else(|_| media.wait_durable(point)).map_err(drop)?;
                history.acknowledged = stored;
            }
            _ => {
                let words = (length - 4096) / 8 - 8;
                let offset = 4096 + chance.below(words as usize) as u64 * 8;
                history.store(media, offset, 1);
            }
        }
    }
    Ok(())
}

pub(super) fn open_base(disk: &SimulatedDisk) -> Base {
    Base { max_bytes: MAX_BYTES, ..base(disk) }
}

/// Whether what is opened to be read is what is opened to be written.
pub(super) fn judge_read_only(disk: &SimulatedDisk, history: &History) -> Result<(), String> {
    let region = crate::read_only(&open_base(disk), disk).map_err(|error| error.to_string())?;
    let cell = |offset: u64| region.at::<PCell>(offset);
    let cpu = everleaf_pmem::Cpu::detect();
    let fresh = everleaf_pmem::Region::anonymous(4096, 4096).unwrap();
    let reader = everleaf_pmem::Mapped::new(fresh, &cpu).unwrap();
    history.judge(|offset| cell(offset).map(|cell| reader.load(cell))).map(drop)
}

/// A chain. Every session but the first begins with what the one before has left: closed, killed,
/// or killed by a power failure, at any operation of the disk, its own opening and closing too.
fn chain(weak: Option<Weak>, seed: u64, seen: &mut Seen) -> Result<(), String> {
    let mut chance = Chance(seed);
    let chance = &mut chance;
    let mut disk = SimulatedDisk::new();
    disk.nameless();
    let first = any_options(weak, chance);
    let media = Log::create(&open_base(&disk), Arc::new(disk.clone()), BYTES, first).unwrap();
    media.checkpoint().unwrap();
    let mut history = History::default();
    let _ = session(&media, &mut history, chance);
    end(media, chance);
    for number in 0..SESSIONS {
        disk = if chance.below(2) == 0 { disk.after_kill() } else { fail_power(&disk, chance) };
        let at = |error: String| format!("seed {seed}, session {number}: {error}");
        if chance.below(4) == 0 {
            judge_read_only(&disk, &history).map_err(|error| at(format!("read only: {error}")))?;
        }
        if chance.below(3) == 0 {
            disk.cut_before(chance.below(20) as u64); // Mostly in the opening.
        } else if chance.below(3) == 0 {
            disk.cut_before(chance.below(150) as u64);
        }
        let options = any_options(weak, chance);
        if chance.below(4) == 0 {
            disk.fail_sync_after(chance.below(20) as u64);
        }
        match Log::open(&open_base(&disk), Arc::new(disk.clone()), options) {
            Ok(media) => {
                seen.states += 1;
                history.serve(&media).map_err(at)?;
                let begun = Begun::of(&media);
                seen.cuts += u64::from(session(&media, &mut history, chance).is_err());
                seen.used_again += begun.used_again(&media);
                history.is_shown(&media).map_err(at)?;
                end(media, chance);
            }
            Err(_) if disk.is_off() => seen.cuts += 1,
            Err(error) if error.to_string().contains("os error 5") => seen.cuts += 1, // A sync.
            Err(error) => return Err(at(format!("not opened: {error}"))),
        }
    }
    Ok(())
}

pub(super) fn end(media: Mapped, chance: &mut Chance) {
    if chance.below(2) == 0 {
        media.kill();
    }
}

/// Mostly any outcome; else the least or the most that may be left.
pub(super) fn fail_power(disk: &SimulatedDisk, chance: &mut Chance) -> SimulatedDisk {
    match chance.below(6) {
        0 => disk.after_power_failure(|_| 0),
        1 => disk.after_power_failure(|ways| ways - 1),
        _ => disk.after_power_failure(|ways| chance.below(ways)),
    }
}

fn chains(weak: Option<Weak>, seeds: std::ops::Range<u64>) -> Result<Seen, String> {
    let mut seen = Seen::default();
    for seed in seeds {
        chain(weak, seed, &mut seen)?;
    }
    Ok(seen)
}

#[test]
fn no_chain_of_sessions_loses_anything_or_ends_in_a_log_that_is_refused() {
    let seen = chains(None, 0..1000).unwrap_or_else(|violation| panic!("{violation}"));
    println!("{seen:?}");
    assert!(seen.cuts > 500 && seen.states > 3000 && seen.used_again > 300, "{seen:?}");
}

/// Blocks of a segment in the sessions of the script.
const SCRIPT: [u64; 5] = [5, 13, 3, 8, 4];

/// Session `number` of a fixed chain: it grows the pool, fills segments, makes a checkpoint.
fn scripted(media: &Mapped, history: &mut History, number: usize) -> Result<(), ()> {
    let acknowledge = |history: &mut History| {
        let stored = history.offsets.len();
        media.wait_durable(media.durable_point()).map_err(drop)?;
        history.acknowledged = stored;
        Ok(())
    };
    history.store(media, 8192, 1);
    acknowledge(history)?;
    let length = media.region().len() + 2 * 4096;
    media.grow(length).map_err(drop)?;
    history.store(media, length - 64 * 100, 100);
    acknowledge(history)?;
    if number % 2 == 1 {
        media.checkpoint().map_err(drop)?;
    }
    history.store(media, length - 64, 1);
    media.core().close_for_checkpoint().map_err(drop)?;
    history.store(media, 4096, 1);
    acknowledge(history)?;
    history.store(media, 8192, 1);
    Ok(())
}

fn open_scripted(disk: &SimulatedDisk, number: usize) -> Result<Mapped, String> {
    let options = LogOptions { segment_bytes: SCRIPT[number] * 4096, ..options(None) };
    Log::open(&open_base(disk), Arc::new(disk.clone()), options).map_err(|e| e.to_string())
}

/// Session `number` on a disk, to its end or until the power fails.
fn run_scripted(
    disk: &SimulatedDisk,
    history: &mut History,
    number: usize,
    closes: bool,
) -> Result<(), String> {
    match open_scripted(disk, number) {
        Ok(media) => {
            history.serve(&media)?;
            let _ = scripted(&media, history, number);
            if closes {
                drop(media)
            } else {
                media.kill()
            }
            Ok(())
        }
        Err(_) if disk.is_off() => Ok(()),
        Err(error) => Err(error),
    }
}

/// The chain of the script, its sessions closed where `closed` has a bit, cut before each operation
/// of each session; after each cut two sessions more.
fn every_cut(closed: u32, chance: &mut Chance, seen: &mut Seen) -> Result<(), String> {
    let mut disk = SimulatedDisk::new();
    disk.nameless();
    let options = LogOptions { segment_bytes: 4 * 4096, ..options(None) };
    let media = Log::create(&open_base(&disk), Arc::new(disk.clone()), BYTES, options).unwrap();
    media.checkpoint().unwrap();
    drop(media);
    let mut history = History::default();
    for number in 0..3 {
        let closes = closed & 1 << number != 0;
        for cut in 0.. {
            let (copy, mut cut_short) = (disk.after_kill(), history.clone());
            copy.cut_before(cut);
            let at = |error: String| format!("{closed:b} session {number} cut {cut}: {error}");
            run_scripted(&copy, &mut cut_short, number, closes).map_err(at)?;
            if !copy.is_off() {
                break;
            }
            seen.cuts += 1;
            let failed = outcomes(&copy, 4, chance);
            for left in [copy.after_kill()].into_iter().chain(failed) {
                let mut history = cut_short.clone();
                run_scripted(&left, &mut history, number + 1, false).map_err(at)?;
                let left = fail_power(&left, chance);
                let media = open_scripted(&left, number + 2).map_err(at)?;
                history.serve(&media).map_err(at)?;
                media.kill();
                seen.states += 2;
            }
        }
        run_scripted(&disk, &mut history, number, closes)?;
        disk = disk.after_kill();
    }
    Ok(())
}

#[test]
fn a_chain_of_sessions_is_cut_before_each_operation() {
    let (mut seen, mut chance) = (Seen::default(), Chance(3));
    for closed in 0..8 {
        every_cut(closed, &mut chance, &mut seen).unwrap_or_else(|error| panic!("{error}"));
    }
    println!("{seen:?}");
    assert!(seen.cuts > 500 && seen.states > 5000, "{seen:?}");
}

/// `cargo test -p everleaf-log --lib --release -- --ignored --nocapture many_chains`
#[test]
#[ignore = "takes minutes"]
fn many_chains_of_sessions_lose_nothing() {
    let seen = chains(None, 1_000_000..1_200_000).unwrap_or_else(|violation| panic!("{violation}"));
    println!("{seen:?}");
}

/// What chains find when a rule is left out.
pub(super) fn broken_without(rule: Weak) -> String {
    let violation = chains(Some(rule), 0..4000).err().unwrap_or_else(|| panic!("nothing breaks"));
    println!("{rule:?}: {violation}");
    violation
}

#[test]
fn a_segment_keeps_its_length_in_a_session_with_another() {
    broken_without(Weak::SizeOfTheSession);
}

#[test]
fn a_segment_is_durable_before_it_has_its_name() {
    broken_without(Weak::SegmentNotSynced);
    broken_without(Weak::NameNotSynced);
}

#[test]
fn the_last_group_of_a_segment_speaks_of_one_that_is_there() {
    let violation = broken_without(Weak::CloseBeforeName);
    assert!(violation.contains("missing"), "{violation}");
}

#[test]
fn the_last_group_of_a_segment_is_durable_with_the_first_of_the_next() {
    broken_without(Weak::CloseNotSynced);
}

#[test]
fn what_an_opening_serves_is_durable_before() {
    broken_without(Weak::TailNotSynced);
    broken_without(Weak::ServeTheCache);
}

#[test]
fn the_control_block_is_durable_before_segments_are_removed() {
    broken_without(Weak::ControlNotSynced);
}

#[test]
fn chains_break_the_other_rules_too() {
    for rule in [
        Weak::TailIsDamage,
        Weak::WriteBeforeGroup,
        Weak::RecycleEarly,
        Weak::PublishEarly,
        Weak::BaseNotSynced,
        Weak::NoChecksum,
    ] {
        broken_without(rule);
    }
}

/// Found in a pool of 1 MiB that was loaded, closed, opened, written to and killed.
#[test]
fn a_pool_that_grew_in_the_session_before_opens_after_a_kill() {
    for (before, after) in [(5, 13), (13, 5)] {
        let disk = SimulatedDisk::new();
        disk.nameless();
        let open = |blocks: u64| {
            let options = LogOptions { segment_bytes: blocks * 4096, ..options(None) };
            Log::open(&open_base(&disk), Arc::new(disk.clone()), options)
        };
        let options = LogOptions { segment_bytes: before * 4096, ..options(None) };
        let media = Log::create(&open_base(&disk), Arc::new(disk.clone()), BYTES, options);
        let media = media.unwrap();
        let mut history = History::default();
        media.grow(MAX_BYTES).unwrap();
        history.store(&media, MAX_BYTES - 64 * 200, 200);
        drop(media);
        let media = open(after).unwrap();
        for _ in 0..30 {
            history.store(&media, MAX_BYTES - 64, 1);
            media.wait_durable(media.durable_point()).unwrap();
            history.acknowledged = history.offsets.len();
        }
        media.kill();
        let media = open(after).unwrap();
        history.serve(&media).unwrap();
        assert_eq!(history.offsets.len(), 230);
        media.kill();
    }
}
