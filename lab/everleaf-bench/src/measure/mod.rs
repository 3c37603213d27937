//! The measuring loops.
//!
//! A phase is measured in runs of their own, each on an index of its own with the same keys: a
//! *timed* run without time stamps, for throughput; a *latency* run with two time stamps around
//! every operation, whose own cost is measured and subtracted; and a *counted* run.

mod clock;

use std::sync::Barrier;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::key::BenchKey;
use crate::options::{MULTIGET_KEYS, SCAN_RECORDS};
use crate::target::{Operations, Target};
use crate::workload::Part;
use crate::{BenchError, Phase};

pub use clock::{Clock, Latencies, LatencySummary, Unobserved, stamp_ns};

/// What the operations answered, to be compared with what they must have answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// Operations with the right outcome.
    pub right: u64,
    /// Sum of the returned values without their lowest byte, which changes with every update.
    pub sum: u64,
}

impl Answers {
    #[inline(always)]
    fn take(&mut self, value: Option<u64>) {
        if let Some(value) = value {
            self.right += 1;
            self.sum = self.sum.wrapping_add(value >> 8);
        }
    }

    /// Takes those of another thread.
    pub fn merge(&mut self, other: Self) {
        self.right += other.right;
        self.sum = self.sum.wrapping_add(other.sum);
    }

    /// What `part` must be answered in `phase`, by a target that returns old values or one that
    /// does not.
    pub fn expected<K: BenchKey>(phase: Phase, part: Part<'_, K>, returns_old: bool) -> Self {
        let all = |keys: &mut dyn Iterator<Item = &K>| {
            keys.fold(0, |sum: u64, key| sum.wrapping_add(key.word() >> 8))
        };
        let sum = match phase {
            Phase::Insert | Phase::Scan => 0,
            Phase::Update | Phase::Delete if !returns_old => 0,
            Phase::Mixed => all(&mut part
                .keys
                .iter()
                .zip(part.inserts)
                .filter(|(_, insert)| !**insert)
                .map(|(key, _)| key)),
            _ => all(&mut part.keys.iter()),
        };
        Self { right: part.keys.len() as u64, sum }
    }
}

/// The value that a key gets: `generation` tells updates apart.
#[inline(always)]
fn value_of<K: BenchKey>(key: &K, generation: u8) -> u64 {
    key.word() & !0xff | u64::from(generation)
}

/// Does the operations of a phase.
pub fn perform<K: BenchKey, O: Operations<K>, C: Clock>(
    target: &mut O,
    clock: &mut C,
    phase: Phase,
    part: Part<'_, K>,
    generation: u8,
) -> Result<Answers, O::Failure> {
    let (keys, mut answers) = (part.keys, Answers::default());
    match phase {
        Phase::Insert | Phase::Update if target.batch() > 1 => {
            for keys in keys.chunks(target.batch()) {
                let values: Vec<u64> = keys.iter().map(|key| value_of(key, generation)).collect();
                clock.time(keys.len(), || target.put_all(keys, &values))?;
                answers.right += keys.len() as u64;
            }
        }
        Phase::Insert => {
            for key in keys {
                answers.right +=
                    u64::from(clock.time(1, || target.insert(key, value_of(key, generation)))?);
            }
        }
        Phase::Find => {
            for key in keys {
                answers.take(clock.time(1, || target.get(key))?);
            }
        }
        Phase::Multiget => {
            let mut values = [None; MULTIGET_KEYS];
            for keys in keys.chunks(MULTIGET_KEYS) {
                let values = &mut values[..keys.len()];
                clock.time(keys.len(), || target.get_many(keys, values))?;
                values.iter().for_each(|value| answers.take(*value));
            }
        }
        Phase::Update => {
            for key in keys {
                answers.take(clock.time(1, || target.update(key, value_of(key, generation)))?);
            }
        }
        Phase::Delete => {
            for key in keys {
                answers.take(clock.time(1, || target.remove(key))?);
            }
        }
        Phase::Scan => {
            for key in keys {
                answers.right += u64::from(clock.time(1, || target.scan(key, SCAN_RECORDS))?);
            }
        }
        Phase::Mixed => answers = perform_mixture(target, clock, part, generation)?,
    }
    Ok(answers)
}

/// Does the operations of a mixture, each of which is either of two.
fn perform_mixture<K: BenchKey, O: Operations<K>, C: Clock>(
    target: &mut O,
    clock: &mut C,
    part: Part<'_, K>,
    generation: u8,
) -> Result<Answers, O::Failure> {
    let mut answers = Answers::default();
    for (key, insert) in part.keys.iter().zip(part.inserts) {
        if *insert {
            answers.right +=
                u64::from(clock.time(1, || target.insert(key, value_of(key, generation)))?);
        } else {
            answers.take(clock.time(1, || target.get(key))?);
        }
    }
    Ok(answers)
}

/// What one thread works with, and on.
pub struct Lane<'d, H, K> {
    handle: H,
    part: Part<'d, K>,
}

/// One lane for each of `threads` threads of each target: the operations of a target are shared
/// among its threads in equal parts.
pub fn lanes<'t, 'd, K, T: Target<K>>(
    targets: &'t mut [T],
    parts: impl Iterator<Item = Part<'d, K>>,
    threads: usize,
) -> Vec<Lane<'d, T::Handle<'t>, K>> {
    let of_target = |(target, part): (&'t mut T, Part<'d, K>)| {
        let handles = target.handles(threads);
        let threads = handles.len();
        handles
            .into_iter()
            .enumerate()
            .map(move |(thread, handle)| Lane { handle, part: part.part(thread, threads) })
    };
    targets.iter_mut().zip(parts).flat_map(of_target).collect()
}

/// What one phase gave.
pub struct Measured<C> {
    /// From the start of the first thread to the end of the last.
    pub elapsed: Duration,
    /// All threads together.
    pub answers: Answers,
    /// One for each thread.
    pub clocks: Vec<C>,
}

/// Does the operations of a phase, with a thread for each lane and its clock, all at the same time.
pub fn measure<K: BenchKey, H: Operations<K> + Send, C: Clock>(
    mut lanes: Vec<Lane<'_, H, K>>,
    mut clocks: Vec<C>,
    phase: Phase,
    generation: u8,
) -> Result<Measured<C>, BenchError> {
    if let ([lane], [clock]) = (&mut lanes[..], &mut clocks[..]) {
        let start = Instant::now();
        let answers =
            perform(&mut lane.handle, clock, phase, lane.part, generation).map_err(Into::into)?;
        return Ok(Measured { elapsed: start.elapsed(), answers, clocks });
    }
    let (threads, barrier) = (lanes.len(), Barrier::new(lanes.len()));
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let running: Vec<_> = lanes
            .into_iter()
            .zip(clocks)
            .enumerate()
            .map(|(thread, (mut lane, mut clock))| {
                let barrier = &barrier;
                scope.spawn(move || {
                    pin(thread, threads);
                    barrier.wait();
                    let start = Instant::now();
                    let answers =
                        perform(&mut lane.handle, &mut clock, phase, lane.part, generation);
                    (start, Instant::now(), answers, clock)
                })
            })
            .collect();
        running
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let start = outcomes.iter().map(|(start, ..)| *start).min();
    let end = outcomes.iter().map(|(_, end, ..)| *end).max();
    let elapsed = start.zip(end).map_or(Duration::ZERO, |(start, end)| end - start);
    let mut measured = Measured { elapsed, answers: Answers::default(), clocks: Vec::new() };
    for (_, _, answers, clock) in outcomes {
        measured.answers.merge(answers.map_err(Into::into)?);
        measured.clocks.push(clock);
    }
    Ok(measured)
}

/// Binds the calling thread to a processor of its own, if there are enough; a thread that wanders
/// measures its wandering.
pub fn pin(thread: usize, threads: usize) {
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let processors: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect();
    if threads <= processors.len() {
        let mut own = CpuSet::new();
        own.set(processors[thread]);
        let _ = sched_setaffinity(None, &own); // What is refused costs only steadiness.
    }
}

#[cfg(test)]
mod tests {
    use everleaf_index::{BytesKeys, Model, Serialized, U64Keys};

    use super::*;
    use crate::MicroOptions;
    use crate::key::String16;
    use crate::plan::Plan;
    use crate::target::{IndexTarget, MapTarget};
    use crate::workload::{Drawn, Workload, wholes};

    /// What `phase` answers on 205 keys of each target, and what it must.
    fn answers<K: BenchKey, T: Target<K>, C: Clock + Clone>(
        targets: &mut [T],
        clocks: &[C],
        phase: Phase,
        generation: u8,
    ) -> (Answers, Answers) {
        let drawn =
            |target: u64| Drawn::alike((0..205).map(|i| K::of((i + target * 1000) * 7)).collect());
        let drawn: Vec<_> = (0..targets.len() as u64).map(drawn).collect();
        let mut expected = Answers::default();
        drawn.iter().for_each(|drawn| {
            expected.merge(Answers::expected(phase, drawn.whole(), T::RETURNS_OLD))
        });
        let threads = clocks.len() / targets.len();
        (
            measure(lanes(targets, wholes(&drawn), threads), clocks.to_vec(), phase, generation)
                .unwrap()
                .answers,
            expected,
        )
    }

    /// Inserts, then does each phase; answers must be what they must be, and each target must have
    /// its own keys.
    fn answers_are_right<K: BenchKey, T: Target<K>, C: Clock + Clone>(
        mut targets: Vec<T>,
        clocks: Vec<C>,
    ) {
        let phases = [
            Phase::Insert,
            Phase::Find,
            Phase::Update,
            Phase::Update,
            Phase::Multiget,
            Phase::Scan,
            Phase::Delete,
        ];
        for (generation, phase) in phases.iter().enumerate() {
            let (answered, expected) = answers(&mut targets, &clocks, *phase, generation as u8);
            assert_eq!(answered, expected, "{phase}");
            let left = if *phase == Phase::Delete { 0 } else { 205 };
            assert!(targets.iter().all(|target| target.len() == left), "{phase}");
        }
        for phase in [Phase::Find, Phase::Update, Phase::Multiget, Phase::Scan, Phase::Delete] {
            let (answered, _) = answers(&mut targets, &clocks, phase, 0);
            assert_eq!(answered, Answers::default(), "{phase} of absent keys");
        }
    }

    fn model<K: BenchKey<Kind = U64Keys>, const W: usize>() -> IndexTarget<K> {
        IndexTarget::new(Box::new(Serialized::new(Model::<U64Keys, W>::new())))
    }

    #[test]
    fn answers_of_every_target_are_right() {
        answers_are_right::<u64, _, _>(vec![model::<u64, 1>()], vec![Unobserved]);
        answers_are_right::<u64, _, _>(vec![model::<u64, 3>()], vec![Unobserved]);
        answers_are_right::<u64, _, _>(vec![MapTarget::<u64, [u64; 1]>::new(8)], vec![Unobserved]);
        answers_are_right::<u64, _, _>(
            vec![MapTarget::<u64, [u64; 3]>::new(24)],
            vec![Latencies::new()],
        );
        answers_are_right::<String16, _, _>(
            vec![MapTarget::<String16, [u64; 2]>::new(16)],
            vec![Unobserved],
        );
        let strings =
            IndexTarget::<String16>::new(Box::new(Serialized::new(Model::<BytesKeys>::new())));
        answers_are_right::<String16, _, _>(vec![strings], vec![Latencies::new()]);
        answers_are_right::<u64, _, _>(vec![model::<u64, 1>()], vec![Latencies::new(); 3]);
        answers_are_right::<u64, _, _>(
            vec![model::<u64, 1>(), model::<u64, 1>()],
            vec![Unobserved; 2],
        );
        answers_are_right::<u64, _, _>(
            vec![model::<u64, 1>(), model::<u64, 1>()],
            vec![Unobserved; 6],
        );
        answers_are_right::<u64, _, _>(
            vec![MapTarget::<u64, [u64; 1]>::new(8), MapTarget::<u64, [u64; 1]>::new(8)],
            vec![Latencies::new(); 2],
        );
    }

    /// A mixture on an index in which the first 100 keys are, which is all that its lookups may ask
    /// for.
    #[test]
    fn answers_of_a_mixture_are_right() {
        let options = MicroOptions {
            warm: 100,
            keys: 1001,
            phases: vec![Phase::Mixed],
            ..Default::default()
        };
        let mut workload = Workload::new(&Plan::new(&options).unwrap(), 0);
        let mut targets = [model::<u64, 1>()];
        let warm = [Drawn::alike((0..100).map(|place| workload.key(place)).collect())];
        measure(lanes(&mut targets, wholes(&warm), 1), vec![Unobserved], Phase::Insert, 0).unwrap();
        let drawn = [workload.operations(Phase::Mixed)];
        let measured =
            measure(lanes(&mut targets, wholes(&drawn), 3), vec![Unobserved; 3], Phase::Mixed, 1)
                .unwrap();
        assert_eq!(measured.answers, Answers::expected(Phase::Mixed, drawn[0].whole(), true));
        assert_eq!(targets[0].len(), 600);
        let again =
            measure(lanes(&mut targets, wholes(&drawn), 1), vec![Unobserved], Phase::Mixed, 2)
                .unwrap();
        assert_eq!(again.answers.right, 501, "only lookups succeed where every key is there");
    }

    #[test]
    fn latencies_are_recorded_for_every_operation() {
        let mut targets = [MapTarget::<u64, [u64; 1]>::new(8)];
        let drawn = [Drawn::alike((0..1000).collect())];
        for phase in [Phase::Insert, Phase::Multiget] {
            let measured =
                measure(lanes(&mut targets, wholes(&drawn), 1), vec![Latencies::new()], phase, 0)
                    .unwrap();
            assert_eq!(measured.clocks[0].recorded(), 1000, "{phase}");
        }
    }
}
