//! Clients that are told of every command.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::channels::Mailbox;

/// All of them.
#[derive(Default)]
pub struct Monitors {
    count: AtomicUsize,
    all: Mutex<Vec<Arc<Mailbox>>>,
}

/// One of them, until this is dropped.
pub struct Monitor {
    all: Arc<Monitors>,
    mailbox: Arc<Mailbox>,
}

impl Monitors {
    /// Who has this mailbox is told of every command.
    pub fn enter(self: &Arc<Self>, mailbox: &Arc<Mailbox>) -> Monitor {
        self.all.lock().push(Arc::clone(mailbox));
        self.count.fetch_add(1, Ordering::Relaxed);
        Monitor { all: Arc::clone(self), mailbox: Arc::clone(mailbox) }
    }

    /// Whether there is nobody to be told.
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Tells a line.
    pub fn tell(&self, line: &str) {
        let line: Arc<[u8]> = line.as_bytes().into();
        self.all.lock().iter().for_each(|mailbox| mailbox.put(Arc::clone(&line)));
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.all.all.lock().retain(|mailbox| !Arc::ptr_eq(mailbox, &self.mailbox));
        self.all.count.fetch_sub(1, Ordering::Relaxed);
    }
}
