//! Figures of a kind of their own.

use everleaf_pmem::Counter;

use super::axis::{Axis, DRAM_NS};
use super::sweep::keys_name;
use super::{Claim, Drawing, FigureOptions, Panel, Series, rebuild};
use crate::recovery::plan_recovery;
use crate::session::{ProgressTracker, Session};
use crate::{
    BenchError, BenchKeyType, MicroOptions, Order, Phase, RecoveryOptions,
    run_recovery_with_progress,
};

/// FPTree, section 4.2: keys that a search of a present key compares in a leaf with `m` entries,
/// with fingerprints of 256 values.
fn fptree_probes(m: f64) -> f64 {
    (1.0 + m / (256.0 * (1.0 - (255.0f64 / 256.0).powf(m)))) / 2.0
}

/// The same, exactly: each other key stands before the present one in half of the cases, and has
/// its fingerprint in one of 256.
fn fptree_probes_exactly(m: f64) -> f64 {
    1.0 + (m - 1.0) / 512.0
}

/// The least number of entries of which this is so.
fn min_entries(is_so: fn(f64) -> bool) -> f64 {
    f64::from((8..1 << 16).find(|m| is_so(f64::from(*m))).unwrap_or(0))
}

/// Entries of leaves whose trees are measured: those that the engines offer.
const LEAF_SLOTS: [u32; 6] = [4, 8, 16, 32, 48, 56];
/// Entries at which the formulas are drawn.
const FORMULA_PLACES: [u32; 11] = [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];

/// FPTree's Figure 4: probes of a leaf, by formula and counted.
pub fn fptree_4(options: &FigureOptions, drawing: &mut Drawing<'_, '_>) -> Result<(), BenchError> {
    let formula = |name: &str, of: fn(f64) -> f64| {
        let points = FORMULA_PLACES.map(f64::from).map(|m| [m, of(m)]);
        Series { from_paper: true, ..Series::of(name, points.into()) }
    };
    let mut series = vec![
        formula("FPTree by formula", fptree_probes),
        formula("FPTree exactly", fptree_probes_exactly),
        formula("wBTree by formula", |m| m.log2()),
        formula("NV-Tree by formula", |m| (m + 1.0) / 2.0),
    ];
    let mut sessions = Vec::new();
    for engine in drawing.available(&["fptree", "ptree", "nvtree", "wbtree-bitmap"]) {
        for slots in LEAF_SLOTS {
            let micro = MicroOptions {
                leaf_slots: Some(slots),
                ..options.micro(engine, &[Phase::Insert, Phase::Find])
            };
            match Session::shared(&micro) {
                Ok(session) => sessions.push((engine, slots, session)),
                Err(error) if error.is_wrong_usage() => {
                    let place = format!("{slots} entries");
                    drawing.leave_out_at(engine, &place, &error.to_string())
                }
                Err(error) => return Err(error),
            }
        }
    }
    if drawing.only_planned {
        return Ok(());
    }
    drawing.steps.extend(sessions.iter().map(|(.., session)| session.operations()).sum());
    let mut at_32 = Vec::new();
    for (engine, slots, session) in &sessions {
        let counts = session.phase_counts(&mut drawing.steps)?;
        let probes = counts[1].event(Counter::LeafProbes) as f64 / options.keys as f64;
        if *slots == 32 {
            at_32.push((*engine, probes));
        }
        Series::add(&mut series, engine, [f64::from(*slots), probes]);
    }
    let title = "keys compared in a leaf by a find";
    let curves = Panel::curves(title, "entries of a leaf", "keys compared", series);
    drawing.figure.panels.push(Panel { logarithmic: [true, true], ..curves });
    for (engine, name, paper) in
        [("fptree", "FPTree", 1.0), ("wbtree-bitmap", "wBTree", 5.0), ("nvtree", "NV-Tree", 16.0)]
    {
        let ours =
            at_32.iter().find(|(measured, _)| *measured == engine).map(|(_, probes)| *probes);
        let what = format!("{name}: keys compared with 32 entries in a leaf");
        drawing.figure.claims.push(Claim { what, paper, paper_to: None, ours });
    }
    let mut by_formula = |what: &str, paper, ours| {
        let what = format!("by formula: entries from which {what}");
        drawing.figure.claims.push(Claim { what, paper, paper_to: None, ours: Some(ours) });
    };
    let two = min_entries(|m| fptree_probes(m) >= 2.0);
    by_formula("an FPTree compares 2 keys", 400.0, two);
    let fewer = min_entries(|m| m.log2() < fptree_probes(m));
    by_formula("a wBTree compares fewer", 4096.0, fewer);
    Ok(())
}

/// Keys of trees of some sizes, and how many ms it takes to open them after a crash.
fn recoveries(
    options: &FigureOptions,
    drawing: &mut Drawing<'_, '_>,
    micro: &MicroOptions,
) -> Result<Vec<[f64; 2]>, BenchError> {
    let mut points = Vec::new();
    for keys in rebuild::recovered_keys(options) {
        let micro = MicroOptions { keys, ..micro.clone() };
        let recovery = RecoveryOptions {
            threads: vec![1],
            rounds: options.rounds,
            clean: false,
            image: true,
            micro,
        };
        if drawing.only_planned {
            plan_recovery(&recovery)?;
            continue;
        }
        let steps = &mut drawing.steps;
        let rows = run_recovery_with_progress(&recovery, &mut |progress| steps.pass_on(progress))?;
        points.push([rows[0].keys as f64, rows[0].recovery_ms]);
    }
    Ok(points)
}

/// What the paper prints of recoveries of the largest tree, by kind of keys and latency: the times
/// of other trees to that of the FPTree, and that of a full rebuild of the STXTree.
type Recoveries = (BenchKeyType, u64, &'static [(&'static str, f64)], f64);
const RECOVERIES: [Recoveries; 4] = [
    (BenchKeyType::U64, DRAM_NS, &[("ptree", 1.52), ("nvtree", 5.97)], 76.96),
    (BenchKeyType::U64, 650, &[("ptree", 2.93), ("nvtree", 6.38)], 29.62),
    (BenchKeyType::String16, DRAM_NS, &[], 24.68),
    (BenchKeyType::String16, 650, &[], 5.68),
];

/// FPTree's recovery, the last part of its Figure 7: how long trees of some sizes take to open
/// after a crash, by latency of persistent memory, and how long the transient tree takes to be made
/// again.
pub fn recovery(options: &FigureOptions, drawing: &mut Drawing<'_, '_>) -> Result<(), BenchError> {
    let rebuilt: Vec<_> = [BenchKeyType::U64, BenchKeyType::String16]
        .into_iter()
        .map(|key_type| rebuild::stx(options, key_type, drawing))
        .collect::<Result<_, _>>()?;
    for (key_type, latency, papers, to_rebuild) in RECOVERIES {
        let mut series = Vec::new();
        for engine in drawing.available(&["fptree", "ptree", "fptree-c", "nvtree"]) {
            let mut micro = MicroOptions { key_type, ..options.micro(engine, &[Phase::Insert]) };
            Axis::Latency(&[]).apply(latency, &mut micro);
            let points = recoveries(options, drawing, &micro)?;
            series.push(Series::of(engine, points));
        }
        series.extend(rebuilt[key_type as usize].iter().cloned());
        let keys = keys_name(key_type);
        let of = |name: &str| {
            let series = series.iter().find(|series| series.name == name)?;
            series.points.last().map(|at| at[1])
        };
        let rebuilds = rebuild::NAMES.map(|name| (name, to_rebuild));
        for (engine, paper) in papers.iter().copied().chain(rebuilds) {
            let ours = of(engine).zip(of("fptree")).map(|(other, fptree)| other / fptree);
            let what = format!(
                "recovery of the largest tree at {latency} ns, {keys}: {engine} to fptree (paper: \
                100 million keys)"
            );
            drawing.figure.claims.push(Claim { what, paper, paper_to: None, ours });
        }
        let title = format!("recovery after a crash, {keys}, {latency} ns");
        let curves = Panel::curves(title, "keys", "ms", series);
        drawing.figure.panels.push(Panel { logarithmic: [true, true], ..curves });
    }
    Ok(())
}

/// Circ-Tree's Table 1: how long trees of some sizes take to open after a crash, by the size of
/// their nodes.
pub fn recovery_by_node_bytes(
    options: &FigureOptions,
    drawing: &mut Drawing<'_, '_>,
) -> Result<(), BenchError> {
    // Of 1, 10 and 100 million keys, in ms.
    const PAPER: [(u32, [f64; 3]); 4] = [
        (512, [14.9, 154.1, 1772.9]),
        (1024, [8.8, 91.2, 1026.8]),
        (2048, [5.1, 54.0, 581.2]),
        (4096, [3.1, 34.4, 352.7]),
    ];
    for engine in drawing.available(&["circtree", "fastfair"]) {
        let mut series = Vec::new();
        for (node_bytes, papers) in PAPER {
            let micro = MicroOptions {
                node_bytes: Some(node_bytes),
                ..options.micro(engine, &[Phase::Insert])
            };
            let points = recoveries(options, drawing, &micro)?;
            if engine == "circtree" {
                let of_paper =
                    [1e6, 1e7, 1e8].into_iter().zip(papers).map(|(keys, ms)| [keys, ms]).collect();
                let name = format!("{node_bytes} bytes, the paper");
                series.push(Series { name, from_paper: true, points: of_paper });
                let ours = points.last().map(|[keys, ms]| ms / keys * 1e6);
                let what = format!(
                    "nodes of {node_bytes} bytes: ms a million keys, the largest tree (paper: 100 \
                    million keys)"
                );
                drawing.figure.claims.push(Claim::of(what, papers[2] / 100.0, ours));
            }
            series.push(Series::of(format!("{node_bytes} bytes"), points));
        }
        let title = format!("{engine}: recovery after a crash, 8-byte keys");
        let curves = Panel::curves(title, "keys", "ms", series);
        drawing.figure.panels.push(Panel { logarithmic: [true, true], ..curves });
    }
    Ok(())
}

/// Circ-Tree's section 6.2: the inner nodes of keys that come in ascending order, with nodes of 512
/// bytes and of 4 KB.
pub fn ascending_inner_nodes(
    options: &FigureOptions,
    drawing: &mut Drawing<'_, '_>,
) -> Result<(), BenchError> {
    let (mut points, engine) = (Vec::new(), "circtree");
    for (bytes, paper) in [(512, 1057.0), (4096, 17.0)] {
        let (node_bytes, order) = (Some(bytes), Order::Ascending);
        let of_engine = options.micro(engine, &[Phase::Insert]);
        let session = Session::shared(&MicroOptions { node_bytes, order, ..of_engine })?;
        if drawing.only_planned {
            continue;
        }
        drawing.steps.extend(session.operations());
        let nodes = session.shape(&mut drawing.steps)?.map(|shape| shape.inner_nodes as f64);
        points.extend(nodes.map(|nodes| [f64::from(bytes), nodes * f64::from(bytes)]));
        let what = format!("inner nodes of {bytes} bytes");
        drawing.figure.claims.push(Claim::of(what, paper, nodes));
    }
    if let [[_, small], [_, large]] = points[..] {
        let what = "space of inner nodes: nodes of 512 bytes to nodes of 4096 bytes";
        drawing.figure.claims.push(Claim::of(what, 7.8, Some(small / large)));
    }
    let title = format!("space of the inner nodes of {} keys in ascending order", options.keys);
    let series = vec![Series::of(engine, points)];
    drawing.figure.panels.push(Panel::curves(title, "bytes of a node", "bytes", series));
    Ok(())
}

/// FPTree's Figure 8: bytes of persistent memory and of DRAM, with the paper's sizes of nodes.
pub fn fptree_8(options: &FigureOptions, drawing: &mut Drawing<'_, '_>) -> Result<(), BenchError> {
    const KEYS: f64 = 100e6; // The paper's.
    let paper = [
        ("fptree", BenchKeyType::U64, 2.24e9, 64.12e6, 2.71),
        ("ptree", BenchKeyType::U64, f64::NAN, f64::NAN, 5.19),
        ("nvtree", BenchKeyType::U64, 3.62e9, 1.09e9, 23.19),
        ("fptree", BenchKeyType::String16, f64::NAN, 108.73e6, 1.76),
        ("ptree", BenchKeyType::String16, f64::NAN, 194.56e6, 3.78),
        ("nvtree", BenchKeyType::String16, f64::NAN, 1.20e9, 12.67),
    ];
    let available = drawing.available(&["fptree", "ptree", "nvtree"]);
    let (mut places, mut pm, mut dram) = (Vec::new(), Vec::new(), Vec::new());
    for (engine, key_type, pm_bytes, dram_bytes, percent) in paper {
        let keys = if key_type == BenchKeyType::U64 { "u64" } else { "string16" };
        let mut ours = None;
        if available.contains(&engine) {
            let micro = MicroOptions { key_type, ..options.micro(engine, &[Phase::Insert]) };
            // The paper's sizes where they are offered, or else the tuned ones.
            let session =
                Session::shared(&MicroOptions { inner_keys: Some(4096), ..micro.clone() })
                    .or_else(|_| Session::shared(&micro))?;
            if drawing.only_planned {
                continue;
            }
            drawing.steps.extend(session.operations());
            let shape = session.shape(&mut drawing.steps)?;
            ours = shape.map(|shape| {
                let each = |bytes: u64| bytes as f64 / options.keys as f64;
                (
                    each(shape.pm_bytes),
                    each(shape.dram_bytes),
                    100.0 * shape.dram_bytes as f64 / (shape.pm_bytes + shape.dram_bytes) as f64,
                )
            });
        }
        if let Some((pm_each, dram_each, _)) = ours {
            let place = places.len() as f64;
            places.push(format!("{engine}, {keys}"));
            pm.push([place, pm_each]);
            dram.push([place, dram_each]);
        }
        let mut claim = |what: &str, paper: f64, ours: Option<f64>| {
            if paper.is_finite() {
                let what = format!("{engine}, {keys}: {what}");
                drawing.figure.claims.push(Claim { what, paper, paper_to: None, ours });
            }
        };
        claim("bytes of persistent memory a key", pm_bytes / KEYS, ours.map(|ours| ours.0));
        claim("bytes of DRAM a key", dram_bytes / KEYS, ours.map(|ours| ours.1));
        claim("percent of the tree in DRAM", percent, ours.map(|ours| ours.2));
    }
    let series = vec![Series::of("persistent memory", pm), Series::of("DRAM", dram)];
    let title = format!("memory of {} keys", options.keys);
    drawing.figure.panels.push(Panel::bars(title, "bytes/key", places, series));
    Ok(())
}

impl Session {
    /// The sizes of an index after one run.
    fn shape(
        &self,
        steps: &mut ProgressTracker<'_>,
    ) -> Result<Option<everleaf_index::IndexStatistics>, BenchError> {
        use crate::key::String16;
        use crate::measure::{Measured, Unobserved};
        use crate::session::Describe;
        let mut shape = None;
        let mut after = |_, measured: Measured<Unobserved>, target: &dyn Describe| {
            shape = target.timed(measured.elapsed).statistics;
            Ok(())
        };
        match self.plan.options.key_type {
            BenchKeyType::U64 => self.run::<u64, _>(steps, "filled", &Unobserved, &mut after)?,
            BenchKeyType::String16 => {
                self.run::<String16, _>(steps, "filled", &Unobserved, &mut after)?
            }
        }
        Ok(shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formula_is_that_of_the_paper() {
        assert!((fptree_probes(1.0) - 1.0).abs() < 1e-12, "the one key that is there");
        assert!((fptree_probes(32.0) - 1.0).abs() < 0.05);
        assert!((fptree_probes(56.0) - 1.0557).abs() < 1e-3);
        assert!(fptree_probes(400.0) < 2.0 && fptree_probes(4096.0) > 8.0);
    }
}
