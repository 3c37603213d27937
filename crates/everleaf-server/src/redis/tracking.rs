//! CLIENT TRACKING and what is about it.

use std::collections::BTreeSet;

use super::command::{Command, Keys, Named};
use super::failure::{Failure, NOT_INTEGER, Outcome, SYNTAX};
use super::session::Session;
use super::tracked::Own;
use crate::resp::argument::is;
use crate::resp::number::integer;
use crate::resp::reply::Reply;
use crate::shared::Mode;

/// What stands behind ON.
fn options(session: &Session, words: &[&[u8]]) -> Outcome<(Mode, Vec<Vec<u8>>, bool)> {
    let (mut mode, mut fronts, mut by_fronts, mut rest) =
        (Mode::default(), Vec::new(), false, words);
    while let Some(word) = rest.first() {
        match rest {
            [word, id, ..] if is(word, "REDIRECT") => {
                if mode.redirect != 0 {
                    let sentence = "ERR A client can only redirect to a single other client";
                    return Err(sentence.into());
                }
                let id = integer(id).ok_or(Failure::Said(NOT_INTEGER))?;
                mode.redirect = u64::try_from(id).unwrap_or(u64::MAX);
                if session.shared.clients.get(mode.redirect).is_none() {
                    let sentence = "ERR The client ID you want redirect to does not exist";
                    return Err(sentence.into());
                }
                rest = &rest[1..];
            }
            [word, front, ..] if is(word, "PREFIX") => {
                fronts.push(front.to_vec());
                rest = &rest[1..];
            }
            _ if is(word, "BCAST") => by_fronts = true,
            _ if is(word, "OPTIN") => mode.opt_in = true,
            _ if is(word, "OPTOUT") => mode.opt_out = true,
            _ if is(word, "NOLOOP") => mode.no_loop = true,
            _ => return Err(SYNTAX.into()),
        }
        rest = &rest[1..];
    }
    Ok((mode, fronts, by_fronts))
}

/// Says which options do not fit together, or not with those of before.
fn check(mode: &Mode, fronts: &[Vec<u8>], by_fronts: bool, before: Option<&Mode>) -> Outcome {
    if !by_fronts && !fronts.is_empty() {
        return Err("ERR PREFIX option requires BCAST mode to be enabled".into());
    }
    if before.is_some_and(|before| before.fronts.is_some() != by_fronts) {
        let sentence = "ERR You can't switch BCAST mode on/off before disabling tracking for this \
                        client, and then re-enabling it with a different mode.";
        return Err(sentence.into());
    }
    if by_fronts && (mode.opt_in || mode.opt_out) {
        return Err("ERR OPTIN and OPTOUT are not compatible with BCAST".into());
    }
    if mode.opt_in && mode.opt_out {
        return Err("ERR You can't specify both OPTIN mode and OPTOUT mode".into());
    }
    let other = |before: &Mode| mode.opt_in && before.opt_out || mode.opt_out && before.opt_in;
    if before.is_some_and(other) {
        let sentence = "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this \
                        client, and then re-enabling it with a different mode.";
        return Err(sentence.into());
    }
    let own = before.and_then(|before| before.fronts.as_ref());
    for (at, front) in fronts.iter().enumerate() {
        let overlaps = |other: &&Vec<u8>| front.starts_with(other) || other.starts_with(front);
        let said = |what: &str, other: &Vec<u8>| {
            Failure::Text(format!(
                "ERR Prefix '{}' overlaps with {what} prefix '{}'. Prefixes for a single client \
                 must not overlap.",
                front.escape_ascii(),
                other.escape_ascii()
            ))
        };
        if let Some(other) = own.iter().flat_map(|own| own.iter()).find(overlaps) {
            return Err(said("an existing", other));
        }
        if let Some(other) = fronts[at + 1..].iter().find(overlaps) {
            return Err(said("another provided", other));
        }
    }
    Ok(())
}

impl Session {
    /// CLIENT TRACKING.
    pub(super) fn track(&mut self, words: &[&[u8]]) -> Outcome {
        let [how, words @ ..] = words else { return Err(SYNTAX.into()) };
        let (mut mode, fronts, by_fronts) = options(self, words)?;
        if is(how, "OFF") {
            self.tracking = Own::default();
            return Ok(());
        }
        if !is(how, "ON") {
            return Err(SYNTAX.into());
        }
        let before = self.tracking.mode();
        check(&mode, &fronts, by_fronts, before)?;
        if by_fronts {
            let own = before.and_then(|before| before.fronts.clone());
            let mut all: BTreeSet<Vec<u8>> = own.unwrap_or_default();
            all.extend(fronts);
            if all.is_empty() {
                all.insert(Vec::new()); // Every key begins with it.
            }
            mode.fronts = Some(all);
        }
        self.tracking = Own::default(); // The end of the one before is not that of this one.
        let tracked = self.shared.tracking.begin(&self.client, mode.clone());
        self.tracking = Own { mode: Some((mode, tracked)), caching: false };
        Ok(())
    }

    /// CLIENT CACHING.
    pub(super) fn cache(&mut self, how: &[u8]) -> Outcome {
        let Some(mode) = self.tracking.mode() else {
            let sentence = "ERR CLIENT CACHING can be called only when the client is in tracking \
                            mode with OPTIN or OPTOUT mode enabled";
            return Err(sentence.into());
        };
        match how {
            how if is(how, "YES") && !mode.opt_in => {
                let sentence = "ERR CLIENT CACHING YES is only valid when tracking is enabled in \
                                OPTIN mode.";
                Err(sentence.into())
            }
            how if is(how, "NO") && !mode.opt_out => {
                let sentence = "ERR CLIENT CACHING NO is only valid when tracking is enabled in \
                                OPTOUT mode.";
                Err(sentence.into())
            }
            how if is(how, "YES") || is(how, "NO") => {
                self.tracking.caching = true;
                Ok(())
            }
            _ => Err(SYNTAX.into()),
        }
    }

    /// CLIENT TRACKINGINFO.
    pub(super) fn tracking_info(&self, reply: &mut Reply<'_>) {
        let mode = self.tracking.mode();
        let caching = self.tracking.caching;
        let is = |flag: fn(&Mode) -> bool| mode.is_some_and(flag);
        let flags = [
            (mode.is_some(), "on"),
            (mode.is_none(), "off"),
            (is(|mode| mode.fronts.is_some()), "bcast"),
            (is(|mode| mode.opt_in), "optin"),
            (is(|mode| mode.opt_in) && caching, "caching-yes"),
            (is(|mode| mode.opt_out), "optout"),
            (is(|mode| mode.opt_out) && caching, "caching-no"),
            (is(|mode| mode.no_loop), "noloop"),
            (self.shared.tracking.is_broken(self.client.id), "broken_redirect"),
        ];
        let flags = flags.iter().filter(|(is_so, _)| *is_so);
        reply.map(3);
        reply.bulk("flags");
        reply.set(flags.clone().count());
        flags.for_each(|(_, flag)| reply.bulk(flag));
        reply.bulk("redirect");
        reply.integer(self.tracking.redirect() as i64 - 1);
        reply.bulk("prefixes");
        let fronts = mode.and_then(|mode| mode.fronts.as_ref());
        reply.array(fronts.map_or(0, BTreeSet::len));
        fronts.iter().flat_map(|fronts| fronts.iter()).for_each(|front| reply.bulk(front));
    }

    /// Remembers the keys that a command is about to read. Of a script these are the keys that its
    /// commands read, and those that it declares.
    pub(super) fn remember_keys(&self, command: &Command, args: &[&[u8]]) {
        if self.tracking.mode().is_none() || command.writes || command.is_script() {
            return;
        }
        if command.keys != Keys::None
            && let Named::Keys(keys) = command.keys.of(args)
        {
            self.remember(&keys);
        }
    }

    /// Remembers keys that are about to be read.
    pub(super) fn remember(&self, keys: &[&[u8]]) {
        let Some(mode) = self.tracking.mode() else { return };
        let caching = self.tracking.caching;
        let is_left = mode.fronts.is_some() || mode.opt_in && !caching || mode.opt_out && caching;
        if !is_left {
            self.shared.tracking.remember(self.client.id, keys);
        }
    }
}
