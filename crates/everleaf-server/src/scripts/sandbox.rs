//! What a state of Lua begins with: what scripts see, and nothing else.

use std::sync::Arc;

use mlua::chunk::ChunkMode;
use mlua::debug::HookTriggers;
use mlua::{Function, Lua, LuaOptions, LuaString, MultiValue, StdLib, Table, Value};
use parking_lot::Mutex;

use super::api::{self, Said};
use super::arguments::{Arguments, add};
use super::control::Control;
use super::errors::{self, NO_MEMORY, Raised, stopped};
use super::numbers::Draws;
use super::shebang::{BAD_NAME, FLAGS};
use super::strings::{call_script, check_bytes};
use super::{bits, json, msgpack, strings, structs};

const PRELUDE: &str = include_str!("prelude.lua");
/// After so many instructions it is asked whether the script may go on: some ten microseconds.
const INSTRUCTIONS: u32 = 2000;

/// Results of `unpack`, at most, which is what a stack of Lua has room for.
const UNPACKED: u32 = 7999;

/// What a new state has for who runs scripts in it.
pub struct Sandbox {
    pub lua: Lua,
    /// The globals that scripts see, and where they are.
    pub globals: Table,
    pub own: Table,
    /// The module `redis`.
    pub redis: Table,
    /// Calls a script: whether it came to its end, and what it returned or raised.
    pub run: Function,
    /// Forgets what a script has left.
    pub reset: Function,
    /// The globals that libraries see.
    pub of_libraries: Table,
    /// Runs the code of a library: as `run`, and what it registered.
    pub read: Function,
    /// Calls a function of a library, with its name, keys and values.
    pub run_function: Function,
}

/// Builds one.
pub fn build(
    control: &Arc<Control>,
    said: &Arc<Mutex<Said>>,
    (version, draws): (&str, Draws),
) -> mlua::Result<Sandbox> {
    let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH | StdLib::OS;
    let lua = Lua::new_with(libraries, LuaOptions::new())?;
    let own = Arc::clone(control);
    let triggers = HookTriggers::new().every_nth_instruction(INSTRUCTIONS);
    lua.set_global_hook(triggers, move |_, _| match own.may_go_on() {
        true => Ok(mlua::VmState::Continue),
        false => Err(stopped()),
    })?;
    let call: Function = lua.globals().raw_get("pcall")?;
    let native = lua.create_table()?;
    let own = Arc::clone(control);
    native.raw_set(
        "caught",
        lua.create_function(move |lua, value: Value| caught(lua, value, &own))?,
    )?;
    let own = Arc::clone(control);
    native.raw_set(
        "handled",
        lua.create_function(move |lua, value: Value| handled(lua, value, &own))?,
    )?;
    add(&lua, &native, "collectgarbage", collect_garbage)?;
    native.raw_set("unpacked", UNPACKED)?;
    native.raw_set("shared", api::SHARED)?;
    native.raw_set("known_flags", lua.create_table_from(FLAGS.map(|flag| (flag, true)))?)?;
    native.raw_set("bad_name", BAD_NAME)?;
    native.raw_set("string", strings::table(&lua, control, &call)?)?;
    native.raw_set("math", api::math(&lua, draws)?)?;
    let modules = lua.create_table()?;
    let redis = api::module(&lua, said, version)?;
    modules.raw_set("redis", &redis)?;
    modules.raw_set("cjson", json::module(&lua, control)?)?;
    modules.raw_set("cmsgpack", msgpack::module(&lua, control)?)?;
    modules.raw_set("struct", structs::module(&lua, control)?)?;
    modules.raw_set("bit", bits::module(&lua)?)?;
    let loaders = loaders(&lua, control, &call, &native)?;
    let prelude = lua.load(PRELUDE).set_name(errors::BETWEEN);
    let (globals, own, _, run, reset, libraries): (Table, Table, Table, Function, Function, Table) =
        prelude.call((&native, modules))?;
    loaders.raw_set("globals", &globals)?;
    Ok(Sandbox {
        of_libraries: libraries.raw_get("globals")?,
        read: libraries.raw_get("read")?,
        run_function: libraries.raw_get("run")?,
        lua,
        globals,
        own,
        redis,
        run,
        reset,
    })
}

/// As [`errors::caught`], and where the script ends it is not for it.
fn caught(lua: &Lua, value: Value, control: &Control) -> mlua::Result<Value> {
    if control.stopped().is_some() {
        return Err(stopped());
    }
    let value = errors::caught(lua, value)?;
    if let Value::String(text) = &value
        && text.as_bytes().ends_with(NO_MEMORY.as_bytes())
        && control.is_short_of_memory()
    {
        return Err(stopped());
    }
    Ok(value)
}

/// As [`described`]. It has no error, which would be given to it again and again: where the script
/// is stopped, nobody looks at what it returns.
fn handled(lua: &Lua, value: Value, control: &Control) -> mlua::Result<Value> {
    Ok(described(lua, value.clone(), control).unwrap_or_else(|error| {
        if errors::innermost(&error).ends_with(NO_MEMORY) {
            control.is_short_of_memory();
        }
        value
    }))
}

/// The error that ends a script, with its place: a table.
fn described(lua: &Lua, value: Value, control: &Control) -> mlua::Result<Value> {
    let value = caught(lua, value, control)?;
    let table = match value {
        Value::Table(table) => table,
        other => {
            let table = lua.create_table()?;
            let sentence = match &other {
                Value::String(text) => text.to_string_lossy(),
                Value::Nil => "nil".to_owned(),
                other => other.to_string().unwrap_or_else(|_| other.type_name().to_owned()),
            };
            table.raw_set("err", format!("ERR {sentence}"))?;
            table
        }
    };
    if let Some((source, line)) = errors::raised_at(lua) {
        table.raw_set("source", source)?;
        table.raw_set("line", line)?;
    }
    Ok(Value::Table(table))
}

fn collect_garbage(arguments: Arguments<'_>) -> mlua::Result<f64> {
    let what = arguments.get(0).map(|_| arguments.string(0)).transpose()?;
    let what = what.map_or("collect".to_owned(), |what| what.to_string_lossy());
    let lua = arguments.lua;
    match &what[..] {
        "count" => Ok(lua.used_memory() as f64 / 1024.0),
        "collect" => lua.gc_collect().map(|()| 0.0),
        "step" => lua.gc_step().map(|_| 1.0),
        "stop" | "restart" | "setpause" | "setstepmul" => Ok(0.0),
        other => Err(arguments.bad(0, &format!("invalid option '{other}'"))),
    }
}

// ---- code
// -------------------------------------------------------------------------------------------------

/// Compiles what is text. Lua 5.1 reads code without holding the name of it, so nothing is
/// collected meanwhile.
pub fn compile(lua: &Lua, code: &[u8], name: &str, globals: &Table) -> mlua::Result<Function> {
    lua.gc_stop();
    let chunk = lua.load(code).set_name(name.split('\0').next().unwrap_or_default());
    let made = chunk.set_mode(ChunkMode::Text).set_environment(globals.clone()).into_function();
    lua.gc_restart();
    made
}

/// `loadstring` and `load`; the globals of what they load are put in the table that is returned.
fn loaders(
    lua: &Lua,
    control: &Arc<Control>,
    call: &Function,
    native: &Table,
) -> mlua::Result<Table> {
    let holder = lua.create_table()?;
    let own = holder.clone();
    add(lua, native, "loadstring", move |arguments| {
        let code = arguments.string(0)?;
        let name = match arguments.get(1) {
            Some(_) => arguments.string(1)?,
            None => code.clone(),
        };
        loaded(arguments.lua, &code.as_bytes(), &name.to_string_lossy(), &own)
    })?;
    let (own, control, call) = (holder.clone(), Arc::clone(control), call.clone());
    add(lua, native, "load", move |arguments| {
        let Some(Value::Function(reader)) = arguments.get(0) else {
            return Err(arguments.bad(0, "function expected"));
        };
        let name = match arguments.get(1) {
            Some(_) => arguments.string(1)?.to_string_lossy(),
            None => "=(load)".to_owned(),
        };
        let mut code = Vec::new();
        loop {
            match call_script(&call, reader, [])? {
                Value::Nil => break,
                Value::String(part) if part.as_bytes().is_empty() => break,
                Value::String(part) => code.extend_from_slice(&part.as_bytes()),
                _ => {
                    return Err(Raised::Text(b"reader function must return a string".into()).into());
                }
            }
            check_bytes(&control, code.len())?;
        }
        loaded(arguments.lua, &code, &name, &own)
    })?;
    Ok(holder)
}

/// What these return: a function, or nothing and why.
fn loaded(lua: &Lua, code: &[u8], name: &str, holder: &Table) -> mlua::Result<MultiValue> {
    let refused = |lua: &Lua, why: &str| -> mlua::Result<MultiValue> {
        let why: LuaString = lua.create_string(why)?;
        Ok(MultiValue::from_vec(vec![Value::Nil, Value::String(why)]))
    };
    if code.starts_with(b"\x1b") {
        return refused(lua, "code comes as text only");
    }
    let globals: Table = holder.raw_get("globals")?;
    match compile(lua, code, name, &globals) {
        Ok(function) => Ok(MultiValue::from_vec(vec![Value::Function(function)])),
        Err(mlua::Error::SyntaxError { message, .. }) => refused(lua, &message),
        Err(error) => Err(error),
    }
}
