//! Running a closure until it meets no other writer.
//!
//! The first attempts hold nobody up. A transaction that reads much beside a thread which writes
//! without a pause would never end so; the later ones run alone, behind the store's
//! [gate](crate::core::gate). Where the closure takes longer than the gate has patience, it is
//! closed for twice as long the next time, up to a limit; so a transaction holds up others for a
//! bounded time in all, whatever its closure does. What writes itself what it has read, by the
//! store and not by the transaction, meets a conflict each time, and that is its result in the end.

use std::time::Duration;

use crossbeam_utils::Backoff;

use super::Transaction;
use crate::Error;
use crate::core::gate::Turn;
use crate::handle::Handle;

/// How often [`Store::transaction`](crate::Store::transaction) runs what meets other writers.
const ATTEMPTS: u32 = 64;
/// How long other threads wait at most for one turn of a transaction that runs alone.
const LONGEST_PATIENCE: Duration = Duration::from_millis(6400);

/// What the closure of [`Store::transaction`](crate::Store::transaction) returns: a
/// [`Result`](crate::Result). Closures with errors of their own are for
/// [`Store::try_transaction`](crate::Store::try_transaction).
#[diagnostic::on_unimplemented(
    message = "the closure of `transaction` returns `everleaf::Result`, and not `{Self}`",
    label = "an error of its own",
    note = "for errors of your own, that are `From<everleaf::Error>`, take `try_transaction`, and \
            name them in the closure: `|tx| -> Result<_, MyError>`"
)]
pub trait TransactionResult<R> {
    #[doc(hidden)]
    fn into_result(self) -> crate::Result<R>;
}

impl<R> TransactionResult<R> for crate::Result<R> {
    fn into_result(self) -> Self {
        self
    }
}

/// When a transaction begins to run alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Attempts beside other writers.
    pub(crate) beside: u32,
    /// How long other threads wait at most the first time.
    pub(crate) patience: Duration,
}

impl Pace {
    pub(crate) const USUAL: Self = Self { beside: 8, patience: Duration::from_millis(100) };

    /// Closes the gate, for twice as long each time; none if it was closed too long already.
    fn next_turn<'h>(&mut self, handle: &'h Handle) -> Option<Turn<'h>> {
        if self.patience > LONGEST_PATIENCE {
            return None;
        }
        let turn = handle.backend().run_alone(self.patience);
        self.patience *= 2;
        turn
    }
}

impl Transaction {
    /// Runs `work` until it meets no other writer, at most [`ATTEMPTS`] times.
    pub(crate) fn run<R, E: From<Error>>(
        handle: &Handle,
        mut pace: Pace,
        mut work: impl FnMut(&mut Self) -> std::result::Result<R, E>,
    ) -> std::result::Result<R, E> {
        let backoff = Backoff::new();
        let mut turn = None;
        for attempt in 0..ATTEMPTS {
            if attempt >= pace.beside && turn.as_ref().is_none_or(Turn::is_over) {
                drop(turn.take()); // Before another one is asked for: it would be waited for.
                turn = pace.next_turn(handle);
            }
            let mut transaction = Self::begin(handle)?;
            let result = work(&mut transaction);
            if !transaction.has_conflict() {
                let result = result?;
                match transaction.commit() {
                    Err(Error::Conflict) => {}
                    committed => return Ok(committed.map(|()| result)?),
                }
            }
            backoff.snooze();
        }
        Err(Error::Conflict.into())
    }
}
