//! The options of XADD and XTRIM: which id a new entry gets, and which entries go.

use super::failure::{Failure, NOT_INTEGER, Outcome, SYNTAX};
use super::stream_ids::{count, id, read};
use crate::data::Id;
use crate::resp::argument::is;
use crate::resp::number::integer;

const TWO_TRIMS: &str =
    "ERR syntax error, MAXLEN and MINID options at the same time are not compatible";
/// How many nodes of Redis are trimmed at a time where that may be approximate.
pub const NODES: u64 = 100;

/// What decides which entries go.
#[derive(Clone, Copy)]
pub enum By {
    /// So many stay.
    Length(u64),
    /// Those with lesser ids go.
    Id(Id),
}

/// What is trimmed.
#[derive(Clone, Copy)]
pub struct Trim {
    /// What goes.
    pub by: By,
    /// Where that may be approximate: entries go by so many.
    node: Option<u64>,
    /// No more go.
    pub limit: Option<u64>,
}

impl Trim {
    /// How many go of those that may, where the stream has `length` and `gone` went before.
    pub fn rounded(&self, most: u64, (length, gone): (u64, u64)) -> u64 {
        let most = most.min(self.limit.unwrap_or(u64::MAX));
        match self.node {
            // The last node may have fewer.
            Some(node) if most < length => {
                (gone.saturating_add(most) / node * node).saturating_sub(gone)
            }
            _ => most,
        }
    }
}

/// The id that a new entry is to have.
#[derive(Clone, Copy, PartialEq)]
pub enum Wanted {
    /// The time.
    Any,
    /// Any of these milliseconds.
    Of(u64),
    /// This one.
    This(Id),
}

impl Wanted {
    fn read(arg: &[u8]) -> Outcome<Self> {
        match read(arg) {
            Some((ms, Some("*"))) => Ok(Self::Of(ms)),
            _ => Ok(Self::This(id(arg, 0)?)),
        }
    }

    /// The id behind `last`; none: there is none.
    pub fn behind(self, last: Id, now_ms: u64) -> Option<Id> {
        let id = match self {
            Self::Any if now_ms > last.ms() => Id::new(now_ms, 0),
            Self::Any => last.next()?,
            Self::Of(ms) if ms == last.ms() => last.next().filter(|id| id.ms() == ms)?,
            Self::Of(ms) => Id::new(ms, 0),
            Self::This(id) => id,
        };
        (id > last).then_some(id)
    }
}

/// The options of XADD and XTRIM.
pub struct Options {
    /// The id of the entry.
    pub wanted: Wanted,
    /// No stream is made.
    pub only_present: bool,
    /// What goes.
    pub trim: Option<Trim>,
}

/// Reads the options, and where the fields of an entry begin. `node` is how many entries go at a
/// time where that may be approximate.
pub fn options(args: &[&[u8]], node: u64) -> Outcome<(Options, usize)> {
    let adds = is(args[0], "XADD");
    let mut options = Options { wanted: Wanted::Any, only_present: false, trim: None };
    let (mut limit, mut is_exact, mut at) = (None, true, 2);
    while at < args.len() {
        let valued = at + 1 < args.len();
        match args[at] {
            b"*" if adds => break,
            o if (is(o, "MAXLEN") || is(o, "MINID")) && valued => {
                if options.trim.is_some() {
                    return Err(TWO_TRIMS.into());
                }
                at += 1;
                let is_signed = matches!(args[at], b"~" | b"=") && at + 1 < args.len();
                is_exact = !(is_signed && args[at] == b"~");
                at += usize::from(is_signed);
                let by = if is(o, "MINID") { By::Id(id(args[at], 0)?) } else { length(args[at])? };
                options.trim = Some(Trim { by, node: None, limit: None });
            }
            o if is(o, "LIMIT") && valued => {
                at += 1;
                limit = Some(integer(args[at]).ok_or(Failure::Said(NOT_INTEGER))?);
                if limit < Some(0) {
                    return Err("ERR The LIMIT argument must be >= 0.".into());
                }
            }
            o if adds && is(o, "NOMKSTREAM") => options.only_present = true,
            o if adds => {
                options.wanted = Wanted::read(o)?;
                break;
            }
            _ => return Err(SYNTAX.into()),
        }
        at += 1;
    }
    let is_limited = limit.is_some_and(|limit| limit > 0);
    match &mut options.trim {
        None if is_limited => {
            let sentence =
                "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy";
            return Err(sentence.into());
        }
        None if adds && limit.is_none() => {}
        None if !adds => {
            let sentence = "ERR syntax error, XTRIM must be called with a trimming strategy";
            return Err(sentence.into());
        }
        Some(_) if is_exact && limit.is_none() => {}
        _ if is_exact => {
            let sentence = "ERR syntax error, LIMIT cannot be used without the special ~ option";
            return Err(sentence.into());
        }
        None => {}
        Some(trim) => {
            trim.node = Some(node);
            let limit = limit.map_or(NODES.saturating_mul(node).min(1_000_000), i64::unsigned_abs);
            trim.limit = (limit > 0).then_some(limit);
        }
    }
    Ok((options, at + 1))
}

fn length(arg: &[u8]) -> Outcome<By> {
    match integer(arg) {
        None => Err(NOT_INTEGER.into()),
        Some(length) if length < 0 => Err("ERR The MAXLEN argument must be >= 0.".into()),
        Some(length) => Ok(By::Length(length.unsigned_abs())),
    }
}

/// The most entries that a command about a stream reads or removes, if the stream has `length`. It
/// is asked for the length only where the command does not say how many.
pub fn most_read(args: &[&[u8]], length: impl FnOnce() -> u64) -> u64 {
    /// Pending entries that XAUTOCLAIM looks at for each that it claims.
    const LOOKED_AT: u64 = 10;
    let number = |at: usize| args.get(at).and_then(|arg| count(arg).ok());
    let named = || args.iter().position(|arg| is(arg, "COUNT")).and_then(|at| number(at + 1));
    match args[0] {
        name if is(name, "XADD") || is(name, "XTRIM") => {
            let Some(trim) = options(args, NODES).ok().and_then(|(options, _)| options.trim) else {
                return 0;
            };
            let most = match trim.by {
                By::Length(kept) => length().saturating_sub(kept),
                By::Id(_) => length(),
            };
            most.min(trim.limit.unwrap_or(u64::MAX))
        }
        name if is(name, "XAUTOCLAIM") => named().unwrap_or(NODES).saturating_mul(LOOKED_AT),
        name if is(name, "XPENDING") => {
            let is_idle = args.get(3).is_some_and(|arg| is(arg, "IDLE"));
            number(if is_idle { 7 } else { 5 }).unwrap_or(0)
        }
        name if is(name, "XGROUP") => length(),
        name if is(name, "XINFO") && args.len() < 4 => 0,
        _ => named().filter(|most| *most > 0).unwrap_or_else(length),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_approximate_goes_by_whole_nodes() {
        let trim = |node, limit| Trim { by: By::Length(0), node, limit };
        for (trim, most, nodes, goes) in [
            (trim(None, None), 5, (9, 7), 5),
            (trim(Some(100), None), 99, (1000, 0), 0),
            (trim(Some(100), None), 250, (1000, 0), 200),
            (trim(Some(100), None), 250, (250, 0), 250),
            (trim(Some(100), None), 111, (555, 445), 55),
            (trim(Some(100), None), 54, (555, 445), 0),
            (trim(Some(100), Some(220)), 250, (250, 0), 200),
            (trim(Some(100), Some(100)), 950, (1000, 0), 100),
            (trim(Some(1), Some(100)), 101, (102, 0), 100),
            (trim(Some(100), Some(1)), 3, (3, 0), 0),
        ] {
            assert_eq!(trim.rounded(most, nodes), goes, "{most} of {nodes:?}");
        }
    }
}
