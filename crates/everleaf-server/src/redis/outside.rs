//! Requests at a node of a cluster that does not lead: which of them it answers itself, and what
//! becomes of the others.

use everleaf_raft::Origin;

use super::cluster::{NO_LEADER, slot};
use super::command::{Named, Words};
use super::session::Session;
use super::table::find;
use crate::data::DATABASES;
use crate::resp::argument::is;
use crate::resp::parse::{Front, Parser};
use crate::resp::reply::Reply;
use crate::shared::Ends;

/// What becomes of the request at the front.
#[derive(Debug, PartialEq, Eq)]
pub enum Way {
    /// The session answers it: so many bytes; 0: its end has not come yet.
    Here(usize),
    /// It was answered: so many bytes.
    Answered(usize),
    /// The connection goes to the leader, and this request with it.
    Away,
}

/// What a request needs of the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    Nothing,
    /// Keys, or what else the leader has.
    Keys,
    /// A connection to it, which a client is not told to make.
    Connection,
}

/// What an origin calls this protocol.
pub const PROTOCOL: &str = "redis";

/// What of CLIENT is about the connection alone, also when it is relayed later.
const OF_CLIENT: &[&str] = &[
    "GETNAME",
    "GETREDIR",
    "HELP",
    "ID",
    "INFO",
    "KILL",
    "LIST",
    "NO-EVICT",
    "SETINFO",
    "SETNAME",
    "TRACKINGINFO",
];

/// What is known of a connection at such a node.
#[derive(Default)]
pub struct Outside {
    parser: Parser,
    /// Whether its client has asked for what only those ask for that know of clusters.
    knows_clusters: bool,
}

impl Outside {
    /// What becomes of the request at the front of `input`, which begins where it began the time
    /// before if that was not answered.
    pub fn way(&mut self, session: &mut Session, input: &[u8], out: &mut Vec<u8>) -> Way {
        let longest = session.authenticated.then_some(session.shared.longest.redis);
        let mut parser = std::mem::take(&mut self.parser);
        let front = parser.front(input, longest);
        let args = (0..parser.len()).map(|at| parser.argument(input, at));
        let args: Words<'_> = args.collect();
        let way = match (args.first(), front) {
            (_, Front::Wrong(_)) => Way::Here(input.len()),
            (None, Front::Request(bytes)) => Way::Here(bytes),
            (Some(_), Front::Request(bytes)) => self.way_of(session, &args, bytes, out),
            // The name is enough to know that it needs keys.
            (Some(name), Front::Incomplete)
                if !self.knows_clusters
                    && find(name).is_some()
                    && self.needs(session, &[name, b""]) == Needs::Keys =>
            {
                Way::Away
            }
            (_, Front::Incomplete) => Way::Here(0),
        };
        drop(args);
        if way != Way::Here(0) {
            parser.next_request();
        }
        self.parser = parser;
        way
    }

    /// What becomes of a request of so many bytes.
    fn way_of(
        &mut self,
        session: &mut Session,
        args: &[&[u8]],
        bytes: usize,
        out: &mut Vec<u8>,
    ) -> Way {
        let view = session.shared.view().unwrap_or_default();
        match self.needs(session, args) {
            Needs::Nothing => {
                let words = ["ASKING", "CLUSTER", "READONLY", "READWRITE"];
                self.knows_clusters |= words.iter().any(|word| is(args[0], word));
                Way::Here(bytes)
            }
            // Who is told to come here would come by this connection again.
            Needs::Keys if self.knows_clusters && (!view.leads() || session.queue.is_some()) => {
                let sentence = match view.leader() {
                    Some((_, (host, port))) => format!("MOVED {} {host}:{port}", slot_of(args)),
                    None => NO_LEADER.to_owned(),
                };
                session.refuse(&sentence, out);
                Way::Answered(bytes)
            }
            _ => Way::Away,
        }
    }

    fn needs(&self, session: &Session, args: &[&[u8]]) -> Needs {
        let (name, second) = (args[0], args.get(1).copied().unwrap_or_default());
        let among = |words: &[&str], word: &[u8]| words.iter().any(|other| is(word, other));
        let subscribes = among(&["SUBSCRIBE", "PSUBSCRIBE"], name);
        // What is asked for in vain is said by the session.
        let is_refused = !session.three && session.subscriptions() > 0 && !subscribes;
        if !session.authenticated || is_refused {
            return Needs::Nothing;
        }
        let is_here = match session.command_of(name) {
            Some(command) => match command.name {
                "cluster" => !among(&["COUNTKEYSINSLOT", "GETKEYSINSLOT"], second),
                "asking" | "command" | "echo" | "info" | "readonly" | "readwrite" | "role"
                | "sentinel" | "time" => true,
                _ => false,
            },
            // Channels whose names begin so are those of a Sentinel.
            None if subscribes => {
                let mut names = args.iter().skip(1);
                match names.all(|name| matches!(name.first(), Some(b'+' | b'-'))) {
                    true => return Needs::Nothing,
                    false => return Needs::Connection,
                }
            }
            None if is(name, "MONITOR") => return Needs::Connection,
            None if among(&["MULTI", "EXEC", "DISCARD", "UNWATCH"], name) => self.knows_clusters,
            None if is(name, "CLIENT") => among(OF_CLIENT, second),
            None => !among(&["PUBLISH", "WATCH"], name),
        };
        if is_here { Needs::Nothing } else { Needs::Keys }
    }
}

/// The slot of the first key of a request.
fn slot_of(args: &[&[u8]]) -> u16 {
    let first = match find(args[0]).map(|command| command.keys.of(args)) {
        Some(Named::Keys(keys)) => keys.first().copied(),
        Some(_) => None,
        None => args.get(1).copied(), // A channel, or a key that is watched.
    };
    first.map_or(0, slot)
}

impl Session {
    /// Replies with an error to a request, which counts as one of a transaction where it is in one.
    fn refuse(&mut self, sentence: &str, out: &mut Vec<u8>) {
        self.replies = self.replies.next();
        if !self.replies.is_silent() {
            Reply::to(out, self.three).error(sentence);
        }
        self.queue.iter_mut().for_each(|queue| queue.refused = true);
    }

    /// What the leader is told of a connection that is relayed to it.
    pub fn origin(&self, ends: &Ends) -> Origin {
        let user = self.shared.options.redis_password.as_ref().filter(|_| self.authenticated);
        Origin {
            protocol: PROTOCOL.to_owned(),
            version: if self.three { 3 } else { 2 },
            database: self.database,
            user: user.map(|_| "default".to_owned()),
            peer: ends.peer.clone(),
            local: ends.local.clone(),
            says: self
                .client
                .words(|words| [words.name.clone(), words.library.clone(), words.version.clone()]),
        }
    }

    /// The same, of which another node has told this.
    pub fn with_origin(mut self, origin: Origin) -> Self {
        self.three = origin.version == 3;
        self.client.mailbox.speak(self.three);
        self.database = origin.database.min(DATABASES - 1);
        self.authenticated |= origin.user.as_deref() == Some("default");
        let [name, library, version] = origin.says;
        self.client.words(|words| {
            (words.name, words.library, words.version) = (name, library, version);
        });
        self
    }
}
