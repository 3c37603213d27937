//! What the papers say in numbers: time of one engine to that of another, or to its own at another place.

use super::sweep::{LAST, Measure, Quotient};
use crate::BenchKeyType::{self, String16, U64};
use crate::Phase::{self, Delete, Find, Insert, Mixed, Update};

/// Nothing is printed.
pub fn none() -> Vec<Quotient> {
    Vec::new()
}

const FPTREE_PHASES: [Phase; 4] = [Find, Insert, Update, Delete];

/// Times of `above` to `below`, in the order of the paper's phases.
fn times(
    key_type: BenchKeyType,
    above: (&'static str, u64),
    below: (&'static str, u64),
    papers: [f64; 4],
) -> impl Iterator<Item = Quotient> {
    let quotient = move |(phase, paper)| Quotient { paper, key_type, phase, measure: Measure::MeanNs, above, below };
    FPTREE_PHASES.into_iter().zip(papers).map(quotient)
}

/// FPTree, section 6.2: other trees to the FPTree, and each to itself with DRAM's latency.
pub fn fptree_7() -> Vec<Quotient> {
    let others = [
        (U64, "ptree", 90, [1.18, 1.48, 1.08, 1.08]),
        (U64, "nvtree", 90, [1.47, 1.83, 2.63, 1.79]),
        (U64, "wbtree-bitmap", 90, [1.97, 2.05, 1.81, 2.05]),
        (U64, "ptree", 650, [1.19, 1.63, 1.08, 1.02]),
        (U64, "nvtree", 650, [1.92, 2.97, 3.65, 2.82]),
        (U64, "wbtree-bitmap", 650, [3.93, 4.89, 4.09, 5.48]),
        (String16, "ptree", 90, [1.82, 1.65, 1.71, 1.24]),
        (String16, "nvtree", 90, [1.72, 1.93, 4.80, 1.78]),
        (String16, "wbtree-bitmap", 90, [2.20, 1.62, 2.15, 1.64]),
        (String16, "ptree", 650, [2.15, 2.16, 2.36, 1.35]),
        (String16, "nvtree", 650, [2.50, 2.42, 8.19, 2.14]),
        (String16, "wbtree-bitmap", 650, [2.93, 2.93, 5.43, 2.86]),
    ];
    let slowdowns = [
        ("fptree", 250, [1.51, 1.67, 1.93, 1.21]),
        ("fptree", 650, [2.56, 2.17, 2.76, 1.70]),
        ("ptree", 250, [1.76, 2.46, 2.04, 1.21]),
        ("ptree", 650, [3.05, 3.55, 2.99, 1.73]),
        ("nvtree", 250, [2.47, 3.51, 5.78, 2.60]),
        ("nvtree", 650, [4.92, 6.46, 10.09, 4.79]),
        ("wbtree-bitmap", 250, [4.32, 5.16, 5.25, 4.26]),
        ("wbtree-bitmap", 650, [10.07, 10.63, 11.30, 9.31]),
    ];
    let mut claims = Vec::new();
    for (key_type, engine, latency, papers) in others {
        claims.extend(times(key_type, (engine, latency), ("fptree", latency), papers));
    }
    for (engine, latency, papers) in slowdowns {
        claims.extend(times(U64, (engine, latency), (engine, 90), papers));
    }
    claims
}

/// NV-Tree's slides: throughput of mixtures to that of the other trees.
pub fn nvtree_mixed() -> Vec<Quotient> {
    let of = |engine, percent, paper| Quotient {
        paper,
        key_type: U64,
        phase: Mixed,
        measure: Measure::Throughput,
        above: ("nvtree", percent),
        below: (engine, percent),
    };
    vec![of("lcbtree", 90, 6.6), of("cdds", 90, 10.0), of("lcbtree", 10, 2.0), of("cdds", 10, 2.8)]
}

/// What another tree takes to what the Circ-Tree takes.
fn to_circtree(phase: Phase, measure: Measure, engine: &'static str, place: u64, paper: f64) -> Quotient {
    Quotient { paper, key_type: U64, phase, measure, above: (engine, place), below: ("circtree", place) }
}

/// Circ-Tree, section 6.2: other trees to the Circ-Tree by node size. Where the paper prints by how much less the Circ-Tree takes, the quotient follows
/// from that.
pub fn circ_7() -> Vec<Quotient> {
    use Measure::{BytesFlushed, Flushes, GeomeanNs, P99Ns};
    vec![
        to_circtree(Insert, GeomeanNs, "fastfair", 512, 1.7),
        to_circtree(Insert, GeomeanNs, "fastfair", 1024, 2.7),
        to_circtree(Insert, GeomeanNs, "fastfair", 2048, 4.8),
        to_circtree(Insert, GeomeanNs, "fastfair", 4096, 8.6),
        to_circtree(Insert, GeomeanNs, "nvtree", 4096, 1.6),
        to_circtree(Insert, Flushes, "fastfair", 4096, 13.3),
        to_circtree(Insert, Flushes, "nvtree", 4096, 1.6),
        to_circtree(Insert, BytesFlushed, "fastfair", 4096, 37.8),
        to_circtree(Insert, BytesFlushed, "nvtree", 4096, 1.7),
        to_circtree(Insert, P99Ns, "fptree", 512, 1.289),
        to_circtree(Find, GeomeanNs, "fptree", 512, 1.056),
        to_circtree(Find, GeomeanNs, "fastfair", 4096, 1.0 / (1.0 - 0.071)),
        to_circtree(Find, GeomeanNs, "volatile-std", 4096, 1.0 / (1.0 - 0.071)),
    ]
}

/// Circ-Tree, section 6.3: FAST+FAIR to the Circ-Tree by what is added to a flush.
pub fn circ_8b() -> Vec<Quotient> {
    let papers = [(0, 2.5), (200, 3.9), (300, 4.8), (600, 5.5)];
    papers.map(|(ns, paper)| to_circtree(Insert, Measure::GeomeanNs, "fastfair", ns, paper)).to_vec()
}

/// Circ-Tree, section 6.4: with four and with eight threads.
pub fn circ_9() -> Vec<Quotient> {
    vec![
        to_circtree(Insert, Measure::GeomeanNs, "nvtree", 8, 2.9),
        to_circtree(Insert, Measure::GeomeanNs, "fastfair", 8, 3.2),
        to_circtree(Find, Measure::GeomeanNs, "circtree-ls", 8, 1.0 / (1.0 - 0.361)),
    ]
}

/// clfB-tree, section 7.4: the slot-only wBTree to the clfB-tree with append-only leaves.
pub fn clfb_8() -> Vec<Quotient> {
    let of = |phase, measure, paper| Quotient {
        paper,
        key_type: U64,
        phase,
        measure,
        above: ("wbtree-slot", LAST),
        below: ("clftree-append", LAST),
    };
    vec![of(Insert, Measure::Flushes, 4.1 / 2.7), of(Insert, Measure::MeanNs, 1.3), of(Find, Measure::MeanNs, 1.14)]
}
