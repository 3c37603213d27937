//! What stands in place of plots in a build that draws none.

use super::{Figure, Panel};
use crate::BenchError;

/// A panel by itself, as SVG.
///
/// # Errors
/// [`BenchError::NoPlots`].
pub const fn panel_svg(_panel: &Panel) -> Result<String, BenchError> {
    Err(BenchError::NoPlots)
}

/// All panels of a figure, as SVG.
///
/// # Errors
/// [`BenchError::NoPlots`].
pub const fn figure_svg(_figure: &Figure) -> Result<String, BenchError> {
    Err(BenchError::NoPlots)
}

/// All panels of a figure, as the bytes of a PNG file.
///
/// # Errors
/// [`BenchError::NoPlots`].
pub const fn figure_png(_figure: &Figure) -> Result<Vec<u8>, BenchError> {
    Err(BenchError::NoPlots)
}
