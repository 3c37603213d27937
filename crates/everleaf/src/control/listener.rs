//! The owner's threads: one that listens, and one for each connection.

use std::io::{self, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle, Scope};
use std::time::Duration;

use parking_lot::Mutex;

use super::answer::converse;
use super::socket::{Socket, is_trusted};
use super::wire::{Hello, PROTOCOL, Refusal, send};
use crate::core::backend::Backend;

/// Connections at once.
pub(super) const CONNECTIONS: usize = 16;
/// An asker that for so long neither reads nor asks is given up: before, it may be waiting for a
/// disk, or for a person who reads.
pub(super) const PATIENCE: Duration = Duration::from_secs(600);
/// Before the socket is asked again, when the system has refused a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// Answers other processes until it is dropped.
pub struct Listener {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    socket: Socket,
    ending: AtomicBool,
    patience: Duration,
    /// The connections, each in its place.
    streams: Mutex<[Option<Arc<UnixStream>>; CONNECTIONS]>,
}

impl Listener {
    /// Begins to answer; why not, if it cannot.
    pub fn start(
        socket: Socket,
        backend: Arc<dyn Backend>,
        patience: Duration,
    ) -> Result<Self, String> {
        let (ending, streams) = (AtomicBool::new(false), Mutex::default());
        let shared = Arc::new(Shared { socket, ending, patience, streams });
        let listening = Arc::clone(&shared);
        let thread = Builder::new()
            .name("control".into())
            .spawn(move || std::thread::scope(|scope| listening.listen(&backend, scope)))
            .map_err(|error| format!("a thread cannot be started: {error}"))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Connections that have a place.
    #[cfg(test)]
    pub fn connections(&self) -> usize {
        self.shared.streams.lock().iter().flatten().count()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.shared.ending.store(true, Ordering::Release);
        // It wakes the thread that listens; and then those that wait for askers.
        let _ = rustix::net::shutdown(&self.shared.socket.listener, rustix::net::Shutdown::Both);
        for stream in self.shared.streams.lock().iter().flatten() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // A panic there has been reported on stderr.
        }
    }
}

impl Shared {
    fn listen<'s>(&'s self, backend: &'s Arc<dyn Backend>, scope: &'s Scope<'s, '_>) {
        while !self.ending.load(Ordering::Acquire) {
            let admitted = match self.socket.listener.accept() {
                Ok((stream, _)) => self.admit(stream),
                // Of files, for instance, there are too many.
                Err(_) if !self.ending.load(Ordering::Acquire) => {
                    std::thread::sleep(PAUSE);
                    continue;
                }
                Err(_) => return,
            };
            let Some(stream) = admitted else { continue };
            let answer = move || {
                let stream = stream; // Whole: it has the place.
                // Whatever ends it: the asker is told by the end of the connection.
                let _ = converse(backend, &stream.stream, &self.ending);
            };
            // Without a thread it ends at once.
            let _ = Builder::new().name("control".into()).spawn_scoped(scope, answer);
        }
    }

    /// Gives a connection a place, if there is one.
    fn admit(&self, stream: UnixStream) -> Option<Admitted<'_>> {
        if !is_trusted(&stream) {
            return None;
        }
        stream.set_read_timeout(Some(self.patience)).ok()?;
        stream.set_write_timeout(Some(self.patience)).ok()?;
        let mut streams = self.streams.lock();
        if self.ending.load(Ordering::Acquire) {
            return None;
        }
        let Some(place) = streams.iter().position(Option::is_none) else {
            let _ = refuse(&stream); // It sees the end of the connection then.
            return None;
        };
        let stream = Arc::new(stream);
        streams[place] = Some(Arc::clone(&stream));
        Some(Admitted { shared: self, place, stream })
    }
}

/// A connection that has a place until this is dropped, however it ends.
struct Admitted<'s> {
    shared: &'s Shared,
    place: usize,
    stream: Arc<UnixStream>,
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        self.shared.streams.lock()[self.place] = None;
    }
}

/// Tells an asker that there is no place for it. Nothing was sent before, so this does not wait.
fn refuse(mut stream: &UnixStream) -> io::Result<()> {
    let why = format!("{CONNECTIONS} others ask it; try again when one of them has ended");
    let mut line = Vec::new();
    let pool: Result<(), _> = Err(Refusal::of(why));
    send(&mut line, &Hello { protocol: PROTOCOL, pool })?;
    stream.write_all(&line)
}
