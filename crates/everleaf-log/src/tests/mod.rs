//! Histories on the simulated disk, and on a real one.
//!
//! Map of the files: this one (a program whose every state can be judged, and its exploration) ·
//! `histories` (each rule, and what happens without it) · `chains` (of sessions) · `openings`
//! (that are cut) · `damage` · `salvage` · `copies` (of the pool's file and of the log, made at
//! different moments) · `full` (disks) · `threads` · `image` (what of it is the file) ·
//! `memory` (pages that go back to it) · `replay` (that keeps to the memory) · `reuse` (segments
//! that are used again) · `lengths` (that grow with the pool).

mod chains;
mod copies;
mod damage;
mod full;
mod histories;
mod image;
mod lengths;
mod memory;
mod openings;
mod replay;
mod reuse;
mod salvage;
mod threads;

use std::cell::Cell;
use std::sync::Arc;

use everleaf_pmem::{LINE, Line, Mapped, Media, PCell, site};

use crate::LogError;
use crate::base::Base;
use crate::core::Core;
use crate::disk::DiskFile;
use crate::media::Log;
use crate::options::LogOptions;
use crate::simulated::SimulatedDisk;
use crate::weak::{Weak, Weakness};
use crate::writer::Writer;

/// Bytes of the pool.
const BYTES: u64 = 4 * 4096;
/// Where things stand: see `Program`.
const A: u64 = 4096;
const B: u64 = 2 * 4096;
const C: u64 = 3 * 4096;
const D: u64 = 2 * 4096 + 1024;
const E: u64 = 3 * 4096 + 2048;
const B_LINES: u64 = 5;
const E_LINES: u64 = 8;

/// Numbers from a seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, ways: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((word ^ word >> 31) % ways as u64) as usize
    }
}

thread_local! {
    /// The memory of pools that are made and opened by this thread.
    static MEMORY: Cell<u64> = const { Cell::new(u64::MAX) };
}

/// Does something with pools that have so much memory.
fn with_memory<T>(bytes: u64, action: impl FnOnce() -> T) -> T {
    let before = MEMORY.replace(bytes);
    let done = action();
    MEMORY.set(before);
    done
}

fn options(weak: Option<Weak>) -> LogOptions {
    LogOptions {
        memory_bytes: MEMORY.get(),
        segment_bytes: 5 * 4096,
        log_bytes: 15 * 4096,
        interval: None,
        background: false,
        growth: None,
        weak: Weakness(weak),
    }
}

fn base(disk: &SimulatedDisk) -> Base {
    base_of(disk.first_file(), 7)
}

fn base_of(file: Arc<dyn DiskFile>, uuid: u128) -> Base {
    Base { file, uuid, max_bytes: 1 << 20, stamp_offset: 232, read_whole: false }
}

/// An empty disk with a pool's file and a log.
/// A memory that has a log.
trait Logged {
    fn log(&self) -> &Log;

    fn core(&self) -> &Core {
        &self.log().core
    }

    fn checkpoint(&self) -> Result<(), LogError> {
        self.log().checkpoint()
    }

    /// Drops it as a killed process does.
    fn kill(self)
    where
        Self: Sized,
    {
        self.log().abandon();
    }
}

impl Logged for Mapped {
    fn log(&self) -> &Log {
        Log::of(self).unwrap()
    }
}

fn created(weak: Option<Weak>) -> (SimulatedDisk, Mapped) {
    let disk = SimulatedDisk::new();
    disk.nameless();
    let media = Log::create(&base(&disk), Arc::new(disk.clone()), BYTES, options(weak)).unwrap();
    media.checkpoint().unwrap();
    (disk, media)
}

fn open(disk: &SimulatedDisk, weak: Option<Weak>) -> Result<Mapped, String> {
    Log::open(&base(disk), Arc::new(disk.clone()), options(weak))
        .map_err(|error| format!("not opened: {error}"))
}

fn cell<M: Media>(media: &M, offset: u64) -> &PCell {
    media.region().at::<PCell>(offset).unwrap()
}

fn word(media: &impl Media, offset: u64) -> u64 {
    media.load(cell(media, offset))
}

/// Steps whose number can be read from what they leave. Step i:
///
/// * A := i, flush, fence; then B[i mod 5] := i, flush, fence. So B never knows more than A.
/// * of D the fourth word := i, flushed; but in each fifth step it is followed by the sixth := i,
///   and neither is flushed before the next step.
/// * C := i, never flushed, and never more than i.
/// * eight lines of E, each word := one of i, flushed at once: more than a sector of the log.
///
/// Every fourth step waits, every fourth closes a group without a sync; some make a checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Program {
    /// Steps that have begun.
    begun: u64,
    /// Steps that a power failure must leave.
    acknowledged: u64,
}

impl Program {
    /// The steps up to `last`, or up to the first error.
    fn run(&mut self, media: &Mapped, last: u64) {
        for i in self.begun + 1..=last {
            self.begun = i;
            step(media, i);
            if i % 4 == 2 && media.core().close_for_checkpoint().is_err() {
                return;
            }
            if i % 5 == 0 && media.checkpoint().is_err() {
                return;
            }
            // Who was refused asks again: it must be refused again.
            let point = media.durable_point();
            let wait = || media.wait_durable(point).is_ok();
            if i % 4 == 0 {
                if wait() || wait() {
                    self.acknowledged = i;
                } else {
                    return;
                }
            }
        }
    }

    /// Whether a pool holds what some prefix of the steps has left, and what was promised. The last
    /// step of which B knows.
    fn judge(&self, media: &impl Media) -> Result<u64, String> {
        let a = word(media, A);
        let b: Vec<u64> = (0..B_LINES).map(|k| word(media, B + k * LINE as u64)).collect();
        let newest = b.iter().copied().max().unwrap_or(0);
        let (d3, d5) = (word(media, D + 24), word(media, D + 40));
        let c = word(media, C);
        let verify = |holds: bool, what: &str| {
            let state = format!("{self:?}: A {a}, B {b:?}, C {c}, D {d3} {d5}");
            if holds { Ok(()) } else { Err(format!("{what}: {state}")) }
        };
        verify(a >= self.acknowledged && newest >= self.acknowledged, "lost")?;
        verify(a <= self.begun && c <= self.begun, "never stored")?;
        verify(newest <= a && a <= newest + 1, "B before A")?;
        for (k, found) in (0..).zip(&b) {
            let expected = (0..=newest).rev().find(|i| i % B_LINES == k).unwrap_or(0);
            verify(*found == expected, "a step left out")?;
        }
        verify(d5 <= d3 && d3 <= self.begun, "words of a line out of order")?;
        for line in 0..E_LINES {
            let words: Vec<u64> =
                (0..8).map(|i| word(media, E + line * LINE as u64 + i * 8)).collect();
            let at = (line * LINE as u64..).step_by(8);
            let steps: Vec<Option<u64>> =
                at.zip(&words).map(|(at, found)| narrow(*found, at)).collect();
            let whole = steps.iter().all(|step| *step == steps[0]);
            verify(whole && steps[0].is_some_and(|i| i <= a), &format!("torn: {steps:?}"))?;
        }
        Ok(newest)
    }
}

/// A word that has i and eight bytes in a log.
fn wide(i: u64, offset: u64) -> u64 {
    if i == 0 { 0 } else { i | (Chance(i << 24 ^ offset).below(1 << 40) as u64) << 24 }
}

/// The i of such a word; of no other.
fn narrow(word: u64, offset: u64) -> Option<u64> {
    Some(word & 0xff_ffff).filter(|i| word == wide(*i, offset))
}

fn step(media: &Mapped, i: u64) {
    let put = |offset: u64, value: u64| media.store(cell(media, offset), value);
    put(D + 24, i);
    if i.is_multiple_of(5) {
        put(D + 40, i);
    } else {
        media.flush(site!("test.d"), cell(media, D));
    }
    put(C, i);
    put(A, i);
    media.flush(site!("test.a"), cell(media, A));
    media.fence(site!("test.a.fence"));
    let b = B + i % B_LINES * LINE as u64;
    put(b, i);
    media.flush(site!("test.b"), cell(media, b));
    media.fence(site!("test.b.fence"));
    for at in (0..E_LINES * LINE as u64).step_by(8) {
        put(E + at, wide(i, at));
    }
    let lines = media.region().at::<[Line; E_LINES as usize]>(E).unwrap();
    media.flush_object(site!("test.e"), lines);
    media.fence(site!("test.fence"));
}

/// Outcomes of a power failure: what was durable, what was written, and some by chance; all where
/// there are few.
fn outcomes(disk: &SimulatedDisk, most: u64, chance: &mut Chance) -> Vec<SimulatedDisk> {
    let all = disk.outcomes();
    if all <= most {
        return (0..all)
            .map(|mut number| {
                disk.after_power_failure(|ways| {
                    let way = (number % ways as u64) as usize;
                    number /= ways as u64;
                    way
                })
            })
            .collect();
    }
    let mut left = vec![disk.after_power_failure(|_| 0), disk.after_power_failure(|ways| ways - 1)];
    left.extend((2..most).map(|_| disk.after_power_failure(|ways| chance.below(ways))));
    left
}

/// What an exploration has seen.
#[derive(Debug, Default)]
struct Seen {
    cuts: u64,
    states: u64,
    /// Segments that were used again, at least.
    used_again: u64,
}

/// How thorough an exploration is.
#[derive(Clone, Copy)]
struct Extent {
    /// Steps of the program.
    steps: u64,
    /// Outcomes of each power failure.
    outcomes: u64,
    /// Steps of the recovery between two cuts of it.
    stride: u64,
}

/// Runs the program, lets the power fail before each operation of the disk, recovers, lets it fail
/// in the recovery too, and in the session after it. The first violation is returned.
fn explore(weak: Option<Weak>, extent: Extent, seed: u64) -> Result<Seen, String> {
    let mut chance = Chance(seed);
    let mut seen = Seen::default();
    let (disk, media) = created(weak);
    let first = disk.operations();
    let mut whole = Program::default();
    whole.run(&media, extent.steps);
    assert!(whole.acknowledged > 0 || weak.is_some());
    media.kill();
    let last = disk.operations();
    let mut cut = first;
    while cut <= last {
        let (disk, media) = created(weak);
        disk.cut_before(disk.operations() + cut - first);
        let mut program = Program::default();
        program.run(&media, extent.steps);
        media.kill();
        seen.cuts += 1;
        let at = |error: String| format!("seed {seed}, cut {}: {error}", cut - first);
        judge_power_failure(&disk, program, weak, extent, &mut chance, &mut seen).map_err(at)?;
        // The process alone dies, the next one serves what it finds, then the power fails.
        let killed = disk.after_kill();
        let media = open(&killed, weak).map_err(at)?;
        let served = program.judge(&media).map_err(at)?;
        media.kill();
        let promised = Program { acknowledged: served, ..program };
        for left in outcomes(&killed, extent.outcomes, &mut chance) {
            let media = open(&left, weak).map_err(at)?;
            promised.judge(&media).map_err(|error| at(format!("served and lost: {error}")))?;
            seen.states += 1;
            media.kill();
        }
        cut += 1;
    }
    Ok(seen)
}

fn judge_power_failure(
    disk: &SimulatedDisk,
    program: Program,
    weak: Option<Weak>,
    extent: Extent,
    chance: &mut Chance,
    seen: &mut Seen,
) -> Result<(), String> {
    for left in outcomes(disk, extent.outcomes, chance) {
        let recovered = left.after_kill();
        let media = open(&recovered, weak)?;
        let found = program.judge(&media)?;
        seen.states += 1;
        // The session after it goes on, and the power fails again.
        let mut next = Program { begun: complete(&media, found), acknowledged: found };
        let until = next.begun + 1 + chance.below(4) as u64;
        next.run(&media, until);
        if media.sync().is_ok() {
            next.acknowledged = until;
        }
        media.kill();
        for left in outcomes(&recovered, 2, chance) {
            let media = open(&left, weak).map_err(|e| format!("the session after: {e}"))?;
            next.judge(&media).map_err(|e| format!("the session after: {e}"))?;
            seen.states += 1;
            media.kill();
        }
        // The power fails in the recovery.
        let mut cut = chance.below(extent.stride as usize) as u64;
        loop {
            let again = left.after_kill();
            again.cut_before(cut);
            let opened = open(&again, weak);
            let done = opened.is_ok();
            opened.into_iter().for_each(Logged::kill);
            if done {
                break;
            }
            for left in outcomes(&again, 2, chance) {
                let media = open(&left, weak).map_err(|e| format!("cut recovery {cut}: {e}"))?;
                program.judge(&media).map_err(|e| format!("cut recovery {cut}: {e}"))?;
                seen.states += 1;
                media.kill();
            }
            cut += extent.stride;
        }
    }
    Ok(())
}

/// Completes the step that was cut, as a recovery would, so that the program can go on. Its number.
fn complete(media: &Mapped, found: u64) -> u64 {
    let begun = [word(media, A), word(media, C), word(media, D + 24), word(media, D + 40)];
    let begun = begun.into_iter().fold(found, u64::max);
    if begun > 0 {
        step(media, begun);
    }
    begun
}
