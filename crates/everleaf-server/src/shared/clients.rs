//! Redis clients that are connected: what CLIENT tells of them, and what one does to another.
//!
//! Of each connection there is one entry, which its own thread writes to when it has answered what
//! came: some words of memory that no other connection writes to.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::channels::Mailbox;
use crate::memory::MemoryBudget;

/// What a client is doing, by the letters that CLIENT LIST shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u64);

impl Flags {
    /// The letters, in the order in which they are shown; a flag is a bit at its place.
    const LETTERS: &[u8] = b"OPxbtRBdcUeT";

    /// With one more letter, if it is so.
    pub fn with(self, letter: u8, is_so: bool) -> Self {
        let at = Self::LETTERS.iter().position(|other| *other == letter);
        Self(self.0 | at.map_or(0, |at| u64::from(is_so) << at))
    }

    /// Whether it has this letter.
    pub fn has(self, letter: u8) -> bool {
        self == self.with(letter, true)
    }

    fn text(self) -> String {
        let letters = Self::LETTERS.iter().map(|letter| *letter as char);
        let text: String = letters.filter(|letter| self.has(*letter as u8)).collect();
        if text.is_empty() { "N".to_owned() } else { text }
    }
}

/// Where a client is.
#[derive(Clone, Debug, Default)]
pub struct Ends {
    /// Its own address.
    pub peer: String,
    /// The one that it has connected to.
    pub local: String,
    /// The file of the connection.
    pub file: i32,
}

/// What a client has said of itself.
#[derive(Clone, Debug, Default)]
pub struct Words {
    /// CLIENT SETNAME.
    pub name: Vec<u8>,
    /// CLIENT SETINFO LIB-NAME.
    pub library: Vec<u8>,
    /// CLIENT SETINFO LIB-VER.
    pub version: Vec<u8>,
}

impl Words {
    /// How many bytes they have.
    pub fn len(&self) -> usize {
        self.name.len() + self.library.len() + self.version.len()
    }
}

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Numbers that a connection tells of itself.
        #[derive(Clone, Copy, Debug, Default)]
        pub struct Numbers {
            $($(#[$doc])* pub $name: u64,)*
        }

        #[derive(Debug, Default)]
        struct Told {
            $($name: AtomicU64,)*
        }

        impl Told {
            fn set(&self, numbers: &Numbers) {
                $(self.$name.store(numbers.$name, Relaxed);)*
            }

            fn get(&self) -> Numbers {
                Numbers { $($name: self.$name.load(Relaxed),)* }
            }
        }
    };
}

numbers! {
    /// [`Flags`].
    flags,
    /// The database that is selected.
    database,
    /// Channels that it has subscribed to.
    channels,
    /// The same of patterns.
    patterns,
    /// Commands that wait for EXEC and one more; 0: there is no transaction.
    queued,
    /// Bytes of these.
    queued_bytes,
    /// Bytes that came and are not answered.
    input_bytes,
    /// Bytes that it holds for requests beside these.
    held_bytes,
    /// The last command, by its place among the names.
    command,
    /// Where invalidations go, and one more; 0: it tracks nothing.
    redirect,
    /// The version of the protocol.
    protocol,
}

/// How a client is to be unblocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unblocked {
    /// As if its time were over.
    Timeout,
    /// With an error.
    Error,
}

const RUNS: u8 = 0;
const BLOCKED: u8 = 1;
const TIMED_OUT: u8 = 2;
const REFUSED: u8 = 3;

/// A client.
pub struct Client {
    /// Its number, which no other client ever has.
    pub id: u64,
    /// Tells its connection that there is something to do.
    pub notify: Arc<Notify>,
    /// Messages for it.
    pub mailbox: Arc<Mailbox>,
    began: Instant,
    ends: Mutex<Ends>,
    words: Mutex<Words>,
    told: Told,
    /// Milliseconds since it began when it was last answered.
    last_ms: AtomicU64,
    /// Bytes of replies that it has not taken.
    unsent: AtomicU64,
    is_killed: AtomicBool,
    /// Whether it waits for something, and whether that is to end.
    blocked: AtomicU8,
    /// Whether it waits until clients are paused no more.
    is_paused: AtomicBool,
}

impl Client {
    /// Says where it is.
    pub fn set_ends(&self, ends: Ends) {
        *self.ends.lock() = ends;
    }

    /// Its own address.
    pub fn peer(&self) -> String {
        self.ends.lock().peer.clone()
    }

    /// What it has said of itself; `change` may change it.
    pub fn words<R>(&self, change: impl FnOnce(&mut Words) -> R) -> R {
        change(&mut self.words.lock())
    }

    /// It was answered at this moment, and this is true of it now.
    pub fn tell(&self, now: Instant, numbers: &Numbers) {
        self.told.set(numbers);
        let ms = now.saturating_duration_since(self.began).as_millis();
        self.last_ms.store(u64::try_from(ms).unwrap_or(u64::MAX), Relaxed);
    }

    /// Bytes of replies that it has not taken.
    pub fn set_unsent(&self, bytes: usize) {
        self.unsent.store(bytes as u64, Relaxed);
    }

    /// Its connection is to end.
    pub fn kill(&self) {
        self.is_killed.store(true, Release);
        self.notify.notify_one();
    }

    /// Whether its connection is to end.
    pub fn is_killed(&self) -> bool {
        self.is_killed.load(Acquire)
    }

    // ---- waiting
    // ---------------------------------------------------------------------------------------------

    /// What it is doing, as it has told.
    pub fn told_flags(&self) -> Flags {
        Flags(self.told.flags.load(Relaxed))
    }

    /// It waits for something, or no more.
    pub fn set_blocked(&self, is_blocked: bool) {
        if is_blocked {
            // What was asked for meanwhile is still to be done.
            let _ = self.blocked.compare_exchange(RUNS, BLOCKED, AcqRel, Relaxed);
        } else if self.blocked.load(Relaxed) != RUNS {
            self.blocked.store(RUNS, Relaxed);
        }
    }

    /// Ends its waiting; false: it waits for nothing.
    pub fn unblock(&self, how: Unblocked) -> bool {
        let asked = if how == Unblocked::Error { REFUSED } else { TIMED_OUT };
        let was_blocked = self.blocked.compare_exchange(BLOCKED, asked, AcqRel, Relaxed).is_ok();
        if was_blocked {
            self.notify.notify_one();
        }
        was_blocked
    }

    /// Whether its waiting is to end, as somebody has asked for once.
    pub fn take_unblocked(&self) -> Option<Unblocked> {
        let asked = self.blocked.load(Acquire);
        let how = match asked {
            TIMED_OUT => Unblocked::Timeout,
            REFUSED => Unblocked::Error,
            _ => return None,
        };
        self.blocked.store(BLOCKED, Relaxed);
        Some(how)
    }

    // ---- telling
    // ---------------------------------------------------------------------------------------------

    fn is_of(&self, kind: ClientKind) -> bool {
        let numbers = self.told.get();
        let flags = Flags(numbers.flags);
        match kind {
            ClientKind::Normal => !flags.has(b'P') && !flags.has(b'O'),
            ClientKind::Pubsub => flags.has(b'P'),
            ClientKind::Replica => flags.has(b'O'),
            ClientKind::Master => false,
        }
    }

    /// The line of CLIENT LIST; `name_of` tells the names of commands.
    pub fn line(&self, name_of: impl Fn(usize) -> String) -> String {
        let (numbers, ends) = (self.told.get(), self.ends.lock().clone());
        let words = self.words.lock().clone();
        let age = self.began.elapsed();
        let idle = age.saturating_sub(Duration::from_millis(self.last_ms.load(Relaxed)));
        let unsent = self.unsent.load(Relaxed);
        let Numbers { flags, database, channels, patterns, queued, queued_bytes, .. } = numbers;
        let Numbers { input_bytes, held_bytes, command, redirect, protocol, .. } = numbers;
        let own = held_bytes + queued_bytes + words.len() as u64;
        let mut line = format!(
            "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} db={database} \
             sub={channels} psub={patterns} ssub=0 multi={} qbuf={input_bytes} qbuf-free=0 \
             argv-mem={held_bytes} multi-mem={queued_bytes} rbs=0 rbp=0 obl=0 oll={} \
             omem={unsent} tot-mem={} events=r cmd={} user=default redir={} resp={}",
            self.id,
            ends.peer,
            ends.local,
            ends.file,
            words.name.escape_ascii(),
            age.as_secs(),
            idle.as_secs(),
            Flags(flags).text(),
            queued as i64 - 1,
            u8::from(unsent > 0),
            size_of::<Self>() as u64 + own + input_bytes + unsent,
            name_of(command as usize),
            redirect as i64 - 1,
            protocol.max(2),
        );
        for (key, word) in [("lib-name", &words.library), ("lib-ver", &words.version)] {
            if !word.is_empty() {
                // Writing to a string does not fail.
                let _ = write!(line, " {key}={}", word.escape_ascii());
            }
        }
        line
    }
}

/// Kinds of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientKind {
    /// Those that ask.
    Normal,
    /// Those that have subscribed to something.
    Pubsub,
    /// Replicas, as which Redis counts who monitors.
    Replica,
    /// There is none.
    Master,
}

/// Which clients are meant.
#[derive(Clone, Debug, Default)]
pub struct Chosen {
    /// By number.
    pub id: Option<u64>,
    /// By their own address.
    pub peer: Option<Vec<u8>>,
    /// By the address that they have connected to.
    pub local: Option<Vec<u8>>,
    /// By kind.
    pub kind: Option<ClientKind>,
}

impl Chosen {
    fn has(&self, client: &Client) -> bool {
        let ends = client.ends.lock();
        let same = |asked: &Option<Vec<u8>>, there: &str| {
            asked.as_ref().is_none_or(|asked| *asked == there.as_bytes())
        };
        // One that was ended is gone, though its connection may take a moment to be.
        !client.is_killed()
            && self.id.is_none_or(|id| id == client.id)
            && same(&self.peer, &ends.peer)
            && same(&self.local, &ends.local)
            && self.kind.is_none_or(|kind| client.is_of(kind))
    }
}

/// Which commands wait while clients are paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Paused {
    /// Those that may write.
    Writes,
    /// All.
    Everything,
}

/// All clients.
#[derive(Default)]
pub struct Clients {
    last_id: AtomicU64,
    all: Mutex<BTreeMap<u64, Arc<Client>>>,
    /// Whether clients may be paused: looked at for each command.
    may_pause: AtomicBool,
    paused: Mutex<Option<(Paused, Instant)>>,
    /// How many wait for the end of it.
    waiting: AtomicU64,
}

/// An entry; dropped, the client is gone.
pub struct Entry {
    all: Arc<Clients>,
    client: Arc<Client>,
}

impl std::ops::Deref for Entry {
    type Target = Arc<Client>;

    fn deref(&self) -> &Arc<Client> {
        &self.client
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.all.all.lock().remove(&self.client.id);
        if self.client.is_paused.load(Relaxed) {
            self.all.waiting.fetch_sub(1, Relaxed);
        }
    }
}

impl Clients {
    /// A client that has connected; messages for it are taken of `messages`.
    pub fn enter(self: &Arc<Self>, messages: &Arc<MemoryBudget>) -> Entry {
        let notify = Arc::<Notify>::default();
        let client = Arc::new(Client {
            id: self.last_id.fetch_add(1, Relaxed) + 1,
            mailbox: Arc::new(Mailbox::new(&notify, messages.reserve())),
            notify,
            began: Instant::now(),
            ends: Mutex::default(),
            words: Mutex::default(),
            told: Told::default(),
            last_ms: AtomicU64::new(0),
            unsent: AtomicU64::new(0),
            is_killed: AtomicBool::new(false),
            blocked: AtomicU8::new(RUNS),
            is_paused: AtomicBool::new(false),
        });
        self.all.lock().insert(client.id, Arc::clone(&client));
        Entry { all: Arc::clone(self), client }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.all.lock().values().filter(|client| !client.is_killed()).count()
    }

    /// The client of a number.
    pub fn get(&self, id: u64) -> Option<Arc<Client>> {
        self.all.lock().get(&id).filter(|client| !client.is_killed()).cloned()
    }

    /// Those that are meant, in the order in which they came.
    pub fn chosen(&self, chosen: &Chosen) -> Vec<Arc<Client>> {
        self.all.lock().values().filter(|client| chosen.has(client)).cloned().collect()
    }

    /// How many have a flag.
    pub fn with_flag(&self, letter: u8) -> usize {
        let has = |client: &&Arc<Client>| Flags(client.told.flags.load(Relaxed)).has(letter);
        self.all.lock().values().filter(has).count()
    }

    // ---- pausing
    // ---------------------------------------------------------------------------------------------

    /// Lets commands wait until `end`. It takes nothing back of a pause that has not ended.
    pub fn pause(&self, paused: Paused, end: Instant) {
        let before = self.paused();
        let longest = |before: (Paused, Instant)| (before.0.max(paused), before.1.max(end));
        *self.paused.lock() = Some(before.map_or((paused, end), longest));
        self.may_pause.store(true, Release);
        self.wake_paused(); // They wait for another time.
    }

    /// Lets them go on. A client says that it waits and then looks whether it must; this says that
    /// nobody must and then looks who waits. All four have one order, so one sees the other.
    pub fn unpause(&self) {
        *self.paused.lock() = None;
        self.may_pause.store(false, SeqCst);
        self.wake_paused();
    }

    fn wake_paused(&self) {
        let all = self.all.lock();
        let waiting = all.values().filter(|client| client.is_paused.load(SeqCst));
        waiting.for_each(|client| client.notify.notify_one());
    }

    /// What waits now, and until when.
    pub fn paused(&self) -> Option<(Paused, Instant)> {
        if !self.may_pause.load(SeqCst) {
            return None;
        }
        let mut paused = self.paused.lock();
        if paused.is_some_and(|(_, end)| end <= Instant::now()) {
            *paused = None;
        }
        if paused.is_none() {
            self.may_pause.store(false, Release);
        }
        *paused
    }

    /// A client waits for the end of the pause, or no more.
    pub fn set_paused(&self, client: &Client, is_paused: bool) {
        if client.is_paused.load(Relaxed) == is_paused {
            return;
        }
        client.is_paused.store(is_paused, SeqCst);
        if is_paused {
            self.waiting.fetch_add(1, Relaxed);
        } else {
            self.waiting.fetch_sub(1, Relaxed);
        }
    }

    /// How many wait for the end of the pause.
    pub fn count_paused(&self) -> u64 {
        self.waiting.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_is_unblocked_once_and_who_does_not_is_left() {
        let clients = Arc::<Clients>::default();
        let client = clients.enter(&MemoryBudget::of(1 << 20));
        assert!(!client.unblock(Unblocked::Timeout));
        client.set_blocked(true);
        assert!(client.unblock(Unblocked::Error) && !client.unblock(Unblocked::Error));
        client.set_blocked(true);
        assert_eq!(client.take_unblocked(), Some(Unblocked::Error));
        assert_eq!(client.take_unblocked(), None);
        client.set_blocked(false);
        assert!(!client.unblock(Unblocked::Timeout));
    }

    #[test]
    fn a_client_is_known_as_long_as_its_entry_lives() {
        let clients = Arc::<Clients>::default();
        let budget = MemoryBudget::of(1 << 20);
        let (first, second) = (clients.enter(&budget), clients.enter(&budget));
        assert_eq!((first.id, second.id, clients.count()), (1, 2, 2));
        clients.set_paused(&first, true);
        assert_eq!(clients.count_paused(), 1);
        drop(first);
        assert_eq!((clients.count(), clients.count_paused()), (1, 0));
        assert!(clients.get(1).is_none() && clients.get(2).is_some());
    }

    #[test]
    fn flags_are_shown_in_their_order() {
        assert_eq!(Flags::default().text(), "N");
        assert_eq!(Flags::default().with(b'b', true).with(b'P', true).text(), "Pb");
        assert_eq!(Flags::default().with(b'x', false).text(), "N");
    }
}
