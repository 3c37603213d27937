//! One connection: read, answer all that came, send the replies at once.
//!
//! What a client does not take waits (`unsent.rs`), and requests are read meanwhile. What a
//! connection holds is bounded by a part of replies and as many bytes of requests, by one request,
//! and, for all connections together, by the limits of what is unsent and of requests that have
//! not come to their end. A connection that is idle holds no buffer. Replies are held until what
//! they tell is durable, or settled in a cluster.

use std::future::{pending, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, watch};
use tracing::warn;

use super::held;
use super::socket::{READ_BYTES, linger, poll_read};
use super::syncer;
use super::unsent::Unsent;
use crate::data::Mark;
use crate::memory::Reservation;
use crate::protocol::{Served, Session, Then};
use crate::shared::Shared;

/// Buffers up to this size stay with an idle connection.
const KEPT_BYTES: usize = 4 << 10;
/// What has come that is not answered.
#[derive(Default)]
struct Input {
    bytes: Vec<u8>,
    /// Bytes at the front that are answered.
    start: usize,
}

impl Input {
    fn rest(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Forgets what is answered. The rest moves to the front where it is the lesser part, and
    /// memory that it does not need is given back.
    fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        if self.start > self.len() {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        let (held, kept) = (self.bytes.len(), self.bytes.capacity());
        if held == 0 && kept > KEPT_BYTES {
            self.bytes = Vec::new();
        } else if kept / 4 > held.max(READ_BYTES) {
            self.bytes.shrink_to(2 * held);
        }
    }
}

/// What a connection does next.
enum Next {
    /// There may be something to answer.
    Serve,
    /// Nothing is answered any more; what is unsent is sent.
    Finish,
    /// It ends at once.
    End,
}

/// A connection, but for what speaks its protocol.
struct Connection<S> {
    stream: S,
    input: Input,
    unsent: Unsent,
    /// Memory of a request that has not come to its end.
    requests: Reservation,
    shared: Arc<Shared>,
    stop: watch::Receiver<bool>,
}

/// Speaks with a client until one of the two ends it, or `stop` says that the server stops.
pub async fn run(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    mut session: impl Session,
    shared: Arc<Shared>,
    stop: watch::Receiver<bool>,
) -> io::Result<()> {
    let unsent = Unsent::new(&shared.unsent, shared.options.limits.reply_bytes);
    let requests = shared.requests.reserve();
    let mut connection =
        Connection { stream, input: Input::default(), unsent, requests, shared, stop };
    let notify = session.notify();
    let (mut out, mut last) = (Vec::new(), Then::Read);
    loop {
        let Connection { stream, input, unsent, shared, .. } = &mut connection;
        let (served, mark) = if let Then::Long | Then::Locked | Then::Script = last {
            let asked = (session, std::mem::take(input), out);
            let served;
            (session, *input, out, served) =
                elsewhere(asked, last, shared, (stream, unsent)).await?;
            served
        } else {
            if let Some(ahead) = shared.data.ahead() {
                ahead.has_room().await;
            }
            shared.data.noted(|| session.serve(input.rest(), &mut out))
        };
        let Served { consumed, then } = served;
        input.consume(consumed);
        unsent.count(out.capacity() + if then.has_more() { input.len() } else { 0 });
        let may_be_told = match mark {
            Mark::Disk(unsynced) => syncer::durable(unsynced).await,
            Mark::Cluster(ahead, mark) => held::reached(&ahead, mark).await,
        };
        if !may_be_told {
            return Ok(()); // No reply is sent that may not be true after a power failure.
        }
        shared.counters.bytes_read.add(consumed as u64);
        shared.counters.bytes_written.add(out.len() as u64);
        poll_fn(|context| Poll::Ready(unsent.send(stream, context, &mut out))).await?;
        clear(&mut out);
        last = then;
        match connection.wait(then, &session, notify.as_deref()).await? {
            Next::Serve => {}
            Next::Finish => break,
            Next::End => return Ok(()),
        }
    }
    drop(session); // From here on it waits for nothing and gets no messages.
    while !connection.unsent.is_sent() {
        connection.unsent.count(0);
        let Connection { stream, unsent, shared, .. } = &mut connection;
        if exchange(stream, None, unsent, (None, shared)).await?.is_none() {
            return Ok(());
        }
    }
    if last == Then::Leave {
        return Ok(());
    }
    linger(connection.stream).await
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// Returns when there is something to do, after what `then` says.
    async fn wait(
        &mut self,
        then: Then,
        session: &impl Session,
        notify: Option<&Notify>,
    ) -> io::Result<Next> {
        let Self { stream, input, unsent, requests, shared, stop } = self;
        let (mut deadline, is_waiting) = match then {
            Then::Wait(deadline) => (deadline, true), // Who waits is not idle.
            Then::Leave => return Ok(Next::Finish),
            Then::Close if !session.is_lost() && !session.is_killed() => return Ok(Next::Finish),
            _ => (None, false),
        };
        if then.has_more() {
            tokio::task::yield_now().await;
        }
        let (mut has_more, mut is_ended) = (then.has_more(), false);
        loop {
            session.set_unsent(unsent.bytes());
            if session.is_killed() {
                return Ok(Next::End);
            }
            if session.is_lost() {
                warn!("closed a connection: messages for it take too much room");
                return Ok(Next::End);
            }
            let freed = shared.unsent.freed(); // Before it is looked whether there is room.
            if has_more && unsent.lets_answer(input.len()) {
                return Ok(Next::Serve);
            }
            let is_stopping = *stop.borrow();
            if !has_more && (is_ended || is_stopping) {
                return Ok(Next::Finish);
            }
            unsent.count(if has_more { input.len() } else { 0 });
            // What one read may bring is not counted, so that only what waits for more is.
            let held = session.held_bytes() + if has_more { 0 } else { input.len() };
            if !requests.set(if held > READ_BYTES { held as u64 } else { 0 }) {
                warn!("closed a connection: unfinished requests take too much room");
                return Ok(Next::End);
            }
            let is_read = !is_ended && !is_stopping && (!has_more || unsent.lets_read(input.len()));
            let idle = if is_waiting { None } else { shared.settings.idle() };
            let reads = is_read.then_some(&mut input.bytes);
            tokio::select! {
                biased; // A client that is gone is not served.
                came = exchange(stream, reads, unsent, (idle, shared)) => match came? {
                    Some(Came::Bytes(0)) => is_ended = true,
                    Some(Came::Bytes(_)) => has_more = true,
                    Some(Came::Sent) => {}
                    None => return Ok(Next::End),
                },
                () = notified(notify) => has_more = true,
                () = at(deadline) => (deadline, has_more) = (None, true),
                () = freed, if has_more => {}
                _ = stop.changed(), if !is_stopping => {}
            }
        }
    }
}

/// What has happened between a client and its connection.
enum Came {
    /// So many bytes came; 0: nothing comes any more.
    Bytes(usize),
    /// The client took replies.
    Sent,
}

/// Sends what is unsent, and appends what comes to `input`, if it may. None: the connection is to
/// be closed, because its client sends nothing for as long as it may be idle, or takes nothing.
/// Every byte begins that time anew, and who is slow in reading is not idle.
async fn exchange(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    mut input: Option<&mut Vec<u8>>,
    unsent: &mut Unsent,
    (idle, shared): (Option<Duration>, &Shared),
) -> io::Result<Option<Came>> {
    let is_sent = unsent.is_sent();
    let patience = shared.options.limits.unsent_patience;
    let end = match is_sent {
        true => idle.and_then(|idle| Instant::now().checked_add(idle)),
        false => unsent.taken_at().checked_add(patience),
    };
    let before = unsent.taken_at();
    let come = poll_fn(|context| {
        if !unsent.is_sent() {
            let sent = unsent.poll_send(stream, context)?;
            if sent.is_ready() || unsent.taken_at() > before {
                return Poll::Ready(Ok(Came::Sent));
            }
        }
        match &mut input {
            Some(input) => poll_read(stream, context, input).map_ok(Came::Bytes),
            None => Poll::Pending,
        }
    });
    tokio::select! {
        biased;
        came = come => return came.map(Some),
        () = at(end) => {}
    }
    if is_sent {
        shared.counters.idle_connections.add(1);
    } else if unsent.is_in_the_way() {
        warn!("closed a connection: its client takes no replies, and these take too much room");
    } else {
        return Ok(Some(Came::Sent));
    }
    Ok(None)
}

/// Serves on a thread that no other connection waits for; the client can take replies meanwhile.
/// Few requests that take long are served at a time, since they need processors and memory.
async fn elsewhere<S: Session>(
    (mut session, input, mut out): (S, Input, Vec<u8>),
    why: Then,
    shared: &Arc<Shared>,
    (stream, unsent): (&mut (impl AsyncWrite + Unpin), &mut Unsent),
) -> io::Result<(S, Input, Vec<u8>, (Served, Mark))> {
    let mut served = pin!(async {
        let _turn = match why {
            Then::Long => Some(shared.long_requests.acquire().await),
            Then::Script => Some(shared.long_scripts.acquire().await),
            _ => None,
        };
        let shared = Arc::clone(shared);
        let serve = move || {
            let served = shared.data.noted(|| session.serve_long(input.rest(), &mut out));
            (session, input, out, served)
        };
        // A panic there ends the connection, as one here does.
        tokio::task::spawn_blocking(serve).await.map_err(io::Error::other)
    });
    loop {
        tokio::select! {
            biased;
            served = &mut served => return served,
            sent = poll_fn(|context| unsent.poll_send(stream, context)), if !unsent.is_sent() => {
                sent?;
            }
        }
    }
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

/// Empties a buffer, of which an idle connection keeps little.
fn clear(out: &mut Vec<u8>) {
    out.clear();
    if out.capacity() > KEPT_BYTES {
        *out = Vec::new();
    }
}
