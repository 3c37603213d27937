//! Threads of the server.

use std::thread::JoinHandle;

use crate::ServeError;

/// Starts one.
///
/// # Errors
/// [`ServeError::Thread`].
pub(super) fn spawn(
    name: String,
    run: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, ServeError> {
    std::thread::Builder::new().name(name).spawn(run).map_err(ServeError::Thread)
}
