//! Rebuilding the inner nodes of an NV-Tree: forced, once, on a tree that insertions have filled.

use everleaf::internal::U64Keys;
use everleaf_engines::rebuild_times;

use super::nvtree_flushes::NODE_BYTES;
use super::{Claim, Drawing, FigureOptions, Form, Panel, Series};
use crate::compare::Spread;
use crate::measure::Unobserved;
use crate::session::Session;
use crate::workload::Workload;
use crate::{BenchError, MicroOptions, Phase, Subject};

/// A tree is rebuilt when it has grown by a quarter, so all rebuilds together take at most this
/// many times the last: 1 + 4/5 + 16/25 + ..
const ALL_TO_LAST: f64 = 5.0;

/// Fills trees with nodes of each size, and builds their inner nodes anew.
pub fn measure(options: &FigureOptions, drawing: &mut Drawing<'_, '_>) -> Result<(), BenchError> {
    let mut series = Vec::new();
    for bytes in NODE_BYTES {
        // Insertions, and from leaves and from parents: milliseconds of each round.
        let mut times = [const { Vec::new() }; 3];
        for round in 0..options.rounds {
            let session = Session::shared(&MicroOptions {
                node_bytes: Some(bytes),
                warm: options.keys,
                seed: options.seed.wrapping_add(round.into()),
                ..options.micro("nvtree", &[Phase::Find])
            })?;
            let Subject::Index(engine) = session.plan.subject else { return Ok(()) };
            if drawing.only_planned {
                continue;
            }
            let steps = &mut drawing.steps;
            steps.extend(options.keys);
            let (pool, target) = session.index(engine, session.hardware(session.region()?)?)?;
            let workloads = [Workload::new(&session.plan, 0)];
            let (inserted, _) = session.warm_up::<u64, _, _>(
                steps,
                "filled",
                &mut [target],
                &workloads,
                &Unobserved,
            )?;
            let [leaves, parents] = rebuild_times::<U64Keys, _>(&pool)?;
            for (times, time) in times.iter_mut().zip([inserted, leaves, parents]) {
                times.push(time.as_secs_f64() * 1e3);
            }
        }
        if drawing.only_planned {
            continue;
        }
        let [inserted, leaves, parents] = times.map(|times| Spread::of(&times).middle);
        let mut claim = |what: &str, paper, paper_to, ours| {
            let what = format!("percent {what}, nodes of {bytes} bytes");
            let (paper_to, ours) = (Some(paper_to), Some(ours));
            drawing.figure.claims.push(Claim { what, paper, paper_to, ours });
        };
        let part = 100.0 * ALL_TO_LAST * parents / inserted;
        claim("of the time of insertions, at most", 0.01, 2.77, part);
        let less = Form::PercentLess.of(parents, leaves);
        claim("that rebuilding from parents takes less than from leaves", 22.0, 47.0, less);
        Series::add(&mut series, "from leaves", [f64::from(bytes), leaves]);
        Series::add(&mut series, "from parents", [f64::from(bytes), parents]);
    }
    let title = format!("a rebuild of the inner nodes of {} keys", options.keys);
    drawing.figure.panels.push(Panel::curves(title, "bytes of a node", "ms", series));
    Ok(())
}
