//! The thread that ends the epochs of a buffered index.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use crate::{IndexError, Result};

/// A thread that ends epochs, until this is dropped or an epoch cannot be ended.
///
/// It measures the interval from the end of one epoch to that of the next by a clock that never
/// jumps. Nothing but the end of an epoch is done by it, so no other thread's pause delays an end.
#[derive(Debug)]
pub struct EpochTimer {
    /// Dropped, it wakes the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl EpochTimer {
    /// Calls `end` once in an interval, as long as it says that it can be called again.
    ///
    /// # Errors
    /// [`IndexError::Thread`] if the process may not have another thread.
    ///
    /// # Examples
    /// ```
    /// use std::sync::mpsc::channel;
    /// use std::time::Duration;
    ///
    /// use everleaf_index::EpochTimer;
    ///
    /// let (told, ended) = channel();
    /// let timer = EpochTimer::start(Duration::from_millis(1), move || told.send(()).is_ok())?;
    /// ended.recv()?;
    /// ended.recv()?;
    /// drop(timer);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn start(
        interval: Duration,
        mut end: impl FnMut() -> bool + Send + 'static,
    ) -> Result<Self> {
        let (stop, stopped) = channel();
        let run = move || {
            let mut next = Instant::now() + interval;
            loop {
                let wait = next.saturating_duration_since(Instant::now());
                let told = stopped.recv_timeout(wait);
                if !matches!(told, Err(RecvTimeoutError::Timeout)) || !end() {
                    return;
                }
                // After an end that took longer than the interval none is made up for.
                next = Instant::now().max(next + interval);
            }
        };
        let named = Builder::new().name("everleaf-epochs".to_owned());
        let thread = named.spawn(run).map_err(IndexError::Thread)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for EpochTimer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // A panic there has been reported on stderr.
        }
    }
}
