//! Names that completions offer.

use clap::builder::TypedValueParser;
use everleaf_cli::names::offering;

/// The figures of the papers.
pub fn figures() -> impl TypedValueParser<Value = String> {
    offering(|| everleaf_bench::figure::figure_list().iter().map(|(name, _)| *name).collect())
}
