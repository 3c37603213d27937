//! What the programs share: calls of a store that may wait, from async code.

use everleaf::Result;

/// Runs calls of a store on a thread that may wait for a disk, while the runtime's own threads go
/// on.
///
/// A panic of `work` goes on here.
pub async fn off<R: Send + 'static>(
    work: impl FnOnce() -> Result<R> + Send + 'static,
) -> Result<R> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(ended) => std::panic::resume_unwind(ended.into_panic()),
    }
}
