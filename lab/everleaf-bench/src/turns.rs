//! Engines that are measured in turns: all of them are there, filled, and each does a few
//! operations of a phase before the next does the same.

use everleaf_index::IndexStatistics;
use everleaf_pmem::LogCounts;

use crate::contention::{Contention, nodes_logged};
use crate::key::{BenchKey, String16};
use crate::log_work::LogWork;
use crate::measure::{Unobserved, lanes, measure};
use crate::options::BenchKeyType;
use crate::session::{Driver, ProgressTracker, Session, verify};
use crate::target::Target;
use crate::workload::{Drawn, Workload};
use crate::{BenchError, Phase};

/// An engine among others, filled, whatever its keys and values are.
pub trait Contender {
    /// Draws the operations of the next phase, which begins in an epoch of its own.
    ///
    /// # Errors
    /// What the end of an epoch says.
    fn begin(&mut self, phase: Phase) -> Result<(), BenchError>;

    /// Does turn `turn` of `turns`, which share the operations of the phase in equal parts.
    /// Operations a second, of all threads together.
    ///
    /// # Errors
    /// [`BenchError`], among them a wrong answer.
    fn turn(&mut self, turn: usize, turns: usize) -> Result<f64, BenchError>;

    /// What there is to tell of the phase, which is over.
    fn end(&mut self) -> Ended;

    /// Operations of the phase.
    fn operations(&self) -> u64;
}

/// What is told of a phase besides its rates.
pub struct Ended {
    /// What its threads met.
    pub contention: Contention,
    /// Nodes that were copied to a log in it; none without epochs.
    pub nodes_logged: Option<u64>,
    /// What was written to a log beside the pool; none without one.
    pub log: Option<LogWork>,
}

impl Session {
    /// Makes what the session measures and inserts the keys of the warm-up.
    pub fn contender<'s>(
        &'s self,
        steps: &mut ProgressTracker<'_>,
    ) -> Result<Box<dyn Contender + 's>, BenchError> {
        let mut filled = None;
        let fill = Fill { session: self, steps, filled: &mut filled };
        match self.plan.options.key_type {
            BenchKeyType::U64 => self.with_targets::<u64, _>(fill)?,
            BenchKeyType::String16 => self.with_targets::<String16, _>(fill)?,
        }
        Ok(filled.expect("the targets of a session are filled"))
    }

    /// What it measures, with the operations that follow the warm-up.
    fn running<K: BenchKey, T: Target<K>>(&self, targets: Vec<T>) -> Running<'_, K, T> {
        let workloads = (0..targets.len() as u64).map(|index| Workload::new(&self.plan, index));
        Running {
            session: self,
            targets,
            workloads: workloads.collect(),
            phase: Phase::Insert,
            phases: 0,
            drawn: Vec::new(),
            before: Vec::new(),
            log_before: Vec::new(),
        }
    }
}

/// Fills targets and keeps them.
struct Fill<'s, 't, 'p, 'f> {
    session: &'s Session,
    steps: &'t mut ProgressTracker<'p>,
    filled: &'f mut Option<Box<dyn Contender + 's>>,
}

impl<K: BenchKey> Driver<K> for Fill<'_, '_, '_, '_> {
    const ARRAYS: bool = true;

    fn drive<T: Target<K> + 'static>(self, targets: Vec<T>) -> Result<(), BenchError> {
        let Self { session, steps, filled } = self;
        let mut running = session.running(targets);
        let Running { targets, workloads, .. } = &mut running;
        session.warm_up(steps, "filled", targets, workloads, &Unobserved)?;
        *filled = Some(Box::new(running));
        Ok(())
    }
}

/// Filled targets of one kind: one that all threads share, or one for each thread.
struct Running<'s, K, T> {
    session: &'s Session,
    targets: Vec<T>,
    workloads: Vec<Workload>,
    phase: Phase,
    /// Phases that were begun.
    phases: u8,
    drawn: Vec<Drawn<K>>,
    /// What each target had counted before the phase.
    before: Vec<Option<IndexStatistics>>,
    log_before: Vec<Option<LogCounts>>,
}

impl<K, T: Target<K>> Running<'_, K, T> {
    fn log_counts(&self) -> Vec<Option<LogCounts>> {
        self.targets.iter().map(Target::log_counts).collect()
    }
}

impl<K: BenchKey, T: Target<K>> Contender for Running<'_, K, T> {
    fn begin(&mut self, phase: Phase) -> Result<(), BenchError> {
        self.phase = phase;
        self.phases = self.phases.wrapping_add(1);
        self.drawn = self.workloads.iter_mut().map(|of| of.operations(phase)).collect();
        self.targets.iter().try_for_each(Target::end_epoch)?;
        self.before = self.targets.iter().map(Target::statistics).collect();
        self.log_before = self.log_counts();
        Ok(())
    }

    fn turn(&mut self, turn: usize, turns: usize) -> Result<f64, BenchError> {
        let Self { session, targets, phase, phases, drawn, .. } = self;
        let parts = || drawn.iter().map(|drawn| drawn.part(turn, turns));
        let threads = session.plan.options.threads as usize;
        let clocks = vec![Unobserved; threads * targets.len()];
        let measured = measure(lanes(targets, parts(), threads), clocks, *phase, *phases)?;
        verify(session.plan.subject, *phase, parts(), measured.answers, T::RETURNS_OLD)?;
        let operations: u64 = parts().map(|part| part.len()).sum();
        Ok(operations as f64 / measured.elapsed.as_secs_f64().max(1e-9))
    }

    fn end(&mut self) -> Ended {
        self.drawn = Vec::new();
        let after: Vec<_> = self.targets.iter().map(Target::statistics).collect();
        let has_epochs = self.session.plan.subject.has_epochs();
        let nodes_logged = has_epochs.then(|| nodes_logged(&self.before, &after)).flatten();
        let contention = Contention::between(&self.before, after.into_iter());
        let log = LogWork::between(&self.log_before, &self.log_counts());
        Ended { contention, nodes_logged, log }
    }

    fn operations(&self) -> u64 {
        self.drawn.iter().map(Drawn::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use everleaf::Engine;

    use super::*;
    use crate::MicroOptions;
    use crate::plan::Sharing;

    fn options(phases: &[Phase]) -> MicroOptions {
        let phases = phases.to_vec();
        MicroOptions { engine: "fptree".into(), keys: 301, phases, ..Default::default() }
    }

    // Of some kinds of targets alone: a driver of all of them takes minutes to compile (see
    // `tests/bench/compare.rs`).
    fn alone(session: &Session) -> Running<'_, u64, impl Target<u64> + use<>> {
        let media = || session.hardware(session.region().unwrap()).unwrap();
        let index = |_| session.index::<u64, _>(Engine::FPTREE, media()).unwrap().1;
        session.running((0..session.indexes).map(index).collect::<Vec<_>>())
    }

    #[test]
    fn turns_do_all_operations_of_a_phase_and_each_once() {
        let phases = [
            Phase::Insert,
            Phase::Mixed,
            Phase::Multiget,
            Phase::Update,
            Phase::Scan,
            Phase::Delete,
        ];
        let session = Session::shared(&options(&phases)).unwrap();
        for turns in [1, 2, 7, 301] {
            let mut running = alone(&session);
            let mut left = Vec::new();
            for phase in phases {
                running.begin(phase).unwrap();
                assert_eq!(running.operations(), 301);
                for turn in 0..turns {
                    // Wrong answers are errors.
                    assert!(running.turn(turn, turns).unwrap() > 0.0, "{phase} {turn}");
                }
                let Ended { contention, nodes_logged: logged, .. } = running.end();
                assert_eq!((contention.restarts, logged), (Some(0), None));
                left.push(running.targets[0].len());
            }
            assert_eq!(left, [301, 451, 451, 451, 451, 150], "{turns} turns");
        }
    }

    #[test]
    fn a_turn_that_is_done_twice_is_found_out() {
        let session = Session::shared(&options(&[Phase::Insert])).unwrap();
        let mut running = alone(&session);
        running.begin(Phase::Insert).unwrap();
        running.turn(0, 3).unwrap();
        running.turn(1, 3).unwrap();
        assert!(matches!(running.turn(1, 3), Err(BenchError::WrongAnswers { .. })));
    }

    #[test]
    fn copies_do_all_operations_on_all_keys() {
        let phases = [Phase::Insert, Phase::Delete];
        let micro = MicroOptions { threads: 3, ..options(&phases) };
        let session = Session::with(&micro, Sharing::Copies).unwrap();
        assert_eq!(session.operations(), 3 * 2 * 301, "no part, which must be a multiple");
        let mut running = alone(&session);
        for (phase, left) in phases.into_iter().zip([301, 0]) {
            running.begin(phase).unwrap();
            assert_eq!(running.operations(), 3 * 301);
            assert!((0..2).all(|turn| running.turn(turn, 2).is_ok()));
            assert!(running.targets.iter().all(|target| target.len() == left));
        }
    }
}
