//! What a protocol is to a connection: it is given bytes that came, and says what comes next.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::Notify;

/// What is spoken at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// memcached's.
    Memcached,
    /// Redis'.
    Redis,
}

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
    /// Something has to happen elsewhere, until this moment at most.
    Wait(Option<Instant>),
    /// There is more to be answered, once replies were sent or while they wait.
    Write,
    /// The next request takes long: it is to be served by a thread that others do not wait for.
    Long,
    /// The next request waits, for what one that takes long has locked or for a backup: it is to be
    /// served by a thread that may wait.
    Locked,
    /// The next request is a script that takes long: it is to be served likewise.
    Script,
    /// The connection ends.
    Close,
    /// It goes on elsewhere, when the replies were sent.
    #[cfg_attr(not(feature = "cluster"), allow(dead_code))]
    Leave,
}

impl Then {
    /// Whether requests that have come are to be answered.
    pub(crate) fn has_more(self) -> bool {
        matches!(self, Self::Write | Self::Long | Self::Locked | Self::Script)
    }
}

/// What speaks a protocol on a connection.
pub trait Session: Send + 'static {
    /// Answers the requests at the front of `input`.
    fn serve(&mut self, input: &[u8], out: &mut Vec<u8>) -> Served;

    /// The same, also of requests that take long; else these are [left](Then::Long).
    fn serve_long(&mut self, input: &[u8], out: &mut Vec<u8>) -> Served {
        self.serve(input, out)
    }

    /// What tells that there is something to do though no bytes came; none: nothing ever does.
    fn notify(&self) -> Option<Arc<Notify>> {
        None
    }

    /// Whether what waits for it is too much: the connection ends, whatever it does.
    fn is_lost(&self) -> bool {
        false
    }

    /// Whether another client has ended it.
    fn is_killed(&self) -> bool {
        false
    }

    /// Its client has not taken so many bytes of replies.
    fn set_unsent(&self, _bytes: usize) {}

    /// Bytes of memory that it holds, beside the input, for requests that have not come to their
    /// end.
    fn held_bytes(&self) -> usize;
}

/// Whether a line with these words is one of HTTP. A page of the web can make a browser send such
/// lines to any port, with commands behind them; what comes before those closes the connection.
pub fn is_http(first: &[u8], last: &[u8]) -> bool {
    first.eq_ignore_ascii_case(b"POST")
        || first.eq_ignore_ascii_case(b"Host:")
        || last.starts_with(b"HTTP/")
}
