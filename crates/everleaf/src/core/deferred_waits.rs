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

/// Runs `work` within a scope; the last point that was put off, or 0. The pool's address must not
/// become another's meanwhile.
pub(crate) fn within<R>(pool: usize, work: impl FnOnce() -> R) -> (R, u64) {
    let outer = Outer(SCOPE.replace(Some(Scope { pool, point: 0 })));
    let result = work();
    (result, outer.end())
}

/// The scope around, until this is dropped.
struct Outer(Option<Scope>);

impl Outer {
    /// Goes back to it; what was put off, which counts for a scope around of the same pool too.
    fn end(&self) -> u64 {
        let point = SCOPE.get().map_or(0, |scope| scope.point);
        let same = |outer: Scope| SCOPE.get().is_some_and(|inner| inner.pool == outer.pool);
        SCOPE.set(self.0.map(|outer| match same(outer) {
            true => Scope { point: outer.point.max(point), ..outer },
            false => outer,
        }));
        point
    }
}

impl Drop for Outer {
    fn drop(&mut self) {
        self.end(); // A panic as well.
    }
}

/// Of a pool with a log: what waits for its points. It keeps no pool open, but its address.
pub trait Waiting: Send + Sync {
    /// Which pool.
    fn pool(&self) -> usize;
    /// Whether a point is reached.
    fn is_reached(&self, point: u64) -> bool;
    /// Returns when it is.
    ///
    /// # Errors
    /// As the system reports.
    fn wait(&self, point: u64) -> Result<(), Error>;
}

/// What calls have done or seen that may not be durable yet ([`Store::unsynced`]).
///
/// [`Store::unsynced`]: crate::Store::unsynced
#[must_use = "what was done may not be durable before `wait` has returned"]
#[derive(Clone, Default)]
pub struct Unsynced(Vec<(Arc<dyn Waiting>, u64)>);

impl std::fmt::Debug for Unsynced {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(_, point)| point)).finish()
    }
}

impl Unsynced {
    pub(crate) fn of(waiting: Arc<dyn Waiting>, point: u64) -> Self {
        Self(if point == 0 { Vec::new() } else { vec![(waiting, point)] })
    }

    /// Whether all of it is durable by now; not asked of a store that is closed. It syncs nothing:
    /// without a call of [`wait`](Self::wait), by whomever, nothing may ever be.
    pub fn is_durable(&self) -> bool {
        self.0.iter().all(|(waiting, point)| waiting.is_reached(*point))
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
        self.0.iter().try_for_each(|(waiting, point)| waiting.wait(*point))
    }

    /// What is durable when both are.
    pub fn and(mut self, other: Self) -> Self {
        for (waiting, point) in other.0 {
            match self.0.iter_mut().find(|(own, _)| own.pool() == waiting.pool()) {
                Some((_, own)) => *own = point.max(*own),
                None => self.0.push((waiting, point)),
            }
        }
        self
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
            let caught = std::panic::catch_unwind(|| {
                within(1, || {
                    assert!(puts_off(1, 8));
                    panic!("within")
                })
            });
            assert!(caught.is_err() && puts_off(1, 4));
            let ((), again) = within(1, || assert!(puts_off(1, 9)));
            assert_eq!(again, 9);
        });
        assert_eq!(outer, 9, "what is put off in a scope within counts");
        assert!(!puts_off(1, 5));
    }
}
