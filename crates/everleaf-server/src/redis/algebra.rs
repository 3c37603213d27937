//! Commands that make one sorted set of several; a member of a set counts with score 1.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use everleaf::Direction;

use super::call::Call;
use super::failure::{Failure, Outcome, SYNTAX, WRONG_TYPE};
use super::sorted_sets::{Members, store};
use crate::data::{Kind, Part, Work};
use crate::resp::argument::is;
use crate::resp::number::{float, of_ordered};

/// What is made of them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Union,
    Intersection,
    Difference,
}

/// What is done with it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Show,
    Store,
    Count,
}

/// What the scores of a member become.
#[derive(Clone, Copy)]
enum Aggregate {
    Sum,
    Least,
    Greatest,
}

/// One of the sets; one that is not there has no members.
struct Source {
    id: u64,
    members: u64,
    scored: bool,
    weight: f64,
}

struct Asked {
    sources: Vec<Source>,
    aggregate: Aggregate,
    with_scores: bool,
    /// How many are counted; 0: all.
    limit: u64,
}

/// 0 instead of what is not a number, as the difference of infinities.
fn number(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

impl Aggregate {
    fn of(self, one: f64, other: f64) -> f64 {
        match self {
            Self::Sum => number(one + other),
            Self::Least => one.min(other),
            Self::Greatest => one.max(other),
        }
    }
}

impl Source {
    fn score(&self, value: &[u8]) -> f64 {
        let score = if self.scored { of_ordered(value).unwrap_or(0.0) } else { 1.0 };
        self.weight * score
    }

    fn scores(&self, work: &Work<'_>) -> Outcome<Members> {
        let mut scores = Members::new();
        work.scan_part(self.id, Part::Member, Direction::Forward, |name, value| {
            scores.push((name.to_vec(), number(self.score(value))));
            ControlFlow::Continue(())
        })?;
        Ok(scores)
    }

    fn score_of(&self, work: &Work<'_>, name: &[u8]) -> Outcome<Option<f64>> {
        let value = work.part(self.id, Part::Member, name)?;
        Ok(value.map(|value| self.score(&value)))
    }
}

fn source(call: &Call<'_, '_, '_>, key: &[u8]) -> Outcome<Source> {
    let (id, members, scored) = match call.work.header(&call.row_of(key)?)? {
        None => (0, 0, false),
        Some((header, Some(set))) if matches!(header.kind, Kind::Set | Kind::SortedSet) => {
            (set.id, set.members, header.kind == Kind::SortedSet)
        }
        Some(_) => return Err(WRONG_TYPE.into()),
    };
    Ok(Source { id, members, scored, weight: 1.0 })
}

/// What is asked for; the number of keys is argument `at`.
fn asked(call: &Call<'_, '_, '_>, at: usize, how: How, then: Then) -> Outcome<Asked> {
    let count = call.integer(at)?;
    if count < 1 {
        let name = call.args[0].escape_ascii().to_string().to_ascii_lowercase();
        let sentence = format!("ERR at least 1 input key is needed for '{name}' command");
        return Err(Failure::Text(sentence));
    }
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let keys = call.rest(at + 1).get(..count).ok_or(Failure::Said(SYNTAX))?;
    let sources = keys.iter().map(|key| source(call, key)).collect::<Outcome<_>>()?;
    let mut asked = Asked { sources, aggregate: Aggregate::Sum, with_scores: false, limit: 0 };
    let weighed = how != How::Difference && then != Then::Count;
    let mut at = at + 1 + count;
    while at < call.args.len() {
        let values = call.rest(at + 1);
        at += match call.args[at] {
            o if is(o, "WEIGHTS") && weighed && values.len() >= count => {
                for (source, weight) in asked.sources.iter_mut().zip(values) {
                    let weight = float(weight);
                    source.weight =
                        weight.ok_or(Failure::Said("ERR weight value is not a float"))?;
                }
                1 + count
            }
            o if is(o, "AGGREGATE") && weighed && !values.is_empty() => {
                asked.aggregate = match values[0] {
                    value if is(value, "SUM") => Aggregate::Sum,
                    value if is(value, "MIN") => Aggregate::Least,
                    value if is(value, "MAX") => Aggregate::Greatest,
                    _ => return Err(SYNTAX.into()),
                };
                2
            }
            o if is(o, "WITHSCORES") && then == Then::Show => {
                asked.with_scores = true;
                1
            }
            o if is(o, "LIMIT") && then == Then::Count && !values.is_empty() => {
                asked.limit = call.at_least(at + 1, 0, "ERR LIMIT can't be negative")?;
                2
            }
            _ => return Err(SYNTAX.into()),
        };
    }
    Ok(asked)
}

/// The members, in the order of their names.
fn made(work: &Work<'_>, asked: &mut Asked, how: How) -> Outcome<Members> {
    let aggregate = asked.aggregate;
    if how != How::Difference {
        asked.sources.sort_by_key(|source| source.members);
    }
    let Some((first, others)) = asked.sources.split_first() else { return Ok(Members::new()) };
    let members = first.scores(work)?;
    if how == How::Union {
        let mut all: BTreeMap<Vec<u8>, f64> = members.into_iter().collect();
        for other in others {
            for (name, score) in other.scores(work)? {
                let sum = all.get(&name).map_or(score, |sum| aggregate.of(*sum, score));
                all.insert(name, sum);
            }
        }
        return Ok(all.into_iter().collect());
    }
    let mut left = Members::new();
    'members: for (name, mut score) in members {
        for other in others {
            match (other.score_of(work, &name)?, how) {
                (None, How::Difference) => {}
                (Some(other), How::Intersection) => score = aggregate.of(score, other),
                _ => continue 'members,
            }
        }
        left.push((name, score));
        if left.len() as u64 == asked.limit {
            break;
        }
    }
    Ok(left)
}

fn show(call: &mut Call<'_, '_, '_>, mut members: Members, with_scores: bool) {
    // By score, and those of one score by name, as they were.
    members.sort_by(|(_, one), (_, other)| one.total_cmp(other));
    let flat = with_scores && !call.reply.three;
    call.reply.array(if flat { 2 * members.len() } else { members.len() });
    for (name, score) in members {
        if with_scores && !flat {
            call.reply.array(2);
        }
        call.reply.bulk(name);
        if with_scores {
            call.reply.double(score);
        }
    }
}

fn run(call: &mut Call<'_, '_, '_>, how: How, then: Then) -> Outcome {
    let at = if then == Then::Store { 2 } else { 1 };
    let mut asked = asked(call, at, how, then)?;
    let members = made(call.work, &mut asked, how)?;
    match then {
        Then::Show => show(call, members, asked.with_scores),
        Then::Count => call.reply.count(members.len()),
        Then::Store => {
            let to = call.row(1)?;
            store(call, to, &members)?;
            call.reply.count(members.len());
        }
    }
    Ok(())
}

/// ZUNION.
pub fn zunion(call: &mut Call<'_, '_, '_>) -> Outcome {
    run(call, How::Union, Then::Show)
}

/// ZINTER.
pub fn zinter(call: &mut Call<'_, '_, '_>) -> Outcome {
    run(call, How::Intersection, Then::Show)
}

/// ZDIFF.
pub fn zdiff(call: &mut Call<'_, '_, '_>) -> Outcome {
    run(call, How::Difference, Then::Show)
}

/// ZUNIONSTORE.
pub fn zunionstore(call: &mut Call<'_, '_, '_>) -> Outcome {
    run(call, How::Union, Then::Store)
}

/// ZINTERSTORE.
pub fn zinterstore(call: &mut Call<'_, '_, '_>) -> Outcome {
    run(call, How::Intersection, Then::Store)
}

/// ZDIFFSTORE.
pub fn zdiffstore(call: &mut Call<'_, '_, '_>) -> Outcome {
    run(call, How::Difference, Then::Store)
}

/// ZINTERCARD.
pub fn zintercard(call: &mut Call<'_, '_, '_>) -> Outcome {
    run(call, How::Intersection, Then::Count)
}
