//! Conformance, crash scenarios, damage and torture, written once and run on every engine: by the tests and by the command line.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod script;

pub use script::{Key, Operation, Scenario, ScriptError, ScriptKeys};
