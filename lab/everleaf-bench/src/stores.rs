//! `bench stores`: the store beside its peers. The same keys, the same medium, each with the
//! settings by which a write survives the death of the process, and these beside its numbers.

use std::path::Path;
use std::time::Instant;

use serde::Serialize;

use crate::compare::{Comparison, run_compare_with_progress};
use crate::key::{BenchKey, String16};
use crate::options::{Acknowledged, BenchKeyType, CompareOptions, MicroOptions};
use crate::plan::{MAX_ROUNDS, within};
use crate::raw_log::{Awake, appends_per_second};
use crate::session::{Driver, Session};
use crate::target::{Operations, Target};
use crate::{BenchError, Phase, Progress, Subject};

/// How many inserted keys there are to a scan, which visits a hundred records.
const KEYS_PER_SCAN: u64 = 20;

/// What `bench stores` measures.
#[derive(Clone, Debug, PartialEq)]
pub struct StoresOptions {
    /// Names of stores; the first is what the others are compared with.
    pub engines: Vec<String>,
    /// Numbers of threads, one after the other.
    pub threads: Vec<u32>,
    /// How often each is measured.
    pub rounds: u32,
    /// How many keys, of which kind, and bytes of a value; where. Threads and phases do not apply.
    pub micro: MicroOptions,
}

impl Default for StoresOptions {
    /// A million random keys of 16 bytes with values of 100.
    fn default() -> Self {
        let micro = MicroOptions {
            key_type: BenchKeyType::String16,
            value_bytes: Some(100),
            ..MicroOptions::default()
        };
        Self {
            engines: ["lmdb", "redb", "fjall", "store"].map(String::from).into(),
            threads: vec![1, 2],
            rounds: 3,
            micro,
        }
    }
}

/// What `bench stores` prints for a phase of a store. Serialised, it is one JSON object whose keys
/// are those of [`Comparison`] and these.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StoresRow {
    /// Throughput.
    #[serde(flatten)]
    pub measured: Comparison,
    /// Its median to the greatest of the others, if there are others.
    pub to_best_other: Option<f64>,
    /// What all of them lie on.
    pub medium: String,
    /// How it is run, and what makes a write survive.
    pub settings: String,
    /// What a write waits for: `immediate`, `buffered` or `process`.
    pub acknowledged: &'static str,
    /// Keys that are put together.
    pub batch: u32,
    /// Appends and syncs a second of a loop that does nothing else, before and after, where writes
    /// wait for a disk.
    pub raw_appends_per_second: Option<f64>,
}

/// Puts, gets, replaces and scans of all stores in turn, with each number of threads.
///
/// # Errors
/// As [`run_compare`](crate::run_compare); what is wrong with the options is said before any work
/// is done.
///
/// # Examples
/// ```
/// use everleaf_bench::{MicroOptions, StoresOptions, run_stores_with_progress};
///
/// let usual = StoresOptions::default();
/// let micro = MicroOptions { keys: 1000, ..usual.micro.clone() };
/// let engines = vec!["skipmap".into(), "store".into()];
/// let options = StoresOptions { engines, threads: vec![2], rounds: 1, micro };
/// let rows = run_stores_with_progress(&options, &mut |_| {})?;
/// assert_eq!(rows[1].measured.durability, "process-crash");
/// # Ok::<(), everleaf_bench::BenchError>(())
/// ```
pub fn run_stores_with_progress(
    options: &StoresOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<StoresRow>, BenchError> {
    if options.threads.is_empty() {
        return Err(BenchError::NothingToCompare);
    }
    within("rounds", options.rounds.into(), 1, MAX_ROUNDS)?;
    let of_threads = |threads: u32| {
        let scans = options.micro.scans.unwrap_or((options.micro.keys / KEYS_PER_SCAN).max(1));
        let phases = vec![Phase::Insert, Phase::Find, Phase::Update, Phase::Scan];
        let micro = MicroOptions { threads, phases, scans: Some(scans), ..options.micro.clone() };
        let (engines, rounds) = (options.engines.clone(), options.rounds);
        CompareOptions { engines, rounds, turn: None, micro }
    };
    let (mut subjects, mut medium) = (Vec::new(), String::new());
    for engine in &options.engines {
        for threads in &options.threads {
            let session = Session::shared(&MicroOptions {
                engine: engine.clone(),
                ..of_threads(*threads).micro
            })?;
            medium = session.medium()?.to_string();
        }
        subjects.push(engine.parse::<Subject>()?);
    }
    let waits = options.micro.acknowledged != Acknowledged::Process;
    let _awake = waits.then(Awake::start);
    let mut rows = Vec::new();
    for (turn, threads) in options.threads.iter().enumerate() {
        let turns = options.threads.len() as u64;
        let before = raw(&options.micro)?;
        let compared = run_compare_with_progress(&of_threads(*threads), &mut |at| {
            progress(Progress {
                done: at.done + at.total * turn as u64,
                total: at.total * turns,
                doing: at.doing,
            });
        })?;
        let raw = before.zip(raw(&options.micro)?).map(|(before, after)| (before + after) / 2.0);
        for of_phase in compared.chunks(subjects.len()) {
            let median = |place: usize| of_phase[place].median_ops_per_second;
            for (place, (measured, subject)) in of_phase.iter().zip(&subjects).enumerate() {
                let best = (0..subjects.len())
                    .filter(|other| *other != place)
                    .map(median)
                    .reduce(f64::max);
                rows.push(StoresRow {
                    measured: measured.clone(),
                    to_best_other: best.map(|best| median(place) / best),
                    medium: medium.clone(),
                    settings: subject.settings(options.micro.acknowledged).into(),
                    acknowledged: options.micro.acknowledged.name(),
                    batch: options.micro.batch,
                    raw_appends_per_second: raw,
                });
            }
        }
    }
    Ok(rows)
}

/// How long a store takes to open that another process has left behind. Serialised, it is one JSON
/// object with these keys.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reopened {
    /// Which store.
    pub engine: String,
    /// Milliseconds until the first record was visited.
    pub open_ms: f64,
    /// The keys that are there.
    pub keys: u64,
}

/// Opens what a process of `bench stores` has left in `folder`, one that was killed.
///
/// # Errors
/// What the store says; [`BenchError::NotAStore`] of what has no files of its own.
pub fn reopen_store(micro: &MicroOptions, folder: &Path) -> Result<Reopened, BenchError> {
    let mut reopened = Reopened { engine: micro.engine.clone(), open_ms: 0.0, keys: 0 };
    folder.metadata().map_err(|source| BenchError::Io {
        action: "looking at",
        path: folder.into(),
        source,
    })?;
    let session = Session::shared(micro)?;
    session.with_left(folder, Opening { begun: Instant::now(), reopened: &mut reopened })?;
    Ok(reopened)
}

struct Opening<'r> {
    begun: Instant,
    reopened: &'r mut Reopened,
}

impl Driver<String16> for Opening<'_> {
    const ARRAYS: bool = false;

    fn drive<T: Target<String16>>(self, mut targets: Vec<T>) -> Result<(), BenchError> {
        for target in &mut targets {
            for mut handle in target.handles(1) {
                handle.scan(&String16::of(0), 1).map_err(Into::into)?;
            }
            self.reopened.open_ms = self.begun.elapsed().as_secs_f64() * 1e3;
            self.reopened.keys = target.len();
        }
        Ok(())
    }
}

/// What the disk can do, where writes wait for it.
fn raw(micro: &MicroOptions) -> Result<Option<f64>, BenchError> {
    if micro.acknowledged != Acknowledged::Immediate {
        return Ok(None);
    }
    let micro = MicroOptions { engine: "store".into(), ..micro.clone() };
    let folder = Session::shared(&micro)?.folder()?;
    appends_per_second(folder.path()).map(Some)
}

impl StoresRow {
    /// The heading of the table for people, whose rows [`table_row`](Self::table_row) gives.
    pub fn table_heading() -> String {
        format!(
            "threads {} {:>10} {:>7} {:>9} {:>9} {:>9} {:>9} {:<12} settings",
            Comparison::table_heading(),
            "best other",
            "to raw",
            "syncs/op",
            "log B/op",
            "zero B/op",
            "file B/op",
            "medium"
        )
    }

    /// One row of the table for people.
    pub fn table_row(&self) -> String {
        let best = self.to_best_other.map_or("-".into(), |ratio| format!("{ratio:.2}"));
        let Self { measured, medium, settings, .. } = self;
        let to_raw = self.raw_appends_per_second.map(|raw| measured.median_ops_per_second / raw);
        let to_raw = to_raw.map_or("-".into(), |ratio| format!("{ratio:.2}"));
        let log =
            measured.log.map_or(format!("{:>9} {:>9} {:>9} {:>9}", "-", "-", "-", "-"), |of| {
                format!(
                    "{:>9.4} {:>9.0} {:>9.0} {:>9.0}",
                    of.syncs, of.log_bytes, of.zero_bytes, of.base_bytes
                )
            });
        format!(
            "{:>7} {} {best:>10} {to_raw:>7} {log} {medium:<12} {settings}",
            measured.threads,
            measured.table_row()
        )
    }
}
