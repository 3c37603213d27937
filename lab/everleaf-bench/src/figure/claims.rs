//! What the papers say in numbers: time of one engine to that of another, or to its own at another
//! place.

use super::Form::{self, PercentLess, PercentMore, Times, Value};
use super::LAST;
use super::axis::Measure;
use super::sweep::Quotient;
use super::ycsb::{Said, Shown};
use crate::BenchKeyType::{self, String16, U64};
use crate::Phase::{self, Delete, Find, Insert, Mixed, Update};
use crate::ycsb::Distribution::{self, Uniform, Zipfian};
use crate::ycsb::Workload;

/// Nothing is printed.
pub fn none<C>() -> Vec<C> {
    Vec::new()
}

/// The value of one engine at a place to that of another, of 8-byte keys.
const fn quotient(
    (phase, measure): (Phase, Measure),
    above: (&'static str, u64),
    below: (&'static str, u64),
    paper: f64,
) -> Quotient {
    Quotient {
        paper,
        paper_to: None,
        paper_at: "",
        form: Times,
        key_type: U64,
        phase,
        measure,
        above,
        below,
    }
}

/// The value of an engine itself.
const fn value(shown: (Phase, Measure), at: (&'static str, u64), paper: f64) -> Quotient {
    Quotient { form: Value, ..quotient(shown, at, at, paper) }
}

const FPTREE_PHASES: [Phase; 4] = [Find, Insert, Update, Delete];

/// Times of `above` to `below`, in the order of the paper's phases.
fn times(
    key_type: BenchKeyType,
    above: (&'static str, u64),
    below: (&'static str, u64),
    papers: [f64; 4],
) -> impl Iterator<Item = Quotient> {
    let of = move |(phase, paper)| Quotient {
        key_type,
        ..quotient((phase, Measure::MeanNs), above, below, paper)
    };
    FPTREE_PHASES.into_iter().zip(papers).map(of)
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
    let stx = [
        (90, Find, true, 2.10),
        (90, Insert, true, 1.13),
        (90, Update, true, 1.71),
        (90, Delete, true, 1.22),
        (650, Find, true, 1.23),
        (650, Update, true, 1.02),
        (650, Insert, false, 2.04),
        (650, Delete, false, 1.99),
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
    for (latency, phase, fptree_wins, paper) in stx {
        let (fptree, stx) = (("fptree", latency), ("stx", latency));
        let (above, below) = if fptree_wins { (stx, fptree) } else { (fptree, stx) };
        let shown = (phase, Measure::MeanNs);
        claims.push(Quotient { key_type: String16, ..quotient(shown, above, below, paper) });
    }
    for (engine, latency, papers) in slowdowns {
        claims.extend(times(U64, (engine, latency), (engine, 90), papers));
    }
    claims
}

/// FPTree, section 6.4: speedups with 22 threads on 22 cores; ours are those of the most threads.
pub fn fptree_9() -> Vec<Quotient> {
    let printed = [
        (Find, 18.3, 16.4),
        (Insert, 18.4, 11.5),
        (Update, 18.3, 14.1),
        (Delete, 18.5, 11.2),
        (Mixed, 18.4, 15.1),
    ];
    let of = |engine, phase, paper| Quotient {
        paper_at: "22 threads, here the most",
        ..value((phase, Measure::Speedup), (engine, LAST), paper)
    };
    let of_phase =
        |(phase, fptree, nvtree)| [of("fptree-c", phase, fptree), of("nvtree-c", phase, nvtree)];
    printed.into_iter().flat_map(of_phase).collect()
}

/// NV-Tree's slides: insertion time of the other trees to its own, by number of keys.
pub fn nvtree_insert() -> Vec<Quotient> {
    let of = |(back, keys): (u64, &'static str), engine, paper| {
        let (shown, place) = ((Insert, Measure::MeanNs), LAST - back);
        Quotient { paper_at: keys, ..quotient(shown, (engine, place), ("nvtree", place), paper) }
    };
    let sizes = [(2, "1 million keys"), (1, "10 million keys"), (0, "100 million keys")];
    let printed = [(15.2, 8.0), (6.3, 9.7), (5.3, 8.2)];
    sizes
        .into_iter()
        .zip(printed)
        .flat_map(|(size, (lcb, cdds))| [of(size, "lcbtree", lcb), of(size, "cdds", cdds)])
        .collect()
}

/// NV-Tree's slides: insertion time of consistent trees to that of one that is not.
pub fn nvtree_motivation() -> Vec<Quotient> {
    let of = |engine, paper| Quotient {
        paper_at: "without saying with which node",
        ..quotient((Insert, Measure::MeanNs), (engine, 1024), ("volatile-std", 1024), paper)
    };
    vec![of("lcbtree", 16.0), of("cdds", 20.0)]
}

/// NV-Tree's slides: update time of the other trees to its own.
pub fn nvtree_operations() -> Vec<Quotient> {
    let of = |engine, paper| Quotient {
        paper_at: "without saying with which node",
        ..quotient((Update, Measure::MeanNs), (engine, 1024), ("nvtree", 1024), paper)
    };
    vec![of("lcbtree", 5.6), of("cdds", 8.5)]
}

/// NV-Tree's slides: by how many percent it loads and misses less.
pub fn nvtree_misses() -> Vec<Quotient> {
    let less = |measure, engine, paper| Quotient {
        paper_at: "at the most",
        ..percent(PercentLess, (Insert, measure), ("nvtree", 4096), (engine, 4096), paper)
    };
    vec![
        less(Measure::LinesRead, "lcbtree", 90.0),
        less(Measure::LinesRead, "cdds", 92.0),
        less(Measure::Misses, "lcbtree", 83.0),
        less(Measure::Misses, "cdds", 90.0),
    ]
}

/// NV-Tree's slides: throughput of mixtures to that of the other trees.
pub fn nvtree_mixed() -> Vec<Quotient> {
    let of = |engine, percent, paper| {
        quotient((Mixed, Measure::Throughput), ("nvtree", percent), (engine, percent), paper)
    };
    vec![of("lcbtree", 90, 6.6), of("cdds", 90, 10.0), of("lcbtree", 10, 2.0), of("cdds", 10, 2.8)]
}

/// What another tree takes to what the Circ-Tree takes.
fn to_circtree(
    phase: Phase,
    measure: Measure,
    engine: &'static str,
    place: u64,
    paper: f64,
) -> Quotient {
    quotient((phase, measure), (engine, place), ("circtree", place), paper)
}

/// By how many percent the one takes more, or less, than the other.
fn percent(
    form: Form,
    shown: (Phase, Measure),
    above: (&'static str, u64),
    below: (&'static str, u64),
    paper: f64,
) -> Quotient {
    Quotient { form, ..quotient(shown, above, below, paper) }
}

/// Circ-Tree, section 6.2: other trees to the Circ-Tree by node size, in the paper's own terms.
pub fn circ_7() -> Vec<Quotient> {
    use Measure::{BytesFlushed, Flushes, GeomeanNs, P99Ns};
    let shorter =
        |other| percent(PercentLess, (Find, GeomeanNs), ("circtree", 4096), (other, 4096), 7.1);
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
        percent(PercentMore, (Insert, P99Ns), ("fptree", 512), ("circtree", 512), 28.9),
        percent(PercentMore, (Find, GeomeanNs), ("fptree", 512), ("circtree", 512), 5.6),
        shorter("fastfair"),
        shorter("volatile-std"),
    ]
}

/// Circ-Tree, section 6.3: FAST+FAIR to the Circ-Tree by what is added to a flush.
pub fn circ_8b() -> Vec<Quotient> {
    let papers = [(0, 2.5), (200, 3.9), (300, 4.8), (600, 5.5)];
    papers
        .map(|(ns, paper)| to_circtree(Insert, Measure::GeomeanNs, "fastfair", ns, paper))
        .to_vec()
}

/// Circ-Tree, section 6.3: by how much more insertions take with ten times the keys.
pub fn circ_8a() -> Vec<Quotient> {
    let of = |engine, paper| Quotient {
        form: PercentMore,
        paper_at: "100 million keys to 10 million",
        ..quotient((Insert, Measure::GeomeanNs), (engine, LAST), (engine, LAST - 1), paper)
    };
    vec![of("fastfair", 6.5), of("circtree", 29.5)]
}

/// Circ-Tree, section 6.4: with four and with eight threads. The gap between the searches of
/// FAST+FAIR and the Circ-Tree is printed without a word of which takes less, and of what it is a
/// part: it is read as the other two percentages of searches are printed, by how much less the
/// Circ-Tree takes.
pub fn circ_9() -> Vec<Quotient> {
    const TIME: Measure = Measure::GeomeanNs;
    let grown =
        |engine, paper| percent(PercentMore, (Insert, TIME), (engine, 8), (engine, 4), paper);
    let shorter = |threads, other, paper| {
        percent(PercentLess, (Find, TIME), ("circtree", threads), (other, threads), paper)
    };
    vec![
        to_circtree(Insert, TIME, "nvtree", 8, 2.9),
        to_circtree(Insert, TIME, "fastfair", 8, 3.2),
        grown("fastfair", 6.0),
        grown("circtree", 19.5),
        shorter(4, "fastfair", 11.6),
        shorter(8, "fastfair", 5.9),
        shorter(8, "circtree-ls", 36.1),
    ]
}

/// clfB-tree, Tables 1 and 2: flushes of an insertion by size of a leaf, parents updated atomically
/// and in place. Section 7.2: flushes and times of append-only leaves to those of encoded ones.
pub fn clfb_6() -> Vec<Quotient> {
    let sizes = [64, 128, 256, 512];
    let of = |engine: &'static str, papers: [f64; 4]| {
        sizes
            .into_iter()
            .zip(papers)
            .map(move |(bytes, paper)| value((Insert, Measure::Flushes), (engine, bytes), paper))
    };
    let atomic = of("clftree-append", [2.750910, 2.703798, 2.707526, 2.712318]);
    let in_place = of("clftree-inplace", [4.422302, 3.334584, 2.999704, 2.853706]);
    let encoded = ("clftree-encoded", 64);
    let more = |engine, paper| {
        percent(PercentMore, (Insert, Measure::MeanNs), (engine, 64), encoded, paper)
    };
    let to_encoded = [
        quotient((Insert, Measure::Flushes), ("clftree-append", 64), encoded, 2.0),
        more("clftree-append", 29.0),
        more("clftree-inplace", 41.0),
    ];
    atomic.chain(in_place).chain(to_encoded).collect()
}

/// clfB-tree, section 7.4: flushes of both, and by how much more the slot-only wBTree takes than
/// the clfB-tree with append-only leaves.
pub fn clfb_8() -> Vec<Quotient> {
    let (wbtree, clfbtree) = (("wbtree-slot", LAST), ("clftree-append", LAST));
    let more = |phase, paper, to| {
        let (form, paper_to) = (PercentMore, Some(to));
        Quotient { form, paper_to, ..quotient((phase, Measure::MeanNs), wbtree, clfbtree, paper) }
    };
    let flushes = |at, paper| value((Insert, Measure::Flushes), at, paper);
    vec![
        flushes(clfbtree, 2.7),
        flushes(wbtree, 4.1),
        more(Insert, 28.0, 33.0),
        more(Find, 11.0, 17.0),
    ]
}

/// By how much less the throughput of one engine at a place is than that of another, in workload A.
const fn less(
    distribution: Distribution,
    above: (&'static str, u64),
    below: (&'static str, u64),
    paper: f64,
) -> Said {
    let (workload, shown, form) = (Workload::A, Shown::Throughput, PercentLess);
    Said { paper, paper_to: None, paper_at: "", form, workload, distribution, shown, above, below }
}

/// Durable Masstree, section 6.1: to the transient tree, by workload; the paper's range holds both
/// distributions.
pub fn incll_2() -> Vec<Said> {
    let printed = [(Workload::A, 10.3, 15.4), (Workload::B, 5.9, 13.9), (Workload::C, 7.9, 13.5)];
    let of = |distribution, (workload, paper, to)| Said {
        workload,
        paper_to: Some(to),
        ..less(distribution, ("masstree", 0), ("masstree-transient", 0), paper)
    };
    printed.into_iter().flat_map(|printed| [of(Uniform, printed), of(Zipfian, printed)]).collect()
}

/// Durable Masstree, section 6.1 (Figure 3): with 1000 ns added to a fence, to itself without.
pub fn incll_3() -> Vec<Said> {
    let of = |distribution, paper| less(distribution, ("masstree", 1000), ("masstree", 0), paper);
    vec![of(Uniform, 4.3), of(Zipfian, 6.0)]
}

/// Durable Masstree, section 6.1 (Figure 4): to the transient tree, with 1 to 56 threads.
pub fn incll_4() -> Vec<Said> {
    let of = |distribution, paper, to| Said {
        paper_to: Some(to),
        paper_at: "1 to 56 threads, here the most",
        ..less(distribution, ("masstree", LAST), ("masstree-transient", LAST), paper)
    };
    vec![of(Uniform, 14.6, 21.3), of(Zipfian, 3.0, 19.3)]
}

/// Durable Masstree, section 6.1 (Figure 5): the largest tree to the smallest.
pub fn incll_5() -> Vec<Said> {
    let of = |engine, distribution, paper| Said {
        paper_at: "100 million keys to 10 thousand",
        ..less(distribution, (engine, LAST), (engine, LAST - 3), paper)
    };
    let engines = ["masstree-transient", "masstree"].into_iter();
    engines.flat_map(|engine| [of(engine, Uniform, 69.0), of(engine, Zipfian, 50.0)]).collect()
}

/// Numbers of keys of Durable Masstree's Figure 7 at which nodes that are logged are counted.
pub const INCLL_7_KEYS: [u64; 5] = [10_000, 100_000, 1_000_000, 3_000_000, 10_000_000];

/// Durable Masstree, Figure 7: nodes logged in an epoch of 400,000 updates, with and without logs
/// in cache lines, in nodes that random insertions have filled. The paper draws them; these are
/// what its layout comes to: without, all nodes that are updated; with, those of which two entries
/// of a line are.
pub fn incll_7() -> Vec<Quotient> {
    let due = [
        ("masstree", [1005.0, 10_105.0, 78_400.0, 73_900.0, 32_800.0]),
        ("masstree-logging", [1005.0, 10_105.0, 98_500.0, 219_000.0, 328_000.0]),
    ];
    let of = |(engine, numbers): (&'static str, [f64; 5])| {
        INCLL_7_KEYS.into_iter().zip(numbers).map(move |(keys, paper)| Quotient {
            paper,
            paper_to: None,
            paper_at: "",
            form: Form::Value,
            key_type: BenchKeyType::U64,
            phase: Phase::Update,
            measure: Measure::NodesLogged,
            above: (engine, keys),
            below: (engine, keys),
        })
    };
    due.into_iter().flat_map(of).collect()
}

/// Durable Masstree, section 6.1 (Figure 8): as Figure 3, measured again, and without logs in cache
/// lines.
pub fn incll_8() -> Vec<Said> {
    let of = |engine, distribution, paper| less(distribution, (engine, 1000), (engine, 0), paper);
    vec![
        of("masstree", Uniform, 4.1),
        of("masstree", Zipfian, 5.7),
        of("masstree-logging", Uniform, 42.5),
        of("masstree-logging", Zipfian, 28.5),
    ]
}

/// Circ-Tree, section 6.6 (Figures 10a and 11a): 99th percentiles of loading, the store over a
/// Circ-Tree to others.
fn loading(threads: u64, nvtree: f64, fastfair: f64) -> Vec<Said> {
    let of = |other, paper| Said {
        shown: Shown::P99,
        ..less(Zipfian, ("store:circtree", threads), (other, threads), paper)
    };
    vec![of("store:nvtree", nvtree), of("store:fastfair", fastfair)]
}

/// Nodes of 2048 bytes, two threads.
pub fn circ_10() -> Vec<Said> {
    loading(2, 29.3, 25.4)
}

/// Nodes of 4096 bytes, eight threads.
pub fn circ_11() -> Vec<Said> {
    loading(8, 23.7, 47.4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_the_papers_are_whole() {
        let papers =
            |claims: Vec<Quotient>| claims.iter().map(|claim| claim.paper).collect::<Vec<_>>();
        assert_eq!(papers(nvtree_insert()), [15.2, 8.0, 6.3, 9.7, 5.3, 8.2]);
        assert_eq!(
            papers(fptree_9()).iter().step_by(2).copied().collect::<Vec<_>>(),
            [18.3, 18.4, 18.3, 18.5, 18.4]
        );
        let of_stx = |claim: &&Quotient| claim.above.0 == "stx" || claim.below.0 == "stx";
        assert_eq!(fptree_7().iter().filter(of_stx).count(), 8);
        assert_eq!(papers(clfb_6()).len(), 11);
        assert_eq!(
            papers(circ_7()),
            [1.7, 2.7, 4.8, 8.6, 1.6, 13.3, 1.6, 37.8, 1.7, 28.9, 5.6, 7.1, 7.1]
        );
        assert_eq!(papers(circ_9()), [2.9, 3.2, 6.0, 19.5, 11.6, 5.9, 36.1]);
        assert_eq!((clfb_8()[2].paper, clfb_8()[2].paper_to), (28.0, Some(33.0)));
        assert!(incll_4().iter().all(|said| said.paper_to.is_some_and(|to| to > said.paper)));
    }
}
