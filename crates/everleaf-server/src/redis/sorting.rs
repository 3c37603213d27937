//! SORT: elements of a list, a set or a sorted set, in the order of their own or of other keys.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use everleaf::Direction;

use super::call::Call;
use super::failure::{Failure, Outcome, TOO_LONG, WRONG_TYPE};
use super::lists::replace;
use super::sort_options::{Options, looks_up, options};
use crate::data::{Collection, Header, Kind, MAX_KEY_BYTES, Part};
use crate::resp::number::float;

/// What a pattern stands for, for an element: it takes the place of the star.
fn look_up(call: &Call<'_, '_, '_>, pattern: &[u8], element: &[u8]) -> Outcome<Option<Vec<u8>>> {
    if pattern == b"#" {
        return Ok(Some(element.to_vec()));
    }
    let Some(star) = pattern.iter().position(|byte| *byte == b'*') else { return Ok(None) };
    let (front, behind) = (&pattern[..star], &pattern[star + 1..]);
    let arrow = behind.windows(2).position(|two| two == b"->");
    let (behind, field) = match arrow.filter(|arrow| arrow + 2 < behind.len()) {
        Some(arrow) => (&behind[..arrow], Some(&behind[arrow + 2..])),
        None => (behind, None),
    };
    let key = [front, element, behind].concat();
    if key.len() > MAX_KEY_BYTES {
        return Ok(None);
    }
    let row = call.row_of(&key)?;
    match (call.work.header(&row)?, field) {
        (Some((header, Some(hash))), Some(field)) if header.kind == Kind::Hash => {
            Ok(call.work.part(hash.id, Part::Member, field)?)
        }
        (Some((header, _)), None) if header.kind == Kind::String => {
            Ok(call.string(&row)?.map(|(_, body)| body))
        }
        _ => Ok(None),
    }
}

/// A weight as C's strtod reads it.
fn weight(text: &[u8]) -> Option<f64> {
    if text.is_empty() { Some(0.0) } else { float(text.trim_ascii_start()) }
}

/// The elements as they lie in the store, without the first ones, and at most so many.
fn elements(
    call: &Call<'_, '_, '_>,
    (kind, collection): (Kind, Collection),
    direction: Direction,
    window: std::ops::Range<u64>,
) -> Outcome<Vec<Vec<u8>>> {
    let part = match kind {
        Kind::List => Part::Element,
        Kind::SortedSet => Part::Score,
        _ => Part::Member,
    };
    let (mut elements, mut at) = (Vec::new(), 0);
    call.work.scan_part(collection.id, part, direction, |rest, value| {
        if window.contains(&at) {
            elements.push(match part {
                Part::Element => value.to_vec(),
                Part::Score => rest[8.min(rest.len())..].to_vec(),
                _ => rest.to_vec(),
            });
        }
        at += 1;
        if at < window.end { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(elements)
}

/// Elements in their order.
fn sorted(
    call: &Call<'_, '_, '_>,
    elements: Vec<Vec<u8>>,
    by: Option<&[u8]>,
    alpha: bool,
) -> Outcome<Vec<Vec<u8>>> {
    let mut weighed = Vec::new();
    for element in elements {
        let by = match by {
            Some(pattern) => look_up(call, pattern, &element)?,
            None if alpha => None,
            None => Some(element.clone()),
        };
        let number = match &by {
            Some(text) if !alpha => weight(text)
                .ok_or(Failure::Said("ERR One or more scores can't be converted into double"))?,
            _ => 0.0,
        };
        weighed.push((number, by.filter(|_| alpha), element));
    }
    weighed.sort_by(|(one, text, element), (other, other_text, other_element)| match alpha {
        true if by.is_some() => text.cmp(other_text),
        true => element.cmp(other_element),
        false => {
            let order = one.partial_cmp(other).unwrap_or(Ordering::Equal);
            order.then_with(|| element.cmp(other_element))
        }
    });
    Ok(weighed.into_iter().map(|(.., element)| element).collect())
}

/// The part of so many elements that LIMIT leaves.
fn window((from, count): (i64, i64), members: u64) -> std::ops::Range<u64> {
    let from = u64::try_from(from).unwrap_or(0).min(members);
    let count = u64::try_from(count).unwrap_or(members);
    from..from.saturating_add(count).min(members)
}

/// What is asked for, in its order.
fn chosen(call: &Call<'_, '_, '_>, options: &Options<'_>) -> Outcome<Vec<Vec<u8>>> {
    let (kind, collection) = match call.work.header(&call.row(1)?)? {
        None => return Ok(Vec::new()),
        Some((Header { kind, .. }, Some(collection)))
            if !matches!(kind, Kind::Hash | Kind::Stream) =>
        {
            (kind, collection)
        }
        Some(_) => return Err(WRONG_TYPE.into()),
    };
    let all = 0..collection.members;
    let window = window(options.limit, collection.members);
    let unsorted = options.by.is_some_and(|by| !looks_up(by));
    // A set that is stored has an order, which is not that of the memory.
    let by_name = unsorted && kind == Kind::Set && options.store.is_some();
    if unsorted && !by_name {
        let backward = options.descending && kind != Kind::Set;
        let direction = if backward { Direction::Backward } else { Direction::Forward };
        return elements(call, (kind, collection), direction, window);
    }
    let found = elements(call, (kind, collection), Direction::Forward, all)?;
    let by = options.by.filter(|_| !by_name);
    let mut sorted = sorted(call, found, by, options.alpha || by_name)?;
    if options.descending {
        sorted.reverse();
    }
    sorted.truncate(window.end as usize);
    Ok(sorted.split_off((window.start as usize).min(sorted.len())))
}

/// Bytes of memory that a value takes beside its own.
const VALUE_BYTES: usize = 32;

fn sort_with(call: &mut Call<'_, '_, '_>, options: &Options<'_>) -> Outcome {
    let chosen = chosen(call, options)?;
    let own = [&b"#"[..]];
    let get = if options.get.is_empty() { &own[..] } else { &options.get };
    if let Some(to) = options.store {
        let (mut values, mut bytes) = (Vec::new(), 0);
        for element in &chosen {
            for pattern in get {
                let value = look_up(call, pattern, element)?.unwrap_or_default();
                bytes += value.len() + VALUE_BYTES;
                if bytes > call.reply.end {
                    return Err(TOO_LONG.into());
                }
                values.push(value);
            }
        }
        let row = call.row_of(to)?;
        replace(call, &row, &values)?;
        call.reply.count(values.len());
        return Ok(());
    }
    call.reply.array(chosen.len() * get.len());
    for element in &chosen {
        if call.reply.is_too_long() {
            break;
        }
        for pattern in get {
            let value = look_up(call, pattern, element)?;
            call.reply.maybe(value);
        }
    }
    Ok(())
}

/// SORT.
pub fn sort(call: &mut Call<'_, '_, '_>) -> Outcome {
    let options = options(call.rest(2), true)?;
    sort_with(call, &options)
}

/// SORT_RO.
pub fn sort_ro(call: &mut Call<'_, '_, '_>) -> Outcome {
    let options = options(call.rest(2), false)?;
    sort_with(call, &options)
}
