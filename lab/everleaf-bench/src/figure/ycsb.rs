//! Figures that are made of YCSB's workloads: those of Durable Masstree, and those of stores over
//! Circ-Trees.

use super::axis::Axis;
use super::{
    Claim, Drawing, FigureOptions, Form, Panel, Series, has_buffers, of_paper, place_among,
};
use crate::session::Session;
use crate::ycsb::{
    Distribution, Record, Workload, YcsbOptions, YcsbReport, run_ycsb_with_progress,
};
use crate::{BenchError, Flush, MicroOptions};

/// What is shown of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Operations a second.
    Throughput,
    /// The slowest of a hundred, of each kind of operation.
    P99,
}

/// A number of the paper: a value of one engine at a place to that of another. Of percentiles it is
/// that of loading.
#[derive(Clone, Copy, Debug)]
pub struct Said {
    pub paper: f64,
    /// The other end of a range.
    pub paper_to: Option<f64>,
    /// Where the paper measured it, if that is not where we do.
    pub paper_at: &'static str,
    pub form: Form,
    pub workload: Workload,
    pub distribution: Distribution,
    pub shown: Shown,
    /// Engine and place; without an axis the place is 0.
    pub above: (&'static str, u64),
    pub below: (&'static str, u64),
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
    /// The instruction of the paper, and what it adds to each.
    pub flush: Flush,
    pub flush_ns: u64,
    pub shown: Shown,
    pub claims: fn() -> Vec<Said>,
}

/// What is run for the points of an engine at a place.
struct Run {
    workload: Workload,
    distribution: Distribution,
    place: u64,
    engine: &'static str,
    options: YcsbOptions,
}

impl OfYcsb {
    /// Runs everything and draws it.
    pub fn measure(
        &self,
        options: &FigureOptions,
        drawing: &mut Drawing<'_, '_>,
    ) -> Result<(), BenchError> {
        let runs = self.runs(options, drawing)?;
        if drawing.only_planned {
            return Ok(());
        }
        drawing.steps.extend(runs.iter().map(|run| run.options.all_operations()).sum());
        let mut found = Vec::new();
        for run in &runs {
            let steps = &mut drawing.steps;
            let reports =
                run_ycsb_with_progress(&run.options, &mut |progress| steps.pass_on(progress))?;
            drawing.steps.end(run.options.all_operations());
            found.extend(reports.into_iter().map(|report| (run, report)));
        }
        for distribution in self.distributions {
            let of_distribution: Vec<_> =
                found.iter().filter(|(run, _)| run.distribution == *distribution).collect();
            if !of_distribution.is_empty() {
                self.draw(*distribution, &of_distribution, drawing);
            }
        }
        drawing.figure.claims.extend((self.claims)().iter().map(|said| self.claim(said, &found)));
        Ok(())
    }

    fn claim(&self, said: &Said, found: &[(&Run, YcsbReport)]) -> Claim {
        let alike =
            |run: &Run| run.workload == said.workload && run.distribution == said.distribution;
        let places: Vec<u64> = found.iter().map(|(run, _)| run.place).collect();
        let value = |(engine, place): (&str, u64)| {
            let place = place_among(&places, place)?;
            let (_, report) = found
                .iter()
                .find(|(run, _)| alike(run) && run.engine == engine && run.place == place)?;
            match said.shown {
                Shown::Throughput => Some(report.median_ops_per_second),
                Shown::P99 => report.load_latency.map(|load| load.p99_ns),
            }
        };
        let shown =
            if said.shown == Shown::P99 { "99th percentile of loading" } else { "throughput" };
        let phrase = said.form.phrase_at(self.axis, &places, said.above, said.below)
            + &of_paper(said.paper_at);
        Claim {
            what: format!(
                "{}, {}, {shown}{phrase}",
                said.workload.name().to_uppercase(),
                said.distribution.name()
            ),
            paper: said.paper,
            paper_to: said.paper_to,
            ours: value(said.above)
                .zip(value(said.below))
                .map(|(above, below)| said.form.of(above, below)),
        }
    }

    /// Everything that is to be run; what cannot be is left out. Finds everything that is wrong
    /// before any work is done.
    fn runs(
        &self,
        options: &FigureOptions,
        drawing: &mut Drawing<'_, '_>,
    ) -> Result<Vec<Run>, BenchError> {
        let (engines, mut runs) = (drawing.available(self.engines), Vec::new());
        for (distribution, workload) in self
            .distributions
            .iter()
            .flat_map(|one| self.workloads.iter().map(move |two| (one, two)))
        {
            for place in self.axis.map_or(vec![0], |axis| axis.places(options.keys)) {
                for engine in &engines {
                    let run = self.run(options, engine, *workload, *distribution, place);
                    match run.options.plan(engine, 0).and_then(Session::of_plan) {
                        Ok(_) => runs.push(run),
                        Err(error) if error.is_wrong_usage() => {
                            drawing.leave_out(engine, &error.to_string())
                        }
                        Err(error) => return Err(error),
                    }
                }
            }
        }
        Ok(runs)
    }

    fn run(
        &self,
        options: &FigureOptions,
        engine: &'static str,
        workload: Workload,
        distribution: Distribution,
        place: u64,
    ) -> Run {
        let mut micro = MicroOptions {
            keys: options.keys,
            seed: options.seed,
            pool: options.pool.clone(),
            node_bytes: self.node_bytes,
            flush: self.flush,
            flush_ns: self.flush_ns,
            buffers: has_buffers(engine),
            ..MicroOptions::default()
        };
        if let Some(axis) = self.axis {
            axis.apply(place, &mut micro);
        }
        let options = YcsbOptions {
            engines: vec![engine.to_owned()],
            workload,
            distribution: Some(distribution),
            record: self.record,
            operations: options.keys,
            rounds: options.rounds,
            micro,
        };
        Run { workload, distribution, place, engine, options }
    }

    fn draw(
        &self,
        distribution: Distribution,
        found: &[&(&Run, YcsbReport)],
        drawing: &mut Drawing<'_, '_>,
    ) {
        let place_of = |workload: Workload, place: u64| match self.axis {
            Some(_) => place as f64,
            None => self.workloads.iter().position(|known| *known == workload).unwrap_or(0) as f64,
        };
        let panel = |title: String, y_label: &str, value: &dyn Fn(&YcsbReport) -> Option<f64>| {
            let mut series: Vec<Series> = Vec::new();
            for (run, report) in found {
                let Some(value) = value(report) else { continue };
                let point = [place_of(run.workload, run.place), value];
                Series::add(&mut series, run.engine, point);
            }
            Panel {
                title,
                x_label: self.axis.map_or("workload", Axis::label).into(),
                y_label: y_label.into(),
                places: self
                    .axis
                    .is_none()
                    .then(|| self.workloads.iter().map(|w| w.name().to_uppercase()).collect()),
                logarithmic: [self.axis.is_some_and(Axis::is_logarithmic), false],
                series,
            }
        };
        let name = distribution.name();
        if self.shown == Shown::Throughput {
            drawing.figure.panels.push(panel(name.into(), "operations/s", &|report| {
                Some(report.median_ops_per_second)
            }));
            return;
        }
        let load = |report: &YcsbReport| report.load_latency.map(|load| load.p99_ns);
        drawing.figure.panels.push(panel(format!("load, {name}"), "99th percentile, ns", &load));
        let kinds: std::collections::BTreeSet<&String> =
            found.iter().flat_map(|(_, report)| report.latencies.keys()).collect();
        for kind in kinds {
            let of =
                |report: &YcsbReport| report.latencies.get(kind).map(|latencies| latencies.p99_ns);
            drawing.figure.panels.push(panel(
                format!("{kind}, {name}"),
                "99th percentile, ns",
                &of,
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scratch;
    use crate::figure::Figure;
    use crate::figure::catalogue::{INCLL, INCLL_BY_FENCE, SESSION_STORE};
    use crate::session::ProgressTracker;

    fn runs(of: &OfYcsb) -> Vec<Run> {
        let options = FigureOptions {
            name: "incll-2".into(),
            keys: 100,
            rounds: 1,
            seed: 1,
            pool: Scratch::default(),
            program: None,
        };
        // Not one of the catalogue, which leads to the code of every benchmark: that takes minutes
        // to compile.
        let text = String::new;
        let (left_out, panels, claims, notes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (name, title, source, command) = (text(), text(), text(), text());
        let figure = &mut Figure { name, title, source, command, left_out, panels, claims, notes };
        let tell = &mut |_| {};
        let steps = ProgressTracker::new(tell, 0);
        of.runs(&options, &mut Drawing { figure, steps, only_planned: true }).unwrap()
    }

    #[test]
    fn runs_flush_as_the_papers_do() {
        let circ = runs(&SESSION_STORE);
        assert!(!circ.is_empty());
        for run in circ {
            let micro = run.options.micro;
            assert_eq!(
                (micro.flush, micro.flush_ns, micro.fence_ns),
                (Flush::ClflushOpt, 300, 0),
                "{}",
                run.engine
            );
        }
        for run in runs(&INCLL) {
            let micro = run.options.micro;
            assert_eq!(
                (micro.flush, micro.flush_ns, micro.fence_ns),
                (Flush::Clwb, 0, 0),
                "{}",
                run.engine
            );
        }
        let by_fence = runs(&INCLL_BY_FENCE);
        for run in &by_fence {
            let micro = &run.options.micro;
            assert_eq!(
                (micro.flush, micro.flush_ns, micro.fence_ns),
                (Flush::Clwb, 0, run.place),
                "{}",
                run.engine
            );
        }
        assert_eq!(by_fence.iter().map(|run| run.place).max(), Some(1000));
    }
}
