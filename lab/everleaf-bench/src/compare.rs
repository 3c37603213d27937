//! `bench compare`: the same phases on several engines, in turns of some hundredths of a second, so
//! that what changes on the machine meanwhile meets all of them.

use everleaf_pmem::Durability;
use serde::Serialize;

use crate::contention::Contention;
use crate::log_work::{LogOfOperation, LogWork};
use crate::options::{Acknowledged, CompareOptions, MicroOptions};
use crate::place::{Need, Place};
use crate::plan::{MAX_ROUNDS, MOST, Sharing, need_epochs, within};
use crate::session::{ProgressTracker, Session};
use crate::turns::{Contender, Ended};
use crate::{BenchError, Phase, Progress};

/// Operations of a turn of indexes, which do a million and more in a second.
const INDEX_TURN: u64 = 48_000;
/// Operations of a turn where stores of bytes are among the engines.
const STORE_TURN: u64 = 4_800;
/// Calls that a thread makes in a turn of stores that wait for a disk.
const DISK_TURN: u64 = 200;
/// How many other operations a scan counts for.
const OPERATIONS_PER_SCAN: u64 = 10;

/// What `bench compare` prints for a phase of an engine. Serialised, it is one JSON object whose
/// keys are these fields in this order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Name of the engine, with `:separate` or `:copies` after it if every thread had an index of
    /// its own.
    pub engine: String,
    /// What was done.
    pub phase: Phase,
    /// Operations; with `:copies`, those of each thread.
    pub keys: u64,
    /// Threads that did them.
    pub threads: u32,
    /// How often the engines were filled and measured anew.
    pub rounds: u32,
    /// Turns in which it was measured, in all rounds together.
    pub turns: u64,
    /// Median of the turns.
    pub median_ops_per_second: f64,
    /// The slowest turn.
    pub min_ops_per_second: f64,
    /// The fastest turn.
    pub max_ops_per_second: f64,
    /// Median of the ratios of its turns to the neighbouring turns of the first engine.
    pub ratio: f64,
    /// The least of these ratios.
    pub ratio_min: f64,
    /// A quarter of them is less.
    pub ratio_q1: f64,
    /// A quarter of them is more: between the two lies the middle half.
    pub ratio_q3: f64,
    /// The greatest of them.
    pub ratio_max: f64,
    /// Of `multiget`: median of the ratios of its turns to those of the first engine's `find`, if
    /// there is one, because a map without batches offers nothing else. These turns are not
    /// neighbours.
    pub ratio_to_find: Option<f64>,
    /// The least of these ratios.
    pub ratio_to_find_min: Option<f64>,
    /// The greatest of them.
    pub ratio_to_find_max: Option<f64>,
    /// Bytes of a value.
    pub value_bytes: u64,
    /// What an acknowledged write survives: `none`, `process-crash` or `power-fail`.
    pub durability: String,
    /// How often threads met, in all rounds together.
    #[serde(flatten)]
    pub contention: Contention,
    /// Nodes copied to a log before they were changed, in all rounds together; none of an engine
    /// without epochs.
    pub nodes_logged: Option<u64>,
    /// What was written to a log beside the pool, an operation; none without one.
    pub log: Option<LogOfOperation>,
}

/// Measures engines in turns. In each round all of them are made and filled first, and stay. Each
/// phase is cut into turns of a few operations: every engine does the first turn, then every engine
/// the second, and so on, beginning with another engine each time. A round has its own seed, the
/// same for all engines. Only throughput is measured.
///
/// # Errors
/// As [`run_micro`](crate::run_micro); options are looked through for all engines before any work
/// is done.
///
/// # Examples
/// ```
/// use everleaf_bench::{CompareOptions, MicroOptions, Phase, run_compare};
///
/// let phases = vec![Phase::Insert, Phase::Find];
/// let micro = MicroOptions { keys: 1000, phases, ..MicroOptions::default() };
/// let engines = vec!["btreemap".into(), "fptree".into()];
/// let rows = run_compare(&CompareOptions { engines, rounds: 2, turn: Some(100), micro })?;
/// assert_eq!((rows.len(), rows[0].ratio, rows[3].turns), (4, 1.0, 20));
/// assert!(rows[3].ratio_q1 <= rows[3].ratio && rows[3].ratio <= rows[3].ratio_q3);
/// # Ok::<(), everleaf_bench::BenchError>(())
/// ```
pub fn run_compare(options: &CompareOptions) -> Result<Vec<Comparison>, BenchError> {
    run_compare_with_progress(options, &mut |_| {})
}

/// As [`run_compare`], and tells how far it is.
///
/// # Errors
/// As [`run_compare`].
pub fn run_compare_with_progress(
    options: &CompareOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<Comparison>, BenchError> {
    let (about, operations) = plan_compare(options)?;
    let mut steps = ProgressTracker::new(progress, operations * u64::from(options.rounds));
    let mut measured = Measured::new(about, options.micro.phases.len());
    for round in 0..options.rounds {
        let sessions = options.engines.iter().map(|engine| session(options, engine, round));
        let sessions = sessions.collect::<Result<Vec<Session>, BenchError>>()?;
        let mut contenders = Vec::new();
        for session in &sessions {
            contenders.push(session.contender(&mut steps)?);
        }
        for (place, &phase) in options.micro.phases.iter().enumerate() {
            let round = Round { options, place, phase, rotation: round as usize };
            round.measure(&mut contenders, &mut measured, &mut steps)?;
        }
    }
    Ok(measured.compare(options))
}

/// A session of a round, with its seed.
fn session(options: &CompareOptions, engine: &str, round: u32) -> Result<Session, BenchError> {
    let (name, sharing) = Sharing::of_name(engine);
    let seed = options.micro.seed.wrapping_add(round.into());
    let micro = MicroOptions { engine: name.to_owned(), seed, ..options.micro.clone() };
    Session::with(&micro, sharing)
}

/// Finds everything that is wrong before any work is done: what is told of the engines, and the
/// operations of a round. All engines have to have room together.
pub(crate) fn plan_compare(options: &CompareOptions) -> Result<(Vec<About>, u64), BenchError> {
    if options.engines.is_empty() {
        return Err(BenchError::NothingToCompare);
    }
    within("rounds", options.rounds.into(), 1, MAX_ROUNDS)?;
    options.turn.map_or(Ok(()), |turn| within("turn", turn, 1, MOST))?;
    need_epochs(
        options.micro.epoch_ops,
        options.engines.iter().map(|name| Sharing::of_name(name).0),
    )?;
    let (mut about, mut operations) = (Vec::new(), 0);
    let mut need = Need { pool_bytes: 0, dram_bytes: 0 };
    for engine in &options.engines {
        let session = session(options, engine, 0)?;
        operations += session.operations();
        need = need.and(session.need);
        let (value_bytes, durability) = (session.plan.value_bytes() as u64, session.durability()?);
        let has_words = session.plan.subject.has_words();
        about.push(About { name: engine.clone(), value_bytes, durability, has_words });
    }
    let waits = options.micro.acknowledged != Acknowledged::Process;
    let find = if waits { Place::find_on_disk } else { Place::find };
    find(need, &options.micro.pool)?;
    Ok((about, operations))
}

/// What is told of an engine besides its rates.
pub(crate) struct About {
    name: String,
    value_bytes: u64,
    durability: Durability,
    /// Whether it is an index by itself, and no store of bytes.
    has_words: bool,
}

/// A phase of a round.
struct Round<'o> {
    options: &'o CompareOptions,
    place: usize,
    phase: Phase,
    /// How far the order of the engines is turned.
    rotation: usize,
}

impl Round<'_> {
    /// Turns into which the phase is cut: as many for each engine.
    fn turns(&self, about: &[About]) -> usize {
        let usual = if about.iter().all(|of| of.has_words) { INDEX_TURN } else { STORE_TURN };
        let micro = &self.options.micro;
        // What waits for a disk does less in the same time, and more of it together.
        let usual = match micro.acknowledged {
            Acknowledged::Immediate => u64::from(micro.threads * micro.batch) * DISK_TURN,
            _ => usual,
        };
        let turn = self.options.turn.unwrap_or(usual);
        let turn = match self.phase {
            Phase::Scan => (turn / OPERATIONS_PER_SCAN).max(1),
            _ => turn,
        };
        let operations = micro.operations(self.phase);
        // Each thread has an operation in each turn, also where each has an index with its part.
        operations.div_ceil(turn).clamp(1, (operations / u64::from(micro.threads)).max(1)) as usize
    }

    fn measure(
        &self,
        contenders: &mut [Box<dyn Contender + '_>],
        measured: &mut Measured,
        steps: &mut ProgressTracker<'_>,
    ) -> Result<(), BenchError> {
        let (engines, turns) = (contenders.len(), self.turns(&measured.about));
        contenders.iter_mut().try_for_each(|contender| contender.begin(self.phase))?;
        for turn in 0..turns {
            for place in 0..engines {
                let engine = (place + turn + self.rotation) % engines;
                let name = &measured.about[engine].name;
                steps.begin(name, self.phase.name());
                let rate = contenders[engine].turn(turn, turns)?;
                measured.rates[engine][self.place].push(rate);
                let done = |turn| contenders[engine].operations() * turn as u64 / turns as u64;
                steps.end(done(turn + 1) - done(turn));
            }
        }
        for (engine, contender) in contenders.iter_mut().enumerate() {
            let sum = &mut measured.contention[engine][self.place];
            let Ended { contention: met, nodes_logged: logged, log } = contender.end();
            if let Some(log) = log {
                measured.log[engine][self.place].get_or_insert_default().add(log);
            }
            *sum = Some(sum.map_or(met, |sum: Contention| sum.and(met)));
            if let Some(logged) = logged {
                *measured.nodes_logged[engine][self.place].get_or_insert_default() += logged;
            }
        }
        Ok(())
    }
}

/// What was measured of each engine in each phase.
struct Measured {
    about: Vec<About>,
    /// Operations a second, of each turn of all rounds.
    rates: Vec<Vec<Vec<f64>>>,
    /// Of all rounds together.
    contention: Vec<Vec<Option<Contention>>>,
    /// The same.
    nodes_logged: Vec<Vec<Option<u64>>>,
    /// The same.
    log: Vec<Vec<Option<LogWork>>>,
}

impl Measured {
    fn new(about: Vec<About>, phases: usize) -> Self {
        let engines = about.len();
        Self {
            about,
            rates: vec![vec![Vec::new(); phases]; engines],
            contention: vec![vec![None; phases]; engines],
            nodes_logged: vec![vec![None; phases]; engines],
            log: vec![vec![None; phases]; engines],
        }
    }

    fn compare(&self, options: &CompareOptions) -> Vec<Comparison> {
        let phases = &options.micro.phases;
        let find = phases.iter().position(|phase| *phase == Phase::Find);
        let row = |(place, phase): (usize, &Phase), engine: usize| {
            let (about, own) = (&self.about[engine], &self.rates[engine][place]);
            let rates = Spread::of(own);
            let ratio = Spread::of_ratios(own, &self.rates[0][place]);
            let to_find = find
                .filter(|_| *phase == Phase::Multiget)
                .map(|find| Spread::of_ratios(own, &self.rates[0][find]));
            Comparison {
                engine: about.name.clone(),
                phase: *phase,
                keys: options.micro.operations(*phase),
                threads: options.micro.threads,
                rounds: options.rounds,
                turns: own.len() as u64,
                median_ops_per_second: rates.middle,
                min_ops_per_second: rates.min,
                max_ops_per_second: rates.max,
                ratio: ratio.middle,
                ratio_min: ratio.min,
                ratio_q1: ratio.q1,
                ratio_q3: ratio.q3,
                ratio_max: ratio.max,
                ratio_to_find: to_find.map(|ratio| ratio.middle),
                ratio_to_find_min: to_find.map(|ratio| ratio.min),
                ratio_to_find_max: to_find.map(|ratio| ratio.max),
                value_bytes: about.value_bytes,
                durability: about.durability.to_string(),
                contention: self.contention[engine][place].unwrap_or_default(),
                nodes_logged: self.nodes_logged[engine][place],
                log: self.log[engine][place].map(|log| {
                    log.of_operations(options.micro.operations(*phase) * u64::from(options.rounds))
                }),
            }
        };
        phases
            .iter()
            .enumerate()
            .flat_map(|phase| (0..self.about.len()).map(move |engine| row(phase, engine)))
            .collect()
    }
}

/// A typical value, the middle half and the extremes of some measurements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub middle: f64,
    pub min: f64,
    /// A quarter of the measurements is less, and a quarter is more than `q3`.
    pub q1: f64,
    pub q3: f64,
    pub max: f64,
}

impl Spread {
    /// Median, quartiles and extremes; between two measurements they are interpolated.
    pub fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len() - 1;
        let at = |part: f64| {
            let place = last as f64 * part;
            let (low, high) = (sorted[place as usize], sorted[(place as usize + 1).min(last)]);
            low + (high - low) * place.fract()
        };
        Self { middle: at(0.5), min: sorted[0], q1: at(0.25), q3: at(0.75), max: sorted[last] }
    }

    /// Of the ratios of measurements that belong together.
    pub fn of_ratios(values: &[f64], references: &[f64]) -> Self {
        let ratios: Vec<f64> =
            values.iter().zip(references).map(|(value, reference)| value / reference).collect();
        Self::of(&ratios)
    }
}

impl Comparison {
    /// The heading of the table for people, whose rows [`table_row`](Self::table_row) gives.
    pub fn table_heading() -> String {
        format!(
            "{:<9} {:<18} {:<13} {:>12} {:>12} {:>12} {:>7} {:>15} {:>24} {}",
            "phase",
            "engine",
            "durability",
            "median ops/s",
            "min",
            "max",
            "ratio",
            "(middle half)",
            "to find of the first",
            Contention::heading()
        )
    }

    /// One row of the table for people.
    pub fn table_row(&self) -> String {
        let to_find = match (self.ratio_to_find, self.ratio_to_find_min, self.ratio_to_find_max) {
            (Some(ratio), Some(min), Some(max)) => format!("{ratio:.2} ({min:.2} to {max:.2})"),
            _ => "-".into(),
        };
        format!(
            "{:<9} {:<18} {:<13} {:>12.0} {:>12.0} {:>12.0} {:>7.2} {:>15} {:>24} {}",
            self.phase,
            self.engine,
            self.durability,
            self.median_ops_per_second,
            self.min_ops_per_second,
            self.max_ops_per_second,
            self.ratio,
            format!("({:.2} to {:.2})", self.ratio_q1, self.ratio_q3),
            to_find,
            self.contention.columns(self.keys * u64::from(self.rounds))
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(phases: &[Phase]) -> CompareOptions {
        let micro = MicroOptions { keys: 300, phases: phases.to_vec(), ..Default::default() };
        let engines = vec!["btreemap".into(), "btreemap".into()];
        CompareOptions { engines, rounds: 3, turn: None, micro }
    }

    fn about(has_words: bool) -> About {
        let (name, durability) = ("an engine".into(), Durability::None);
        About { name, value_bytes: 8, durability, has_words }
    }

    #[test]
    fn medians_and_ratios_are_those_of_the_turns() {
        let options = options(&[Phase::Find, Phase::Multiget]);
        let first = vec![vec![10.0, 30.0, 20.0], vec![10.0, 30.0, 40.0]];
        let second = vec![vec![20.0, 30.0, 70.0], vec![40.0, 60.0, 60.0]];
        let about = vec![about(true), about(true)];
        let mut measured = Measured::new(about, 2);
        measured.rates = vec![first, second];
        let rows = measured.compare(&options);
        assert_eq!(
            rows.iter().map(|row| row.phase).collect::<Vec<_>>(),
            [Phase::Find, Phase::Find, Phase::Multiget, Phase::Multiget]
        );
        let find = &rows[1];
        assert_eq!(
            (find.median_ops_per_second, find.min_ops_per_second, find.max_ops_per_second),
            (30.0, 20.0, 70.0)
        );
        // The ratios of turns that belong together are 2, 1 and 3.5.
        assert_eq!((find.ratio, find.ratio_min, find.ratio_max), (2.0, 1.0, 3.5));
        assert_eq!((find.ratio_q1, find.ratio_q3, find.turns), (1.5, 2.75, 3));
        assert_eq!(find.ratio_to_find, None);
        let multiget = &rows[3];
        assert_eq!((multiget.ratio, multiget.ratio_min, multiget.ratio_max), (2.0, 1.5, 4.0));
        let to_find =
            (multiget.ratio_to_find, multiget.ratio_to_find_min, multiget.ratio_to_find_max);
        assert_eq!(to_find, (Some(3.0), Some(2.0), Some(4.0)));
        assert_eq!((rows[0].ratio, rows[2].ratio_to_find), (1.0, Some(1.0)));
    }

    #[test]
    fn an_even_number_of_measurements_has_a_median_between_two() {
        let (min, max) = (1.0, 10.0);
        let right = Spread { middle: 3.0, min, q1: 1.75, q3: 5.5, max };
        assert_eq!(Spread::of(&[4.0, 1.0, 2.0, 10.0]), right);
        let one = Spread { middle: 5.0, min: 5.0, q1: 5.0, q3: 5.0, max: 5.0 };
        assert_eq!(Spread::of(&[5.0]), one);
    }

    #[test]
    fn turns_are_as_many_as_their_size_says() {
        let mut options = options(&[]);
        (options.micro.keys, options.micro.scans) = (100_000, None);
        let turns = |options: &CompareOptions, phase, about: &[About]| {
            Round { options, place: 0, phase, rotation: 0 }.turns(about)
        };
        let (indexes, stores) = ([about(true), about(true)], [about(true), about(false)]);
        assert_eq!(turns(&options, Phase::Find, &indexes), 3);
        assert_eq!(turns(&options, Phase::Find, &stores), 21);
        assert_eq!(turns(&options, Phase::Scan, &stores), 209);
        options.turn = Some(100_000);
        assert_eq!(turns(&options, Phase::Find, &stores), 1);
        assert_eq!(turns(&options, Phase::Scan, &stores), 10);
        options.turn = Some(1);
        assert_eq!(turns(&options, Phase::Scan, &indexes), 100_000);
        options.micro.threads = 3;
        assert_eq!(turns(&options, Phase::Find, &indexes), 33_333);
    }
}
