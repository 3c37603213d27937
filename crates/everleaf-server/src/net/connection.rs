//! One connection: read, answer all that came, send the replies at once.
//!
//! While replies are sent nothing is read, so a client that does not read its replies stops being
//! read itself. What a connection holds is bounded by its limit of replies, by one request, and,
//! for all connections together, by the limit of requests that have not come to their end. A
//! connection that is idle holds no buffer. Replies are held until what they tell is durable.

use std::cell::RefCell;
use std::future::{pending, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use everleaf::Unsynced;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::sync::{Notify, watch};
use tracing::warn;

use super::{Served, Session, Then, syncer};
use crate::shared::Shared;

/// Bytes that one read takes.
const READ_BYTES: usize = 64 << 10;
/// Buffers up to this size stay with an idle connection.
const KEPT_BYTES: usize = 4 << 10;
/// How long a connection that ends waits for its client to see the last reply.
const LINGER: Duration = Duration::from_secs(1);

thread_local! {
    /// What is read goes here first, so that no connection needs room while nothing comes.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

/// Appends what has come; 0 at the end.
pub(super) async fn read(
    stream: &mut (impl AsyncRead + Unpin),
    input: &mut Vec<u8>,
) -> io::Result<usize> {
    poll_fn(|context| {
        SCRATCH.with_borrow_mut(|scratch| {
            let mut buffer = ReadBuf::new(scratch);
            match Pin::new(&mut *stream).poll_read(context, &mut buffer) {
                Poll::Ready(Ok(())) => {
                    input.extend_from_slice(buffer.filled());
                    Poll::Ready(Ok(buffer.filled().len()))
                }
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                Poll::Pending => Poll::Pending,
            }
        })
    })
    .await
}

/// The same within a time, if there is a limit; none after it. Every byte begins it anew, and what
/// is waited for here is the client's turn: one that is slow in reading is not idle.
async fn read_within(
    stream: &mut (impl AsyncRead + Unpin),
    input: &mut Vec<u8>,
    limit: Option<Duration>,
) -> io::Result<Option<usize>> {
    let Some(limit) = limit else { return read(stream, input).await.map(Some) };
    match tokio::time::timeout(limit, read(stream, input)).await {
        Ok(came) => came.map(Some),
        Err(_) => Ok(None),
    }
}

/// Speaks with a client until one of the two ends it, or `stop` says that the server stops.
pub async fn run(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    mut session: impl Session,
    shared: Arc<Shared>,
    mut stop: watch::Receiver<bool>,
) -> io::Result<()> {
    let (mut input, mut out) = (Vec::new(), Vec::new());
    let mut room = shared.requests.part();
    let notify = session.notify();
    let (mut start, mut is_long) = (0, false);
    loop {
        let store = shared.data.store();
        let (served, unsynced) = if std::mem::take(&mut is_long) {
            let served;
            (session, input, out, served) =
                elsewhere(session, (input, start), out, &shared).await?;
            served
        } else {
            store.unsynced(|| session.serve(&input[start..], &mut out))
        };
        let Served { consumed, then } = served;
        if !syncer::durable(unsynced).await {
            return Ok(()); // No reply is sent that may not be true after a power failure.
        }
        start += consumed;
        shared.counters.bytes_read.add(consumed as u64);
        if !send(&mut stream, &out, &session, notify.as_deref()).await? {
            warn!("closed a connection: messages for it take too much room");
            return Ok(());
        }
        shared.counters.bytes_written.add(out.len() as u64);
        clear(&mut out);
        match then {
            Then::Close => return linger(stream).await,
            Then::Write | Then::Long => {
                is_long = then == Then::Long;
                tokio::task::yield_now().await;
                continue;
            }
            Then::Read | Then::Wait(_) => {}
        }
        keep_rest(&mut input, &mut start);
        // What one read may bring is not counted, so that only what waits for more is.
        let held = input.len() + session.held_bytes();
        if !room.set(if held > READ_BYTES { held as u64 } else { 0 }) {
            warn!("closed a connection: unfinished requests take too much room");
            return Ok(());
        }
        if *stop.borrow() {
            return linger(stream).await;
        }
        let (deadline, idle) = match then {
            Then::Wait(deadline) => (deadline, None), // Who waits is not idle.
            _ => (None, shared.settings.idle()),
        };
        tokio::select! {
            biased; // A client that is gone is not served.
            came = read_within(&mut stream, &mut input, idle) => match came? {
                None => {
                    shared.counters.idle_connections.add(1);
                    return Ok(());
                }
                Some(0) => return Ok(()),
                Some(_) => {}
            },
            () = notified(notify.as_deref()) => {}
            () = at(deadline) => {}
            _ = stop.changed() => {}
        }
    }
}

/// Serves on a thread that no other connection waits for.
async fn elsewhere<S: Session>(
    mut session: S,
    (input, start): (Vec<u8>, usize),
    mut out: Vec<u8>,
    shared: &Arc<Shared>,
) -> io::Result<(S, Vec<u8>, Vec<u8>, (Served, Unsynced))> {
    let shared = Arc::clone(shared);
    let serve = move || {
        let store = shared.data.store();
        let served = store.unsynced(|| session.serve_long(&input[start..], &mut out));
        (session, input, out, served)
    };
    // A panic there ends the connection, as one here does.
    tokio::task::spawn_blocking(serve).await.map_err(io::Error::other)
}

async fn notified(notify: Option<&Notify>) {
    match notify {
        Some(notify) => notify.notified().await,
        None => pending().await,
    }
}

async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => pending().await,
    }
}

/// Moves what is not answered to the front.
fn keep_rest(input: &mut Vec<u8>, start: &mut usize) {
    input.drain(..*start);
    *start = 0;
    if input.is_empty() && input.capacity() > KEPT_BYTES {
        *input = Vec::new();
    }
}

/// Sends all, unless what waits for the client meanwhile becomes too much: whether it did.
pub(super) async fn send(
    stream: &mut (impl AsyncWrite + Unpin),
    out: &[u8],
    session: &impl Session,
    notify: Option<&Notify>,
) -> io::Result<bool> {
    if out.is_empty() {
        return Ok(true);
    }
    let mut write = pin!(async {
        stream.write_all(out).await?;
        stream.flush().await // TLS may hold some of it back.
    });
    // Mostly the socket takes all at once.
    if let Poll::Ready(sent) = poll_fn(|context| Poll::Ready(write.as_mut().poll(context))).await {
        return sent.map(|()| true);
    }
    let mut is_notified = false;
    loop {
        tokio::select! {
            biased;
            sent = &mut write => {
                // What it was told meanwhile is looked at afterwards.
                notify.filter(|_| is_notified).into_iter().for_each(Notify::notify_one);
                return sent.map(|()| true);
            }
            () = notified(notify) => {
                is_notified = true;
                if session.is_lost() {
                    return Ok(false);
                }
            }
        }
    }
}

/// Empties a buffer, of which an idle connection keeps little.
fn clear(out: &mut Vec<u8>) {
    out.clear();
    if out.capacity() > KEPT_BYTES {
        *out = Vec::new();
    }
}

/// Ends a connection so that the last reply is seen: closing a socket that holds bytes that were
/// not read would take it back.
pub(super) async fn linger(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
    stream.shutdown().await?;
    let mut ignored = Vec::new();
    let drain = async {
        while read(&mut stream, &mut ignored).await.is_ok_and(|bytes| bytes > 0) {
            ignored.clear();
        }
    };
    let _ = tokio::time::timeout(LINGER, drain).await; // Whether it was seen is the client's.
    Ok(())
}
