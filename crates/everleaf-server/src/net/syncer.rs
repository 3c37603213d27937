//! Waiting for the disk, so that no thread that answers does: replies are held until what they tell
//! is durable, and the thread goes on with other connections meanwhile.
//!
//! A thread that answers gathers what its connections wait for, and asks for one sync when it has
//! nothing else to do, or when another connection is answered a millisecond later: so a sync serves
//! all connections that had something to say. While it is under way the next round gathers.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use everleaf::Unsynced;
use tokio::sync::{Notify, oneshot};
use tracing::error;

use super::thread::spawn;
use crate::ServeError;
use crate::metrics::Metrics;
use crate::shared::Shared;

/// How long a round gathers at most in a thread that never rests.
const GATHERS: Duration = Duration::from_millis(1);

/// Connections of one thread that wait for one sync.
#[derive(Default)]
struct Round {
    unsynced: Unsynced,
    waiting: Vec<oneshot::Sender<()>>,
    began: Option<Instant>,
}

/// What the connections of this thread wait for.
#[derive(Default)]
struct Gathering {
    next: RefCell<Round>,
    /// A sync is to be asked for, or was, and is not done.
    is_asked: Cell<bool>,
    /// Tells who asks for it.
    is_due: Arc<Notify>,
}

impl Gathering {
    /// Asks for a sync, if there is anything to be synced and none is under way.
    fn end_if(&self, is_enough: impl FnOnce(&Round) -> bool) {
        let next = self.next.borrow();
        if !next.waiting.is_empty() && !self.is_asked.get() && is_enough(&next) {
            self.is_asked.set(true);
            self.is_due.notify_one();
        }
    }
}

thread_local! {
    static GATHERING: Gathering = Gathering::default();
}

/// The thread rests now, unless this gives it something to do.
pub(super) fn before_rest() {
    GATHERING.with(|gathering| gathering.end_if(|_| true));
}

/// What a thread's connections wait for, how many these are, and whom to tell when it is durable;
/// nobody is told if it never will be.
type Asked = (Unsynced, usize, oneshot::Sender<()>);

/// The thread that waits; it ends when nobody can ask it any more.
pub(super) struct Syncer {
    ask: Sender<Asked>,
}

impl Syncer {
    pub(super) fn start(shared: Arc<Shared>) -> Result<(Self, JoinHandle<()>), ServeError> {
        let (ask, asked) = channel();
        let run = move || wait_for_all(&asked, &shared.metrics);
        let thread = spawn("syncs".to_owned(), run)?;
        Ok((Self { ask }, thread))
    }

    /// Asks for the syncs of this thread, for as long as it answers.
    pub(super) async fn ask_for_thread(self: Arc<Self>) {
        let is_due = GATHERING.with(|gathering| Arc::clone(&gathering.is_due));
        loop {
            is_due.notified().await;
            let Round { unsynced, waiting, .. } = GATHERING.with(|gathering| gathering.next.take());
            let (told, is_told) = oneshot::channel();
            let asked = self.ask.send((unsynced, waiting.len(), told));
            if asked.is_ok() && is_told.await.is_ok() {
                // Who is gone needs not be told.
                waiting.into_iter().for_each(|waiting| _ = waiting.send(()));
            }
            GATHERING.with(|gathering| gathering.is_asked.set(false));
        }
    }
}

/// Returns when it is durable; false: it never will be.
pub(super) async fn durable(unsynced: Unsynced) -> bool {
    GATHERING.with(|gathering| {
        gathering.end_if(|round| round.began.is_some_and(|began| began.elapsed() > GATHERS))
    });
    if unsynced.is_durable() {
        return true;
    }
    let is_told = GATHERING.with(|gathering| {
        let (told, is_told) = oneshot::channel();
        let mut next = gathering.next.borrow_mut();
        next.unsynced = std::mem::take(&mut next.unsynced).and(unsynced);
        next.waiting.push(told);
        next.began.get_or_insert_with(Instant::now);
        is_told
    });
    is_told.await.is_ok()
}

fn wait_for_all(asked: &Receiver<Asked>, metrics: &Metrics) {
    while let Ok((mut unsynced, mut connections, first)) = asked.recv() {
        let mut told = vec![first];
        while let Ok((other, more, next)) = asked.try_recv() {
            unsynced = unsynced.and(other);
            connections += more;
            told.push(next);
        }
        let begun = Instant::now();
        match unsynced.wait() {
            Ok(()) => {
                metrics.syncs.add_time(begun.elapsed());
                metrics.groups.add(connections as u64);
                told.into_iter().for_each(|told| _ = told.send(()));
            }
            Err(error) => error!(%error, "closed connections: their replies are not durable"),
        }
    }
}
