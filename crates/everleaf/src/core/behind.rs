//! Calls of a thread that wait for no sync: what they would have waited for is noted, and waited
//! for afterwards, once for all of them.
//!
//! A thread may be within several such scopes at a time, one in the other. Each is of one pool;
//! calls of stores over other pools wait as always.

use std::cell::Cell;
use std::sync::Arc;

use crate::Error;

/// What a thread is within.
#[derive(Clone, Copy)]
struct Scope {
    /// Which pool: its address.
    pool: usize,
    /// The last point that a call would have waited for; 0: none.
    point: u64,
}

thread_local! {
    static SCOPE: Cell<Option<Scope>> = const { Cell::new(None) };
}

/// Puts off waiting for a point of a pool; false if this thread is not within such a scope.
#[inline]
pub(crate) fn puts_off(pool: usize, point: u64) -> bool {
    let scope = SCOPE.get().filter(|scope| scope.pool == pool);
    if let Some(scope) = scope {
        SCOPE.set(Some(Scope { point: scope.point.max(point), ..scope }));
    }
    scope.is_some()
}

/// Runs `work` within a scope; the last point that was put off, or 0.
pub(crate) fn within<R>(pool: usize, work: impl FnOnce() -> R) -> (R, u64) {
    let outer = Outer(SCOPE.replace(Some(Scope { pool, point: 0 })));
    let result = work();
    (result, outer.end())
}

/// The scope around, until this is dropped.
struct Outer(Option<Scope>);

impl Outer {
    /// Goes back to it; what was put off.
    fn end(&self) -> u64 {
        let point = SCOPE.get().map_or(0, |scope| scope.point);
        SCOPE.set(self.0);
        point
    }
}

impl Drop for Outer {
    fn drop(&mut self) {
        SCOPE.set(self.0); // A panic as well.
    }
}

/// Of a pool with a log: what waits for a point of it.
pub trait Waiting: Send + Sync {
    /// Which point.
    fn point(&self) -> u64;
    /// Whether it is reached.
    fn is_reached(&self) -> bool;
    /// Returns when it is.
    ///
    /// # Errors
    /// As the system reports.
    fn wait(&self) -> Result<(), Error>;
}

/// What calls have done or seen that may not be durable yet ([`Store::unsynced`]).
///
/// [`Store::unsynced`]: crate::Store::unsynced
#[must_use = "what was done may not be durable before `wait` has returned"]
#[derive(Clone, Default)]
pub struct Unsynced(Option<Arc<dyn Waiting>>);

impl std::fmt::Debug for Unsynced {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Unsynced").field(&self.0.as_ref().map(|waiting| waiting.point())).finish()
    }
}

impl Unsynced {
    pub(crate) fn of(waiting: Option<Arc<dyn Waiting>>) -> Self {
        Self(waiting)
    }

    /// Whether all of it is durable by now; not asked of a store that is closed. Costs some atomic
    /// operations.
    pub fn is_durable(&self) -> bool {
        self.0.as_ref().is_none_or(|waiting| waiting.is_reached())
    }

    /// Returns when all of it is durable: by a sync of this thread's, which serves all who wait, or
    /// by another's. An asynchronous program calls it in a thread that may wait.
    ///
    /// # Errors
    /// [`Error::Pool`] as the system reports: then it may not be durable, and never will be.
    /// [`Error::Closed`] if the store is closed by now: it is durable if the close was a success.
    ///
    /// # Examples
    /// See [`Store::unsynced`](crate::Store::unsynced).
    pub fn wait(&self) -> Result<(), Error> {
        self.0.as_ref().map_or(Ok(()), |waiting| waiting.wait())
    }

    /// What is durable when both are; both are of the same store.
    pub fn and(self, other: Self) -> Self {
        let later = |a: &Arc<dyn Waiting>, b: &Arc<dyn Waiting>| a.point() >= b.point();
        Self(match (self.0, other.0) {
            (Some(a), Some(b)) => Some(if later(&a, &b) { a } else { b }),
            (a, b) => a.or(b),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_notes_the_last_point_of_its_own_pool_and_ends_with_a_panic() {
        assert!(!puts_off(1, 5));
        let ((), outer) = within(1, || {
            assert!(puts_off(1, 7) && puts_off(1, 3) && !puts_off(2, 9));
            let ((), inner) = within(2, || assert!(puts_off(2, 4) && !puts_off(1, 9)));
            assert_eq!(inner, 4);
            let caught = std::panic::catch_unwind(|| within(1, || panic!("within")));
            assert!(caught.is_err() && puts_off(1, 8));
        });
        assert_eq!(outer, 8);
        assert!(!puts_off(1, 5));
    }
}
