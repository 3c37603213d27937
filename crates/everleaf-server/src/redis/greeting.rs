//! Commands about the connection: who the client is, and what it has selected.

use std::time::Instant;

use super::VERSION;
use super::call;
use super::failure::{Outcome, SYNTAX, wrong_number};
use super::queue::Watched;
use super::session::Session;
use crate::authentication::same_bytes;
use crate::resp::argument::is;
use crate::resp::number;
use crate::resp::parse::Parser;
use crate::resp::reply::Reply;

impl Session {
    /// Does one of them.
    pub(super) fn greet(&mut self, args: &[&[u8]], reply: &mut Reply<'_>) -> Outcome {
        match args[0] {
            name if is(name, "AUTH") => self.auth(&args[1..]).map(|()| reply.ok()),
            name if is(name, "HELLO") => self.hello(args, reply),
            name if is(name, "SELECT") => self.select(args).map(|()| reply.ok()),
            name if is(name, "UNWATCH") => {
                self.watched = Watched::default();
                reply.ok();
                Ok(())
            }
            name if is(name, "MONITOR") => self.begin_monitor(reply),
            name if is(name, "PING") => self.ping(&args[1..], reply),
            name if is(name, "PUBLISH") => {
                self.publish([args[1], args[2]], reply);
                Ok(())
            }
            name if is(name, "SUBSCRIBE") || is(name, "PSUBSCRIBE") => {
                self.subscribe(args, reply);
                Ok(())
            }
            name if is(name, "UNSUBSCRIBE") || is(name, "PUNSUBSCRIBE") => {
                self.unsubscribe(args, reply);
                Ok(())
            }
            _ => self.client_command(args, reply),
        }
    }

    fn ping(&self, words: &[&[u8]], reply: &mut Reply<'_>) -> Outcome {
        match words {
            [] | [_] if !self.three && self.subscriptions() > 0 => {
                reply.array(2);
                reply.bulk("pong");
                reply.bulk(words.first().copied().unwrap_or_default());
            }
            [] => reply.simple("PONG"),
            [text] => reply.bulk(text),
            _ => return Err(wrong_number(b"ping")),
        }
        Ok(())
    }

    fn select(&mut self, args: &[&[u8]]) -> Outcome {
        let [_, index] = args else { return Err(wrong_number(args[0])) };
        self.database = call::database(index)?;
        Ok(())
    }

    /// Until when the request at the front waits, as one with a password does where wrong ones came
    /// from.
    pub(super) fn must_wait(&self, parser: &Parser, input: &[u8]) -> Option<Instant> {
        let name = parser.argument(input, 0);
        let has_password = is(name, "AUTH") || is(name, "HELLO") && parser.len() > 2;
        has_password.then(|| self.shared.attempts.wait(self.place)).flatten()
    }

    fn auth(&mut self, words: &[&[u8]]) -> Outcome {
        let (user, password) = match words {
            [password] => (&b"default"[..], password),
            [user, password] => (*user, password),
            _ => return Err(wrong_number(b"auth")),
        };
        let Some(secret) = &self.shared.options.redis_password else {
            let sentence = "ERR AUTH <password> called without any password configured for the \
                            default user. Are you sure your configuration is correct?";
            return Err(sentence.into());
        };
        self.shared.counters.authentications.add(1);
        if !same_bytes(secret, password) || user != b"default" {
            self.shared.attempts.failed(self.place);
            self.shared.counters.refused_authentications.add(1);
            let sentence = "WRONGPASS invalid username-password pair or user is disabled.";
            return Err(sentence.into());
        }
        self.authenticated = true;
        Ok(())
    }

    fn hello(&mut self, args: &[&[u8]], reply: &mut Reply<'_>) -> Outcome {
        let three = match args.get(1).copied() {
            None => self.three,
            Some(b"2") => false,
            Some(b"3") => true,
            Some(version) if number::integer(version).is_some() => {
                return Err("NOPROTO unsupported protocol version".into());
            }
            Some(_) => {
                let sentence = "ERR Protocol version is not an integer or out of range";
                return Err(sentence.into());
            }
        };
        let mut at = 2;
        while let Some(option) = args.get(at) {
            match (option, args.get(at + 1), args.get(at + 2)) {
                (o, Some(user), Some(password)) if is(o, "AUTH") => {
                    self.auth(&[user, password])?;
                    at += 3;
                }
                (o, Some(name), _) if is(o, "SETNAME") => {
                    self.set_name(name)?;
                    at += 2;
                }
                _ => return Err(SYNTAX.into()),
            }
        }
        if !self.authenticated {
            let sentence = "NOAUTH HELLO must be called with the client already authenticated, \
                            otherwise the HELLO <proto> AUTH <user> <pass> option can be used to \
                            authenticate the client and select the RESP protocol version at the \
                            same time";
            return Err(sentence.into());
        }
        self.three = three;
        self.client.mailbox.speak(three);
        reply.three = three;
        reply.map(7);
        for (name, value) in [("server", "redis"), ("version", VERSION)] {
            reply.bulk(name);
            reply.bulk(value);
        }
        reply.bulk("proto");
        reply.integer(if three { 3 } else { 2 });
        reply.bulk("id");
        reply.integer(self.client.id as i64);
        let (mode, role) = match self.shared.view() {
            None => ("standalone", "master"),
            Some(view) if view.leads() => ("cluster", "master"),
            Some(_) => ("cluster", "replica"),
        };
        for (name, value) in [("mode", mode), ("role", role)] {
            reply.bulk(name);
            reply.bulk(value);
        }
        reply.bulk("modules");
        reply.array(0);
        Ok(())
    }
}
