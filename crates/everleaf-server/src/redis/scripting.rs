//! EVAL, SCRIPT and what is about them.
//!
//! A script runs as EXEC does: it has the locks of the keys that it declares, what it writes is
//! gathered, and at its end all of it is written as one batch, or nothing. So a run can be thrown
//! away and done again from the beginning:
//! * S1. A run on a thread that answers has a few milliseconds and little memory. One that takes
//!   more is done again by a thread that no other connection waits for.
//! * S2. A run that comes to a key which was not declared is done again with all locks.
//! * S3. A run that is ended from outside has done nothing.
//!
//! What a script does beside the store (messages, lines of the log) waits until its run has
//! counted. An error of the script ends it, and what it wrote before stays, as with Redis.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::call::{self, Call, Within};
use super::command::{Command, Named, takes};
use super::failure::{Failure, NOT_INTEGER, OUT_OF_MEMORY, Outcome, SYNTAX, TOO_LONG, failed};
use super::names::{self, full_name, has_subcommands, is_at_once, tells_counts};
use crate::data::{Killed, Running};
use crate::resp::argument::is;
use crate::resp::number::integer;
use crate::resp::reply::Reply;
use crate::scripts::{Asked, Bounds, Ended, Host, Level, Message, Script, Stop};
use crate::shared::{MESSAGE_BYTES, Shared, WAITING_BYTES};

/// How long a script runs on a thread that answers.
pub const SHORT: Duration = Duration::from_millis(5);
/// Its memory meanwhile.
pub const SHORT_BYTES: u64 = 1 << 20;
/// Memory that a message or an event takes beside its words.
const TOLD_BYTES: usize = 64;
const BUSY_FUNCTION: &str = "BUSY Redis is busy running a script. You can only call FUNCTION KILL \
                             or SHUTDOWN NOSAVE.";
const NOT_FROM_SCRIPT: &str = "ERR This Redis command is not allowed from script";
const NO_SCRIPT: &str = "NOSCRIPT No matching script. Please use EVAL.";

/// What scripts may not call, as with Redis, but for the commands that wait for a key: in a script
/// these do not wait.
const NOT_ALLOWED: &[&str] = &[
    "acl",
    "auth",
    "bgrewriteaof",
    "bgsave",
    "client",
    "cluster",
    "config",
    "debug",
    "discard",
    "eval",
    "eval_ro",
    "evalsha",
    "evalsha_ro",
    "exec",
    "failover",
    "fcall",
    "fcall_ro",
    "function",
    "hello",
    "latency",
    "module",
    "monitor",
    "multi",
    "psubscribe",
    "psync",
    "punsubscribe",
    "quit",
    "replconf",
    "replicaof",
    "reset",
    "role",
    "save",
    "script",
    "shutdown",
    "slaveof",
    "ssubscribe",
    "subscribe",
    "sunsubscribe",
    "sync",
    "unsubscribe",
    "unwatch",
    "wait",
    "waitaof",
    "watch",
];
/// What reads nothing of the store, so that it needs no lock.
const WITHOUT_LOCKS: &[&str] = &["command", "echo", "lastsave", "pubsub", "slowlog", "time"];

/// EVAL.
pub fn eval(call: &mut Call<'_, '_, '_>) -> Outcome {
    let script = added(call, false)?;
    run(call, &script, false)
}

/// EVAL_RO.
pub fn eval_ro(call: &mut Call<'_, '_, '_>) -> Outcome {
    let script = added(call, false)?;
    run(call, &script, true)
}

/// EVALSHA.
pub fn evalsha(call: &mut Call<'_, '_, '_>) -> Outcome {
    let script = found(call)?;
    run(call, &script, false)
}

/// EVALSHA_RO.
pub fn evalsha_ro(call: &mut Call<'_, '_, '_>) -> Outcome {
    let script = found(call)?;
    run(call, &script, true)
}

fn added(call: &Call<'_, '_, '_>, loads: bool) -> Outcome<Arc<Script>> {
    let body = if loads { call.args[2] } else { call.args[1] };
    if !loads {
        keys(call)?;
    }
    call.shared.scripts.add(body, loads).map_err(Failure::Text)
}

fn found(call: &Call<'_, '_, '_>) -> Outcome<Arc<Script>> {
    keys(call)?;
    call.shared.scripts.find(call.args[1]).ok_or(Failure::Said(NO_SCRIPT))
}

/// Whether the script, or the function, that a request runs says that it writes nothing.
pub fn writes_nothing(shared: &Shared, args: &[&[u8]]) -> bool {
    let Some(what) = args.get(1) else { return false };
    let scripts = &shared.scripts;
    let found = match args[0] {
        name if is(name, "EVAL") => return Script::new(what).is_ok_and(|it| it.flags.no_writes),
        name if is(name, "EVALSHA") => scripts.find(what),
        _ => scripts.libraries().function(what).cloned(),
    };
    found.is_some_and(|script| script.flags.no_writes)
}

/// Scripts that are kept, and their bytes.
pub fn cached(shared: &Shared) -> (usize, usize) {
    shared.scripts.count()
}

/// How many of the arguments are keys.
fn keys(call: &Call<'_, '_, '_>) -> Outcome<usize> {
    let count = integer(call.args[2]).ok_or(Failure::Said(NOT_INTEGER))?;
    if count < 0 {
        return Err("ERR Number of keys can't be negative".into());
    }
    let keys = usize::try_from(count).ok().filter(|keys| *keys <= call.args.len() - 3);
    keys.ok_or(Failure::Said("ERR Number of keys can't be greater than number of args"))
}

/// SCRIPT.
pub fn script(call: &mut Call<'_, '_, '_>) -> Outcome {
    let scripts = &call.shared.scripts;
    match (call.args[1], call.rest(2)) {
        (what, names) if is(what, "EXISTS") => {
            call.reply.array(names.len());
            names.iter().for_each(|name| call.reply.flag(scripts.find(name).is_some()));
        }
        (what, _) if is(what, "LOAD") => {
            let name = added(call, true)?.name();
            call.reply.bulk(name);
        }
        (what, how) if is(what, "FLUSH") => {
            let is_known = |how: &&[u8]| is(how, "ASYNC") || is(how, "SYNC");
            if how.len() > 1 || !how.iter().all(is_known) {
                return Err("ERR SCRIPT FLUSH only support SYNC|ASYNC option".into());
            }
            scripts.forget();
            call.reply.ok();
        }
        (what, _) if is(what, "KILL") => match call.shared.data.holders.kill(false) {
            Killed::Ends => call.reply.ok(),
            Killed::None => return Err("NOTBUSY No scripts in execution right now.".into()),
            Killed::Others => return Err(BUSY_FUNCTION.into()),
        },
        (what, _) if is(what, "DEBUG") => {
            return Err("ERR scripts cannot be stepped through here; debug them with Redis".into());
        }
        _ => call.help(&[
            "DEBUG (YES|SYNC|NO)",
            "    Set the debug mode for subsequent scripts executed.",
            "EXISTS <sha1> [<sha1> ...]",
            "    Return information about the existence of the scripts in the script cache.",
            "FLUSH [ASYNC|SYNC]",
            "    Flush the Lua scripts cache. Very dangerous on replicas.",
            "    When called without the optional mode argument, the behavior is determined by the",
            "    lazyfree-lazy-user-flush configuration directive. Valid modes are:",
            "    * ASYNC: Asynchronously flush the scripts cache.",
            "    * SYNC: Synchronously flush the scripts cache.",
            "KILL",
            "    Kill the currently executing Lua script.",
            "LOAD <script>",
            "    Load a script into the scripts cache without executing it.",
        ]),
    }
    Ok(())
}

// ---- one run
// -------------------------------------------------------------------------------------------------

/// Runs a script, or a function of a library.
pub fn run(call: &mut Call<'_, '_, '_>, script: &Script, read_only: bool) -> Outcome {
    let (caller, shared) = (call.caller, call.shared);
    let limits = &shared.options.limits;
    if read_only && script.flags.is_said && !script.flags.no_writes {
        return Err("ERR Can not execute a script with write flag using *_ro command.".into());
    }
    let flags = script.flags;
    let may_add = flags.no_writes || flags.names().any(|flag| flag == "allow-oom");
    if flags.is_said && !may_add && shared.is_beyond_limit() {
        if script.is_function() {
            return Err(OUT_OF_MEMORY.into());
        }
        let sentence = "OOM allow-oom flag is not set on the script, can not run it when used \
                        memory > 'maxmemory'";
        return Err(sentence.into());
    }
    let stripes = call.held.map_or(Some(Vec::new()), |held| held.stripes());
    if script.is_open() && stripes.is_some() {
        return Err(Failure::Undeclared);
    }
    if caller.leaves_long() && script.takes_long() {
        return Err(Failure::Script);
    }
    let long = (!caller.leaves_long()).then(|| {
        let function = if script.is_function() { script.name() } else { String::new() };
        let words = call.args.iter().map(|word| word.to_vec()).collect();
        shared.data.holders.begin(stripes, Running { function, words })
    });
    let bounds = match &long {
        None => Bounds {
            until: Instant::now() + SHORT,
            is_short: true,
            memory_bytes: SHORT_BYTES.min(limits.script_bytes),
            killed: Arc::default(),
        },
        Some(held) => Bounds {
            until: Instant::now() + limits.script_time,
            is_short: false,
            memory_bytes: limits.script_bytes,
            killed: Arc::clone(&held.holder.killed),
        },
    };
    let keys = keys(call)?;
    let (keys, values) = call.args[3..].split_at(keys);
    let asked = Asked { script, keys, values, bounds };
    let (mut out, three) = (Vec::new(), call.reply.three);
    let most = usize::try_from(limits.script_bytes).unwrap_or(usize::MAX);
    let end = call.reply.end.saturating_sub(call.reply.out.len()).min(most);
    let read_only = read_only || script.flags.no_writes;
    let database = call.database;
    let (failure, own, declared) = (None, Vec::new(), keys);
    let mut commands = Commands {
        call,
        database,
        read_only,
        weight: 0,
        failure,
        own,
        declared,
        may_add,
        has_written: false,
        told_bytes: 0,
        monitored_bytes: 0,
    };
    let mut reply = Reply { out: &mut out, three, end };
    let ended = shared.scripts.run(&asked, &mut commands, &mut reply);
    let is_too_long = reply.is_too_long();
    let Commands { failure, own, .. } = commands;
    match ended {
        Ended::Replied(_) if is_too_long => Err(TOO_LONG.into()),
        Ended::Replied(messages) => {
            call.effects.logged.extend(messages.into_iter().map(logged));
            call.reply.out.extend_from_slice(&own);
            call.reply.out.extend_from_slice(&out);
            Ok(())
        }
        Ended::Stopped(Stop::Long) => {
            script.took_long();
            Err(Failure::Script)
        }
        Ended::Stopped(Stop::Refused) => {
            let failure = failure.unwrap_or(Failure::Said("ERR the script was stopped"));
            if matches!(failure, Failure::Undeclared) {
                script.uses_more();
            }
            Err(failure)
        }
        Ended::Stopped(Stop::Killed) => Err(Failure::Text(format!(
            "ERR Script killed by user with {} KILL. script: {}",
            if script.is_function() { "FUNCTION" } else { "SCRIPT" },
            script.name()
        ))),
        Ended::Stopped(Stop::TimedOut) => Err(Failure::Text(format!(
            "ERR the script ran for {:?} and was ended; nothing of it was done. script: {}",
            limits.script_time,
            script.name()
        ))),
    }
}

fn logged(message: Message) -> (tracing::Level, String) {
    let level = match message.level {
        Level::Debug | Level::Verbose => tracing::Level::DEBUG,
        Level::Notice => tracing::Level::INFO,
        Level::Warning => tracing::Level::WARN,
    };
    (level, message.text)
}

/// What does the commands of a script.
struct Commands<'c, 'a, 'd, 'o> {
    call: &'c mut Call<'a, 'd, 'o>,
    /// What the script has selected.
    database: u8,
    read_only: bool,
    /// What its commands read and write.
    weight: u64,
    /// Why the run was stopped.
    failure: Option<Failure>,
    /// Messages to its own connection.
    own: Vec<u8>,
    /// Keys that it declares.
    declared: &'a [&'a [u8]],
    /// Whether it may add what has no room by the limit that clients have set.
    may_add: bool,
    /// Whether it has called a command that may write.
    has_written: bool,
    /// Memory of messages and events, which are sent when it has ended.
    told_bytes: usize,
    /// The same of what those who monitor are told.
    monitored_bytes: u64,
}

fn is_refused(name: &[u8]) -> bool {
    NOT_ALLOWED.iter().any(|word| is(name, word))
}

impl Host for Commands<'_, '_, '_, '_> {
    fn call(&mut self, args: &[&[u8]], three: bool, out: &mut Vec<u8>) -> Result<(), Stop> {
        let caller = self.call.caller;
        if caller.leaves_long() {
            self.weight = self.weight.saturating_add(caller.weight(self.database, args));
            if self.weight > self.call.shared.options.limits.short_elements {
                return Err(Stop::Long);
            }
        }
        let mark = self.call.work.mark();
        let most = self.call.shared.options.limits.script_bytes;
        let done = self.command(args, three, out, mark);
        if (self.call.work.bytes() + self.told_bytes) as u64 > most {
            let sentence = format!("ERR a script writes at most {most} bytes, and this one more");
            self.failure = Some(Failure::Text(sentence));
            return Err(Stop::Refused);
        }
        match done {
            Ok(()) => Ok(()),
            Err(failure @ (Failure::Said(_) | Failure::Text(_))) => {
                self.call.work.back_to(mark);
                out.clear();
                failed(failure, &mut Reply::to(out, three));
                Ok(())
            }
            Err(failure) => {
                self.failure = Some(failure);
                Err(Stop::Refused)
            }
        }
    }

    fn knows(&self, args: &[&[u8]]) -> bool {
        let name = args[0];
        let is_known = self.call.caller.find(name).is_some()
            || names::arity(name).is_some()
            || is_at_once(name);
        is_known && (!has_subcommands(name) || full_name(args).is_ok())
    }
}

impl Commands<'_, '_, '_, '_> {
    fn command(&mut self, args: &[&[u8]], three: bool, out: &mut Vec<u8>, mark: usize) -> Outcome {
        let name = args[0];
        let found = self.call.caller.find(name);
        let arity = match (found, names::arity(name)) {
            (Some(command), _) => command.arity,
            (None, Some(arity)) => arity,
            (None, None) if is_at_once(name) => -1,
            (None, None) if is_refused(name) => return Err(NOT_FROM_SCRIPT.into()),
            (None, None) => return Err("ERR Unknown Redis command called from script".into()),
        };
        if !takes(arity, args.len()) {
            return Err("ERR Wrong number of args calling Redis command from script".into());
        }
        if is_refused(name) {
            return Err(NOT_FROM_SCRIPT.into());
        }
        let writes = found.map_or(is(name, "PUBLISH"), |command| command.writes);
        if self.read_only && writes {
            return Err("ERR Write commands are not allowed from read-only scripts.".into());
        }
        // What has begun to write goes on.
        let adds = found.is_some_and(Command::needs_room) && !self.may_add && !self.has_written;
        if adds && self.call.shared.is_beyond_limit() {
            return Err(OUT_OF_MEMORY.into());
        }
        self.has_written |= writes;
        if has_subcommands(name) {
            full_name(args)?;
        }
        // Who is told so much at a time is closed, so more is of no use.
        if self.monitored_bytes <= WAITING_BYTES
            && let Some(told) = self.call.caller.monitored(args, self.database)
        {
            self.monitored_bytes += told.len() as u64 + MESSAGE_BYTES;
            self.call.effects.monitored.push(told);
        }
        let reply = Reply { out, three, end: self.reply_bytes() };
        match found {
            Some(command) => self.stored(command, args, reply, mark),
            None => self.about_connection(args, reply),
        }
    }

    /// The longest reply of a command.
    fn reply_bytes(&self) -> usize {
        usize::try_from(self.call.shared.options.limits.script_bytes).unwrap_or(usize::MAX)
    }

    fn stored(
        &mut self,
        command: &'static Command,
        args: &[&[u8]],
        reply: Reply<'_>,
        mark: usize,
    ) -> Outcome {
        let held = self.call.held;
        let covers = |key: &&[u8]| held.is_some_and(|held| held.covers(key));
        let is_covered = match command.keys.of(args) {
            Named::Keys(keys) => keys.iter().all(covers),
            Named::Nothing if WITHOUT_LOCKS.contains(&command.name) => true,
            // The one key that these name is behind their second word.
            Named::Nothing if matches!(command.name, "object" | "memory") => {
                args.get(2).is_none_or(covers)
            }
            Named::Nothing | Named::Everything => false,
        };
        if !is_covered && held.is_none_or(|held| held.stripes().is_some()) {
            return Err(Failure::Undeclared);
        }
        if tells_counts(args[0]) {
            self.call.work.data.count_all()?;
        }
        let within = Within { database: self.database, declared: self.declared, mark };
        let done = self.call.caller.run_within(command, args, self.call.work, reply, within)?;
        self.told_bytes += done.iter().map(|event| event.row.len() + TOLD_BYTES).sum::<usize>();
        self.call.effects.events.extend(done);
        Ok(())
    }

    fn about_connection(&mut self, args: &[&[u8]], mut reply: Reply<'_>) -> Outcome {
        match (args[0], &args[1..]) {
            (name, [channel, text]) if is(name, "PUBLISH") => {
                let (count, owns) = self.call.caller.publish_later([channel, text]);
                owns.iter().for_each(|bytes| self.own.extend_from_slice(bytes));
                self.told_bytes += channel.len() + text.len() + TOLD_BYTES;
                self.call.effects.published.push([channel.to_vec(), text.to_vec()]);
                reply.count(count);
            }
            (name, [index]) if is(name, "SELECT") => {
                self.database = call::database(index)?;
                reply.ok();
            }
            (name, []) if is(name, "PING") => reply.simple("PONG"),
            (name, [text]) if is(name, "PING") => reply.bulk(text),
            _ => return Err(SYNTAX.into()),
        }
        Ok(())
    }
}
