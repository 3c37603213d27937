//! `explore`: every state that a crash can leave.

mod disk;
mod suite;

use std::collections::BTreeMap;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

use everleaf::internal::InjectedAborts;
use everleaf::{Contract, Engine};
use everleaf_crash::{
    Assumptions, ExploreError, Interleaving, Options, Progress, Report, Subject,
    explore_interleaving, explore_threads_with, explore_with,
};
use everleaf_testkit::{ConcurrentEngineSubject, EngineSubject, Level, Scenario, ScriptKeys};
use serde::Serialize;

use crate::names::OneEngine;
use crate::parameters::EngineParameters;
use everleaf_cli::arguments::Keys;
use everleaf_cli::failure::{Failure, Outcome, complain};
use everleaf_cli::progress::steps_bar;
use everleaf_cli::rtm::Rtm;

/// Bytes of the pool that is explored, and that it can grow to: small, so that images are, and with
/// room to grow in.
const POOL_BYTES: (u64, u64) = (96 << 10, 256 << 10);
/// Images at a crash point: of memory, and of a disk.
const BUDGET: (u64, u64) = (512, 16);
/// Fewer images at a crash point than this tell nothing.
const MIN_BUDGET: u64 = 8;
/// Recoveries that a crash point may cost, for each image of the budget: most have a crash or two
/// inside.
const RECOVERIES_AN_IMAGE: u64 = 16;
/// Recoveries of the whole exploration, for each image of the budget: some seconds of work.
const ALL_RECOVERIES_AN_IMAGE: u64 = 300;
/// Accesses to memory of the whole exploration, for each image of the budget: ten seconds and some
/// of work.
const WORK_AN_IMAGE: u64 = 1_000_000;
/// Recoveries of each mutant, for each image of the budget: what they come to in the directed
/// scenarios counts as well.
const MUTANT_RECOVERIES_AN_IMAGE: u64 = 20;
/// Preemptions that all interleavings with no more of them are explored of.
const PREEMPTIONS: u64 = 2;
/// Interleavings of one step: of a script, whose author has chosen it; of a random program, which
/// has many.
const INTERLEAVINGS: (u64, u64) = (20_000, 100);

/// Explore every state that a power failure can leave of a sequence of operations, and recover from
/// each.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  everleaf-lab explore --engine fptree --ops 200 --seed 1 --json
  everleaf-lab explore --engine fptree --script split.script --mutate
  everleaf-lab explore --engine fptree --suite
  everleaf-lab explore --engine fptree-c --disk --ops 40 --seeds 10

A script has one operation per line: get KEY, insert KEY VALUE, update KEY VALUE, upsert KEY VALUE,
remove KEY, scan, sync, epoch, crash (crash here, recover, go on), reopen, close, open, create (a
new, empty pool over what is there), refused OPERATION (the pool has no room for it), cut SITE
OPERATION (the power fails before this barrier; what follows is explored, the recovery first),
explore (what is above only prepares), thread N OP.. (an operation of thread N: those between two
lines without `thread` run concurrently), # comment.

Of a store alone: take KEY, swap KEY OLD NEW (values, or none), pop first, pop last, delete_range
FROM BELOW, snapshot, put_for KEY VALUE (it does not expire), put_expired KEY VALUE (it has), sweep,
drop_tree TREE (TREE:KEY is a key in a named tree), batch OP; OP; .. (among them fill FROM COUNT
VALUE), move KEY TO, copy KEY TO and claim FROM BELOW KEY VALUE (transactions: a value gets another
key; another key gets the same value; a key is added if none lies from FROM up to BELOW).")]
#[command(group(clap::ArgGroup::new("operations").required(true).args(["script", "ops", "suite"])))]
#[command(group(clap::ArgGroup::new("drawn").args(["seed", "seeds"])))]
pub struct Args {
    #[command(flatten)]
    pub engine: OneEngine,
    /// A script, one operation per line.
    #[arg(long, value_name = "FILE")]
    pub script: Option<PathBuf>,
    /// Draw N operations at random.
    #[arg(
        long,
        value_name = "N",
        requires = "drawn",
        value_parser = clap::value_parser!(u64).range(1..100_000)
    )]
    pub ops: Option<u64>,
    /// Explore everything: directed and random scenarios of all kinds of keys, values and
    /// assumptions, more than a million images; takes minutes. Fails if a barrier is neither
    /// reached nor missed when it is left out, or a path through an operation is not taken.
    #[arg(
        long,
        conflicts_with_all = [
            "seed", "mutate", "budget", "keys", "store", "value_words", "assume", "threads",
            "leaf_slots", "inner_keys", "group_bytes", "log_ranges", "buffers",
        ]
    )]
    pub suite: bool,
    /// Only the directed scenarios of the suite, each briefly: a minute.
    #[arg(long, requires = "suite")]
    pub directed: bool,
    /// Explore whole stores over a log on a simulated disk, whose power fails before each of its
    /// operations: with keys of each kind, in each mode of durability, with one thread and where
    /// the engine has any with three.
    #[arg(
        long,
        requires = "seeds",
        conflicts_with_all = [
            "seed", "script", "suite", "mutate", "store", "value_words", "assume", "threads", "rtm",
            "preemptions", "interleavings", "interleaving", "leaf_slots", "inner_keys",
            "group_bytes", "log_ranges", "buffers",
        ]
    )]
    pub disk: bool,
    /// The seed of all random choices.
    #[arg(long, value_name = "S")]
    pub seed: Option<u64>,
    /// Explore programs of the seeds 1 to N.
    #[arg(
        long,
        value_name = "N",
        requires = "disk",
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    pub seeds: Option<u64>,
    /// Threads whose operations run concurrently (of a script, its lines `thread` say it).
    #[arg(
        long,
        value_name = "T",
        default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..=16)
    )]
    pub threads: u64,
    /// Explore all interleavings of the threads with at most so many preemptions, and some others
    /// [default: 2].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=8))]
    pub preemptions: Option<u64>,
    /// Interleavings of one step; where there are more, a sample is, and the result is not
    /// exhaustive [default: 20000, with --ops 100].
    #[arg(long, value_name = "N")]
    pub interleavings: Option<u64>,
    /// Run this interleaving again, as a counterexample names it, and no other.
    #[arg(long, value_name = "I")]
    pub interleaving: Option<Interleaving>,
    /// Leave out each barrier in turn, and swap what stands before and behind each fence, and see
    /// whether anything breaks; the engine's directed scenarios are asked too.
    #[arg(long)]
    pub mutate: bool,
    /// Images tried at one crash point; where there are more, one of each kind that recovery and
    /// checks can tell apart by what they read; where these are more as well, a sample, and the
    /// result is not exhaustive. The recoveries of a crash point, with those that are cut
    /// themselves, are at most 16 times as many, those of all crash points together 300 times,
    /// and less where recoveries are long: a script of ten operations ends within 20 seconds
    /// [default: 512, with --disk 16].
    #[arg(long, value_name = "IMAGES")]
    pub budget: Option<u64>,
    /// Operations that are run and crashed in behind each recovery [default: 2 of a script, 1 of
    /// programs that are drawn or have threads].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=8))]
    pub follow_up: Option<u64>,
    /// Kind of keys [default: u64 if every key of the script is a number, else bytes].
    #[arg(long, value_name = "KIND")]
    pub keys: Option<Keys>,
    /// Explore the whole store, values in records of their own, instead of the index alone; a
    /// script with batches always does.
    #[arg(long)]
    pub store: bool,
    /// Words of a value of the index, 1 to 14.
    #[arg(
        long,
        value_name = "W",
        default_value_t = 1,
        conflicts_with = "store",
        value_parser = clap::value_parser!(u64).range(1..=14)
    )]
    pub value_words: u64,
    /// Transactions of fptree-c: off, or simulated ones, a third of which abort.
    #[arg(long, value_name = "WHICH", default_value = "off", conflicts_with = "suite")]
    pub rtm: Rtm,
    /// What to assume of the hardware beyond the model.
    #[arg(long, value_name = "WHAT")]
    pub assume: Option<Assume>,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
    /// Parameters of the engine [default: the smallest sizes].
    #[command(flatten)]
    pub parameters: EngineParameters,
}

/// Assumptions about the hardware.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Assume {
    /// The caches survive a power failure.
    Eadr,
    /// The words of one whole-line write survive together or not at all.
    AtomicLine,
}

/// The keys are a contract; what else there is comes behind them.
#[derive(Serialize)]
struct Summary {
    engine: &'static str,
    operations: usize,
    crash_points: u64,
    states: u64,
    recoveries: u64,
    violations: usize,
    sites: usize,
    sites_reached: usize,
    mutants: Option<usize>,
    mutants_killed: Option<usize>,
    redundant_flushes: u64,
    exhaustive: bool,
    redundant_fences: u64,
    /// By site, flushes and fences.
    redundant: BTreeMap<&'static str, u64>,
    images: u64,
    left_out: u64,
    lazily_exhaustive_points: u64,
    sampled_points: u64,
    /// The same by the operation that was cut, counted from 0.
    sampled_in: BTreeMap<usize, u64>,
    /// The same by the path of what was cut; of programs of threads, `threads`.
    sampled_on: BTreeMap<String, u64>,
    interleavings: Option<u64>,
    interleavings_left_out: u64,
    preemption_bound: Option<usize>,
    seed: u64,
    /// Directed scenarios that were asked for what the operations do not miss; 0 if they were not
    /// needed.
    directed_scenarios: usize,
    unreached: Vec<String>,
    survivors: Vec<String>,
    argued: suite::Arguments,
    mutants_by_kind: Option<suite::MutantsByKind>,
    /// How many crashes deep recoveries were cut, each in the recovery from the one before.
    exhaustive_depth: u8,
    /// How many operations behind a recovery were cut, where the exploration is exhaustive.
    exhaustive_follow_up: u64,
}

impl Summary {
    fn new(engine: Engine, report: &Report, follow_up: u64) -> Self {
        Self {
            engine: engine.name(),
            operations: report.operations,
            crash_points: report.crash_points,
            states: report.states,
            recoveries: report.recoveries,
            violations: report.violations.len(),
            sites: report.sites.len(),
            sites_reached: report.sites_reached.len(),
            mutants: report.mutants,
            mutants_killed: report.mutants_killed,
            redundant_flushes: report.redundant_flush_count(),
            exhaustive: report.exhaustive,
            redundant_fences: report.redundant_fence_count(),
            redundant: report.redundant().map(|row| (row.site.name(), row.redundant)).collect(),
            images: report.images,
            left_out: report.left_out,
            lazily_exhaustive_points: report.lazily_exhaustive_points,
            sampled_points: report.sampled_points,
            sampled_in: report.sampled_in.clone(),
            sampled_on: BTreeMap::new(),
            interleavings: report.interleavings,
            interleavings_left_out: report.interleavings_left_out,
            preemption_bound: report.preemption_bound,
            seed: report.seed,
            directed_scenarios: 0,
            unreached: report.unreached.iter().map(ToString::to_string).collect(),
            survivors: report.survivors.iter().map(ToString::to_string).collect(),
            argued: suite::Arguments::new(),
            mutants_by_kind: report.mutants.map(|_| suite::MutantsByKind::of(report)),
            exhaustive_depth: report.exhaustive_depth,
            exhaustive_follow_up: if report.exhaustive { follow_up } else { 0 },
        }
    }
}

/// Explores.
pub fn run(args: Args) -> Outcome {
    let engine = args.engine.get()?;
    if args.threads > 1 && !engine.is_concurrent() {
        return Err(Failure::usage(format!("{engine} is single-threaded; use --threads 1")));
    }
    let budget = args.budget.unwrap_or(if args.disk { BUDGET.1 } else { BUDGET.0 });
    if budget < MIN_BUDGET {
        return Err(Failure::usage(format!(
            "--budget {budget} is too small to say anything; use at least {MIN_BUDGET}"
        )));
    }
    everleaf::internal::registry::pool_format(
        engine,
        everleaf::KeyType::U64,
        &args.parameters.into(),
        1,
    )?;
    if args.suite {
        return suite::run(engine, args.directed, args.json);
    }
    if let Some(seeds) = args.seeds {
        return disk::run(engine, seeds, budget, &args);
    }
    let scenario = scenario(&args)?;
    scenario.check_for(engine).map_err(|e| Failure::usage(e.to_string()))?;
    if scenario.is_of_store() && args.value_words > 1 {
        return Err(Failure::usage(
            "the script is for a store, whose values are records; leave out --value-words",
        ));
    }
    if scenario.has_threads() && args.value_words > 1 {
        return Err(Failure::usage(
            "programs of several threads have values of one word; leave out --value-words",
        ));
    }
    if let Some(option) = for_threads(&args).filter(|_| !scenario.has_threads()) {
        return Err(Failure::usage(format!(
            "{option} is for programs of several threads; leave it out, or write `thread` in the \
            script"
        )));
    }
    let beyond = if args.script.is_some() { INTERLEAVINGS.0 } else { INTERLEAVINGS.1 };
    let assumptions = Assumptions {
        eadr: args.assume == Some(Assume::Eadr),
        atomic_line: args.assume == Some(Assume::AtomicLine),
    };
    let options = Options {
        len: POOL_BYTES.0,
        max_len: POOL_BYTES.1,
        seed: args.seed.unwrap_or(1),
        budget,
        recovery_budget: budget / 16 + 2,
        recoveries: budget.saturating_mul(RECOVERIES_AN_IMAGE),
        all_recoveries: budget.saturating_mul(ALL_RECOVERIES_AN_IMAGE),
        step_recoveries: match engine.contract() {
            Contract::Buffered => budget.saturating_mul(ALL_RECOVERIES_AN_IMAGE),
            _ => u64::MAX,
        },
        work: budget.saturating_mul(WORK_AN_IMAGE),
        mutant_recoveries: budget.saturating_mul(MUTANT_RECOVERIES_AN_IMAGE),
        mutate: args.mutate,
        preemption_bound: args.preemptions.unwrap_or(PREEMPTIONS) as usize,
        interleavings: args.interleavings.unwrap_or(beyond),
        assumptions,
        ..Options::default()
    };
    let usual = if args.script.is_some() && !scenario.has_threads() { 2 } else { 1 };
    let follow_up = args.follow_up.unwrap_or(usual);
    let options = Options { follow_up: follow_up as usize, ..options };
    let subject = subject(&args, engine, scenario)?;
    let path = path_names(&subject, &options);
    let mut report = explore(&args, subject, &options)?;
    let mut argued = suite::set_argued_apart(&mut report);
    let mut directed_scenarios = 0;
    if args.mutate && args.assume.is_none() && report.violations.is_empty() {
        directed_scenarios =
            suite::ask_directed(engine, args.script.is_none(), &mut report, &mut argued)?;
    }
    let mut sampled_on = BTreeMap::new();
    for (at, points) in &report.sampled_in {
        *sampled_on.entry(path(*at)).or_default() += points;
    }
    let summary = Summary::new(engine, &report, follow_up);
    let summary = Summary { directed_scenarios, argued, sampled_on, ..summary };
    show(&summary, args.json)?;
    verdict(&report)
}

/// What the operations of a program are called, by their numbers.
fn path_names(subject: &EngineSubject, options: &Options) -> impl Fn(usize) -> String + use<> {
    let mut paths = Vec::new();
    if !subject.scenario().has_threads() {
        let subject = subject.clone().knowing_paths(options.len, options.max_len);
        paths.extend((0..subject.operation_count()).map(|at| subject.path(at)));
    }
    move |at| match paths.get(at) {
        Some((operation, way)) => format!("{operation}: {way}"),
        None => "threads".to_owned(),
    }
}

/// An option that was given and that only programs of several threads have a use for.
fn for_threads(args: &Args) -> Option<&'static str> {
    let given = [
        ("--preemptions", args.preemptions.is_some()),
        ("--interleavings", args.interleavings.is_some()),
        ("--interleaving", args.interleaving.is_some()),
    ];
    given.iter().find(|(_, given)| *given).map(|(option, _)| *option)
}

fn explore(args: &Args, subject: EngineSubject, options: &Options) -> Result<Report, Failure> {
    let bar = steps_bar(0);
    let mut progress = |progress| {
        let (done, of, what) = match progress {
            Progress::Operations { done, of, states } => (done, of, format!("{states} states")),
            Progress::Interleavings { step, of, run, states } => {
                (step, of, format!("{run} interleavings, {states} states"))
            }
            Progress::Mutants { done, of } => (done, of, "mutants".to_owned()),
            _ => return,
        };
        bar.set_length(of as u64);
        bar.set_position(done as u64);
        bar.set_message(what);
    };
    let report = match &args.interleaving {
        _ if !subject.scenario().has_threads() => explore_with(&subject, options, &mut progress),
        Some(interleaving) => {
            explore_interleaving(&ConcurrentEngineSubject::new(subject), options, interleaving)
        }
        None => {
            explore_threads_with(&ConcurrentEngineSubject::new(subject), options, &mut progress)
        }
    };
    bar.finish_and_clear();
    report.map_err(|e| match e {
        ExploreError::NoSuchInterleaving { .. } if args.interleaving.is_some() => {
            Failure::usage(e.to_string())
        }
        e => Failure::failed(e.to_string()),
    })
}

fn script_keys(args: &Args) -> Option<ScriptKeys> {
    args.keys.map(|keys| match keys {
        Keys::U64 => ScriptKeys::U64,
        Keys::Bytes => ScriptKeys::Bytes,
    })
}

fn scenario(args: &Args) -> Result<Scenario, Failure> {
    let keys = script_keys(args);
    if let Some(path) = &args.script {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|e| match e.kind() {
            ErrorKind::InvalidData => {
                Failure::usage(format!("{} is not text (UTF-8)", path.display()))
            }
            _ => Failure::failed(format!("{} cannot be read: {e}", path.display())),
        })?;
        return Scenario::parse(&text, keys).map_err(|e| Failure::usage(e.to_string()));
    }
    let (keys, seed) = (keys.unwrap_or(ScriptKeys::U64), args.seed.unwrap_or(1));
    let operations = args.ops.unwrap_or(1) as usize;
    Ok(match args.threads {
        1 if args.store => Scenario::random_of_store(keys, operations, seed),
        1 => Scenario::random(keys, operations, seed),
        threads if args.store => {
            Scenario::random_threads_of_store(keys, operations, threads as usize, seed)
        }
        threads => Scenario::random_threads(keys, operations, threads as usize, seed),
    })
}

fn subject(args: &Args, engine: Engine, scenario: Scenario) -> Result<EngineSubject, Failure> {
    let level = if args.store || scenario.is_of_store() { Level::Store } else { Level::Index };
    let given: everleaf::EngineParameters = args.parameters.into();
    engine.check(&given)?;
    let tiny = EngineSubject::tiny_parameters(engine);
    let parameters = everleaf::EngineParameters {
        leaf_slots: given.leaf_slots.or(tiny.leaf_slots),
        inner_keys: given.inner_keys.or(tiny.inner_keys),
        group_bytes: given.group_bytes.or(tiny.group_bytes),
        log_ranges: given.log_ranges,
        buffers: given.buffers,
        ..tiny
    };
    // Sizes that are not on offer are wrong usage, and no failed exploration.
    everleaf::internal::registry::pool_format(
        engine,
        everleaf::KeyType::U64,
        &parameters,
        args.value_words as usize,
    )?;
    let subject = EngineSubject::new(engine, parameters, level, scenario)
        .with_value_words(args.value_words as usize);
    let transactions = args.rtm.with(args.seed.unwrap_or(1), InjectedAborts::OneIn(3))?;
    let whole_lines = args.assume == Some(Assume::AtomicLine);
    Ok(subject.with_transactions(transactions).with_whole_lines(whole_lines))
}

fn show(summary: &Summary, json: bool) -> Outcome {
    let text = if json {
        serde_json::to_string(summary).map_err(|e| Failure::failed(e.to_string()))?
    } else {
        sentence(summary)
    };
    writeln!(std::io::stdout().lock(), "{text}").map_err(|e| Failure::output(&e))
}

fn sentence(summary: &Summary) -> String {
    let Summary {
        engine,
        operations,
        crash_points,
        states,
        recoveries,
        violations,
        left_out,
        sampled_points,
        seed,
        ..
    } = summary;
    let completeness = match (summary.exhaustive, summary.lazily_exhaustive_points) {
        (true, 0) => "every state".to_owned(),
        (true, lazily) => {
            format!("every state, at {lazily} points one of each kind that recovery can tell apart")
        }
        (false, _) if *left_out == 0 => "every state of the orders that were run".to_owned(),
        _ => {
            let left_out = match *left_out {
                u64::MAX => "more than 10^19".to_owned(),
                left_out => left_out.to_string(),
            };
            let paths = summary.sampled_on.iter();
            let paths: Vec<String> =
                paths.map(|(path, points)| format!("{points} in {path}")).collect();
            let paths = paths.join(", ");
            format!(
                "a sample at {sampled_points} of them ({paths}; {left_out} states left out, seed \
                {seed})"
            )
        }
    };
    let orders =
        match (summary.interleavings, summary.preemption_bound, summary.interleavings_left_out) {
            (None, ..) => String::new(),
            (Some(run), Some(bound), 0) => {
                format!("; {run} interleavings, among them all with at most {bound} preemptions")
            }
            (Some(run), _, 0) => format!("; {run} interleavings"),
            (Some(run), _, left_out) => format!("; {run} interleavings, {left_out} left out"),
        };
    let mutants = match (summary.mutants, summary.mutants_killed) {
        (Some(mutants), Some(killed)) => format!("; {killed} of {mutants} mutants noticed"),
        _ => String::new(),
    };
    format!(
        "{engine}: {operations} operations, {crash_points} crash points, {completeness}: {states} \
        states, {recoveries} recoveries, \
         {violations} violations; {} of {} sites reached, {} redundant flushes{mutants}{orders}",
        summary.sites_reached, summary.sites, summary.redundant_flushes
    ) + &named_barriers(&summary.redundant)
}

/// Barriers that had nothing to do, in words.
fn named_barriers(redundant: &BTreeMap<&'static str, u64>) -> String {
    let named: Vec<String> =
        redundant.iter().map(|(site, times)| format!("{site} ({times})")).collect();
    if named.is_empty() {
        String::new()
    } else {
        format!("; nothing to do for {}", named.join(", "))
    }
}

fn verdict(report: &Report) -> Outcome {
    if let Some(violation) = report.violations.first() {
        complain(&violation.to_string());
        return Err(Failure::failed(format!(
            "{} crash states are not recovered from",
            report.violations.len()
        )));
    }
    if !report.survivors.is_empty() {
        let names: Vec<String> = report.survivors.iter().map(ToString::to_string).collect();
        return Err(Failure::failed(format!(
            "nothing breaks in these mutants: {}",
            names.join(", ")
        )));
    }
    Ok(())
}
