//! A connection of a Redis client: greetings, transactions, and the way to the commands.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::call::{Call, Failure, Outcome, SYNTAX, is};
use super::parse::{Front, front};
use super::reply::Reply;
use super::server::unknown_subcommand;
use super::table::{Command, Keys, find};
use super::{VERSION, number};
use crate::data::{DATABASES, Work, key_row};
use crate::log::log;
use crate::memcached::same_bytes;
use crate::net::{Served, Then};
use crate::shared::Shared;

/// Requests of a transaction that wait for EXEC.
#[derive(Default)]
struct Queue {
    requests: Vec<(&'static Command, Vec<Vec<u8>>)>,
    bytes: usize,
    /// A request of it was refused, so nothing of it will be done.
    refused: bool,
}

/// A connection.
pub struct Session {
    shared: Arc<Shared>,
    arguments: Vec<Range<usize>>,
    three: bool,
    database: u8,
    authenticated: bool,
    name: Vec<u8>,
    number: u64,
    queue: Option<Queue>,
    /// Rows, and the versions that they had.
    watched: Vec<(Vec<u8>, u64)>,
    closing: bool,
}

fn store_failed(error: &everleaf::Error, reply: &mut Reply<'_>) {
    if error.is_full() {
        reply.error("OOM command not allowed when used memory > 'maxmemory'.");
    } else {
        log("error", "store", &[("error", &error.to_string())]);
        reply.error(&format!("ERR {error}"));
    }
}

fn failed(failure: Failure, reply: &mut Reply<'_>) {
    match failure {
        Failure::Said(sentence) => reply.error(sentence),
        Failure::Text(sentence) => reply.error(&sentence),
        Failure::Store(error) => store_failed(&error, reply),
    }
}

impl Session {
    /// A new connection.
    pub fn new(shared: Arc<Shared>) -> Self {
        let authenticated = shared.options.redis_password.is_none();
        let number = shared.counters.connections.get();
        Self {
            shared,
            arguments: Vec::new(),
            three: false,
            database: 0,
            authenticated,
            name: Vec::new(),
            number,
            queue: None,
            watched: Vec::new(),
            closing: false,
        }
    }

    /// Answers the requests at the front of `input`.
    pub fn serve(&mut self, input: &[u8], out: &mut Vec<u8>) -> Served {
        let limits = &self.shared.options.limits;
        let (reply_bytes, value_bytes) = (limits.reply_bytes, limits.value_bytes);
        let mut consumed = 0;
        let mut arguments = std::mem::take(&mut self.arguments);
        let then = loop {
            if out.len() >= reply_bytes {
                break Then::Write;
            }
            let rest = &input[consumed..];
            match front(rest, value_bytes, &mut arguments) {
                Front::Incomplete => break Then::Read,
                Front::Wrong(why) => {
                    Reply { out, three: self.three }.error(&format!("ERR {why}"));
                    consumed = input.len();
                    break Then::Close;
                }
                Front::Request(bytes) => {
                    let args: Vec<&[u8]> = arguments.iter().map(|r| &rest[r.clone()]).collect();
                    self.request(&args, out);
                    consumed += bytes;
                }
                Front::Quoted(bytes, words) => {
                    let args: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
                    self.request(&args, out);
                    consumed += bytes;
                }
            }
            if self.closing {
                consumed = input.len();
                break Then::Close;
            }
        };
        self.arguments = arguments;
        Served { consumed, then }
    }

    fn request(&mut self, args: &[&[u8]], out: &mut Vec<u8>) {
        let Some(name) = args.first() else { return };
        self.shared.counters.redis_commands.add(1);
        let start = out.len();
        let mut reply = Reply { out, three: self.three };
        let greeting = ["AUTH", "HELLO", "QUIT", "RESET"].iter().any(|word| is(name, word));
        if !self.authenticated && !greeting {
            return reply.error("NOAUTH Authentication required.");
        }
        let done = match self.of_connection(args, &mut reply) {
            Some(done) => done,
            None => self.command(args, out),
        };
        if let Err(failure) = done {
            out.truncate(start);
            failed(failure, &mut Reply { out, three: self.three });
        }
    }

    // ---- commands of the table
    // ---------------------------------------------------------------------------------------------

    fn command(&mut self, args: &[&[u8]], out: &mut Vec<u8>) -> Outcome {
        let found = find(args[0]).ok_or_else(|| unknown(args)).and_then(|command| {
            match command.takes(args.len()) {
                true => Ok(command),
                false => Err(wrong_number(args[0])),
            }
        });
        let command = match found {
            Ok(command) => command,
            Err(failure) => {
                if let Some(queue) = &mut self.queue {
                    queue.refused = true;
                }
                return Err(failure);
            }
        };
        if let Some(queue) = &mut self.queue {
            queue.bytes += args.iter().map(|arg| arg.len() + 32).sum::<usize>();
            if queue.bytes as u64 > self.shared.options.limits.buffered_bytes / 16 {
                queue.refused = true;
                queue.requests = Vec::new();
                return Err("ERR the transaction is too long".into());
            }
            queue.requests.push((command, args.iter().map(|arg| arg.to_vec()).collect()));
            Reply { out, three: self.three }.simple("QUEUED");
            return Ok(());
        }
        let shared = Arc::clone(&self.shared);
        let data = &shared.data;
        let now_ms = data.begin_request()?;
        let _held = match command.keys {
            Keys::Everything => Some(data.lock_all()),
            Keys::None => None,
            // One row is read as it was at one moment.
            Keys::First if command.name == "get" => None,
            keys => {
                let keys = keys.of(args);
                let rows: Vec<_> = keys.iter().map(|key| key_row(self.database, key)).collect();
                Some(data.lock_many(rows.iter().map(Vec::as_slice)))
            }
        };
        let mut work = Work::new(data, now_ms);
        self.run(command, args, &mut work, out)?;
        Ok(work.commit()?)
    }

    fn run(
        &self,
        command: &Command,
        args: &[&[u8]],
        work: &mut Work<'_>,
        out: &mut Vec<u8>,
    ) -> Outcome {
        let reply = Reply { out, three: self.three };
        let shared = &self.shared;
        (command.run)(&mut Call { work, args, reply, database: self.database, shared })
    }

    // ---- transactions
    // ---------------------------------------------------------------------------------------------

    fn exec(&mut self, out: &mut Vec<u8>) -> Outcome {
        let Some(queue) = self.queue.take() else { return Err("ERR EXEC without MULTI".into()) };
        let watched = std::mem::take(&mut self.watched);
        if queue.refused {
            let sentence = "EXECABORT Transaction discarded because of previous errors.";
            return Err(sentence.into());
        }
        let shared = Arc::clone(&self.shared);
        let data = &shared.data;
        let now_ms = data.begin_request()?;
        let _all = data.lock_all();
        if watched.iter().any(|(row, version)| data.version(row) != *version) {
            Reply { out, three: self.three }.null_array();
            return Ok(());
        }
        Reply { out, three: self.three }.array(queue.requests.len());
        let mut work = Work::new(data, now_ms);
        for (command, args) in &queue.requests {
            let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
            let start = out.len();
            work.save();
            match self.run(command, &args, &mut work, out) {
                Ok(()) => {}
                Err(Failure::Store(error)) => return Err(error.into()),
                Err(failure) => {
                    work.restore();
                    out.truncate(start);
                    failed(failure, &mut Reply { out, three: self.three });
                }
            }
        }
        Ok(work.commit()?)
    }

    // ---- what is about the connection
    // ---------------------------------------------------------------------------------------------

    fn of_connection(&mut self, args: &[&[u8]], reply: &mut Reply<'_>) -> Option<Outcome> {
        let queued = self.queue.is_some();
        let done = match args[0] {
            name if is(name, "MULTI") => match queued {
                true => Err("ERR MULTI calls can not be nested".into()),
                false => {
                    self.queue = Some(Queue::default());
                    reply.ok();
                    Ok(())
                }
            },
            name if is(name, "EXEC") => self.exec(reply.out),
            name if is(name, "DISCARD") => match self.queue.take() {
                None => Err("ERR DISCARD without MULTI".into()),
                Some(_) => {
                    self.watched.clear();
                    reply.ok();
                    Ok(())
                }
            },
            name if is(name, "WATCH") => self.watch(args, reply),
            name if is(name, "UNWATCH") && !queued => {
                self.watched.clear();
                reply.ok();
                Ok(())
            }
            name if is(name, "QUIT") => {
                self.closing = true;
                reply.ok();
                Ok(())
            }
            name if is(name, "RESET") => {
                *self = Self { number: self.number, ..Self::new(Arc::clone(&self.shared)) };
                reply.simple("RESET");
                Ok(())
            }
            name if is(name, "AUTH") => self.auth(&args[1..]).map(|()| reply.ok()),
            name if is(name, "HELLO") => self.hello(args, reply),
            name if is(name, "SELECT") => self.select(args).map(|()| reply.ok()),
            name if is(name, "CLIENT") => self.client(args, reply),
            _ => return None,
        };
        Some(done)
    }

    fn watch(&mut self, args: &[&[u8]], reply: &mut Reply<'_>) -> Outcome {
        if self.queue.is_some() {
            return Err("ERR WATCH inside MULTI is not allowed".into());
        }
        if args.len() < 2 {
            return Err(wrong_number(args[0]));
        }
        for key in &args[1..] {
            let row = key_row(self.database, key);
            let version = self.shared.data.version(&row);
            self.watched.push((row, version));
        }
        reply.ok();
        Ok(())
    }

    fn select(&mut self, args: &[&[u8]]) -> Outcome {
        let [_, index] = args else { return Err(wrong_number(args[0])) };
        let index = number::integer(index).ok_or(Failure::Said(super::call::NOT_INTEGER))?;
        match u8::try_from(index) {
            Ok(index) if index < DATABASES => {
                self.database = index;
                Ok(())
            }
            _ => Err("ERR DB index is out of range".into()),
        }
    }

    fn auth(&mut self, words: &[&[u8]]) -> Outcome {
        let (user, password) = match words {
            [password] => (&b"default"[..], password),
            [user, password] => (*user, password),
            _ => return Err(wrong_number(b"auth")),
        };
        let Some(secret) = &self.shared.options.redis_password else {
            let sentence = "ERR AUTH <password> called without any password configured for the \
                            default user. Are you sure your configuration is correct?";
            return Err(sentence.into());
        };
        self.shared.counters.authentications.add(1);
        if !same_bytes(secret, password) || user != b"default" {
            self.shared.counters.refused_authentications.add(1);
            let sentence = "WRONGPASS invalid username-password pair or user is disabled.";
            return Err(sentence.into());
        }
        self.authenticated = true;
        Ok(())
    }

    fn hello(&mut self, args: &[&[u8]], reply: &mut Reply<'_>) -> Outcome {
        let three = match args.get(1).copied() {
            None => self.three,
            Some(b"2") => false,
            Some(b"3") => true,
            Some(version) if number::integer(version).is_some() => {
                return Err("NOPROTO unsupported protocol version".into());
            }
            Some(_) => {
                let sentence = "ERR Protocol version is not an integer or out of range";
                return Err(sentence.into());
            }
        };
        let mut at = 2;
        while let Some(option) = args.get(at) {
            match (option, args.get(at + 1), args.get(at + 2)) {
                (o, Some(user), Some(password)) if is(o, "AUTH") => {
                    self.auth(&[user, password])?;
                    at += 3;
                }
                (o, Some(name), _) if is(o, "SETNAME") => {
                    self.name = name.to_vec();
                    at += 2;
                }
                _ => return Err(SYNTAX.into()),
            }
        }
        if !self.authenticated {
            let sentence = "NOAUTH HELLO must be called with the client already authenticated, \
                            otherwise the HELLO <proto> AUTH <user> <pass> option can be used to \
                            authenticate the client and select the RESP protocol version at the \
                            same time";
            return Err(sentence.into());
        }
        self.three = three;
        reply.three = three;
        reply.map(7);
        for (name, value) in
            [("server", "redis"), ("version", VERSION), ("mode", "standalone"), ("role", "master")]
        {
            reply.bulk(name);
            reply.bulk(value);
        }
        reply.bulk("proto");
        reply.integer(if three { 3 } else { 2 });
        reply.bulk("id");
        reply.integer(self.number as i64);
        reply.bulk("modules");
        reply.array(0);
        Ok(())
    }

    fn client(&mut self, args: &[&[u8]], reply: &mut Reply<'_>) -> Outcome {
        match &args[1..] {
            [what] if is(what, "ID") => reply.integer(self.number as i64),
            [what] if is(what, "GETNAME") => {
                reply.maybe(Some(&self.name).filter(|name| !name.is_empty()))
            }
            [what, name] if is(what, "SETNAME") => {
                if name.iter().any(|byte| !byte.is_ascii_graphic()) {
                    let sentence = "ERR Client names cannot contain spaces, newlines or special \
                                    characters.";
                    return Err(sentence.into());
                }
                self.name = name.to_vec();
                reply.ok();
            }
            [what, _, _] if is(what, "SETINFO") => reply.ok(),
            [what, _] if is(what, "NO-EVICT") || is(what, "NO-TOUCH") => reply.ok(),
            [what, ..] if is(what, "INFO") || is(what, "LIST") => {
                let open = self.shared.open_connections.load(Ordering::Relaxed);
                let (name, db) = (self.name.escape_ascii(), self.database);
                let resp = if self.three { 3 } else { 2 };
                let id = self.number;
                reply.text(&format!("id={id} name={name} db={db} resp={resp} open={open}\n"));
            }
            _ => {
                let data = &self.shared.data;
                let mut work = Work::new(data, data.now_ms());
                let reply = Reply { out: &mut Vec::new(), three: self.three };
                let (shared, database) = (&*self.shared, self.database);
                let call = Call { work: &mut work, args, reply, database, shared };
                return Err(unknown_subcommand(&call));
            }
        }
        Ok(())
    }
}

fn wrong_number(name: &[u8]) -> Failure {
    let name = name.escape_ascii().to_string().to_ascii_lowercase();
    Failure::Text(format!("ERR wrong number of arguments for '{name}' command"))
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
