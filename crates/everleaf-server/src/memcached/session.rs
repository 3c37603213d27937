//! A connection of a memcached client, and the request at its front.

use std::sync::Arc;
use std::time::Instant;

use everleaf::Error;
use tracing::error;

use super::COMMANDS;
use super::items::{self, Counted, Counting, Stored, Storing};
use super::parse::{Search, Words};
use crate::authentication::ClientPlace;
use crate::shared::{Connected, Ends, Shared, State};

/// What became of the bytes at the front.
pub(super) enum Taken {
    /// They were a request of this length.
    Request(usize),
    /// They are the beginning of a request.
    Incomplete,
    /// They are a request that is not answered to its end: what was written must be sent first.
    Unfinished,
    /// They wait, until this moment at most.
    Wait(Instant),
    /// The connection is to be closed.
    Close,
}

/// A connection.
pub struct Session {
    pub(super) shared: Arc<Shared>,
    pub(super) search: Search,
    /// Bytes that the request at the front takes with its value: before they have come, nothing of
    /// it needs to be looked at.
    pub(super) wanted: usize,
    /// Bytes of a refused value that are still to come.
    pub(super) skip: u64,
    /// Where a retrieval of many keys goes on in its line.
    pub(super) resume: usize,
    /// The last key of a dump that was sent.
    pub(super) dumped: Vec<u8>,
    pub(super) authenticated: bool,
    /// Where its client is.
    pub(super) place: ClientPlace,
    /// What is told of it.
    pub(super) connected: Option<Connected>,
    /// The command at the front: its place in [`COMMANDS`].
    pub(super) command: usize,
}

/// A reply of the server's own mistakes, or of a full pool.
pub(super) fn failed(error: &Error, out: &mut Vec<u8>) {
    if error.is_full() {
        out.extend_from_slice(b"SERVER_ERROR out of memory storing object\r\n");
    } else {
        error!(%error, "a request failed in the store");
        out.extend_from_slice(format!("SERVER_ERROR {error}\r\n").as_bytes());
    }
}

impl Session {
    /// A new connection.
    pub fn new(shared: Arc<Shared>) -> Self {
        let authenticated = shared.options.memcached_users.is_none();
        let (search, dumped) = (Search::default(), Vec::new());
        let command = COMMANDS.len() - 1;
        let place = ClientPlace::default();
        Self {
            shared,
            search,
            wanted: 0,
            skip: 0,
            resume: 0,
            dumped,
            authenticated,
            place,
            connected: None,
            command,
        }
    }

    /// The same, whose client is there.
    pub fn with_ends(self, ends: Ends) -> Self {
        let place = ClientPlace::of(&ends.peer);
        let connected = Some(self.shared.connections.enter(ends, State::New));
        Self { place, connected, ..self }
    }

    /// Its client has not taken so many bytes of replies.
    pub fn set_unsent(&self, bytes: usize) {
        self.connected.iter().for_each(|connected| connected.set_unsent(bytes));
    }

    /// Bytes of memory that it holds for requests that have not come to their end.
    pub fn held_bytes(&self) -> usize {
        0
    }

    /// The bytes of a value behind a line.
    pub(super) fn block<'i>(
        &mut self,
        request: &Request<'i>,
        length: u64,
        out: &mut Vec<u8>,
    ) -> Block<'i> {
        let limit = self.shared.longest.memcached as u64;
        if length > limit {
            self.shared.counters.too_large.add(1);
            out.extend_from_slice(b"SERVER_ERROR object too large for cache\r\n");
            self.skip = length + 2;
            return Block::Refused(Taken::Request(request.line_bytes));
        }
        let length = length as usize;
        let Some(block) = request.behind.get(..length + 2) else {
            self.wanted = request.line_bytes + length + 2;
            return Block::Refused(Taken::Incomplete);
        };
        let taken = Taken::Request(request.line_bytes + block.len());
        match block.strip_suffix(b"\r\n") {
            Some(body) => Block::Body(body, taken),
            None => {
                out.extend_from_slice(b"CLIENT_ERROR bad data chunk\r\n");
                Block::Refused(taken)
            }
        }
    }

    /// Stores a value; the reply is the caller's.
    pub(super) fn store(
        &self,
        row: &[u8],
        now_ms: u64,
        storing: &Storing<'_>,
    ) -> Result<Stored, Error> {
        let counters = &self.shared.counters;
        counters.sets.add(1);
        let limit = self.shared.longest.memcached;
        let stored = items::store(&self.shared.data, row, now_ms, storing, limit);
        match &stored {
            Ok(Stored::Done(_)) => {
                counters.stored.add(1);
                self.shared.uses.stored(row, now_ms);
            }
            Ok(Stored::TooLong) => counters.too_large.add(1),
            Err(error) => counters.no_memory.add(u64::from(error.is_full())),
            Ok(_) => {}
        }
        if storing.compare.is_some() {
            match stored.as_ref().map_err(|_| ()) {
                Ok(Stored::Done(_)) => counters.cas_hits.add(1),
                Ok(Stored::Exists) => counters.cas_others.add(1),
                Ok(_) => counters.cas_misses.add(1),
                Err(()) => {}
            }
        }
        stored
    }

    /// Counts up or down; the reply is the caller's.
    pub(super) fn count(
        &self,
        row: &[u8],
        now_ms: u64,
        counting: &Counting,
    ) -> Result<Counted, Error> {
        let Shared { data, counters, uses, .. } = &*self.shared;
        let counted = items::count(data, row, now_ms, counting);
        let hit = matches!(counted, Ok(Counted::Done(..)));
        counters.counted(counting.up, hit);
        match counted {
            Ok(Counted::Done(..)) => uses.changed(row, now_ms),
            Ok(Counted::Made(..)) => {
                counters.stored.add(1);
                uses.stored(row, now_ms);
            }
            _ => {}
        }
        counted
    }
}

/// A request whose first word is known.
#[derive(Clone, Copy)]
pub(super) struct Request<'i> {
    /// The words behind it.
    pub(super) words: Words<'i>,
    /// When it is answered.
    pub(super) now_ms: u64,
    /// Bytes of the line with its end.
    pub(super) line_bytes: usize,
    /// What came behind the line.
    pub(super) behind: &'i [u8],
    /// Whether nothing of the reply is sent, mistakes included.
    pub(super) quiet: bool,
}

/// A value behind a line.
pub(super) enum Block<'i> {
    /// Its bytes, and what the whole request takes.
    Body(&'i [u8], Taken),
    /// It has not come, or is refused.
    Refused(Taken),
}

impl<'i> Request<'i> {
    /// The request is answered; it is the line.
    pub(super) const fn done(&self) -> Taken {
        Taken::Request(self.line_bytes)
    }

    /// The same with a reply.
    pub(super) fn reply(&self, reply: &[u8], out: &mut Vec<u8>) -> Taken {
        out.extend_from_slice(reply);
        self.done()
    }
}
