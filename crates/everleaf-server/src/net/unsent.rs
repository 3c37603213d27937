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

use super::socket::READ_BYTES;
use crate::memory::{MemoryBudget, Reservation};

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
    budget: Arc<MemoryBudget>,
    reserved: Reservation,
}

impl Unsent {
    /// Nothing is unsent; `few` is what a connection may have in any case.
    pub(super) fn new(budget: &Arc<MemoryBudget>, few: usize) -> Self {
        Self {
            buffers: VecDeque::new(),
            sent: 0,
            bytes: 0,
            taken_at: Instant::now(),
            is_flushed: true,
            few,
            reserved: budget.reserve(),
            budget: Arc::clone(budget),
        }
    }

    /// Whether all was sent.
    pub(super) fn is_sent(&self) -> bool {
        self.buffers.is_empty() && self.is_flushed
    }

    /// Memory of the replies.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// When the client took something.
    pub(super) fn taken_at(&self) -> Instant {
        self.taken_at
    }

    /// U1, with so many bytes of requests.
    pub(super) fn lets_answer(&self, requests: usize) -> bool {
        self.bytes <= self.few || requests > self.few && self.budget.has_half()
    }

    /// U2, with so many bytes of requests.
    pub(super) fn lets_read(&self, requests: usize) -> bool {
        requests <= self.few || self.budget.has_room()
    }

    /// U3, when nothing was taken for a time: whether it ends; else the time begins anew.
    pub(super) fn is_in_the_way(&mut self) -> bool {
        self.taken_at = Instant::now();
        self.bytes > self.few && !self.budget.has_room()
    }

    /// Counts so many bytes beside those of the buffers. A little is not counted, so that most
    /// connections do not write to what all share.
    pub(super) fn count(&mut self, others: usize) {
        let bytes = self.bytes + others;
        // What is counted is there already: others wait for it to become less.
        let _ = self.reserved.set(if bytes > READ_BYTES { bytes as u64 } else { 0 });
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

#[cfg(all(test, feature = "tls"))]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use tokio::io::AsyncReadExt;
    use tokio::sync::watch;
    use tokio_rustls::TlsConnector;
    use tokio_rustls::rustls::crypto::ring::default_provider;
    use tokio_rustls::rustls::{ClientConfig, RootCertStore};

    use super::*;
    use crate::tls::Tls;

    /// TLS takes more than it can send: what it holds back goes only if it is asked to.
    #[test]
    fn what_was_sent_to_a_client_that_reads_late_is_not_held_back() {
        const REPLY: [u8; 10_000] = [7; 10_000];
        let folder = tempfile::tempdir().unwrap();
        let [certificate, key] = ["certificate", "key"].map(|name| folder.path().join(name));
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(&certificate, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        let tls = Tls::read(&certificate, &key).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        // Far less than a reply is under way.
        let (ours, theirs) = tokio::io::duplex(512);
        let serve = async {
            let (_running, mut stop) = watch::channel(false);
            let mut stream = tls.begin(ours, &mut stop).await.unwrap();
            let mut unsent = Unsent::new(&MemoryBudget::of(0), 0);
            let mut out = REPLY.to_vec();
            let sent = poll_fn(|context| {
                Poll::Ready(unsent.send(&mut stream, context, &mut out)) // As much as it takes.
            });
            sent.await.unwrap();
            poll_fn(|context| unsent.poll_send(&mut stream, context)).await.unwrap();
            std::future::pending::<()>().await;
        };
        let read = async {
            let connector = TlsConnector::from(Arc::new(config));
            let name = "localhost".try_into().unwrap();
            let mut stream = connector.connect(name, theirs).await.unwrap();
            let mut got = [0; REPLY.len()];
            stream.read_exact(&mut got).await.unwrap();
            got
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            tokio::select! {
                () = serve => unreachable!("it waits"),
                got = read => assert_eq!(got, REPLY),
                () = tokio::time::sleep(Duration::from_secs(60)) => panic!("it was held back"),
            }
        });
    }
}
