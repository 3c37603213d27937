//! Messages between clients: PUBLISH, SUBSCRIBE and what is about them. Nothing of it is stored.
//!
//! A subscriber has a mailbox, which publishers put messages into and its connection takes them out
//! of. What waits there is bounded: beyond it the connection is closed, also while it sends.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::call::{Call, Failure, Outcome, is};
use super::glob;
use super::reply::Reply;
use super::session::Session;
use crate::shared::{Part, Shared};

/// Bytes of messages that may wait for a subscriber, as with Redis.
const WAITING_BYTES: u64 = 32 << 20;
/// Memory that a message takes in a mailbox beside its bytes, which all subscribers share.
const MESSAGE_BYTES: u64 = 32;
/// The same for a subscription.
const SUBSCRIPTION_BYTES: usize = 192;

/// Messages for one subscriber.
struct Mailbox {
    notify: Arc<Notify>,
    /// Whether it speaks RESP3.
    three: AtomicBool,
    inbox: Mutex<Inbox>,
}

struct Inbox {
    messages: VecDeque<Arc<[u8]>>,
    bytes: u64,
    room: Part,
    /// There were too many: nothing more is put here.
    lost: bool,
}

type Subscribers = BTreeMap<Vec<u8>, Vec<Arc<Mailbox>>>;

/// Who has subscribed to what.
#[derive(Default)]
pub struct Channels {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    channels: Subscribers,
    patterns: Subscribers,
}

/// What a client has subscribed to; dropped, it has to nothing.
pub struct Subscriber {
    shared: Arc<Shared>,
    mailbox: Arc<Mailbox>,
    channels: BTreeSet<Vec<u8>>,
    patterns: BTreeSet<Vec<u8>>,
    bytes: usize,
}

/// A message, in the versions of the protocol that are needed.
#[derive(Default)]
struct Encoded {
    two: Option<Arc<[u8]>>,
    three: Option<Arc<[u8]>>,
}

impl Encoded {
    fn of(&mut self, three: bool, words: &[&[u8]]) -> Arc<[u8]> {
        let encoded = if three { &mut self.three } else { &mut self.two };
        let make = || {
            let mut bytes = Vec::new();
            let mut reply = Reply::to(&mut bytes, three);
            reply.push(words.len());
            words.iter().for_each(|word| reply.bulk(word));
            bytes.into()
        };
        Arc::clone(encoded.get_or_insert_with(make))
    }
}

impl Mailbox {
    fn put(&self, message: Arc<[u8]>) {
        let mut inbox = self.inbox.lock();
        if inbox.lost {
            return;
        }
        inbox.bytes += message.len() as u64 + MESSAGE_BYTES;
        let bytes = inbox.bytes;
        if bytes > WAITING_BYTES || !inbox.room.set(bytes) {
            inbox.lost = true;
            inbox.messages = VecDeque::new();
            let _ = inbox.room.set(0);
        } else {
            inbox.messages.push_back(message);
        }
        drop(inbox);
        self.notify.notify_one();
    }
}

impl Channels {
    /// Sends a message to all but `own`, or to nobody if it is not to be sent yet. How many it is
    /// for, and what of it is for `own`.
    fn publish(
        &self,
        [channel, message]: [&[u8]; 2],
        own: Option<&Arc<Mailbox>>,
        send: bool,
    ) -> (usize, Vec<Arc<[u8]>>) {
        let inner = self.inner.lock();
        let (mut count, mut owns) = (0, Vec::new());
        let mut put = |subscribers: &[Arc<Mailbox>], words: &[&[u8]]| {
            let mut encoded = Encoded::default();
            count += subscribers.len();
            for mailbox in subscribers {
                let bytes = encoded.of(mailbox.three.load(Ordering::Relaxed), words);
                if own.is_some_and(|own| Arc::ptr_eq(own, mailbox)) {
                    owns.push(bytes);
                } else if send {
                    mailbox.put(bytes);
                }
            }
        };
        if let Some(subscribers) = inner.channels.get(channel) {
            put(subscribers, &[b"message", channel, message]);
        }
        for (pattern, subscribers) in &inner.patterns {
            if glob::matches(pattern, channel) {
                put(subscribers, &[b"pmessage", pattern, channel, message]);
            }
        }
        (count, owns)
    }

    /// How many channels and patterns somebody has subscribed to.
    pub fn counts(&self) -> (usize, usize) {
        let inner = self.inner.lock();
        (inner.channels.len(), inner.patterns.len())
    }
}

impl Inner {
    fn of(&mut self, patterns: bool) -> &mut Subscribers {
        if patterns { &mut self.patterns } else { &mut self.channels }
    }
}

impl Subscriber {
    fn new(shared: &Arc<Shared>, notify: &Arc<Notify>, three: bool) -> Self {
        let room = shared.replies.part();
        let inbox = Inbox { messages: VecDeque::new(), bytes: 0, room, lost: false };
        let (notify, inbox) = (Arc::clone(notify), Mutex::new(inbox));
        let mailbox = Arc::new(Mailbox { notify, three: AtomicBool::new(three), inbox });
        let (channels, patterns) = (BTreeSet::new(), BTreeSet::new());
        Self { shared: Arc::clone(shared), mailbox, channels, patterns, bytes: 0 }
    }

    /// How many channels and patterns it has subscribed to.
    pub fn count(&self) -> usize {
        self.channels.len() + self.patterns.len()
    }

    /// Bytes of memory that their names take.
    pub fn held_bytes(&self) -> usize {
        self.bytes
    }

    /// Whether messages for it were lost, because it did not take them.
    pub fn is_lost(&self) -> bool {
        self.mailbox.inbox.lock().lost
    }

    /// From now on it is spoken to in this version of the protocol.
    pub fn speak(&self, three: bool) {
        self.mailbox.three.store(three, Ordering::Relaxed);
    }

    /// Takes messages until there are so many bytes; whether there are more.
    pub fn take(&self, out: &mut Vec<u8>, bytes: usize) -> bool {
        let mut inbox = self.mailbox.inbox.lock();
        while out.len() < bytes {
            let Some(message) = inbox.messages.pop_front() else { return false };
            out.extend_from_slice(&message);
            inbox.bytes -= message.len() as u64 + MESSAGE_BYTES;
            let left = inbox.bytes;
            let _ = inbox.room.set(left); // It is less than before.
        }
        !inbox.messages.is_empty()
    }

    fn names(&mut self, patterns: bool) -> &mut BTreeSet<Vec<u8>> {
        if patterns { &mut self.patterns } else { &mut self.channels }
    }

    fn subscribe(&mut self, name: &[u8], patterns: bool) {
        if self.names(patterns).insert(name.to_vec()) {
            self.bytes += 2 * name.len() + SUBSCRIPTION_BYTES;
            let mut inner = self.shared.channels.inner.lock();
            let subscribers = inner.of(patterns).entry(name.to_vec()).or_default();
            subscribers.push(Arc::clone(&self.mailbox));
        }
    }

    fn unsubscribe(&mut self, name: &[u8], patterns: bool) {
        if self.names(patterns).remove(name) {
            self.bytes -= 2 * name.len() + SUBSCRIPTION_BYTES;
            self.forget(name, patterns);
        }
    }

    fn forget(&self, name: &[u8], patterns: bool) {
        let mut inner = self.shared.channels.inner.lock();
        let all = inner.of(patterns);
        let Some(subscribers) = all.get_mut(name) else { return };
        subscribers.retain(|other| !Arc::ptr_eq(other, &self.mailbox));
        if subscribers.is_empty() {
            all.remove(name);
        }
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.channels.iter().for_each(|name| self.forget(name, false));
        self.patterns.iter().for_each(|name| self.forget(name, true));
    }
}

// ---- commands
// -------------------------------------------------------------------------------------------------

/// Channels and patterns.
pub type Subscribed = [BTreeSet<Vec<u8>>; 2];

impl Session {
    /// Channels and patterns that are subscribed to.
    pub(super) fn subscriptions(&self) -> usize {
        self.subscriber.as_ref().map_or(0, Subscriber::count)
    }

    pub(super) fn subscribed(&self) -> Subscribed {
        let all = self.subscriber.as_ref().map(|s| [s.channels.clone(), s.patterns.clone()]);
        all.unwrap_or_default()
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
        let new = || Subscriber::new(&self.shared, &self.notify, self.three);
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
            (Some(subscriber), []) => subscriber.names(patterns).iter().cloned().collect(),
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
        let own = self.subscriber.as_ref().map(|subscriber| &subscriber.mailbox);
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
        if let Some(subscriber) = self.subscriber.as_ref().filter(|_| self.unsent.is_none()) {
            subscriber.take(reply.out, usize::MAX);
        }
    }

    /// Sends what a transaction has published; it has told its own connection already.
    pub(super) fn send_unsent(&self, unsent: &[[Vec<u8>; 2]]) {
        let own = self.subscriber.as_ref().map(|subscriber| &subscriber.mailbox);
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
    let inner = call.shared.channels.inner.lock();
    match (call.args[1], call.rest(2)) {
        (what, []) if is(what, "NUMPAT") => call.reply.count(inner.patterns.len()),
        (what, names) if is(what, "NUMSUB") => {
            call.reply.array(2 * names.len());
            for name in names {
                call.reply.bulk(name);
                call.reply.count(inner.channels.get(*name).map_or(0, Vec::len));
            }
        }
        (what, patterns @ ([] | [_])) if is(what, "CHANNELS") => {
            let shown = |name: &&Vec<u8>| patterns.iter().all(|p| glob::matches(p, name));
            call.reply.array(inner.channels.keys().filter(shown).count());
            inner.channels.keys().filter(shown).for_each(|name| call.reply.bulk(name));
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
