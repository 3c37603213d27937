//! Sockets: who is listened to, and how bytes become requests and replies.
//!
//! Map of the files: `server` (listeners and threads) · `connection` (one connection) · `listener`
//! (addresses).

mod connection;
mod listener;
mod server;

pub use server::{Server, wait_for_signal};

/// What a session did with the bytes that it was given.
#[derive(Clone, Copy, Debug)]
pub struct Served {
    /// Bytes that are answered.
    pub consumed: usize,
    /// What comes next, after the replies were sent.
    pub then: Then,
}

/// What a connection does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// More bytes are needed.
    Read,
    /// There is more to be answered once the replies were sent.
    Write,
    /// The connection ends.
    Close,
}

/// What speaks a protocol on a connection.
pub trait Session: Send + 'static {
    /// Answers the requests at the front of `input`.
    fn serve(&mut self, input: &[u8], out: &mut Vec<u8>) -> Served;
}

impl Session for crate::redis::Session {
    fn serve(&mut self, input: &[u8], out: &mut Vec<u8>) -> Served {
        Self::serve(self, input, out)
    }
}

impl Session for crate::memcached::Session {
    fn serve(&mut self, input: &[u8], out: &mut Vec<u8>) -> Served {
        Self::serve(self, input, out)
    }
}
