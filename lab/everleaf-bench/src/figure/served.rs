//! Figures of servers: FPTree's Figure 13, and NV-Store beside Redis.

use everleaf::{Engine, KeyType};
use everleaf_engines::{named, pools};

use super::{Claim, Drawing, FigureOptions, Form, Panel, Series};
use crate::BenchError;
use crate::serve::{
    Append, Mix, Protocol, ServeOptions, ServeRow, Served, all_requests, plan_serve,
    run_serve_with_progress,
};

const SET: Mix = Mix::Sets(100);
const GET: Mix = Mix::Sets(0);

/// Requests by memcached's protocol: what they lose to memcached itself at 85 ns, in percent of
/// SETs and GETs; of the last two the paper prints a bound.
const LOST: [(&str, [f64; 2]); 6] = [
    ("fptree", [11.45, 0.29]),
    ("ptree", [40.37, 3.40]),
    ("wbtree-bitmap", [45.57, 3.81]),
    ("stx", [28.29, 4.83]),
    ("fptree-c", [2.0, 2.0]),
    ("nvtree-c", [3.0, 3.0]),
];

/// FPTree's Figure 13: every engine whose keys may be byte strings, behind memcached's protocol.
pub fn fptree_13(options: &FigureOptions, drawing: &mut Drawing<'_, '_>) -> Result<(), BenchError> {
    drawing.available(&LOST.map(|(engine, _)| engine));
    drawing.leave_out("stx", "our server serves pools, and stx is a tree in memory without one");
    let engines = pools().map(Engine::of).filter(|engine| engine.has_keys(KeyType::Bytes));
    let servers = [Served::Memcached].into_iter().chain(engines.map(Served::Ours)).collect();
    let serve = ServeOptions {
        protocols: vec![Protocol::Memcached],
        mixes: vec![SET, GET],
        ..base(options, servers)
    };
    let rows = measure(serve, drawing)?;
    if drawing.only_planned {
        return Ok(());
    }
    let mixes = [SET, GET].map(|mix| mix.to_string());
    let place = |row: &ServeRow| mixes.iter().position(|mix| *mix == row.mix).unwrap_or(0) as f64;
    let names = || Some(mixes.iter().map(|mix| mix.to_uppercase()).collect());
    let all: Vec<&ServeRow> = rows.iter().collect();
    for (title, y_label, value) in [
        ("throughput", "requests/s", rate as Value),
        ("processor time of the server", "us/request", |row| row.server_us),
        ("99th percentile", "us", |row| Some(row.p99_us)),
    ] {
        let mut series = by_server(&all, place, value);
        series.iter_mut().for_each(|series| series.name = engine_of(&series.name).into());
        drawing.figure.panels.push(panel(title, "", y_label, names(), series));
    }
    for (engine, papers) in LOST {
        let name = named(engine).map(|engine| Served::Ours(Engine::of(engine))).ok();
        for (mix, paper) in [SET, GET].into_iter().zip(papers) {
            let of = |server: Served| {
                rows.iter()
                    .find(|row| row.server == server.to_string() && row.mix == mix.to_string())
                    .map(|row| row.median_requests_per_second)
            };
            let form = Form::PercentLess;
            let mix = mix.to_string().to_uppercase();
            let what = format!("{mix}: {} (paper: 85 ns)", form.phrase(engine, "memcached"));
            let ours = name.and_then(of).zip(of(Served::Memcached));
            let ours = ours.map(|(engine, memcached)| form.of(engine, memcached));
            let is_bound = engine.ends_with("-c");
            let paper_to = is_bound.then_some(paper);
            let paper = if is_bound { 0.0 } else { paper };
            drawing.figure.claims.push(Claim { what, paper, paper_to, ours });
        }
    }
    Ok(())
}

/// A server of ours by its engine alone.
fn engine_of(server: &str) -> &str {
    match server.strip_prefix("ours") {
        Some("") => Engine::default().name(),
        Some(engine) => engine.trim_start_matches(':'),
        None => server,
    }
}

/// The slides' workloads, and by how much at the most NV-Store is faster than Redis.
const AGAINST_REDIS: [(Mix, f64); 2] = [(Mix::StatusUpdate, 3.2), (Mix::SessionStore, 4.8)];
/// Redis as the slides have it: volatile, and consistent.
const REDIS: [Served; 2] = [Served::Redis(Some(Append::No)), Served::Redis(Some(Append::Always))];
/// YCSB's ten fields of 100 bytes, in one piece.
const VALUE_BYTES: u32 = 1000;

/// NV-Tree's slides: NV-Store and Redis, by connections.
pub fn nv_store(options: &FigureOptions, drawing: &mut Drawing<'_, '_>) -> Result<(), BenchError> {
    let [nv_store, ours] = [Engine::NVTREE_C, Engine::default()].map(Served::Ours);
    let mixes: Vec<Mix> = AGAINST_REDIS.iter().map(|(mix, _)| *mix).collect();
    let serve = ServeOptions {
        protocols: vec![Protocol::Redis],
        connections: vec![1, 2, 4, 8],
        value_bytes: vec![VALUE_BYTES],
        mixes,
        ..base(options, vec![REDIS[0], REDIS[1], nv_store, ours])
    };
    let rows = measure(serve, drawing)?;
    if drawing.only_planned {
        return Ok(());
    }
    for (mix, paper) in AGAINST_REDIS {
        let name = mix.to_string();
        let of_mix: Vec<&ServeRow> = rows.iter().filter(|row| row.mix == name).collect();
        let series = by_server(&of_mix, |row| f64::from(row.connections), rate);
        let title = format!("{name}, by Redis' protocol");
        drawing.figure.panels.push(panel(&title, "connections", "requests/s", None, series));
        for redis in REDIS {
            let rate = |server: Served, connections: u32| {
                of_mix
                    .iter()
                    .find(|row| row.server == server.to_string() && row.connections == connections)
                    .map(|row| row.median_requests_per_second)
            };
            let ratio = |row: &&ServeRow| {
                Some(rate(nv_store, row.connections)? / rate(redis, row.connections)?)
            };
            let ours = of_mix.iter().filter_map(ratio).reduce(f64::max);
            let what = format!(
                "{name}: {nv_store} to {redis}, at the most (paper: it does not say than which)"
            );
            drawing.figure.claims.push(Claim { what, paper, paper_to: None, ours });
        }
    }
    Ok(())
}

fn base(options: &FigureOptions, servers: Vec<Served>) -> ServeOptions {
    ServeOptions {
        servers,
        keys: options.keys,
        requests: options.keys.max(64),
        rounds: options.rounds,
        seed: options.seed,
        place: options.pool.clone(),
        program: options.program.clone(),
        ..ServeOptions::default()
    }
}

/// Runs those that can run here; the others are left out. Of a plan there are no rows.
fn measure(
    mut serve: ServeOptions,
    drawing: &mut Drawing<'_, '_>,
) -> Result<Vec<ServeRow>, BenchError> {
    serve.servers.retain(|server| {
        let reason = match (server, server.missing_program()) {
            (_, Some(program)) => format!("{program} is not installed"),
            (Served::Ours(_), None) if serve.program.is_none() => {
                "everleaf-lab serves it, and this is another program".into()
            }
            _ => return true,
        };
        drawing.leave_out(&server.to_string(), &reason);
        false
    });
    if serve.servers.is_empty() {
        return Ok(Vec::new());
    }
    plan_serve(&serve)?;
    if drawing.only_planned {
        return Ok(Vec::new());
    }
    let requests = all_requests(&serve);
    drawing.steps.extend(requests);
    let steps = &mut drawing.steps;
    let rows = run_serve_with_progress(&serve, &mut |progress| steps.pass_on(progress))?;
    drawing.steps.end(requests);
    Ok(rows)
}

type Value = fn(&ServeRow) -> Option<f64>;

fn rate(row: &ServeRow) -> Option<f64> {
    Some(row.median_requests_per_second)
}

/// A curve, or the bars, of each server.
fn by_server(rows: &[&ServeRow], place: impl Fn(&ServeRow) -> f64, value: Value) -> Vec<Series> {
    let mut series: Vec<Series> = Vec::new();
    for row in rows {
        let Some(value) = value(row) else { continue };
        let point = [place(row), value];
        Series::add(&mut series, &row.server, point);
    }
    series
}

fn panel(
    title: &str,
    x_label: &str,
    y_label: &str,
    places: Option<Vec<String>>,
    series: Vec<Series>,
) -> Panel {
    let curves = Panel::curves(title, x_label, y_label, series);
    Panel { places, logarithmic: [false, false], ..curves }
}
