//! Several threads: every interleaving within a bound, and the crashes of each.
//!
//! Real threads run one at a time: before each access to the memory the turn may go to another
//! thread (`scheduler`). An interleaving is given by its preemptions: the accesses before which a
//! thread was made to wait although it could have gone on. All interleavings with few preemptions
//! are run, those with none first (*iterative context bounding*: Musuvathi and Qadeer, 2007), then
//! some by chance (`explore`).
//!
//! Each is judged twice. Without a crash: what the operations returned, and what is there in the
//! end, must be linearizable. With a crash at any moment: what is recovered must be left by a
//! linearization of what had returned by then, and of any of what had not (`history`, `judge`).
//!
//! An interleaving shares its beginning with the one that it was derived from, so only the crashes
//! from its last preemption on are its own; and an image that was judged by the same promise before
//! is not judged again.
//!
//! Map of the files: `subject` (what is explored) · `interleaving` (names) · `scheduler` (which
//! thread runs) · `processor` (where threads run) · `execution` (one run) · `history`
//! (linearizations) · `judge` (promises) · `explore` (steps, verdicts, the report) · `worklist`
//! (which interleavings) · `mutants` · `reduce` (fewer preemptions) · `shrink` (fewer operations) ·
//! `counterexample`.

mod counterexample;
mod execution;
mod explore;
mod history;
mod interleaving;
mod judge;
mod mutants;
mod processor;
mod reduce;
mod scheduler;
mod shrink;
mod subject;
mod worklist;

pub use explore::{explore_interleaving, explore_threads, explore_threads_with};
pub use interleaving::{Interleaving, NoInterleaving, Preemption};
pub use subject::{ConcurrentSubject, Step, ThreadOperations};
