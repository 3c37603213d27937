//! The media of the laboratory. None of them keeps anything for a user.
//!
//! Map of the files: `traced` (what the explorer works on) · `event` `watch` `reads` `scheduler`
//! (what it records, which loads it notes, which words a run depends on, which thread runs) ·
//! `instrumented` (hardware that counts or has added latencies) · `counting` `tally` `cache_model`
//! (what it counts, where the counts stand, which reads go to memory) · `latency` (what it adds) ·
//! `dram` (memory without barriers) · `interleaved` (what happens between two steps).

mod cache_model;
mod counting;
mod dram;
mod event;
mod instrumented;
mod interleaved;
mod latency;
mod reads;
mod scheduler;
mod tally;
mod traced;
mod watch;

pub use cache_model::CacheModel;
pub use counting::Counts;
pub use dram::Dram;
pub use event::Event;
pub use instrumented::Instrumented;
pub use interleaved::{Access, Interleaved};
pub use latency::Latencies;
pub(crate) use reads::ReadSet;
pub use scheduler::Scheduler;
pub use traced::Traced;
