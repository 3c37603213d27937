//! What the keys that a command has written are notified as: by the name of the command, and by
//! what became of each key.

use super::command::{Command, Named};
use super::failure::Outcome;
use super::session::Session;
use crate::data::{Change, Work, key_of, key_row};
use crate::resp::argument::is;
use crate::shared::{Classes, Event};

/// Events of commands that have one, and their classes.
const EVENTS: &[(&str, u8, &str)] = &[
    ("append", b'$', "append"),
    ("bitfield", b'$', "setbit"),
    ("bitop", b'$', "set"),
    ("blmove", b'l', ""),
    ("blpop", b'l', "lpop"),
    ("brpop", b'l', "rpop"),
    ("brpoplpush", b'l', ""),
    ("bzpopmax", b'z', "zpopmax"),
    ("bzpopmin", b'z', "zpopmin"),
    ("copy", b'g', "copy_to"),
    ("decr", b'$', "incrby"),
    ("decrby", b'$', "incrby"),
    ("expire", b'g', "expire"),
    ("expireat", b'g', "expire"),
    ("geoadd", b'z', "zadd"),
    ("geosearchstore", b'z', "geosearchstore"),
    ("getset", b'$', "set"),
    ("hdel", b'h', "hdel"),
    ("hincrby", b'h', "hincrby"),
    ("hincrbyfloat", b'h', "hincrbyfloat"),
    ("hmset", b'h', "hset"),
    ("hset", b'h', "hset"),
    ("hsetnx", b'h', "hset"),
    ("incr", b'$', "incrby"),
    ("incrby", b'$', "incrby"),
    ("incrbyfloat", b'$', "incrbyfloat"),
    ("linsert", b'l', "linsert"),
    ("lpop", b'l', "lpop"),
    ("lpush", b'l', "lpush"),
    ("lpushx", b'l', "lpush"),
    ("lrem", b'l', "lrem"),
    ("lset", b'l', "lset"),
    ("ltrim", b'l', "ltrim"),
    ("mset", b'$', "set"),
    ("msetnx", b'$', "set"),
    ("persist", b'g', "persist"),
    ("pexpire", b'g', "expire"),
    ("pexpireat", b'g', "expire"),
    ("pfadd", b'$', "pfadd"),
    ("pfmerge", b'$', "pfadd"),
    ("psetex", b'$', "set"),
    ("restore", b'g', "restore"),
    ("rpop", b'l', "rpop"),
    ("rpush", b'l', "rpush"),
    ("rpushx", b'l', "rpush"),
    ("sadd", b's', "sadd"),
    ("sdiffstore", b's', "sdiffstore"),
    ("set", b'$', "set"),
    ("setbit", b'$', "setbit"),
    ("setex", b'$', "set"),
    ("setnx", b'$', "set"),
    ("setrange", b'$', "setrange"),
    ("sinterstore", b's', "sinterstore"),
    ("sort", b'l', "sortstore"),
    ("spop", b's', "spop"),
    ("srem", b's', "srem"),
    ("sunionstore", b's', "sunionstore"),
    ("xadd", b't', "xadd"),
    ("xdel", b't', "xdel"),
    ("xsetid", b't', "xsetid"),
    ("xtrim", b't', "xtrim"),
    ("zadd", b'z', "zadd"),
    ("zdiffstore", b'z', "zdiffstore"),
    ("zincrby", b'z', "zincr"),
    ("zinterstore", b'z', "zinterstore"),
    ("zpopmax", b'z', "zpopmax"),
    ("zpopmin", b'z', "zpopmin"),
    ("zrangestore", b'z', "zrangestore"),
    ("zrem", b'z', "zrem"),
    ("zremrangebylex", b'z', "zremrangebylex"),
    ("zremrangebyrank", b'z', "zremrangebyrank"),
    ("zremrangebyscore", b'z', "zremrangebyscore"),
    ("zunionstore", b'z', "zunionstore"),
];

/// Commands that store a result under a key, of which nothing is left where there is none.
const STORES: &[&str] = &[
    "bitop",
    "geosearchstore",
    "sdiffstore",
    "sinterstore",
    "sort",
    "sunionstore",
    "zdiffstore",
    "zinterstore",
    "zrangestore",
    "zunionstore",
];

/// What happens to one key of a command.
type Happening = (u8, &'static str);

/// Of pops by a word that says the end.
fn by_end(args: &[&[u8]], first: (&str, Happening), other: Happening) -> Happening {
    if args.iter().any(|arg| is(arg, first.0)) { first.1 } else { other }
}

/// What happens to a key.
fn happening(name: &str, args: &[&[u8]], change: &Change) -> Option<Happening> {
    let is_first = args.get(1).copied() == key_of(&change.row).map(|(_, key)| key);
    Some(match name {
        "getex" => {
            let persists = args.iter().skip(2).any(|arg| is(arg, "PERSIST"));
            (b'g', if persists { "persist" } else { "expire" })
        }
        "lmpop" | "blmpop" => by_end(args, ("LEFT", (b'l', "lpop")), (b'l', "rpop")),
        "zmpop" | "bzmpop" => by_end(args, ("MIN", (b'z', "zpopmin")), (b'z', "zpopmax")),
        "smove" => (b's', if is_first { "srem" } else { "sadd" }),
        "zadd" if args.iter().skip(2).any(|arg| is(arg, "INCR")) => (b'z', "zincr"),
        name => EVENTS.iter().find(|(known, ..)| *known == name).map(|(_, c, e)| (*c, *e))?,
    })
}

/// The ends of a move of one element: what happens to where it goes, and to where it was.
fn ends(name: &str, args: &[&[u8]]) -> Option<[Happening; 2]> {
    let left = |at: usize| args.get(at).is_some_and(|arg| is(arg, "LEFT"));
    let (from_left, to_left) = match name {
        "rpoplpush" | "brpoplpush" => (false, true),
        "lmove" | "blmove" => (left(3), left(4)),
        _ => return None,
    };
    let push = if to_left { "lpush" } else { "rpush" };
    Some([(b'l', push), (b'l', if from_left { "lpop" } else { "rpop" })])
}

/// Events that grow.
struct Events(Vec<Event>);

impl Events {
    fn add(&mut self, (class, name): Happening, change: &Change) {
        self.0.push(Event { class, name, row: change.row.clone() });
    }

    /// What is the same for all commands: what becomes of the key itself.
    fn around(&mut self, change: &Change, happenings: &[Happening]) {
        if change.had_expired {
            self.add((b'x', "expired"), change);
        }
        if !change.was && change.is {
            self.add((b'n', "new"), change);
        }
        happenings.iter().for_each(|happening| self.add(*happening, change));
        if change.was && !change.is {
            self.add((b'g', "del"), change);
        }
    }
}

/// The events of a command, of these changes.
fn events(name: &str, args: &[&[u8]], mut changes: Vec<Change>) -> Vec<Event> {
    let mut events = Events(Vec::new());
    let place = |change: &Change| {
        let key = key_of(&change.row).map(|(_, key)| key);
        args.iter().position(|arg| Some(*arg) == key)
    };
    changes.sort_by_key(place);
    if name == "swapdb" {
        return Vec::new(); // Of this nothing is told.
    }
    if let Some([push, pop]) = ends(name, args) {
        // Where it goes is told first.
        changes.reverse();
        let is_one = changes.len() == 1;
        for change in &changes {
            let key = key_of(&change.row).map(|(_, key)| key);
            match (is_one, args.get(1).copied() == key) {
                (true, _) => events.around(change, &[push, pop]),
                (false, true) => events.around(change, &[pop]),
                (false, false) => events.around(change, &[push]),
            }
        }
        return events.0;
    }
    if matches!(name, "rename" | "renamenx" | "move") {
        let (to, from): (Vec<_>, Vec<_>) = changes.iter().partition(|change| change.is);
        let words =
            if name == "move" { ["move_from", "move_to"] } else { ["rename_from", "rename_to"] };
        if let ([from], [to]) = (&from[..], &to[..]) {
            events.add((b'n', "new"), to);
            events.add((b'g', words[0]), from);
            events.add((b'g', words[1]), to);
        }
        return events.0;
    }
    for change in &changes {
        // What was there is replaced by another key.
        if change.was && change.is && name == "copy" {
            events.add((b'n', "new"), change);
        }
        if !change.was && !change.is {
            events.around(change, &[]);
            continue;
        }
        let is_del = matches!(name, "del" | "unlink" | "getdel");
        let is_emptied = !change.is && (STORES.contains(&name) || name.contains("expire"));
        let own = happening(name, args, change).filter(|_| !is_del && !is_emptied);
        let mut happenings: Vec<Happening> = own.into_iter().collect();
        if name == "getex" && !change.is {
            happenings.clear();
        }
        let expires = match name {
            "setex" | "psetex" => true,
            "set" => args
                .iter()
                .skip(3)
                .any(|arg| ["EX", "PX", "EXAT", "PXAT"].iter().any(|word| is(arg, word))),
            _ => false,
        };
        if expires && change.is {
            happenings.push((b'g', "expire"));
        }
        events.around(change, &happenings);
    }
    events.0
}

impl Session {
    /// What is to be told of a command that has run, when it is in the store; `touched` as
    /// [`Work::changes`] has it. Nothing is looked at where nothing is told; a script has told what
    /// its commands did.
    pub(super) fn events(
        &self,
        command: &Command,
        args: &[&[u8]],
        work: &Work<'_>,
        touched: usize,
    ) -> Outcome<Vec<Event>> {
        if command.is_script() {
            return Ok(Vec::new());
        }
        self.events_of(command, args, work, (self.database, 0, touched))
    }

    /// The same, of a command in a database, behind what was written up to a mark.
    pub(super) fn events_of(
        &self,
        command: &Command,
        args: &[&[u8]],
        work: &Work<'_>,
        (database, mark, touched): (u8, usize, usize),
    ) -> Outcome<Vec<Event>> {
        let notifications = &self.shared.notifications;
        if !notifications.is_on() {
            return Ok(Vec::new());
        }
        let mut told = if notifications.classes().has(Classes::of(b'm')) {
            self.missed(command, args, work, database)?
        } else {
            Vec::new()
        };
        if command.writes {
            let changes = work.changes(mark, touched)?;
            told.extend(events(command.name, args, changes));
        }
        Ok(told)
    }

    /// Keys that a command has looked for to read them, and that are not there.
    fn missed(
        &self,
        command: &Command,
        args: &[&[u8]],
        work: &Work<'_>,
        database: u8,
    ) -> Outcome<Vec<Event>> {
        let Named::Keys(keys) = command.keys.of(args) else { return Ok(Vec::new()) };
        let read = match command.name {
            _ if !command.writes => &keys[..],
            "bitop" | "zdiffstore" | "zinterstore" | "zunionstore" => {
                keys.get(1..).unwrap_or_default()
            }
            "sort" => keys.get(..1).unwrap_or_default(),
            _ => &[],
        };
        let mut missed = Vec::new();
        for key in read {
            let row = key_row(database, key);
            if work.is_missing(&row)? {
                missed.push(Event { class: b'm', name: "keymiss", row });
            }
        }
        Ok(missed)
    }

    /// Tells of events that are in the store.
    pub(super) fn notify_of(&self, events: &[Event]) {
        let shared = &self.shared;
        events.iter().for_each(|event| shared.notifications.tell(&shared.channels, event));
    }
}
