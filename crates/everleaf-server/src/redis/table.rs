//! The commands that there are, and COMMAND, which tells them.

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

use super::call::Call;
use super::command::{Command, Keys, Known, Reads};
use super::failure::Outcome;
use super::names;
use super::{
    algebra, backup, bitfield, bits, blocking, cluster, common_part, describing, dump, functions,
    groups, hashes, info, keys, latency, lists, pending, pubsub, random, ranges, reading, roles,
    scanning, scripting, sentinel, server, sets, settings, slowlog, sorted_sets, sorting,
    stream_info, streams, strings, swapping,
};

/// What does a command.
pub type Run = fn(&mut Call<'_, '_, '_>) -> Outcome;

macro_rules! commands {
    ($($name:literal $arity:literal $keys:ident $writes:literal $run:path;)*) => {
        /// All of them, by name.
        pub static COMMANDS: &[Command] = &[$(
            Command {
                name: $name,
                arity: $arity,
                keys: Keys::$keys,
                writes: $writes,
                reads: Reads::of($name),
            },
        )*];

        /// What does each, in the same order.
        static RUNS: &[Run] = &[$($run),*];
    };
}

commands! {
    "acl" -2 None false roles::acl;
    "append" 3 First true strings::append;
    "asking" 1 None false cluster::accept;
    "bgsave" -1 None false backup::bgsave;
    "bitcount" -2 First false bits::bitcount;
    "bitfield" -2 First true bitfield::bitfield;
    "bitfield_ro" -2 First false bitfield::bitfield_ro;
    "bitop" -4 Behind true bits::bitop;
    "bitpos" -3 First false bits::bitpos;
    "blmove" 6 Two true blocking::blmove;
    "blmpop" -5 TimedCounted true blocking::blmpop;
    "blpop" -3 Before true blocking::blpop;
    "brpop" -3 Before true blocking::brpop;
    "brpoplpush" 4 Two true blocking::brpoplpush;
    "bzmpop" -5 TimedCounted true blocking::bzmpop;
    "bzpopmax" -3 Before true blocking::bzpopmax;
    "bzpopmin" -3 Before true blocking::bzpopmin;
    "cluster" -2 None false cluster::cluster;
    "command" -1 None false describing::command;
    "config" -2 None false settings::config;
    "copy" -3 Two true keys::copy;
    "dbsize" 1 None false server::dbsize;
    "decr" 2 First true strings::decr;
    "decrby" 3 First true strings::decrby;
    "del" -2 All true keys::del;
    "dump" 2 First false dump::dump;
    "echo" 2 None false server::echo;
    "eval" -3 TimedCounted true scripting::eval;
    "eval_ro" -3 TimedCounted false scripting::eval_ro;
    "evalsha" -3 TimedCounted true scripting::evalsha;
    "evalsha_ro" -3 TimedCounted false scripting::evalsha_ro;
    "exists" -2 All false keys::exists;
    "expire" -3 First true keys::expire_in;
    "expireat" -3 First true keys::expire_at;
    "expiretime" 2 First false keys::expiretime;
    "failover" -1 None false roles::failover;
    "fcall" -3 TimedCounted true functions::fcall;
    "fcall_ro" -3 TimedCounted false functions::fcall_ro;
    "flushall" -1 Everything true server::flushall;
    "flushdb" -1 Everything true server::flushdb;
    "function" -2 None false functions::function;
    "get" 2 First false strings::get;
    "getbit" 3 First false bits::getbit;
    "getdel" 2 First true strings::getdel;
    "getex" -2 First true strings::getex;
    "getrange" 4 First false strings::getrange;
    "getset" 3 First true strings::getset;
    "hdel" -3 First true hashes::hdel;
    "hexists" 3 First false hashes::hexists;
    "hget" 3 First false hashes::hget;
    "hgetall" 2 First false hashes::hgetall;
    "hincrby" 4 First true hashes::hincrby;
    "hincrbyfloat" 4 First true hashes::hincrbyfloat;
    "hkeys" 2 First false hashes::hkeys;
    "hlen" 2 First false hashes::hlen;
    "hmget" -3 First false hashes::hmget;
    "hmset" -4 First true hashes::hmset;
    "hrandfield" -2 First false random::hrandfield;
    "hscan" -3 First false scanning::hscan;
    "hset" -4 First true hashes::hset;
    "hsetnx" 4 First true hashes::hsetnx;
    "hstrlen" 3 First false hashes::hstrlen;
    "hvals" 2 First false hashes::hvals;
    "incr" 2 First true strings::incr;
    "incrby" 3 First true strings::incrby;
    "incrbyfloat" 3 First true strings::incrbyfloat;
    "info" -1 None false info::info;
    "keys" 2 None false scanning::keys;
    "lastsave" 1 None false backup::lastsave;
    "latency" -2 None false latency::latency;
    "lcs" -3 Two false common_part::lcs;
    "lindex" 3 First false lists::lindex;
    "linsert" 5 First true lists::linsert;
    "llen" 2 First false lists::llen;
    "lmove" 5 Two true lists::lmove;
    "lmpop" -4 Counted true lists::lmpop;
    "lolwut" -1 None false roles::lolwut;
    "lpop" -2 First true lists::lpop;
    "lpos" -3 First false lists::lpos;
    "lpush" -3 First true lists::lpush;
    "lpushx" -3 First true lists::lpushx;
    "lrange" 4 First false lists::lrange;
    "lrem" 4 First true lists::lrem;
    "lset" 4 First true lists::lset;
    "ltrim" 4 First true lists::ltrim;
    "memory" -2 None false dump::memory;
    "mget" -2 All false strings::mget;
    "module" -2 None false roles::module;
    "move" 3 First true keys::move_to;
    "mset" -3 Pairs true strings::mset;
    "msetnx" -3 Pairs true strings::msetnx;
    "object" -2 None false keys::object;
    "persist" 2 First true keys::persist;
    "pexpire" -3 First true keys::pexpire_in;
    "pexpireat" -3 First true keys::pexpire_at;
    "pexpiretime" 2 First false keys::pexpiretime;
    "psetex" 4 First true strings::psetex;
    "pttl" 2 First false keys::pttl;
    "pubsub" -2 None false pubsub::pubsub;
    "randomkey" 1 None false scanning::randomkey;
    "readonly" 1 None false cluster::accept;
    "readwrite" 1 None false cluster::accept;
    "rename" 3 Two true keys::rename;
    "renamenx" 3 Two true keys::renamenx;
    "restore" -4 First true dump::restore;
    "role" 1 None false roles::role;
    "rpop" -2 First true lists::rpop;
    "rpoplpush" 3 Two true lists::rpoplpush;
    "rpush" -3 First true lists::rpush;
    "rpushx" -3 First true lists::rpushx;
    "sadd" -3 First true sets::sadd;
    "save" 1 None false backup::save;
    "scan" -2 None false scanning::scan;
    "scard" 2 First false sets::scard;
    "script" -2 None false scripting::script;
    "sdiff" -2 All false sets::sdiff;
    "sdiffstore" -3 All true sets::sdiffstore;
    "sentinel" -2 None false sentinel::sentinel;
    "set" -3 First true strings::set;
    "setbit" 4 First true bits::setbit;
    "setex" 4 First true strings::setex;
    "setnx" 3 First true strings::setnx;
    "setrange" 4 First true strings::setrange;
    "shutdown" -1 None false server::shutdown;
    "sinter" -2 All false sets::sinter;
    "sintercard" -3 Counted false sets::sintercard;
    "sinterstore" -3 All true sets::sinterstore;
    "sismember" 3 First false sets::sismember;
    "slowlog" -2 None false slowlog::slowlog;
    "smembers" 2 First false sets::smembers;
    "smismember" -3 First false sets::smismember;
    "smove" 4 Two true sets::smove;
    "sort" -2 Sort true sorting::sort;
    "sort_ro" -2 Sort false sorting::sort_ro;
    "spop" -2 First true sets::spop;
    "srandmember" -2 First false random::srandmember;
    "srem" -3 First true sets::srem;
    "sscan" -3 First false scanning::sscan;
    "strlen" 2 First false strings::strlen;
    "substr" 4 First false strings::getrange;
    "sunion" -2 All false sets::sunion;
    "sunionstore" -3 All true sets::sunionstore;
    "swapdb" 3 Everything true swapping::swapdb;
    "time" 1 None false server::time;
    "touch" -2 All false keys::exists;
    "ttl" 2 First false keys::ttl;
    "type" 2 First false keys::type_of;
    "unlink" -2 All true keys::del;
    "wait" 3 None false server::wait;
    "waitaof" 4 None false server::waitaof;
    "xack" -4 First true groups::xack;
    "xadd" -5 First true streams::xadd;
    "xautoclaim" -6 First true pending::xautoclaim;
    "xclaim" -6 First true pending::xclaim;
    "xdel" -3 First true streams::xdel;
    "xgroup" -2 Second true groups::xgroup;
    "xinfo" -2 Second false stream_info::xinfo;
    "xlen" 2 First false streams::xlen;
    "xpending" -3 First false pending::xpending;
    "xrange" -4 First false streams::xrange;
    "xread" -4 Streams false reading::xread;
    "xreadgroup" -7 Streams true reading::xreadgroup;
    "xrevrange" -4 First false streams::xrevrange;
    "xsetid" -3 First true streams::xsetid;
    "xtrim" -4 First true streams::xtrim;
    "zadd" -4 First true sorted_sets::zadd;
    "zcard" 2 First false sorted_sets::zcard;
    "zcount" 4 First false ranges::zcount;
    "zdiff" -3 Counted false algebra::zdiff;
    "zdiffstore" -4 StoreCounted true algebra::zdiffstore;
    "zincrby" 4 First true sorted_sets::zincrby;
    "zinter" -3 Counted false algebra::zinter;
    "zintercard" -3 Counted false algebra::zintercard;
    "zinterstore" -4 StoreCounted true algebra::zinterstore;
    "zlexcount" 4 First false ranges::zlexcount;
    "zmpop" -4 Counted true sorted_sets::zmpop;
    "zmscore" -3 First false sorted_sets::zmscore;
    "zpopmax" -2 First true sorted_sets::zpopmax;
    "zpopmin" -2 First true sorted_sets::zpopmin;
    "zrandmember" -2 First false random::zrandmember;
    "zrange" -4 First false ranges::zrange;
    "zrangebylex" -4 First false ranges::zrangebylex;
    "zrangebyscore" -4 First false ranges::zrangebyscore;
    "zrangestore" -5 Two true ranges::zrangestore;
    "zrank" -3 First false sorted_sets::zrank;
    "zrem" -3 First true sorted_sets::zrem;
    "zremrangebylex" 4 First true ranges::zremrangebylex;
    "zremrangebyrank" 4 First true ranges::zremrangebyrank;
    "zremrangebyscore" 4 First true ranges::zremrangebyscore;
    "zrevrange" -4 First false ranges::zrevrange;
    "zrevrangebylex" -4 First false ranges::zrevrangebylex;
    "zrevrangebyscore" -4 First false ranges::zrevrangebyscore;
    "zrevrank" -3 First false sorted_sets::zrevrank;
    "zscan" -3 First false scanning::zscan;
    "zscore" 3 First false sorted_sets::zscore;
    "zunion" -3 Counted false algebra::zunion;
    "zunionstore" -4 StoreCounted true algebra::zunionstore;
}

/// What does a command of the table; there are no others, and one would be refused.
pub fn run_of(command: &'static Command) -> Run {
    let refuse: Run = |_| Err("ERR unknown command".into());
    COMMANDS.element_offset(command).map_or(refuse, |at| RUNS[at])
}

/// The command of a name, in any case.
pub fn find(name: &[u8]) -> Option<&'static Command> {
    const LONGEST: usize = 20;
    let mut small = [0; LONGEST];
    let small = small.get_mut(..name.len())?;
    small.copy_from_slice(name);
    small.make_ascii_lowercase();
    NAMES.get(&*small).copied()
}

/// The commands by name.
static NAMES: LazyLock<FxHashMap<&[u8], &Command>> =
    LazyLock::new(|| COMMANDS.iter().map(|command| (command.name.as_bytes(), command)).collect());

/// All commands, without second words.
pub fn all_commands() -> Vec<Known> {
    let known = COMMANDS.iter().map(|Command { name, arity, keys, writes, .. }| Known {
        name: (*name).to_owned(),
        arity: *arity,
        keys: *keys,
        writes: *writes,
    });
    let at_once = names::AT_ONCE.iter().map(|name| (*name, if *name == "WATCH" { -2 } else { 1 }));
    let others = names::CONNECTION.iter().copied().chain(at_once).map(|(name, arity)| Known {
        name: name.to_ascii_lowercase(),
        arity,
        keys: if name == "WATCH" { Keys::All } else { Keys::None },
        writes: false,
    });
    known.chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::super::command::Named;
    use super::*;

    #[test]
    fn commands_are_found_by_name() {
        assert!(COMMANDS.is_sorted_by_key(|command| command.name));
        for command in COMMANDS {
            let found = find(command.name.to_ascii_uppercase().as_bytes());
            assert_eq!(found.map(|found| found.name), Some(command.name));
        }
        assert!(find(b"evalx").is_none() && find(&[b'x'; 100]).is_none() && find(b"").is_none());
    }

    #[test]
    fn keys_are_found_among_the_arguments() {
        let keys = |line: &'static str| {
            let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            match find(args[0]).unwrap().keys.of(&args) {
                Named::Keys(keys) => keys.iter().map(|key| key[0] as char).collect::<String>(),
                other => format!("{other:?}"),
            }
        };
        for (line, found) in [
            ("zunion 2 a b WEIGHTS 1 2", "ab"),
            ("zunion 9 a b", "ab"),
            ("zunion -1 a b", ""),
            ("zunion x a b", ""),
            ("zunionstore d 2 a b AGGREGATE MIN", "dab"),
            ("eval s 2 a b v", "ab"),
            ("bitop AND d a b", "dab"),
            ("blpop a b 0", "ab"),
            ("blmpop 0 2 a b LEFT", "ab"),
            ("xread COUNT 1 STREAMS a b 0 0", "ab"),
            ("xread BLOCK 0 STREAMS STREAMS a 0 0", "Sa"),
            ("xread STREAMS a b 0", "a"),
            ("xread a b", ""),
            ("sort a", "a"),
            ("sort a BY nosort GET # DESC", "a"),
            ("sort a STORE x LIMIT 0 1 STORE d", "ad"),
            ("sort a BY w_*", "Everything"),
            ("sort a GET w_*->f STORE d", "Everything"),
            ("echo a", "Nothing"),
            ("flushall", "Everything"),
        ] {
            assert_eq!(keys(line), found, "{line}");
        }
    }
}
