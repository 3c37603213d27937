//! Conformance, crash scenarios, damage and torture, written once and run on every engine: by the tests and by the command line.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod concurrent;
mod conformance;
mod lines;
mod script;
mod subject;
mod torture;

pub use concurrent::{Answer, ConcurrentEngineSubject};
pub use conformance::{Conformance, TestKeys};
pub use script::{Key, Operation, Scenario, ScriptError, ScriptKeys};
pub use subject::{EngineSubject, Level, Target};
pub use torture::{TortureError, TortureOptions, TortureReport, torture, torture_child};
