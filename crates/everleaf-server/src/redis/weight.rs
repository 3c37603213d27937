//! Requests that take long, by the members that they read: they are left to a thread that no other
//! connection waits for.

use super::call::is;
use super::parse::Parser;
use super::session::Session;
use super::table::{Named, find};
use crate::data::{Work, key_row};

/// Members that are read in about ten milliseconds.
const MANY: u64 = 20_000;

/// Whether a command, of so many words, reads all of a collection, or writes much of it.
fn reads_all(name: &[u8], words: usize) -> bool {
    const ALWAYS: &[&str] = &[
        "COPY",
        "DUMP",
        "LINSERT",
        "LPOS",
        "LREM",
        "LTRIM",
        "MEMORY",
        "SDIFF",
        "SDIFFSTORE",
        "SINTER",
        "SINTERCARD",
        "SINTERSTORE",
        "SORT",
        "SORT_RO",
        "SUNION",
        "SUNIONSTORE",
        "ZDIFF",
        "ZDIFFSTORE",
        "ZINTER",
        "ZINTERCARD",
        "ZINTERSTORE",
        "ZRANGESTORE",
        "ZREMRANGEBYLEX",
        "ZREMRANGEBYRANK",
        "ZREMRANGEBYSCORE",
        "ZUNION",
        "ZUNIONSTORE",
    ];
    /// Those that do so with a count.
    const COUNTED: &[&str] = &[
        "BLMPOP",
        "BZMPOP",
        "HRANDFIELD",
        "LMPOP",
        "LPOP",
        "RPOP",
        "SPOP",
        "SRANDMEMBER",
        "ZMPOP",
        "ZPOPMAX",
        "ZPOPMIN",
        "ZRANDMEMBER",
    ];
    let named = |names: &[&str]| names.iter().any(|other| is(name, other));
    named(ALWAYS) || words > 2 && named(COUNTED)
}

impl Session {
    /// Whether the request at the front takes long: one of those that read all of a collection, of
    /// which there are many members, or a transaction that has such a one.
    pub(super) fn is_long(&self, parser: &Parser, input: &[u8]) -> bool {
        let name = parser.argument(input, 0);
        if !self.authenticated {
            return false;
        }
        match &self.queue {
            None if reads_all(name, parser.len()) => {
                let args: Vec<&[u8]> =
                    (0..parser.len()).map(|at| parser.argument(input, at)).collect();
                self.members_of(&args) > MANY
            }
            Some(queue) if is(name, "EXEC") => {
                let all = queue.requests().filter(|args| reads_all(&args[0], args.len()));
                let members = all.map(|args| {
                    let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
                    self.members_of(&args)
                });
                members.fold(0, u64::saturating_add) > MANY
            }
            _ => false,
        }
    }

    /// Members of the collections that a command names. What cannot be read is told by the command.
    fn members_of(&self, args: &[&[u8]]) -> u64 {
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
            let found = work.header(&key_row(self.database, key)).ok().flatten();
            found.and_then(|(_, collection)| collection).map_or(0, |collection| collection.members)
        };
        keys.iter().map(members).fold(0, u64::saturating_add)
    }
}
