//! Members that are drawn at random: by their numbers where they are few, else all names are read.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use everleaf::Direction;

use super::call::Call;
use super::failure::{Outcome, SYNTAX};
use crate::data::{Collection, Kind, Part, Work, part_rest, part_row};
use crate::resp::argument::is;
use crate::resp::number::of_ordered;

/// The most members that are drawn with repetition.
const MAX_DRAWS: u64 = 1 << 20;

/// Reading so many names takes as long as finding one by its number.
const WORTH: u64 = 300;

/// Members that were drawn.
pub struct Drawn {
    names: Vec<Vec<u8>>,
    picked: Vec<usize>,
}

impl Drawn {
    /// How many they are.
    pub fn len(&self) -> usize {
        self.picked.len()
    }

    /// Their names.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.picked.iter().map(|at| &self.names[*at][..])
    }
}

/// Draws `count` members, each at most once; with a negative count that many times, and a member
/// may come again.
pub fn draw(call: &Call<'_, '_, '_>, collection: Option<Collection>, count: i64) -> Outcome<Drawn> {
    if count < 0 && count.unsigned_abs() > MAX_DRAWS {
        return Err("ERR value is out of range".into());
    }
    let draws = count.unsigned_abs();
    if let Some(collection) = collection.filter(|set| draws.saturating_mul(WORTH) < set.members) {
        return draw_few(call, &collection, draws, count < 0);
    }
    let mut names = Vec::new();
    if let Some(collection) = collection.filter(|_| count != 0) {
        call.work.scan_part(collection.id, Part::Member, Direction::Forward, |name, _| {
            names.push(name.to_vec());
            ControlFlow::Continue(())
        })?;
    }
    let below = |limit: usize| call.shared.random_below(limit as u64) as usize;
    let picked = if names.is_empty() {
        Vec::new()
    } else if count < 0 {
        (0..count.unsigned_abs()).map(|_| below(names.len())).collect()
    } else {
        let mut all: Vec<usize> = (0..names.len()).collect();
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(names.len());
        for at in 0..count {
            all.swap(at, at + below(names.len() - at));
        }
        all.truncate(count);
        all
    };
    Ok(Drawn { names, picked })
}

/// Draws members by their numbers: only these are read, and what lies near.
fn draw_few(
    call: &Call<'_, '_, '_>,
    collection: &Collection,
    count: u64,
    again: bool,
) -> Outcome<Drawn> {
    let (mut drawn, mut numbers) =
        (Drawn { names: Vec::new(), picked: Vec::new() }, BTreeMap::new());
    while (drawn.picked.len() as u64) < count {
        let number = call.shared.random_below(collection.members);
        let known = numbers.get(&number).copied();
        if known.is_some() && !again {
            continue;
        }
        let at = match known {
            Some(at) => at,
            None => match call.row_at(collection, Part::Member, number)? {
                Some((row, _)) => {
                    drawn.names.push(part_rest(&row).to_vec());
                    drawn.names.len() - 1
                }
                None => break,
            },
        };
        numbers.insert(number, at);
        drawn.picked.push(at);
    }
    Ok(drawn)
}

/// Replies with members, and where they are asked for with what belongs to them.
fn random(
    call: &mut Call<'_, '_, '_>,
    kind: Kind,
    with: &str,
    show: fn(&mut Call<'_, '_, '_>, &[u8]),
) -> Outcome {
    let row = call.row(1)?;
    let counted = call.args.len() > 2;
    let count = if counted { call.range(2, -i64::MAX, i64::MAX)? } else { 1 };
    let with_values = match call.rest(3) {
        [] => false,
        [option] if is(option, with) => true,
        _ => return Err(SYNTAX.into()),
    };
    if with_values && count.unsigned_abs() > i64::MAX as u64 / 2 {
        return Err("ERR value is out of range".into());
    }
    let collection = call.collection(&row, kind)?.map(|(_, collection)| collection);
    let drawn = draw(call, collection, count)?;
    if !counted {
        call.reply.maybe(drawn.names().next());
        return Ok(());
    }
    let flat = with_values && !call.reply.three;
    call.reply.array(if flat { 2 * drawn.len() } else { drawn.len() });
    let id = collection.map_or(0, |collection| collection.id);
    for name in drawn.names() {
        if call.reply.is_too_long() {
            break;
        }
        if with_values && !flat {
            call.reply.array(2);
        }
        call.reply.bulk(name);
        if with_values {
            let value = value_of(call.work, id, name)?;
            show(call, &value);
        }
    }
    Ok(())
}

fn value_of(work: &Work<'_>, id: u64, name: &[u8]) -> Outcome<Vec<u8>> {
    Ok(work.get(&part_row(id, Part::Member, name))?.unwrap_or_default())
}

/// HRANDFIELD.
pub fn hrandfield(call: &mut Call<'_, '_, '_>) -> Outcome {
    random(call, Kind::Hash, "WITHVALUES", |call, value| call.reply.bulk(value))
}

/// ZRANDMEMBER.
pub fn zrandmember(call: &mut Call<'_, '_, '_>) -> Outcome {
    random(call, Kind::SortedSet, "WITHSCORES", |call, value| {
        call.reply.double(of_ordered(value).unwrap_or(0.0));
    })
}

/// SRANDMEMBER.
pub fn srandmember(call: &mut Call<'_, '_, '_>) -> Outcome {
    call.at_most_or_syntax(3)?;
    random(call, Kind::Set, "", |_, _| {})
}
