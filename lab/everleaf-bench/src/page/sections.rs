//! What a report measures.

use everleaf::Engine;
use everleaf_engines::pools;

use super::cells::{by_engine_and, strings};
use super::engines::{by_size, indexes, of_indexes, of_size, of_threads, sizes, threads};
use super::restart::{of_restart, restart};
use super::run::{Outcome, Run};
use super::stores::{of_stores, of_ycsb, stores, stores_by_name, ycsb};
use super::verdict::sentence;
use super::{Group, ReportOptions, Scale, Section, Table};
use crate::compare::plan_compare;
use crate::figure::{self, FigureOptions, LeftOut, figure_list, number, run_figure_with_progress};
use crate::model::{Latency, ModelOptions, ModelRow, run_model_with_progress};
use crate::recovery::plan_recovery;
use crate::session::Session;
use crate::ycsb::Workload;
use crate::{BenchError, MicroOptions, Phase};

/// Measures one section.
pub type Job = Box<dyn Fn(&mut Run<'_, '_>) -> Outcome>;

/// The first sections are of engines, as many.
pub const OF_ENGINES: usize = 4;

/// Figures that take long in a quick report, and say little at its sizes.
const SLOW: &[&str] = &["fptree-7"];

/// All sections. What is wrong with them (no room above all) is found before any is measured.
pub fn jobs(options: &ReportOptions, scale: Scale) -> Result<Vec<Job>, BenchError> {
    let sized = sizes(scale).map(|keys| of_size(options, keys));
    let others =
        [of_indexes(options, scale), of_threads(options, scale), of_stores(options, scale)];
    for comparison in sized.iter().chain(&others) {
        plan_compare(comparison)?;
    }
    for engine in pools().map(Engine::of) {
        plan_recovery(&of_restart(engine, options, scale))?;
    }
    for (engine, workload) in
        stores_by_name().iter().flat_map(|engine| Workload::ALL.map(|workload| (engine, workload)))
    {
        Session::of_plan(of_ycsb(options, scale, workload).plan(engine, 0)?)?;
    }
    // The first looks at the heap, which has no holes yet.
    let mut jobs: Vec<Job> = vec![
        Box::new(restart),
        Box::new(indexes),
        Box::new(by_size),
        Box::new(threads),
        Box::new(stores),
        Box::new(ycsb),
        Box::new(model),
    ];
    for (name, title) in figure_list() {
        let of_figure = of_figure(name, options, scale);
        if options.quick && SLOW.contains(&name) {
            jobs.push(Box::new(move |_| Ok(too_slow(name, title))));
            continue;
        }
        figure::check(&of_figure)?;
        jobs.push(Box::new(move |run| figure_section(&of_figure, run)));
    }
    Ok(jobs)
}

fn of_figure(name: &str, options: &ReportOptions, scale: Scale) -> FigureOptions {
    let (keys, rounds) = (scale.figure_keys, scale.rounds);
    FigureOptions {
        name: name.into(),
        keys,
        rounds,
        seed: options.seed,
        pool: options.pool.clone(),
        program: options.program.clone(),
    }
}

fn model(run: &mut Run<'_, '_>) -> Outcome {
    let latencies: Vec<Latency> = [90, 160, 250, 450, 650, 2000].map(Latency::of).to_vec();
    let phases = vec![Phase::Insert, Phase::Find, Phase::Update, Phase::Scan, Phase::Delete];
    let indexes = pools().map(Engine::of).map(|engine| engine.name().to_owned());
    let engines: Vec<String> = indexes.chain(["store".to_owned()]).collect();
    let micro = MicroOptions { phases, ..run.options.micro(run.scale.index_keys) };
    let model = ModelOptions { engines, latencies, rounds: 0, micro };
    let rows = run_model_with_progress(&model, &mut |at| run.steps.pass_on(at))?;
    let command = format!(
        "everleaf-lab bench model --engines {} --keys {} --phases insert,find,update,scan,delete \
        --seed {}",
        model.engines.join(","),
        run.scale.index_keys,
        run.options.seed
    );
    let text = [
        "For each operation, counted, the allocator's part included: the same seed gives the same \
        numbers on every machine. The last columns are the time that misses and flushes of such a \
        latency add to DRAM.",
    ];
    let each = |total: u64, row: &ModelRow| format!("{:.2}", row.each(total));
    let table = |caption: &str, cell: &dyn Fn(&ModelRow) -> String| {
        by_engine_and(&rows, caption, |row| (row.engine.clone(), row.phase.to_string()), cell)
    };
    Ok(Section {
        group: Group::Costs,
        title: "Each operation".into(),
        text: strings(&text),
        command,
        tables: vec![
            table("Flushes and fences", &|row| {
                format!("{} + {}", each(row.flushes, row), each(row.fences, row))
            }),
            everything_counted(&rows, &model.latencies),
        ],
        ..Section::default()
    })
}

fn everything_counted(rows: &[ModelRow], latencies: &[Latency]) -> Table {
    let mut table = vec![strings(&[
        "engine",
        "phase",
        "lines read",
        "misses",
        "lines written",
        "flushes",
        "fences",
        "allocations",
    ])];
    table[0].extend(latencies.iter().map(|latency| format!("ns at {}", latency.read_ns)));
    for row in rows {
        let each = |total: u64| format!("{:.3}", row.each(total));
        let mut cells = vec![row.engine.clone(), row.phase.to_string()];
        let totals = [
            row.pm_lines_read,
            row.pm_line_misses,
            row.lines_written,
            row.flushes,
            row.fences,
            row.allocations,
        ];
        cells.extend(totals.map(each));
        cells.extend(row.costs.iter().map(|cost| number(cost.modelled_ns)));
        table.push(cells);
    }
    Table { caption: "Everything that is counted".into(), rows: table }
}

/// A figure that a quick report has no time for.
fn too_slow(name: &str, title: &str) -> Section {
    let reason = "takes long, and says little at the sizes of a quick report; `everleaf-lab bench \
        figure NAME` measures it";
    Section {
        group: Group::Papers,
        title: format!("{name}: {title}"),
        left_out: vec![LeftOut { engine: String::new(), reason: reason.into() }],
        ..Section::default()
    }
}

fn figure_section(of: &FigureOptions, run: &mut Run<'_, '_>) -> Outcome {
    let figure = run_figure_with_progress(of, &mut |at| run.steps.pass_on(at))?;
    let notes: Vec<String> = figure.notes.iter().map(|note| sentence(note)).collect();
    let text =
        [figure.source, notes.join(" ")].into_iter().filter(|text| !text.is_empty()).collect();
    let mut panels = figure.panels;
    panels.retain(|panel| panel.series.iter().any(|series| !series.points.is_empty()));
    Ok(Section {
        group: Group::Papers,
        title: format!("{}: {}", figure.name, figure.title),
        text,
        command: figure.command,
        panels,
        claims: figure.claims,
        left_out: figure.left_out,
        ..Section::default()
    })
}
