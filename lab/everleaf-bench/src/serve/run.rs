//! Rounds, in which the servers take turns.

use hdrhistogram::Histogram;

use super::client::{Load, drive, histogram};
use super::options::{ServeOptions, Served};
use super::requests::{Mix, Request, Seeds};
use super::row::ServeRow;
use super::server::{Running, start};
use super::wire::{Protocol, Wire};
use crate::compare::Spread;
use crate::keys::mix;
use crate::place::{Need, Place};
use crate::plan::{MAX_ROUNDS, MAX_THREADS, MAX_VALUE_BYTES, MOST, within};
use crate::session::ProgressTracker;
use crate::{Acknowledged, BenchError, Progress};

/// Connections and pipelines, at most.
const MAX_CONNECTIONS: u64 = 10_000;
const MAX_PIPELINED: u64 = 10_000;
/// What fills a server.
const LOADING_CONNECTIONS: u64 = 8;
const LOADING_PIPELINE: usize = 64;
/// Bytes that a record takes in any of the servers beside its value, estimated from above.
const RECORD_BYTES: u128 = 256;

/// A kind of load.
#[derive(Clone, Copy)]
struct Case {
    connections: u32,
    pipeline: u32,
    mix: Mix,
}

/// What a server did in a case, in all rounds.
struct Measured {
    rates: Vec<f64>,
    server_seconds: Option<f64>,
    client_seconds: f64,
    latencies: Histogram<u64>,
}

/// Servers that speak a protocol, and hold values of a size.
struct Stage<'o> {
    options: &'o ServeOptions,
    protocol: Protocol,
    value_bytes: u32,
    wire: Wire,
    servers: Vec<Running>,
}

/// Whether the options make sense; a place with room for all files.
pub fn plan_serve(options: &ServeOptions) -> Result<Place, BenchError> {
    let each = |option, values: &[u32], most| {
        within(option, values.len() as u64, 1, 1000)?;
        values.iter().try_for_each(|value| within(option, (*value).into(), 1, most))
    };
    each("connections", &options.connections, MAX_CONNECTIONS)?;
    each("pipeline", &options.pipelines, MAX_PIPELINED)?;
    each("value-bytes", &options.value_bytes, MAX_VALUE_BYTES)?;
    within("mix", options.mixes.len() as u64, 1, 1000)?;
    within("keys", options.keys, 1, MOST)?;
    let connections = options.connections.iter().copied().max().unwrap_or(1);
    within("ops", options.requests, connections.into(), MOST)?;
    within("rounds", options.rounds.into(), 1, MAX_ROUNDS)?;
    within("threads", options.threads.into(), 1, MAX_THREADS)?;
    within("client-threads", options.client_threads.into(), 1, MAX_THREADS)?;
    within("protocol", options.protocols.len() as u64, 1, 2)?;
    for server in &options.servers {
        let spoken = options.protocols.iter().filter(|protocol| server.speaks(**protocol)).count();
        if spoken == 0 || spoken > 1 && matches!(server, Served::At(_)) {
            return Err(BenchError::Unspoken { server: *server });
        }
        if matches!(server, Served::Ours(_)) && options.program.is_none() {
            return Err(BenchError::NoProgram { program: "everleaf-lab" });
        }
        if let Some(program) = server.missing_program() {
            return Err(BenchError::NoProgram { program });
        }
    }
    let servers =
        within("server", options.servers.len() as u64, 1, 64).map(|()| &options.servers)?;
    let files = server_bytes(options).saturating_mul(servers.len() as u64);
    let drawn = options.requests.saturating_mul(size_of::<Request>() as u64 * 2);
    let need = Need { pool_bytes: files, dram_bytes: drawn };
    match options.acknowledged {
        Acknowledged::Process => Place::find(need, &options.place),
        _ => Place::find_on_disk(need, &options.place),
    }
}

/// Bytes of a server's files, or of its memory.
fn server_bytes(options: &ServeOptions) -> u64 {
    let value_bytes = options.value_bytes.iter().copied().max().unwrap_or(0);
    let inserts: u64 = cases(options).iter().map(|case| case.mix.inserts(options.requests)).sum();
    let keys = u128::from(options.keys) + u128::from(inserts) * u128::from(options.rounds);
    let bytes = keys * (u128::from(value_bytes) + RECORD_BYTES) + (64 << 20);
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

fn cases(options: &ServeOptions) -> Vec<Case> {
    let mut cases = Vec::new();
    for &connections in &options.connections {
        for &pipeline in &options.pipelines {
            cases.extend(options.mixes.iter().map(|&mix| Case { connections, pipeline, mix }));
        }
    }
    cases
}

/// Starts the servers, fills them, and lets them answer the same requests in turn. Those that speak
/// another protocol, and values of another size, come after.
///
/// # Errors
/// [`BenchError`]; what is wrong with the options, and a program that is not installed, is said
/// before any work is done.
///
/// # Examples
/// ```no_run
/// use everleaf_bench::serve::{ServeOptions, run_serve_with_progress};
///
/// let options = ServeOptions { program: Some("everleaf-lab".into()), ..Default::default() };
/// let rows = run_serve_with_progress(&options, &mut |_| {})?;
/// assert!(rows[0].median_requests_per_second > 0.0);
/// # Ok::<(), everleaf_bench::BenchError>(())
/// ```
pub fn run_serve_with_progress(
    options: &ServeOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<ServeRow>, BenchError> {
    let (place, mut rows) = (plan_serve(options)?, Vec::new());
    let mut steps = ProgressTracker::new(progress, all_requests(options));
    for &protocol in &options.protocols {
        for &value_bytes in &options.value_bytes {
            let folder = place.create_folder()?;
            let speaking = options.servers.iter().filter(|server| server.speaks(protocol));
            let bytes = server_bytes(options);
            let servers = speaking.map(|server| start(*server, protocol, options, &folder, bytes));
            let servers = servers.collect::<Result<Vec<Running>, BenchError>>()?;
            let wire = Wire::new(protocol, value_bytes as usize);
            let stage = Stage { options, protocol, value_bytes, wire, servers };
            stage.load(&mut steps)?;
            rows.extend(stage.measure(&mut steps)?);
        }
    }
    Ok(rows)
}

/// Requests of all servers, loading included.
pub fn all_requests(options: &ServeOptions) -> u64 {
    let of_server =
        options.keys + options.requests * cases(options).len() as u64 * u64::from(options.rounds);
    let speaks = |protocol: &Protocol| {
        options.servers.iter().filter(|server| server.speaks(*protocol)).count() as u64
    };
    let servers: u64 = options.protocols.iter().map(speaks).sum();
    of_server.saturating_mul(servers * options.value_bytes.len() as u64)
}

impl Stage<'_> {
    fn seeds(&self, turn: u64) -> Seeds {
        let keys = self.options.seed;
        Seeds { keys, round: mix(keys).wrapping_add(turn) }
    }

    /// Stores all keys.
    fn load(&self, steps: &mut ProgressTracker<'_>) -> Result<(), BenchError> {
        let connections = LOADING_CONNECTIONS.min(self.options.keys);
        let requests = self.seeds(0).load(self.options.keys, connections);
        for server in &self.servers {
            steps.begin(server.name, "filled");
            self.drive(server, &requests, LOADING_PIPELINE)?;
            steps.end(self.options.keys);
        }
        Ok(())
    }

    fn drive(
        &self,
        server: &Running,
        requests: &[Vec<Request>],
        pipeline: usize,
    ) -> Result<super::client::Driven, BenchError> {
        let load = Load {
            address: server.address,
            protocol: self.protocol,
            wire: &self.wire,
            requests,
            pipeline,
            threads: self.options.client_threads as usize,
        };
        let action = "asking";
        drive(&load).map_err(|source| BenchError::Server { action, server: server.name, source })
    }

    /// All rounds; a row for each case and server.
    fn measure(&self, steps: &mut ProgressTracker<'_>) -> Result<Vec<ServeRow>, BenchError> {
        let (options, cases) = (self.options, cases(self.options));
        let nothing = || Measured {
            rates: Vec::new(),
            server_seconds: Some(0.0),
            client_seconds: 0.0,
            latencies: histogram(),
        };
        let mut measured: Vec<Vec<Measured>> =
            cases.iter().map(|_| self.servers.iter().map(|_| nothing()).collect()).collect();
        let (mut present, mut turn) = (options.keys, 0);
        for _ in 0..options.rounds {
            for (case, of_case) in cases.iter().zip(&mut measured) {
                turn += 1;
                let seeds = self.seeds(turn);
                let requests = case.mix.draw(options.requests, case.connections, present, seeds);
                for place in 0..self.servers.len() {
                    // Each time another one begins.
                    let place = (place + turn as usize) % self.servers.len();
                    let server = &self.servers[place];
                    let doing = format!("{} in pipelines of {}", case.mix, case.pipeline);
                    steps.begin(server.name, &doing);
                    self.turn(server, case, &requests, &mut of_case[place])?;
                    steps.end(options.requests);
                }
                present += case.mix.inserts(options.requests);
            }
        }
        let rows = |(case, of_case): (&Case, &Vec<Measured>)| self.rows(case, of_case);
        Ok(cases.iter().zip(&measured).flat_map(rows).collect())
    }

    fn turn(
        &self,
        server: &Running,
        case: &Case,
        requests: &[Vec<Request>],
        measured: &mut Measured,
    ) -> Result<(), BenchError> {
        let before = server.processor_seconds();
        let driven = self.drive(server, requests, case.pipeline as usize)?;
        let taken = server.processor_seconds().zip(before).map(|(after, before)| after - before);
        measured.server_seconds = measured.server_seconds.zip(taken).map(|(sum, one)| sum + one);
        measured.client_seconds += driven.client_seconds;
        measured.rates.push(self.options.requests as f64 / driven.seconds);
        let _ = measured.latencies.add(driven.latencies); // It resizes itself.
        Ok(())
    }

    fn rows(&self, case: &Case, measured: &[Measured]) -> Vec<ServeRow> {
        let options = self.options;
        let each =
            |seconds: f64| seconds * 1e6 / (options.requests as f64 * f64::from(options.rounds));
        let row = |(server, of_server): (&Running, &Measured)| {
            let first = &measured[0];
            let rates = Spread::of(&of_server.rates);
            let ratios = Spread::of_ratios(&of_server.rates, &first.rates);
            let us = |quantile| of_server.latencies.value_at_quantile(quantile) as f64 / 1e3;
            let to_first = of_server.server_seconds.zip(first.server_seconds);
            ServeRow {
                server: server.name.to_string(),
                protocol: self.protocol,
                mix: case.mix.to_string(),
                value_bytes: self.value_bytes,
                connections: case.connections,
                pipeline: case.pipeline,
                keys: options.keys,
                requests: options.requests,
                rounds: options.rounds,
                median_requests_per_second: rates.middle,
                min_requests_per_second: rates.min,
                max_requests_per_second: rates.max,
                ratio: ratios.middle,
                ratio_min: ratios.min,
                ratio_max: ratios.max,
                server_us: of_server.server_seconds.map(each),
                // Of less than a tick of the clock there is no ratio.
                server_us_ratio: to_first
                    .filter(|(_, first)| *first > 0.0)
                    .map(|(ours, first)| ours / first),
                client_us: each(of_server.client_seconds),
                p50_us: us(0.5),
                p99_us: us(0.99),
                max_us: of_server.latencies.max() as f64 / 1e3,
                threads: options.threads,
                settings: server.settings.clone(),
            }
        };
        self.servers.iter().zip(measured).map(row).collect()
    }
}
