//! What a report measures.

use everleaf::Engine;

use super::{ReportOptions, Scale, Section};
use crate::compare::plan_compare;
use crate::figure::{self, FigureOptions, Panel, Series, number, run_figure_with_progress};
use crate::model::{Latency, ModelOptions, run_model_with_progress};
use crate::session::{ProgressTracker, Session};
use crate::ycsb::{Record, Workload, YcsbOptions, YcsbReport, run_ycsb_with_progress};
use crate::{
    BenchError, BenchKeyType, CompareOptions, Comparison, Flush, MicroOptions, Peer, Phase,
    run_compare_with_progress,
};

/// Measures one section.
type Run =
    Box<dyn Fn(&ReportOptions, Scale, &mut ProgressTracker<'_>) -> Result<Section, BenchError>>;

/// A section that is to be measured.
pub struct Job {
    pub run: Run,
}

/// All sections. What is wrong with them (no room above all) is found before any is measured.
pub fn jobs(options: &ReportOptions, scale: Scale) -> Result<Vec<Job>, BenchError> {
    for comparison in [of_indexes(options, scale), of_stores(options, scale)] {
        plan_compare(&comparison)?;
    }
    for (engine, workload) in
        stores_by_name().iter().flat_map(|engine| Workload::ALL.map(|workload| (engine, workload)))
    {
        Session::of_plan(of_ycsb(options, scale, workload).plan(engine, 0)?)?;
    }
    let job = |run: Run| Job { run };
    let mut jobs = vec![
        job(Box::new(indexes)),
        job(Box::new(stores)),
        job(Box::new(ycsb)),
        job(Box::new(model)),
    ];
    for name in figure::figure_names() {
        figure::check(&of_figure(name, options, scale))?;
        jobs.push(job(Box::new(move |options, scale, steps| {
            figure_section(name, options, scale, steps)
        })));
    }
    Ok(jobs)
}

fn base(options: &ReportOptions, keys: u64) -> MicroOptions {
    MicroOptions { keys, seed: options.seed, pool: options.pool.clone(), ..MicroOptions::default() }
}

fn of_indexes(options: &ReportOptions, scale: Scale) -> CompareOptions {
    let maps = Engine::volatile().filter(|engine| engine.is_map());
    let engines = maps.chain(Engine::available()).map(|engine| engine.name().to_owned()).collect();
    let micro = MicroOptions { flush: Flush::Clwb, ..base(options, scale.index_keys) };
    CompareOptions { engines, rounds: scale.rounds, turn: None, micro }
}

/// The stores of this build, ours last.
fn stores_by_name() -> Vec<String> {
    let others = Peer::ALL.into_iter().filter(|peer| peer.is_built() && *peer != Peer::SkipMap);
    others.map(|peer| peer.name().to_owned()).chain(["store".into()]).collect()
}

fn of_stores(options: &ReportOptions, scale: Scale) -> CompareOptions {
    let micro = MicroOptions {
        key_type: BenchKeyType::String16,
        value_bytes: Some(100),
        ..base(options, scale.store_keys)
    };
    let engines =
        stores_by_name().into_iter().chain(["skipmap".into(), "btreemap".into()]).collect();
    CompareOptions { engines, rounds: scale.rounds, turn: None, micro }
}

fn of_ycsb(options: &ReportOptions, scale: Scale, workload: Workload) -> YcsbOptions {
    YcsbOptions {
        engines: stores_by_name(),
        workload,
        distribution: None,
        record: Record::Fields,
        operations: scale.ycsb_keys,
        rounds: scale.rounds,
        micro: base(options, scale.ycsb_keys),
    }
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

fn strings(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|cell| (*cell).to_owned()).collect()
}

/// Comparisons as a table, and as bars by phase.
fn compared(rows: &[Comparison], phases: &[Phase]) -> (Vec<Vec<String>>, Panel) {
    let mut table = vec![strings(&[
        "engine",
        "phase",
        "ops/s (median)",
        "min",
        "max",
        "to the first",
        "(middle half)",
        "a write survives",
    ])];
    let mut series: Vec<Series> = Vec::new();
    for row in rows {
        table.push(vec![
            row.engine.clone(),
            row.phase.to_string(),
            number(row.median_ops_per_second),
            number(row.min_ops_per_second),
            number(row.max_ops_per_second),
            number(row.ratio),
            format!("{} to {}", number(row.ratio_q1), number(row.ratio_q3)),
            row.durability.clone(),
        ]);
        let place = phases.iter().position(|phase| *phase == row.phase).unwrap_or(0) as f64;
        let point = [place, row.median_ops_per_second];
        match series.iter_mut().find(|series| series.name == row.engine) {
            Some(series) => series.points.push(point),
            None => series.push(Series {
                name: row.engine.clone(),
                from_paper: false,
                points: vec![point],
            }),
        }
    }
    let places = Some(phases.iter().map(Phase::to_string).collect());
    let (x_label, y_label) = (String::new(), "operations/s".into());
    (
        table,
        Panel {
            title: "medians".into(),
            x_label,
            y_label,
            places,
            logarithmic: [false, false],
            series,
        },
    )
}

fn comparison(
    title: &str,
    text: &[&str],
    command: String,
    options: &CompareOptions,
    steps: &mut ProgressTracker<'_>,
) -> Result<Section, BenchError> {
    let rows = run_compare_with_progress(options, &mut |progress| steps.pass_on(progress))?;
    let (table, panel) = compared(&rows, &options.micro.phases);
    Ok(Section {
        title: title.into(),
        text: strings(text),
        command,
        tables: vec![table],
        panels: vec![panel],
        claims: Vec::new(),
    })
}

fn indexes(
    options: &ReportOptions,
    scale: Scale,
    steps: &mut ProgressTracker<'_>,
) -> Result<Section, BenchError> {
    let compare = of_indexes(options, scale);
    let command = format!(
        "everleaf-lab bench compare --engines {} --keys {} --rounds {} --flush clwb --seed {}",
        compare.engines.join(","),
        scale.index_keys,
        scale.rounds,
        options.seed
    );
    let text =
        ["Numbers of 8 bytes and values of 8 bytes, one thread; clwb and sfence are executed for \
        every durable write. btreemap persists nothing."];
    comparison("Indexes", &text, command, &compare, steps)
}

fn stores(
    options: &ReportOptions,
    scale: Scale,
    steps: &mut ProgressTracker<'_>,
) -> Result<Section, BenchError> {
    let compare = of_stores(options, scale);
    let command = format!(
        "everleaf-lab bench compare --engines {} --key-type string16 --value-bytes 100 --keys {} \
        --rounds {} --seed {}",
        compare.engines.join(","),
        scale.store_keys,
        scale.rounds,
        options.seed
    );
    let mut text = vec![
        "Random keys of 16 bytes and values of 100 bytes, one thread, all on the same medium; each \
        operation is a transaction of its own.".to_owned(),
    ];
    text.extend(
        Peer::ALL.into_iter().filter(|peer| peer.is_built()).map(|peer| {
            format!("{}: {}.", peer.name(), peer.settings(crate::Acknowledged::Process))
        }),
    );
    text.extend(Peer::ALL.into_iter().filter_map(|peer| {
        let feature = peer.missing_feature()?;
        Some(format!("{}: not in this build, which takes --features {feature}.", peer.name()))
    }));
    let text: Vec<&str> = text.iter().map(String::as_str).collect();
    comparison("Stores", &text, command, &compare, steps)
}

fn ycsb(
    options: &ReportOptions,
    scale: Scale,
    steps: &mut ProgressTracker<'_>,
) -> Result<Section, BenchError> {
    let engines = stores_by_name();
    let mut reports = Vec::new();
    for workload in Workload::ALL {
        let ycsb = of_ycsb(options, scale, workload);
        reports.extend(run_ycsb_with_progress(&ycsb, &mut |progress| steps.pass_on(progress))?);
    }
    let command = format!(
        "everleaf-lab bench ycsb --workload a --engine {} --keys {} --operations {} --rounds {} \
        --seed {}   # and b to f",
        engines.join(","),
        scale.ycsb_keys,
        scale.ycsb_keys,
        scale.rounds,
        options.seed
    );
    Ok(Section {
        title: "YCSB".into(),
        text: strings(&[
            "Ten fields of 100 bytes under keys of 24 bytes; an update reads a record, changes a \
            field and writes the record back. Zipfian, D latest.",
        ]),
        command,
        tables: vec![ycsb_rates(&reports), ycsb_latencies(&reports)],
        panels: vec![ycsb_bars(&reports), ycsb_course(&reports)],
        claims: Vec::new(),
    })
}

fn ycsb_rates(reports: &[YcsbReport]) -> Vec<Vec<String>> {
    let mut table = vec![strings(&[
        "engine",
        "workload",
        "ops/s (median)",
        "min",
        "max",
        "to the first",
        "loaded/s",
        "bytes a record",
        "a write survives",
    ])];
    table.extend(reports.iter().map(|report| {
        vec![
            report.engine.clone(),
            report.workload.to_uppercase(),
            number(report.median_ops_per_second),
            number(report.min_ops_per_second),
            number(report.max_ops_per_second),
            number(report.ratio),
            number(report.load_ops_per_second),
            report.bytes_per_key.map_or("-".into(), number),
            report.durability.clone(),
        ]
    }));
    table
}

fn ycsb_latencies(reports: &[YcsbReport]) -> Vec<Vec<String>> {
    let mut table = vec![strings(&[
        "engine",
        "workload",
        "operation",
        "mean ns",
        "p50",
        "p95",
        "p99",
        "p99.9",
        "slowest",
    ])];
    for report in reports {
        table.extend(report.latencies.iter().map(|(kind, of)| {
            let mut row =
                vec![report.engine.clone(), report.workload.to_uppercase(), kind.replace('_', "-")];
            row.extend(
                [of.mean_ns, of.p50_ns, of.p95_ns, of.p99_ns, of.p999_ns, of.max_ns].map(number),
            );
            row
        }));
    }
    table
}

fn by_engine(reports: &[YcsbReport], points: impl Fn(&YcsbReport) -> Vec<[f64; 2]>) -> Vec<Series> {
    let mut series: Vec<Series> = Vec::new();
    for report in reports {
        match series.iter_mut().find(|series| series.name == report.engine) {
            Some(series) => series.points.extend(points(report)),
            None => series.push(Series {
                name: report.engine.clone(),
                from_paper: false,
                points: points(report),
            }),
        }
    }
    series
}

fn ycsb_bars(reports: &[YcsbReport]) -> Panel {
    let place = |report: &YcsbReport| {
        Workload::ALL.iter().position(|w| w.name() == report.workload).unwrap_or(0) as f64
    };
    Panel {
        title: "throughput by workload".into(),
        x_label: String::new(),
        y_label: "operations/s".into(),
        places: Some(Workload::ALL.iter().map(|workload| workload.name().to_uppercase()).collect()),
        logarithmic: [false, false],
        series: by_engine(reports, |report| vec![[place(report), report.median_ops_per_second]]),
    }
}

fn ycsb_course(reports: &[YcsbReport]) -> Panel {
    let of_a: Vec<YcsbReport> =
        reports.iter().filter(|report| report.workload == "a").cloned().collect();
    let course = |report: &YcsbReport| {
        report
            .course
            .iter()
            .enumerate()
            .map(|(i, rate)| [(i as f64 + 0.5) * report.course_seconds * 1e3, *rate])
            .collect()
    };
    Panel {
        title: "workload A, throughput over time".into(),
        x_label: "ms".into(),
        y_label: "operations/s".into(),
        places: None,
        logarithmic: [true, false],
        series: by_engine(&of_a, course),
    }
}

fn model(
    options: &ReportOptions,
    scale: Scale,
    steps: &mut ProgressTracker<'_>,
) -> Result<Section, BenchError> {
    let latencies: Vec<Latency> = [90, 160, 250, 450, 650, 2000].map(Latency::of).to_vec();
    let phases = vec![Phase::Insert, Phase::Find, Phase::Update, Phase::Scan, Phase::Delete];
    let indexes = Engine::available().map(|engine| engine.name().to_owned());
    let engines: Vec<String> = indexes.chain(["store".to_owned()]).collect();
    let micro = MicroOptions { phases, ..base(options, scale.index_keys) };
    let model = ModelOptions { engines, latencies, rounds: 0, micro };
    let rows = run_model_with_progress(&model, &mut |progress| steps.pass_on(progress))?;
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
    table[0].extend(model.latencies.iter().map(|latency| format!("ns at {}", latency.read_ns)));
    for row in &rows {
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
    let command = format!(
        "everleaf-lab bench model --engines {} --keys {} --phases insert,find,update,scan,delete \
        --seed {}",
        model.engines.join(","),
        scale.index_keys,
        options.seed
    );
    let text = [
        "For each operation, counted, the allocator's part included: the same seed gives the same \
        numbers on every machine. The last columns are the time that misses and flushes of such a \
        latency add to DRAM.",
    ];
    let title = "What operations cost".into();
    Ok(Section {
        title,
        text: strings(&text),
        command,
        tables: vec![table],
        panels: Vec::new(),
        claims: Vec::new(),
    })
}

/// A panel's values, with its title in the corner.
fn titled(panel: &Panel) -> Vec<Vec<String>> {
    let mut rows = panel.rows();
    rows[0][0] = format!("{} ({}), by {}", panel.title, panel.y_label, panel.x_label);
    rows
}

fn figure_section(
    name: &'static str,
    options: &ReportOptions,
    scale: Scale,
    steps: &mut ProgressTracker<'_>,
) -> Result<Section, BenchError> {
    let figure = run_figure_with_progress(&of_figure(name, options, scale), &mut |progress| {
        steps.pass_on(progress)
    })?;
    let mut text = vec![format!("{}.", figure.source)];
    text.extend(figure.notes.iter().map(|note| format!("{note}.")));
    let left_out: Vec<String> =
        figure.left_out.iter().map(|out| format!("{} ({})", out.engine, out.reason)).collect();
    if !left_out.is_empty() {
        text.push(format!("Left out: {}.", left_out.join("; ")));
    }
    let panels: Vec<Panel> =
        figure.panels.into_iter().filter(|panel| !panel.series.is_empty()).collect();
    let tables = panels.iter().map(titled).collect();
    Ok(Section {
        title: format!("{}: {}", figure.name, figure.title),
        text,
        command: figure.command,
        tables,
        panels,
        claims: figure.claims,
    })
}
