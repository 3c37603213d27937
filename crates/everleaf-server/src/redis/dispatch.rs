//! The way of requests to the commands: which bytes are a request, which command it is, when it is
//! answered.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use smallvec::SmallVec;
use tracing::{debug, info, warn};

use super::ahead::Understood;
use super::call::{Blocking, Effects, Timeout, Wait};
use super::command::{Command, Named, takes};
use super::failure::{BUSY, Failure, OUT_OF_MEMORY, Outcome, failed, wrong_number};
use super::long::Long;
use super::names::{full_name, has_subcommands, is_at_once, tells_counts};
use super::queue::{Asked, Queue};
use super::session::{Session, Waits};
use super::table::find;
use super::{backup, names, scripting, timing};
use crate::authentication::UNAUTHENTICATED_BYTES;
use crate::data::{Database, Held, Work};
use crate::protocol::{Served, Then, is_http};
use crate::resp::argument::is;
use crate::resp::parse::{Front, Parser};
use crate::resp::reply::Reply;
use crate::shared::{Paused, Unblocked};

/// Memory that a key takes that is waited for, beside its bytes.
const WAITING_BYTES: usize = 128;

impl Session {
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
        let reply_bytes = limits.reply_bytes;
        if self.is_lost() || self.is_killed() {
            return Served { consumed: input.len(), then: Then::Close };
        }
        // No message comes between the parts of a reply.
        let start = out.len();
        let has_more = self.long.is_none() && self.client.mailbox.take(out, reply_bytes);
        if out.len() > start {
            self.shared.data.saw_last(); // What happened to keys.
        }
        if has_more {
            return Served { consumed: 0, then: Then::Write };
        }
        let (mut consumed, mut behind, mut begun) = (0, Understood::default(), Instant::now());
        let mut parser = std::mem::take(&mut self.parser);
        let then = loop {
            if out.len() >= reply_bytes {
                break Then::Write;
            }
            let rest = &input[consumed..];
            let value_bytes = self.authenticated.then_some(self.shared.longest.redis);
            behind.give(&mut parser);
            let front = parser.front(rest, value_bytes);
            let name = parser.argument(rest, 0);
            let found = self.command_of(name);
            if let Front::Request(bytes) = front
                && behind.is_empty()
                && bytes < rest.len()
                && self.is_new()
            {
                self.look_ahead(&parser, rest, &mut behind);
                begun = Instant::now();
            }
            match front {
                // Who has subscribed waits for messages as well.
                Front::Incomplete if self.subscriptions() > 0 || self.monitor.is_some() => {
                    break Then::Wait(None);
                }
                Front::Incomplete => break Then::Read,
                Front::Wrong(why) => {
                    Reply::to(out, self.three).error(&format!("ERR {why}"));
                    self.closing = true;
                }
                Front::Request(_) if self.waits_for_counts(name) => {
                    break Then::Write;
                }
                Front::Request(_) if self.leaves_long && self.saves(name) => {
                    break Then::Locked;
                }
                Front::Request(_) if self.leaves_long && self.takes_long(found, &parser, rest) => {
                    break Then::Long;
                }
                Front::Request(bytes) => {
                    if let Some(until) = self.must_wait(&parser, rest) {
                        if !self.authenticated && rest.len() > UNAUTHENTICATED_BYTES {
                            warn!("closed a connection: it sends much without a password");
                            consumed = input.len();
                            break Then::Close;
                        }
                        break Then::Wait(Some(until));
                    }
                    if self.waits.is_some()
                        && self.client.take_unblocked().is_some_and(|how| self.stops(how, out))
                    {
                        parser.next_request();
                        consumed += bytes;
                        continue;
                    }
                    if let Some(waits) = &self.waits
                        && !waits.place.is_woken()
                        && waits.next().is_none_or(|next| next > Instant::now())
                    {
                        break Then::Wait(waits.next());
                    }
                    self.input_bytes = rest.len();
                    match self.long.take() {
                        Some(long) => {
                            self.go_on(long, &parser, rest, out);
                            begun = Instant::now();
                        }
                        None => {
                            let args: SmallVec<[&[u8]; 8]> =
                                (0..parser.len()).map(|at| parser.argument(rest, at)).collect();
                            begun = self.request(&args, found, out, begun);
                        }
                    }
                    if let Some(until) = self.paused_until.take() {
                        break Then::Wait(Some(until));
                    }
                    if let Some(waits) = self.waits.as_ref().filter(|_| !self.goes_on) {
                        break Then::Wait(waits.next());
                    }
                    if std::mem::take(&mut self.goes_on) {
                        let is_locked = std::mem::take(&mut self.is_locked);
                        break match (std::mem::take(&mut self.is_script), is_locked) {
                            (true, _) => Then::Script,
                            (_, true) => Then::Locked,
                            _ => Then::Write,
                        };
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
        self.input_bytes = input.len() - consumed;
        self.tell(begun);
        self.count_requests();
        Served { consumed, then }
    }

    /// Ends the waiting of the request at the front, as another client has asked for; whether it is
    /// answered.
    fn stops(&mut self, how: Unblocked, out: &mut Vec<u8>) -> bool {
        match how {
            Unblocked::Timeout => {
                self.waits.iter_mut().for_each(|waits| waits.deadline = Some(Instant::now()));
                false
            }
            Unblocked::Error => {
                self.waits = None;
                if !self.replies.is_silent() {
                    let sentence = "UNBLOCKED client unblocked via CLIENT UNBLOCK";
                    Reply::to(out, self.three).error(sentence);
                }
                true
            }
        }
    }

    /// Until when a request waits because clients are paused; none: it does not.
    fn waits_for_pause(&self, found: Option<&'static Command>, args: &[&[u8]]) -> Option<Instant> {
        let (paused, until) = self.shared.clients.paused()?;
        // What is wrong is said at once.
        if !is_at_once(args[0]) && asked(found, args).is_err() {
            return None;
        }
        let writes = |args: &[&[u8]]| match find(args[0]) {
            Some(command) if command.is_script() => {
                command.writes && !scripting::writes_nothing(&self.shared, args)
            }
            Some(command) => command.writes || changes_libraries(command, args),
            None => is(args[0], "PUBLISH"),
        };
        let waits = paused == Paused::Everything
            || writes(args)
            || is(args[0], "EXEC")
                && self.queue.iter().flat_map(Queue::requests).any(|args| {
                    writes(&args.iter().map(Vec::as_slice).collect::<Vec<_>>()) //
                });
        waits.then_some(until)
    }

    /// Whether a command is refused because it adds to what is more than was set as the most.
    pub(super) fn has_no_room(&self, command: &Command, args: &[&[u8]]) -> bool {
        let loads =
            || ["LOAD", "RESTORE"].iter().any(|word| args.get(1).is_some_and(|a| is(a, word)));
        let needs = || command.needs_room() || command.name == "function" && loads();
        self.shared.has_limit() && needs() && self.shared.is_beyond_limit()
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
    fn takes_long(&self, found: Option<&'static Command>, parser: &Parser, input: &[u8]) -> bool {
        match &self.long {
            Some(long) => long.seeks(),
            None => self.waits.is_none() && self.is_long(found, parser, input),
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
        let (bytes, start) = (self.shared.options.limits.reply_bytes, out.len());
        match long.part(parser, input, bytes, &mut Reply::to(out, self.three)) {
            Ok(true) => {}
            Ok(false) => self.long = Some(long),
            Err(failure) => {
                // An error cannot stand between the values of a reply that was begun.
                warn!(?failure, "closed a connection: its reply was begun");
                self.closing = true;
            }
        }
        if self.replies.is_silent() {
            out.truncate(start);
        }
    }

    /// Answers a request that was begun then; when it ended.
    fn request(
        &mut self,
        args: &[&[u8]],
        found: Option<&'static Command>,
        out: &mut Vec<u8>,
        begun: Instant,
    ) -> Instant {
        let Some(name) = args.first() else { return begun };
        let is_new = self.waits.is_none() && !std::mem::take(&mut self.is_asked_again);
        self.requests += u64::from(is_new);
        if is_new {
            self.replies = self.replies.next();
        }
        if is(name, "INFO") || is(name, "EXEC") {
            self.count_requests();
        }
        let known = found.is_some() || names::arity(name).is_some();
        if !known && is_http(name, args.last().unwrap_or(name)) {
            warn!("closed a connection: a request of HTTP");
            self.closing = true;
            return begun;
        }
        let greeting = || ["AUTH", "HELLO", "QUIT", "RESET"].iter().any(|word| is(name, word));
        if !self.authenticated && !greeting() {
            let start = out.len();
            Reply::to(out, self.three).error("NOAUTH Authentication required.");
            self.shared.metrics.redis.reject(timing::command(found, args));
            self.note_error(&out[start..], false);
            return Instant::now();
        }
        if self.waits.is_none()
            && let Some(until) = self.waits_for_pause(found, args)
        {
            self.is_paused = true;
            self.shared.clients.set_paused(&self.client, true);
            // Who has ended the pause meanwhile has not seen that this waits.
            if self.shared.clients.paused().is_some() {
                (self.paused_until, self.is_asked_again) = (Some(until), true);
                return begun;
            }
        }
        if std::mem::take(&mut self.is_paused) {
            self.shared.clients.set_paused(&self.client, false);
        }
        let start = out.len();
        self.last_command = timing::command(found, args);
        let refused = !self.three && self.subscriptions() > 0 && !names::is_for_subscribers(name);
        let at_once = if known || refused { None } else { self.at_once(args, out) };
        let is_queued = at_once.is_none() && self.queue.is_some();
        let (mut is_begun, was_waiting) = (true, self.waits.is_some());
        let done = at_once.unwrap_or_else(|| {
            let asked = match asked(found, args) {
                Ok(_) if refused => Err(only_for_subscribers(args)),
                Ok(_) if is_queued && (backup::is_backup(name) || is(name, "SHUTDOWN")) => {
                    Err(backup::NOT_QUEUED.into())
                }
                // What waits for EXEC takes memory.
                Ok(_) if is_queued && self.shared.is_beyond_limit() => Err(OUT_OF_MEMORY.into()),
                Ok(Asked::Store(command)) if self.has_no_room(command, args) => {
                    Err(OUT_OF_MEMORY.into())
                }
                Err(_) if refused && is_at_once(name) => Err(only_for_subscribers(args)),
                asked => asked,
            };
            if asked.is_err() && self.last_command != timing::unknown() {
                self.shared.metrics.redis.reject(self.last_command);
                is_begun = false;
            }
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
            if let Failure::Later | Failure::Locked | Failure::Script = failure {
                self.goes_on = true;
                self.is_locked = matches!(failure, Failure::Locked);
                self.is_script = matches!(failure, Failure::Script);
                self.is_asked_again = true;
                return begun;
            }
            failed(failure, &mut Reply::to(out, self.three));
        }
        self.note_error(&out[start..], is_begun && !is_queued);
        if !was_waiting && is_begun && !is_queued {
            self.feed_monitors(args);
        }
        if !is(name, "CLIENT") && self.queue.is_none() {
            self.tracking.caching = false;
        }
        if self.replies.is_silent() && !is_of_subscribers(name) {
            out.truncate(start);
        }
        let took = begun.elapsed();
        if self.waits.is_none() && is_begun {
            let command = if is_queued { timing::queued() } else { self.last_command };
            self.shared.metrics.redis.add(command, took);
        }
        let limit = u64::try_from(self.shared.settings.slow_micros.load(Ordering::Relaxed)).ok();
        if limit.is_some_and(|micros| took.as_micros() >= u128::from(micros)) && !greeting() {
            self.log_slow(args, took);
        }
        let limit_ms = self.shared.settings.latency_ms.load(Ordering::Relaxed);
        if limit_ms > 0 && took.as_millis() >= u128::from(limit_ms) {
            let at = self.shared.data.now_ms() / 1000;
            self.shared.latency.add("command", at, took.as_millis() as u64);
        }
        begun + took
    }

    /// Counts a reply, if it is an error.
    pub(super) fn note_error(&self, reply: &[u8], is_begun: bool) {
        if reply.first() == Some(&b'-') {
            self.shared.errors.note(reply);
            if is_begun {
                self.shared.metrics.redis.fail(self.last_command);
            }
        }
    }

    /// Keeps a command that took long for SLOWLOG; those with passwords are left out.
    fn log_slow(&self, args: &[&[u8]], took: Duration) {
        let settings = &self.shared.settings;
        let (peer, name) = (self.client.peer(), self.client.words(|words| words.name.clone()));
        let entries = settings.slow_entries.load(Ordering::Relaxed);
        let at_ms = self.shared.data.now_ms();
        self.shared.slowlog.add(args, took, at_ms, (&peer, &name), entries);
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

    fn command(&mut self, command: &'static Command, args: &[&[u8]], out: &mut Vec<u8>) -> Outcome {
        match self.command_with(command, args, out, false) {
            Err(Failure::Undeclared) => self.command_with(command, args, out, true),
            done => done,
        }
    }

    /// Does one; `alone`: with all locks.
    fn command_with(
        &mut self,
        command: &'static Command,
        args: &[&[u8]],
        out: &mut Vec<u8>,
        alone: bool,
    ) -> Outcome {
        let shared = Arc::clone(&self.shared);
        let data = &shared.data;
        let now_ms = data.begin_request()?;
        // Who has waited leaves its lines at the end, without the locks of its keys.
        let waits;
        let held = self.lock(command, args, data, alone)?;
        waits = self.waits.take();
        waits.iter().for_each(|waits| waits.place.look());
        let start = out.len();
        let mut work = Work::new(data, now_ms);
        work.by = self.client.id;
        let reply = Reply { three: self.three, end: start + self.whole_limit(), out };
        let part_bytes = Some(shared.options.limits.reply_bytes);
        let place = waits.as_ref().map(|waits| &waits.place);
        let blocking = Blocking { may_wait: true, place, wait: None };
        let within = (self.database, held.as_ref());
        let left = self.run(command, args, &mut work, reply, (part_bytes, blocking), within)?;
        self.count_lookups(&work);
        if let Some(wait) = left.wait.filter(|_| !waits.as_ref().is_some_and(Waits::is_over)) {
            out.truncate(start);
            let looks = wait.again.map(|pause| Instant::now() + pause);
            self.waits = Some(Waits { looks, ..waits.unwrap_or_else(|| self.wait(&wait)) });
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
        self.take_room(out, start)?;
        let mut events = self.events(command, args, &work, 0)?;
        work.commit()?;
        let mut effects = left.effects;
        events.append(&mut effects.events);
        self.monitored = std::mem::take(&mut effects.monitored);
        self.take_effect(&effects);
        self.notify_of(&events);
        Ok(())
    }

    /// What was done beside the store.
    pub(super) fn take_effect(&self, effects: &Effects) {
        self.send_unsent(&effects.published);
        #[cfg(feature = "scripts")]
        effects.libraries.iter().for_each(|all| self.shared.scripts.set_libraries(all));
        for (level, text) in &effects.logged {
            match *level {
                tracing::Level::WARN => warn!("a script says: {text}"),
                tracing::Level::INFO => info!("a script says: {text}"),
                _ => debug!("a script says: {text}"),
            }
        }
    }

    /// Locks the keys of a command.
    fn lock<'d>(
        &self,
        command: &'static Command,
        args: &[&[u8]],
        data: &'d Database,
        alone: bool,
    ) -> Outcome<Option<Held<'d>>> {
        if command.name == "get" {
            return Ok(None); // One row is read as it was at one moment.
        }
        let waits = !self.leaves_long;
        let held = match command.keys.of(args) {
            _ if alone => data.lock_everything(waits),
            Named::Nothing => return Ok(None),
            Named::Everything => data.lock_everything(waits),
            Named::Keys(keys) => data.lock_keys(&keys, waits),
        };
        held.ok_or(self.not_locked()).map(Some)
    }

    /// What a request fails with whose locks others have.
    pub(super) fn not_locked(&self) -> Failure {
        if self.leaves_long { Failure::Locked } else { BUSY.into() }
    }

    /// Takes its place in the lines of keys, whose locks are held.
    fn wait(&self, wait: &Wait) -> Waits {
        let Timeout(timeout) = wait.timeout;
        Waits {
            place: self.shared.data.waiting.wait(
                &wait.rows,
                (wait.kind, &wait.awaited),
                &self.client.notify,
            ),
            // What is longer than there are moments is for ever.
            deadline: timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
            looks: None,
            bytes: wait.rows.iter().map(|row| 2 * row.len() + WAITING_BYTES).sum::<usize>()
                + wait.awaited.group.as_ref().map_or(0, Vec::len),
        }
    }
}

/// What a request is about.
fn asked(found: Option<&'static Command>, args: &[&[u8]]) -> Outcome<Asked> {
    let (asked, arity) = match found {
        Some(command) => (Asked::Store(command), command.arity),
        None => {
            let arity = names::arity(args[0]).ok_or_else(|| unknown(args))?;
            (Asked::Connection, arity)
        }
    };
    if !takes(arity, args.len()) {
        return Err(wrong_number(args[0]));
    }
    if found.is_none_or(Command::may_have_second_words) && has_subcommands(args[0]) {
        full_name(args)?;
    }
    Ok(asked)
}

/// Whether a request changes the libraries of functions.
fn changes_libraries(command: &Command, args: &[&[u8]]) -> bool {
    let words = ["DELETE", "FLUSH", "LOAD", "RESTORE"];
    let changes = || args.get(1).is_some_and(|what| words.iter().any(|word| is(what, word)));
    command.name == "function" && changes()
}

/// Whether the replies to a command are messages, which are sent to whoever wants no replies.
fn is_of_subscribers(name: &[u8]) -> bool {
    let words = ["PSUBSCRIBE", "PUNSUBSCRIBE", "SUBSCRIBE", "UNSUBSCRIBE"];
    words.iter().any(|word| is(name, word))
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
