//! Lines that an insertion flushes in an NV-Tree, in a B+-tree with a redo log, and in one of
//! versions, by size of a node and by what they are for.

use everleaf_crash::Counts;

use super::{Claim, Drawing, FigureOptions, Panel, Series};
use crate::session::Session;
use crate::{BenchError, MicroOptions, Phase};

/// Bytes of the element array, as on the slides.
pub const NODE_BYTES: [u32; 4] = [512, 1024, 2048, 4096];

/// A tree that is counted, and what its flushes are for: how the names of their sites begin.
struct Counted {
    name: &'static str,
    engine: &'static str,
    log_ranges: bool,
    parts: &'static [(&'static str, &'static [&'static str])],
}

const NVTREE: &[(&str, &[&str])] = &[
    ("element", &["nvtree.append.P1."]),
    ("count", &["nvtree.append.P2."]),
    ("split and replacement", &["nvtree.split."]),
];
const LOGGED: &[(&str, &[&str])] = &[
    ("log", &["lcbtree.log.P1.records", "lcbtree.log.P2."]),
    ("sorted nodes, in place", &["lcbtree.log.P1.place"]),
    ("split", &["lcbtree.split."]),
];
/// What the slides say of the CDDS-Tree's flushes: those that sort its nodes.
const SORTING: &str = "moves in sorted nodes";
const VERSIONS: &[(&str, &[&str])] = &[
    (SORTING, &["cdds.shift.", "cdds.end."]),
    ("version", &["cdds.commit."]),
    ("split", &["cdds.split."]),
];
const TREES: [Counted; 4] = [
    Counted { name: "nvtree", engine: "nvtree", log_ranges: false, parts: NVTREE },
    Counted {
        name: "lcbtree, log of whole nodes",
        engine: "lcbtree",
        log_ranges: false,
        parts: LOGGED,
    },
    Counted { name: "lcbtree, log of ranges", engine: "lcbtree", log_ranges: true, parts: LOGGED },
    Counted { name: "cdds", engine: "cdds", log_ranges: false, parts: VERSIONS },
];

/// Flushes of the sites whose names begin in one of these ways.
fn flushes_of(counts: &Counts, beginnings: &[&str]) -> u64 {
    let begins = |name: &str| beginnings.iter().any(|beginning| name.starts_with(beginning));
    counts.flushes.iter().filter(|(site, _)| begins(site.name())).map(|(_, n)| n).sum()
}

fn panel(title: String, series: Vec<Series>) -> Panel {
    Panel::curves(title, "bytes of a node", "lines flushed", series)
}

/// How much of a tree's flushes sort its nodes, where that is counted.
fn sorting(drawing: &mut Drawing<'_, '_>, whole: &Series, parts: &[Series]) {
    let Some(part) = parts.iter().find(|part| part.name == SORTING) else { return };
    for ([bytes, all], [_, sorting]) in whole.points.iter().zip(&part.points) {
        let what = format!("percent of the flushes of {} that sort, {bytes} bytes", whole.name);
        drawing.figure.claims.push(Claim::of(what, 90.0, Some(100.0 * sorting / all)));
    }
}

/// Counts the insertions of each tree at each size.
pub fn measure(options: &FigureOptions, drawing: &mut Drawing<'_, '_>) -> Result<(), BenchError> {
    let line = |name: &str| Series::of(name, Vec::new());
    let (mut all, mut panels) = (Vec::new(), Vec::new());
    for tree in TREES {
        if drawing.available(&[tree.engine]).is_empty() {
            continue;
        }
        let mut whole = line(tree.name);
        let mut parts: Vec<Series> = tree.parts.iter().map(|(name, _)| line(name)).collect();
        for bytes in NODE_BYTES {
            let session = Session::shared(&MicroOptions {
                node_bytes: Some(bytes),
                log_ranges: tree.log_ranges,
                ..options.micro(tree.engine, &[Phase::Insert])
            })?;
            if drawing.only_planned {
                continue;
            }
            drawing.steps.extend(session.operations());
            let counts = &session.phase_counts(&mut drawing.steps)?[0];
            let each = |flushes: u64| [f64::from(bytes), flushes as f64 / options.keys as f64];
            whole.points.push(each(flushes_of(counts, &["nvtree.", "lcbtree.", "cdds."])));
            for (part, (_, beginnings)) in parts.iter_mut().zip(tree.parts) {
                part.points.push(each(flushes_of(counts, beginnings)));
            }
        }
        sorting(drawing, &whole, &parts);
        all.push(whole);
        panels.push(panel(format!("{}: what an insertion flushes", tree.name), parts));
    }
    if drawing.only_planned {
        return Ok(());
    }
    let Some((nvtree, others)) = all.split_first() else { return Ok(()) };
    for other in others {
        for ([bytes, ours], [_, theirs]) in nvtree.points.iter().zip(&other.points) {
            drawing.figure.claims.push(Claim {
                what: format!("percent fewer than {}, {bytes} bytes", other.name),
                paper: 82.0,
                paper_to: Some(96.0),
                ours: Some(100.0 * (1.0 - ours / theirs)),
            });
        }
    }
    drawing.figure.panels.push(panel("insert: lines flushed".into(), all));
    drawing.figure.panels.extend(panels);
    Ok(())
}
