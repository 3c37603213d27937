//! FPTree's Figure 12: what a columnar database loses by the tree that its dictionaries are indexed
//! by, and how long it takes to restart.

use std::time::Instant;

use everleaf::Engine;
use everleaf_crash::Instrumented;
use everleaf_pmem::Mapped;

use super::axis::Axis;
use super::{Claim, Drawing, FigureOptions, Form, Panel, Series};
use crate::columns::{Database, Layout, Query};
use crate::compare::Spread;
use crate::keys::Draws;
use crate::recovery::{PoolFile, reopen};
use crate::session::{Session, stx_sizes};
use crate::target::{Operations, StxTarget, Target};
use crate::{BenchError, MicroOptions, Order, Phase, Subject};

/// Latencies of persistent memory.
const LATENCIES: [u64; 2] = [160, 650];
/// What the paper prints of a tree: percent of the STXTree's throughput that is lost at both
/// latencies, and how many times faster it restarts.
type Printed = (&'static str, [f64; 2], Option<[f64; 2]>);
const PAPER: [Printed; 4] = [
    ("fptree", [8.74, 12.80], Some([40.17, 21.56])),
    ("ptree", [16.98, 16.89], Some([26.05, 8.32])),
    ("nvtree", [39.61, 51.77], Some([21.42, 9.58])),
    ("wbtree-bitmap", [24.27, 48.23], None),
];
/// The index of a dictionary has about so many entries for each subscriber.
const ENTRIES: u64 = 20;
const QUERIES_OF_EACH: u64 = 10;

/// What is run: a tree at a latency.
struct Run {
    engine: &'static str,
    latency: usize,
    session: Session,
    queries_per_second: Vec<f64>,
    restart_ms: Vec<f64>,
}

/// One of its numbers, of each round.
type Numbers = fn(&Run) -> &[f64];

/// Throughput, and the time of a restart.
struct Measured {
    queries_per_second: f64,
    restart_ms: f64,
}

fn session(
    engine: &str,
    latency: u64,
    layout: &Layout,
    options: &FigureOptions,
) -> Result<Session, BenchError> {
    let mut micro = MicroOptions {
        keys: layout.entries,
        order: Order::Ascending,
        ..options.micro(engine, &[Phase::Insert])
    };
    if engine == "nvtree" {
        // The paper's: subscribers are numbered in sequence, which splits its leaves too often.
        (micro.leaf_slots, micro.inner_keys) = (Some(1024), Some(8));
    }
    Axis::Latency(&[]).apply(latency, &mut micro);
    Session::shared(&micro)?.with_room_for(layout.bytes())
}

fn queries(subscribers: u64, seed: u64) -> Vec<Query> {
    let mut draws = Draws::new(seed);
    let queries = 0..subscribers * QUERIES_OF_EACH;
    queries.map(|_| Query::drawn(&mut draws, subscribers)).collect()
}

impl Session {
    /// An index as a killed process left it, with all dictionaries, opened again; the restart ends
    /// with it.
    fn restart(
        &self,
        engine: Engine,
        database: &Database<Instrumented>,
        queries: &[Query],
    ) -> Result<Measured, BenchError> {
        let region = self.region()?;
        let file = PoolFile::of(&region)?;
        let (pool, mut index) = self.index::<u64, Mapped>(engine, self.hardware(region)?)?;
        index.handles(1).iter_mut().try_for_each(|index| database.load(index))?;
        drop((index, pool));
        database.cool();
        let start = Instant::now();
        self.sound(database)?;
        let mut index = reopen::<u64>(self, &file, 1)?.target;
        self.ask(database, &mut index, queries, start)
    }

    /// A tree in memory, made again from the columns.
    fn rebuild(
        &self,
        database: &Database<Instrumented>,
        queries: &[Query],
    ) -> Result<Measured, BenchError> {
        let sizes = stx_sizes(self.plan.options.key_type, &Default::default())?;
        let empty = || StxTarget::<u64, [u64; 1]>::with_sizes(sizes, 8);
        empty().handles(1).iter_mut().try_for_each(|index| database.load(index))?;
        database.cool();
        let start = Instant::now();
        self.sound(database)?;
        let mut index = empty();
        index.handles(1).iter_mut().try_for_each(|index| database.rebuild(index))?;
        self.ask(database, &mut index, queries, start)
    }

    fn sound(&self, database: &Database<Instrumented>) -> Result<(), BenchError> {
        let (engine, phase) = (self.plan.subject, Phase::Insert);
        if database.is_sound() { Ok(()) } else { Err(BenchError::WrongValues { engine, phase }) }
    }

    /// Ends the restart, and asks the queries.
    fn ask<T: Target<u64>>(
        &self,
        database: &Database<Instrumented>,
        index: &mut T,
        queries: &[Query],
        start: Instant,
    ) -> Result<Measured, BenchError> {
        let restart_ms = start.elapsed().as_secs_f64() * 1e3;
        let wrong = BenchError::WrongValues { engine: self.plan.subject, phase: Phase::Find };
        let mut handles = index.handles(1);
        let Some(index) = handles.first_mut() else { return Err(wrong) };
        let start = Instant::now();
        let sum = sum_of(database, index, queries).map_err(Into::into)?;
        let queries_per_second = queries.len() as f64 / start.elapsed().as_secs_f64().max(1e-9);
        let expected = queries.iter().fold(0u64, |sum, query| sum.wrapping_add(query.expected()));
        if sum != expected || !database.check(index)? {
            return Err(wrong);
        }
        Ok(Measured { queries_per_second, restart_ms })
    }
}

/// The loop that is timed.
fn sum_of<O: Operations<u64>>(
    database: &Database<Instrumented>,
    index: &mut O,
    queries: &[Query],
) -> Result<u64, O::Failure> {
    let mut sum = 0u64;
    for query in queries {
        sum = sum.wrapping_add(database.ask(index, *query)?);
    }
    Ok(sum)
}

impl Run {
    fn measure(
        &mut self,
        layout: &Layout,
        queries: &[Query],
        drawing: &mut Drawing<'_, '_>,
    ) -> Result<(), BenchError> {
        let session = &self.session;
        drawing.steps.begin(session.plan.subject, "restart and queries");
        let hardware = session.hardware(session.region_of(layout.bytes())?)?;
        let media = Instrumented::delaying(hardware, session.added().unwrap_or_default());
        let database = Database::new(media, layout.clone());
        let measured = match session.plan.subject {
            Subject::Index(engine) => session.restart(engine, &database, queries)?,
            _ => session.rebuild(&database, queries)?,
        };
        self.queries_per_second.push(measured.queries_per_second);
        self.restart_ms.push(measured.restart_ms);
        drawing.steps.end(session.operations());
        Ok(())
    }
}

/// Measures all trees at both latencies, in rounds that take turns.
pub fn fptree_12(options: &FigureOptions, drawing: &mut Drawing<'_, '_>) -> Result<(), BenchError> {
    let subscribers = (options.keys / ENTRIES).max(1);
    let trees: Vec<&str> = ["stx"].into_iter().chain(PAPER.map(|(engine, ..)| engine)).collect();
    let of = if drawing.only_planned { Layout::estimate } else { Layout::new };
    let layout = of(subscribers);
    let mut runs = Vec::new();
    for engine in drawing.available(&trees) {
        for (latency, ns) in LATENCIES.into_iter().enumerate() {
            let session = session(engine, ns, &layout, options)?;
            let (queries_per_second, restart_ms) = (Vec::new(), Vec::new());
            runs.push(Run { engine, latency, session, queries_per_second, restart_ms });
        }
    }
    if drawing.only_planned {
        return Ok(());
    }
    let operations: u64 = runs.iter().map(|run| run.session.operations()).sum();
    drawing.steps.extend(operations * u64::from(options.rounds));
    for round in 0..options.rounds {
        let queries = queries(subscribers, options.seed.wrapping_add(round.into()));
        for run in &mut runs {
            run.measure(&layout, &queries, drawing)?;
        }
    }
    let of = |engine: &str, latency: usize, numbers: Numbers| {
        let run = runs.iter().find(|run| run.engine == engine && run.latency == latency)?;
        Some(Spread::of(numbers(run)).middle)
    };
    panels(&runs, drawing);
    for (engine, lost, faster) in PAPER {
        for (latency, ns) in LATENCIES.into_iter().enumerate() {
            let mut claim = |what: String, form: Form, paper: f64, ours: Option<[f64; 2]>| {
                let ours = ours.map(|[above, below]| form.of(above, below));
                drawing.figure.claims.push(Claim { what, paper, paper_to: None, ours });
            };
            let both = |[above, below]: [&str; 2], numbers: Numbers| {
                Some([of(above, latency, numbers)?, of(below, latency, numbers)?])
            };
            let ours = both([engine, "stx"], |run| &run.queries_per_second);
            let form = Form::PercentLess;
            let what = format!("throughput at {ns} ns: {}", form.phrase(engine, "stx"));
            claim(what, form, lost[latency], ours);
            if let Some(faster) = faster {
                let ours = both(["stx", engine], |run| &run.restart_ms);
                let what = format!("restart at {ns} ns: {}", Form::Times.phrase("stx", engine));
                claim(what, Form::Times, faster[latency], ours);
            }
        }
    }
    Ok(())
}

fn panels(runs: &[Run], drawing: &mut Drawing<'_, '_>) {
    for (title, y_label, numbers) in [
        ("TATP's read-only queries", "queries/s", (|run| &run.queries_per_second) as Numbers),
        ("restart of the database", "ms", |run| &run.restart_ms),
    ] {
        let mut series: Vec<Series> = Vec::new();
        for run in runs {
            let point = [run.latency as f64, Spread::of(numbers(run)).middle];
            Series::add(&mut series, run.engine, point);
        }
        let bars =
            Panel::bars(title, y_label, LATENCIES.map(|ns| format!("{ns} ns")).into(), series);
        let x_label = "latency of persistent memory".into();
        drawing.figure.panels.push(Panel { x_label, ..bars });
    }
}
