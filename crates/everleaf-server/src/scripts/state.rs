//! A state of Lua, and one run of a script in it.

use std::cell::RefCell;
use std::sync::Arc;

use mlua::{Function, Lua, LuaString, MultiValue, Table, Value};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use super::api::{Message, Said};
use super::arguments::number_of;
use super::control::{Bounds, Control, Stop};
use super::errors::{NO_MEMORY, Raised, innermost, said, stopped};
use super::library::Registered;
use super::numbers::{Draws, general};
use super::sandbox::{Sandbox, build, compile};
use super::script::Script;
use super::shebang::Flags;
use super::values;
use crate::resp::reply::Reply;

/// Scripts that a state keeps compiled, at most.
const COMPILED: usize = 1000;
/// Memory of a state that is kept, beyond what it began with.
const KEPT_BYTES: usize = 4 << 20;
/// What scripts and libraries are called in errors.
const NAMES: [&str; 2] = ["@user_script", "@user_function"];

/// What the code of a library has registered, or why it is none.
pub type Read = Result<Vec<Registered>, String>;

/// What does the commands of a script.
pub trait Host {
    /// Does one, and writes its reply.
    ///
    /// # Errors
    /// The run is stopped: it cannot be done in this one.
    fn call(&mut self, args: &[&[u8]], three: bool, out: &mut Vec<u8>) -> Result<(), Stop>;

    /// Whether there is such a command.
    fn knows(&self, args: &[&[u8]]) -> bool;
}

/// What a script is run with.
pub struct Asked<'a> {
    pub script: &'a Script,
    pub keys: &'a [&'a [u8]],
    pub values: &'a [&'a [u8]],
    pub bounds: Bounds,
}

/// How a run has ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// It has replied, with an error if it has raised one; and messages for the log.
    Replied(Vec<Message>),
    /// It was stopped, and has replied nothing.
    Stopped(Stop),
}

/// A state.
pub struct State {
    lua: Lua,
    globals: Table,
    own: Table,
    redis: Table,
    run: Function,
    reset: Function,
    of_libraries: Table,
    read: Function,
    run_function: Function,
    control: Arc<Control>,
    said: Arc<Mutex<Said>>,
    compiled: FxHashMap<[u8; 20], Function>,
    /// Memory that it began with.
    first_bytes: usize,
}

impl State {
    /// A new one, which draws numbers from `seed` on and tells Redis' `version`.
    pub fn new(version: &str, seed: i32) -> mlua::Result<Self> {
        let (control, said) = (Arc::default(), Arc::default());
        let sandbox = build(&control, &said, (version, Draws::of(seed)))?;
        let Sandbox { lua, globals, own, redis, run, reset, .. } = sandbox;
        let Sandbox { of_libraries, read, run_function, .. } = sandbox;
        lua.gc_collect()?;
        let first_bytes = lua.used_memory();
        let compiled = FxHashMap::default();
        Ok(Self {
            lua,
            globals,
            own,
            redis,
            run,
            reset,
            of_libraries,
            read,
            run_function,
            control,
            said,
            compiled,
            first_bytes,
        })
    }

    /// Whether a script can be compiled; why not.
    ///
    /// # Errors
    /// There is no memory, or the sentence of Lua.
    pub fn compile(&mut self, script: &Script, memory_bytes: u64) -> Result<Function, String> {
        if let Some(function) = self.compiled.get(&script.sha1) {
            return Ok(function.clone());
        }
        if self.compiled.len() >= COMPILED {
            self.compiled.clear();
        }
        let [of_script, of_library] = NAMES;
        let (name, globals) = match script.is_function() {
            true => (of_library, &self.of_libraries),
            false => (of_script, &self.globals),
        };
        let made = self
            .limit(memory_bytes)
            .and_then(|()| compile(&self.lua, script.code(), name, globals));
        let function = made.map_err(|error| match error {
            mlua::Error::SyntaxError { message, .. } => message,
            error => innermost(&error),
        })?;
        self.compiled.insert(script.sha1, function.clone());
        Ok(function)
    }

    fn limit(&self, bytes: u64) -> mlua::Result<()> {
        let more = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.lua.set_memory_limit(self.lua.used_memory().saturating_add(more))?;
        Ok(())
    }

    /// Runs a script.
    pub fn run(&mut self, asked: &Asked<'_>, host: &mut dyn Host, reply: &mut Reply<'_>) -> Ended {
        let start = reply.out.len();
        *self.said.lock() = Said::default();
        self.control.begin(&asked.bounds);
        let done = match self.compile(asked.script, asked.bounds.memory_bytes) {
            Ok(function) => self.run_compiled(&function, asked, host, reply),
            Err(sentence) if sentence.ends_with(NO_MEMORY) => {
                Err(mlua::Error::MemoryError(sentence))
            }
            Err(sentence) => {
                reply.error(&not_compiled(&sentence));
                Ok(())
            }
        };
        let ended = match (self.control.stopped(), done) {
            (Some(why), _) => Ended::Stopped(why),
            (None, Ok(())) => Ended::Replied(std::mem::take(&mut self.said.lock().messages)),
            (None, Err(error)) => {
                let sentence = innermost(&error);
                if sentence.ends_with(NO_MEMORY) && self.control.is_short_of_memory() {
                    Ended::Stopped(Stop::Long)
                } else {
                    reply.out.truncate(start);
                    reply.error(&format!("ERR {sentence} script: {}", asked.script.name()));
                    Ended::Replied(Vec::new())
                }
            }
        };
        if matches!(ended, Ended::Stopped(_)) {
            reply.out.truncate(start);
        }
        ended
    }

    fn run_compiled(
        &self,
        function: &Function,
        asked: &Asked<'_>,
        host: &mut dyn Host,
        reply: &mut Reply<'_>,
    ) -> mlua::Result<()> {
        let lua = &self.lua;
        let given =
            asked.keys.iter().chain(asked.values).map(|word| word.len() + 64).sum::<usize>();
        self.limit(asked.bounds.memory_bytes.saturating_add(given as u64))?;
        let [keys, values] = [self.table_of(asked.keys)?, self.table_of(asked.values)?];
        let is_function = asked.script.is_function();
        if !is_function {
            self.own.raw_set("KEYS", &keys)?;
            self.own.raw_set("ARGV", &values)?;
        }
        let doors = Doors { host: RefCell::new(host), control: &self.control, said: &self.said };
        let results: MultiValue = lua.scope(|scope| {
            let call = scope.create_function(|lua, words: MultiValue| {
                doors.call(lua, words, true) //
            })?;
            let pcall = scope.create_function(|lua, words: MultiValue| {
                doors.call(lua, words, false) //
            })?;
            let known = scope.create_function(|_, words: MultiValue| doors.knows(words))?;
            self.redis.raw_set("call", call)?;
            self.redis.raw_set("pcall", pcall)?;
            self.redis.raw_set("acl_check_cmd", known)?;
            match is_function {
                true => self.run_function.call((function, asked.script.name(), keys, values)),
                false => self.run.call(function),
            }
        })?;
        let mut results = results.into_iter();
        let is_done = matches!(results.next(), Some(Value::Boolean(true)));
        let value = results.next().unwrap_or(Value::Nil);
        if is_done {
            let three = self.said.lock().three;
            return values::to_reply(&value, three, &self.control, reply);
        }
        if is_no_memory(&value) {
            return Err(no_memory());
        }
        reply.error(&sentence_of(&value, asked.script)?);
        Ok(())
    }

    fn table_of(&self, words: &[&[u8]]) -> mlua::Result<Table> {
        let table = self.lua.create_table_with_capacity(words.len(), 0)?;
        for (at, word) in words.iter().enumerate() {
            table.raw_set(at + 1, self.lua.create_string(word)?)?;
        }
        Ok(table)
    }

    /// Runs the code of a library: what it registers, or the sentence that says what is wrong.
    pub fn read(&mut self, code: &Script, bounds: &Bounds) -> Result<Read, Stop> {
        *self.said.lock() = Said::default();
        self.control.begin(bounds);
        if !self.control.may_go_on() {
            // Others that were read before may have taken its time; one that is short never asks.
            return Err(self.control.stopped().unwrap_or(Stop::TimedOut));
        }
        let read = match self.compile(code, bounds.memory_bytes) {
            Ok(function) => self.registered(&function, bounds).unwrap_or_else(|error| {
                let sentence = innermost(&error);
                if sentence.ends_with(NO_MEMORY) {
                    self.control.is_short_of_memory();
                }
                Err(format!("Error registering functions: {sentence}"))
            }),
            Err(sentence) => Err(format!("Error compiling function: {sentence}")),
        };
        match self.control.stopped() {
            Some(why) => Err(why),
            None => Ok(read),
        }
    }

    fn registered(&self, function: &Function, bounds: &Bounds) -> mlua::Result<Read> {
        // Where it was compiled before, nothing has limited it yet.
        self.limit(bounds.memory_bytes)?;
        let (is_done, value, made): (bool, Value, Table) = self.read.call(function)?;
        if !is_done {
            if is_no_memory(&value) {
                return Err(no_memory());
            }
            let sentence = match &value {
                Value::Table(table) => table.raw_get::<LuaString>("err")?.to_string_lossy(),
                value => value.to_string()?,
            };
            return Ok(Err(format!("Error registering functions: {sentence}")));
        }
        // Functions may share a description in Lua, and each has its own when it is read.
        let mut left = bounds.memory_bytes;
        let all = made.sequence_values::<Table>().map(|made| {
            let made = made?;
            let mut flags = Flags::default();
            for flag in made.raw_get::<Table>("flags")?.sequence_values::<LuaString>() {
                flags.add(&flag?.to_string_lossy());
            }
            let description: Option<LuaString> = made.raw_get("description")?;
            let registered = Registered {
                name: made.raw_get::<LuaString>("function_name")?.to_string_lossy(),
                description: description.map(|text| text.as_bytes().to_vec()),
                flags,
            };
            left = left.checked_sub(registered.bytes() as u64).ok_or_else(no_memory)?;
            Ok(registered)
        });
        let all = all.collect::<mlua::Result<Vec<_>>>()?;
        Ok(if all.is_empty() { Err("No functions registered".to_owned()) } else { Ok(all) })
    }

    /// Whether it can be kept for another script: what this one has left is forgotten.
    pub fn is_kept(&mut self) -> bool {
        if !matches!(self.control.stopped(), None | Some(Stop::Long | Stop::Refused)) {
            return false;
        }
        let far = self.first_bytes + KEPT_BYTES;
        let is_reset = self.lua.set_memory_limit(0).is_ok() && self.reset.call::<()>(()).is_ok();
        if self.lua.used_memory() > far && self.lua.gc_collect().is_err() {
            return false;
        }
        is_reset && self.lua.used_memory() <= far
    }
}

/// Whether there was no memory: Lua hands this to no handler.
fn is_no_memory(raised: &Value) -> bool {
    matches!(raised, Value::String(text) if text.as_bytes() == NO_MEMORY.as_bytes())
}

fn no_memory() -> mlua::Error {
    mlua::Error::MemoryError(NO_MEMORY.to_owned())
}

/// What is replied where a script cannot be compiled.
pub fn not_compiled(sentence: &str) -> String {
    format!("ERR Error compiling script (new function): {sentence}")
}

/// What is replied where a script has raised an error that it has not caught.
fn sentence_of(value: &Value, script: &Script) -> mlua::Result<String> {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.to_string_lossy()),
        value => number_of(value).map(|number| general(number, 14)),
    };
    let Value::Table(table) = value else {
        let what = text(value).unwrap_or_else(|| "execution failure".to_owned());
        return Ok(format!("ERR Error running script {}, {what}", script.name()));
    };
    let field = |name: &str| table.raw_get::<Value>(name).map(|value| text(&value));
    let sentence = field("err")?.unwrap_or_else(|| "ERR unknown error".to_owned());
    let (source, line) = (field("source")?, field("line")?);
    Ok(match (source, line) {
        (Some(source), Some(line)) => {
            format!("{sentence} script: {}, on {source}:{line}.", script.name())
        }
        _ => format!("{sentence} script: {}", script.name()),
    })
}

/// What `redis.call` and its like go through.
struct Doors<'h> {
    host: RefCell<&'h mut dyn Host>,
    control: &'h Control,
    said: &'h Mutex<Said>,
}

/// The words of a command.
fn words(values: MultiValue) -> mlua::Result<Vec<Vec<u8>>> {
    let word = |value: Value| match &value {
        Value::String(text) => Ok(text.as_bytes().to_vec()),
        value => match number_of(value) {
            Some(number) => Ok(general(number, 17).into_bytes()),
            None => Err(said("Lua redis lib command arguments must be strings or integers")),
        },
    };
    values.into_iter().map(word).collect()
}

impl Doors<'_> {
    fn call(&self, lua: &Lua, values: MultiValue, raises: bool) -> mlua::Result<Value> {
        if !self.control.may_go_on() {
            return Err(stopped());
        }
        let done = if values.is_empty() {
            Err(said("Please specify at least one argument for this redis lib call"))
        } else {
            words(values)
        };
        let words = match done {
            Ok(words) => words,
            Err(error) if raises => return Err(error),
            Err(error) => return super::errors::caught(lua, Value::Error(Box::new(error))),
        };
        let args: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let (mut out, three) = (Vec::new(), self.said.lock().three);
        // Who calls a function of the script from within a command does not exist.
        let called = self.host.borrow_mut().call(&args, three, &mut out);
        if let Err(why) = called {
            self.control.stop(why);
            return Err(stopped());
        }
        match values::error_of(&out) {
            Some(sentence) if raises => Err(Raised::Reply(sentence).into()),
            _ => values::to_lua(lua, &out),
        }
    }

    fn knows(&self, values: MultiValue) -> mlua::Result<bool> {
        if values.is_empty() {
            return Err(said(
                "Please specify at least one argument for this redis.acl_check_cmd() call",
            ));
        }
        let words = words(values)?;
        let args: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        if self.host.borrow().knows(&args) {
            return Ok(true);
        }
        Err(said("Invalid command passed to redis.acl_check_cmd()"))
    }
}
