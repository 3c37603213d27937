//! A report that is being measured, section by section.

use super::{ReportOptions, Scale, Section};
use crate::BenchError;
use crate::session::ProgressTracker;

/// A report that is being measured.
pub struct Run<'r, 'p> {
    pub options: &'r ReportOptions,
    pub scale: Scale,
    pub steps: &'r mut ProgressTracker<'p>,
}

/// What measuring a section gives.
pub type Outcome = Result<Section, BenchError>;
