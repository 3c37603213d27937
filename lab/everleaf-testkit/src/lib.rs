//! Conformance, crash scenarios, damage and torture, written once and run on every engine: by the
//! tests and by the command line.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod allocator;
mod concurrent;
mod conformance;
mod disk;
mod draw;
mod families;
pub mod linearizability;
mod model;
mod operation;
mod parse;
mod script;
mod sites;
mod steps;
mod subject;
mod suite;
mod torture;

pub use allocator::{ALLOCATOR_PATHS, Action, AllocatorOperation, AllocatorSubject};
pub use concurrent::{Answer, ConcurrentEngineSubject};
pub use conformance::{Conformance, TestKeys};
pub use disk::{DiskCase, DiskReport};
pub use families::{engine_sites, folders, may_be_idle, why_equivalent};
pub use operation::{Cut, End, Key, Operation};
pub use script::{Scenario, ScriptError, ScriptKeys};
pub use sites::{POOL_SITES, TREE_SITES};
use subject::holds_a_pool;
pub use subject::{EngineSubject, Level, PATHS, PathTaken, Target, WIDE_PATHS};
pub use suite::{
    Case, CaseKind, CaseSubject, Coverage, FULL_SUITE_SEEDS, SuiteProgress, SuiteReport, argument,
    continue_suite, directed_cases, every_mutant, full_suite, more_cases, run_suite,
};
pub use torture::{Course, TortureError, TortureOptions, TortureReport, torture, torture_child};
