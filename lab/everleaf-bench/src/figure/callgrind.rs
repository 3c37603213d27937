//! Durable Masstree, section 6: instructions and references of caches, of the durable tree to those
//! of its transient twin. A guest has no counters of the processor, so valgrind's callgrind
//! executes the benchmark and simulates the caches.

use std::path::Path;
use std::process::Command;

use super::Form::{self, PercentLess, PercentMore};
use super::{Claim, Drawing, FigureOptions, Panel, Series};
use crate::BenchError;
use crate::ycsb::{Distribution, Workload};

const TREES: [&str; 2] = ["masstree-transient", "masstree"];
const WORKLOADS: [Workload; 4] = [Workload::A, Workload::B, Workload::C, Workload::E];
/// Operations of an epoch, as in the paper; its end is not among what is counted.
const EPOCH: u64 = 80_000;

/// What is counted: lookups, updates and scans, and nothing of the benchmark around them.
const OPERATIONS: [&str; 3] = [
    "everleaf_index::index::Index::get_words",
    "everleaf_index::index::Index::update_words",
    "*Index<K>>::scan",
];
/// The first caches of the paper's processor, and the modelled cache of the other figures in place
/// of its last one.
const CACHES: &str = "--tool=callgrind --cache-sim=yes --callgrind-out-file=/dev/null \
    --I1=32768,8,64 --D1=32768,8,64 --LL=16777216,16,64";

/// What callgrind counts: instructions, loads, stores, then misses of each in the first caches,
/// then those in the last.
type Events = [f64; 9];

/// What is said of a workload: its name, in which form, the paper's ranges for uniform and zipfian
/// keys, and what it is of the events.
type Said = (&'static str, Form, [[f64; 2]; 2], fn(Events) -> f64);
const SAID: [Said; 5] = [
    ("instructions", PercentMore, [[0.0, 14.5], [0.1, 7.6]], |[instructions, ..]| instructions),
    ("loads that reach the last cache", PercentMore, [[7.9, 16.3]; 2], |events| events[4]),
    ("stores that reach the last cache", PercentMore, [[-28.7, 27.5]; 2], |events| events[5]),
    ("loads that miss the first cache, of all", PercentMore, [[-5.1, 14.2]; 2], |events| {
        events[4] / events[1]
    }),
    ("of these, loads that miss the last one", PercentLess, [[42.0, 95.2]; 2], |events| {
        events[7] / events[4]
    }),
];

/// Executes a workload on a tree; why not, if it cannot be done.
fn executed(
    program: &Path,
    tree: &str,
    (workload, distribution): (Workload, Distribution),
    options: &FigureOptions,
) -> Result<Events, String> {
    let (keys, seed, distribution) = (options.keys, options.seed, distribution.name());
    let mut words = format!(
        "bench ycsb --workload {workload} --engine {tree} --keys {keys} --operations {keys} \
        --rounds 1 --record 8/8 --buffers --flush none --distribution {distribution} --seed {seed}"
    );
    let writes = workload.second_kind(EPOCH);
    if tree == TREES[1] && writes > 0 {
        words += &format!(" --epoch-ops {writes}");
    }
    let ran = Command::new("valgrind")
        .args(CACHES.split_whitespace())
        .args(OPERATIONS.map(|name| format!("--toggle-collect={name}")))
        .arg(program)
        .args(words.split_whitespace())
        .output()
        .map_err(|error| format!("it cannot be started: {error}"))?;
    let said = String::from_utf8_lossy(&ran.stderr);
    let collected = said.lines().find_map(|line| line.split_once("Collected : "));
    let counts = collected.iter().flat_map(|(_, counts)| counts.split_whitespace());
    let mut events = Events::default();
    for (event, count) in events.iter_mut().zip(counts) {
        *event = count.parse().unwrap_or_default();
    }
    let worked = ran.status.success() && events[0] > 0.0;
    worked.then_some(events).ok_or_else(|| said.lines().last().unwrap_or_default().to_owned())
}

/// Instructions and references of each workload.
pub fn incll_counters(
    options: &FigureOptions,
    drawing: &mut Drawing<'_, '_>,
) -> Result<(), BenchError> {
    if drawing.only_planned {
        return Ok(());
    }
    let (mut places, mut series) = (Vec::new(), Vec::new());
    for (at, distribution) in [Distribution::Uniform, Distribution::Zipfian].into_iter().enumerate()
    {
        for workload in WORKLOADS {
            let of = |tree| match &options.program {
                Some(program) => executed(program, tree, (workload, distribution), options),
                None => Err("no program is known that it could execute".into()),
            };
            let events = match (of(TREES[0]), of(TREES[1])) {
                (Ok(transient), Ok(durable)) => Some([transient, durable]),
                (Err(why), _) | (_, Err(why)) => {
                    drawing.leave_out("valgrind", &why);
                    None
                }
            };
            let name = format!("{}, {}", workload.name().to_uppercase(), distribution.name());
            for (said, form, papers, value) in SAID {
                let ours =
                    events.map(|[transient, durable]| form.of(value(durable), value(transient)));
                let what = format!("{name}, {said}: {}", form.phrase(TREES[1], TREES[0]));
                let [paper, to] = papers[at];
                let ours = ours.filter(|ours| ours.is_finite());
                drawing.figure.claims.push(Claim { what, paper, paper_to: Some(to), ours });
            }
            let Some(events) = events else { continue };
            for (tree, events) in TREES.into_iter().zip(events) {
                // The benchmark does them twice, the second time for latencies.
                let each = events[0] / (2 * options.keys) as f64;
                Series::add(&mut series, tree, [places.len() as f64, each]);
            }
            places.push(name);
        }
    }
    if !places.is_empty() {
        let bars = Panel::bars("instructions", "instructions/operation", places, series);
        drawing.figure.panels.push(bars);
    }
    Ok(())
}
