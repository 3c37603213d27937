//! Ranges of sorted sets: by rank, by score, by name.

use std::ops::{Bound, ControlFlow};

use everleaf::Direction;

use super::call::Call;
use super::failure::{Failure, NOT_INTEGER, Outcome, SYNTAX};
use super::long::{Rows, Show};
use super::sorted_sets::{Members, SortedSet, store};
use crate::data::{Collection, Ends, Kind, Part, behind, part_prefix, part_rest, part_row};
use crate::resp::argument::{is, slice};
use crate::resp::number::{bound, integer, of_ordered, to_ordered};

/// So many members are skipped by reading them.
const FEW: u64 = 512;

/// By what a range is meant.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Name,
}

/// A range that is asked for.
struct Asked<'a> {
    by: By,
    reverse: bool,
    /// As they were given: for a reverse range by score or name the greater one is the first.
    ends: [&'a [u8]; 2],
    /// How many are left out, and how many are shown at most.
    limit: Option<(i64, i64)>,
    with_scores: bool,
}

/// The rows of a range.
struct Place {
    part: Part,
    ends: Ends,
    skip: u64,
    count: u64,
}

fn score_bound(arg: &[u8]) -> Outcome<(f64, bool)> {
    let (digits, open) = match arg {
        [b'(', digits @ ..] => (digits, true),
        digits => (digits, false),
    };
    let number = bound(digits).ok_or(Failure::Said("ERR min or max is not a float"))?;
    Ok((number, open))
}

/// The rows of scores between two.
fn score_ends(id: u64, [(min, min_open), (max, max_open)]: [(f64, bool); 2]) -> Ends {
    let row = |score: f64, next: bool| {
        // What comes behind all names of a score is the next score, if there is one.
        match (next, u64::from_be_bytes(to_ordered(score)).checked_add(1)) {
            (false, _) => part_row(id, Part::Score, &to_ordered(score)),
            (true, Some(next)) => part_row(id, Part::Score, &next.to_be_bytes()),
            (true, None) => behind(id, Part::Score),
        }
    };
    (Bound::Included(row(min, min_open)), Bound::Excluded(row(max, !max_open)))
}

/// The bound of a range of names.
#[derive(Clone, Copy)]
enum NameBound<'a> {
    /// Before all names.
    First,
    /// Behind all names.
    Last,
    /// A name, which is in the range.
    At(&'a [u8]),
    /// A name, which is not.
    Past(&'a [u8]),
}

fn name_bound(arg: &[u8]) -> Outcome<NameBound<'_>> {
    match arg {
        b"-" => Ok(NameBound::First),
        b"+" => Ok(NameBound::Last),
        [b'[', name @ ..] => Ok(NameBound::At(name)),
        [b'(', name @ ..] => Ok(NameBound::Past(name)),
        _ => Err("ERR min or max not valid string range item".into()),
    }
}

/// The rows of names between two.
fn name_ends(id: u64, [min, max]: [NameBound<'_>; 2]) -> Ends {
    let bound = |bound, outermost: fn(Vec<u8>) -> Bound<Vec<u8>>| match bound {
        NameBound::First => outermost(part_prefix(id, Part::Member)),
        NameBound::Last => outermost(behind(id, Part::Member)),
        NameBound::At(name) => Bound::Included(part_row(id, Part::Member, name)),
        NameBound::Past(name) => Bound::Excluded(part_row(id, Part::Member, name)),
    };
    (bound(min, Bound::Included), bound(max, Bound::Excluded))
}

/// The ends of a range, which were read.
enum Ended<'a> {
    Ranks(i64, i64),
    Scores([(f64, bool); 2]),
    Names([NameBound<'a>; 2]),
}

/// How many rows of a part lie before a range, and before its end.
fn ranks(call: &Call<'_, '_, '_>, set: &Collection, part: Part, ends: &Ends) -> Outcome<[u64; 2]> {
    // The least row behind another one has a byte more.
    let next = |row: &[u8]| [row, &[0]].concat();
    let from = match &ends.0 {
        Bound::Included(row) => row.clone(),
        Bound::Excluded(row) => next(row),
        Bound::Unbounded => part_prefix(set.id, part),
    };
    let to = match &ends.1 {
        Bound::Included(row) => next(row),
        Bound::Excluded(row) => row.clone(),
        Bound::Unbounded => behind(set.id, part),
    };
    let from_rank = call.rank(set, part, &from)?;
    Ok([from_rank, if from < to { call.rank(set, part, &to)? } else { from_rank }])
}

impl<'a> Asked<'a> {
    fn ended(&self) -> Outcome<Ended<'a>> {
        let [min, max] = match self.reverse && self.by != By::Rank {
            true => [self.ends[1], self.ends[0]],
            false => self.ends,
        };
        let rank = |arg| integer(arg).ok_or(Failure::Said(NOT_INTEGER));
        Ok(match self.by {
            By::Rank => Ended::Ranks(rank(min)?, rank(max)?),
            By::Score => Ended::Scores([score_bound(min)?, score_bound(max)?]),
            By::Name => Ended::Names([name_bound(min)?, name_bound(max)?]),
        })
    }

    /// Where the members are; none: there is none.
    fn place(&self, call: &Call<'_, '_, '_>, row: &[u8]) -> Outcome<Option<Place>> {
        // Mistakes of the range are told before those of the key, and where nothing is there.
        let ended = self.ended()?;
        let found = call.collection(row, Kind::SortedSet)?;
        let id = found.map_or(0, |(_, set)| set.id);
        let members = found.map_or(0, |(_, set)| set.members);
        let (skip, count) = match self.limit {
            Some((skip, _)) if skip < 0 => (0, 0),
            Some((skip, count)) => (skip as u64, u64::try_from(count).unwrap_or(u64::MAX)),
            None => (0, u64::MAX),
        };
        let (part, ends, skip, count) = match ended {
            Ended::Ranks(first, last) => {
                let ranks = slice(first, last, members);
                let all = (
                    Bound::Included(part_prefix(id, Part::Score)),
                    Bound::Excluded(behind(id, Part::Score)),
                );
                (Part::Score, all, ranks.start, ranks.end - ranks.start)
            }
            Ended::Names(bounds) => (Part::Member, name_ends(id, bounds), skip, count),
            Ended::Scores(bounds) => (Part::Score, score_ends(id, bounds), skip, count),
        };
        let place = Place { part, ends, skip, count };
        match found.filter(|_| count > 0) {
            Some((_, set)) => self.near(call, &set, place).map(Some),
            None => Ok(None),
        }
    }

    /// The same place, with ends that have little to skip.
    fn near(&self, call: &Call<'_, '_, '_>, set: &Collection, place: Place) -> Outcome<Place> {
        let Place { part, mut ends, mut skip, count } = place;
        if skip <= FEW {
            return Ok(Place { part, ends, skip, count });
        }
        let [from, to] = ranks(call, set, part, &ends)?;
        if self.reverse {
            let Some(last) = to.checked_sub(skip + 1).filter(|last| *last >= from) else {
                return Ok(Place { part, ends, skip: 0, count: 0 });
            };
            let spot = call.spot(set, part, last)?;
            (ends.1, skip) = (Bound::Excluded(spot.to), spot.skip_back);
        } else {
            let spot = call.spot(set, part, from + skip)?;
            (ends.0, skip) = (Bound::Included(spot.from), spot.skip);
        }
        Ok(Place { part, ends, skip, count })
    }

    fn direction(&self) -> Direction {
        if self.reverse { Direction::Backward } else { Direction::Forward }
    }

    /// The members of a range, in its order.
    fn members(&self, call: &Call<'_, '_, '_>, row: &[u8]) -> Outcome<Members> {
        let (mut shown, mut at) = (Members::new(), 0);
        let Some(Place { part, ends, skip, count }) = self.place(call, row)? else {
            return Ok(shown);
        };
        call.work.scan(ends, self.direction(), |row, value| {
            if at >= skip {
                let rest = part_rest(row);
                let (name, score) = match part {
                    Part::Score => (&rest[8.min(rest.len())..], of_ordered(rest)),
                    _ => (rest, of_ordered(value)),
                };
                shown.extend(score.map(|score| (name.to_vec(), score)));
            }
            at += 1;
            if at - skip.min(at) < count {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
        Ok(shown)
    }

    fn show(&self, call: &mut Call<'_, '_, '_>, row: &[u8]) -> Outcome {
        let Some(Place { part, ends, skip, count }) = self.place(call, row)? else {
            call.reply.array(0);
            return Ok(());
        };
        let show = Show::Scored(part, self.with_scores);
        let rows = Rows::of(ends, self.direction(), (skip, count), show);
        // As many ranks as are asked for are there.
        call.rows(if self.by == By::Rank { rows.known() } else { rows })
    }
}

/// The options behind the ends of a range. They choose what the command leaves open, each once.
fn asked<'a>(
    call: &Call<'a, '_, '_>,
    (mut by, mut reverse): (Option<By>, Option<bool>),
    from: usize,
    stores: bool,
) -> Outcome<Asked<'a>> {
    let ends = [call.args[from], call.args[from + 1]];
    let (mut limit, mut with_scores) = (None, false);
    let mut at = from + 2;
    while let Some(option) = call.args.get(at) {
        at += 1;
        match option {
            o if by.is_none() && is(o, "BYSCORE") => by = Some(By::Score),
            o if by.is_none() && is(o, "BYLEX") => by = Some(By::Name),
            o if reverse.is_none() && is(o, "REV") => reverse = Some(true),
            o if !stores && is(o, "WITHSCORES") => with_scores = true,
            o if is(o, "LIMIT") && at + 1 < call.args.len() => {
                limit = Some((call.integer(at)?, call.integer(at + 1)?));
                at += 2;
            }
            _ => return Err(SYNTAX.into()),
        }
    }
    let (by, reverse) = (by.unwrap_or(By::Rank), reverse.unwrap_or(false));
    if by == By::Rank && limit.is_some_and(|(_, count)| count != -1) {
        let sentence = "ERR syntax error, LIMIT is only supported in combination with either \
                        BYSCORE or BYLEX";
        return Err(sentence.into());
    }
    if with_scores && by == By::Name {
        let sentence = "ERR syntax error, WITHSCORES not supported in combination with BYLEX";
        return Err(sentence.into());
    }
    Ok(Asked { by, reverse, ends, limit, with_scores })
}

fn range(call: &mut Call<'_, '_, '_>, by: Option<By>, reverse: Option<bool>) -> Outcome {
    let row = call.row(1)?;
    let asked = asked(call, (by, reverse), 2, false)?;
    asked.show(call, &row)
}

/// ZRANGE.
pub fn zrange(call: &mut Call<'_, '_, '_>) -> Outcome {
    range(call, None, None)
}

/// ZREVRANGE.
pub fn zrevrange(call: &mut Call<'_, '_, '_>) -> Outcome {
    range(call, Some(By::Rank), Some(true))
}

/// ZRANGEBYSCORE.
pub fn zrangebyscore(call: &mut Call<'_, '_, '_>) -> Outcome {
    range(call, Some(By::Score), Some(false))
}

/// ZREVRANGEBYSCORE.
pub fn zrevrangebyscore(call: &mut Call<'_, '_, '_>) -> Outcome {
    range(call, Some(By::Score), Some(true))
}

/// ZRANGEBYLEX.
pub fn zrangebylex(call: &mut Call<'_, '_, '_>) -> Outcome {
    range(call, Some(By::Name), Some(false))
}

/// ZREVRANGEBYLEX.
pub fn zrevrangebylex(call: &mut Call<'_, '_, '_>) -> Outcome {
    range(call, Some(By::Name), Some(true))
}

/// ZRANGESTORE.
pub fn zrangestore(call: &mut Call<'_, '_, '_>) -> Outcome {
    let (to, from) = (call.row(1)?, call.row(2)?);
    let asked = asked(call, (None, None), 3, true)?;
    let members = asked.members(call, &from)?;
    store(call, to, &members)?;
    call.reply.count(members.len());
    Ok(())
}

fn between<'a>(call: &Call<'a, '_, '_>, by: By) -> Asked<'a> {
    let ends = [call.args[2], call.args[3]];
    Asked { by, reverse: false, ends, limit: None, with_scores: false }
}

fn count(call: &mut Call<'_, '_, '_>, by: By) -> Outcome {
    let row = call.row(1)?;
    let count = match between(call, by).place(call, &row)? {
        Some(Place { part, ends, .. }) => match call.collection(&row, Kind::SortedSet)? {
            Some((_, set)) => ranks(call, &set, part, &ends).map(|[from, to]| to - from)?,
            None => 0,
        },
        None => 0,
    };
    call.reply.integer(count as i64);
    Ok(())
}

/// ZCOUNT.
pub fn zcount(call: &mut Call<'_, '_, '_>) -> Outcome {
    count(call, By::Score)
}

/// ZLEXCOUNT.
pub fn zlexcount(call: &mut Call<'_, '_, '_>) -> Outcome {
    count(call, By::Name)
}

fn remove(call: &mut Call<'_, '_, '_>, by: By) -> Outcome {
    let row = call.row(1)?;
    let members = between(call, by).members(call, &row)?;
    if !members.is_empty() {
        let mut set = SortedSet::open(call, row)?;
        members.iter().for_each(|(member, score)| set.remove(call.work, member, *score));
        set.close(call.work);
    }
    call.reply.count(members.len());
    Ok(())
}

/// ZREMRANGEBYRANK.
pub fn zremrangebyrank(call: &mut Call<'_, '_, '_>) -> Outcome {
    remove(call, By::Rank)
}

/// ZREMRANGEBYSCORE.
pub fn zremrangebyscore(call: &mut Call<'_, '_, '_>) -> Outcome {
    remove(call, By::Score)
}

/// ZREMRANGEBYLEX.
pub fn zremrangebylex(call: &mut Call<'_, '_, '_>) -> Outcome {
    remove(call, By::Name)
}
