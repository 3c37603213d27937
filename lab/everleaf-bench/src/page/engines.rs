//! Engines beside each other, and beside maps in memory.

use everleaf::Engine;
use everleaf_engines::{pools, volatile};

use super::cells::{add_point, by_engine_and, strings};
use super::run::{Outcome, Run};
use super::verdict;
use super::{ReportOptions, Scale, Section, Table};
use crate::figure::{Panel, Series, number};
use crate::{
    BenchKeyType, CompareOptions, Comparison, Flush, MicroOptions, Peer, Phase,
    run_compare_with_progress,
};

/// Keys of the largest size that engines are compared at, unless more are asked for.
const MAX_SIZED: u64 = 10_000_000;
/// How many keys there are to a scan there, which visits a hundred records.
const KEYS_PER_SCAN: u64 = 20;
/// Threads that share an index, at most.
const MAX_THREADS: usize = 16;
/// Engines in a plot, at most.
const MAX_SHOWN: usize = 8;

pub fn of_indexes(options: &ReportOptions, scale: Scale) -> CompareOptions {
    let maps = volatile().map(Engine::of).filter(|engine| engine.entry().is_map());
    let engines =
        maps.chain(pools().map(Engine::of)).map(|engine| engine.name().to_owned()).collect();
    let micro = MicroOptions { flush: Flush::Clwb, ..options.micro(scale.index_keys) };
    CompareOptions { engines, rounds: scale.rounds, turn: None, micro }
}

/// Sizes at which engines are compared.
pub fn sizes(scale: Scale) -> [u64; 5] {
    let most = (scale.index_keys * 10).min(MAX_SIZED).max(scale.index_keys);
    [100, 30, 10, 3, 1].map(|part| most / part)
}

pub fn of_size(options: &ReportOptions, keys: u64) -> CompareOptions {
    let engines = ["btreemap", Engine::FPTREE.name(), Engine::default().name()];
    let phases = vec![Phase::Insert, Phase::Find, Phase::Scan];
    let scans = Some((keys / KEYS_PER_SCAN).max(1));
    let micro = MicroOptions { phases, flush: Flush::Clwb, scans, ..options.micro(keys) };
    CompareOptions { engines: engines.map(str::to_owned).into(), rounds: 1, turn: None, micro }
}

pub fn of_threads(options: &ReportOptions, scale: Scale) -> CompareOptions {
    let concurrent = pools().map(Engine::of).filter(|engine| engine.is_concurrent());
    let engines = std::iter::once(Peer::SkipMap.name()).chain(concurrent.map(Engine::name));
    let engines = engines.map(str::to_owned).collect();
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let micro = MicroOptions {
        threads: threads.clamp(2, MAX_THREADS) as u32,
        phases: vec![Phase::Insert, Phase::Find, Phase::Update, Phase::Mixed, Phase::Delete],
        ..of_indexes(options, scale).micro
    };
    CompareOptions { engines, rounds: scale.rounds, turn: None, micro }
}

/// Comparisons as tables, and as bars of the best engines by phase.
fn compared(rows: &[Comparison], compare: &CompareOptions) -> (Vec<Table>, Panel) {
    let ratio = |row: &Comparison| match compare.rounds {
        1 => number(row.ratio),
        _ => {
            let [least, middle, most] = [row.ratio_q1, row.ratio, row.ratio_q3].map(number);
            format!("{middle} ({least} to {most})")
        }
    };
    let half = if compare.rounds == 1 { "" } else { " (middle half)" };
    let first = &compare.engines[0];
    let key = |row: &Comparison| (row.engine.clone(), row.phase.to_string());
    let rate = |row: &Comparison| number(row.median_ops_per_second);
    let tables = vec![
        by_engine_and(rows, "Operations a second", key, rate),
        by_engine_and(rows, &format!("Times the speed of {first}{half}"), key, ratio),
    ];
    let mut shown: Vec<&String> = compare.engines[1..].iter().collect();
    let mean = |engine: &String| verdict::overall(rows, engine).unwrap_or(0.0);
    shown.sort_by(|a, b| mean(b).total_cmp(&mean(a)));
    shown.truncate(MAX_SHOWN);
    let mut series = Vec::new();
    for engine in shown {
        let of_engine = rows.iter().filter(|row| row.engine == *engine).enumerate();
        let of_engine = of_engine.filter(|(_, row)| verdict::is_ratio(row.ratio));
        of_engine.for_each(|(i, row)| add_point(&mut series, engine, [i as f64, row.ratio]));
    }
    let panel = Panel {
        title: format!("times the speed of {first}"),
        x_label: "phase".into(),
        y_label: "times as fast".into(),
        places: Some(compare.micro.phases.iter().map(Phase::to_string).collect()),
        logarithmic: [false, false],
        series,
    };
    (tables, panel)
}

fn command(compare: &CompareOptions) -> String {
    let micro = &compare.micro;
    let mut command = format!(
        "everleaf-lab bench compare --engines {} --keys {} --rounds {} --seed {}",
        compare.engines.join(","),
        micro.keys,
        compare.rounds,
        micro.seed
    );
    if micro.phases != MicroOptions::default().phases {
        let phases: Vec<&str> = micro.phases.iter().map(|phase| phase.name()).collect();
        command += &format!(" --phases {}", phases.join(","));
    }
    for (option, value) in
        [("scans", micro.scans), ("value-bytes", micro.value_bytes.map(u64::from))]
    {
        command += &value.map_or(String::new(), |value| format!(" --{option} {value}"));
    }
    if micro.key_type == BenchKeyType::String16 {
        command += " --key-type string16";
    }
    if micro.flush == Flush::Clwb {
        command += " --flush clwb";
    }
    if micro.threads > 1 {
        command += &format!(" --threads {}", micro.threads);
    }
    command
}

/// A comparison, and the uses that it decides.
pub fn comparison(
    section: Section,
    compare: &CompareOptions,
    phases: &[(Phase, &str)],
    run: &mut Run<'_, '_>,
) -> Result<(Section, Vec<Comparison>), crate::BenchError> {
    let rows = run_compare_with_progress(compare, &mut |at| run.steps.pass_on(at))?;
    let (mut tables, panel) = compared(&rows, compare);
    tables.extend(section.tables);
    let uses = verdict::uses(&rows, phases, &keys_of(&compare.micro));
    let command = command(compare);
    Ok((Section { command, tables, panels: vec![panel], uses, ..section }, rows))
}

/// How many, for people.
pub fn keys_of(micro: &MicroOptions) -> String {
    let keys = format!("{} keys", number(micro.keys as f64));
    if micro.threads > 1 { format!("{keys}, {} threads", micro.threads) } else { keys }
}

/// One thread.
pub fn indexes(run: &mut Run<'_, '_>) -> Outcome {
    let compare = of_indexes(run.options, run.scale);
    let text =
        ["Numbers of 8 bytes and values of 8 bytes, one thread; clwb and sfence are executed for \
        every durable write. The map of the standard library, btreemap, persists nothing."];
    let section =
        Section { title: "One thread".into(), text: strings(&text), ..Section::default() };
    let named = [
        (Phase::Insert, "Numbers, one thread: new keys"),
        (Phase::Find, "Numbers, one thread: lookups"),
        (Phase::Scan, "Numbers, one thread: scans of 100"),
    ];
    let (mut section, rows) = comparison(section, &compare, &named, run)?;
    let best = verdict::best(&rows, "BTreeMap, which keeps nothing");
    section.sentences.extend(best.map(|best| {
        format!(
            "Numbers as keys, one thread: {best} (geometric mean of new keys, lookups, updates and \
            deletes; {})",
            keys_of(&compare.micro)
        )
    }));
    Ok(section)
}

/// One thread, by the number of keys.
pub fn by_size(run: &mut Run<'_, '_>) -> Outcome {
    let (mut series, mut uses): (Vec<Series>, _) = (Vec::new(), Vec::new());
    let sizes = sizes(run.scale);
    for keys in sizes {
        let compare = of_size(run.options, keys);
        let rows = run_compare_with_progress(&compare, &mut |at| run.steps.pass_on(at))?;
        let shown =
            |row: &&Comparison| row.engine != compare.engines[0] && verdict::is_ratio(row.ratio);
        for row in rows.iter().filter(shown) {
            let name = format!("{} {}", row.engine, row.phase);
            add_point(&mut series, &name, [keys as f64, row.ratio]);
        }
        let named = [(Phase::Find, "The same with more keys: lookups")];
        uses = verdict::uses(&rows, &named, &keys_of(&compare.micro));
    }
    Ok(Section {
        title: "By number of keys".into(),
        text: strings(&["The same keys and values, fewer and more of them. The command measures \
            the largest size; --keys takes any other."]),
        command: command(&of_size(run.options, sizes[4])),
        sentences: verdict::by_size(Engine::FPTREE.name(), &series).into_iter().collect(),
        panels: vec![Panel {
            title: "times the speed of btreemap".into(),
            x_label: "keys".into(),
            y_label: "times as fast".into(),
            places: None,
            logarithmic: [true, false],
            series,
        }],
        uses,
        ..Section::default()
    })
}

/// Threads that share an index.
pub fn threads(run: &mut Run<'_, '_>) -> Outcome {
    let compare = of_threads(run.options, run.scale);
    let text = ["Threads share one index; skipmap (of crossbeam) is a map in memory."];
    let section =
        Section { title: "Several threads".into(), text: strings(&text), ..Section::default() };
    let named = [
        (Phase::Insert, "Numbers, several threads: new keys"),
        (Phase::Find, "Numbers, several threads: lookups"),
    ];
    let (mut section, rows) = comparison(section, &compare, &named, run)?;
    section.sentences.extend(
        verdict::best(&rows, "skipmap")
            .map(|best| format!("Several threads: {best} ({})", keys_of(&compare.micro))),
    );
    Ok(section)
}
