//! FPTree, section 6.3: more threads than there are processors, by the cost model. One and two
//! threads, as measured, stand beside it.
//!
//! * A core for each thread: what is done under the one lock of the inner nodes is done by one
//!   thread at a time, everything else by all of them (Amdahl). With `s` for the part of the time
//!   under the lock, `n` threads do `1 / (s + (1 - s) / n)` times the work of one. `s` is the
//!   counted changes that took the lock, each as long as the operation that one in a thousand
//!   exceeds.
//! * Two hardware threads of a core: one computes while the other waits for memory. Of the time `t`
//!   of an operation, `w` is what its misses and flushes, counted, take at 85 ns: both do at most
//!   `t / (t - w)` times the work of one, and at most twice.

use super::sweep::keys_name;
use super::{Claim, Drawing, FigureOptions, Panel, Series};
use crate::BenchKeyType::{self, String16, U64};
use crate::compare::Spread;
use crate::model::Latency;
use crate::session::Session;
use crate::{BenchError, MicroOptions, Phase};

const PHASES: [Phase; 5] = [Phase::Find, Phase::Insert, Phase::Update, Phase::Delete, Phase::Mixed];
/// Memory of the socket.
const LOCAL: Latency = Latency::of(85);

/// The trees, and what the paper prints of them: find, insert, update, delete, mixed.
const TREES: [(&str, BenchKeyType); 3] =
    [("fptree-c", U64), ("nvtree-c", U64), ("fptree-c", String16)];
const SOCKET: &str = "44 threads on 22 cores to 22 threads";
const CORES: &str = "44 threads on 44 cores to one";
const SOCKETS: &str = "88 threads on 44 cores to 44 threads";
const PRINTED: [(&str, BenchKeyType, &str, [f64; 5]); 8] = [
    ("fptree-c", U64, SOCKET, [1.57, 1.55, 1.56, 1.63, 1.56]),
    ("fptree-c", U64, CORES, [36.8, 36.3, 37.5, 37.6, 36.7]),
    ("fptree-c", U64, SOCKETS, [1.50, 1.30, 1.34, 1.53, 1.37]),
    ("nvtree-c", U64, SOCKET, [1.49, 1.73, 1.07, 1.74, 1.61]),
    ("nvtree-c", U64, CORES, [31.2, 10.5, 10.9, 9.1, 15.6]),
    ("nvtree-c", U64, SOCKETS, [1.18, 1.81, 2.01, 1.97, 1.61]),
    ("fptree-c", String16, CORES, [37.2, 35.0, 38.4, 38.5, 34.9]),
    ("fptree-c", String16, SOCKETS, [1.54, 1.63, 1.63, 1.62, 1.67]),
];

/// What the model takes of a phase, and what two threads did.
struct Costs {
    /// Part of the time under the lock.
    serial: f64,
    /// Part of the time that misses and flushes take.
    waiting: f64,
    /// Throughput of two threads to that of one.
    two: f64,
}

impl Costs {
    /// So many threads, with a core each, to one.
    fn cores(&self, threads: f64) -> f64 {
        1.0 / (self.serial + (1.0 - self.serial) / threads)
    }

    /// Two threads of a core to one.
    fn hardware_threads(&self) -> f64 {
        1.0 / (1.0 - self.waiting.min(0.5))
    }
}

/// Costs of all phases.
fn costs(
    options: &MicroOptions,
    rounds: u32,
    drawing: &mut Drawing<'_, '_>,
) -> Result<Vec<Costs>, BenchError> {
    let (one, steps) = (Session::shared(options)?, &mut drawing.steps);
    let both = Session::shared(&MicroOptions { threads: 2, ..options.clone() })?;
    if drawing.only_planned {
        return Ok(Vec::new());
    }
    steps.extend(one.operations() * (2 + 2 * u64::from(rounds)));
    let (counts, latencies) = (one.phase_counts(steps)?, one.latencies(steps)?);
    let (mut seconds, mut changes) = (vec![[const { Vec::new() }; 2]; PHASES.len()], Vec::new());
    for _ in 0..rounds {
        let timed = one.timed(steps)?;
        changes = timed.iter().map(|of| of.contention.structure_changes.unwrap_or(0)).collect();
        for ((times, one), two) in seconds.iter_mut().zip(timed).zip(both.seconds(steps)?) {
            times[0].push(one.seconds);
            times[1].push(two);
        }
    }
    let cost = |phase: usize| {
        let [one, two] = [0, 1].map(|threads| Spread::of(&seconds[phase][threads]).middle);
        let locked = changes[phase] as f64 * latencies[phase].p999_ns;
        Costs {
            serial: (locked / (one * 1e9)).min(1.0),
            waiting: LOCAL.cost_ns(&counts[phase]) / (one * 1e9),
            two: one / two,
        }
    };
    Ok((0..PHASES.len()).map(cost).collect())
}

/// Measures with one and two threads, and says what the model makes of it.
pub fn fptree_10(options: &FigureOptions, drawing: &mut Drawing<'_, '_>) -> Result<(), BenchError> {
    let rounds = options.rounds;
    for (engine, key_type) in TREES {
        let options =
            MicroOptions { key_type, warm: options.keys, ..options.micro(engine, &PHASES) };
        let (costs, keys) = (costs(&options, rounds, drawing)?, keys_name(key_type));
        for (_, _, which, papers) in PRINTED.iter().filter(|of| (of.0, of.1) == (engine, key_type))
        {
            for ((costs, phase), paper) in costs.iter().zip(PHASES).zip(papers) {
                let what = format!("{phase}, {keys}, {which}, by the model: {engine}");
                let ours =
                    if *which == CORES { costs.cores(44.0) } else { costs.hardware_threads() };
                let (paper, ours) = (*paper, Some(ours));
                drawing.figure.claims.push(Claim { what, paper, paper_to: None, ours });
            }
        }
        let bars = |name: &str, of: fn(&Costs) -> f64| {
            Series::of(
                name,
                (0..).zip(&costs).map(|(at, costs)| [f64::from(at), of(costs)]).collect(),
            )
        };
        let series = vec![
            bars("by the model", |costs| costs.cores(2.0)),
            bars("as measured", |costs| costs.two),
        ];
        let places = PHASES.iter().map(Phase::to_string).collect();
        let title = format!("{engine}, {keys}: two threads to one");
        drawing.figure.panels.push(Panel::bars(title, "times one thread", places, series));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_locked_or_computed_bounds_the_gain() {
        let costs = |serial, waiting| Costs { serial, waiting, two: 2.0 };
        assert_eq!([0.0, 1.0].map(|serial| costs(serial, 0.0).cores(44.0)), [44.0, 1.0]);
        let gains = [0.0, 0.2, 0.9].map(|waiting| costs(0.0, waiting).hardware_threads());
        assert_eq!(gains, [1.0, 1.25, 2.0]);
    }
}
