//! Commands about the bits of strings; the first bit of a byte is its greatest.

use std::ops::Range;

use super::call::Call;
use super::failure::{Outcome, SYNTAX};
use super::strings::{byte_range, rewrite};
use crate::resp::argument::is;
use crate::resp::number::integer;

const NO_OFFSET: &str = "ERR bit offset is not an integer or out of range";

fn offset(call: &Call<'_, '_, '_>) -> Outcome<usize> {
    let offset = call.at_least(2, 0, NO_OFFSET)?;
    let most = call.shared.longest.redis as u64;
    match usize::try_from(offset) {
        Ok(at) if offset / 8 < most => Ok(at),
        _ => Err(NO_OFFSET.into()),
    }
}

fn bit(body: &[u8], at: usize) -> bool {
    body.get(at / 8).is_some_and(|byte| byte >> (7 - at % 8) & 1 == 1)
}

/// SETBIT.
pub fn setbit(call: &mut Call<'_, '_, '_>) -> Outcome {
    let (row, at) = (call.row(1)?, offset(call)?);
    let on = match integer(call.args[3]) {
        Some(0) => false,
        Some(1) => true,
        _ => return Err("ERR bit is not an integer or out of range".into()),
    };
    let (old, mut body) = call.string(&row)?.map_or((None, Vec::new()), |(h, b)| (Some(h), b));
    let (was, grows) = (bit(&body, at), body.len() <= at / 8);
    if grows || was != on {
        body.resize(body.len().max(at / 8 + 1), 0);
        body[at / 8] = body[at / 8] & !(1 << (7 - at % 8)) | u8::from(on) << (7 - at % 8);
        rewrite(call, row, old, &body)?;
    }
    call.reply.flag(was);
    Ok(())
}

/// GETBIT.
pub fn getbit(call: &mut Call<'_, '_, '_>) -> Outcome {
    let (row, at) = (call.row(1)?, offset(call)?);
    let body = call.string(&row)?.map_or(Vec::new(), |(_, body)| body);
    call.reply.flag(bit(&body, at));
    Ok(())
}

/// Whether a range is one of bits, by the word behind it.
fn is_of_bits(unit: Option<&&[u8]>) -> Outcome<bool> {
    match unit {
        None => Ok(false),
        Some(unit) if is(unit, "BYTE") => Ok(false),
        Some(unit) if is(unit, "BIT") => Ok(true),
        Some(_) => Err(SYNTAX.into()),
    }
}

/// The bits between two positions of a string.
fn bits(body: &[u8], from: i64, to: i64, of_bits: bool) -> Range<usize> {
    let unit = if of_bits { 1 } else { 8 };
    let range = byte_range(from, to, body.len() as u64 * 8 / unit);
    (range.start * unit) as usize..(range.end * unit) as usize
}

fn count_ones(body: &[u8], bits: Range<usize>) -> u64 {
    let Some(bytes) = body.get(bits.start / 8..bits.end.div_ceil(8)) else { return 0 };
    let [front, back] = [bits.start % 8, bytes.len() * 8 - bits.start % 8 - bits.len()];
    let all: u64 = bytes.iter().map(|byte| u64::from(byte.count_ones())).sum();
    let cut = |byte: Option<&u8>, mask: u8| byte.map_or(0, |byte| (byte & mask).count_ones());
    let before = cut(bytes.first(), !(0xff_u16 >> front) as u8);
    let behind = cut(bytes.last(), ((1_u16 << back) - 1) as u8);
    all - u64::from(before) - u64::from(behind)
}

/// BITCOUNT.
pub fn bitcount(call: &mut Call<'_, '_, '_>) -> Outcome {
    let Some((_, body)) = call.string(&call.row(1)?)? else {
        call.reply.integer(0);
        return Ok(());
    };
    let range = match call.rest(2) {
        [] => 0..body.len() * 8,
        [_, _] | [_, _, _] => {
            let (from, to) = (call.integer(2)?, call.integer(3)?);
            bits(
                &body,
                from,
                to,
                !(from < 0 && to < 0 && from > to) && is_of_bits(call.args.get(4))?,
            )
        }
        _ => return Err(SYNTAX.into()),
    };
    call.reply.integer(count_ones(&body, range) as i64);
    Ok(())
}

fn find(body: &[u8], on: bool, bits: Range<usize>) -> Option<usize> {
    let (other, mut at) = (if on { 0 } else { 0xff }, bits.start);
    while at < bits.end {
        match at.is_multiple_of(8) && body[at / 8] == other {
            true => at += 8,
            false if bit(body, at) == on => return Some(at),
            false => at += 1,
        }
    }
    None
}

/// BITPOS: where no end is given, zeros follow the string.
pub fn bitpos(call: &mut Call<'_, '_, '_>) -> Outcome {
    let on = match call.integer(2)? {
        0 => false,
        1 => true,
        _ => return Err("ERR The bit argument must be 1 or 0.".into()),
    };
    let Some((_, body)) = call.string(&call.row(1)?)? else {
        call.reply.integer(if on { -1 } else { 0 });
        return Ok(());
    };
    call.at_most_or_syntax(6)?;
    let from = if call.args.len() > 3 { call.integer(3)? } else { 0 };
    let of_bits = is_of_bits(call.args.get(5))?;
    let to = if call.args.len() > 4 { call.integer(4)? } else { -1 };
    let range = bits(&body, from, to, of_bits);
    let found = find(&body, on, range.clone()).filter(|at| *at < range.end);
    call.reply.integer(match found {
        Some(at) => at as i64,
        None if !on && call.args.len() < 5 && !range.is_empty() => range.end as i64,
        None => -1,
    });
    Ok(())
}

/// BITOP.
pub fn bitop(call: &mut Call<'_, '_, '_>) -> Outcome {
    let how: fn(u8, u8) -> u8 = match call.args[1] {
        how if is(how, "AND") => |a, b| a & b,
        how if is(how, "OR") => |a, b| a | b,
        how if is(how, "XOR") => |a, b| a ^ b,
        how if is(how, "NOT") => |a, _| !a,
        _ => return Err(SYNTAX.into()),
    };
    if is(call.args[1], "NOT") && call.args.len() != 4 {
        return Err("ERR BITOP NOT must be called with a single source key.".into());
    }
    let mut result = Vec::new();
    for (at, key) in call.rest(3).iter().enumerate() {
        let mut source = call.string(&call.row_of(key)?)?.map_or(Vec::new(), |(_, body)| body);
        if at == 0 {
            result = source;
            continue;
        }
        // What is shorter goes on with zeros.
        let length = result.len().max(source.len());
        result.resize(length, 0);
        source.resize(length, 0);
        result.iter_mut().zip(source).for_each(|(byte, other)| *byte = how(*byte, other));
    }
    if is(call.args[1], "NOT") {
        result.iter_mut().for_each(|byte| *byte = how(*byte, 0));
    }
    let length = result.len();
    let to = call.row(2)?;
    match length {
        0 => drop(call.work.remove_key(&to)?),
        _ => call.put_string(&to, &result, None)?,
    }
    call.reply.count(length);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_of_ranges_are_counted_and_found() {
        let body = [0b1010_0101, 0xff, 0, 0b0000_1000];
        let bits: Vec<bool> = (0..32).map(|at| bit(&body, at)).collect();
        for from in 0..32 {
            for to in from + 1..=32 {
                let part = &bits[from..to];
                let ones = part.iter().filter(|bit| **bit).count() as u64;
                assert_eq!(count_ones(&body, from..to), ones, "{from}..{to}");
                for on in [false, true] {
                    let first = part.iter().position(|bit| *bit == on).map(|at| from + at);
                    let found = find(&body, on, from..to).filter(|at| *at < to);
                    assert_eq!(found, first, "{on} in {from}..{to}");
                }
            }
        }
        assert_eq!(count_ones(&[], 0..0), 0);
    }
}
