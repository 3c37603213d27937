//! Replies that a client has not taken yet, and requests that wait behind them.
//!
//! A client may write all of its requests before it reads a reply. So requests are read, and where
//! many have come also answered, while replies wait in memory:
//! * U1. A connection that has few unsent replies is answered. One that has many is answered when
//!   its client has taken them, or when many requests wait behind them and less than half of the
//!   shared memory is taken.
//! * U2. A connection that has few waiting requests is read. One that has many is read if it is
//!   answered, or if the shared memory is not used up.
//! * U3. Where the shared memory is used up, a connection with many unsent replies ends when its
//!   client takes none of them for a time.
//!
//! Few are as many bytes as one part of a reply has. What is shared is bounded by
//! [`Limits::unsent_bytes`](crate::Limits::unsent_bytes); what is sent gives its memory back.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use tokio::io::AsyncWrite;

use super::connection::READ_BYTES;
use crate::shared::{Part, Room};

/// Short replies are gathered in buffers of this size.
const GATHERED_BYTES: usize = 16 << 10;

/// Replies in the order of their requests.
pub(super) struct Unsent {
    buffers: VecDeque<Vec<u8>>,
    /// Bytes of the first buffer that were sent.
    sent: usize,
    /// Memory of all buffers.
    bytes: usize,
    /// When the client took something, or nothing was left.
    taken_at: Instant,
    /// Whether the stream, which may hold some of it back, was asked to send all.
    is_flushed: bool,
    few: usize,
    room: Arc<Room>,
    part: Part,
}

impl Unsent {
    /// Nothing is unsent; `few` is what a connection may have in any case.
    pub(super) fn new(room: &Arc<Room>, few: usize) -> Self {
        Self {
            buffers: VecDeque::new(),
            sent: 0,
            bytes: 0,
            taken_at: Instant::now(),
            is_flushed: true,
            few,
            part: room.part(),
            room: Arc::clone(room),
        }
    }

    /// Whether all was sent.
    pub(super) fn is_sent(&self) -> bool {
        self.buffers.is_empty() && self.is_flushed
    }

    /// When the client took something.
    pub(super) fn taken_at(&self) -> Instant {
        self.taken_at
    }

    /// U1, with so many bytes of requests.
    pub(super) fn lets_answer(&self, requests: usize) -> bool {
        self.bytes <= self.few || requests > self.few && self.room.has_half()
    }

    /// U2, with so many bytes of requests.
    pub(super) fn lets_read(&self, requests: usize) -> bool {
        requests <= self.few || self.room.has_room()
    }

    /// U3, when nothing was taken for a time: whether it ends; else the time begins anew.
    pub(super) fn is_in_the_way(&mut self) -> bool {
        self.taken_at = Instant::now();
        self.bytes > self.few && !self.room.has_room()
    }

    /// Counts so many bytes beside those of the buffers. A little is not counted, so that most
    /// connections do not write to what all share.
    pub(super) fn count(&mut self, others: usize) {
        let bytes = self.bytes + others;
        // What is counted is there already: others wait for it to become less.
        let _ = self.part.set(if bytes > READ_BYTES { bytes as u64 } else { 0 });
    }

    /// Adds replies, and sends what the stream takes at once. `out` is empty then.
    pub(super) fn send(
        &mut self,
        stream: &mut (impl AsyncWrite + Unpin),
        context: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> io::Result<()> {
        if !out.is_empty() {
            self.is_flushed = false;
            // Mostly nothing waits, and the stream takes all.
            let mut taken = 0;
            while self.buffers.is_empty() && taken < out.len() {
                let Poll::Ready(more) = Pin::new(&mut *stream).poll_write(context, &out[taken..])
                else {
                    break;
                };
                taken += some(more?)?;
            }
            self.push(out, taken);
        }
        match self.poll_send(stream, context) {
            Poll::Ready(sent) => sent,
            Poll::Pending => Ok(()),
        }
    }

    /// Adds replies without the first `taken` bytes.
    fn push(&mut self, out: &mut Vec<u8>, taken: usize) {
        let rest = out.len() - taken;
        if self.buffers.is_empty() {
            self.taken_at = Instant::now();
        }
        if rest > GATHERED_BYTES {
            if self.buffers.is_empty() {
                self.sent = taken;
            }
            self.bytes += out.capacity();
            self.buffers.push_back(std::mem::take(out));
        } else if rest > 0 {
            let fits = |last: &&mut Vec<u8>| last.capacity() - last.len() >= rest;
            if let Some(last) = self.buffers.back_mut().filter(fits) {
                last.extend_from_slice(&out[taken..]);
            } else {
                let mut gathered = Vec::with_capacity(GATHERED_BYTES);
                gathered.extend_from_slice(&out[taken..]);
                self.bytes += gathered.capacity();
                self.buffers.push_back(gathered);
            }
        }
        out.clear();
    }

    /// Sends; ready when all was sent.
    pub(super) fn poll_send(
        &mut self,
        stream: &mut (impl AsyncWrite + Unpin),
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while let Some(first) = self.buffers.front() {
            let written = Pin::new(&mut *stream).poll_write(context, &first[self.sent..]);
            let written = some(ready!(written)?)?;
            self.sent += written;
            self.taken_at = Instant::now();
            if self.sent == first.len() {
                self.bytes -= first.capacity();
                self.buffers.pop_front();
                self.sent = 0;
            }
        }
        if self.buffers.capacity() > 0 {
            self.buffers = VecDeque::new();
        }
        if !self.is_flushed {
            ready!(Pin::new(stream).poll_flush(context))?;
            self.is_flushed = true;
        }
        Poll::Ready(Ok(()))
    }
}

/// What a stream took, if it takes anything at all.
fn some(taken: usize) -> io::Result<usize> {
    if taken == 0 { Err(io::ErrorKind::WriteZero.into()) } else { Ok(taken) }
}
