//! The crash explorer: every state that a power failure can leave, recovered and checked.
//!
//! It knows nothing of trees. It drives anything that implements [`Subject`] on recorded memory
//! ([`Traced`]) and answers one question: is there a moment, and a set of
//! stores that had become durable by then, from which the structure does not recover to what it had
//! promised? The model of what may be durable is that of `docs/persistence-model.md`, and nothing
//! kinder.
//!
//! 1. Run the operations once and record every store, flush, fence and `order`.
//! 2. At each crash point (after every store and every fence, and between operations) build the
//!    images that the model allows: all of them while they are few enough; else one of each kind
//!    that recovery and checks can tell apart by what they read, and where those are too many as
//!    well, the extremes and a seeded sample.
//! 3. Recover each distinct image and check it; crash inside that recovery too; and if the recovery
//!    returned before its own writes were durable, run the next operation on top and crash in
//!    there.
//! 4. With [`Options::mutate`], do it again without each barrier in turn, and with each pair of
//!    neighbouring groups between fences swapped: a [`Mutant`] in which nothing breaks means that a
//!    barrier is redundant or untested.
//!
//! The operations of a [`Subject`] run one after another. Those of a [`ConcurrentSubject`] may run
//! on several threads: [`explore_threads`] runs their interleavings one by one, and asks of each,
//! and of every crash in it, that what was returned and what is there are durably linearizable.
//!
//! Map of the files: `subject` (what is explored) · `promise` (what it owes its caller) · `options`
//! `report` `violation` (in and out) · `explore` (program, mutants, report) · `explorer` (the walk
//! over crash points and images) · `trace` (recording) · `mutant` `swap` (mutated traces) ·
//! `machine` `domain` `outcomes` (the persistence model) · `images` (choosing from it) ·
//! `undecided` (images that no recovery can tell apart) · `known` (images that passed) · `shrink`
//! (fewer operations) · `redundant` (idle barriers) · `threads` (interleavings) · `media`
//! (recording, and what benchmarks count on and compare with).
//!
//! # Examples
//! A counter that forgets its flush:
//! ```
//! use everleaf_crash::{Options, Promise, Subject, Traced, explore};
//! use everleaf_pmem::{Line, Media, PPtr, site};
//!
//! struct Counter { flushes: bool }
//! fn line(media: &Traced) -> &Line { media.region().get(PPtr::at(64)).unwrap() }
//!
//! impl Subject for Counter {
//!     type State = Traced;
//!     fn prepare(&self, media: Traced) -> Result<Traced, String> {
//!         media.store(&line(&media).0[0], 0);
//!         media.flush(site!("counter.create.flush"), &line(&media).0[0]);
//!         media.fence(site!("counter.create.fence"));
//!         Ok(media)
//!     }
//!     fn operation_count(&self) -> usize { 2 }
//!     fn run(&self, media: &mut Traced, operation: usize) -> Result<(), String> {
//!         media.store(&line(media).0[0], operation as u64 + 1);
//!         if self.flushes {
//!             media.flush(site!("counter.add.flush"), &line(media).0[0]);
//!         }
//!         media.fence(site!("counter.add.fence"));
//!         Ok(())
//!     }
//!     fn recover(&self, image: Traced) -> Result<Traced, String> { Ok(image) }
//!     fn verify(&self, media: &mut Traced, promise: &Promise) -> Result<(), String> {
//!         let found = media.load(&line(media).0[0]) as usize;
//!         let wrong = || Err(format!("the counter is {found}, not {promise}"));
//!         if promise.allows(found) { Ok(()) } else { wrong() }
//!     }
//! }
//!
//! let options = Options { len: 4096, max_len: 4096, mutate: true, ..Options::default() };
//! let report = explore(&Counter { flushes: true }, &options).unwrap();
//! assert!(report.is_good() && report.exhaustive);
//! assert_eq!(report.mutants_killed, Some(2)); // Without the flush, and without the fence.
//! let report = explore(&Counter { flushes: false }, &options).unwrap();
//! assert_eq!(report.violations[0].error, "the counter is 0, not 1");
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod domain;
mod explore;
mod explorer;
mod images;
mod known;
mod machine;
mod media;
mod mutant;
mod options;
mod outcomes;
mod promise;
mod redundant;
mod report;
mod shrink;
mod subject;
mod swap;
mod threads;
mod trace;
mod undecided;
mod violation;

pub use explore::{explore, explore_with};
pub use machine::{crash_images, crash_images_of_threads};
pub use media::{
    Access, CacheModel, Counts, Dram, Event, Instrumented, Interleaved, Latencies, Scheduler,
    Traced,
};
pub use mutant::Mutant;
pub use options::{Assumptions, Options};
pub use promise::{Acknowledges, Promise, Restart};
pub use redundant::Redundant;
pub use report::{Progress, Report};
pub use subject::{Path, RECOVERY, Subject};
pub use threads::{
    ConcurrentSubject, Interleaving, NoInterleaving, Preemption, Step, ThreadOperations,
    explore_interleaving, explore_threads, explore_threads_with,
};
pub use trace::ExploreError;
pub use violation::{Crash, During, LineState, Violation};
