//! A snapshot on its way: the dump of the state at one moment, in parts, while writers go on.
//!
//! The moment may be later than the index that openraft had in mind, since the state is dumped as
//! it is now. The receiver reads from what it has restored how far it goes. A dump that is cut off
//! is known by its missing end, and leaves nothing behind.

use std::io::{self, BufReader, BufWriter, Cursor, ErrorKind, Read, Write};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until, timeout};

use crate::Raft;
use crate::install::install;
use crate::log::Log;
use crate::peer::counters::Counters;
use crate::peer::message::{Reply, Request};
use crate::peer::stream::Link;
use crate::peer::wire::{Kind, damaged, encode, read_frame};
use crate::snapshot::SnapshotData;
use crate::state::State;
use crate::types::{C, Vote};

const PART: usize = 256 << 10;
/// Parts that wait between the disk and the network.
const WAITING: usize = 4;
/// How long a part may take.
const STALLED: Duration = Duration::from_secs(60);
/// How long the receiver may take to sync what it has got and to make it its state.
const INSTALLATION: Duration = Duration::from_secs(600);

/// Sends the state, with no more than `rate` bytes a second, and waits until it is installed.
///
/// # Errors
/// As the system reports; that of the dump.
pub async fn send(
    link: &mut Link,
    vote: Vote,
    data: SnapshotData,
    rate: Option<u64>,
    counters: &Counters,
) -> io::Result<Reply> {
    link.send(Kind::Message, &encode(&Request::Snapshot { vote })?).await?;
    let (parts, mut made) = mpsc::channel(WAITING);
    let dump = spawn_blocking(move || {
        data.send(BufWriter::with_capacity(PART, Parts(parts))).map_err(io::Error::other)
    });
    let (begin, mut sent) = (Instant::now(), 0);
    while let Some(part) = made.recv().await {
        timeout(STALLED, link.send(Kind::Part, &part)).await??;
        sent += part.len() as u64;
        Counters::add(&counters.snapshot_bytes_sent, part.len() as u64);
        if let Some(rate) = rate {
            sleep_until(begin + Duration::from_secs_f64(sent as f64 / rate.max(1) as f64)).await;
        }
    }
    dump.await.map_err(io::Error::other)??;
    link.send(Kind::Part, &[]).await?;
    timeout(INSTALLATION, link.reply()).await?
}

/// Receives what [`send`] sends, and gives it to openraft.
///
/// # Errors
/// As the system reports, and what is no snapshot.
pub async fn receive(
    link: &mut Link,
    raft: &Raft,
    (log, state): (&Log<C>, &State),
    vote: Vote,
    counters: &Counters,
) -> io::Result<Reply> {
    let (parts, came) = mpsc::channel(WAITING);
    let state = state.clone();
    let restore = spawn_blocking(move || {
        state.receive(BufReader::new(Came { parts: came, part: Cursor::default() }))
    });
    let copied = copy_parts(link, parts, counters).await;
    let restored = restore.await.map_err(io::Error::other)?;
    copied?; // What was restored, if anything was, is dropped.
    let snapshot = match restored {
        Ok(snapshot) => snapshot,
        Err(error) => return Ok(Reply::Failed(format!("a snapshot was not restored: {error}"))),
    };
    Counters::add(&counters.snapshots_received, 1);
    match install(raft, log, vote, snapshot).await {
        Ok(vote) => Ok(Reply::Snapshot { vote }),
        Err(error) => Ok(Reply::Failed(format!("a snapshot was not installed: {error}"))),
    }
}

/// Hands on parts until the empty one; one who does not take them has failed, and says so itself.
async fn copy_parts(
    link: &mut Link,
    parts: mpsc::Sender<Vec<u8>>,
    counters: &Counters,
) -> io::Result<()> {
    let mut is_taken = true;
    loop {
        let frame = timeout(STALLED, read_frame(&mut link.stream, PART)).await??;
        if frame.kind != Kind::Part {
            return Err(damaged("something else came in the middle of a snapshot"));
        }
        if frame.body.is_empty() {
            return Ok(());
        }
        Counters::add(&counters.snapshot_bytes_received, frame.body.len() as u64);
        is_taken = is_taken && parts.send(frame.body).await.is_ok();
    }
}

/// Writes parts.
struct Parts(mpsc::Sender<Vec<u8>>);

impl Write for Parts {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let part = &bytes[..bytes.len().min(PART)];
        match self.0.blocking_send(part.to_vec()) {
            Ok(()) => Ok(part.len()),
            Err(_) => Err(ErrorKind::BrokenPipe.into()), // The network has failed.
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads parts.
struct Came {
    parts: mpsc::Receiver<Vec<u8>>,
    part: Cursor<Vec<u8>>,
}

impl Read for Came {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.part.position() == self.part.get_ref().len() as u64 {
            match self.parts.blocking_recv() {
                Some(part) => self.part = Cursor::new(part),
                None => return Ok(0),
            }
        }
        self.part.read(buffer)
    }
}
