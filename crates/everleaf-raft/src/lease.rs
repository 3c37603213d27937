//! The lease of a leader: for how long no other node can lead, as far as clocks run alike and no
//! machine is suspended.
//!
//! A majority that has answered a message elects nobody for some time after it was sent:
//! * who runs on refuses its vote for longer than [`LEASE`], from when it heard of the leader;
//! * who has just started has forgotten when that was, and refuses it for [`SILENCE`];
//! * the leader itself does not wait: before it asks another node to lead, is removed, or gives its
//!   vote, it gives the lease up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::types::LeaderId;

/// From when a message was sent that a majority has answered. A tenth is left to clocks that do not
/// run alike.
pub(crate) const LEASE: Duration = Duration::from_millis(450);
/// For so long a node that has started gives its vote to nobody. Nobody asks for it sooner who has
/// started with it.
pub(crate) const SILENCE: Duration = Duration::from_millis(500);

/// Those of a node: of the last leadership that it had.
#[derive(Debug, Default)]
pub struct Leases(Mutex<Option<(LeaderId, Arc<Lease>)>>);

impl Leases {
    /// That of a leadership, whichever reign of it asks. One before the last never holds.
    pub(crate) fn of(&self, leader: LeaderId) -> Arc<Lease> {
        let mut last = self.0.lock();
        match &*last {
            Some((of, lease)) if *of == leader => Arc::clone(lease),
            Some((of, _)) if *of > leader => {
                let lease = Lease::new();
                lease.give_up();
                Arc::new(lease)
            }
            _ => Arc::clone(&last.insert((leader, Arc::new(Lease::new()))).1),
        }
    }

    /// The last one holds no more, for ever.
    pub(crate) fn give_up(&self) {
        if let Some((_, lease)) = &*self.0.lock() {
            lease.give_up();
        }
    }
}

/// Of one leadership.
#[derive(Debug)]
pub struct Lease {
    origin: Instant,
    /// Nanoseconds of the origin.
    end: AtomicU64,
    is_given_up: Mutex<bool>,
}

impl Lease {
    pub(crate) fn new() -> Self {
        Self { origin: Instant::now(), end: AtomicU64::new(0), is_given_up: Mutex::new(false) }
    }

    /// Whether no other node leads now. What this node has read before is the newest state then, if
    /// its reign had begun.
    pub fn holds(&self) -> bool {
        let now = self.origin.elapsed();
        // It is looked at behind the clock: until then it had not been given up.
        now.as_nanos() < u128::from(self.end.load(Ordering::SeqCst))
    }

    /// It holds for so long, from an instant on; false: it was given up.
    pub(crate) fn renew(&self, from: Instant, left: Duration) -> bool {
        let end = from.saturating_duration_since(self.origin) + left;
        let is_given_up = self.is_given_up.lock();
        if !*is_given_up {
            self.end.fetch_max(end.as_nanos() as u64, Ordering::SeqCst);
        }
        !*is_given_up
    }

    pub(crate) fn is_given_up(&self) -> bool {
        *self.is_given_up.lock()
    }

    /// It holds no more, for ever.
    pub(crate) fn give_up(&self) {
        let mut is_given_up = self.is_given_up.lock();
        *is_given_up = true;
        self.end.store(0, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_ends_by_itself_or_is_given_up_for_ever() {
        let lease = Lease::new();
        assert!(!lease.holds());
        let begun = Instant::now();
        assert!(lease.renew(begun, Duration::from_hours(1)));
        assert!(lease.renew(begun, Duration::from_millis(1))); // What was promised stays.
        assert!(lease.holds());
        lease.give_up();
        assert!(!lease.holds());
        assert!(!lease.renew(Instant::now(), Duration::from_hours(1)) && !lease.holds());
        let short = Lease::new();
        assert!(short.renew(Instant::now(), Duration::from_millis(1)));
        std::thread::sleep(Duration::from_millis(2));
        assert!(!short.holds());

        // All reigns of a leadership have the same one.
        let leases = Leases::default();
        let leader = |term| LeaderId { term, node_id: 1 };
        leases.of(leader(3)).renew(begun, Duration::from_hours(1));
        assert!(leases.of(leader(3)).holds());
        leases.give_up();
        assert!(leases.of(leader(3)).is_given_up() && !leases.of(leader(5)).is_given_up());
        assert!(leases.of(leader(4)).is_given_up() && !leases.of(leader(5)).is_given_up());
    }
}
