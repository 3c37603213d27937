//! memcached's connections, and the sockets that they come from: what `stats conns` tells of them.
//!
//! Of each there is one entry, which its own thread writes to when it has answered what came.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU64};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::clients::Ends;

/// What a connection is doing, in the words of memcached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Others come from it.
    Listening,
    /// Nothing was answered yet.
    New,
    /// It waits for a request, or for the rest of a line.
    Read,
    /// It waits for the rest of a value.
    Value,
    /// It waits for the rest of a value that was refused.
    Swallow,
    /// A request waits for a script.
    Waiting,
    /// There is more to be answered.
    Parse,
    /// It ends.
    Closing,
}

impl State {
    const ALL: [Self; 8] = [
        Self::Listening,
        Self::New,
        Self::Read,
        Self::Value,
        Self::Swallow,
        Self::Waiting,
        Self::Parse,
        Self::Closing,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Listening => "conn_listening",
            Self::New => "conn_new_cmd",
            Self::Read => "conn_read",
            Self::Value => "conn_nread",
            Self::Swallow => "conn_swallow",
            Self::Waiting => "conn_waiting",
            Self::Parse => "conn_parse_cmd",
            Self::Closing => "conn_closing",
        }
    }
}

struct Connection {
    ends: Ends,
    began: Instant,
    /// By its place among all.
    state: AtomicU8,
    /// Milliseconds since it began when it was last answered.
    last_ms: AtomicU64,
    /// Bytes of replies that it has not taken.
    unsent: AtomicU64,
}

/// All of them.
#[derive(Default)]
pub struct Connections {
    last_id: AtomicU64,
    all: Mutex<BTreeMap<u64, Arc<Connection>>>,
}

/// An entry; dropped, the connection is gone.
pub struct Connected {
    all: Arc<Connections>,
    id: u64,
    own: Arc<Connection>,
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.all.all.lock().remove(&self.id);
    }
}

impl Connected {
    /// It was answered at this moment, and does this now.
    pub fn tell(&self, now: Instant, state: State) {
        self.own.state.store(state as u8, Relaxed);
        let ms = now.saturating_duration_since(self.own.began).as_millis();
        self.own.last_ms.store(u64::try_from(ms).unwrap_or(u64::MAX), Relaxed);
    }

    /// Whether nothing was answered yet.
    pub fn is_new(&self) -> bool {
        self.own.state.load(Relaxed) == State::New as u8
    }

    /// Bytes of replies that it has not taken.
    pub fn set_unsent(&self, bytes: usize) {
        self.own.unsent.store(bytes as u64, Relaxed);
    }
}

/// An address as memcached writes it.
fn written(address: &str) -> String {
    match address.parse::<SocketAddr>() {
        Ok(address @ SocketAddr::V4(_)) => format!("tcp:{address}"),
        Ok(address @ SocketAddr::V6(_)) => format!("tcp6:{address}"),
        Err(_) => format!("unix:{}", address.strip_suffix(":0").unwrap_or(address)),
    }
}

impl Connections {
    /// A connection that has come, or a socket that is listened to.
    pub fn enter(self: &Arc<Self>, ends: Ends, state: State) -> Connected {
        let own = Arc::new(Connection {
            ends,
            began: Instant::now(),
            state: AtomicU8::new(state as u8),
            last_ms: AtomicU64::new(0),
            unsent: AtomicU64::new(0),
        });
        let id = self.last_id.fetch_add(1, Relaxed);
        self.all.lock().insert(id, Arc::clone(&own));
        Connected { all: Arc::clone(self), id, own }
    }

    /// The lines of `stats conns`, in the order of their files; the one that asks is at work.
    pub fn tell(&self, asks: Option<&Connected>, out: &mut String) {
        let mut all: Vec<(u64, Arc<Connection>)> =
            self.all.lock().iter().map(|(id, connection)| (*id, Arc::clone(connection))).collect();
        all.sort_by_key(|(_, connection)| connection.ends.file);
        for (id, Connection { ends, began, state, last_ms, unsent }) in
            all.iter().map(|(id, connection)| (id, &**connection))
        {
            let is_asking = asks.is_some_and(|asks| asks.id == *id);
            let state = State::ALL.get(usize::from(state.load(Relaxed))).copied();
            let name = match state.unwrap_or(State::Read) {
                _ if is_asking => State::Parse.name(),
                State::Listening => State::Listening.name(),
                _ if unsent.load(Relaxed) > 0 => "conn_mwrite",
                state => state.name(),
            };
            let last = Duration::from_millis(last_ms.load(Relaxed));
            let idle = began.elapsed().saturating_sub(last).as_secs();
            let mut line = |what: &str, value: &str| {
                // Writing to a string does not fail.
                let _ = write!(out, "STAT {}:{what} {value}\r\n", ends.file);
            };
            line("addr", &written(&ends.peer));
            if state != Some(State::Listening) {
                line("listen_addr", &written(&ends.local));
            }
            line("state", name);
            line("secs_since_last_cmd", &if is_asking { 0 } else { idle }.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_told_as_long_as_they_live() {
        let all = Arc::<Connections>::default();
        let ends = |file, peer: &str| Ends { file, peer: peer.to_owned(), local: "[::1]:2".into() };
        let told = |asks: &Connected| {
            let mut told = String::new();
            all.tell(Some(asks), &mut told);
            told
        };
        let asks = all.enter(ends(9, "127.0.0.1:1"), State::New);
        let other = all.enter(ends(8, "/run/one:0"), State::New);
        let lines = "STAT 9:addr tcp:127.0.0.1:1\r\nSTAT 9:listen_addr tcp6:[::1]:2\r\n\
                     STAT 9:state conn_parse_cmd\r\nSTAT 9:secs_since_last_cmd 0\r\n";
        let first = "STAT 8:addr unix:/run/one\r\nSTAT 8:listen_addr tcp6:[::1]:2\r\nSTAT 8:state ";
        let last = "\r\nSTAT 8:secs_since_last_cmd 0\r\n";
        for state in State::ALL.into_iter().skip(1) {
            other.tell(Instant::now(), state);
            assert_eq!(told(&asks), format!("{first}{}{last}{lines}", state.name()));
        }
        other.set_unsent(1);
        assert_eq!(told(&asks), format!("{first}conn_mwrite{last}{lines}"));
        drop(other);
        assert_eq!(told(&asks), lines);
    }
}
