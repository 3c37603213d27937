//! `bench report`: one page of HTML with everything in it: what is best for what, tables, plots,
//! the machine, the commit, the commands.
//!
//! Map of the files: `sections` (what is measured) · `engines` `restart` `stores` (parts of it) ·
//! `run` (one that is being measured) · `cells` (of tables) · `verdict` (what follows from it) ·
//! `html` (how it is written) · `machine` (where it ran).

mod cells;
mod engines;
mod html;
mod machine;
mod restart;
mod run;
mod sections;
mod stores;
mod verdict;

pub use machine::facts;

use std::path::PathBuf;
use std::time::Instant;

use crate::figure::{Claim, LeftOut, Panel};
use crate::session::ProgressTracker;
use crate::{BenchError, MicroOptions, Progress, Scratch};

/// What is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct ReportOptions {
    /// Small sizes and one round: within three minutes. Otherwise within thirty.
    pub quick: bool,
    /// Keys of the indexes, in place of the size's own; stores and figures take a part of them.
    pub keys: Option<u64>,
    /// Decides all that is random.
    pub seed: u64,
    /// Where pools are made; none is /dev/shm, or the temporary folder if there is no room.
    pub pool: Scratch,
    /// The program that serves pools; none: servers of ours are left out.
    pub program: Option<PathBuf>,
}

/// Sizes of a report.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// Of indexes of words.
    index_keys: u64,
    /// Of stores with values of 100 bytes.
    store_keys: u64,
    /// Of stores with values of 1000 bytes.
    ycsb_keys: u64,
    /// Of each point of a figure.
    figure_keys: u64,
    rounds: u32,
}

impl ReportOptions {
    fn scale(&self) -> Scale {
        let (keys, figures, rounds) = if self.quick { (100_000, 5, 1) } else { (1_000_000, 8, 3) };
        let index_keys = self.keys.unwrap_or(keys);
        let part = |of: u64| (index_keys / of).max(100);
        Scale {
            index_keys,
            store_keys: part(4),
            ycsb_keys: part(10),
            figure_keys: part(figures),
            rounds,
        }
    }

    /// A run with so many keys.
    fn micro(&self, keys: u64) -> MicroOptions {
        let (seed, pool) = (self.seed, self.pool.clone());
        MicroOptions { keys, seed, pool, ..MicroOptions::default() }
    }

    fn command(&self) -> String {
        let quick = if self.quick { " --quick" } else { "" };
        let keys = self.keys.map_or(String::new(), |keys| format!(" --keys {keys}"));
        format!("everleaf-lab bench report{quick}{keys} --seed {}", self.seed)
    }
}

/// Where a section stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Group {
    #[default]
    Engines,
    Stores,
    Costs,
    Papers,
}

/// A part of the page.
#[derive(Default)]
pub(crate) struct Section {
    group: Group,
    title: String,
    /// Paragraphs.
    text: Vec<String>,
    /// What measures it again.
    command: String,
    tables: Vec<Table>,
    panels: Vec<Panel>,
    claims: Vec<Claim>,
    left_out: Vec<LeftOut>,
    /// What a user wants to know of it first.
    sentences: Vec<String>,
    uses: Vec<verdict::Use>,
}

pub(crate) struct Table {
    caption: String,
    /// The first row is the heading.
    rows: Vec<Vec<String>>,
}

/// Measures everything and gives the page.
///
/// # Errors
/// [`BenchError`]; what is wrong with the options, the memory or the medium is said before any work
/// is done.
pub fn run_report(options: &ReportOptions) -> Result<String, BenchError> {
    run_report_with_progress(options, &mut |_| {})
}

/// Whether the options make sense, and whether there is room for all that is measured.
///
/// # Errors
/// [`BenchError`].
pub fn check(options: &ReportOptions) -> Result<(), BenchError> {
    jobs(options).map(drop)
}

fn jobs(options: &ReportOptions) -> Result<Vec<sections::Job>, BenchError> {
    if let Some(keys) = options.keys {
        crate::plan::within("keys", keys, 1000, 1 << 40)?;
    }
    sections::jobs(options, options.scale())
}

/// As [`run_report`], and tells how far it is.
///
/// # Errors
/// As [`run_report`].
pub fn run_report_with_progress(
    options: &ReportOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<String, BenchError> {
    let (scale, start) = (options.scale(), Instant::now());
    let jobs = jobs(options)?;
    let (mut sections, total) = (Vec::new(), jobs.len() as u64);
    for (done, job) in jobs.into_iter().enumerate() {
        // Progress is told in sections, of which each counts for as much.
        let mut tell = |inner: Progress| {
            let part = 1000 * inner.done / inner.total.max(1);
            progress(Progress {
                done: 1000 * done as u64 + part,
                total: 1000 * total,
                doing: inner.doing,
            });
        };
        let steps = &mut ProgressTracker::new(&mut tell, 0);
        sections.push(job(&mut run::Run { options, scale, steps })?);
    }
    // What is measured first, while the heap is fresh, is read after the other engines.
    sections[..sections::OF_ENGINES].rotate_left(1);
    html::page(options, &sections, &machine::facts(), start.elapsed())
}
