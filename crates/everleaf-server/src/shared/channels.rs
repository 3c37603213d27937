//! Messages between clients. Nothing of them is stored.
//!
//! A subscriber has a mailbox, which publishers put messages into and its connection takes them out
//! of. What waits there is bounded: beyond it the connection is closed, also while it sends.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::memory::Reservation;
use crate::resp::glob;
use crate::resp::reply::Reply;

/// Bytes of messages that may wait for a subscriber, as with Redis.
pub const WAITING_BYTES: u64 = 32 << 20;
/// Memory that a message takes in a mailbox beside its bytes, which all subscribers share.
pub const MESSAGE_BYTES: u64 = 32;
/// The same for a subscription.
const SUBSCRIPTION_BYTES: usize = 192;

/// Messages for one client.
pub struct Mailbox {
    notify: Arc<Notify>,
    /// Whether it speaks RESP3.
    three: AtomicBool,
    /// Whether there may be any: looked at before each request.
    has_any: AtomicBool,
    /// There were too many: nothing more is put here.
    is_lost: AtomicBool,
    inbox: Mutex<Inbox>,
}

struct Inbox {
    messages: VecDeque<Arc<[u8]>>,
    bytes: u64,
    reserved: Reservation,
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

/// Channels and patterns.
pub type Subscribed = [BTreeSet<Vec<u8>>; 2];

/// What a client has subscribed to; dropped, it has to nothing.
pub struct Subscriber {
    all: Arc<Channels>,
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
    /// Without a message; what waits in it is taken of `reserved`, and `notify` tells that
    /// something does.
    pub fn new(notify: &Arc<Notify>, reserved: Reservation) -> Self {
        let inbox = Inbox { messages: VecDeque::new(), bytes: 0, reserved };
        Self {
            notify: Arc::clone(notify),
            three: AtomicBool::new(false),
            has_any: AtomicBool::new(false),
            is_lost: AtomicBool::new(false),
            inbox: Mutex::new(inbox),
        }
    }

    /// Puts a message; too many are lost.
    pub fn put(&self, message: Arc<[u8]>) {
        let mut inbox = self.inbox.lock();
        if self.is_lost() {
            return;
        }
        inbox.bytes += message.len() as u64 + MESSAGE_BYTES;
        let bytes = inbox.bytes;
        if bytes > WAITING_BYTES || !inbox.reserved.set(bytes) {
            self.is_lost.store(true, Ordering::Release);
            inbox.messages = VecDeque::new();
            let _ = inbox.reserved.set(0);
        } else {
            inbox.messages.push_back(message);
            self.has_any.store(true, Ordering::Release);
        }
        drop(inbox);
        self.notify.notify_one();
    }

    /// Whether messages were lost, because its client did not take them.
    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// Whether its client speaks RESP3.
    pub fn is_three(&self) -> bool {
        self.three.load(Ordering::Relaxed)
    }

    /// From now on it is spoken to in this version of the protocol.
    pub fn speak(&self, three: bool) {
        self.three.store(three, Ordering::Relaxed);
    }

    /// Takes messages until there are so many bytes; whether there are more.
    pub fn take(&self, out: &mut Vec<u8>, bytes: usize) -> bool {
        if !self.has_any.load(Ordering::Acquire) {
            return false;
        }
        let mut inbox = self.inbox.lock();
        while out.len() < bytes {
            let Some(message) = inbox.messages.pop_front() else { break };
            out.extend_from_slice(&message);
            inbox.bytes -= message.len() as u64 + MESSAGE_BYTES;
            let left = inbox.bytes;
            let _ = inbox.reserved.set(left); // It is less than before.
        }
        let has_more = !inbox.messages.is_empty();
        self.has_any.store(has_more, Ordering::Release);
        has_more
    }
}

impl Channels {
    /// Sends a message to all but `own`, or to nobody if it is not to be sent yet. How many it is
    /// for, and what of it is for `own`.
    pub fn publish(
        &self,
        [channel, message]: [&[u8]; 2],
        own: Option<&Subscriber>,
        send: bool,
    ) -> (usize, Vec<Arc<[u8]>>) {
        let inner = self.inner.lock();
        let (mut count, mut owns) = (0, Vec::new());
        let mut put = |subscribers: &[Arc<Mailbox>], words: &[&[u8]]| {
            let mut encoded = Encoded::default();
            count += subscribers.len();
            for mailbox in subscribers {
                let bytes = encoded.of(mailbox.three.load(Ordering::Relaxed), words);
                if own.is_some_and(|own| Arc::ptr_eq(&own.mailbox, mailbox)) {
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

    /// How many have subscribed to each of these channels.
    pub fn subscribers(&self, names: &[&[u8]]) -> Vec<usize> {
        let inner = self.inner.lock();
        names.iter().map(|name| inner.channels.get(*name).map_or(0, Vec::len)).collect()
    }

    /// The channels that match all of these patterns and that somebody has subscribed to.
    pub fn matching(&self, patterns: &[&[u8]]) -> Vec<Vec<u8>> {
        let inner = self.inner.lock();
        let matches = |name: &&Vec<u8>| patterns.iter().all(|p| glob::matches(p, name));
        inner.channels.keys().filter(matches).cloned().collect()
    }
}

impl Inner {
    fn of(&mut self, patterns: bool) -> &mut Subscribers {
        if patterns { &mut self.patterns } else { &mut self.channels }
    }
}

impl Subscriber {
    /// Has subscribed to nothing; messages go to its mailbox.
    pub fn new(all: &Arc<Channels>, mailbox: &Arc<Mailbox>) -> Self {
        let (channels, patterns) = (BTreeSet::new(), BTreeSet::new());
        Self { all: Arc::clone(all), mailbox: Arc::clone(mailbox), channels, patterns, bytes: 0 }
    }

    /// How many channels, and how many patterns.
    pub fn counts(&self) -> [usize; 2] {
        [self.channels.len(), self.patterns.len()]
    }

    /// How many channels and patterns it has subscribed to.
    pub fn count(&self) -> usize {
        self.channels.len() + self.patterns.len()
    }

    /// Bytes of memory that their names take.
    pub fn held_bytes(&self) -> usize {
        self.bytes
    }

    /// What it has subscribed to.
    pub fn subscribed(&self) -> Subscribed {
        [self.channels.clone(), self.patterns.clone()]
    }

    fn names(&mut self, patterns: bool) -> &mut BTreeSet<Vec<u8>> {
        if patterns { &mut self.patterns } else { &mut self.channels }
    }

    /// Subscribes to a channel, or to a pattern.
    pub fn subscribe(&mut self, name: &[u8], patterns: bool) {
        if self.names(patterns).insert(name.to_vec()) {
            self.bytes += 2 * name.len() + SUBSCRIPTION_BYTES;
            let mut inner = self.all.inner.lock();
            let subscribers = inner.of(patterns).entry(name.to_vec()).or_default();
            subscribers.push(Arc::clone(&self.mailbox));
        }
    }

    /// Has subscribed to it no more.
    pub fn unsubscribe(&mut self, name: &[u8], patterns: bool) {
        if self.names(patterns).remove(name) {
            self.bytes -= 2 * name.len() + SUBSCRIPTION_BYTES;
            self.forget(name, patterns);
        }
    }

    fn forget(&self, name: &[u8], patterns: bool) {
        let mut inner = self.all.inner.lock();
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
