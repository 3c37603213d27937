//! FPTree's Table 1: the sizes of nodes with which each tree is fastest.

use super::sweep::keys_name;
use super::{Claim, Drawing, FigureOptions, Panel, Series};
use crate::BenchKeyType::{self, String16, U64};
use crate::compare::Spread;
use crate::session::Session;
use crate::{BenchError, Flush, MicroOptions, Phase};

/// A tree of the table with its sizes: keys of an inner node, entries of a leaf.
const TABLE: [(&str, BenchKeyType, [u32; 2]); 14] = [
    ("ptree", U64, [4096, 32]),
    ("fptree", U64, [4096, 56]),
    ("nvtree", U64, [128, 32]),
    ("wbtree-bitmap", U64, [32, 64]),
    ("stx", U64, [16, 16]),
    ("fptree-c", U64, [128, 64]),
    ("nvtree-c", U64, [128, 32]),
    ("ptree", String16, [256, 32]),
    ("fptree", String16, [2048, 56]),
    ("nvtree", String16, [128, 32]),
    ("wbtree-bitmap", String16, [32, 64]),
    ("stx", String16, [8, 8]),
    ("fptree-c", String16, [64, 64]),
    ("nvtree-c", String16, [128, 32]),
];

/// One of both sizes.
#[derive(Clone, Copy)]
enum Size {
    InnerKeys,
    LeafEntries,
}

impl Size {
    const BOTH: [Size; 2] = [Size::InnerKeys, Size::LeafEntries];

    const fn label(self) -> &'static str {
        match self {
            Size::InnerKeys => "keys of an inner node",
            Size::LeafEntries => "entries of a leaf",
        }
    }

    /// The sizes that are measured, where they are offered.
    const fn places(self) -> &'static [u32] {
        match self {
            Size::InnerKeys => &[4, 8, 16, 32, 64, 128, 256, 1024, 2048, 4096],
            Size::LeafEntries => &[4, 8, 16, 32, 48, 56, 64, 128],
        }
    }

    fn of(self, options: &mut MicroOptions) -> &mut Option<u32> {
        match self {
            Size::InnerKeys => &mut options.inner_keys,
            Size::LeafEntries => &mut options.leaf_slots,
        }
    }
}

/// A tree whose one size is measured.
struct Curve {
    engine: &'static str,
    key_type: BenchKeyType,
    size: Size,
    paper: u32,
    sessions: Vec<(u32, Session)>,
}

/// A session, if the engine offers these sizes.
fn offered(options: &MicroOptions) -> Result<Option<Session>, BenchError> {
    match Session::shared(options) {
        Ok(session) => Ok(Some(session)),
        Err(error) if error.is_wrong_usage() => Ok(None),
        Err(error) => Err(error),
    }
}

/// The trees of this release, each twice: one size after the other is measured, the other one being
/// the paper's where that is offered, or else the engine's own.
fn curves(
    options: &FigureOptions,
    drawing: &mut Drawing<'_, '_>,
) -> Result<Vec<Curve>, BenchError> {
    let available = drawing.available(&TABLE.map(|(engine, ..)| engine));
    let mut curves = Vec::new();
    for (engine, key_type, papers) in TABLE {
        if !available.contains(&engine) {
            continue;
        }
        let keys = keys_name(key_type);
        let phases = [Phase::Find, Phase::Insert, Phase::Update, Phase::Delete];
        let micro = MicroOptions {
            key_type,
            warm: options.keys,
            flush: Flush::Clwb,
            ..options.micro(engine, &phases)
        };
        for (at, size) in Size::BOTH.into_iter().enumerate() {
            let (other, mut micro) = (Size::BOTH[1 - at], micro.clone());
            *other.of(&mut micro) = Some(papers[1 - at]);
            if offered(&micro)?.is_none() {
                *other.of(&mut micro) = None;
                let sizes = format!("{} {}", papers[1 - at], other.label());
                let reason = format!("not offered with {sizes}: it has its own, {keys}");
                drawing.leave_out(engine, &reason);
            }
            let mut sessions = Vec::new();
            for place in size.places() {
                *size.of(&mut micro) = Some(*place);
                sessions.extend(offered(&micro)?.map(|session| (*place, session)));
            }
            curves.push(Curve { engine, key_type, size, paper: papers[at], sessions });
        }
    }
    Ok(curves)
}

impl Curve {
    /// Mean time of an operation of the four, by size.
    fn measure(
        &self,
        rounds: u32,
        drawing: &mut Drawing<'_, '_>,
    ) -> Result<Vec<[f64; 2]>, BenchError> {
        let mut points = Vec::new();
        for (place, session) in &self.sessions {
            let keys = session.plan.options.keys as f64;
            let mut times = Vec::new();
            for _ in 0..rounds {
                let seconds = session.seconds(&mut drawing.steps)?;
                times.push(seconds.iter().sum::<f64>() * 1e9 / keys / seconds.len() as f64);
            }
            points.push([f64::from(*place), Spread::of(&times).middle]);
        }
        Ok(points)
    }
}

/// Measures each size of each tree, and says with which a tree is fastest.
pub fn fptree_table_1(
    options: &FigureOptions,
    drawing: &mut Drawing<'_, '_>,
) -> Result<(), BenchError> {
    let curves = curves(options, drawing)?;
    if drawing.only_planned {
        return Ok(());
    }
    let sessions = curves.iter().flat_map(|curve| &curve.sessions);
    let operations: u64 = sessions.map(|(_, session)| session.operations()).sum();
    drawing.steps.extend(operations * u64::from(options.rounds));
    let mut panels: Vec<Panel> = Vec::new();
    for curve in &curves {
        let points = curve.measure(options.rounds, drawing)?;
        let fastest = points.iter().min_by(|one, other| one[1].total_cmp(&other[1]));
        let (label, keys) = (curve.size.label(), keys_name(curve.key_type));
        let what = format!("{}, {keys}: {label} with which it is fastest", curve.engine);
        let ours = fastest.map(|fastest| fastest[0]);
        drawing.figure.claims.push(Claim::of(what, curve.paper.into(), ours));
        let title = format!("find, insert, update and delete by {label}, {keys}");
        let series = Series::of(curve.engine, points);
        match panels.iter_mut().find(|panel| panel.title == title) {
            Some(panel) => panel.series.push(series),
            None => panels.push(Panel::curves(title, label, "ns/operation", vec![series])),
        }
    }
    drawing.figure.panels = panels;
    Ok(())
}
