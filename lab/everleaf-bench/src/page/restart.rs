//! How fast engines are there again after a crash, and the memory that they take.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

use everleaf::Engine;
use everleaf_engines::pools;

use super::cells::strings;
use super::engines::keys_of;
use super::run::{Outcome, Run};
use super::verdict::Use;
use super::{ReportOptions, Scale, Section, Table};
use crate::figure::number;
use crate::session::Session;
use crate::workload::Workload;
use crate::{BenchError, MicroOptions, Phase, RecoveryOptions, run_recovery_with_progress};

/// Keys of a map that is weighed, at least: pages are counted, and there are holes in any heap.
const MIN_WEIGHED: u64 = 1_000_000;

pub fn of_restart(engine: Engine, options: &ReportOptions, scale: Scale) -> RecoveryOptions {
    let (engine, phases) = (engine.name().to_owned(), vec![Phase::Insert]);
    let micro = MicroOptions { engine, phases, ..options.micro(scale.index_keys) };
    let (threads, rounds) = (vec![1], scale.rounds);
    RecoveryOptions { threads, rounds, clean: false, image: true, micro }
}

/// Milliseconds in which a map in memory is filled with so many random keys, and the bytes that a
/// key takes there; none if the heap had holes that it went into.
fn fill_btreemap(micro: &MicroOptions, keys: u64) -> Result<(f64, Option<f64>), BenchError> {
    let session = Session::shared(&MicroOptions { keys, ..micro.clone() })?;
    let drawn = Workload::new(&session.plan, 0);
    let all: Vec<u64> = (0..keys).map(|place| drawn.key(place)).collect();
    let mut map = BTreeMap::new();
    let (before, start) = (resident_bytes(), Instant::now());
    for &key in &all {
        map.insert(key, key);
    }
    let ms = start.elapsed().as_secs_f64() * 1e3;
    let grown = resident_bytes().zip(before).map(|(after, before)| after.saturating_sub(before));
    // The keys' own bytes are in both readings.
    black_box(&all);
    let each = grown.map(|bytes| bytes as f64 / black_box(&map).len().max(1) as f64);
    Ok((ms, each.filter(|each| *each > size_of::<[u64; 2]>() as f64)))
}

/// Bytes of this process that lie in memory.
fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let line = text.lines().find(|line| line.starts_with("Rss:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib << 10)
}

/// What was measured of an engine.
struct Restarted {
    engine: &'static str,
    ms: f64,
    /// Of a key.
    dram_bytes: f64,
    pool_bytes: f64,
}

impl Restarted {
    fn bytes(&self) -> f64 {
        self.dram_bytes + self.pool_bytes
    }
}

pub fn restart(run: &mut Run<'_, '_>) -> Outcome {
    let micro =
        MicroOptions { engine: "btreemap".into(), ..run.options.micro(run.scale.index_keys) };
    let weighed = micro.keys.max(MIN_WEIGHED);
    let (_, map_bytes) = fill_btreemap(&micro, weighed)?;
    let (map_ms, _) = fill_btreemap(&micro, micro.keys)?;
    let mut all = Vec::new();
    for engine in pools().map(Engine::of) {
        let recovery = of_restart(engine, run.options, run.scale);
        let rows = run_recovery_with_progress(&recovery, &mut |at| run.steps.pass_on(at))?;
        let session = Session::shared(&recovery.micro)?;
        run.steps.extend(session.operations());
        let Some(shape) = session.timed(run.steps)?[0].statistics else { continue };
        let [dram_bytes, pool_bytes] =
            [shape.dram_bytes, shape.pm_bytes].map(|bytes| bytes as f64 / micro.keys as f64);
        let (engine, ms) = (engine.name(), rows[0].recovery_ms);
        all.push(Restarted { engine, ms, dram_bytes, pool_bytes });
    }
    let mut rows = vec![strings(&[
        "engine",
        "ms to open after a crash",
        "filling a BTreeMap to that",
        "bytes of DRAM a key",
        "bytes of the pool a key",
    ])];
    let row = |engine: &str, ms: f64, bytes: [String; 2]| {
        let times = [engine.to_owned(), number(ms), number(map_ms / ms)];
        times.into_iter().chain(bytes).collect::<Vec<String>>()
    };
    let map_text = map_bytes.map_or("-".into(), number);
    rows.push(row("btreemap, filled again", map_ms, [map_text, "0".into()]));
    rows.extend(
        all.iter().map(|of| row(of.engine, of.ms, [of.dram_bytes, of.pool_bytes].map(number))),
    );
    let at = keys_of(&micro);
    let default = all.iter().find(|of| of.engine == Engine::default().name());
    let told = default.map(|of| {
        format!(
            "After a crash {}, the default engine, can be used {} ms later ({at}); filling a \
            BTreeMap again takes {} ms",
            of.engine,
            number(of.ms),
            number(map_ms)
        )
    });
    Ok(Section {
        title: "Restart and memory".into(),
        text: strings(&["An index is filled with numbers in random order and left as a killed \
            process leaves it; the time is that from opening the file to an index that answers. \
            The bytes of BTreeMap are those by which the process grew, with a million keys at \
            least."]),
        command: format!(
            "everleaf-lab bench recovery --engine {} --keys {} --rounds {} --seed {}",
            Engine::default(),
            micro.keys,
            run.scale.rounds,
            micro.seed
        ),
        tables: vec![Table { caption: "After a crash, and while it runs".into(), rows }],
        sentences: told.into_iter().collect(),
        uses: uses(&all, map_ms, map_bytes.map(|each| (each, weighed)), &at),
        ..Section::default()
    })
}

/// `map_bytes` are those of a key in a map, and of how many.
fn uses(all: &[Restarted], map_ms: f64, map_bytes: Option<(f64, u64)>, at: &str) -> Vec<Use> {
    let least = |of: fn(&Restarted) -> f64| all.iter().min_by(|a, b| of(a).total_cmp(&of(b)));
    let restart = least(|of| of.ms).map(|best| Use {
        what: "Restart after a crash".into(),
        ours: format!("{}: {} ms", best.engine, number(best.ms)),
        other: format!("btreemap, filled again: {} ms", number(map_ms)),
        ratio: format!("{} times as fast", number(map_ms / best.ms)),
        at: at.into(),
    });
    let memory = least(Restarted::bytes).zip(map_bytes).map(|(best, (map, weighed))| Use {
        what: "Memory, DRAM and pool together".into(),
        ours: format!("{}: {} bytes a key", best.engine, number(best.bytes())),
        other: format!("btreemap of {} keys: {} bytes a key", number(weighed as f64), number(map)),
        ratio: format!("{} times as much", number(best.bytes() / map)),
        at: at.into(),
    });
    restart.into_iter().chain(memory).collect()
}
