//! `bench compare`: the same phases on several engines, interleaved, so that what changes on the
//! machine meanwhile meets all of them.

use everleaf_pmem::Durability;
use serde::Serialize;

use crate::contention::Contention;
use crate::options::{CompareOptions, MicroOptions};
use crate::plan::{MOST_ROUNDS, Sharing, within};
use crate::session::{Session, Steps};
use crate::{BenchError, Phase, Progress};

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
    /// How often it was measured.
    pub rounds: u32,
    /// Median of the rounds.
    pub median_ops_per_second: f64,
    /// The slowest round.
    pub min_ops_per_second: f64,
    /// The fastest round.
    pub max_ops_per_second: f64,
    /// Its median to that of the first engine.
    pub ratio: f64,
    /// The least ratio of a round.
    pub ratio_min: f64,
    /// The greatest ratio of a round.
    pub ratio_max: f64,
    /// Of `multiget`: its median to that of the first engine's `find`, if there is one, because a
    /// map without batches offers nothing else.
    pub ratio_to_find: Option<f64>,
    /// The least such ratio of a round.
    pub ratio_to_find_min: Option<f64>,
    /// The greatest such ratio of a round.
    pub ratio_to_find_max: Option<f64>,
    /// Bytes of a value.
    pub value_bytes: u64,
    /// What an acknowledged write survives: `none`, `process-crash` or `power-fail`.
    pub durability: String,
    /// How often threads met, in all rounds together.
    #[serde(flatten)]
    pub contention: Contention,
}

/// Measures engines in turn: in each round every engine once, on a fresh index, beginning with
/// another one each time. A round has its own seed, the same for all engines. Only throughput is
/// measured.
///
/// # Errors
/// As [`run_micro`](crate::run_micro); options are looked through for all engines before any work
/// is done.
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
    if options.engines.is_empty() {
        return Err(BenchError::NothingToCompare);
    }
    within("rounds", options.rounds.into(), 1, MOST_ROUNDS)?;
    let session = |engine: &String, round: u32| {
        let seed = options.micro.seed.wrapping_add(round.into());
        let of_engine = |engine: &str| MicroOptions {
            engine: engine.to_owned(),
            seed,
            ..options.micro.clone()
        };
        let (engine, sharing) = Sharing::of_name(engine);
        Session::with(&of_engine(engine), sharing)
    };
    let (mut operations, mut about) = (0, Vec::new());
    for engine in &options.engines {
        let session = session(engine, 0)?;
        operations += session.operations() * u64::from(options.rounds);
        let (value_bytes, durability) = (session.plan.value_bytes() as u64, session.durability()?);
        about.push(About { value_bytes, durability, contention: Vec::new() });
    }
    let mut steps = Steps::new(progress, operations);
    let engines = options.engines.len();
    let mut rates = Rates(vec![vec![Vec::new(); options.micro.phases.len()]; engines]);
    for round in 0..options.rounds {
        for turn in 0..engines {
            let engine = (turn + round as usize) % engines;
            let timed = session(&options.engines[engine], round)?.timed(&mut steps)?;
            for (place, timed) in timed.into_iter().enumerate() {
                let times =
                    Sharing::of_name(&options.engines[engine]).1.times(options.micro.threads);
                let operations =
                    options.micro.operations(options.micro.phases[place]) * u64::from(times);
                rates.0[engine][place].push(operations as f64 / timed.seconds);
                let contention = &mut about[engine].contention;
                match contention.get_mut(place) {
                    Some(sum) => *sum = sum.and(timed.contention),
                    None => contention.push(timed.contention),
                }
            }
        }
    }
    Ok(rates.compare(options, &about))
}

/// What is told of an engine besides its rates.
struct About {
    value_bytes: u64,
    durability: Durability,
    /// Of each phase.
    contention: Vec<Contention>,
}

/// Operations a second by engine, phase and round.
struct Rates(Vec<Vec<Vec<f64>>>);

impl Rates {
    fn compare(&self, options: &CompareOptions, about: &[About]) -> Vec<Comparison> {
        let phases = &options.micro.phases;
        let find = phases.iter().position(|phase| *phase == Phase::Find);
        let row = |(place, phase): (usize, &Phase), engine: usize| {
            let own = &self.0[engine][place];
            let rates = Spread::of(own);
            let ratio = Spread::of_ratios(own, &self.0[0][place]);
            let to_find = find
                .filter(|_| *phase == Phase::Multiget)
                .map(|find| Spread::of_ratios(own, &self.0[0][find]));
            Comparison {
                engine: options.engines[engine].clone(),
                phase: *phase,
                keys: options.micro.operations(*phase),
                threads: options.micro.threads,
                rounds: options.rounds,
                median_ops_per_second: rates.middle,
                min_ops_per_second: rates.min,
                max_ops_per_second: rates.max,
                ratio: ratio.middle,
                ratio_min: ratio.min,
                ratio_max: ratio.max,
                ratio_to_find: to_find.map(|ratio| ratio.middle),
                ratio_to_find_min: to_find.map(|ratio| ratio.min),
                ratio_to_find_max: to_find.map(|ratio| ratio.max),
                value_bytes: about[engine].value_bytes,
                durability: about[engine].durability.to_string(),
                contention: about[engine].contention.get(place).copied().unwrap_or_default(),
            }
        };
        phases
            .iter()
            .enumerate()
            .flat_map(|phase| (0..self.0.len()).map(move |engine| row(phase, engine)))
            .collect()
    }
}

/// A typical value and the extremes of some rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub middle: f64,
    pub min: f64,
    pub max: f64,
}

impl Spread {
    /// Median and extremes.
    pub fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let half = sorted.len() / 2;
        let middle = if sorted.len() % 2 == 1 {
            sorted[half]
        } else {
            (sorted[half - 1] + sorted[half]) / 2.0
        };
        Self { middle, min: sorted[0], max: sorted[sorted.len() - 1] }
    }

    /// The ratio of the medians, and the extremes of the ratios of each round.
    fn of_ratios(values: &[f64], references: &[f64]) -> Self {
        let ratios: Vec<f64> =
            values.iter().zip(references).map(|(value, reference)| value / reference).collect();
        Self { middle: Self::of(values).middle / Self::of(references).middle, ..Self::of(&ratios) }
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
            "(min to max)",
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
            format!("({:.2} to {:.2})", self.ratio_min, self.ratio_max),
            to_find,
            self.contention.columns(self.keys * u64::from(self.rounds))
        )
    }
}

#[cfg(test)]
mod tests {
    use everleaf::Engine;

    use super::*;
    use crate::measure::Unobserved;
    use crate::session::AfterPhase;

    fn options(phases: &[Phase]) -> CompareOptions {
        let micro = MicroOptions { keys: 300, phases: phases.to_vec(), ..Default::default() };
        CompareOptions { engines: vec!["btreemap".into(), "btreemap".into()], rounds: 3, micro }
    }

    #[test]
    fn medians_and_ratios_are_those_of_the_rounds() {
        let options = options(&[Phase::Find, Phase::Multiget]);
        let first = vec![vec![10.0, 30.0, 20.0], vec![10.0, 30.0, 40.0]];
        let second = vec![vec![20.0, 30.0, 70.0], vec![40.0, 60.0, 60.0]];
        let about = [Durability::None, Durability::ProcessCrash].map(|durability| About {
            value_bytes: 8,
            durability,
            contention: Vec::new(),
        });
        let rows = Rates(vec![first, second]).compare(&options, &about);
        assert_eq!(
            rows.iter().map(|row| row.phase).collect::<Vec<_>>(),
            [Phase::Find, Phase::Find, Phase::Multiget, Phase::Multiget]
        );
        let find = &rows[1];
        assert_eq!(
            (find.median_ops_per_second, find.min_ops_per_second, find.max_ops_per_second),
            (30.0, 20.0, 70.0)
        );
        assert_eq!(
            (find.ratio, find.ratio_min, find.ratio_max, find.ratio_to_find),
            (1.5, 1.0, 3.5, None)
        );
        let multiget = &rows[3];
        assert_eq!((multiget.ratio, multiget.ratio_min, multiget.ratio_max), (2.0, 1.5, 4.0));
        let to_find =
            (multiget.ratio_to_find, multiget.ratio_to_find_min, multiget.ratio_to_find_max);
        assert_eq!(to_find, (Some(3.0), Some(2.0), Some(4.0)));
        assert_eq!((rows[0].ratio, rows[2].ratio_to_find), (1.0, Some(1.5)));
    }

    #[test]
    fn an_even_number_of_rounds_has_a_median_between_two() {
        assert_eq!(Spread::of(&[4.0, 1.0, 2.0, 10.0]), Spread { middle: 3.0, min: 1.0, max: 10.0 });
        assert_eq!(Spread::of(&[5.0]), Spread { middle: 5.0, min: 5.0, max: 5.0 });
    }

    #[test]
    fn copies_do_all_operations_on_all_keys() {
        let micro = MicroOptions {
            threads: 3,
            keys: 301,
            warm: 11,
            ..options(&[Phase::Insert, Phase::Delete]).micro
        };
        let session =
            Session::with(&MicroOptions { engine: "fptree".into(), ..micro }, Sharing::Copies)
                .unwrap();
        assert_eq!(session.operations(), 3 * (11 + 2 * 301), "no part, which must be a multiple");
        // Of these targets alone: whoever can drive every kind of them takes minutes to compile
        // (see `tests/compare.rs`).
        let media = || session.hardware(session.region().unwrap()).unwrap();
        let mut indexes =
            [(); 3].map(|()| session.index::<u64, _>(Engine::FpTree, media()).unwrap().1);
        let (mut keys_after, mut tell) = (Vec::new(), |_| {});
        let after: &mut AfterPhase<'_, _> = &mut |_, measured, targets| {
            keys_after.push(targets.timed(measured.elapsed).keys_after);
            Ok(())
        };
        let steps = &mut Steps::new(&mut tell, 0);
        session.drive(steps, "copies", &mut indexes, &Unobserved, &mut || {}, after).unwrap();
        assert_eq!(keys_after, [3 * 312, 3 * 11]);
    }
}
