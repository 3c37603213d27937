//! Sockets: who is listened to, and how bytes become requests and replies.
//!
//! Map of the files: `server` (listeners and threads) · `front` (who answers) · `relay` (what a
//! node does that does not lead) · `connection` (one connection) · `unsent` (replies wait for their
//! client) · `syncer` (replies wait for the disk) · `held` (or for a cluster) · `socket` (reading
//! and closing) · `listener` (addresses) · `thread` · `monitor` `prometheus` (who operates the
//! server).

mod connection;
mod front;
mod held;
mod listener;
mod monitor;
mod prometheus;
#[cfg(feature = "cluster")]
mod relay;
mod server;
mod socket;
mod syncer;
mod thread;
mod unsent;

use std::sync::Arc;

use tokio::sync::Notify;

use crate::protocol::{Served, Session};

pub use server::{Server, wait_for_signal};

impl Session for crate::redis::Session {
    fn serve(&mut self, input: &[u8], out: &mut Vec<u8>) -> Served {
        Self::serve(self, input, out)
    }

    fn serve_long(&mut self, input: &[u8], out: &mut Vec<u8>) -> Served {
        Self::serve_long(self, input, out)
    }

    fn notify(&self) -> Option<Arc<Notify>> {
        Some(Arc::clone(Self::notify(self)))
    }

    fn is_lost(&self) -> bool {
        Self::is_lost(self)
    }

    fn is_killed(&self) -> bool {
        Self::is_killed(self)
    }

    fn set_unsent(&self, bytes: usize) {
        Self::set_unsent(self, bytes);
    }

    fn held_bytes(&self) -> usize {
        Self::held_bytes(self)
    }
}

impl Session for crate::memcached::Session {
    fn serve(&mut self, input: &[u8], out: &mut Vec<u8>) -> Served {
        Self::serve(self, input, out)
    }

    fn set_unsent(&self, bytes: usize) {
        Self::set_unsent(self, bytes);
    }

    fn held_bytes(&self) -> usize {
        Self::held_bytes(self)
    }
}
