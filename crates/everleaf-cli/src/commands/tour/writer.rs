//! The process that the tour kills: it inserts without end, and acknowledges each insert on its
//! standard output.

use std::io::Write;
use std::path::PathBuf;

use everleaf::Store;

use crate::failure::{Failure, Outcome};

/// Name of the hidden command.
pub const NAME: &str = "__tour-writer";
/// It is killed long before; without a limit, a tour that was stopped itself would leave a process
/// behind that fills the pool.
const MAX_INSERTS: u64 = 200_000;

/// Arguments of the hidden command.
#[derive(Debug, clap::Args)]
pub struct WriterArgs {
    pool: PathBuf,
}

/// Key of the insert with this number; no word of the tour looks like it.
pub fn key(number: u64) -> String {
    format!("insert:{number:08}")
}

/// Inserts.
pub fn run(args: WriterArgs) -> Outcome {
    let store = Store::open(&args.pool)?;
    let mut output = std::io::stdout().lock();
    for number in 1..=MAX_INSERTS {
        store.put(key(number), number.to_string().as_bytes())?;
        // The insert is durable: only now is it acknowledged, in one write.
        output
            .write_all(format!("{number}\n").as_bytes())
            .map_err(|error| Failure::output(&error))?;
    }
    Err(Failure::failed("nobody killed the writer of the tour"))
}
