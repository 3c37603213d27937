//! A connection of a Redis client: what it has selected, what waits for it, what it is doing.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::Notify;

use super::failure::{Outcome, TOO_LONG};
use super::long::Long;
use super::queue::{Queue, Watched};
use super::replies::Replies;
use super::tracked::Own;
use crate::authentication::ClientPlace;
use crate::data::Place;
use crate::memory::Reservation;
use crate::resp::parse::Parser;
use crate::shared::{Ends, Entry, Event, Monitor, Shared, Subscriber};

/// What a reply has beside its values, at most, when it is not counted as made whole.
const HEAD_BYTES: usize = 64;
/// A value that belongs to a part of a reply.
const SHORT_VALUE_BYTES: usize = 1 << 20;

/// A connection.
pub struct Session {
    pub(super) shared: Arc<Shared>,
    pub(super) parser: Parser,
    pub(super) three: bool,
    pub(super) database: u8,
    pub(super) authenticated: bool,
    /// What others know of it; shared with what a reset leaves.
    pub(super) client: Arc<Entry>,
    /// Whether its client is on this machine, by a socket of the file system.
    pub(super) is_local: bool,
    pub(super) replies: Replies,
    /// CLIENT NO-EVICT and NO-TOUCH, which are told.
    pub(super) is_kept: bool,
    pub(super) touches_nothing: bool,
    /// Commands are paused, and the request at the front is one of them, until then.
    pub(super) paused_until: Option<Instant>,
    pub(super) is_paused: bool,
    /// Bytes from the request at the front on.
    pub(super) input_bytes: usize,
    /// The place of the last command among the names.
    pub(super) last_command: usize,
    /// Where its client is, by which wrong passwords are counted.
    pub(super) place: ClientPlace,
    pub(super) queue: Option<Queue>,
    pub(super) watched: Watched,
    pub(super) closing: bool,
    /// The reply to the request at the front, which is sent in parts.
    pub(super) long: Option<Long>,
    /// The request at the front waits for a key.
    pub(super) waits: Option<Waits>,
    /// The request at the front takes long, and others come in between.
    pub(super) goes_on: bool,
    /// What it needs is locked by others that take long.
    pub(super) is_locked: bool,
    /// It is a script that takes long.
    pub(super) is_script: bool,
    /// Some of that was done already, or tried.
    pub(super) is_asked_again: bool,
    /// Requests that take long are left, and those that others who take long keep waiting.
    pub(super) leaves_long: bool,
    /// What it has subscribed to.
    pub(super) subscriber: Option<Subscriber>,
    /// It is told of every command.
    pub(super) monitor: Option<Monitor>,
    /// Keys that its client keeps.
    pub(super) tracking: Own,
    /// What a transaction at work has done to keys.
    pub(super) events: Vec<Event>,
    /// What a transaction at work has published.
    pub(super) unsent: Option<Vec<[Vec<u8>; 2]>>,
    /// The libraries of functions, where a transaction at work has changed them.
    #[cfg(feature = "scripts")]
    pub(super) libraries: Option<Arc<crate::scripts::Libraries>>,
    /// What those who monitor are told behind the command at work: the commands of a script.
    pub(super) monitored: Vec<String>,
    /// The room of a reply that was made whole and is not sent.
    pub(super) whole: Reservation,
    /// Requests that are not counted yet.
    pub(super) requests: u64,
}

/// A request that waits for a key.
pub(super) struct Waits {
    pub(super) place: Place,
    /// When it has waited long enough; none: never.
    pub(super) deadline: Option<Instant>,
    /// When it looks though nobody has woken it.
    pub(super) looks: Option<Instant>,
    /// Bytes of its keys.
    pub(super) bytes: usize,
}

impl Waits {
    pub(super) fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= Instant::now())
    }

    /// When there is something to do though nobody wakes it.
    pub(super) fn next(&self) -> Option<Instant> {
        self.looks.into_iter().chain(self.deadline).min()
    }
}

impl Session {
    /// A new connection.
    pub fn new(shared: Arc<Shared>) -> Self {
        let client = Arc::new(shared.clients.enter(&shared.replies));
        Self::of(shared, client)
    }

    fn of(shared: Arc<Shared>, client: Arc<Entry>) -> Self {
        let authenticated = shared.options.redis_password.is_none();
        let whole = shared.replies.reserve();
        Self {
            shared,
            parser: Parser::default(),
            three: false,
            database: 0,
            authenticated,
            client,
            is_local: false,
            replies: Replies::default(),
            is_kept: false,
            touches_nothing: false,
            paused_until: None,
            is_paused: false,
            input_bytes: 0,
            last_command: 0,
            place: ClientPlace::default(),
            queue: None,
            watched: Watched::default(),
            closing: false,
            long: None,
            waits: None,
            goes_on: false,
            is_locked: false,
            is_script: false,
            is_asked_again: false,
            leaves_long: false,
            subscriber: None,
            monitor: None,
            tracking: Own::default(),
            events: Vec::new(),
            unsent: None,
            monitored: Vec::new(),
            #[cfg(feature = "scripts")]
            libraries: None,
            whole,
            requests: 0,
        }
    }

    /// The same, whose client is there.
    pub fn with_ends(mut self, ends: Ends) -> Self {
        self.is_local = ends.peer.contains('/') || ends.peer.starts_with("unix");
        self.place = ClientPlace::of(&ends.peer);
        self.client.set_ends(ends);
        self
    }

    /// Forgets all that its client has said, but what library it is.
    pub(super) fn reset(&mut self) {
        self.client.words(|words| words.name = Vec::new());
        self.client.mailbox.speak(false);
        *self = Self {
            requests: self.requests,
            is_local: self.is_local,
            last_command: self.last_command,
            place: self.place,
            ..Self::of(Arc::clone(&self.shared), Arc::clone(&self.client))
        };
    }

    /// What tells that there is something to do though nothing came.
    pub fn notify(&self) -> &Arc<Notify> {
        &self.client.notify
    }

    /// Whether messages for it were lost, because its client did not take them.
    pub fn is_lost(&self) -> bool {
        self.client.mailbox.is_lost()
    }

    /// Whether another client has ended it.
    pub fn is_killed(&self) -> bool {
        self.client.is_killed()
    }

    /// Its client has not taken so many bytes of replies.
    pub fn set_unsent(&self, bytes: usize) {
        self.client.set_unsent(bytes);
    }

    /// Bytes of memory that it holds for requests that have not come to their end, and for what
    /// its client said of itself and of the keys that it watches.
    pub fn held_bytes(&self) -> usize {
        let queue = self.queue.as_ref().map_or(0, |queue| queue.bytes);
        let waits = self.waits.as_ref().map_or(0, |waits| waits.bytes);
        let subscribed = self.subscriber.as_ref().map_or(0, Subscriber::held_bytes);
        let words = self.client.words(|words| words.len());
        self.parser.held_bytes() + queue + waits + subscribed + self.watched.bytes + words
    }

    // ---- replies that are made whole
    // ---------------------------------------------------------------------------------------------

    /// The most bytes of a reply that is made whole: a single value always has room.
    pub(super) fn whole_limit(&self) -> usize {
        let limits = &self.shared.options.limits;
        let quarter = usize::try_from(limits.whole_bytes / 4).unwrap_or(usize::MAX);
        quarter.max(self.shared.longest.redis.saturating_add(HEAD_BYTES))
    }

    /// Takes the room of a reply that was made whole, if it is more than one part and not a single
    /// value; it is given back when the reply was sent. The reply begins at `start` of what waits
    /// to be sent.
    ///
    /// # Errors
    /// It is too long, or others have the room.
    pub(super) fn take_room(&mut self, out: &[u8], start: usize) -> Outcome {
        let (bytes, shared) = (out.len(), &self.shared);
        let value_bytes = shared.longest.redis.min(SHORT_VALUE_BYTES);
        let part = shared.options.limits.reply_bytes.saturating_add(value_bytes) + HEAD_BYTES;
        if bytes - start > self.whole_limit() {
            return Err(TOO_LONG.into());
        }
        if out.get(start) == Some(&b'$') {
            return Ok(());
        }
        if bytes > part && !self.whole.set(bytes as u64) {
            let _ = self.whole.set(0);
            return Err(TOO_LONG.into());
        }
        Ok(())
    }
}
