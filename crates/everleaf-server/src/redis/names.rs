//! Names of commands that are not in the table, and second words of those that are.

use super::command::{Keys, Known, takes};
use super::failure::{Failure, Outcome, wrong_number};
use crate::resp::argument::is;

/// Commands about the connection, and numbers of arguments as the table has them. In a transaction
/// they wait for EXEC like the others.
pub const CONNECTION: &[(&str, i8)] = &[
    ("AUTH", -2),
    ("CLIENT", -2),
    ("HELLO", -1),
    ("MONITOR", 1),
    ("PING", -1),
    ("PSUBSCRIBE", -2),
    ("PUBLISH", 3),
    ("PUNSUBSCRIBE", -1),
    ("SELECT", 2),
    ("SUBSCRIBE", -2),
    ("UNSUBSCRIBE", -1),
    ("UNWATCH", 1),
];

/// What a client of RESP2 may ask for that has subscribed to something.
pub fn is_for_subscribers(name: &[u8]) -> bool {
    let words = ["PING", "PSUBSCRIBE", "PUNSUBSCRIBE", "QUIT", "RESET", "SUBSCRIBE", "UNSUBSCRIBE"];
    words.iter().any(|word| is(name, word))
}

/// Number of arguments of a command about the connection.
pub fn arity(name: &[u8]) -> Option<i8> {
    CONNECTION.iter().find(|(word, _)| is(name, word)).map(|(_, arity)| *arity)
}

/// What a transaction does not queue.
pub const AT_ONCE: &[&str] = &["MULTI", "EXEC", "DISCARD", "WATCH", "QUIT", "RESET"];

/// Whether a command is done at once, also in a transaction.
pub fn is_at_once(name: &[u8]) -> bool {
    AT_ONCE.iter().any(|word| is(name, word))
}

/// Whether a command tells numbers of keys.
pub fn tells_counts(name: &[u8]) -> bool {
    is(name, "DBSIZE") || is(name, "INFO")
}

/// Under which other names requests are counted: what waits for EXEC, and what there is not.
pub const OTHERS: [&str; 2] = ["queued", "unknown"];

/// Whether a name under which requests are counted is that of a command, or of one with its second
/// word.
pub fn is_command(name: &str) -> bool {
    !OTHERS.contains(&name)
}

/// The second words of commands that have some, and numbers of arguments with both words.
pub const SUBCOMMANDS: &[(&str, &[(&str, i8)])] = &[
    (
        "acl",
        &[
            ("cat", -2),
            ("deluser", -3),
            ("getuser", 3),
            ("help", 2),
            ("list", 2),
            ("log", -2),
            ("setuser", -3),
            ("users", 2),
            ("whoami", 2),
        ],
    ),
    (
        "client",
        &[
            ("caching", 3),
            ("getname", 2),
            ("getredir", 2),
            ("help", 2),
            ("id", 2),
            ("info", 2),
            ("kill", -3),
            ("list", -2),
            ("no-evict", 3),
            ("no-touch", 3),
            ("pause", -3),
            ("reply", 3),
            ("setinfo", 4),
            ("setname", 3),
            ("tracking", -3),
            ("trackinginfo", 2),
            ("unblock", -3),
            ("unpause", 2),
        ],
    ),
    (
        "cluster",
        &[
            ("count-failure-reports", 3),
            ("countkeysinslot", 3),
            ("getkeysinslot", 4),
            ("help", 2),
            ("info", 2),
            ("keyslot", 3),
            ("links", 2),
            ("myid", 2),
            ("nodes", 2),
            ("shards", 2),
            ("slots", 2),
        ],
    ),
    (
        "command",
        &[
            ("count", 2),
            ("docs", -2),
            ("getkeys", -4),
            ("getkeysandflags", -4),
            ("help", 2),
            ("info", -2),
            ("list", -2),
        ],
    ),
    ("config", &[("get", -3), ("help", 2), ("resetstat", 2), ("rewrite", 2), ("set", -4)]),
    (
        "function",
        &[
            ("delete", 3),
            ("dump", 2),
            ("flush", -2),
            ("help", 2),
            ("kill", 2),
            ("list", -2),
            ("load", -3),
            ("restore", -3),
            ("stats", 2),
        ],
    ),
    (
        "latency",
        &[
            ("doctor", 2),
            ("graph", 3),
            ("help", 2),
            ("histogram", -2),
            ("history", 3),
            ("latest", 2),
            ("reset", -2),
        ],
    ),
    ("memory", &[("doctor", 2), ("help", 2), ("purge", 2), ("stats", 2), ("usage", -3)]),
    ("module", &[("help", 2), ("list", 2)]),
    ("object", &[("encoding", 3), ("freq", 3), ("help", 2), ("idletime", 3), ("refcount", 3)]),
    ("pubsub", &[("channels", -2), ("help", 2), ("numpat", 2), ("numsub", -2)]),
    (
        "script",
        &[("debug", 3), ("exists", -3), ("flush", -2), ("help", 2), ("kill", 2), ("load", 3)],
    ),
    (
        "sentinel",
        &[
            ("ckquorum", 3),
            ("get-master-addr-by-name", 3),
            ("help", 2),
            ("master", 3),
            ("masters", 2),
            ("myid", 2),
            ("replicas", 3),
            ("sentinels", 3),
            ("slaves", 3),
        ],
    ),
    ("slowlog", &[("get", -2), ("help", 2), ("len", 2), ("reset", 2)]),
    (
        "xgroup",
        &[
            ("create", -5),
            ("createconsumer", 5),
            ("delconsumer", 5),
            ("destroy", 4),
            ("help", 2),
            ("setid", -5),
        ],
    ),
    ("xinfo", &[("consumers", 4), ("groups", 3), ("help", 2), ("stream", -3)]),
];

/// The name of a command, with its second word if it has some. Refuses one that is not there, or
/// that has another number of arguments.
pub fn full_name(args: &[&[u8]]) -> Outcome<String> {
    let name = args.first().copied().unwrap_or_default();
    let small = || name.escape_ascii().to_string().to_ascii_lowercase();
    let Some(word) = args.get(1) else { return Ok(small()) };
    let found = SUBCOMMANDS.iter().find(|(command, _)| is(name, command));
    let Some((command, words)) = found else { return Ok(small()) };
    match words.iter().find(|(known, _)| is(word, known)) {
        Some((known, arity)) if takes(*arity, args.len()) => Ok(format!("{command}|{known}")),
        Some((known, _)) => Err(wrong_number(format!("{command}|{known}").as_bytes())),
        None => Err(Failure::Text(format!(
            "ERR unknown subcommand '{}'. Try {} HELP.",
            word.escape_ascii(),
            command.to_ascii_uppercase()
        ))),
    }
}

/// Whether a command has second words.
pub fn has_subcommands(name: &[u8]) -> bool {
    SUBCOMMANDS.iter().any(|(command, _)| is(name, command))
}

/// Their second words.
pub fn subcommands_of(name: &str) -> Vec<Known> {
    let found = SUBCOMMANDS.iter().find(|(command, _)| *command == name);
    let words = found.iter().flat_map(|(_, words)| words.iter());
    let known = words.map(|(word, arity)| Known {
        name: format!("{name}|{word}"),
        arity: *arity,
        keys: Keys::None,
        writes: false,
    });
    known.collect()
}
