//! Giving back the room of what has expired: at once, or by a thread.
//!
//! Reading treats an expired value as absent without removing it; writing the key frees it. What
//! no thread writes any more is found here.

use std::ops::{Bound, ControlFlow};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use everleaf_index::Direction;

use crate::core::backend::{Backend, Condition};
use crate::core::fetched::BATCH_ENTRIES;
use crate::core::life::Life;
use crate::core::value::is_expired;
use crate::{Error, OwnedKey};

/// Entries that are looked at under one hold of the store.
const LOOKED_AT: usize = 16 * BATCH_ENTRIES;

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Swept {
    /// Entries that it looked at.
    pub looked_at: u64,
    /// Entries that had expired and were removed.
    pub removed: u64,
}

/// Looks at all entries once, as long as `go_on` says so.
pub(crate) fn sweep(
    backend: &Arc<dyn Backend>,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Swept, Error> {
    if !backend.capabilities().writable {
        return Err(Error::ReadOnly);
    }
    let mut swept = Swept::default();
    let mut from: Bound<OwnedKey> = Bound::Unbounded;
    loop {
        let (mut last, mut expired, mut looked_at) = (None, Vec::new(), 0);
        let now_ms = backend.now_ms();
        backend.scan(
            &Life::OF_STORE,
            from.as_ref().map(OwnedKey::as_ref),
            Direction::Forward,
            true,
            &mut |key, found| {
                looked_at += 1;
                if is_expired(found.expires_ms, now_ms) {
                    expired.push(key.to_owned());
                }
                if looked_at < LOOKED_AT && expired.len() < BATCH_ENTRIES {
                    return ControlFlow::Continue(());
                }
                last = Some(key.to_owned());
                ControlFlow::Break(())
            },
        )?;
        swept.looked_at += looked_at as u64;
        for key in expired {
            let expired = Condition::Expired;
            let written = backend.write(&Life::OF_STORE, key.as_ref(), expired, None)?;
            swept.removed += u64::from(written.done);
        }
        match last {
            Some(last) if go_on() => from = Bound::Excluded(last),
            _ => return Ok(swept),
        }
    }
}

/// The thread that sweeps; it ends when this is dropped.
pub(crate) struct Sweeper {
    /// Dropped, it wakes the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Sweeper {
    pub(crate) fn start(backend: &Arc<dyn Backend>, pause: Duration) -> Self {
        let (stop, stopped) = channel();
        let backend = Arc::downgrade(backend);
        let thread = std::thread::spawn(move || {
            let still = || matches!(stopped.try_recv(), Err(std::sync::mpsc::TryRecvError::Empty));
            loop {
                // What fails here fails for the next writer too, which gets the error.
                let Some(backend) = Weak::upgrade(&backend) else { return };
                let _ = sweep(&backend, &mut || still());
                drop(backend);
                if !matches!(stopped.recv_timeout(pause), Err(RecvTimeoutError::Timeout)) {
                    return;
                }
            }
        });
        Self { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // A panic there has been reported on stderr.
        }
    }
}
