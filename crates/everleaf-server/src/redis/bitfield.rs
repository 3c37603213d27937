//! BITFIELD: whole numbers of any width among the bits of a string.

use super::call::Call;
use super::failure::{Failure, NOT_INTEGER, Outcome, SYNTAX};
use super::strings::rewrite;
use crate::resp::argument::is;
use crate::resp::number::integer;

/// What is done with a number that its type cannot hold.
#[derive(Clone, Copy)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

#[derive(Clone, Copy)]
enum Act {
    Get,
    Set(i64),
    Add(i64),
}

/// The type of a number.
#[derive(Clone, Copy)]
struct Type {
    signed: bool,
    bits: u32,
}

struct Step {
    act: Act,
    field: Type,
    at: usize,
    overflow: Overflow,
}

impl Type {
    fn read(word: &[u8]) -> Outcome<Self> {
        let sentence = "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is \
                        not supported but i64 is.";
        let (signed, most) = match word.first() {
            Some(b'i') => (true, 64),
            Some(b'u') => (false, 63),
            _ => return Err(sentence.into()),
        };
        match integer(&word[1..]) {
            Some(bits) if (1..=most).contains(&bits) => Ok(Self { signed, bits: bits as u32 }),
            _ => Err(sentence.into()),
        }
    }

    /// The least and the greatest number.
    fn ends(self) -> (i128, i128) {
        let all = 1_i128 << self.bits;
        if self.signed { (-all / 2, all / 2 - 1) } else { (0, all - 1) }
    }

    /// The number whose bits are the last ones of another.
    fn wrapped(self, number: i128) -> i128 {
        let bits = number & ((1 << self.bits) - 1);
        let is_negative = self.signed && bits >> (self.bits - 1) & 1 == 1;
        if is_negative { bits - (1 << self.bits) } else { bits }
    }

    fn of(self, body: &[u8], at: usize) -> i128 {
        let bit =
            |at: usize| i128::from(body.get(at / 8).map_or(0, |byte| byte >> (7 - at % 8) & 1));
        let bits = (at..at + self.bits as usize).fold(0, |bits, at| bits << 1 | bit(at));
        self.wrapped(bits)
    }

    fn put(self, body: &mut [u8], at: usize, number: i128) {
        for place in 0..self.bits as usize {
            let bit = (number >> (self.bits as usize - 1 - place) & 1) as u8;
            let (byte, shift) = ((at + place) / 8, 7 - (at + place) % 8);
            body[byte] = body[byte] & !(1 << shift) | bit << shift;
        }
    }

    /// A number that it holds instead of this one; none: nothing is done.
    fn fit(self, number: i128, overflow: Overflow) -> Option<i128> {
        let (least, most) = self.ends();
        match overflow {
            _ if (least..=most).contains(&number) => Some(number),
            Overflow::Wrap => Some(self.wrapped(number)),
            Overflow::Saturate => Some(number.clamp(least, most)),
            Overflow::Fail => None,
        }
    }
}

fn offset(call: &Call<'_, '_, '_>, word: &[u8], field: Type) -> Outcome<usize> {
    const SENTENCE: &str = "ERR bit offset is not an integer or out of range";
    let (number, unit) = match word.strip_prefix(b"#") {
        Some(number) => (number, i64::from(field.bits)),
        None => (word, 1),
    };
    let at = integer(number).and_then(|number| number.checked_mul(unit));
    let at = at.and_then(|at| usize::try_from(at).ok()).ok_or(Failure::Said(SENTENCE))?;
    if at / 8 >= call.shared.longest.redis {
        return Err(SENTENCE.into());
    }
    Ok(at)
}

fn steps(call: &Call<'_, '_, '_>) -> Outcome<Vec<Step>> {
    let (mut rest, mut overflow, mut steps) = (call.rest(2), Overflow::Wrap, Vec::new());
    loop {
        let (words, with) = match rest {
            [] => return Ok(steps),
            [word, _, _, ..] if is(word, "GET") => (3, None),
            [word, _, _, number, ..] if is(word, "SET") || is(word, "INCRBY") => (4, Some(number)),
            [word, how, ..] if is(word, "OVERFLOW") => {
                overflow = match how {
                    how if is(how, "WRAP") => Overflow::Wrap,
                    how if is(how, "SAT") => Overflow::Saturate,
                    how if is(how, "FAIL") => Overflow::Fail,
                    _ => return Err("ERR Invalid OVERFLOW type specified".into()),
                };
                rest = &rest[2..];
                continue;
            }
            _ => return Err(SYNTAX.into()),
        };
        let field = Type::read(rest[1])?;
        let at = offset(call, rest[2], field)?;
        let number = with.map(|word| integer(word).ok_or(Failure::Said(NOT_INTEGER)));
        let act = match number.transpose()? {
            None => Act::Get,
            Some(number) if is(rest[0], "SET") => Act::Set(number),
            Some(number) => Act::Add(number),
        };
        steps.push(Step { act, field, at, overflow });
        rest = &rest[words..];
    }
}

fn run(call: &mut Call<'_, '_, '_>, may_write: bool) -> Outcome {
    let row = call.row(1)?;
    let steps = steps(call)?;
    let writes = steps.iter().filter(|step| !matches!(step.act, Act::Get));
    let end = writes.map(|step| (step.at + step.field.bits as usize).div_ceil(8)).max();
    if end.is_some() && !may_write {
        return Err("ERR BITFIELD_RO only supports the GET subcommand".into());
    }
    let (old, mut body) = call.string(&row)?.map_or((None, Vec::new()), |(h, b)| (Some(h), b));
    let mut has_changed = false;
    if let Some(end) = end {
        call.check_value(end)?;
        has_changed = body.len() < end;
        body.resize(body.len().max(end), 0);
    }
    call.reply.array(steps.len());
    for Step { act, field, at, overflow } in steps {
        let was = field.of(&body, at);
        let (new, told) = match act {
            Act::Get => (None, Some(was)),
            Act::Set(number) => {
                let number = i128::from(number);
                // What is negative is a great number without its sign.
                let number = if field.signed { number } else { number & i128::from(u64::MAX) };
                let new = field.fit(number, overflow);
                (new, new.map(|_| was))
            }
            Act::Add(by) => {
                let new = field.fit(was + i128::from(by), overflow);
                (new, new)
            }
        };
        if let Some(new) = new {
            field.put(&mut body, at, new);
            has_changed = true;
        }
        match told {
            Some(number) => call.reply.integer(number as i64),
            None => call.reply.null(),
        }
    }
    if has_changed {
        rewrite(call, row, old, &body)?;
    }
    Ok(())
}

/// BITFIELD.
pub fn bitfield(call: &mut Call<'_, '_, '_>) -> Outcome {
    run(call, true)
}

/// BITFIELD_RO.
pub fn bitfield_ro(call: &mut Call<'_, '_, '_>) -> Outcome {
    run(call, false)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_number_is_read_as_it_was_put(
            body in proptest::collection::vec(any::<u8>(), 24),
            at in 0_usize..100,
            bits in 1_u32..=64,
            signed: bool,
            number: i64,
        ) {
            let field = Type { signed, bits: if signed { bits } else { bits.min(63) } };
            let number = field.wrapped(i128::from(number));
            let mut written = body.clone();
            field.put(&mut written, at, number);
            prop_assert_eq!(field.of(&written, at), number);
            // What stands around it is not touched.
            let one = Type { signed: false, bits: 1 };
            let own = at..at + field.bits as usize;
            for other in (0..body.len() * 8).filter(|other| !own.contains(other)) {
                prop_assert_eq!(one.of(&written, other), one.of(&body, other));
            }
        }
    }
}
