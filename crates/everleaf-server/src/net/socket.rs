//! Reading from a socket, and closing it so that the last reply is seen.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

/// Bytes that one read takes.
pub(super) const READ_BYTES: usize = 64 << 10;
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
    poll_fn(|context| poll_read(stream, context, input)).await
}

/// The same, for what waits for more than this.
pub(super) fn poll_read(
    stream: &mut (impl AsyncRead + Unpin),
    context: &mut Context<'_>,
    input: &mut Vec<u8>,
) -> Poll<io::Result<usize>> {
    SCRATCH.with_borrow_mut(|scratch| {
        let mut buffer = ReadBuf::new(scratch);
        ready!(Pin::new(stream).poll_read(context, &mut buffer))?;
        input.extend_from_slice(buffer.filled());
        Poll::Ready(Ok(buffer.filled().len()))
    })
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
