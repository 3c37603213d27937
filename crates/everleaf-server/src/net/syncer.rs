//! Waiting for the disk, so that no thread that answers does: replies are held until what they tell
//! is durable, and the thread goes on with other connections meanwhile. Whoever comes while a sync
//! is under way shares the next one.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;

use everleaf::Unsynced;
use tokio::sync::oneshot;
use tracing::error;

use crate::ServeError;
use crate::metrics::Metrics;
use crate::shared::Shared;

/// What is waited for, and who is told that it is durable; nobody is told if it never will be.
type Held = (Unsynced, oneshot::Sender<()>);

/// The thread that waits; it ends when nobody can ask it any more.
pub(super) struct Syncer {
    ask: Sender<Held>,
}

impl Syncer {
    pub(super) fn start(shared: Arc<Shared>) -> Result<(Self, JoinHandle<()>), ServeError> {
        let (ask, asked) = channel();
        let run = move || wait_for_all(&asked, &shared.metrics);
        let thread = super::server::spawn("syncs".to_owned(), run)?;
        Ok((Self { ask }, thread))
    }

    /// Returns when it is durable; false: it never will be.
    pub(super) async fn durable(&self, unsynced: Unsynced) -> bool {
        if unsynced.is_durable() {
            return true;
        }
        let (told, is_told) = oneshot::channel();
        self.ask.send((unsynced, told)).is_ok() && is_told.await.is_ok()
    }
}

fn wait_for_all(asked: &Receiver<Held>, metrics: &Metrics) {
    while let Ok((mut unsynced, first)) = asked.recv() {
        let mut told = vec![first];
        while let Ok((other, next)) = asked.try_recv() {
            unsynced = unsynced.and(other);
            told.push(next);
        }
        let begun = Instant::now();
        match unsynced.wait() {
            Ok(()) => {
                metrics.syncs.add_time(begun.elapsed());
                metrics.groups.add(told.len() as u64);
                // Who is gone needs not be told.
                told.into_iter().for_each(|told| _ = told.send(()));
            }
            Err(error) => error!(%error, "closed connections: their replies are not durable"),
        }
    }
}
