//! clfB-tree's sections 3 and 4: ways to write a line durably, timed on the machine at hand.

use std::time::Instant;

use everleaf_pmem::{
    Cpu, FlushInstruction, LINE, Line, LineWriteMethod, Mapped, Media, PPtr, Region, site,
};

use super::{Drawing, FigureOptions, Panel, Series};
use crate::BenchError;
use crate::compare::Spread;

/// Lines that are written in turns: with the log they fit into a core's caches.
const LINES: u64 = 256;

/// A way to write a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Eight stores and a flush: a line that may be torn.
    Words,
    /// By the log, as `clftree` does it.
    Log,
    /// By the log, each step flushed, as the paper does it.
    LogInSteps,
    /// At once, by a transaction or MOVDIR64B.
    AtOnce(LineWriteMethod),
}

impl Way {
    const ALL: [Self; 5] = [
        Self::Words,
        Self::Log,
        Self::LogInSteps,
        Self::AtOnce(LineWriteMethod::Transaction),
        Self::AtOnce(LineWriteMethod::Movdir64b),
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Words => "8-byte stores (may be torn)",
            Self::Log => "in-place log, 2 flushes",
            Self::LogInSteps => "in-place log, 4 flushes",
            Self::AtOnce(LineWriteMethod::Transaction) => "hardware transaction",
            Self::AtOnce(_) => "MOVDIR64B",
        }
    }
}

/// What became of writes at once.
#[derive(Clone, Copy, Default)]
struct Tally {
    lines: u64,
    /// Attempts that aborted.
    aborts: u64,
    /// Lines of which each attempt aborted: the log was taken.
    by_log: u64,
}

/// A media, its lines and its log.
struct Lines<'m> {
    media: &'m Mapped,
    log: &'m Line,
    lines: Vec<&'m Line>,
}

impl<'m> Lines<'m> {
    /// Those of a region that is large enough; none if it is not.
    fn of(media: &'m Mapped) -> Option<Self> {
        let line = |number: u64| media.region().get::<Line>(PPtr::at(number * LINE as u64));
        let lines = (2..2 + LINES).map(line).collect::<Option<_>>()?;
        Some(Self { media, log: line(1)?, lines })
    }

    /// Writes lines in turns, each durable before the next; nanoseconds of each.
    fn write(&self, way: Way, count: u64, tally: &mut Tally) -> f64 {
        let start = Instant::now();
        for number in 0..count {
            // Neighbours are fetched together, so the next line is another one.
            let line = self.lines[(number * 37 % LINES) as usize];
            let words = [number; LINE / 8];
            match way {
                Way::Words => self.words(line, words),
                Way::Log => self.by_log(line, words, false),
                Way::LogInSteps => self.by_log(line, words, true),
                Way::AtOnce(_) => self.at_once(line, words, tally),
            }
        }
        start.elapsed().as_nanos() as f64 / count as f64
    }

    fn words(&self, line: &Line, words: [u64; LINE / 8]) {
        line.0.iter().zip(words).for_each(|(cell, word)| self.media.store(cell, word));
        self.durable(line);
    }

    /// A flush and a fence.
    fn durable(&self, line: &Line) {
        self.media.flush(site!("bench.line"), &line.0[0]);
        self.media.fence(site!("bench.line.fence"));
    }

    /// The line is copied to the log, its first word says so, the others are overwritten, then the
    /// first.
    fn by_log(&self, line: &Line, words: [u64; LINE / 8], in_steps: bool) {
        let media = self.media;
        for (to, from) in self.log.0.iter().zip(&line.0) {
            media.store(to, media.load(from));
        }
        self.durable(self.log);
        media.store(&line.0[0], 0);
        if in_steps {
            self.durable(line);
        }
        media.order(site!("bench.line.invalid"));
        for (cell, word) in line.0.iter().zip(words).skip(1) {
            media.store(cell, word);
        }
        if in_steps {
            self.durable(line);
        }
        media.order(site!("bench.line.words"));
        media.store(&line.0[0], words[0]);
        self.durable(line);
    }

    fn at_once(&self, line: &Line, words: [u64; LINE / 8], tally: &mut Tally) {
        tally.lines += 1;
        match self.media.line_write_attempts(site!("bench.line.at_once"), line, words) {
            Ok(attempts) => {
                tally.aborts += u64::from(attempts - 1);
                self.media.fence(site!("bench.line.fence"));
            }
            Err(attempts) => {
                tally.aborts += u64::from(attempts);
                tally.by_log += 1;
                self.by_log(line, words, false);
            }
        }
    }
}

/// Each way that the processor has, with each of its flush instructions; the others are left out.
pub fn ways(options: &FigureOptions, drawing: &mut Drawing<'_, '_>) -> Result<(), BenchError> {
    let cpu = Cpu::detect();
    let has = |way: &Way| match way {
        Way::AtOnce(method) => cpu.has_line_write(*method),
        _ => true,
    };
    for way in Way::ALL.iter().filter(|way| !has(way)) {
        drawing.leave_out(way.name(), "the processor does not have it");
    }
    if drawing.only_planned {
        return Ok(());
    }
    let ways: Vec<Way> = Way::ALL.into_iter().filter(has).collect();
    let flushes = [FlushInstruction::Clwb, FlushInstruction::ClflushOpt, FlushInstruction::Clflush];
    let mut series = Vec::new();
    for flush in flushes.into_iter().filter(|flush| cpu.has(*flush)) {
        series
            .push(Series::of(flush.to_string(), with_flush(options, &cpu, flush, &ways, drawing)?));
    }
    let places = ways.iter().map(|way| way.name().to_owned()).collect();
    drawing.figure.panels.push(Panel::bars("a line written durably", "ns/line", places, series));
    Ok(())
}

/// Medians of the rounds, in which the ways take turns; notes what aborted.
fn with_flush(
    options: &FigureOptions,
    cpu: &Cpu,
    flush: FlushInstruction,
    ways: &[Way],
    drawing: &mut Drawing<'_, '_>,
) -> Result<Vec<[f64; 2]>, BenchError> {
    let bytes = (LINES + 2) * LINE as u64;
    let (mut times, mut tallies) =
        (vec![Vec::new(); ways.len()], vec![Tally::default(); ways.len()]);
    for _ in 0..options.rounds {
        for (place, way) in ways.iter().enumerate() {
            let media = Mapped::forced(Region::anonymous(bytes, bytes)?, cpu, flush)?;
            let media = match way {
                Way::AtOnce(method) => media.with_line_write(cpu, *method)?,
                _ => media,
            };
            let Some(lines) = Lines::of(&media) else { continue };
            lines.write(*way, LINES, &mut Tally::default()); // The pages are there now.
            times[place].push(lines.write(*way, options.keys, &mut tallies[place]));
        }
    }
    for (way, Tally { lines, aborts, by_log }) in ways.iter().zip(tallies) {
        if matches!(way, Way::AtOnce(_)) {
            drawing.figure.notes.push(format!(
                "{}, {flush}: {aborts} of the attempts at {lines} lines aborted, {by_log} lines \
                were written by the log",
                way.name()
            ));
        }
    }
    let medians = (0..).zip(&times).map(|(at, times)| [f64::from(at), Spread::of(times).middle]);
    Ok(medians.collect())
}
