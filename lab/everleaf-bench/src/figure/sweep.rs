//! Figures that run the same phases on several engines at several places of an axis.

use std::collections::BTreeMap;

use everleaf_crash::Counts;
use everleaf_pmem::{Counter, LINE};

use super::axis::{Axis, Measure};
use super::{
    Claim, Drawing, FigureOptions, Form, Panel, Series, has_buffers, has_paper_order, key_bits,
    of_paper, place_among,
};
use crate::compare::Spread;
use crate::model::Latency;
use crate::session::Session;
use crate::{BenchError, BenchKeyType, Flush, MicroOptions, Phase};

/// A figure of this kind.
pub struct Sweep {
    pub engines: &'static [&'static str],
    pub axis: Axis,
    pub key_types: &'static [BenchKeyType],
    pub phases: &'static [Phase],
    /// The phases that are shown, and what of them.
    pub shown: &'static [(Phase, Measure)],
    /// Whether as many keys as operations are there before.
    pub warmed: bool,
    /// Operations, where they are not as many as keys.
    pub operations: Option<u64>,
    /// Threads, or as many as there are processors if these are fewer.
    pub threads: u32,
    pub flush: Flush,
    /// Latencies beside the axis: added to reads and to flushes.
    pub added: [u64; 2],
    /// The paper's sizes of inner nodes where they are not the tuned ones.
    pub inner_keys: Option<u32>,
    /// The paper's size of nodes, and what stands for it in engines that do not have it: the first
    /// that is offered is taken.
    pub node_bytes: &'static [u32],
    /// Whether engines that can flush as much as their paper do so.
    pub paper_order: bool,
    /// Bits of a key, or more if there are more keys.
    pub key_bits: u32,
    pub claims: fn() -> Vec<Quotient>,
}

/// A number of the paper: the value of one engine at a place to that of another.
#[derive(Clone, Copy, Debug)]
pub struct Quotient {
    pub paper: f64,
    /// The other end of a range.
    pub paper_to: Option<f64>,
    /// Where the paper measured it, if that is not where we do.
    pub paper_at: &'static str,
    pub form: Form,
    pub key_type: BenchKeyType,
    pub phase: Phase,
    pub measure: Measure,
    /// Engine and place.
    pub above: (&'static str, u64),
    pub below: (&'static str, u64),
}

/// A point: kind of keys, engine, place, phase, and what was measured.
type PointKey = (u8, &'static str, u64, &'static str, Measure);
type Points = BTreeMap<PointKey, f64>;

/// What is run for the points of an engine at a place.
struct Point {
    key_type: BenchKeyType,
    engine: &'static str,
    place: u64,
    options: MicroOptions,
}

/// What the rounds of a phase gave.
#[derive(Clone, Default)]
struct Times {
    seconds: Vec<f64>,
    geomeans: Vec<f64>,
    p99s: Vec<f64>,
    /// Of persistent memory a key.
    pm_bytes: Vec<f64>,
}

pub(super) const fn keys_name(key_type: BenchKeyType) -> &'static str {
    match key_type {
        BenchKeyType::U64 => "8-byte keys",
        BenchKeyType::String16 => "16-byte string keys",
    }
}

impl Sweep {
    /// Runs everything, in rounds that take turns, and draws it.
    pub fn measure(
        &self,
        options: &FigureOptions,
        drawing: &mut Drawing<'_, '_>,
    ) -> Result<(), BenchError> {
        let points = self.points(options, drawing)?;
        if drawing.only_planned {
            return Ok(());
        }
        let counted = self.shown.iter().any(|(_, measure)| measure.is_counted());
        let apart = self.shown.iter().any(|(_, measure)| measure.is_of_latencies());
        let timed = self
            .shown
            .iter()
            .any(|(_, measure)| !measure.is_counted() && !measure.is_of_latencies());
        let (rounds, mut found) = (options.rounds, Points::new());
        let runs = u64::from(rounds) * (u64::from(timed) + u64::from(apart)) + u64::from(counted);
        let operations = |point: &Point| Ok(Session::shared(&point.options)?.operations() * runs);
        drawing.steps.extend(points.iter().map(operations).sum::<Result<u64, BenchError>>()?);
        let mut times = vec![vec![Times::default(); self.phases.len()]; points.len()];
        for round in 0..rounds {
            for (point, times) in points.iter().zip(&mut times) {
                let seed = options.seed.wrapping_add(round.into());
                let session = Session::shared(&MicroOptions { seed, ..point.options.clone() })?;
                if timed {
                    for (times, timed) in times.iter_mut().zip(session.timed(&mut drawing.steps)?) {
                        times.seconds.push(timed.seconds);
                        let of_key =
                            |pm_bytes: u64| pm_bytes as f64 / timed.keys_after.max(1) as f64;
                        times.pm_bytes.extend(timed.statistics.map(|of| of_key(of.pm_bytes)));
                    }
                }
                if apart {
                    for (times, latencies) in
                        times.iter_mut().zip(session.latencies(&mut drawing.steps)?)
                    {
                        times.geomeans.push(latencies.geomean_ns);
                        times.p99s.push(latencies.p99_ns);
                    }
                }
            }
        }
        for (point, times) in points.iter().zip(&times) {
            let session = Session::shared(&point.options)?;
            let countable = counted && session.plan.subject.has_pool();
            let counts =
                if countable { session.phase_counts(&mut drawing.steps)? } else { Vec::new() };
            for (place, phase) in self.phases.iter().enumerate() {
                self.note(point, *phase, &times[place], counts.get(place), &mut found);
            }
        }
        self.add_speedups(&points, &mut found);
        self.draw(&points, &found, drawing);
        Ok(())
    }

    fn threads(&self) -> u32 {
        let processors = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        self.threads.min(processors)
    }

    /// Everything that is to be run; what cannot be is left out. Finds everything that is wrong
    /// before any work is done.
    fn points(
        &self,
        options: &FigureOptions,
        drawing: &mut Drawing<'_, '_>,
    ) -> Result<Vec<Point>, BenchError> {
        let mut points = Vec::new();
        for engine in drawing.available(self.engines) {
            for key_type in self.key_types {
                for place in self.axis.places(options.keys) {
                    let mut micro = MicroOptions {
                        engine: engine.into(),
                        keys: options.keys,
                        warm: if self.warmed { options.keys } else { 0 },
                        phases: self.phases.to_vec(),
                        key_type: *key_type,
                        flush: self.flush,
                        threads: self.threads(),
                        read_ns: self.added[0],
                        flush_ns: self.added[1],
                        seed: options.seed,
                        pool: options.pool.clone(),
                        inner_keys: self.inner_keys,
                        paper_order: self.paper_order && has_paper_order(engine),
                        buffers: has_buffers(engine),
                        key_bits: key_bits(self.key_bits, options.keys),
                        ..MicroOptions::default()
                    };
                    if engine == "btreemap" {
                        micro.inner_keys = None;
                    }
                    self.axis.apply(place, &mut micro);
                    micro.keys = self.operations.unwrap_or(micro.keys);
                    match drawing.sized(self.node_bytes, &mut micro) {
                        Ok(_) => points.push(Point {
                            key_type: *key_type,
                            engine,
                            place,
                            options: micro,
                        }),
                        Err(error) if error.is_wrong_usage() => {
                            let (place, reason) = (self.axis.at(place), error.to_string());
                            drawing.leave_out_at(engine, &place, &reason);
                        }
                        Err(error) => return Err(error),
                    }
                }
            }
        }
        Ok(points)
    }

    fn note(
        &self,
        point: &Point,
        phase: Phase,
        times: &Times,
        counts: Option<&Counts>,
        found: &mut Points,
    ) {
        let middle = |times: &[f64]| times.first().map(|_| Spread::of(times).middle);
        let (keys, threads) = (point.options.keys as f64, f64::from(point.options.threads));
        let mut put = |measure, value| {
            found.insert(
                (point.key_type as u8, point.engine, point.place, phase.name(), measure),
                value,
            );
        };
        for (measure, times) in [
            (Measure::GeomeanNs, &times.geomeans),
            (Measure::P99Ns, &times.p99s),
            (Measure::PmBytes, &times.pm_bytes),
        ] {
            if let Some(time) = middle(times) {
                put(measure, time);
            }
        }
        if let Some(seconds) = middle(&times.seconds) {
            put(Measure::MeanNs, seconds * 1e9 * threads / keys);
            put(Measure::Throughput, keys / seconds);
        }
        if let Some(counts) = counts {
            let added = Latency {
                read_ns: point.options.read_ns,
                flush_ns: point.options.flush_ns,
                fence_ns: point.options.fence_ns,
            };
            put(Measure::Modelled, added.cost_ns(counts) / keys);
            put(Measure::LinesRead, counts.pm_lines_read as f64 / keys);
            put(Measure::Misses, counts.pm_line_misses as f64 / keys);
            put(Measure::NodesLogged, counts.event(Counter::NodesLogged) as f64);
            put(
                Measure::Flushes,
                (counts.flushes.values().sum::<u64>() + counts.line_writes) as f64 / keys,
            );
            let lines = counts.lines_flushed.values().sum::<u64>() + counts.line_writes;
            put(Measure::BytesFlushed, (lines * LINE as u64) as f64 / keys);
        }
    }

    fn add_speedups(&self, points: &[Point], found: &mut Points) {
        for point in points {
            for phase in self.phases {
                let key = |place, measure| {
                    (point.key_type as u8, point.engine, place, phase.name(), measure)
                };
                let rate = |place| found.get(&key(place, Measure::Throughput)).copied();
                if let (Some(alone), Some(rate)) = (rate(1), rate(point.place)) {
                    found.insert(key(point.place, Measure::Speedup), rate / alone);
                }
            }
        }
    }

    fn draw(&self, points: &[Point], found: &Points, drawing: &mut Drawing<'_, '_>) {
        let threads =
            if self.threads == 1 { String::new() } else { format!(", {} threads", self.threads()) };
        for key_type in self.key_types {
            for (phase, measure) in self.shown {
                let keys = keys_name(*key_type);
                let mut series: Vec<Series> = Vec::new();
                for point in points.iter().filter(|point| point.key_type == *key_type) {
                    let key = (*key_type as u8, point.engine, point.place, phase.name(), *measure);
                    let Some(value) = found.get(&key) else { continue };
                    Series::add(&mut series, point.engine, [point.place as f64, *value]);
                }
                if series.is_empty() {
                    continue; // No engine of this release.
                }
                drawing.figure.panels.push(Panel {
                    title: match measure {
                        Measure::MeanNs | Measure::Throughput => {
                            format!("{phase}, {keys}{threads}")
                        }
                        _ => format!("{phase}, {keys}{threads}: {}", measure.name()),
                    },
                    x_label: self.axis.label().into(),
                    y_label: measure.label().into(),
                    places: self.axis.names(),
                    logarithmic: [self.axis.is_logarithmic(), false],
                    series,
                });
            }
        }
        let places: Vec<u64> = points.iter().map(|point| point.place).collect();
        let value = |claim: &Quotient, (engine, place): (&'static str, u64)| {
            let place = place_among(&places, place)?;
            found
                .get(&(claim.key_type as u8, engine, place, claim.phase.name(), claim.measure))
                .copied()
        };
        let claim = |claim: Quotient| {
            let (above, below) = (value(&claim, claim.above), value(&claim, claim.below));
            let axis = Some(self.axis);
            let phrase = claim.form.phrase_at(axis, &places, claim.above, claim.below)
                + &of_paper(claim.paper_at);
            Claim {
                what: format!(
                    "{}, {}, {}{phrase}",
                    claim.phase,
                    claim.measure.name(),
                    keys_name(claim.key_type)
                ),
                paper: claim.paper,
                paper_to: claim.paper_to,
                ours: above.zip(below).map(|(above, below)| claim.form.of(above, below)),
            }
        };
        drawing.figure.claims.extend((self.claims)().into_iter().map(claim));
    }
}
