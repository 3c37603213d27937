//! A connection of a Redis client: the way of its requests to the commands.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use smallvec::SmallVec;
use tokio::sync::Notify;
use tracing::{error, warn};

use super::backup;
use super::blocking::{Blocking, Timeout, Wait};
use super::call::{Call, Failure, Outcome, TOO_LONG, is, wrong_number};
use super::greeting;
use super::long::{Long, More};
use super::parse::{Front, Parser};
use super::pubsub::Subscriber;
use super::reply::Reply;
use super::table::{Command, Named, find, full_name, has_subcommands, takes};
use super::timing;
use super::transaction::{Queue, Watched, is_at_once};
use crate::data::{Database, Held, Place, Work};
use crate::net::{Served, Then, is_http};
use crate::shared::{Part, Shared};

/// What a reply has beside its values, at most, when it is not counted as made whole.
const HEAD_BYTES: usize = 64;

/// Memory that a key takes that is waited for, beside its bytes.
const WAITING_BYTES: usize = 128;

/// What a request is about.
#[derive(Clone, Copy)]
pub(super) enum Asked {
    /// The store.
    Store(&'static Command),
    /// The connection.
    Connection,
}

/// What is left of a command.
pub(super) struct Left {
    more: Option<More>,
    wait: Option<Wait>,
}

/// A connection.
pub struct Session {
    pub(super) shared: Arc<Shared>,
    parser: Parser,
    pub(super) three: bool,
    pub(super) database: u8,
    pub(super) authenticated: bool,
    pub(super) name: Vec<u8>,
    /// Where its client is.
    pub(super) peer: String,
    pub(super) number: u64,
    pub(super) queue: Option<Queue>,
    pub(super) watched: Watched,
    pub(super) closing: bool,
    /// The reply to the request at the front, which is sent in parts.
    long: Option<Long>,
    /// The request at the front waits for a key.
    waits: Option<Waits>,
    /// The request at the front takes long, and others come in between.
    goes_on: bool,
    /// What it needs is locked by others that take long.
    is_locked: bool,
    /// Some of that was done already, or tried.
    is_asked_again: bool,
    /// Requests that take long are left, and those that others who take long keep waiting.
    pub(super) leaves_long: bool,
    /// Tells the connection that there is something to do.
    pub(super) notify: Arc<Notify>,
    /// What it has subscribed to.
    pub(super) subscriber: Option<Subscriber>,
    /// What a transaction at work has published.
    pub(super) unsent: Option<Vec<[Vec<u8>; 2]>>,
    /// The room of a reply that was made whole and is not sent.
    whole: Part,
    /// Requests that are not counted yet.
    requests: u64,
}

/// Whether a command tells numbers of keys.
pub(super) fn tells_counts(name: &[u8]) -> bool {
    is(name, "DBSIZE") || is(name, "INFO")
}

/// A request that waits for a key.
struct Waits {
    place: Place,
    /// When it has waited long enough; none: never.
    deadline: Option<Instant>,
    /// Bytes of its keys.
    bytes: usize,
}

impl Waits {
    fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= Instant::now())
    }
}

fn store_failed(error: &everleaf::Error, reply: &mut Reply<'_>) {
    if error.is_full() {
        reply.error("OOM command not allowed when used memory > 'maxmemory'.");
    } else {
        error!(%error, "a request failed in the store");
        reply.error(&format!("ERR {error}"));
    }
}

pub(super) fn failed(failure: Failure, reply: &mut Reply<'_>) {
    match failure {
        Failure::Said(sentence) => reply.error(sentence),
        Failure::Text(sentence) => reply.error(&sentence),
        Failure::Store(error) => store_failed(&error, reply),
        // In a transaction nothing is done later.
        Failure::Later | Failure::Locked => reply.error("ERR ask again"),
    }
}

impl Session {
    /// A new connection.
    pub fn new(shared: Arc<Shared>) -> Self {
        let authenticated = shared.options.redis_password.is_none();
        let number = shared.counters.connections.get();
        let whole = shared.replies.part();
        Self {
            shared,
            parser: Parser::default(),
            three: false,
            database: 0,
            authenticated,
            name: Vec::new(),
            peer: String::new(),
            number,
            queue: None,
            watched: Watched::default(),
            closing: false,
            long: None,
            waits: None,
            goes_on: false,
            is_locked: false,
            is_asked_again: false,
            leaves_long: false,
            subscriber: None,
            unsent: None,
            notify: Arc::default(),
            whole,
            requests: 0,
        }
    }

    /// The same, whose client is there.
    pub fn with_peer(self, peer: String) -> Self {
        Self { peer, ..self }
    }

    /// Forgets all that its client has said.
    pub(super) fn reset(&mut self) {
        *self = Self {
            number: self.number,
            requests: self.requests,
            peer: std::mem::take(&mut self.peer),
            notify: Arc::clone(&self.notify),
            ..Self::new(Arc::clone(&self.shared))
        };
    }

    /// What tells that there is something to do though nothing came.
    pub fn notify(&self) -> &Arc<Notify> {
        &self.notify
    }

    /// Whether messages for it were lost, because its client did not take them.
    pub fn is_lost(&self) -> bool {
        self.subscriber.as_ref().is_some_and(Subscriber::is_lost)
    }

    /// Bytes of memory that it holds for requests that have not come to their end, and for what
    /// its client said of itself and of the keys that it watches.
    pub fn held_bytes(&self) -> usize {
        let queue = self.queue.as_ref().map_or(0, |queue| queue.bytes);
        let waits = self.waits.as_ref().map_or(0, |waits| waits.bytes);
        let subscribed = self.subscriber.as_ref().map_or(0, Subscriber::held_bytes);
        self.parser.held_bytes() + queue + waits + subscribed + self.watched.bytes + self.name.len()
    }

    /// Answers the requests at the front of `input`. What was written the time before was sent. One
    /// that takes long is left.
    pub fn serve(&mut self, input: &[u8], out: &mut Vec<u8>) -> Served {
        self.leaves_long = true;
        self.serve_long(input, out)
    }

    /// As [`serve`](Session::serve), but that a request that takes long is answered too.
    pub fn serve_long(&mut self, input: &[u8], out: &mut Vec<u8>) -> Served {
        let _ = self.whole.set(0);
        let limits = &self.shared.options.limits;
        let (reply_bytes, value_bytes) = (limits.reply_bytes, limits.value_bytes);
        if self.is_lost() {
            return Served { consumed: input.len(), then: Then::Close };
        }
        // No message comes between the parts of a reply.
        if let Some(subscriber) = self.subscriber.as_ref().filter(|_| self.long.is_none())
            && subscriber.take(out, reply_bytes)
        {
            return Served { consumed: 0, then: Then::Write };
        }
        let (mut consumed, mut looked_at, mut begun) = (0, 0, Instant::now());
        let mut parser = std::mem::take(&mut self.parser);
        let then = loop {
            if out.len() >= reply_bytes {
                break Then::Write;
            }
            let rest = &input[consumed..];
            let front = parser.front(rest, value_bytes);
            if let Front::Request(bytes) = front
                && consumed >= looked_at
                && bytes < rest.len()
                && self.is_new()
            {
                looked_at = consumed + self.look_ahead(rest);
                begun = Instant::now();
            }
            match front {
                // Who has subscribed waits for messages as well.
                Front::Incomplete if self.subscriptions() > 0 => break Then::Wait(None),
                Front::Incomplete => break Then::Read,
                Front::Wrong(why) => {
                    Reply::to(out, self.three).error(&format!("ERR {why}"));
                    self.closing = true;
                }
                Front::Request(_) if self.waits_for_counts(parser.argument(rest, 0)) => {
                    break Then::Write;
                }
                Front::Request(_) if self.leaves_long && self.saves(parser.argument(rest, 0)) => {
                    break Then::Locked;
                }
                Front::Request(_) if self.leaves_long && self.takes_long(&parser, rest) => {
                    break Then::Long;
                }
                Front::Request(bytes) => {
                    if let Some(waits) = &self.waits
                        && !waits.place.is_woken()
                        && !waits.is_over()
                    {
                        break Then::Wait(waits.deadline);
                    }
                    match self.long.take() {
                        Some(long) => {
                            self.go_on(long, &parser, rest, out);
                            begun = Instant::now();
                        }
                        None => {
                            let args: SmallVec<[&[u8]; 8]> =
                                (0..parser.len()).map(|at| parser.argument(rest, at)).collect();
                            begun = self.request(&args, out, begun);
                        }
                    }
                    if let Some(waits) = self.waits.as_ref().filter(|_| !self.goes_on) {
                        break Then::Wait(waits.deadline);
                    }
                    if std::mem::take(&mut self.goes_on) {
                        let is_locked = std::mem::take(&mut self.is_locked);
                        break if is_locked { Then::Locked } else { Then::Write };
                    }
                    // The request stays at the front until it is answered to its end.
                    if self.long.is_none() {
                        parser.next_request();
                        consumed += bytes;
                    }
                }
            }
            if self.closing {
                consumed = input.len();
                break Then::Close;
            }
        };
        self.parser = parser;
        self.leaves_long = false;
        self.count_requests();
        Served { consumed, then }
    }

    /// Counts the requests that were answered: threads share the number, so not one by one.
    fn count_requests(&mut self) {
        self.shared.counters.redis_commands.add(std::mem::take(&mut self.requests));
    }

    /// Whether nothing of the request at the front was done.
    fn is_new(&self) -> bool {
        self.long.is_none() && self.waits.is_none()
    }

    /// Whether what is to be done of the request at the front takes long.
    fn takes_long(&self, parser: &Parser, input: &[u8]) -> bool {
        match &self.long {
            Some(long) => long.seeks(),
            None => self.waits.is_none() && self.is_long(parser, input),
        }
    }

    /// Whether the request at the front waits for a backup.
    fn saves(&self, name: &[u8]) -> bool {
        self.authenticated && self.queue.is_none() && backup::is_backup(name)
    }

    /// Whether a command tells numbers of keys that are not counted yet: then some more are.
    fn waits_for_counts(&self, name: &[u8]) -> bool {
        if self.shared.data.has_counted() {
            return false;
        }
        let needs = match &self.queue {
            None => tells_counts(name),
            Some(queue) => is(name, "EXEC") && queue.requests().any(|args| tells_counts(&args[0])),
        };
        needs && !self.shared.data.count_some().unwrap_or(true)
    }

    /// Another part of a long reply.
    fn go_on(&mut self, mut long: Long, parser: &Parser, input: &[u8], out: &mut Vec<u8>) {
        let bytes = self.shared.options.limits.reply_bytes;
        match long.part(parser, input, bytes, &mut Reply::to(out, self.three)) {
            Ok(true) => {}
            Ok(false) => self.long = Some(long),
            Err(failure) => {
                // An error cannot stand between the values of a reply that was begun.
                warn!(?failure, "closed a connection: its reply was begun");
                self.closing = true;
            }
        }
    }

    /// Answers a request that was begun then; when it ended.
    fn request(&mut self, args: &[&[u8]], out: &mut Vec<u8>, begun: Instant) -> Instant {
        let Some(name) = args.first() else { return begun };
        let is_new = self.waits.is_none() && !std::mem::take(&mut self.is_asked_again);
        self.requests += u64::from(is_new);
        if is(name, "INFO") || is(name, "EXEC") {
            self.count_requests();
        }
        let found = find(name);
        let known = found.is_some() || greeting::arity(name).is_some();
        if !known && is_http(name, args.last().unwrap_or(name)) {
            warn!("closed a connection: a request of HTTP");
            self.closing = true;
            return begun;
        }
        let greeting = || ["AUTH", "HELLO", "QUIT", "RESET"].iter().any(|word| is(name, word));
        if !self.authenticated && !greeting() {
            Reply::to(out, self.three).error("NOAUTH Authentication required.");
            return Instant::now();
        }
        let start = out.len();
        let refused =
            !self.three && self.subscriptions() > 0 && !greeting::is_for_subscribers(name);
        let at_once = if known || refused { None } else { self.at_once(args, out) };
        let is_queued = at_once.is_none() && self.queue.is_some();
        let done = at_once.unwrap_or_else(|| {
            let asked = match asked(found, args) {
                Ok(_) if refused => Err(only_for_subscribers(args)),
                Ok(_) if is_queued && backup::is_backup(name) => Err(backup::NOT_QUEUED.into()),
                Err(_) if refused && is_at_once(name) => Err(only_for_subscribers(args)),
                asked => asked,
            };
            match (&mut self.queue, asked) {
                (Some(queue), Err(failure)) => {
                    queue.refused = true;
                    Err(failure)
                }
                (Some(_), Ok(asked)) => self.enqueue(asked, args, out),
                (None, asked) => asked.and_then(|asked| self.answer(asked, args, out)),
            }
        });
        if let Err(failure) = done {
            out.truncate(start);
            if let Failure::Later | Failure::Locked = failure {
                self.goes_on = true;
                self.is_locked = matches!(failure, Failure::Locked);
                self.is_asked_again = true;
                return begun;
            }
            failed(failure, &mut Reply::to(out, self.three));
        }
        let took = begun.elapsed();
        if self.waits.is_none() {
            let command = timing::command(found, name, is_queued);
            self.shared.metrics.redis.add(command, took);
        }
        let limit = u64::try_from(self.shared.settings.slow_micros.load(Ordering::Relaxed)).ok();
        if limit.is_some_and(|micros| took.as_micros() >= u128::from(micros)) && !greeting() {
            self.log_slow(args, took);
        }
        begun + took
    }

    /// Keeps a command that took long for SLOWLOG; those with passwords are left out.
    fn log_slow(&self, args: &[&[u8]], took: Duration) {
        let settings = &self.shared.settings;
        let (who, entries) = ((&self.peer[..], &self.name[..]), &settings.slow_entries);
        let (at_ms, entries) = (self.shared.data.now_ms(), entries.load(Ordering::Relaxed));
        self.shared.slowlog.add(args, took, at_ms, who, entries);
    }

    fn answer(&mut self, asked: Asked, args: &[&[u8]], out: &mut Vec<u8>) -> Outcome {
        match asked {
            Asked::Store(command) => self.command(command, args, out),
            Asked::Connection => {
                let three = self.three;
                self.greet(args, &mut Reply::to(out, three))
            }
        }
    }

    fn command(&mut self, command: &Command, args: &[&[u8]], out: &mut Vec<u8>) -> Outcome {
        let shared = Arc::clone(&self.shared);
        let data = &shared.data;
        let now_ms = data.begin_request()?;
        // Who has waited leaves its lines at the end, without the locks of its keys.
        let waits;
        let _held = self.lock(command, args, data)?;
        waits = self.waits.take();
        waits.iter().for_each(|waits| waits.place.look());
        let start = out.len();
        let mut work = Work::new(data, now_ms);
        let reply = Reply { three: self.three, end: start + self.whole_limit(), out };
        let part_bytes = Some(shared.options.limits.reply_bytes);
        let place = waits.as_ref().map(|waits| &waits.place);
        let blocking = Blocking { may_wait: true, place, wait: None };
        let left = self.run(command, args, &mut work, reply, (part_bytes, blocking))?;
        if let Some(wait) = left.wait.filter(|_| !waits.as_ref().is_some_and(Waits::is_over)) {
            out.truncate(start);
            self.waits = Some(waits.unwrap_or_else(|| self.wait(&wait)));
            return Ok(());
        }
        if let Some(more) = left.more {
            // Such a command reads only. Its keys are locked, so the moment is that of its reading.
            let moment = data.moment(&shared.images)?;
            let (database, live) = (self.database, work.live(self.database));
            self.long = Some(Long { moment, live, database, more });
            return Ok(());
        }
        // Before the commit: what is removed is replied.
        self.take_room(out.len(), start)?;
        Ok(work.commit()?)
    }

    /// Locks the keys of a command.
    fn lock<'d>(
        &self,
        command: &Command,
        args: &[&[u8]],
        data: &'d Database,
    ) -> Outcome<Option<Held<'d>>> {
        if command.name == "get" {
            return Ok(None); // One row is read as it was at one moment.
        }
        let waits = !self.leaves_long;
        let held = match command.keys.of(args) {
            Named::Nothing => return Ok(None),
            Named::Everything => data.lock_everything(waits),
            Named::Keys(keys) => data.lock_keys(&keys, waits),
        };
        held.ok_or(Failure::Locked).map(Some)
    }

    /// Takes its place in the lines of keys, whose locks are held.
    fn wait(&self, wait: &Wait) -> Waits {
        let Timeout(timeout) = wait.timeout;
        Waits {
            place: self.shared.data.wait(&wait.rows, wait.kind, &self.notify),
            // What is longer than there are moments is for ever.
            deadline: timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
            bytes: wait.rows.iter().map(|row| 2 * row.len() + WAITING_BYTES).sum(),
        }
    }

    /// Runs a command; what is left of its reply for other parts, if it may have any, or what it
    /// waits for.
    pub(super) fn run(
        &self,
        command: &Command,
        args: &[&[u8]],
        work: &mut Work<'_>,
        reply: Reply<'_>,
        (part_bytes, blocking): (Option<usize>, Blocking<'_>),
    ) -> Outcome<Left> {
        let (shared, database) = (&*self.shared, self.database);
        let more = None;
        let mut call = Call { work, args, reply, database, shared, part_bytes, more, blocking };
        (command.run)(&mut call)?;
        let left = Left { more: call.more, wait: call.blocking.wait };
        if !command.writes {
            let (hits, misses) = work.take_lookups();
            shared.counters.keyspace_hits.add(hits);
            shared.counters.keyspace_misses.add(misses);
        }
        Ok(left)
    }

    // ---- replies that are made whole
    // ---------------------------------------------------------------------------------------------

    /// The most bytes of a reply that is made whole: a single value always has room.
    pub(super) fn whole_limit(&self) -> usize {
        let limits = &self.shared.options.limits;
        let quarter = usize::try_from(limits.whole_bytes / 4).unwrap_or(usize::MAX);
        quarter.max(limits.value_bytes.saturating_add(HEAD_BYTES))
    }

    /// Takes the room of a reply that was made whole, if it is more than one part; it is given back
    /// when the reply was sent. `bytes` wait to be sent, the reply begins at `start`.
    ///
    /// # Errors
    /// It is too long, or others have the room.
    pub(super) fn take_room(&mut self, bytes: usize, start: usize) -> Outcome {
        let limits = &self.shared.options.limits;
        let part = limits.reply_bytes.saturating_add(limits.value_bytes) + HEAD_BYTES;
        if bytes - start > self.whole_limit() {
            return Err(TOO_LONG.into());
        }
        if bytes > part && !self.whole.set(bytes as u64) {
            let _ = self.whole.set(0);
            return Err(TOO_LONG.into());
        }
        Ok(())
    }
}

/// What a request is about.
fn asked(found: Option<&'static Command>, args: &[&[u8]]) -> Outcome<Asked> {
    let (asked, arity) = match found {
        Some(command) => (Asked::Store(command), command.arity),
        None => {
            let arity = greeting::arity(args[0]).ok_or_else(|| unknown(args))?;
            (Asked::Connection, arity)
        }
    };
    if !takes(arity, args.len()) {
        return Err(wrong_number(args[0]));
    }
    if has_subcommands(args[0]) {
        full_name(args)?;
    }
    Ok(asked)
}

fn only_for_subscribers(args: &[&[u8]]) -> Failure {
    let name = match full_name(args) {
        Ok(name) => name,
        Err(failure) => return failure,
    };
    Failure::Text(format!(
        "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET \
         are allowed in this context"
    ))
}

fn unknown(args: &[&[u8]]) -> Failure {
    /// How much of it is repeated.
    const SHOWN: usize = 128;
    let cut = |arg: &[u8]| arg[..arg.len().min(SHOWN)].escape_ascii().to_string();
    let mut with = String::new();
    for arg in &args[1..] {
        if with.len() >= SHOWN {
            break;
        }
        with += &format!("'{}' ", cut(arg));
    }
    let name = cut(args[0]);
    Failure::Text(format!("ERR unknown command '{name}', with args beginning with: {with}"))
}
