//! Giving back the room of what has expired: at once, or by a thread.
//!
//! Reading treats an expired value as absent without removing it; writing the key frees it. What
//! no thread writes any more is removed here, in time proportional to what has expired: the store
//! knows in which order that happens (`core/attached/expiring.rs`).

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::Error;
use crate::core::backend::{Backend, Swept};

/// The longest pause of the sweeper while a store that was opened still looks for old values.
const SHORT_PAUSE: Duration = Duration::from_millis(50);

/// Removes what has expired by now, as far as it is known, as long as `go_on` says so.
pub(crate) fn sweep(
    backend: &Arc<dyn Backend>,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Swept, Error> {
    let (by_ms, mut swept) = (backend.now_ms(), Swept::default());
    loop {
        let some = backend.remove_some_expired(by_ms)?;
        swept.looked_at += some.looked_at;
        swept.removed += some.removed;
        if some.looked_at == 0 || !go_on() {
            return Ok(swept);
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
            let mut soon = SHORT_PAUSE;
            loop {
                let Some(backend) = Weak::upgrade(&backend) else { return };
                // Asked first: what is known by then is swept now.
                let knows = backend.knows_what_expires();
                if !knows {
                    Arc::clone(&backend).walk_in_background(); // One is enough: others end.
                }
                // What fails here fails for the next writer too, which gets the error.
                let _ = sweep(&backend, &mut || still());
                drop(backend);
                // What cannot be known, of a damaged pool, is asked for ever more seldom.
                let pause = if knows { pause } else { pause.min(soon) };
                soon = if knows { SHORT_PAUSE } else { soon.saturating_mul(2) };
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
