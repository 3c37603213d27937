//! Figures of the clfB-tree that are of a kind of their own.

use std::collections::BTreeMap;

use everleaf_crash::Counts;
use everleaf_pmem::{Counter, Site};

use super::{Claim, Drawing, FigureOptions, Panel, Series, has_paper_order, key_bits};
use crate::compare::Spread;
use crate::session::Session;
use crate::{BenchError, Flush, MicroOptions, Phase};

/// Bits of the paper's keys.
pub const KEY_BITS: u32 = 31;

/// Columns of Tables 1 and 2.
const PARTS: [&str; 4] =
    ["inner nodes, split", "inner nodes, no split", "leaves, split", "leaves, no split"];

/// A row of Table 1 or 2: a size of leaves, and flushes by the columns. `splits` of leaves are
/// known from Table 1, whose first column has one flush for each.
struct TableRow {
    leaf_bytes: u32,
    parts: [f64; 4],
    splits: f64,
}

/// Of a million insertions.
const fn row(leaf_bytes: u32, splits: f64, parts: [f64; 4]) -> TableRow {
    TableRow { leaf_bytes, parts, splits }
}
const PAPER_KEYS: f64 = 1e6;
const ATOMIC: [TableRow; 4] = [
    row(64, 545_578.0, [545_578.0, 205_332.0, 1_091_156.0, 908_844.0]),
    row(128, 207_060.0, [207_060.0, 82_618.0, 828_240.0, 1_585_880.0]),
    row(256, 95_390.0, [95_390.0, 39_796.0, 763_120.0, 1_809_220.0]),
    row(512, 46_204.0, [46_204.0, 19_258.0, 739_264.0, 1_907_592.0]),
];
const IN_PLACE: [TableRow; 4] = [
    row(64, 545_578.0, [2_182_312.0, 239_990.0, 1_091_156.0, 908_844.0]),
    row(128, 207_060.0, [828_240.0, 92_224.0, 828_240.0, 1_585_880.0]),
    row(256, 95_390.0, [381_560.0, 45_804.0, 763_120.0, 1_809_220.0]),
    row(512, 46_204.0, [184_816.0, 22_034.0, 739_264.0, 1_907_592.0]),
];

/// Flushes of the sites whose names begin so.
fn flushes_of(flushes: &BTreeMap<Site, u64>, beginning: &str) -> u64 {
    flushes.iter().filter(|(site, _)| site.name().starts_with(beginning)).map(|(_, n)| n).sum()
}

/// The columns of the tables, counted. The root word is written with an inner node that is new.
fn parts_of(counts: &Counts) -> [f64; 4] {
    let of = |beginning| flushes_of(&counts.flushes, beginning);
    let root = of("clftree.publish.P2.root");
    let published = of("clftree.publish.") + of("clftree.paper.") + counts.line_writes - root;
    let new = of("clftree.split.P1.line") + root;
    [published, new, of("clftree.split.P1.leaf"), of("clftree.insert.")].map(|count| count as f64)
}

/// Counts all insertions in the order of the paper; none if they are only planned.
fn insertions(
    engine: &'static str,
    leaf_bytes: u32,
    options: &FigureOptions,
    drawing: &mut Drawing<'_, '_>,
) -> Result<Option<Counts>, BenchError> {
    let session = Session::shared(&MicroOptions {
        node_bytes: Some(leaf_bytes),
        paper_order: true,
        key_bits: key_bits(KEY_BITS, options.keys),
        ..options.micro(engine, &[Phase::Insert])
    })?;
    if drawing.only_planned {
        return Ok(None);
    }
    drawing.steps.extend(session.operations());
    Ok(session.phase_counts(&mut drawing.steps)?.into_iter().next())
}

/// Short-circuit shadowing, of which the paper prints the flushes of a line alone: those of all
/// insertions, and how many nodes were copied since the pointer to a copy could not be changed by
/// one store.
fn shadowing(options: &FigureOptions, drawing: &mut Drawing<'_, '_>) -> Result<(), BenchError> {
    const CAUSES: [(&str, Counter); 3] = [
        ("copies, for the pointer is the base", Counter::CascadesByBase),
        ("copies, for the pointer is wider", Counter::CascadesByWidth),
        ("copies, for the pointer lies in two words", Counter::CascadesByWords),
    ];
    let engines: [(&str, &[u32]); 2] =
        [("clftree-shadow", &[64, 128, 256, 512]), ("clftree-encoded-shadow", &[64])];
    for (engine, sizes) in engines {
        if drawing.available(&[engine]).is_empty() {
            continue;
        }
        let names = std::iter::once("flushes").chain(CAUSES.map(|(name, _)| name));
        let mut series: Vec<Series> = names.map(|name| Series::of(name, Vec::new())).collect();
        for leaf_bytes in sizes {
            let counted = insertions(engine, *leaf_bytes, options, drawing)?;
            let Some(counts) = counted else { continue };
            let flushes = flushes_of(&counts.flushes, "clftree.");
            let causes = CAUSES.map(|(_, cause)| counts.event(cause));
            for (series, count) in series.iter_mut().zip([flushes].into_iter().chain(causes)) {
                series.points.push([(*leaf_bytes).into(), count as f64]);
            }
            if sizes.len() == 1 {
                let what = "flushes of an insertion into a copied leaf (paper: without cascades)";
                let ours = Some(flushes as f64 / options.keys as f64);
                drawing.figure.claims.push(Claim::of(what, 2.0, ours));
            }
        }
        let title = format!("Section 4.1: {engine}, insert");
        let panel = Panel::curves(title, "bytes of a leaf", "flushes, copies", series);
        drawing.figure.panels.push(panel);
    }
    Ok(())
}

/// What section 5 says of wB-trees: flushes of an insertion without a split, by the sites of a leaf
/// and of its commit, and those of a split of a node of two lines, log and all.
fn wbtrees(options: &FigureOptions, drawing: &mut Drawing<'_, '_>) -> Result<(), BenchError> {
    const TREES: [(&str, &str, &str, f64); 2] = [
        ("wbtree-slot", "wbtree.slots.", "wbtree.slots.P2.array", 2.0),
        ("wbtree-bitmap", "wbtree.bitmap.", "wbtree.bitmap.B3.bitmap", 4.0),
    ];
    for (engine, leaf, commit, paper) in TREES {
        let session = Session::shared(&options.micro(engine, &[Phase::Insert]))?;
        if drawing.only_planned {
            continue;
        }
        drawing.steps.extend(session.operations());
        let counts = &session.phase_counts(&mut drawing.steps)?[0];
        let of = |beginning| flushes_of(&counts.flushes, beginning) as f64;
        let mut claim = |what: &str, paper, ours| {
            let what = format!("{engine}: flushes of {what}");
            let ours = Some(ours).filter(|ours: &f64| ours.is_finite());
            drawing.figure.claims.push(Claim { what, paper, paper_to: None, ours });
        };
        claim("an insertion without a split", paper, of(leaf) / of(commit));
        if engine == "wbtree-slot" {
            let splits = counts.event(Counter::LeafSplits) + counts.event(Counter::InnerSplits);
            let all = of("wbtree.split.") + of("wbtree.redo.") + of("wbtree.space.");
            claim("a split, 2k + 4 of k = 2 lines", 8.0, all / splits as f64);
        }
    }
    Ok(())
}

/// Tables 1 and 2: flushes of all insertions by what they are for, and by size of a leaf.
pub fn tables(options: &FigureOptions, drawing: &mut Drawing<'_, '_>) -> Result<(), BenchError> {
    for (number, engine, rows) in [(1, "clftree-append", ATOMIC), (2, "clftree-inplace", IN_PLACE)]
    {
        if drawing.available(&[engine]).is_empty() {
            continue;
        }
        let share = options.keys as f64 / PAPER_KEYS;
        let mut series: Vec<Series> = PARTS
            .iter()
            .flat_map(|part| [(format!("{part}: paper"), true), ((*part).to_owned(), false)])
            .map(|(name, from_paper)| Series { name, from_paper, points: Vec::new() })
            .collect();
        for TableRow { leaf_bytes, parts, splits } in rows {
            let Some(counts) = insertions(engine, leaf_bytes, options, drawing)? else { continue };
            let ours = parts_of(&counts);
            for (part, (paper, ours)) in parts.into_iter().zip(ours).enumerate() {
                series[2 * part].points.push([leaf_bytes.into(), (paper * share).round()]);
                series[2 * part + 1].points.push([leaf_bytes.into(), ours]);
            }
            let mut claim = |what: &str, paper: f64, ours| {
                let what = format!("Table {number}, leaves of {leaf_bytes} bytes: {what}");
                let (paper, ours) = ((paper * share).round(), Some(ours));
                drawing.figure.claims.push(Claim { what, paper, paper_to: None, ours });
            };
            claim("flushes in all, within 1 percent", parts.iter().sum(), ours.iter().sum());
            let split = counts.event(Counter::LeafSplits) as f64;
            claim("splits of leaves, within 2 percent", splits, split);
        }
        let title = format!("Table {number}: {engine}, insert");
        drawing.figure.panels.push(Panel::curves(title, "bytes of a leaf", "flushes", series));
    }
    shadowing(options, drawing)?;
    wbtrees(options, drawing)
}

/// A figure of the time of an operation in parts. A find is the search; what is left of a change
/// without its flushes and fences is the rest.
pub struct Breakdown {
    pub engines: &'static [&'static str],
    /// As [`Sweep::node_bytes`](super::sweep::Sweep::node_bytes).
    pub node_bytes: &'static [u32],
    /// Latencies that are added to reads and to flushes.
    pub added: [u64; 2],
    /// Engines, and the percent of an insertion's time that the paper has in flushes.
    pub claims: &'static [(&'static str, f64)],
}

impl Breakdown {
    const PHASES: [Phase; 4] = [Phase::Find, Phase::Insert, Phase::Update, Phase::Delete];

    /// Measures each engine with flushes and without, and draws the parts.
    pub fn measure(
        &self,
        options: &FigureOptions,
        drawing: &mut Drawing<'_, '_>,
    ) -> Result<(), BenchError> {
        let mut parts = Vec::new();
        for engine in drawing.available(self.engines) {
            let mut micro = MicroOptions {
                warm: options.keys,
                flush: Flush::Clflush,
                paper_order: has_paper_order(engine),
                key_bits: key_bits(KEY_BITS, options.keys),
                read_ns: self.added[0],
                ..options.micro(engine, &Self::PHASES)
            };
            let operations = match drawing.sized(self.node_bytes, &mut micro) {
                Ok(session) => session.operations(),
                Err(error) if error.is_wrong_usage() => {
                    drawing.leave_out(engine, &error.to_string());
                    continue;
                }
                Err(error) => return Err(error),
            };
            if drawing.only_planned {
                continue;
            }
            drawing.steps.extend(2 * u64::from(options.rounds) * operations);
            let flushing = MicroOptions { flush_ns: self.added[1], ..micro.clone() };
            let with = means(options, &flushing, drawing)?;
            let silent = MicroOptions { flush: Flush::None, ..micro };
            let without = means(options, &silent, drawing)?;
            drawing.figure.panels.push(Self::panel(engine, &with, &without));
            parts.push((engine, 100.0 * (with[1] - without[1]) / with[1]));
        }
        for (engine, paper) in self.claims {
            let ours = parts.iter().find(|(measured, _)| measured == engine).map(|found| found.1);
            let what = format!("{engine}, insert: percent of the time in flushes and fences");
            drawing.figure.claims.push(Claim { what, paper: *paper, paper_to: None, ours });
        }
        Ok(())
    }

    /// The parts of an engine's changes; nothing is less than nothing.
    fn panel(engine: &str, with: &[f64], without: &[f64]) -> Panel {
        let search = without[0];
        let part = |of: &dyn Fn(usize) -> f64| {
            (1..Self::PHASES.len()).map(|i| [i as f64 - 1.0, of(i).max(0.0)]).collect()
        };
        let series = vec![
            Series::of("search", part(&|i| search.min(without[i]))),
            Series::of("flushes and fences", part(&|i| with[i] - without[i])),
            Series::of("rest", part(&|i| without[i] - search)),
        ];
        let places = Self::PHASES[1..].iter().map(Phase::to_string).collect();
        Panel::bars(format!("{engine}: where the time goes"), "ns/operation", places, series)
    }
}

/// Nanoseconds of an operation of each phase: medians of the rounds.
fn means(
    options: &FigureOptions,
    micro: &MicroOptions,
    drawing: &mut Drawing<'_, '_>,
) -> Result<Vec<f64>, BenchError> {
    let mut seconds = vec![Vec::new(); micro.phases.len()];
    for _ in 0..options.rounds {
        let of_round = Session::shared(micro)?.seconds(&mut drawing.steps)?;
        seconds.iter_mut().zip(of_round).for_each(|(all, one)| all.push(one));
    }
    Ok(seconds.iter().map(|all| Spread::of(all).middle * 1e9 / micro.keys as f64).collect())
}
