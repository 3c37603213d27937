//! The store and others of its kind.

use super::cells::{add_point, by_engine_and, strings};
use super::engines::comparison;
use super::run::{Outcome, Run};
use super::verdict;
use super::{Group, ReportOptions, Scale, Section, Table};
use crate::figure::{LeftOut, Panel, Series, number};
use crate::session::Session;
use crate::ycsb::{Record, Workload, YcsbOptions, YcsbReport, run_ycsb_with_progress};
use crate::{BenchError, BenchKeyType, CompareOptions, MicroOptions, Peer, Phase, Subject};

/// The stores of this build, ours last.
pub fn stores_by_name() -> Vec<String> {
    let others = Peer::ALL.into_iter().filter(|peer| peer.is_built() && *peer != Peer::SkipMap);
    others.map(|peer| peer.name().to_owned()).chain(["store".into()]).collect()
}

pub fn of_stores(options: &ReportOptions, scale: Scale) -> CompareOptions {
    let micro = MicroOptions {
        key_type: BenchKeyType::String16,
        value_bytes: Some(100),
        ..options.micro(scale.store_keys)
    };
    let engines =
        stores_by_name().into_iter().chain(["skipmap".into(), "btreemap".into()]).collect();
    CompareOptions { engines, rounds: scale.rounds, turn: None, micro }
}

pub fn of_ycsb(options: &ReportOptions, scale: Scale, workload: Workload) -> YcsbOptions {
    YcsbOptions {
        engines: stores_by_name(),
        workload,
        distribution: None,
        record: Record::Fields,
        operations: scale.ycsb_keys,
        rounds: scale.rounds,
        micro: options.micro(scale.ycsb_keys),
    }
}

pub fn stores(run: &mut Run<'_, '_>) -> Outcome {
    let compare = of_stores(run.options, run.scale);
    let text = ["Random keys of 16 bytes and values of 100 bytes, one thread, all on the same \
        medium; each operation is a transaction of its own."];
    let lacking = |peer: Peer| {
        let feature = peer.missing_feature()?;
        let reason = format!("not in this build, which takes --features {feature}");
        Some(LeftOut { engine: peer.name().into(), reason })
    };
    let section = Section {
        group: Group::Stores,
        title: "Stores".into(),
        text: strings(&text),
        tables: vec![settings(&compare)?],
        left_out: Peer::ALL.into_iter().filter_map(lacking).collect(),
        ..Section::default()
    };
    let named = [
        (Phase::Insert, "Store of byte strings: new keys"),
        (Phase::Find, "Store of byte strings: lookups"),
        (Phase::Scan, "Store of byte strings: scans of 100"),
    ];
    let (mut section, _) = comparison(section, &compare, &named, run)?;
    let told = section.uses.iter().map(|of| {
        let (_, what) = of.what.split_once(": ").unwrap_or_default();
        let (other, _) = of.other.split_once(": ").unwrap_or_default();
        format!("{what} {} as {other}", of.ratio)
    });
    let told = told.collect::<Vec<_>>().join(", ");
    if !told.is_empty() {
        section.sentences.push(format!("A store of byte strings (store): {told}"));
    }
    Ok(section)
}

/// How each store is run, and what a write survives by that.
fn settings(compare: &CompareOptions) -> Result<Table, BenchError> {
    let mut rows = vec![strings(&["engine", "settings", "a write survives"])];
    for engine in &compare.engines {
        let subject: Subject = engine.parse()?;
        let micro = MicroOptions { engine: engine.clone(), ..compare.micro.clone() };
        let durability = Session::shared(&micro)?.durability()?.to_string();
        let settings = subject.settings(micro.acknowledged);
        rows.push(vec![engine.clone(), verdict::sentence(settings), durability]);
    }
    Ok(Table { caption: "How each is run".into(), rows })
}

pub fn ycsb(run: &mut Run<'_, '_>) -> Outcome {
    let engines = stores_by_name();
    let mut reports = Vec::new();
    for workload in Workload::ALL {
        let ycsb = of_ycsb(run.options, run.scale, workload);
        reports.extend(run_ycsb_with_progress(&ycsb, &mut |at| run.steps.pass_on(at))?);
    }
    let (keys, rounds) = (run.scale.ycsb_keys, run.scale.rounds);
    let command = format!(
        "everleaf-lab bench ycsb --workload a --engine {} --keys {keys} --operations {keys} \
        --rounds {rounds} --seed {}   # and b to f",
        engines.join(","),
        run.options.seed
    );
    let key = |report: &YcsbReport| (report.engine.clone(), report.workload.to_uppercase());
    let table = |caption: &str, cell: fn(&YcsbReport) -> String| {
        by_engine_and(&reports, caption, key, cell)
    };
    let tables = vec![
        table("Operations a second", |report| number(report.median_ops_per_second)),
        table(&format!("Times the speed of {}", engines[0]), |report| number(report.ratio)),
        table("Records loaded a second", |report| number(report.load_ops_per_second)),
        table("Bytes a record", |report| report.bytes_per_key.map_or("-".into(), number)),
        ycsb_latencies(&reports),
    ];
    Ok(Section {
        group: Group::Stores,
        title: "YCSB".into(),
        text: strings(&[
            "Ten fields of 100 bytes under keys of 24 bytes; an update reads a record, changes a \
            field and writes the record back. Zipfian, D latest.",
        ]),
        command,
        tables,
        panels: vec![ycsb_bars(&reports), ycsb_course(&reports)],
        ..Section::default()
    })
}

fn ycsb_latencies(reports: &[YcsbReport]) -> Table {
    let mut rows = vec![strings(&[
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
        rows.extend(report.latencies.iter().map(|(kind, of)| {
            let mut row =
                vec![report.engine.clone(), report.workload.to_uppercase(), kind.replace('_', "-")];
            row.extend(
                [of.mean_ns, of.p50_ns, of.p95_ns, of.p99_ns, of.p999_ns, of.max_ns].map(number),
            );
            row
        }));
    }
    Table { caption: "Latencies".into(), rows }
}

fn by_engine(reports: &[YcsbReport], points: impl Fn(&YcsbReport) -> Vec<[f64; 2]>) -> Vec<Series> {
    let mut series = Vec::new();
    for report in reports {
        points(report).into_iter().for_each(|at| add_point(&mut series, &report.engine, at));
    }
    series
}

fn ycsb_bars(reports: &[YcsbReport]) -> Panel {
    let place = |report: &YcsbReport| {
        Workload::ALL.iter().position(|w| w.name() == report.workload).unwrap_or(0) as f64
    };
    Panel {
        title: "throughput".into(),
        x_label: "workload".into(),
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
