//! clfB-tree's Figure 5: bytes that differences take, and how much fuller inner nodes are by them.

use std::ops::RangeInclusive;

use everleaf::internal::U64Keys;
use everleaf_engines::inner_encodings;

use super::clfb::KEY_BITS;
use super::clfb_counts::{Encodings, WIDTHS};
use super::clfb_heap::{Buddy, Model};
use super::{Claim, Drawing, FigureOptions, Panel, Series, key_bits, number};
use crate::measure::Unobserved;
use crate::session::{ProgressTracker, Session};
use crate::workload::Workload;
use crate::{BenchError, MicroOptions, Phase, Subject};

const ENGINE: &str = "clftree-append";

/// The encodings of a tree with the keys that the session has to warm up.
fn of_tree(session: &Session, steps: &mut ProgressTracker<'_>) -> Result<Encodings, BenchError> {
    let mut found = Encodings::default();
    let Subject::Index(engine) = session.plan.subject else { return Ok(found) };
    steps.extend(session.plan.options.warm);
    let media = session.hardware(session.region()?)?;
    let (pool, target) = session.index::<u64, _>(engine, media)?;
    let workloads = [Workload::new(&session.plan, 0)];
    session.warm_up(steps, "encoded", &mut [target], &workloads, &Unobserved)?;
    inner_encodings::<U64Keys, _>(&pool, &mut |node| {
        found.add(node.children, node.key_bytes, node.own_bytes);
    })?;
    Ok(found)
}

/// Those of the same keys in a buddy heap, by the model.
fn in_a_buddy_heap(session: &Session) -> Encodings {
    let mut model = Model::new(Buddy::default());
    let workload = Workload::new(&session.plan, 0);
    (0..session.plan.options.warm).for_each(|place| model.insert(workload.key(place)));
    model.encodings()
}

/// One of the counts by number of bytes.
type Counted = fn(&Encodings) -> &[u64; WIDTHS];

/// Percent of all by number of bytes.
fn shares(counts: &[u64; WIDTHS]) -> Option<[f64; WIDTHS]> {
    let all: u64 = counts.iter().sum();
    (all > 0).then(|| counts.map(|count| 100.0 * count as f64 / all as f64))
}

/// The most frequent number of bytes.
fn most_frequent(counts: &[u64; WIDTHS]) -> Option<f64> {
    let most = counts.iter().max().filter(|most| **most > 0)?;
    counts.iter().position(|count| count == most).map(|place| place as f64 + 1.0)
}

/// A tree with leaves of 512 bytes that is filled with so many keys.
fn filled(options: &FigureOptions, keys: u64) -> MicroOptions {
    MicroOptions {
        keys: 1,
        warm: keys,
        node_bytes: Some(512),
        key_bits: key_bits(KEY_BITS, keys),
        ..options.micro(ENGINE, &[Phase::Find])
    }
}

/// 1,000, 10,000, .. keys, and as many as are asked for.
fn places(keys: u64) -> Vec<u64> {
    let powers = std::iter::successors(Some(1000), |place| Some(place * 10));
    powers.take_while(|place| *place < keys).chain([keys]).collect()
}

/// Trees of all sizes, with children as numbers of lines or of bytes, or of bytes of a buddy heap.
fn by_keys(
    options: &FigureOptions,
    (paper_order, buddy): (bool, bool),
    drawing: &mut Drawing<'_, '_>,
) -> Result<Vec<(u64, Encodings)>, BenchError> {
    let mut found = Vec::new();
    for keys in places(options.keys) {
        let session = Session::shared(&MicroOptions { paper_order, ..filled(options, keys) })?;
        if !drawing.only_planned {
            let encodings = match buddy {
                true => in_a_buddy_heap(&session),
                false => of_tree(&session, &mut drawing.steps)?,
            };
            found.push((keys, encodings));
        }
    }
    Ok(found)
}

/// Bars: the shares of each number of bytes, by number of keys.
fn bars(title: &str, found: &[(u64, Encodings)], of: Counted) -> Panel {
    let shown: Vec<_> =
        found.iter().filter_map(|(keys, found)| Some((keys, shares(of(found))?))).collect();
    let of_width = |width: usize| {
        let points: Vec<[f64; 2]> =
            (0..).zip(&shown).map(|(at, (_, of))| [f64::from(at), of[width - 1]]).collect();
        let name = if width == 1 { "1 byte".to_owned() } else { format!("{width} bytes") };
        Series::of(name, points)
    };
    let used = |series: &Series| series.points.iter().any(|point| point[1] > 0.0);
    let places = shown.iter().map(|(keys, _)| keys.to_string()).collect();
    let series = (1..=WIDTHS).map(of_width).filter(used).collect();
    let bars = Panel::bars(title, "percent of inner nodes", places, series);
    Panel { x_label: "keys".into(), ..bars }
}

/// Curves of the utilisation.
fn utilisation(x_label: &str, series: Vec<Series>) -> Panel {
    let title = "children of an inner node to those of a line without an encoding";
    Panel::curves(title, x_label, "percent", series)
}

/// Figures 5a and 5b, by number of keys.
pub fn by_number_of_keys(
    options: &FigureOptions,
    drawing: &mut Drawing<'_, '_>,
) -> Result<(), BenchError> {
    if drawing.available(&[ENGINE]).is_empty() {
        return Ok(());
    }
    let of_bytes = by_keys(options, (true, false), drawing)?;
    let of_buddies = by_keys(options, (true, true), drawing)?;
    let of_lines = by_keys(options, (false, false), drawing)?;
    if drawing.only_planned {
        return Ok(());
    }
    claims("", &of_bytes, drawing);
    claims("buddy heap: ", &of_buddies, drawing);
    let curve = |name: &str, found: &[(u64, Encodings)]| {
        let point = |(keys, found): &(u64, Encodings)| Some([*keys as f64, found.utilisation()?]);
        Series::of(name, found.iter().filter_map(point).collect())
    };
    drawing.figure.panels.extend([
        bars("differences of children in bytes, the paper's", &of_bytes, |of| &of.by_child_bytes),
        bars("the same in a buddy heap, by a model", &of_buddies, |of| &of.by_child_bytes),
        bars("differences of children in lines", &of_lines, |of| &of.by_child_bytes),
        bars("differences of keys", &of_lines, |of| &of.by_key_bytes),
        utilisation(
            "keys",
            vec![
                curve("children in bytes", &of_bytes),
                curve("children in bytes, buddy heap", &of_buddies),
                curve("children in lines", &of_lines),
            ],
        ),
    ]);
    Ok(())
}

/// What section 7.1 says, of trees whose children are numbers of bytes.
fn claims(heap: &str, found: &[(u64, Encodings)], drawing: &mut Drawing<'_, '_>) {
    let at = |keys: u64| found.iter().find(|(place, _)| *place == keys).map(|(_, found)| found);
    let largest = found.last().map(|(_, found)| found);
    let share = |found: Option<&Encodings>, of: Counted, bytes: RangeInclusive<usize>| {
        let shares = found.and_then(|found| shares(of(found)))?;
        Some(bytes.map(|bytes| shares[bytes - 1]).sum::<f64>())
    };
    let nodes: Counted = |of| &of.by_child_bytes;
    let pointers: Counted = |of| &of.children_by_bytes;
    let of_most_keys =
        |found: Option<&Encodings>| found.and_then(|of| most_frequent(&of.by_key_bytes));
    let large = "the most keys (paper: 10 million)";
    let small = "100,000 keys";
    for (what, paper, ours) in [
        (
            format!("percent of inner nodes with 4 bytes a child, {large}"),
            80.2,
            share(largest, nodes, 4..=4),
        ),
        (
            format!("percent of children whose own difference takes 4 bytes, {large}"),
            80.2,
            share(largest, pointers, 4..=4),
        ),
        (
            format!("percent of inner nodes with more than 4 bytes a child, {large}"),
            0.0,
            share(largest, nodes, 5..=WIDTHS),
        ),
        (
            format!("percent of inner nodes with 3 bytes a child, {small}"),
            88.9,
            share(at(100_000), nodes, 3..=3),
        ),
        (
            format!("percent of children whose own difference takes 3 bytes, {small}"),
            88.9,
            share(at(100_000), pointers, 3..=3),
        ),
        (
            format!("percent of inner nodes with more than 3 bytes a child, {small}"),
            0.0,
            share(at(100_000), nodes, 4..=WIDTHS),
        ),
        (format!("bytes of most differences of keys, {large}"), 2.0, of_most_keys(largest)),
        ("bytes of most differences of keys, 1,000 keys".to_owned(), 4.0, of_most_keys(at(1000))),
    ] {
        let what = format!("{heap}{what}");
        drawing.figure.claims.push(Claim { what, paper, paper_to: None, ours });
    }
}

/// Figure 5c: utilisation by standard deviation of the keys, with some numbers of keys.
pub fn by_deviation(
    deviations: &[u64],
    options: &FigureOptions,
    drawing: &mut Drawing<'_, '_>,
) -> Result<(), BenchError> {
    if drawing.available(&[ENGINE]).is_empty() {
        return Ok(());
    }
    let mut curves = Vec::new();
    for keys in [100, 10, 1].map(|part| (options.keys / part).max(1)) {
        let (mut points, mut of_buddies) = (Vec::new(), Vec::new());
        for deviation in deviations {
            let (key_bits, key_deviation) = (u64::BITS, Some(*deviation));
            let micro = MicroOptions {
                key_bits,
                key_deviation,
                paper_order: true,
                ..filled(options, keys)
            };
            let session = Session::shared(&micro)?;
            if !drawing.only_planned {
                let found = of_tree(&session, &mut drawing.steps)?;
                points.extend(found.utilisation().map(|of| [*deviation as f64, of]));
                let found = in_a_buddy_heap(&session).utilisation();
                of_buddies.extend(found.map(|of| [*deviation as f64, of]));
            }
        }
        let name = format!("{} keys", number(keys as f64));
        let buddies = format!("{name}, buddy heap");
        curves.extend([Series::of(buddies, of_buddies), Series::of(name, points)]);
    }
    if drawing.only_planned {
        return Ok(());
    }
    let all = || curves.iter().flat_map(|curve| &curve.points).map(|point| point[1]);
    for (what, paper, ours) in [
        ("least utilisation, percent", 200.0, all().min_by(f64::total_cmp)),
        ("greatest utilisation, percent", 500.0, all().max_by(f64::total_cmp)),
    ] {
        drawing.figure.claims.push(Claim::of(what, paper, ours));
    }
    drawing.figure.panels.push(utilisation("standard deviation of the keys", curves));
    Ok(())
}
