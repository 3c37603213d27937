//! An entry of the catalogue, and what entries have in common.

use super::axis::{Axis, Measure};
use super::sweep::Sweep;
use super::{Drawing, FigureOptions, claims};
use crate::{BenchError, BenchKeyType, Flush, Phase};

/// A figure that can be measured. `measure` is called twice: first to plan all of it, so that what
/// is wrong is said before any work is done.
pub struct Entry {
    pub name: &'static str,
    pub title: &'static str,
    pub source: &'static str,
    pub notes: &'static [&'static str],
    pub measure: fn(&FigureOptions, &mut Drawing<'_, '_>) -> Result<(), BenchError>,
}

/// The note of most of them.
pub const SMALLER: &str = "the index is smaller than the paper's unless --keys says \
    otherwise, so more of it lies in caches";

/// The order in which the FPTree's paper does them.
const FIND_TO_DELETE: &[Phase] = &[Phase::Find, Phase::Insert, Phase::Update, Phase::Delete];

/// What most sweeps have in common.
pub const SWEEP: Sweep = Sweep {
    engines: &[],
    axis: Axis::Latency(&[90, 160, 250, 450, 650]),
    key_types: &[BenchKeyType::U64],
    phases: FIND_TO_DELETE,
    shown: &[
        (Phase::Find, Measure::MeanNs),
        (Phase::Insert, Measure::MeanNs),
        (Phase::Update, Measure::MeanNs),
        (Phase::Delete, Measure::MeanNs),
    ],
    warmed: true,
    operations: None,
    threads: 1,
    flush: Flush::Clwb,
    added: [0, 0],
    inner_keys: None,
    node_bytes: &[],
    paper_order: true,
    key_bits: u64::BITS,
    claims: claims::none,
};
