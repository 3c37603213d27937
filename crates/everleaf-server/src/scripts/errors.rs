//! Errors of a script: how they are raised, and what the script gets that catches them.

use std::fmt;

use mlua::{Error, Lua, Value};

/// What Lua says where the limit of memory is reached.
pub const NO_MEMORY: &str = "not enough memory";

/// An error that is raised by what is not written in Lua.
#[derive(Clone, Debug)]
pub enum Raised {
    /// A sentence, as Lua's own functions raise it.
    Text(Vec<u8>),
    /// The error of a command: a table with the field `err`.
    Reply(String),
    /// What a function of the script raised.
    Value(Value),
    /// The script ends: it cannot catch this.
    Stopped,
}

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "{}", text.escape_ascii()),
            Self::Reply(sentence) => f.write_str(sentence),
            Self::Value(value) => write!(f, "a {}", value.type_name()),
            Self::Stopped => f.write_str("the script was stopped"),
        }
    }
}

impl std::error::Error for Raised {}

impl From<Raised> for Error {
    fn from(raised: Raised) -> Self {
        Self::external(raised)
    }
}

/// The end of the script.
pub fn stopped() -> Error {
    Raised::Stopped.into()
}

/// An error of Redis' own functions.
pub fn said(sentence: &str) -> Error {
    Raised::Reply(format!("ERR {sentence}")).into()
}

/// An error as Lua's own functions raise it: with the line that has called.
pub fn fail(lua: &Lua, sentence: &str) -> Error {
    let place = lua.inspect_stack(1, |debug| {
        let line = debug.current_line().filter(|line| *line > 0)?;
        Some(format!("{}:{line}: ", debug.source().short_src.unwrap_or_default()))
    });
    let place = place.flatten().unwrap_or_default();
    Raised::Text(format!("{place}{sentence}").into_bytes()).into()
}

/// What the code is called that stands between scripts and what they call.
pub const BETWEEN: &str = "=everleaf";
/// How many calls are looked at for the place of an error.
const CALLS: usize = 8;

/// Where an error was raised: the chunk and the line of the script, for who handles it.
pub fn raised_at(lua: &Lua) -> Option<(String, usize)> {
    (1..CALLS).find_map(|level| {
        let found = lua.inspect_stack(level, |debug| {
            let source = debug.source().source.unwrap_or_default().into_owned();
            Some((source, debug.current_line().filter(|line| *line > 0)?))
        });
        found.flatten().filter(|(source, _)| source != BETWEEN)
    })
}

/// What a script gets that catches this; an error: it is not for the script.
pub fn caught(lua: &Lua, value: Value) -> mlua::Result<Value> {
    let Value::Error(error) = value else { return Ok(value) };
    match error.downcast_ref::<Raised>() {
        Some(Raised::Text(text)) => Ok(Value::String(lua.create_string(text)?)),
        Some(Raised::Reply(sentence)) => {
            let table = lua.create_table()?;
            table.raw_set("err", sentence.as_str())?;
            Ok(Value::Table(table))
        }
        Some(Raised::Value(value)) => Ok(value.clone()),
        Some(Raised::Stopped) => Err(*error),
        None => Ok(Value::String(lua.create_string(innermost(&error))?)),
    }
}

/// The sentence of an error of the library that runs Lua.
pub fn innermost(error: &Error) -> String {
    match error {
        Error::CallbackError { cause, .. } | Error::WithContext { cause, .. } => innermost(cause),
        Error::MemoryError(_) => NO_MEMORY.to_owned(),
        Error::RuntimeError(sentence) => {
            sentence.split("\nstack traceback:").next().unwrap_or_default().to_owned()
        }
        other => other.to_string(),
    }
}
