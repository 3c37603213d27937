//! Groups of commands, as COMMAND and ACL tell them.

use super::command::{Keys, Known};

/// Categories of ACL.
pub const CATEGORIES: &[&str] = &[
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

/// Names by group, where the first letters do not tell it.
const NAMED: &[(&str, &[&str])] = &[
    ("cluster", &["asking", "cluster", "readonly", "readwrite"]),
    ("sentinel", &["sentinel"]),
    ("connection", &["auth", "client", "echo", "hello", "ping", "quit", "reset", "select"]),
    ("transactions", &["discard", "exec", "multi", "unwatch", "watch"]),
    ("pubsub", &["psubscribe", "publish", "pubsub", "punsubscribe", "subscribe", "unsubscribe"]),
    (
        "scripting",
        &["eval", "eval_ro", "evalsha", "evalsha_ro", "fcall", "fcall_ro", "function", "script"],
    ),
    (
        "server",
        &[
            "acl", "bgsave", "command", "config", "dbsize", "failover", "flushall", "flushdb",
            "info", "lastsave", "latency", "lolwut", "memory", "module", "monitor", "role", "save",
            "slowlog", "swapdb", "time",
        ],
    ),
    ("bitmap", &["getbit", "setbit"]),
    (
        "set",
        &[
            "sadd",
            "scard",
            "sdiff",
            "sdiffstore",
            "sinter",
            "sintercard",
            "sinterstore",
            "sismember",
            "smembers",
            "smismember",
            "smove",
            "spop",
            "srandmember",
            "srem",
            "sscan",
            "sunion",
            "sunionstore",
        ],
    ),
    (
        "list",
        &[
            "blmove",
            "blmpop",
            "blpop",
            "brpop",
            "brpoplpush",
            "lindex",
            "linsert",
            "llen",
            "lmove",
            "lmpop",
            "lpop",
            "lpos",
            "lpush",
            "lpushx",
            "lrange",
            "lrem",
            "lset",
            "ltrim",
            "rpop",
            "rpoplpush",
            "rpush",
            "rpushx",
        ],
    ),
    (
        "string",
        &[
            "append",
            "decr",
            "decrby",
            "get",
            "getdel",
            "getex",
            "getrange",
            "getset",
            "incr",
            "incrby",
            "incrbyfloat",
            "lcs",
            "mget",
            "mset",
            "msetnx",
            "psetex",
            "set",
            "setex",
            "setnx",
            "setrange",
            "strlen",
            "substr",
        ],
    ),
];

/// The group of a command, by its name in small letters.
pub fn group(name: &str) -> &'static str {
    let short = name.split('|').next().unwrap_or_default();
    if let Some((group, _)) = NAMED.iter().find(|(_, names)| names.contains(&short)) {
        return group;
    }
    let fronts = [
        ("bit", "bitmap"),
        ("geo", "geo"),
        ("pf", "hyperloglog"),
        ("bz", "sorted-set"),
        ("z", "sorted-set"),
        ("x", "stream"),
        ("h", "hash"),
    ];
    let found = fronts.iter().find(|(front, _)| short.starts_with(front));
    found.map_or("generic", |(_, group)| group)
}

/// The categories of ACL that a command is in.
pub fn categories(command: &Known) -> Vec<&'static str> {
    let group = group(&command.name);
    let own = match group {
        "sorted-set" => "sortedset",
        "transactions" => "transaction",
        "generic" => "keyspace",
        "server" | "cluster" | "sentinel" => "dangerous",
        group => group,
    };
    let access = match command.keys {
        _ if command.writes => Some("write"),
        Keys::None | Keys::Everything => None,
        _ => Some("read"),
    };
    let admin = ["acl", "bgsave", "config", "failover", "latency", "module", "monitor", "save"];
    let is_admin = admin.iter().chain(&["slowlog"]).any(|name| {
        command.name.split('|').next() == Some(name) && !command.name.ends_with("|help")
    });
    let blocks = command.name.starts_with("bl")
        || command.name.starts_with("br")
        || command.name.starts_with("bz");
    let mut all = vec![own];
    all.extend(access);
    all.extend(is_admin.then_some("admin"));
    all.extend(blocks.then_some("blocking"));
    all
}
