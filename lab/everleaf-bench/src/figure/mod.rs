//! `bench figure`: the papers' figures on the reader's own machine, the paper's values beside ours
//! where it gives them.
//!
//! A figure is measured into panels, curves or bars that a table, a plot and a JSON file are made
//! of, and claims: quotients for which the paper prints a number. Engines that a paper shows and
//! this release does not have are left out and named; when one comes, it is measured without a
//! change here.
//!
//! Map of the files: `catalogue` (which figures there are) · `entry` (what it says of one) ·
//! `sweep` (an axis, engines, phases) · `claims` (what the papers say) · `single` (figures of a
//! kind of their own) · `clfb` `clfb_encodings` `clfb_counts` `clfb_heap` `clfb_writes` (those of
//! the clfB-tree) · `nvtree` `nvtree_flushes` `nvtree_rebuild` (those of NV-Tree) · `ycsb` (those
//! made of YCSB's workloads) · `rebuild` (of the transient tree) · `callgrind` (instructions) ·
//! `scaling` (more processors, by the cost model) · `served` (those of servers) · `sizes` (of
//! nodes) · `database` (a columnar one) · `plot` (SVG and PNG, by the feature `plots`; else
//! `plot_missing`) · `table` (text) · `evidence` (all that the papers show, and what shows it here)
//! · `record` (all of it, measured, as one document).

mod axis;
mod callgrind;
mod catalogue;
mod claims;
mod clfb;
mod clfb_counts;
mod clfb_encodings;
mod clfb_heap;
mod clfb_writes;
mod database;
mod entry;
mod evidence;
mod nvtree;
mod nvtree_flushes;
mod nvtree_rebuild;
#[cfg(feature = "plots")]
mod plot;
#[cfg(not(feature = "plots"))]
#[path = "plot_missing.rs"]
mod plot;
mod rebuild;
mod record;
mod scaling;
mod served;
mod single;
mod sizes;
mod sweep;
mod table;
mod ycsb;

use std::path::PathBuf;

use everleaf::EngineParameters;
use serde::{Deserialize, Serialize};

use axis::Axis;
use entry::Entry;

use crate::session::{ProgressTracker, Session};
use crate::{BenchError, MicroOptions, Phase, Progress, Scratch, Subject};

pub use catalogue::{figure_list, figure_names};
pub use evidence::{Difference, Due, Evidence, Kind, evidence};
pub use record::{Shown, record};
pub(crate) use table::number;

pub use plot::{figure_png, figure_svg, panel_svg};

/// Whether this build draws plots: it has the feature `plots`.
pub const HAS_PLOTS: bool = cfg!(feature = "plots");

/// What is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct FigureOptions {
    /// One of [`figure_names`].
    pub name: String,
    /// Keys of the largest index; the papers take 1 to 100 million.
    pub keys: u64,
    /// How often each point is measured; medians are shown.
    pub rounds: u32,
    /// Decides all that is random.
    pub seed: u64,
    /// Where pools are made; none is /dev/shm, or the temporary folder if there is no room.
    pub pool: Scratch,
    /// The program that serves pools by the command [`SERVER`](crate::serve::SERVER); none: servers
    /// of ours are left out.
    pub program: Option<PathBuf>,
}

impl FigureOptions {
    /// The command that measures it.
    pub fn command(&self) -> String {
        let Self { name, keys, rounds, seed, .. } = self;
        format!("everleaf-lab bench figure {name} --keys {keys} --rounds {rounds} --seed {seed}")
    }

    /// A run of phases on an engine, as its figures have it.
    pub(crate) fn micro(&self, engine: &str, phases: &[Phase]) -> MicroOptions {
        MicroOptions {
            engine: engine.into(),
            keys: self.keys,
            phases: phases.to_vec(),
            seed: self.seed,
            pool: self.pool.clone(),
            paper_order: has_paper_order(engine),
            ..MicroOptions::default()
        }
    }
}

/// A figure that was measured.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Figure {
    /// Its name here.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// Where it comes from.
    pub source: String,
    /// The command that measures it again.
    pub command: String,
    /// What it could not show.
    pub left_out: Vec<LeftOut>,
    /// What it shows.
    pub panels: Vec<Panel>,
    /// What the paper says, and what was measured here.
    pub claims: Vec<Claim>,
    /// What differs from the paper.
    pub notes: Vec<String>,
}

/// An engine that is not shown, or not everywhere.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct LeftOut {
    /// Its name.
    pub engine: String,
    /// Why.
    pub reason: String,
}

/// Curves over an axis, or bars over names.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Panel {
    /// What it shows.
    pub title: String,
    /// What stands on the axis below.
    pub x_label: String,
    /// What stands on the axis to the left.
    pub y_label: String,
    /// Names of the places 0, 1, .. below: bars stand there. Without names there are curves.
    pub places: Option<Vec<String>>,
    /// Whether the axes are logarithmic.
    pub logarithmic: [bool; 2],
    /// The curves, or the bars of each colour.
    pub series: Vec<Series>,
}

/// A curve, or the bars of a colour.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Series {
    /// Whose it is.
    pub name: String,
    /// Whether the paper says so and nothing was measured.
    pub from_paper: bool,
    /// Places and values.
    pub points: Vec<[f64; 2]>,
}

/// A number of the paper, and ours.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Claim {
    /// What it says.
    pub what: String,
    /// The paper's.
    pub paper: f64,
    /// Where the paper prints a range, its other end.
    pub paper_to: Option<f64>,
    /// Everleaf; none if an engine is missing.
    pub ours: Option<f64>,
}

impl Panel {
    /// Curves over numbers, which grow by factors.
    fn curves(title: impl Into<String>, x_label: &str, y_label: &str, series: Vec<Series>) -> Self {
        let (title, x_label, y_label) = (title.into(), x_label.into(), y_label.into());
        Self { title, x_label, y_label, places: None, logarithmic: [true, false], series }
    }

    /// Bars over names.
    fn bars(
        title: impl Into<String>,
        y_label: &str,
        places: Vec<String>,
        series: Vec<Series>,
    ) -> Self {
        let (places, logarithmic) = (Some(places), [false, false]);
        Self { places, logarithmic, ..Self::curves(title, "", y_label, series) }
    }
}

impl Series {
    /// One that was measured.
    fn of(name: impl Into<String>, points: Vec<[f64; 2]>) -> Self {
        Self { name: name.into(), from_paper: false, points }
    }

    /// Adds a point to the one of this name, which is made if it is missing.
    fn add(all: &mut Vec<Self>, name: &str, point: [f64; 2]) {
        match all.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push(point),
            None => all.push(Self::of(name, vec![point])),
        }
    }
}

impl Claim {
    /// Of one number.
    fn of(what: impl Into<String>, paper: f64, ours: Option<f64>) -> Self {
        Self { what: what.into(), paper, paper_to: None, ours }
    }
}

/// How two values are set against each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// One in terms of the other.
    Times,
    /// By how many percent the one is more.
    PercentMore,
    /// By how many percent it is less.
    PercentLess,
    /// The one alone.
    Value,
}

impl Form {
    fn of(self, above: f64, below: f64) -> f64 {
        match self {
            Form::Times => above / below,
            Form::PercentMore => 100.0 * (above / below - 1.0),
            Form::PercentLess => 100.0 * (1.0 - above / below),
            Form::Value => above,
        }
    }

    /// Names of both as a phrase.
    fn phrase(self, above: &str, below: &str) -> String {
        match self {
            Form::Times => format!("{above} to {below}"),
            Form::PercentMore => format!("percent that {above} is above {below}"),
            Form::PercentLess => format!("percent that {above} is below {below}"),
            Form::Value => above.to_owned(),
        }
    }

    /// What follows the name of what was measured: engines at places of an axis, of which these
    /// were measured. A place that both have is said once.
    fn phrase_at(self, axis: Option<Axis>, places: &[u64], above: Place, below: Place) -> String {
        let at = |place| {
            let found = place_among(places, place).filter(|found| *found <= LAST - 8);
            axis.map(|axis| found.map_or("the last place".into(), |found| axis.at(found)))
        };
        match (at(above.1), at(below.1)) {
            (Some(one), Some(other)) if one != other => {
                let with = |place: Place, at: &str| format!("{} with {at}", place.0);
                format!(": {}", self.phrase(&with(above, &one), &with(below, &other)))
            }
            (Some(one), _) => format!(", {one}: {}", self.phrase(above.0, below.0)),
            (None, _) => format!(": {}", self.phrase(above.0, below.0)),
        }
    }
}

/// An engine at a place.
type Place = (&'static str, u64);

/// What of the paper's differs from ours, in brackets.
fn of_paper(at: &str) -> String {
    if at.is_empty() { String::new() } else { format!(" (paper: {at})") }
}

/// Whether an engine can flush as much as its paper does.
pub(crate) fn has_paper_order(engine: &str) -> bool {
    takes(engine, EngineParameters::PAPER_ORDER)
}

/// Whether an engine's values are buffers in its paper.
pub(crate) fn has_buffers(engine: &str) -> bool {
    takes(engine, EngineParameters::BUFFERS)
}

/// Whether it is an index that takes a parameter.
fn takes(engine: &str, parameter: &str) -> bool {
    let Ok(Subject::Index(engine)) = engine.parse() else { return false };
    engine.entry().parameters.contains(&parameter)
}

/// Bits of a key: so many, or as many as twice these keys need, which some figures insert.
pub(crate) fn key_bits(least: u32, keys: u64) -> u32 {
    least.max(u64::BITS - keys.saturating_mul(2).leading_zeros())
}

/// The last place of an axis; `LAST - n` is the n-th before it.
pub(crate) const LAST: u64 = u64::MAX;

/// The place that is meant, among all that there are.
fn place_among(places: &[u64], place: u64) -> Option<u64> {
    let mut sorted = places.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let back = usize::try_from(LAST - place).ok().filter(|back| *back < 8);
    back.map_or(Some(place), |back| sorted.iter().rev().nth(back).copied())
}

/// Whether there is such a figure, whether its options make sense, and whether there is room for
/// all that it measures.
///
/// # Errors
/// [`BenchError`].
pub fn check(options: &FigureOptions) -> Result<(), BenchError> {
    let entry = catalogue::find(&options.name)?;
    crate::plan::within("keys", options.keys, 100, 1 << 40)?;
    crate::plan::within("rounds", options.rounds.into(), 1, 1000)?;
    let (mut figure, tell) = (Figure::new(entry, options), &mut |_| {});
    (entry.measure)(
        options,
        &mut Drawing {
            figure: &mut figure,
            steps: ProgressTracker::new(tell, 0),
            only_planned: true,
        },
    )
}

/// Measures a figure.
///
/// # Errors
/// [`BenchError`]; an unknown name, and what is wrong with the options, the memory or the medium,
/// is said before any work is done.
///
/// # Examples
/// ```
/// use everleaf_bench::Scratch;
/// use everleaf_bench::figure::{FigureOptions, HAS_PLOTS, figure_svg, run_figure};
///
/// let (name, pool) = ("fptree-4".into(), Scratch::default());
/// let (keys, rounds, seed, program) = (2000, 1, 1, None);
/// let figure = run_figure(&FigureOptions { name, keys, rounds, seed, pool, program })?;
/// assert!(figure.panels[0].series.iter().any(|series| series.name == "fptree"));
/// assert_eq!(figure_svg(&figure).is_ok(), HAS_PLOTS);
/// # Ok::<(), everleaf_bench::BenchError>(())
/// ```
pub fn run_figure(options: &FigureOptions) -> Result<Figure, BenchError> {
    run_figure_with_progress(options, &mut |_| {})
}

/// As [`run_figure`], and tells how far it is.
///
/// # Errors
/// As [`run_figure`].
pub fn run_figure_with_progress(
    options: &FigureOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Figure, BenchError> {
    check(options)?;
    let entry = catalogue::find(&options.name)?;
    let mut figure = Figure::new(entry, options);
    let steps = ProgressTracker::new(progress, 0);
    (entry.measure)(options, &mut Drawing { figure: &mut figure, steps, only_planned: false })?;
    Ok(figure)
}

impl Figure {
    /// Nothing of it yet.
    fn new(entry: &Entry, options: &FigureOptions) -> Self {
        Self {
            name: entry.name.into(),
            title: entry.title.into(),
            source: entry.source.into(),
            command: options.command(),
            left_out: Vec::new(),
            panels: Vec::new(),
            claims: Vec::new(),
            notes: entry.notes.iter().map(|note| (*note).to_owned()).collect(),
        }
    }
}

/// A figure that is being measured.
pub(crate) struct Drawing<'f, 'p> {
    pub figure: &'f mut Figure,
    pub steps: ProgressTracker<'p>,
    /// Everything is planned, so that what is wrong is found, and nothing is measured.
    pub only_planned: bool,
}

impl Drawing<'_, '_> {
    /// Something is not shown.
    pub fn leave_out(&mut self, engine: &str, reason: &str) {
        let left_out = LeftOut { engine: engine.to_owned(), reason: reason.to_owned() };
        if !self.figure.left_out.contains(&left_out) {
            self.figure.left_out.push(left_out);
        }
    }

    /// Something is not shown at a place. Places with one reason, but for its numbers, are told
    /// together, with the numbers of the first.
    pub fn leave_out_at(&mut self, engine: &str, place: &str, reason: &str) {
        let words = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "");
        for out in self.figure.left_out.iter_mut().filter(|out| out.engine == engine) {
            let Some((places, known)) = out.reason.split_once(": ") else { continue };
            if words(known) == words(reason) {
                if !places.split(", ").any(|known| known == place) {
                    out.reason = format!("{places}, {place}: {known}");
                }
                return;
            }
        }
        self.leave_out(engine, &format!("{place}: {reason}"));
    }

    /// A session with the first size of nodes that the engine has, which goes into the options;
    /// another than the paper's is noted. No sizes, or an engine that has none to choose from: its
    /// own.
    pub fn sized(
        &mut self,
        node_bytes: &[u32],
        micro: &mut MicroOptions,
    ) -> Result<Session, BenchError> {
        if node_bytes.is_empty() || micro.engine == "btreemap" {
            return Session::shared(micro);
        }
        let mut refused = None;
        for bytes in node_bytes {
            micro.node_bytes = Some(*bytes);
            match Session::shared(micro) {
                Ok(session) if *bytes == node_bytes[0] => return Ok(session),
                Ok(session) => {
                    let note = format!(
                        "{} has nodes of {bytes} bytes in place of {}",
                        micro.engine, node_bytes[0]
                    );
                    if !self.figure.notes.contains(&note) {
                        self.figure.notes.push(note);
                    }
                    return Ok(session);
                }
                Err(error) if error.is_wrong_usage() => refused = refused.or(Some(error)),
                Err(error) => return Err(error),
            }
        }
        refused.map_or_else(|| Session::shared(micro), Err)
    }

    /// The engines among `names` that this release has; the others are left out.
    pub fn available(&mut self, names: &[&'static str]) -> Vec<&'static str> {
        let mut available = Vec::new();
        for name in names {
            match name.parse::<crate::Subject>() {
                Ok(_) => available.push(*name),
                Err(_) => self.leave_out(name, "not in this release"),
            }
        }
        available
    }
}
