//! What there is to know of a command: its arguments, and which of them are keys.

use smallvec::SmallVec;

use super::sort_options;
use crate::resp::argument::is;
use crate::resp::number::integer;

/// Which arguments are keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// None.
    None,
    /// The first one.
    First,
    /// The first two.
    Two,
    /// All.
    All,
    /// Every other one.
    Pairs,
    /// All but the first one.
    Behind,
    /// All but the last one.
    Before,
    /// As many as the second argument says, behind it.
    TimedCounted,
    /// As many as the first argument says, behind it.
    Counted,
    /// The first one, and as many as the second argument says, behind that.
    StoreCounted,
    /// The second one, behind a second word of the command.
    Second,
    /// Those of XREAD: the first half of what follows STREAMS.
    Streams,
    /// Those of SORT: the first one and what is stored, or everything where others are looked up.
    Sort,
    /// The whole database.
    Everything,
}

/// Words of a request, without an allocation where they are few.
pub type Words<'a> = SmallVec<[&'a [u8]; 4]>;

/// What a request is about.
#[derive(Debug, PartialEq, Eq)]
pub enum Named<'a> {
    /// No key that it names.
    Nothing,
    /// These keys.
    Keys(Words<'a>),
    /// The whole database.
    Everything,
}

/// The keys behind a number that says how many there are.
fn counted<'a>(args: &[&'a [u8]]) -> Words<'a> {
    let count = args.first().and_then(|number| integer(number)).unwrap_or(0);
    let keys = args.iter().skip(1);
    keys.take(usize::try_from(count).unwrap_or(0)).copied().collect()
}

/// Where the keys begin, and what follows them; none: the options are wrong.
fn position(args: &[&[u8]]) -> Option<usize> {
    let mut at = 1;
    loop {
        match args.get(at)? {
            option if is(option, "STREAMS") => return Some(at + 1),
            option if is(option, "BLOCK") || is(option, "COUNT") => at += 2,
            option if is(option, "GROUP") => at += 3,
            option if is(option, "NOACK") => at += 1,
            _ => return None,
        }
    }
}

/// The keys of XREAD and XREADGROUP: the first half of what stands behind STREAMS.
fn streams<'s, 'a>(args: &'s [&'a [u8]]) -> &'s [&'a [u8]] {
    let streams = position(args).map_or(&[][..], |at| args.get(at..).unwrap_or_default());
    &streams[..streams.len() / 2]
}

impl Keys {
    /// The positions of the first and the last, and the step, as COMMAND tells them.
    pub const fn positions(self) -> (i64, i64, i64) {
        match self {
            Self::None | Self::Everything | Self::Counted | Self::TimedCounted => (0, 0, 0),
            Self::Second | Self::Streams => (0, 0, 0),
            Self::First | Self::StoreCounted | Self::Sort => (1, 1, 1),
            Self::Two => (1, 2, 1),
            Self::All => (1, -1, 1),
            Self::Pairs => (1, -1, 2),
            Self::Behind => (2, -1, 1),
            Self::Before => (1, -2, 1),
        }
    }

    /// The keys among the arguments.
    pub fn of<'a>(self, args: &[&'a [u8]]) -> Named<'a> {
        let rest = args.get(1..).unwrap_or_default();
        Named::Keys(match self {
            Self::None => return Named::Nothing,
            Self::Everything => return Named::Everything,
            Self::First => rest.iter().take(1).copied().collect(),
            Self::Two => rest.iter().take(2).copied().collect(),
            Self::All => rest.into(),
            Self::Pairs => rest.iter().step_by(2).copied().collect(),
            Self::Behind => rest.iter().skip(1).copied().collect(),
            Self::Before => rest.split_last().map_or(Words::new(), |(_, keys)| keys.into()),
            Self::Counted => counted(rest),
            Self::TimedCounted => counted(rest.get(1..).unwrap_or_default()),
            Self::StoreCounted => {
                let to = rest.iter().take(1).copied();
                to.chain(counted(rest.get(1..).unwrap_or_default())).collect()
            }
            Self::Second => rest.iter().skip(1).take(1).copied().collect(),
            Self::Streams => streams(args).into(),
            Self::Sort => match sort_options::keys(rest) {
                Some(keys) => keys.into(),
                None => return Named::Everything,
            },
        })
    }
}

/// A command of the table.
pub struct Command {
    /// Its name, in small letters.
    pub name: &'static str,
    /// Number of arguments with the name; negative: at least so many.
    pub arity: i8,
    /// Which arguments are keys.
    pub keys: Keys,
    /// Whether it may write.
    pub writes: bool,
    /// How much of a collection it reads or writes.
    pub reads: Reads,
}

/// How much of a collection a command reads, or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// What its words name.
    Some,
    /// All, where it has a count.
    Counted,
    /// All.
    All,
}

impl Reads {
    /// That of a name in small letters.
    pub const fn of(name: &str) -> Self {
        const ALL: &[&str] = &[
            "copy",
            "dump",
            "linsert",
            "lpos",
            "lrem",
            "ltrim",
            "memory",
            "sdiff",
            "sdiffstore",
            "sinter",
            "sintercard",
            "sinterstore",
            "sort",
            "sort_ro",
            "sunion",
            "sunionstore",
            "zdiff",
            "zdiffstore",
            "zinter",
            "zintercard",
            "zinterstore",
            "zrangestore",
            "zremrangebylex",
            "zremrangebyrank",
            "zremrangebyscore",
            "zunion",
            "zunionstore",
        ];
        const COUNTED: &[&str] = &[
            "blmpop",
            "bzmpop",
            "hrandfield",
            "lmpop",
            "lpop",
            "rpop",
            "spop",
            "srandmember",
            "zmpop",
            "zpopmax",
            "zpopmin",
            "zrandmember",
        ];
        match name {
            _ if is_among(name, ALL) => Self::All,
            _ if is_among(name, COUNTED) => Self::Counted,
            _ => Self::Some,
        }
    }
}

/// Whether a name is one of these, for constants.
const fn is_among(name: &str, names: &[&str]) -> bool {
    let mut rest = names;
    while let [first, more @ ..] = rest {
        if first.as_bytes().eq_ignore_ascii_case(name.as_bytes()) {
            return true;
        }
        rest = more;
    }
    false
}

/// What there is to know of any command, also of one that is not in the table.
pub struct Known {
    /// In small letters; with a second word behind a bar.
    pub name: String,
    pub arity: i8,
    pub keys: Keys,
    pub writes: bool,
}

impl Command {
    /// Whether its second argument may say what is to be done: it is no key.
    pub const fn may_have_second_words(&self) -> bool {
        matches!(self.keys, Keys::None | Keys::Second)
    }

    /// Whether it may add something to the store, as Redis' flag `denyoom` says.
    pub fn needs_room(&self) -> bool {
        const WITHOUT: &[&str] = &[
            "blmpop",
            "blpop",
            "brpop",
            "bzmpop",
            "bzpopmax",
            "bzpopmin",
            "del",
            "expire",
            "expireat",
            "flushall",
            "flushdb",
            "getdel",
            "getex",
            "hdel",
            "lmpop",
            "lpop",
            "lrem",
            "ltrim",
            "move",
            "persist",
            "pexpire",
            "pexpireat",
            "rename",
            "renamenx",
            "rpop",
            "smove",
            "spop",
            "srem",
            "swapdb",
            "unlink",
            "xack",
            "xautoclaim",
            "xclaim",
            "xdel",
            "xreadgroup",
            "xtrim",
            "zmpop",
            "zpopmax",
            "zpopmin",
            "zrem",
            "zremrangebylex",
            "zremrangebyrank",
            "zremrangebyscore",
        ];
        self.writes && !self.is_script() && !WITHOUT.contains(&self.name)
    }

    /// Whether it is there only where the server is a node of a cluster.
    pub fn is_of_cluster(&self) -> bool {
        let names = ["asking", "cluster", "readonly", "readwrite", "sentinel"];
        self.keys == Keys::None && names.contains(&self.name)
    }

    /// Whether it runs others, of which each is told.
    pub fn is_script(&self) -> bool {
        matches!(self.name, "eval" | "eval_ro" | "evalsha" | "evalsha_ro" | "fcall" | "fcall_ro")
    }
}

/// Whether a command of this arity may have so many arguments, its name included.
pub fn takes(arity: i8, arguments: usize) -> bool {
    let needed = usize::from(arity.unsigned_abs());
    if arity < 0 { arguments >= needed } else { arguments == needed }
}
