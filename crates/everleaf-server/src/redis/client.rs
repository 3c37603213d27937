//! CLIENT: what a connection tells of itself, and what one client does to another.

use std::time::{Duration, Instant};

use super::failure::{Failure, NOT_INTEGER, Outcome, SYNTAX};
use super::replies::Replies;
use super::session::Session;
use super::timing;
use crate::resp::argument::is;
use crate::resp::number::integer;
use crate::resp::reply::Reply;
use crate::shared::{Chosen, ClientKind, Flags, Numbers, Paused, Unblocked};

fn yes_or_no(word: &[u8], yes: &str, no: &str) -> Outcome<bool> {
    match word {
        word if is(word, yes) => Ok(true),
        word if is(word, no) => Ok(false),
        _ => Err(SYNTAX.into()),
    }
}

fn kind(word: &[u8]) -> Outcome<ClientKind> {
    Ok(match word {
        word if is(word, "NORMAL") => ClientKind::Normal,
        word if is(word, "PUBSUB") => ClientKind::Pubsub,
        word if is(word, "REPLICA") || is(word, "SLAVE") => ClientKind::Replica,
        word if is(word, "MASTER") => ClientKind::Master,
        _ => {
            let sentence = format!("ERR Unknown client type '{}'", word.escape_ascii());
            return Err(Failure::Text(sentence));
        }
    })
}

/// A word that a client says of itself.
fn check_word(word: &[u8], sentence: &'static str) -> Outcome {
    if word.iter().all(u8::is_ascii_graphic) { Ok(()) } else { Err(sentence.into()) }
}

impl Session {
    /// CLIENT.
    pub(super) fn client_command(&mut self, args: &[&[u8]], reply: &mut Reply<'_>) -> Outcome {
        match (args[1], &args[2..]) {
            (what, []) if is(what, "ID") => reply.integer(self.client.id as i64),
            (what, []) if is(what, "GETNAME") => {
                let name = self.client.words(|words| words.name.clone());
                reply.maybe(Some(name).filter(|name| !name.is_empty()));
            }
            (what, [name]) if is(what, "SETNAME") => {
                self.set_name(name)?;
                reply.ok();
            }
            (what, [attribute, value]) if is(what, "SETINFO") => {
                self.set_info(attribute, value)?;
                reply.ok();
            }
            (what, []) if is(what, "INFO") => {
                self.tell(Instant::now());
                reply.text(&format!("{}\n", self.client.line(timing::name)));
            }
            (what, options) if is(what, "LIST") => self.list(options, reply)?,
            (what, options) if is(what, "KILL") => self.kill(options, reply)?,
            (what, options) if is(what, "UNBLOCK") => self.unblock(options, reply)?,
            (what, options) if is(what, "PAUSE") => {
                self.pause(options)?;
                reply.ok();
            }
            (what, []) if is(what, "UNPAUSE") => {
                self.shared.clients.unpause();
                reply.ok();
            }
            (what, [how]) if is(what, "REPLY") => self.choose_replies(how, reply)?,
            (what, words) if is(what, "TRACKING") => {
                self.track(words)?;
                reply.ok();
            }
            (what, [how]) if is(what, "CACHING") => {
                self.cache(how)?;
                reply.ok();
            }
            (what, []) if is(what, "TRACKINGINFO") => self.tracking_info(reply),
            (what, []) if is(what, "GETREDIR") => {
                reply.integer(self.tracking.redirect() as i64 - 1);
            }
            // Nothing of a client is ever evicted.
            (what, [how]) if is(what, "NO-EVICT") => {
                self.is_kept = yes_or_no(how, "ON", "OFF")?;
                reply.ok();
            }
            (what, [how]) if is(what, "NO-TOUCH") => {
                self.touches_nothing = yes_or_no(how, "ON", "OFF")?;
                reply.ok();
            }
            _ => reply.help(args[0], HELP),
        }
        Ok(())
    }

    /// What the client calls itself.
    pub(super) fn set_name(&mut self, name: &[u8]) -> Outcome {
        let sentence = "ERR Client names cannot contain spaces, newlines or special characters.";
        check_word(name, sentence)?;
        self.client.words(|words| words.name = name.to_vec());
        Ok(())
    }

    fn set_info(&mut self, attribute: &[u8], value: &[u8]) -> Outcome {
        if is(attribute, "LIB-NAME") {
            let what = "ERR lib-name cannot contain spaces, newlines or special characters.";
            check_word(value, what)?;
            self.client.words(|words| words.library = value.to_vec());
        } else if is(attribute, "LIB-VER") {
            let what = "ERR lib-ver cannot contain spaces, newlines or special characters.";
            check_word(value, what)?;
            self.client.words(|words| words.version = value.to_vec());
        } else {
            let sentence = format!("ERR Unrecognized option '{}'", attribute.escape_ascii());
            return Err(Failure::Text(sentence));
        }
        Ok(())
    }

    /// Tells what others may ask for of this connection.
    pub(super) fn tell(&self, now: Instant) {
        let subscribed = self.subscriber.as_ref().map_or([0, 0], |subscriber| subscriber.counts());
        let queue = self.queue.as_ref();
        let (tracks, by_fronts) = self.tracking.flags();
        let is_broken = tracks && self.shared.tracking.is_broken(self.client.id);
        let flags = Flags::default()
            .with(b'O', self.monitor.is_some())
            .with(b't', tracks)
            .with(b'R', is_broken)
            .with(b'B', by_fronts)
            .with(b'P', subscribed != [0, 0])
            .with(b'x', queue.is_some())
            .with(b'b', self.waits.is_some() || self.is_paused)
            .with(b'c', self.closing)
            .with(b'U', self.is_local)
            .with(b'e', self.is_kept)
            .with(b'T', self.touches_nothing);
        self.client.set_blocked(self.waits.is_some());
        let [channels, patterns] = subscribed.map(|count| count as u64);
        self.client.tell(
            now,
            &Numbers {
                flags: flags.0,
                database: u64::from(self.database),
                channels,
                patterns,
                queued: queue.map_or(0, |queue| queue.requests().count() as u64 + 1),
                queued_bytes: queue.map_or(0, |queue| queue.bytes as u64),
                input_bytes: self.input_bytes as u64,
                held_bytes: self.parser.held_bytes() as u64,
                command: self.last_command as u64,
                redirect: self.tracking.redirect(),
                protocol: if self.three { 3 } else { 2 },
            },
        );
    }

    fn list(&self, options: &[&[u8]], reply: &mut Reply<'_>) -> Outcome {
        self.tell(Instant::now());
        let clients = &self.shared.clients;
        let found = match options {
            [] => clients.chosen(&Chosen::default()),
            [option, word] if is(option, "TYPE") => {
                clients.chosen(&Chosen { kind: Some(kind(word)?), ..Chosen::default() })
            }
            [option, ids @ ..] if is(option, "ID") && !ids.is_empty() => {
                let number = |id: &&[u8]| integer(id).ok_or(Failure::Said("ERR Invalid client ID"));
                let ids = ids.iter().map(number).collect::<Outcome<Vec<i64>>>()?;
                let get = |id| u64::try_from(id).ok().and_then(|id| clients.get(id));
                ids.into_iter().filter_map(get).collect()
            }
            _ => return Err(SYNTAX.into()),
        };
        let lines = found.iter().map(|client| client.line(timing::name) + "\n");
        reply.text(&lines.collect::<String>());
        Ok(())
    }

    fn kill(&mut self, options: &[&[u8]], reply: &mut Reply<'_>) -> Outcome {
        let (mut chosen, mut spares_own) = (Chosen::default(), true);
        let is_old = options.len() == 1;
        match options {
            [peer] => (chosen.peer, spares_own) = (Some(peer.to_vec()), false),
            options if !options.len().is_multiple_of(2) => {
                check_options(options)?;
                return Err(SYNTAX.into());
            }
            options => {
                for pair in options.chunks(2) {
                    choose(&mut chosen, &mut spares_own, pair[0], pair[1])?;
                }
            }
        }
        let mut killed = 0;
        for client in self.shared.clients.chosen(&chosen) {
            let is_own = client.id == self.client.id;
            if is_own && spares_own {
                continue;
            }
            killed += 1;
            if is_own {
                self.closing = true; // When it has its reply.
            } else {
                client.kill();
            }
        }
        match (is_old, killed) {
            (true, 0) => return Err("ERR No such client".into()),
            (true, _) => reply.ok(),
            (false, killed) => reply.integer(killed),
        }
        Ok(())
    }

    fn unblock(&self, options: &[&[u8]], reply: &mut Reply<'_>) -> Outcome {
        let (id, how) = match options {
            [id] => (id, Unblocked::Timeout),
            [id, how] if is(how, "TIMEOUT") => (id, Unblocked::Timeout),
            [id, how] if is(how, "ERROR") => (id, Unblocked::Error),
            _ => return Err("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR".into()),
        };
        let id = integer(id).ok_or(Failure::Said(NOT_INTEGER))?;
        let client = u64::try_from(id).ok().and_then(|id| self.shared.clients.get(id));
        reply.flag(client.is_some_and(|client| client.unblock(how)));
        Ok(())
    }

    fn pause(&self, options: &[&[u8]]) -> Outcome {
        let (timeout, what) = match options {
            [timeout] => (timeout, Paused::Everything),
            [timeout, what] if is(what, "ALL") => (timeout, Paused::Everything),
            [timeout, what] if is(what, "WRITE") => (timeout, Paused::Writes),
            _ => return Err("ERR CLIENT PAUSE mode must be WRITE or ALL".into()),
        };
        let sentence = "ERR timeout is not an integer or out of range";
        let ms = integer(timeout).ok_or(Failure::Said(sentence))?;
        let ms = u64::try_from(ms).map_err(|_| Failure::Said("ERR timeout is negative"))?;
        let end = Instant::now().checked_add(Duration::from_millis(ms));
        let end = end.ok_or(Failure::Said("ERR timeout is out of range"))?;
        self.shared.clients.pause(what, end);
        Ok(())
    }

    fn choose_replies(&mut self, how: &[u8], reply: &mut Reply<'_>) -> Outcome {
        match how {
            how if is(how, "ON") => {
                self.replies = Replies::All;
                reply.ok();
            }
            how if is(how, "OFF") => self.replies = Replies::None,
            how if is(how, "SKIP") => {
                if self.replies != Replies::None {
                    self.replies = Replies::NotNext;
                }
            }
            _ => return Err(SYNTAX.into()),
        }
        Ok(())
    }
}

/// Says what is wrong with options of CLIENT KILL of which the last has no value.
fn check_options(options: &[&[u8]]) -> Outcome {
    let (mut chosen, mut spares_own) = (Chosen::default(), true);
    let mut pairs = options.chunks_exact(2);
    pairs.try_for_each(|pair| choose(&mut chosen, &mut spares_own, pair[0], pair[1]))
}

/// An option of CLIENT KILL.
fn choose(chosen: &mut Chosen, spares_own: &mut bool, option: &[u8], value: &[u8]) -> Outcome {
    match option {
        option if is(option, "ID") => {
            let sentence = "ERR client-id should be greater than 0";
            let id = integer(value).filter(|id| *id > 0).ok_or(Failure::Said(sentence))?;
            chosen.id = Some(id.unsigned_abs());
        }
        option if is(option, "TYPE") => chosen.kind = Some(kind(value)?),
        option if is(option, "ADDR") => chosen.peer = Some(value.to_vec()),
        option if is(option, "LADDR") => chosen.local = Some(value.to_vec()),
        // All clients are of the only user that there is.
        option if is(option, "USER") => {
            if value != b"default" {
                let sentence = format!("ERR No such user '{}'", value.escape_ascii());
                return Err(Failure::Text(sentence));
            }
        }
        option if is(option, "SKIPME") => *spares_own = yes_or_no(value, "YES", "NO")?,
        _ => return Err(SYNTAX.into()),
    }
    Ok(())
}

const HELP: &[&str] = &[
    "CACHING (YES|NO)",
    "    Enable/disable tracking of the keys for next command in OPTIN/OPTOUT modes.",
    "GETREDIR",
    "    Return the client ID we are redirecting to when tracking is enabled.",
    "GETNAME",
    "    Return the name of the current connection.",
    "ID",
    "    Return the ID of the current connection.",
    "INFO",
    "    Return information about the current client connection.",
    "KILL <ip:port>",
    "    Kill connection made from <ip:port>.",
    "KILL <option> <value> [<option> <value> [...]]",
    "    Kill connections, by ADDR, LADDR, ID, TYPE (NORMAL|MASTER|REPLICA|PUBSUB), USER;",
    "    SKIPME (YES|NO): whether the current connection is spared (default: yes).",
    "LIST [TYPE (NORMAL|MASTER|REPLICA|PUBSUB) | ID <id> [<id> ...]]",
    "    Return information about client connections.",
    "NO-EVICT (ON|OFF)",
    "    Protect current client connection from eviction; none is ever evicted.",
    "NO-TOUCH (ON|OFF)",
    "    Whether commands leave the times of use of keys; it changes nothing.",
    "PAUSE <timeout> [WRITE|ALL]",
    "    Suspend all, or just write, clients for <timeout> milliseconds.",
    "REPLY (ON|OFF|SKIP)",
    "    Control the replies sent to the current connection.",
    "SETINFO (LIB-NAME|LIB-VER) <value>",
    "    Say what library the client is.",
    "SETNAME <name>",
    "    Assign the name <name> to the current connection.",
    "TRACKING (ON|OFF) [REDIRECT <id>] [BCAST] [PREFIX <prefix> [...]]",
    "         [OPTIN] [OPTOUT] [NOLOOP]",
    "    Control server assisted client side caching.",
    "TRACKINGINFO",
    "    Report tracking status for the current connection.",
    "UNBLOCK <clientid> [TIMEOUT|ERROR]",
    "    Unblock the specified blocked client.",
    "UNPAUSE",
    "    Stop the current client pause, resuming traffic.",
];
