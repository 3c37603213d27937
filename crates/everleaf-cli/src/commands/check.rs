//! `check`: is anything wrong with a pool?

use std::io::Write;
use std::path::PathBuf;

use everleaf::{CheckOutcome, Error, PoolError, Store};
use serde::Serialize;

use crate::failure::{Failure, Outcome};
use crate::size::display_counted;

/// Check every invariant of a pool, every value, and that no block is lost or used twice. Exits 1 if anything is wrong.
///
/// The pool is not written: if it was not closed, recovery happens in private memory, and what is checked is what recovery makes of it.
/// A check cannot see damage that leaves every checksum and invariant right.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  everleaf check words.pool --json")]
pub struct Args {
    /// The pool; it is not written.
    pool: PathBuf,
    /// Copy what can be read to a new pool (not available in this release).
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
        let CheckOutcome { ok, keys, leaked_blocks, violations: details } = outcome;
        Self { ok, keys, violations, leaked_blocks, details }
    }
}

/// Checks.
pub fn run(args: Args) -> Outcome {
    if args.salvage.is_some() {
        return Err(Failure::failed("`check --salvage` is not available in this release; restore a backup instead"));
    }
    let report = match Store::open_read_only(&args.pool).and_then(|store| store.check()) {
        Ok(outcome) => Report::from(outcome),
        Err(error) if says_nothing_of_the_pool(&error) => return Err(error.into()),
        // What cannot even be opened is damaged, or cannot be trusted.
        Err(error) => {
            let details = vec![error.to_string()];
            show(&args, &Report { ok: false, keys: 0, violations: 1, leaked_blocks: 0, details })?;
            return Err(Failure::failed(error.to_string()));
        }
    };
    show(&args, &report)?;
    if report.ok {
        return Ok(());
    }
    Err(Failure::failed(format!(
        "{} is damaged: {}, {}; restore a backup",
        args.pool.display(),
        display_counted(report.violations, "violation"),
        display_counted(report.leaked_blocks, "leaked block")
    )))
}

/// Whether the pool was never looked at.
const fn says_nothing_of_the_pool(error: &Error) -> bool {
    matches!(error, Error::Pool(PoolError::Missing { .. } | PoolError::Locked { .. } | PoolError::Io { .. }))
}

fn show(args: &Args, report: &Report) -> Outcome {
    let text = if args.json {
        serde_json::to_string(report).map_err(|error| Failure::failed(error.to_string()))? + "\n"
    } else if report.ok {
        format!("{} is sound: {}, nothing lost, nothing leaked\n", args.pool.display(), display_counted(report.keys, "key"))
    } else {
        report.details.iter().map(|detail| format!("{detail}\n")).collect()
    };
    let mut output = std::io::stdout().lock();
    output.write_all(text.as_bytes()).and_then(|()| output.flush()).map_err(|error| Failure::output(&error))
}
