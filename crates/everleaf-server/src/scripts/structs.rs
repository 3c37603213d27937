//! The module `struct`: values as the bytes that C has of them.

use std::sync::Arc;

use mlua::{Lua, LuaString, MultiValue, Table, Value};

use super::arguments::{Arguments, add, number_of};
use super::control::Control;
use super::errors::fail;
use super::strings::check_bytes;

/// The most bytes of a whole number.
const INTEGER_BYTES: usize = 32;
const ALIGNMENT: usize = 8;

/// The module.
pub fn module(lua: &Lua, control: &Arc<Control>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let bounds = Arc::clone(control);
    add(lua, &table, "pack", move |arguments| pack(&arguments, &bounds))?;
    add(lua, &table, "unpack", |arguments| unpack(&arguments))?;
    add(lua, &table, "size", |arguments| size(&arguments))?;
    Ok(table)
}

/// The options of a format, read one by one.
struct Format<'f> {
    arguments: &'f Arguments<'f>,
    rest: &'f [u8],
    big: bool,
    alignment: usize,
}

impl<'f> Format<'f> {
    fn of(arguments: &'f Arguments<'f>, rest: &'f [u8]) -> Self {
        Self { arguments, rest, big: false, alignment: 1 }
    }

    fn failed(&self, sentence: &str) -> mlua::Error {
        fail(self.arguments.lua, sentence)
    }

    fn number(&mut self, other: usize) -> mlua::Result<usize> {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return Ok(other);
        }
        let (digits, rest) = self.rest.split_at(digits);
        self.rest = rest;
        let number = digits.iter().try_fold(0_i32, |number, digit| {
            number.checked_mul(10)?.checked_add(i32::from(digit - b'0'))
        });
        let number = number.and_then(|number| usize::try_from(number).ok());
        number.ok_or_else(|| self.failed("integral size overflow"))
    }

    /// The next option, and its size.
    fn next(&mut self) -> mlua::Result<Option<(u8, usize)>> {
        let Some((option, rest)) = self.rest.split_first() else { return Ok(None) };
        self.rest = rest;
        let size = match option {
            b'b' | b'B' | b'x' => 1,
            b'h' | b'H' => 2,
            b'f' => 4,
            b'l' | b'L' | b'T' | b'd' => 8,
            b'c' => self.number(1)?,
            b'i' | b'I' => {
                let size = self.number(4)?;
                if size > INTEGER_BYTES {
                    let sentence =
                        format!("integral size {size} is larger than limit of {INTEGER_BYTES}");
                    return Err(self.failed(&sentence));
                }
                size
            }
            _ => 0,
        };
        Ok(Some((*option, size)))
    }

    /// Bytes in front of a value of this size.
    fn padding(&self, at: usize, option: u8, size: usize) -> usize {
        if size == 0 || option == b'c' {
            return 0;
        }
        let size = size.min(self.alignment);
        size.wrapping_sub(at & (size - 1)) & (size - 1)
    }

    /// What says how the others are to be read.
    fn control(&mut self, option: u8) -> mlua::Result<()> {
        match option {
            b' ' => {}
            b'<' => self.big = false,
            b'>' => self.big = true,
            b'!' => {
                let alignment = self.number(ALIGNMENT)?;
                if !alignment.is_power_of_two() {
                    let sentence = format!("alignment {alignment} is not a power of 2");
                    return Err(self.failed(&sentence));
                }
                self.alignment = alignment;
            }
            other => {
                let what = format!("invalid format option '{}'", other as char);
                return Err(self.arguments.bad(0, &what));
            }
        }
        Ok(())
    }

    fn ordered<const N: usize>(&self, mut bytes: [u8; N]) -> [u8; N] {
        if self.big {
            bytes.reverse();
        }
        bytes
    }
}

fn pack(arguments: &Arguments<'_>, bounds: &Control) -> mlua::Result<LuaString> {
    let words = arguments.string(0)?;
    let words = words.as_bytes();
    let mut format = Format::of(arguments, &words);
    let (mut out, mut at) = (Vec::new(), 1);
    while let Some((option, size)) = format.next()? {
        out.resize(out.len() + format.padding(out.len(), option, size), 0);
        match option {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                let number = packed(arguments, at)?;
                at += 1;
                let bits = if number < 0.0 { number as i64 as u64 } else { number as u64 };
                let start = out.len();
                out.extend((0..size).map(|at| match at {
                    0..8 => (bits >> (8 * at)) as u8,
                    _ => 0,
                }));
                if format.big {
                    out[start..].reverse();
                }
            }
            b'x' => out.push(0),
            b'f' => {
                out.extend(format.ordered((packed(arguments, at)? as f32).to_le_bytes()));
                at += 1;
            }
            b'd' => {
                out.extend(format.ordered(packed(arguments, at)?.to_le_bytes()));
                at += 1;
            }
            b'c' | b's' => {
                let text = arguments.string(at)?;
                let text = text.as_bytes();
                at += 1;
                let size = if size == 0 { text.len() } else { size };
                let part = text.get(..size);
                let part = part.ok_or_else(|| arguments.bad(at, "string too short"))?;
                out.extend_from_slice(part);
                if option == b's' {
                    out.push(0);
                }
            }
            other => format.control(other)?,
        }
        check_bytes(bounds, out.len())?;
    }
    arguments.lua.create_string(out)
}

/// A number; what is not there is called nothing, as the module does.
fn packed(arguments: &Arguments<'_>, at: usize) -> mlua::Result<f64> {
    match arguments.values.get(at) {
        Some(_) => arguments.number(at),
        None => Err(arguments.bad(at, "number expected, got nil")),
    }
}

fn integer(bytes: &[u8], big: bool, signed: bool) -> f64 {
    let join = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
    let number = if big { bytes.iter().fold(0, join) } else { bytes.iter().rev().fold(0, join) };
    if !signed {
        return number as f64;
    }
    let unused = 64_usize.saturating_sub(8 * bytes.len());
    match unused {
        64 => 0.0,
        unused => ((number << unused) as i64 >> unused) as f64,
    }
}

fn unpack(arguments: &Arguments<'_>) -> mlua::Result<MultiValue> {
    let (words, data) = (arguments.string(0)?, arguments.string(1)?);
    let (words, data) = (words.as_bytes(), data.as_bytes());
    let lua = arguments.lua;
    let asked = arguments.integer_or(2, 1)?;
    if asked == 0 {
        return Err(arguments.bad(2, "offset must be 1 or greater"));
    }
    // As an unsigned number, so that one below 0 is too far.
    let mut at = usize::try_from(asked - 1).unwrap_or(usize::MAX);
    let mut format = Format::of(arguments, &words);
    let mut values = Vec::new();
    let part = |at: usize, size: usize| {
        let end = at.checked_add(size);
        let part = end.and_then(|end| data.get(at..end));
        part.ok_or_else(|| arguments.bad(1, "data string too short"))
    };
    while let Some((option, size)) = format.next()? {
        at = at.saturating_add(format.padding(at, option, size));
        let bytes = part(at, size)?;
        let mut size = size;
        let eight = || {
            let mut eight = [0; 8];
            eight.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
            eight
        };
        match option {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                let signed = option.is_ascii_lowercase();
                values.push(Value::Number(integer(bytes, format.big, signed)));
            }
            b'x' => {}
            b'f' => {
                let [a, b, c, d, ..] = eight();
                let number = f32::from_le_bytes(format.ordered([a, b, c, d]));
                values.push(Value::Number(f64::from(number)));
            }
            b'd' => values.push(Value::Number(f64::from_le_bytes(format.ordered(eight())))),
            b'c' => {
                if size == 0 {
                    let before = values.pop().as_ref().and_then(number_of);
                    let before =
                        before.ok_or_else(|| format.failed("format 'c0' needs a previous size"))?;
                    size = before as usize;
                }
                values.push(Value::String(lua.create_string(part(at, size)?)?));
            }
            b's' => {
                let rest = data.get(at..).unwrap_or_default();
                let end = rest.iter().position(|byte| *byte == 0);
                let end = end.ok_or_else(|| format.failed("unfinished string in data"))?;
                values.push(Value::String(lua.create_string(&rest[..end])?));
                size = end + 1;
            }
            other => format.control(other)?,
        }
        at += size;
    }
    values.push(Value::Number((at + 1) as f64));
    Ok(MultiValue::from_vec(values))
}

fn size(arguments: &Arguments<'_>) -> mlua::Result<f64> {
    let words = arguments.string(0)?;
    let words = words.as_bytes();
    let mut format = Format::of(arguments, &words);
    let mut at = 0_usize;
    while let Some((option, size)) = format.next()? {
        at = at.saturating_add(format.padding(at, option, size));
        match (option, size) {
            (b's', _) => return Err(arguments.bad(0, "option 's' has no fixed size")),
            (b'c', 0) => return Err(arguments.bad(0, "option 'c0' has no fixed size")),
            (option, _) if !option.is_ascii_alphanumeric() => format.control(option)?,
            _ => {}
        }
        at = at.saturating_add(size);
    }
    Ok(at as f64)
}
