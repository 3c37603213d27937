//! Arguments of a function that scripts call, and Lua's words where they are wrong.

use mlua::{Error, Function, IntoLuaMulti, Lua, LuaString, MultiValue, Table, Value};

use super::errors::fail;
use super::numbers::general;

/// The arguments of one call.
pub struct Arguments<'l> {
    pub lua: &'l Lua,
    pub name: &'static str,
    pub values: Vec<Value>,
}

/// What a value is called.
pub fn type_name(value: Option<&Value>) -> &'static str {
    match value {
        None => "no value",
        Some(Value::LightUserData(_) | Value::UserData(_) | Value::Error(_)) => "userdata",
        Some(Value::Integer(_)) => "number",
        Some(value) => value.type_name(),
    }
}

/// A number, if the value is one.
pub fn number_of(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Number(number) => Some(*number),
        _ => None,
    }
}

impl Arguments<'_> {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.values.len()
    }

    pub fn get(&self, at: usize) -> Option<&Value> {
        self.values.get(at).filter(|value| !value.is_nil())
    }

    /// The error that says what is wrong with one; `at` counts from 0.
    pub fn bad(&self, at: usize, what: &str) -> Error {
        fail(self.lua, &format!("bad argument #{} to '{}' ({what})", at + 1, self.name))
    }

    fn expected(&self, at: usize, what: &str) -> Error {
        let got = type_name(self.values.get(at));
        self.bad(at, &format!("{what} expected, got {got}"))
    }

    /// A string, or a number as one.
    pub fn string(&self, at: usize) -> mlua::Result<LuaString> {
        match self.values.get(at) {
            Some(Value::String(text)) => Ok(text.clone()),
            Some(value) => match number_of(value) {
                Some(number) => self.lua.create_string(general(number, 14)),
                None => Err(self.expected(at, "string")),
            },
            None => Err(self.expected(at, "string")),
        }
    }

    /// A number, or a string that is one.
    pub fn number(&self, at: usize) -> mlua::Result<f64> {
        let value = self.values.get(at).ok_or_else(|| self.expected(at, "number"))?;
        if let Some(number) = number_of(value) {
            return Ok(number);
        }
        let read = match value {
            Value::String(_) => self.lua.coerce_number(value.clone())?,
            _ => None,
        };
        read.ok_or_else(|| self.expected(at, "number"))
    }

    /// A whole number as C's `int`, or what stands for it.
    pub fn integer_or(&self, at: usize, other: i64) -> mlua::Result<i64> {
        match self.get(at) {
            None => Ok(other),
            Some(_) => self.number(at).map(|number| number as i64),
        }
    }
}

/// Adds a function to a table.
pub fn add<R: IntoLuaMulti>(
    lua: &Lua,
    table: &Table,
    name: &'static str,
    run: impl Fn(Arguments<'_>) -> mlua::Result<R> + Send + 'static,
) -> mlua::Result<()> {
    table.raw_set(name, function(lua, name, run)?)
}

/// A function that scripts call.
pub fn function<R: IntoLuaMulti>(
    lua: &Lua,
    name: &'static str,
    run: impl Fn(Arguments<'_>) -> mlua::Result<R> + Send + 'static,
) -> mlua::Result<Function> {
    lua.create_function(move |lua, values: MultiValue| {
        run(Arguments { lua, name, values: values.into_vec() })
    })
}
