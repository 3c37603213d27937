//! How a command ends that could not measure.

use everleaf_bench::BenchError;
use everleaf_cli::failure::Failure;

/// Wrong usage, or a failure.
pub fn failure(error: BenchError) -> Failure {
    let sentence = error.to_string();
    if error.is_wrong_usage() { Failure::Usage(sentence) } else { Failure::Failed(sentence) }
}
