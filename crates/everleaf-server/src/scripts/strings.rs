//! Functions of strings that Lua's own library does without an end, or deeper than a thread's stack
//! reaches: `find`, `match`, `gmatch`, `gsub`, `rep`.

use std::sync::Arc;

use mlua::{Function, Lua, LuaString, MultiValue, Table, Value};
use parking_lot::Mutex;

use super::arguments::{Arguments, add, function, number_of, type_name};
use super::control::Control;
use super::errors::{NO_MEMORY, Raised, fail, stopped};
use super::numbers::general;
use super::patterns::{Capture, Fault, Matcher};

/// The functions; `call` is Lua's `pcall`.
pub fn table(lua: &Lua, control: &Arc<Control>, call: &Function) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let own = Arc::clone(control);
    add(lua, &table, "find", move |arguments| find(&arguments, &own, true))?;
    let own = Arc::clone(control);
    add(lua, &table, "match", move |arguments| find(&arguments, &own, false))?;
    for name in ["gmatch", "gfind"] {
        let own = Arc::clone(control);
        add(lua, &table, name, move |arguments| gmatch(&arguments, &own))?;
    }
    let (own, call) = (Arc::clone(control), call.clone());
    let index = lua.load("local t, name = ... return t[name]").set_name("=gsub");
    let index = index.into_function()?;
    add(lua, &table, "gsub", move |arguments| gsub(&arguments, &own, (&call, &index)))?;
    let own = Arc::clone(control);
    add(lua, &table, "rep", move |arguments| rep(&arguments, &own))?;
    Ok(table)
}

fn failed(lua: &Lua, fault: Fault) -> mlua::Error {
    match fault {
        Fault::Wrong(sentence) => fail(lua, sentence),
        Fault::Stopped => stopped(),
    }
}

/// Refuses a string that Lua has no memory for, before it is made. Who makes it bit by bit asks
/// each time, and learns so that the script ends.
pub fn check_bytes(control: &Control, bytes: usize) -> mlua::Result<()> {
    if !control.may_go_on() {
        return Err(stopped());
    }
    if bytes as u64 <= control.memory_bytes() {
        return Ok(());
    }
    Err(Raised::Text(NO_MEMORY.into()).into())
}

fn rep(arguments: &Arguments<'_>, control: &Control) -> mlua::Result<LuaString> {
    let (text, times) = (arguments.string(0)?, arguments.number(1)?);
    let text = text.as_bytes();
    let times = if text.is_empty() || times < 0.0 { 0 } else { times as usize };
    check_bytes(control, text.len().saturating_mul(times))?;
    arguments.lua.create_string(text.repeat(times))
}

fn captured(lua: &Lua, text: &[u8], capture: Capture) -> mlua::Result<Value> {
    Ok(match capture {
        Capture::Text(from, to) => Value::String(lua.create_string(&text[from..to])?),
        Capture::Position(at) => Value::Number((at + 1) as f64),
    })
}

fn captures(
    lua: &Lua,
    matcher: &Matcher<'_, '_>,
    text: &[u8],
    found: (usize, usize),
    whole_counts: bool,
) -> mlua::Result<Vec<Value>> {
    let numbers = 0..matcher.captured(whole_counts);
    numbers
        .map(|number| {
            let capture = matcher.capture(number, found).map_err(|fault| failed(lua, fault))?;
            captured(lua, text, capture)
        })
        .collect()
}

fn is_plain(pattern: &[u8]) -> bool {
    !pattern.iter().any(|byte| b"^$*+?.([%-".contains(byte))
}

/// Where some bytes lie in others.
fn position(text: &[u8], words: &[u8]) -> Option<usize> {
    let Some((first, rest)) = words.split_first() else { return Some(0) };
    let mut from = 0;
    loop {
        let at = from + text.get(from..)?.iter().position(|byte| byte == first)?;
        if text[at + 1..].starts_with(rest) {
            return Some(at);
        }
        from = at + 1;
    }
}

fn find(arguments: &Arguments<'_>, control: &Control, is_find: bool) -> mlua::Result<MultiValue> {
    let lua = arguments.lua;
    let (text, pattern) = (arguments.string(0)?, arguments.string(1)?);
    let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
    let asked = arguments.integer_or(2, 1)?;
    let from = if asked < 0 { asked.saturating_add(text.len() as i64) } else { asked - 1 };
    let from = from.clamp(0, text.len() as i64) as usize;
    let is_asked_plain =
        arguments.get(3).is_some_and(|plain| !matches!(plain, Value::Boolean(false)));
    let ends = |from: usize, to: usize| {
        [Value::Number((from + 1) as f64), Value::Number(to as f64)].into_iter()
    };
    if is_find && (is_asked_plain || is_plain(&pattern)) {
        let found = position(&text[from..], &pattern).map(|at| from + at);
        return Ok(match found {
            Some(at) => ends(at, at + pattern.len()).collect(),
            None => MultiValue::from_vec(vec![Value::Nil]),
        });
    }
    let (is_anchored, pattern) = match pattern.strip_prefix(b"^") {
        Some(rest) => (true, rest),
        None => (false, &pattern[..]),
    };
    let may_go_on = || control.may_go_on();
    let mut matcher = Matcher::new(&text, pattern, &may_go_on);
    let last = if is_anchored { from } else { text.len() };
    for at in from..=last {
        let found = matcher.matches_at(at).map_err(|fault| failed(lua, fault))?;
        if let Some(end) = found {
            let values = captures(lua, &matcher, &text, (at, end), !is_find)?;
            let ends = ends(at, end).filter(|_| is_find);
            return Ok(ends.chain(values).collect());
        }
    }
    Ok(MultiValue::from_vec(vec![Value::Nil]))
}

fn gmatch(arguments: &Arguments<'_>, control: &Arc<Control>) -> mlua::Result<Function> {
    let (text, pattern) = (arguments.string(0)?, arguments.string(1)?);
    let (from, control) = (Mutex::new(0_usize), Arc::clone(control));
    function(arguments.lua, "gmatch", move |arguments| {
        let lua = arguments.lua;
        let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
        let may_go_on = || control.may_go_on();
        let mut matcher = Matcher::new(&text, &pattern, &may_go_on);
        let mut from = from.lock();
        for at in *from..=text.len() {
            let found = matcher.matches_at(at).map_err(|fault| failed(lua, fault))?;
            if let Some(end) = found {
                *from = if end == at { end + 1 } else { end };
                let values = captures(lua, &matcher, &text, (at, end), true)?;
                return Ok(MultiValue::from_vec(values));
            }
        }
        *from = text.len() + 1;
        Ok(MultiValue::new())
    })
}

// ---- gsub
// -------------------------------------------------------------------------------------------------

/// What a match is replaced with.
enum Instead<'a> {
    Text(LuaString),
    Call(&'a Function, Option<&'a Function>, Value),
}

/// Calls a function of the script; what it raises is raised as it was.
pub fn call_script(
    call: &Function,
    run: &Function,
    values: impl IntoIterator<Item = Value>,
) -> mlua::Result<Value> {
    let all = std::iter::once(Value::Function(run.clone())).chain(values);
    let mut results = call.call::<MultiValue>(MultiValue::from_iter(all))?.into_iter();
    let is_done = matches!(results.next(), Some(Value::Boolean(true)));
    let value = results.next().unwrap_or(Value::Nil);
    match value {
        value if is_done => Ok(value),
        Value::Error(error) => Err(*error),
        value => Err(Raised::Value(value).into()),
    }
}

fn gsub(
    arguments: &Arguments<'_>,
    control: &Control,
    (call, index): (&Function, &Function),
) -> mlua::Result<(LuaString, f64)> {
    let lua = arguments.lua;
    let (text, pattern) = (arguments.string(0)?, arguments.string(1)?);
    let (text, pattern) = (text.as_bytes().to_vec(), pattern.as_bytes().to_vec());
    let instead = match arguments.get(2) {
        Some(Value::Function(run)) => Instead::Call(run, None, Value::Nil),
        Some(Value::Table(table)) => Instead::Call(index, Some(index), Value::Table(table.clone())),
        Some(value) if matches!(value, Value::String(_)) || number_of(value).is_some() => {
            Instead::Text(arguments.string(2)?)
        }
        _ => return Err(arguments.bad(2, "string/function/table expected")),
    };
    let most = arguments.integer_or(3, i64::MAX)?;
    let (is_anchored, pattern) = match pattern.strip_prefix(b"^") {
        Some(rest) => (true, rest),
        None => (false, &pattern[..]),
    };
    let may_go_on = || control.may_go_on();
    let mut matcher = Matcher::new(&text, pattern, &may_go_on);
    let (mut out, mut at, mut count) = (Vec::new(), 0, 0);
    while count < most {
        let found = matcher.matches_at(at).map_err(|fault| failed(lua, fault))?;
        if let Some(end) = found {
            count += 1;
            replace(lua, (&matcher, &text, (at, end)), (&instead, call), &mut out)?;
            check_bytes(control, out.len())?;
        }
        match found {
            Some(end) if end > at => at = end,
            _ if at < text.len() => {
                out.push(text[at]);
                at += 1;
            }
            _ => break,
        }
        if is_anchored {
            break;
        }
    }
    out.extend_from_slice(&text[at..]);
    Ok((lua.create_string(out)?, count as f64))
}

type Match<'m> = (&'m Matcher<'m, 'm>, &'m [u8], (usize, usize));

fn replace(
    lua: &Lua,
    (matcher, text, found): Match<'_>,
    (instead, call): (&Instead<'_>, &Function),
    out: &mut Vec<u8>,
) -> mlua::Result<()> {
    let capture = |number| matcher.capture(number, found).map_err(|fault| failed(lua, fault));
    let value = match instead {
        Instead::Text(words) => {
            let words = words.as_bytes();
            let mut rest = words.iter();
            while let Some(byte) = rest.next() {
                match (byte, rest.as_slice().first()) {
                    (b'%', Some(digit)) if digit.is_ascii_digit() => {
                        let number = usize::from(digit - b'0');
                        let capture = match number.checked_sub(1) {
                            None => Capture::Text(found.0, found.1),
                            Some(number) => capture(number)?,
                        };
                        match capture {
                            Capture::Text(from, to) => out.extend_from_slice(&text[from..to]),
                            Capture::Position(at) => out.extend((at + 1).to_string().bytes()),
                        }
                        rest.next();
                    }
                    (b'%', next) => {
                        out.push(next.copied().unwrap_or(0));
                        rest.next();
                    }
                    _ => out.push(*byte),
                }
            }
            return Ok(());
        }
        Instead::Call(run, None, _) => {
            call_script(call, run, captures(lua, matcher, text, found, true)?)?
        }
        Instead::Call(run, Some(_), table) => {
            let name = captured(lua, text, capture(0)?)?;
            call_script(call, run, [table.clone(), name])?
        }
    };
    match &value {
        Value::Nil | Value::Boolean(false) => out.extend_from_slice(&text[found.0..found.1]),
        Value::String(words) => out.extend_from_slice(&words.as_bytes()),
        value => match number_of(value) {
            Some(number) => out.extend_from_slice(general(number, 14).as_bytes()),
            None => {
                let name = type_name(Some(value));
                return Err(fail(lua, &format!("invalid replacement value (a {name})")));
            }
        },
    }
    Ok(())
}
