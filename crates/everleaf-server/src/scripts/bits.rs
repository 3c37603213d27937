//! The module `bit`: numbers as 32 bits.

use mlua::{Lua, Table};

use super::arguments::{Arguments, add};

/// The bits of a number: beyond 32 they are dropped, a fraction is rounded.
fn bits(arguments: &Arguments<'_>, at: usize) -> mlua::Result<u32> {
    // As the module does it: the sum has the number's bits at its end.
    let sum = arguments.number(at)? + 6_755_399_441_055_744.0;
    Ok(sum.to_bits() as u32)
}

fn number(bits: u32) -> f64 {
    f64::from(bits as i32)
}

/// A function of two numbers, and its name.
type Named = (&'static str, fn(u32, u32) -> u32);

/// The module.
pub fn module(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    add(lua, &table, "tobit", |arguments| bits(&arguments, 0).map(number))?;
    add(lua, &table, "bnot", |arguments| bits(&arguments, 0).map(|bits| number(!bits)))?;
    add(lua, &table, "bswap", |arguments| {
        bits(&arguments, 0).map(|bits| number(bits.swap_bytes()))
    })?;
    let all: [Named; 3] = [("band", |a, b| a & b), ("bor", |a, b| a | b), ("bxor", |a, b| a ^ b)];
    for (name, join) in all {
        add(lua, &table, name, move |arguments| {
            let mut joined = bits(&arguments, 0)?;
            for at in 1..arguments.count() {
                joined = join(joined, bits(&arguments, at)?);
            }
            Ok(number(joined))
        })?;
    }
    let shifts: [Named; 5] = [
        ("lshift", |bits, by| bits << by),
        ("rshift", |bits, by| bits >> by),
        ("arshift", |bits, by| (bits as i32 >> by) as u32),
        ("rol", u32::rotate_left),
        ("ror", u32::rotate_right),
    ];
    for (name, shift) in shifts {
        add(lua, &table, name, move |arguments| {
            Ok(number(shift(bits(&arguments, 0)?, bits(&arguments, 1)? & 31)))
        })?;
    }
    add(lua, &table, "tohex", |arguments| {
        let found = bits(&arguments, 0)?;
        let digits = match arguments.get(1) {
            None => 8,
            Some(_) => bits(&arguments, 1)? as i32,
        };
        let text = format!("{found:08x}");
        let kept = &text[8 - digits.unsigned_abs().min(8) as usize..];
        Ok(if digits < 0 { kept.to_ascii_uppercase() } else { kept.to_owned() })
    })?;
    Ok(table)
}
