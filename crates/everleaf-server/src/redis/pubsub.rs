//! PUBLISH, SUBSCRIBE and what is about them.

use super::call::Call;
use super::failure::{Failure, Outcome};
use super::session::Session;
use crate::resp::argument::is;
use crate::resp::reply::Reply;
use crate::shared::{Subscribed, Subscriber};

impl Session {
    /// Channels and patterns that are subscribed to.
    pub(super) fn subscriptions(&self) -> usize {
        self.subscriber.as_ref().map_or(0, Subscriber::count)
    }

    pub(super) fn subscribed(&self) -> Subscribed {
        self.subscriber.as_ref().map(Subscriber::subscribed).unwrap_or_default()
    }

    /// Subscribes to these and to no others.
    pub(super) fn subscribe_to(&mut self, before: &Subscribed) {
        let now = self.subscribed();
        for (patterns, before, now) in [(false, &before[0], &now[0]), (true, &before[1], &now[1])] {
            let Some(subscriber) = &mut self.subscriber else { return };
            before.difference(now).for_each(|name| subscriber.subscribe(name, patterns));
            now.difference(before).for_each(|name| subscriber.unsubscribe(name, patterns));
        }
    }

    /// SUBSCRIBE, PSUBSCRIBE.
    pub(super) fn subscribe(&mut self, args: &[&[u8]], reply: &mut Reply<'_>) {
        let patterns = is(args[0], "PSUBSCRIBE");
        let word = if patterns { "psubscribe" } else { "subscribe" };
        let shared = &self.shared;
        let new = || Subscriber::new(&shared.channels, &self.client.mailbox);
        let subscriber = self.subscriber.get_or_insert_with(new);
        for name in &args[1..] {
            subscriber.subscribe(name, patterns);
            told(reply, word, Some(name), subscriber.count());
        }
    }

    /// UNSUBSCRIBE, PUNSUBSCRIBE.
    pub(super) fn unsubscribe(&mut self, args: &[&[u8]], reply: &mut Reply<'_>) {
        let patterns = is(args[0], "PUNSUBSCRIBE");
        let word = if patterns { "punsubscribe" } else { "unsubscribe" };
        let all: Vec<Vec<u8>> = match (&mut self.subscriber, &args[1..]) {
            (Some(subscriber), []) => {
                let [channels, names] = subscriber.subscribed();
                if patterns { names } else { channels }.into_iter().collect()
            }
            (_, names) => names.iter().map(|name| name.to_vec()).collect(),
        };
        for name in &all {
            if let Some(subscriber) = &mut self.subscriber {
                subscriber.unsubscribe(name, patterns);
            }
            self.take_all(reply);
            told(reply, word, Some(name), self.subscriptions());
        }
        if all.is_empty() {
            told(reply, word, None, self.subscriptions());
        }
    }

    /// PUBLISH; in a transaction others get it when the transaction is done.
    pub(super) fn publish(&mut self, message: [&[u8]; 2], reply: &mut Reply<'_>) {
        let own = self.subscriber.as_ref();
        let send = self.unsent.is_none();
        let (count, owns) = self.shared.channels.publish(message, own, send);
        if let Some(unsent) = &mut self.unsent {
            unsent.push(message.map(<[u8]>::to_vec));
        }
        self.take_all(reply);
        owns.iter().for_each(|bytes| reply.out.extend_from_slice(bytes));
        reply.count(count);
    }

    /// What came before this. The replies of a transaction may yet be taken back.
    fn take_all(&self, reply: &mut Reply<'_>) {
        if self.unsent.is_none() {
            self.client.mailbox.take(reply.out, usize::MAX);
            self.shared.data.saw_last();
        }
    }

    /// Sends what a transaction has published; it has told its own connection already.
    pub(super) fn send_unsent(&self, unsent: &[[Vec<u8>; 2]]) {
        let own = self.subscriber.as_ref();
        for [channel, message] in unsent {
            self.shared.channels.publish([channel, message], own, true);
        }
    }
}

fn told(reply: &mut Reply<'_>, word: &str, name: Option<&[u8]>, count: usize) {
    reply.push(3);
    reply.bulk(word);
    reply.maybe(name);
    reply.count(count);
}

/// PUBSUB.
pub fn pubsub(call: &mut Call<'_, '_, '_>) -> Outcome {
    let channels = &call.shared.channels;
    match (call.args[1], call.rest(2)) {
        (what, []) if is(what, "NUMPAT") => call.reply.count(channels.counts().1),
        (what, names) if is(what, "NUMSUB") => {
            call.reply.array(2 * names.len());
            for (name, count) in names.iter().zip(channels.subscribers(names)) {
                call.reply.bulk(name);
                call.reply.count(count);
            }
        }
        (what, patterns @ ([] | [_])) if is(what, "CHANNELS") => {
            let found = channels.matching(patterns);
            call.reply.array(found.len());
            found.iter().for_each(|name| call.reply.bulk(name));
        }
        (what, _) if is(what, "CHANNELS") => {
            return Err(Failure::Text(format!(
                "ERR unknown subcommand or wrong number of arguments for '{}'. Try PUBSUB HELP.",
                what.escape_ascii()
            )));
        }
        _ => call.help(&[
            "CHANNELS [<pattern>]",
            "    Return the currently active channels matching a <pattern> (default: '*').",
            "NUMPAT",
            "    Return number of subscriptions to patterns.",
            "NUMSUB [<channel> ...]",
            "    Return the number of subscribers for the specified channels, excluding",
            "    pattern subscriptions(default: no channels).",
        ]),
    }
    Ok(())
}
