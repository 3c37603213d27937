//! Values of replies as those of Lua, and the other way.

use mlua::{Lua, Table, Value};

use super::arguments::number_of;
use super::control::Control;
use super::errors::stopped;
use crate::resp::reply::Reply;

/// How deep tables may lie in each other in a reply.
const DEPTH: usize = 256;

/// A reply as scripts get it; `three`: it is of RESP3.
pub fn to_lua(lua: &Lua, reply: &[u8]) -> mlua::Result<Value> {
    Reader { lua, rest: reply }.value()
}

/// The sentence of a reply that is an error.
pub fn error_of(reply: &[u8]) -> Option<String> {
    let sentence = reply.strip_prefix(b"-")?;
    Some(String::from_utf8_lossy(sentence).trim_end().to_owned())
}

struct Reader<'r> {
    lua: &'r Lua,
    rest: &'r [u8],
}

impl<'r> Reader<'r> {
    fn line(&mut self) -> &'r [u8] {
        let end = self.rest.windows(2).position(|two| two == b"\r\n").unwrap_or(self.rest.len());
        let (line, rest) = self.rest.split_at(end);
        self.rest = rest.get(2..).unwrap_or_default();
        line
    }

    /// So many bytes, and the end of a line behind them.
    fn bytes(&mut self, length: usize) -> &'r [u8] {
        let (bytes, rest) = self.rest.split_at(length.min(self.rest.len()));
        self.rest = rest.get(2..).unwrap_or_default();
        bytes
    }

    fn one(&self, name: &str, value: impl mlua::IntoLua) -> mlua::Result<Value> {
        let table = self.lua.create_table()?;
        table.raw_set(name, value)?;
        Ok(Value::Table(table))
    }

    fn text(&self, bytes: &[u8]) -> mlua::Result<Value> {
        Ok(Value::String(self.lua.create_string(bytes)?))
    }

    fn value(&mut self) -> mlua::Result<Value> {
        let line = self.line();
        let Some((mark, line)) = line.split_first() else { return Ok(Value::Nil) };
        let word = || str::from_utf8(line).unwrap_or_default();
        let length = || word().parse::<usize>().ok();
        match mark {
            b':' => Ok(Value::Number(word().parse().unwrap_or_default())),
            b'+' => self.one("ok", self.lua.create_string(line)?),
            b'-' => self.one("err", self.lua.create_string(line)?),
            b'$' => match length() {
                Some(length) => self.bytes_of(length),
                None => Ok(Value::Boolean(false)),
            },
            b'*' => match length() {
                Some(length) => self.array(length),
                None => Ok(Value::Boolean(false)),
            },
            b'%' => self.map(length().unwrap_or(0)),
            b'~' => self.set(length().unwrap_or(0)),
            b'#' => Ok(Value::Boolean(line == b"t")),
            b',' => self.one("double", word().parse::<f64>().unwrap_or_default()),
            b'(' => self.one("big_number", self.lua.create_string(line)?),
            b'=' => {
                let bytes = self.bytes(length().unwrap_or(0));
                let (format, text) = bytes.split_at(bytes.len().min(4));
                let table = self.lua.create_table()?;
                let format = format.strip_suffix(b":").unwrap_or(format);
                table.raw_set("format", self.lua.create_string(format)?)?;
                table.raw_set("string", self.lua.create_string(text)?)?;
                self.one("verbatim_string", table)
            }
            _ => Ok(Value::Nil),
        }
    }

    fn bytes_of(&mut self, length: usize) -> mlua::Result<Value> {
        let bytes = self.bytes(length);
        self.text(bytes)
    }

    fn array(&mut self, length: usize) -> mlua::Result<Value> {
        let table = self.lua.create_table_with_capacity(length.min(self.rest.len()), 0)?;
        for at in 1..=length {
            let value = self.value()?;
            table.raw_set(at, value)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, pairs: usize) -> mlua::Result<Value> {
        let table = self.lua.create_table()?;
        for _ in 0..pairs {
            let (name, value) = (self.value()?, self.value()?);
            if !name.is_nil() {
                table.raw_set(name, value)?;
            }
        }
        self.one("map", table)
    }

    fn set(&mut self, length: usize) -> mlua::Result<Value> {
        let table = self.lua.create_table()?;
        for _ in 0..length {
            let member = self.value()?;
            if !member.is_nil() {
                table.raw_set(member, true)?;
            }
        }
        self.one("set", table)
    }
}

/// Replies with what a script has returned; `three`: it has asked for RESP3 within it.
pub fn to_reply(
    value: &Value,
    three: bool,
    control: &Control,
    reply: &mut Reply<'_>,
) -> mlua::Result<()> {
    Writer { three, control, reply }.value(value, DEPTH)
}

struct Writer<'w, 'o> {
    three: bool,
    control: &'w Control,
    reply: &'w mut Reply<'o>,
}

/// As the processor does it for which Redis is mostly compiled.
fn whole(number: f64) -> i64 {
    let is_far = !(-(2.0_f64.powi(63))..2.0_f64.powi(63)).contains(&number);
    if is_far { i64::MIN } else { number as i64 }
}

fn one_line(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace(['\r', '\n'], " ")
}

impl Writer<'_, '_> {
    fn raw(&mut self, bytes: &[u8]) {
        self.reply.out.extend_from_slice(bytes);
    }

    fn value(&mut self, value: &Value, depth: usize) -> mlua::Result<()> {
        // What is too long is refused as a whole, so the rest of it is not made.
        if self.reply.is_too_long() {
            return Ok(());
        }
        match value {
            Value::String(text) => self.reply.bulk(text.as_bytes()),
            Value::Boolean(yes) if self.three && self.reply.three => {
                self.raw(if *yes { b"#t\r\n" } else { b"#f\r\n" });
            }
            Value::Boolean(yes) if self.three => self.reply.flag(*yes),
            Value::Boolean(true) => self.reply.integer(1),
            Value::Table(_) if depth == 0 => self.reply.error("ERR reached lua stack limit"),
            Value::Table(table) => self.table(table, depth - 1)?,
            value => match number_of(value) {
                Some(number) => self.reply.integer(whole(number)),
                None => self.reply.null(),
            },
        }
        Ok(())
    }

    fn table(&mut self, table: &Table, depth: usize) -> mlua::Result<()> {
        if !self.control.may_go_on() {
            return Err(stopped());
        }
        let field = |name: &str| table.raw_get::<Value>(name);
        if let Value::String(sentence) = field("err")? {
            self.reply.error(&one_line(&sentence.as_bytes()));
            return Ok(());
        }
        if let Value::String(word) = field("ok")? {
            self.reply.simple(&one_line(&word.as_bytes()));
            return Ok(());
        }
        if let Some(number) = number_of(&field("double")?) {
            self.reply.double(number);
            return Ok(());
        }
        if let Value::Table(map) = field("map")? {
            return self.pairs(&map, depth, true);
        }
        if let Value::Table(set) = field("set")? {
            return self.pairs(&set, depth, false);
        }
        if let Value::String(number) = field("big_number")? {
            let digits = one_line(&number.as_bytes());
            match self.reply.three {
                true => self.raw(format!("({digits}\r\n").as_bytes()),
                false => self.reply.bulk(digits),
            }
            return Ok(());
        }
        if let Value::Table(verbatim) = field("verbatim_string")?
            && let Value::String(text) = verbatim.raw_get::<Value>("string")?
            && let Value::String(format) = verbatim.raw_get::<Value>("format")?
        {
            self.verbatim(&format.as_bytes(), &text.as_bytes());
            return Ok(());
        }
        self.array(table, depth)
    }

    fn verbatim(&mut self, format: &[u8], text: &[u8]) {
        if !self.reply.three {
            return self.reply.bulk(text);
        }
        let mut three = [b' '; 3];
        three.iter_mut().zip(format).for_each(|(to, from)| *to = *from);
        self.raw(format!("={}\r\n", text.len() + 4).as_bytes());
        self.raw(&[&three[..], b":", text, b"\r\n"].concat());
    }

    /// Up to the first one that is not there.
    fn array(&mut self, table: &Table, depth: usize) -> mlua::Result<()> {
        let mut values = Vec::new();
        loop {
            let value: Value = table.raw_get(values.len() + 1)?;
            if value.is_nil() {
                break;
            }
            values.push(value);
        }
        self.reply.array(values.len());
        values.iter().try_for_each(|value| self.value(value, depth))
    }

    fn pairs(&mut self, table: &Table, depth: usize, is_map: bool) -> mlua::Result<()> {
        let found: Vec<(Value, Value)> = table.pairs().collect::<mlua::Result<_>>()?;
        if is_map {
            self.reply.map(found.len())
        } else {
            self.reply.set(found.len())
        }
        for (name, value) in &found {
            self.value(name, depth)?;
            if is_map {
                self.value(value, depth)?;
            }
        }
        Ok(())
    }
}
