//! Requests that take long, by the members that they read: they are left to a thread that no other
//! connection waits for.

use everleaf::DurabilityMode;
use smallvec::SmallVec;

use super::command::{Command, Named, Reads};
use super::session::Session;

use super::table::find;
use super::trimming::most_read;
use crate::data::{Work, key_row};
use crate::resp::argument::{is, slice};
use crate::resp::number::integer;
use crate::resp::parse::Parser;

/// Whether a command, of so many words, reads all of a collection, or writes much of it.
fn reads_all(command: &Command, words: usize) -> bool {
    match command.reads {
        Reads::Some => false,
        Reads::Counted => words > 2,
        Reads::All => true,
    }
}

/// The same within a transaction, where replies are made whole and all members are counted at once
/// that a rank needs.
fn reads_much(command: &Command, words: usize) -> bool {
    const WHOLE: &[&str] = &[
        "hgetall",
        "hkeys",
        "hrandfield",
        "hvals",
        "lindex",
        "lrange",
        "lset",
        "smembers",
        "spop",
        "srandmember",
        "zcount",
        "zlexcount",
        "zrandmember",
        "zrange",
        "zrangebylex",
        "zrangebyscore",
        "zrank",
        "zrevrange",
        "zrevrangebylex",
        "zrevrangebyscore",
        "zrevrank",
    ];
    reads_all(command, words) || WHOLE.contains(&command.name)
}

/// The most members that a range of ranks asks for, with what is skipped where ranks are counted;
/// for other commands there is no such number.
fn asked_for(args: &[&[u8]]) -> u64 {
    let by_rank = ["LRANGE", "ZRANGE", "ZREVRANGE"].iter().any(|name| is(args[0], name));
    match args {
        [_, _, from, to] | [_, _, from, to, _] if by_rank => {
            let ends = integer(from).zip(integer(to)).filter(|(from, to)| *from >= 0 && *to >= 0);
            // From the beginning: what lies before is skipped or counted.
            ends.map_or(u64::MAX, |(_, to)| slice(0, to, u64::MAX).end)
        }
        _ => u64::MAX,
    }
}

/// Bytes of a request that are written in about ten milliseconds.
const SHORT_BYTES: usize = 8 << 20;

/// Whether a command is one about streams.
const fn is_of_streams(name: &[u8]) -> bool {
    matches!(name, [b'X' | b'x', ..])
}

/// Whether a command may read many entries of a stream, with all that are pending, or remove many.
/// What is shown in parts is none of these, but in a transaction.
fn reads_stream(args: &[&[u8]], in_transaction: bool) -> bool {
    const SOME: &[&str] = &["XAUTOCLAIM", "XGROUP", "XINFO", "XPENDING", "XREADGROUP", "XTRIM"];
    const IN_PARTS: &[&str] = &["XRANGE", "XREAD", "XREVRANGE"];
    let name = args[0];
    let named = |names: &[&str]| names.iter().any(|other| is(name, other));
    // An id that is made behind no options: the entry is only added.
    let trims = || is(name, "XADD") && args.get(2).is_none_or(|arg| *arg != b"*");
    named(SOME) || in_transaction && named(IN_PARTS) || trims()
}

impl Session {
    /// Whether the request at the front takes long: one that reads all of a collection of which
    /// there are many members, or all keys, or names very many; or a transaction whose commands do
    /// so together.
    pub(super) fn is_long(
        &self,
        found: Option<&'static Command>,
        parser: &Parser,
        input: &[u8],
    ) -> bool {
        let name = parser.argument(input, 0);
        if !self.authenticated {
            return false;
        }
        let most = self.shared.options.limits.short_elements;
        if input.len() > SHORT_BYTES && self.queue.is_none() {
            let bytes = (0..parser.len()).map(|at| parser.argument(input, at).len());
            if bytes.sum::<usize>() > SHORT_BYTES {
                return true;
            }
        }
        match &self.queue {
            None if parser.len() as u64 > most => true,
            None if is(name, "KEYS") => self.keys() > most,
            None if is(name, "SWAPDB") => true,
            None if is(name, "WAIT") || is(name, "WAITAOF") => self.syncs_late(),
            None if found.is_some_and(|command| reads_all(command, parser.len()))
                || is_of_streams(name) =>
            {
                let args: SmallVec<[&[u8]; 8]> =
                    (0..parser.len()).map(|at| parser.argument(input, at)).collect();
                match is_of_streams(name) {
                    true => self.weight_of_stream(&args, false) > most,
                    false => self.members_of(&args) > most,
                }
            }
            Some(queue) if is(name, "EXEC") => {
                let mut weight = 0_u64;
                queue.requests().any(|args| {
                    weight = weight.saturating_add(self.weight_within(args));
                    weight > most
                })
            }
            _ => false,
        }
    }

    /// What a command of a transaction reads and writes: its words and what it reads of
    /// collections or of all keys.
    fn weight_within(&self, args: &[Vec<u8>]) -> u64 {
        let args: SmallVec<[&[u8]; 8]> = args.iter().map(Vec::as_slice).collect();
        self.weight_of(self.database, &args)
    }

    /// The same of a command in a database.
    pub(super) fn weight_of(&self, database: u8, args: &[&[u8]]) -> u64 {
        let (name, words) = (args[0], args.len() as u64);
        words.saturating_add(match name {
            _ if is_of_streams(name) => self.weight_of_stream(args, true),
            _ if find(name).is_some_and(|command| reads_much(command, args.len())) => {
                self.members_in(database, args).min(asked_for(args))
            }
            _ if is(name, "KEYS") => self.keys(),
            _ if is(name, "SWAPDB") => u64::MAX,
            _ if (is(name, "WAIT") || is(name, "WAITAOF")) && self.syncs_late() => u64::MAX,
            _ => 0,
        })
    }

    /// What a command reads of streams, or removes of them.
    fn weight_of_stream(&self, args: &[&[u8]], in_transaction: bool) -> u64 {
        match reads_stream(args, in_transaction) {
            true => most_read(args, || self.members_of(args)),
            false => 0,
        }
    }

    /// Keys of the database; many while they are not counted.
    fn keys(&self) -> u64 {
        self.shared.data.keys_of(self.database).unwrap_or(u64::MAX)
    }

    /// Whether a write may be replied to that is not durable: then WAIT waits for a sync.
    fn syncs_late(&self) -> bool {
        let mode = self.shared.data.durability_mode();
        matches!(mode, DurabilityMode::Buffered { .. })
    }

    /// Members of the collections that a command names. What cannot be read is told by the command.
    fn members_of(&self, args: &[&[u8]]) -> u64 {
        self.members_in(self.database, args)
    }

    fn members_in(&self, database: u8, args: &[&[u8]]) -> u64 {
        let Some(command) = find(args[0]) else { return 0 };
        let keys = match command.keys.of(args) {
            Named::Keys(keys) => keys,
            // SORT that looks at other keys.
            Named::Everything => args.iter().skip(1).take(1).copied().collect(),
            Named::Nothing => return 0,
        };
        let data = &self.shared.data;
        let work = Work::new(data, data.now_ms());
        let members = |key: &&[u8]| {
            let found = work.header(&key_row(database, key)).ok().flatten();
            found.and_then(|(_, collection)| collection).map_or(0, |collection| collection.members)
        };
        keys.iter().map(members).fold(0, u64::saturating_add)
    }
}
