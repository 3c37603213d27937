//! `check`: is anything wrong with a pool?

use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use everleaf::{CheckOutcome, Error, PoolError, Salvaged, Store, salvage_with};
use serde::Serialize;

use crate::failure::{Failure, Outcome, sentence, without_advice};
use crate::open;
use crate::progress::{entries_bar, show_entries};
use crate::signals::Ending;
use crate::size::display_counted;

/// Check every invariant of a pool, every value, and that no block is lost or used twice. Exits 1
/// if anything is wrong.
///
/// The pool is not written: if it was not closed, it is recovered in private memory, and the
/// recovered content is checked. One that `serve`, `shell` or `load` has open is checked there, and
/// writers wait. A check cannot see damage that leaves every checksum and invariant intact.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  everleaf check words.pool --json
  everleaf check damaged.pool --salvage rescued.pool")]
pub struct Args {
    /// The pool; it is not written.
    pool: PathBuf,
    /// Copy everything that can be read to a new pool, and list what cannot be; exits 0 if
    /// nothing is missing.
    #[arg(long, value_name = "NEW")]
    salvage: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// The first four keys are a contract.
#[derive(Serialize)]
struct Report {
    ok: bool,
    keys: u64,
    violations: u64,
    leaked_blocks: u64,
    /// Each violation, a sentence.
    details: Vec<String>,
}

impl From<CheckOutcome> for Report {
    fn from(outcome: CheckOutcome) -> Self {
        let violations = outcome.violations.len() as u64;
        let details = without_advice_each(&outcome.violations);
        let CheckOutcome { ok, keys, leaked_blocks, .. } = outcome;
        Self { ok, keys, violations, leaked_blocks, details }
    }
}

/// Checks.
pub fn run(args: Args) -> Outcome {
    if let Some(new) = &args.salvage {
        return salvage(&args, new);
    }
    let report = match checked(&args.pool) {
        Ok(outcome) => Report::from(outcome),
        Err(error) if says_nothing_of_the_pool(&error) => return Err(error.into()),
        // What cannot even be opened is damaged, or cannot be trusted.
        Err(error) => {
            if args.json {
                let details = without_advice_each(&[error.to_string()]);
                let report =
                    Report { ok: false, keys: 0, violations: 1, leaked_blocks: 0, details };
                show(&args, &report)?;
            }
            return Err(Failure::failed(sentence(&error)));
        }
    };
    show(&args, &report)?;
    if report.ok {
        return Ok(());
    }
    Err(Failure::failed(format!(
        "{} is damaged: {}, {}; restore a backup, or copy what can be read with `everleaf check \
        POOL --salvage NEW`",
        args.pool.display(),
        display_counted(report.violations, "violation"),
        display_counted(report.leaked_blocks, "leaked block")
    )))
}

fn without_advice_each(sentences: &[String]) -> Vec<String> {
    sentences.iter().map(|sentence| without_advice(sentence).to_owned()).collect()
}

/// Checks with a bar. Nothing is made that a signal would have to remove.
fn checked(pool: &Path) -> Result<CheckOutcome, Error> {
    let store = open::to_read(pool)?;
    let bar = entries_bar();
    let outcome = store.check_with(|progress| {
        show_entries(&bar, progress);
        ControlFlow::Continue(())
    });
    bar.finish_and_clear();
    outcome
}

/// What a salvage found.
#[derive(Serialize)]
struct SalvageReport {
    from_index: u64,
    from_records: u64,
    unreadable: u64,
    /// Why not, each a sentence.
    details: Vec<String>,
    /// Keys that the new pool has, in all trees. The first two count what the store keeps for
    /// itself too.
    keys: u64,
    /// Its named trees.
    trees: u64,
}

/// Copies what can be read.
fn salvage(args: &Args, new: &Path) -> Outcome {
    let salvaged = Ending::awaited()?.during(|watch| salvage_with(&args.pool, new, watch));
    let salvaged = salvaged.map_err(|error| match error {
        // That it be salvaged is no advice here.
        error if error.is_corruption() => Failure::failed(format!(
            "{}; nothing of it can be salvaged, so restore a backup",
            without_advice(&error.to_string())
        )),
        error => error.into(),
    })?;
    let Salvaged { from_index, from_records, unreadable, complaints, .. } = salvaged;
    let details = without_advice_each(&complaints);
    let (keys, trees) = counted(new).map_err(|error| {
        let new = new.display();
        Failure::failed(format!("{error}; what could be saved is in {new} all the same"))
    })?;
    let text = if args.json {
        let report = SalvageReport { from_index, from_records, unreadable, details, keys, trees };
        serde_json::to_string(&report).map_err(|error| Failure::failed(error.to_string()))? + "\n"
    } else {
        let details: String = details.iter().map(|detail| format!("{detail}\n")).collect();
        let trees = match trees {
            0 => String::new(),
            trees => format!(" with {}", display_counted(trees, "named tree")),
        };
        format!(
            "{details}{} saved{trees}; {} found without the index\n",
            display_counted(keys, "key"),
            display_counted(from_records, "record")
        )
    };
    write_out(&text)?;
    if unreadable == 0 {
        return Ok(());
    }
    let places = display_counted(unreadable, "place");
    Err(Failure::failed(format!(
        "{places} of {} could not be read; the rest is in {}",
        args.pool.display(),
        new.display()
    )))
}

/// Keys in all trees, and named trees.
fn counted(pool: &Path) -> Result<(u64, u64), Error> {
    let saved = Store::open_read_only(pool)?;
    Ok((saved.len_of_all_trees()?, saved.tree_names()?.len() as u64))
}

/// Whether the pool was never looked at.
const fn says_nothing_of_the_pool(error: &Error) -> bool {
    matches!(
        error,
        Error::Elsewhere { .. }
            | Error::Pool(
                PoolError::Missing { .. }
                    | PoolError::NotAFile { .. }
                    | PoolError::Locked { .. }
                    | PoolError::Io { .. }
            )
    )
}

fn show(args: &Args, report: &Report) -> Outcome {
    let text = if args.json {
        serde_json::to_string(report).map_err(|error| Failure::failed(error.to_string()))? + "\n"
    } else if report.ok {
        format!(
            "{} is sound: {}, nothing lost, nothing leaked\n",
            args.pool.display(),
            display_counted(report.keys, "key")
        )
    } else {
        report.details.iter().map(|detail| format!("{detail}\n")).collect()
    };
    write_out(&text)
}

fn write_out(text: &str) -> Outcome {
    let mut output = std::io::stdout().lock();
    output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush())
        .map_err(|error| Failure::output(&error))
}
