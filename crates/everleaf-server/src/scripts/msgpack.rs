//! The module `cmsgpack`, as Redis' scripts have it.

use std::sync::Arc;

use mlua::{Lua, MultiValue, Table, Value};

use super::arguments::{Arguments, add, number_of};
use super::control::Control;
use super::errors::fail;
use super::strings::check_bytes;

/// What lies deeper than this is packed as nothing.
const PACKED_DEPTH: usize = 16;
/// What lies deeper than this is not unpacked.
const UNPACKED_DEPTH: usize = 256;

/// The module.
pub fn module(lua: &Lua, control: &Arc<Control>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("_NAME", "cmsgpack")?;
    table.raw_set("_VERSION", "lua-cmsgpack 0.4.0")?;
    table.raw_set("_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo")?;
    table.raw_set("_DESCRIPTION", "MessagePack C implementation for Lua")?;
    let bounds = Arc::clone(control);
    add(lua, &table, "pack", move |arguments| {
        if arguments.count() == 0 {
            let sentence = "bad argument #0 to 'pack' (MessagePack pack needs input.)";
            return Err(fail(arguments.lua, sentence));
        }
        let mut out = Vec::new();
        for value in &arguments.values {
            pack(value, 0, &bounds, &mut out)?;
        }
        arguments.lua.create_string(out)
    })?;
    let bounds = Arc::clone(control);
    add(lua, &table, "unpack", move |arguments| unpack(&arguments, &bounds, (0, 0)))?;
    let bounds = Arc::clone(control);
    add(lua, &table, "unpack_one", move |arguments| {
        let offset = arguments.integer_or(1, 0)?;
        unpack(&arguments, &bounds, (1, offset))
    })?;
    let bounds = Arc::clone(control);
    add(lua, &table, "unpack_limit", move |arguments| {
        arguments.string(0)?;
        let limit = arguments.number(1)? as i64;
        let offset = arguments.integer_or(2, 0)?;
        unpack(&arguments, &bounds, (limit, offset))
    })?;
    Ok(table)
}

// ---- packing
// -------------------------------------------------------------------------------------------------

/// A length in the form that takes the fewest bytes: forms and their greatest lengths.
fn head(length: usize, (fixed, below): (u8, usize), forms: [Option<u8>; 3], out: &mut Vec<u8>) {
    match (length, forms) {
        (length, _) if length < below => out.push(fixed | length as u8),
        (0..=0xff, [Some(form), ..]) => out.extend([form, length as u8]),
        (0..=0xffff, [_, Some(form), _]) => {
            out.push(form);
            out.extend((length as u16).to_be_bytes());
        }
        (_, [.., form]) => {
            out.extend(form);
            out.extend((length as u32).to_be_bytes());
        }
    }
}

fn pack_number(number: f64, out: &mut Vec<u8>) {
    let whole = number as i64;
    // The greatest integer is rounded to the number behind it.
    if whole as f64 != number || number >= 2.0_f64.powi(63) {
        let short = number as f32;
        if f64::from(short) == number {
            out.push(0xca);
            out.extend(short.to_be_bytes());
        } else {
            out.push(0xcb);
            out.extend(number.to_be_bytes());
        }
        return;
    }
    match whole {
        -32..=127 => out.push(whole as u8),
        128..=0xff => out.extend([0xcc, whole as u8]),
        0x100..=0xffff => {
            out.push(0xcd);
            out.extend((whole as u16).to_be_bytes());
        }
        0x1_0000..=0xffff_ffff => {
            out.push(0xce);
            out.extend((whole as u32).to_be_bytes());
        }
        0x1_0000_0000.. => {
            out.push(0xcf);
            out.extend(whole.to_be_bytes());
        }
        -0x80..-32 => out.extend([0xd0, whole as u8]),
        -0x8000..-0x80 => {
            out.push(0xd1);
            out.extend((whole as i16).to_be_bytes());
        }
        -0x8000_0000..-0x8000 => {
            out.push(0xd2);
            out.extend((whole as i32).to_be_bytes());
        }
        _ => {
            out.push(0xd3);
            out.extend(whole.to_be_bytes());
        }
    }
}

fn pack(value: &Value, depth: usize, bounds: &Control, out: &mut Vec<u8>) -> mlua::Result<()> {
    check_bytes(bounds, out.len())?;
    match value {
        Value::Boolean(yes) => out.push(if *yes { 0xc3 } else { 0xc2 }),
        Value::String(text) => {
            let text = text.as_bytes();
            head(text.len(), (0xa0, 32), [Some(0xd9), Some(0xda), Some(0xdb)], out);
            out.extend_from_slice(&text);
        }
        Value::Table(table) if depth < PACKED_DEPTH => pack_table(table, depth, bounds, out)?,
        value => match number_of(value) {
            Some(number) => pack_number(number, out),
            None => out.push(0xc0),
        },
    }
    Ok(())
}

fn pack_table(
    table: &Table,
    depth: usize,
    bounds: &Control,
    out: &mut Vec<u8>,
) -> mlua::Result<()> {
    let (mut count, mut greatest, mut is_array) = (0_usize, 0.0_f64, true);
    for pair in table.pairs::<Value, Value>() {
        match number_of(&pair?.0) {
            Some(number) if number > 0.0 && number == number.trunc() => {
                greatest = greatest.max(number);
            }
            _ => is_array = false,
        }
        count += 1;
    }
    if is_array && greatest == count as f64 {
        head(count, (0x90, 16), [None, Some(0xdc), Some(0xdd)], out);
        for at in 1..=count {
            pack(&table.raw_get(at)?, depth + 1, bounds, out)?;
        }
        return Ok(());
    }
    head(count, (0x80, 16), [None, Some(0xde), Some(0xdf)], out);
    for pair in table.pairs::<Value, Value>() {
        let (name, value) = pair?;
        pack(&name, depth + 1, bounds, out)?;
        pack(&value, depth + 1, bounds, out)?;
    }
    Ok(())
}

// ---- unpacking
// -------------------------------------------------------------------------------------------------

const MISSING: &str = "Missing bytes in input.";
const BAD: &str = "Bad data format in input.";

struct Unpacker<'u> {
    lua: &'u Lua,
    rest: &'u [u8],
    bounds: &'u Control,
}

/// All values, or so many from an offset on, with the offset of what follows.
fn unpack(
    arguments: &Arguments<'_>,
    bounds: &Control,
    (limit, offset): (i64, i64),
) -> mlua::Result<MultiValue> {
    let (lua, text) = (arguments.lua, arguments.string(0)?);
    let bytes = text.as_bytes();
    let length = bytes.len();
    let from = match usize::try_from(offset) {
        Ok(from) if limit >= 0 => from,
        _ => {
            let sentence =
                format!("Invalid request to unpack with offset of {offset} and limit of {length}.");
            return Err(fail(lua, &sentence));
        }
    };
    let Some(rest) = bytes.get(from..) else {
        let sentence = format!("Start offset {offset} greater than input length {length}.");
        return Err(fail(lua, &sentence));
    };
    let is_all = limit == 0 && offset == 0;
    let mut unpacker = Unpacker { lua, rest, bounds };
    let mut values = Vec::new();
    while !unpacker.rest.is_empty() && (is_all || (values.len() as i64) < limit) {
        values.push(unpacker.value(UNPACKED_DEPTH)?);
    }
    if !is_all {
        let left = unpacker.rest.len();
        let next = if left == 0 { -1.0 } else { (length - left) as f64 };
        values.insert(0, Value::Number(next));
    }
    Ok(MultiValue::from_vec(values))
}

impl<'u> Unpacker<'u> {
    fn take(&mut self, count: usize) -> mlua::Result<&'u [u8]> {
        let (taken, rest) =
            self.rest.split_at_checked(count).ok_or_else(|| fail(self.lua, MISSING))?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> mlua::Result<[u8; N]> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N)?);
        Ok(bytes)
    }

    fn length<const N: usize>(&mut self) -> mlua::Result<usize> {
        Ok(self.array::<N>()?.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)))
    }

    fn text(&mut self, length: usize) -> mlua::Result<Value> {
        let bytes = self.take(length)?;
        Ok(Value::String(self.lua.create_string(bytes)?))
    }

    fn value(&mut self, depth: usize) -> mlua::Result<Value> {
        check_bytes(self.bounds, 0)?;
        let [form] = self.array()?;
        let number = match form {
            0x00..=0x7f => f64::from(form),
            0xe0.. => f64::from(form as i8),
            0xcc => f64::from(u8::from_be_bytes(self.array()?)),
            0xcd => f64::from(u16::from_be_bytes(self.array()?)),
            0xce => f64::from(u32::from_be_bytes(self.array()?)),
            0xcf => u64::from_be_bytes(self.array()?) as f64,
            0xd0 => f64::from(i8::from_be_bytes(self.array()?)),
            0xd1 => f64::from(i16::from_be_bytes(self.array()?)),
            0xd2 => f64::from(i32::from_be_bytes(self.array()?)),
            0xd3 => i64::from_be_bytes(self.array()?) as f64,
            0xca => f64::from(f32::from_be_bytes(self.array()?)),
            0xcb => f64::from_be_bytes(self.array()?),
            other => return self.other(other, depth),
        };
        Ok(Value::Number(number))
    }

    fn other(&mut self, form: u8, depth: usize) -> mlua::Result<Value> {
        if depth == 0 {
            return Err(fail(self.lua, BAD));
        }
        match form {
            0xc0 => Ok(Value::Nil),
            0xc2 | 0xc3 => Ok(Value::Boolean(form == 0xc3)),
            0xa0..=0xbf => self.text(usize::from(form & 0x1f)),
            0xd9 | 0xc4 => self.length::<1>().and_then(|length| self.text(length)),
            0xda | 0xc5 => self.length::<2>().and_then(|length| self.text(length)),
            0xdb | 0xc6 => self.length::<4>().and_then(|length| self.text(length)),
            0x90..=0x9f => self.values(usize::from(form & 0xf), depth),
            0xdc => self.length::<2>().and_then(|length| self.values(length, depth)),
            0xdd => self.length::<4>().and_then(|length| self.values(length, depth)),
            0x80..=0x8f => self.pairs(usize::from(form & 0xf), depth),
            0xde => self.length::<2>().and_then(|length| self.pairs(length, depth)),
            0xdf => self.length::<4>().and_then(|length| self.pairs(length, depth)),
            _ => Err(fail(self.lua, BAD)),
        }
    }

    fn values(&mut self, length: usize, depth: usize) -> mlua::Result<Value> {
        let table = self.lua.create_table()?;
        for at in 1..=length {
            let value = self.value(depth - 1)?;
            table.raw_set(at, value)?;
        }
        Ok(Value::Table(table))
    }

    fn pairs(&mut self, length: usize, depth: usize) -> mlua::Result<Value> {
        let table = self.lua.create_table()?;
        for _ in 0..length {
            let (name, value) = (self.value(depth - 1)?, self.value(depth - 1)?);
            if name.is_nil() || number_of(&name).is_some_and(f64::is_nan) {
                return Err(fail(self.lua, BAD));
            }
            table.raw_set(name, value)?;
        }
        Ok(Value::Table(table))
    }
}
