//! The module `redis`, but for what calls commands.

use std::sync::Arc;

use mlua::{Lua, Table, Value};
use parking_lot::Mutex;

use super::arguments::{Arguments, add, number_of};
use super::errors::said;
use super::numbers::Draws;

/// Bytes of messages for the log that a run keeps.
const LOG_BYTES: usize = 64 << 10;

/// How important a message for the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Debug,
    Verbose,
    Notice,
    Warning,
}

const LEVELS: [(&str, Level); 4] = [
    ("LOG_DEBUG", Level::Debug),
    ("LOG_VERBOSE", Level::Verbose),
    ("LOG_NOTICE", Level::Notice),
    ("LOG_WARNING", Level::Warning),
];

/// A message for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub level: Level,
    pub text: String,
}

/// What a run has said of itself.
#[derive(Default)]
pub struct Said {
    /// Messages for the log, which are written when the run has counted.
    pub messages: Vec<Message>,
    message_bytes: usize,
    /// Whether it has asked for RESP3.
    pub three: bool,
}

/// The names of the flags of `set_repl`, which do nothing here.
const FLAGS: [(&str, i64); 5] =
    [("REPL_NONE", 0), ("REPL_AOF", 1), ("REPL_SLAVE", 2), ("REPL_REPLICA", 2), ("REPL_ALL", 3)];

/// What of the module the code of a library sees beside what registers functions.
pub const SHARED: [&str; 7] = [
    "log",
    "LOG_DEBUG",
    "LOG_VERBOSE",
    "LOG_NOTICE",
    "LOG_WARNING",
    "REDIS_VERSION",
    "REDIS_VERSION_NUM",
];

/// The functions; `version` is Redis' that is told.
pub fn module(lua: &Lua, said_here: &Arc<Mutex<Said>>, version: &str) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    for (number, (name, _)) in LEVELS.iter().enumerate() {
        table.raw_set(*name, number)?;
    }
    for (name, number) in FLAGS {
        table.raw_set(name, number)?;
    }
    table.raw_set("REDIS_VERSION", version)?;
    let parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    table.raw_set("REDIS_VERSION_NUM", parts.fold(0, |number, part| number << 8 | part))?;
    add(lua, &table, "error_reply", |arguments| single(&arguments, "err"))?;
    add(lua, &table, "status_reply", |arguments| single(&arguments, "ok"))?;
    add(lua, &table, "sha1hex", |arguments| {
        if arguments.count() != 1 {
            return Err(said("wrong number of arguments"));
        }
        let bytes = arguments.string(0).map_or(Vec::new(), |text| text.as_bytes().to_vec());
        Ok(sha1_smol::Sha1::from(bytes).digest().to_string())
    })?;
    let own = Arc::clone(said_here);
    add(lua, &table, "log", move |arguments| log(&arguments, &mut own.lock()))?;
    let own = Arc::clone(said_here);
    add(lua, &table, "setresp", move |arguments| {
        if arguments.count() != 1 {
            return Err(said("redis.setresp() requires one argument."));
        }
        match arguments.get(0).and_then(number_of) {
            Some(version @ (2.0 | 3.0)) => own.lock().three = version > 2.0,
            _ => return Err(said("RESP version must be 2 or 3.")),
        }
        Ok(())
    })?;
    add(lua, &table, "set_repl", |arguments| {
        if arguments.count() != 1 {
            return Err(said("redis.set_repl() requires two arguments."));
        }
        match arguments.get(0).and_then(number_of) {
            Some(flags) if (0.0..=3.0).contains(&flags) => Ok(()),
            _ => Err(said(
                "Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.",
            )),
        }
    })?;
    add(lua, &table, "replicate_commands", |_| Ok(true))?;
    add(lua, &table, "breakpoint", |_| Ok(false))?;
    add(lua, &table, "debug", |_| Ok(()))?;
    Ok(table)
}

/// A table of one field, which is replied as what the field is called.
fn single(arguments: &Arguments<'_>, field: &str) -> mlua::Result<Table> {
    let table = arguments.lua.create_table()?;
    let [Value::String(text)] = &arguments.values[..] else {
        table.raw_set("err", "ERR wrong number or type of arguments")?;
        return Ok(table);
    };
    if field == "ok" {
        table.raw_set("ok", text)?;
        return Ok(table);
    }
    let text = text.to_string_lossy();
    let sentence = text.strip_prefix('-').unwrap_or(&text).trim_end();
    let code = if sentence.contains(' ') { "" } else { "ERR " };
    table.raw_set("err", format!("{code}{sentence}"))?;
    Ok(table)
}

fn log(arguments: &Arguments<'_>, own: &mut Said) -> mlua::Result<()> {
    if arguments.count() < 2 {
        return Err(said("redis.log() requires two arguments or more."));
    }
    let Some(number) = arguments.get(0).and_then(number_of) else {
        return Err(said("First argument must be a number (log level)."));
    };
    let level = LEVELS.get(number as usize).filter(|_| number >= 0.0);
    let (_, level) = level.ok_or_else(|| said("Invalid debug level."))?;
    let words: Vec<String> = (1..arguments.count())
        .map(|at| arguments.string(at).map_or(String::new(), |text| text.to_string_lossy()))
        .collect();
    let text = words.join(" ");
    own.message_bytes = own.message_bytes.saturating_add(text.len() + size_of::<Message>());
    if own.message_bytes <= LOG_BYTES {
        own.messages.push(Message { level: *level, text });
    }
    Ok(())
}

/// `math.random` and `math.randomseed`.
pub fn math(lua: &Lua, draws: Draws) -> mlua::Result<Table> {
    let (table, draws) = (lua.create_table()?, Arc::new(Mutex::new(draws)));
    let own = Arc::clone(&draws);
    add(lua, &table, "random", move |arguments| {
        let below = Draws::BELOW;
        let drawn = f64::from(own.lock().next() % below) / f64::from(below);
        let (least, most, last) = match arguments.count() {
            0 => return Ok(drawn),
            1 => (1.0, arguments.number(0)?.trunc(), 0),
            2 => (arguments.number(0)?.trunc(), arguments.number(1)?.trunc(), 1),
            _ => return Err(super::errors::fail(arguments.lua, "wrong number of arguments")),
        };
        if least > most {
            return Err(arguments.bad(last, "interval is empty"));
        }
        Ok((drawn * (most - least + 1.0)).floor() + least)
    })?;
    add(lua, &table, "randomseed", move |arguments| {
        let seed = arguments.number(0)? as i64;
        *draws.lock() = Draws::of(seed as i32);
        Ok(())
    })?;
    Ok(table)
}
