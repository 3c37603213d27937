//! Figures that are made of YCSB's workloads: those of Durable Masstree, and those of stores over Circ-Trees.

use super::sweep::Axis;
use super::{Drawing, FigureOptions, Panel, Series};
use crate::ycsb::{Distribution, Record, Workload, YcsbOptions, YcsbReport, run_ycsb_with_progress};
use crate::{BenchError, MicroOptions};

/// What is shown of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Operations a second.
    Throughput,
    /// The slowest of a hundred, of each kind of operation.
    P99,
}

/// A figure of this kind.
pub struct OfYcsb {
    pub engines: &'static [&'static str],
    pub workloads: &'static [Workload],
    pub distributions: &'static [Distribution],
    pub record: Record,
    /// None: workloads stand below.
    pub axis: Option<Axis>,
    /// The paper's size of nodes where it is not the tuned one.
    pub node_bytes: Option<u32>,
    pub shown: Shown,
}

impl OfYcsb {
    /// Runs everything and draws it.
    pub fn measure(&self, options: &FigureOptions, drawing: &mut Drawing<'_, '_>) -> Result<(), BenchError> {
        let engines = drawing.available(self.engines);
        if engines.is_empty() {
            return Ok(());
        }
        for distribution in self.distributions {
            let mut found = Vec::new();
            for workload in self.workloads {
                for place in self.axis.map_or(vec![0], |axis| axis.places(options.keys)) {
                    for report in self.run(options, &engines, *workload, *distribution, place, drawing)? {
                        found.push((*workload, place, report));
                    }
                }
            }
            self.draw(*distribution, &found, drawing);
        }
        Ok(())
    }

    fn run(
        &self,
        options: &FigureOptions,
        engines: &[&'static str],
        workload: Workload,
        distribution: Distribution,
        place: u64,
        drawing: &mut Drawing<'_, '_>,
    ) -> Result<Vec<YcsbReport>, BenchError> {
        let mut micro = MicroOptions {
            keys: options.keys,
            seed: options.seed,
            pool: options.pool.clone(),
            node_bytes: self.node_bytes,
            ..MicroOptions::default()
        };
        if let Some(axis) = self.axis {
            axis.apply(place, &mut micro);
        }
        let mut reports = Vec::new();
        for engine in engines {
            let ycsb = YcsbOptions {
                engines: vec![(*engine).to_owned()],
                workload,
                distribution: Some(distribution),
                record: self.record,
                operations: options.keys,
                rounds: options.rounds,
                micro: micro.clone(),
            };
            let steps = &mut drawing.steps;
            match run_ycsb_with_progress(&ycsb, &mut |progress| steps.pass_on(progress)) {
                Ok(of_engine) => reports.extend(of_engine),
                Err(error) if error.is_wrong_usage() => drawing.leave_out(engine, &error.to_string()),
                Err(error) => return Err(error),
            }
        }
        Ok(reports)
    }

    fn draw(&self, distribution: Distribution, found: &[(Workload, u64, YcsbReport)], drawing: &mut Drawing<'_, '_>) {
        let place_of = |workload: Workload, place: u64| match self.axis {
            Some(_) => place as f64,
            None => self.workloads.iter().position(|known| *known == workload).unwrap_or(0) as f64,
        };
        let panel = |title: String, y_label: &str, value: &dyn Fn(&YcsbReport) -> Option<f64>| {
            let mut series: Vec<Series> = Vec::new();
            for (workload, place, report) in found {
                let Some(value) = value(report) else { continue };
                let point = [place_of(*workload, *place), value];
                match series.iter_mut().find(|series| series.name == report.engine) {
                    Some(series) => series.points.push(point),
                    None => series.push(Series { name: report.engine.clone(), from_paper: false, points: vec![point] }),
                }
            }
            Panel {
                title,
                x_label: self.axis.map_or("workload", Axis::label).into(),
                y_label: y_label.into(),
                places: self.axis.is_none().then(|| self.workloads.iter().map(|w| w.name().to_uppercase()).collect()),
                logarithmic: [self.axis.is_some_and(Axis::is_logarithmic), false],
                series,
            }
        };
        let name = distribution.name();
        if self.shown == Shown::Throughput {
            drawing.figure.panels.push(panel(name.into(), "operations/s", &|report| Some(report.median_ops_per_second)));
            return;
        }
        let kinds: std::collections::BTreeSet<&String> =
            found.iter().flat_map(|(_, _, report)| report.latencies.keys()).collect();
        for kind in kinds {
            let of = |report: &YcsbReport| report.latencies.get(kind).map(|latencies| latencies.p99_ns);
            drawing.figure.panels.push(panel(format!("{kind}, {name}"), "99th percentile, ns", &of));
        }
    }
}
