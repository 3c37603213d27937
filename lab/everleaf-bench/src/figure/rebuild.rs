//! What recoveries are set against: the transient tree of FPTree's paper, made again.

use std::hint::black_box;
use std::time::Instant;

use super::{Drawing, FigureOptions, Series};
use crate::compare::Spread;
use crate::key::{BenchKey, String16};
use crate::session::{Session, stx_sizes};
use crate::stx::StxTree;
use crate::workload::Workload;
use crate::{BenchError, BenchKeyType, MicroOptions, Phase};

/// Keys of the trees that are opened.
pub fn recovered_keys(options: &FigureOptions) -> [u64; 3] {
    [100, 10, 1].map(|part| (options.keys / part).max(1))
}

/// The two ways to make it again, as they are told.
pub const NAMES: [&str; 2] = ["stx by insertions", "stx from sorted entries"];

/// Milliseconds of both by number of keys.
pub fn stx(
    options: &FigureOptions,
    key_type: BenchKeyType,
    drawing: &mut Drawing<'_, '_>,
) -> Result<Vec<Series>, BenchError> {
    let mut both = NAMES.map(|name| Series::of(name, Vec::new()));
    for keys in recovered_keys(options) {
        let micro = MicroOptions { keys, key_type, ..options.micro("stx", &[Phase::Insert]) };
        let session = Session::shared(&micro)?;
        if drawing.only_planned {
            continue;
        }
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..options.rounds {
            drawing.steps.extend(session.operations());
            times[0].push(session.seconds(&mut drawing.steps)?[0] * 1e3);
            times[1].push(match key_type {
                BenchKeyType::U64 => from_sorted::<u64>(&session)?,
                BenchKeyType::String16 => from_sorted::<String16>(&session)?,
            });
        }
        for (series, times) in both.iter_mut().zip(&times) {
            series.points.push([keys as f64, Spread::of(times).middle]);
        }
    }
    Ok(both.into())
}

/// Milliseconds that it takes to make a tree of sorted entries, with copies of their keys.
fn from_sorted<K: BenchKey>(session: &Session) -> Result<f64, BenchError> {
    let options = &session.plan.options;
    let sizes = stx_sizes(options.key_type, &Default::default())?;
    let workload = Workload::new(&session.plan, 0);
    let mut keys: Vec<K> = (0..options.keys).map(|place| workload.key(place)).collect();
    keys.sort_unstable();
    let start = Instant::now();
    let entries = keys.iter().map(|key| (key.keep(), key.word()));
    let tree = black_box(StxTree::of_sorted(sizes, entries));
    let elapsed = start.elapsed();
    debug_assert_eq!(tree.len() as u64, options.keys);
    Ok(elapsed.as_secs_f64() * 1e3)
}
