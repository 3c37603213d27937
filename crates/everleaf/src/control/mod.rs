//! The control socket: a pool that is open in one process, read by another.
//!
//! The owner, which has the pool open to write, listens at `POOL.sock`. The asker connects, and has
//! a store whose backend ([`remote`]) asks the owner: so commands that read need not know where the
//! pool is open. The owner answers from one snapshot for each connection.
//!
//! ```text
//! owner  a line: what the pool is                                                     Hello
//! asker  a line for each request                                                      Request
//! owner  a line for each answer, or why there is none (Refusal); behind the answer to `Entries`
//!        the frames of a dump, the empty one included; before the answer to `Check` lines that
//!        say how far it has come
//! ```
//!
//! Lines are JSON. Keys are those of the index, as in dumps. A line of an asker that is no request
//! is answered by a refusal, one that is too long ends the connection.
//!
//! Nothing of the owner waits for an asker: what is sent was copied before, but for the lines that
//! say how far a check has come, and these have a limit of time like all others.
//!
//! Map of the files: this one (what a store holds) · `wire` (lines) · `socket` (the file, and who
//! is at its other end) · `listener` (the owner's threads) · `answer` (what they answer) ·
//! `remote` (the asker).

mod answer;
mod listener;
mod remote;
mod socket;
#[cfg(test)]
mod tests;
mod wire;

use std::path::Path;
use std::sync::Arc;

pub use self::remote::open_elsewhere;
pub use self::socket::process_of;

use self::listener::{Listener, PATIENCE};
use self::socket::Socket;
use crate::Store;

/// What answers other processes, as long as a store is open.
#[derive(Default)]
pub(crate) enum Control {
    /// Nothing: it was not asked for.
    #[default]
    Off,
    /// Nothing, and why not.
    Failed(String),
    /// A thread, which ends when this is dropped.
    On { _listener: Listener },
}

impl Store {
    /// Lets other processes read the pool at `path`, which this is the store of.
    pub(crate) fn listen_beside(&self, path: &Path) {
        let listener = Socket::bind(path)
            .and_then(|socket| Listener::start(socket, Arc::clone(self.backend()), PATIENCE));
        *self.control().lock() = match listener {
            Ok(listener) => Control::On { _listener: listener },
            Err(why) => Control::Failed(format!(
                "other processes cannot read {} while it is open: {why}",
                path.display()
            )),
        };
    }

    /// Why there is no [control socket](crate::OpenOptions::control_socket) although one was asked
    /// for, as a sentence for a user; everything else works. None: there is one, or none was asked
    /// for.
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("words.pool");
    /// use everleaf::{CreateOptions, OpenOptions};
    ///
    /// CreateOptions::new().size_bytes(1 << 20).create(&path)?.close()?;
    /// std::fs::write(folder.path().join("words.pool.sock"), "something else")?;
    /// let store = OpenOptions::new().control_socket(true).open(&path)?;
    /// if let Some(why) = store.no_control_socket() {
    ///     eprintln!("warning: {why}");
    /// }
    /// # assert!(store.no_control_socket().unwrap().contains("is no socket"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn no_control_socket(&self) -> Option<String> {
        match &*self.control().lock() {
            Control::Failed(why) => Some(why.clone()),
            Control::Off | Control::On { .. } => None,
        }
    }
}
