//! Work on several threads.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::OnceLock;
use std::thread::Builder;

use crossbeam_utils::Backoff;
use parking_lot::Mutex;

/// Two stages of work by the same threads, this one among them: a thread that would be started, or
/// woken, for the second stage begins too late to be of much use where all takes some milliseconds.
///
/// Every thread does `first`. With what they made, in no order, this thread does `between`, for
/// which the others wait without sleeping: it should be short (after a crash it also ends what that
/// left undone, which may take longer). With what that made every thread does `second`. Returns
/// what `between` and, in no order, `second` made. An error of `between` ends it, a panic anywhere
/// goes on here. Where the system gives fewer threads, those do it.
pub fn in_two_stages<A: Send, B: Send + Sync, C: Send, E>(
    threads: usize,
    first: impl Fn() -> A + Sync,
    between: impl FnOnce(Vec<A>) -> Result<B, E>,
    second: impl Fn(&B) -> C + Sync,
) -> Result<(B, Vec<C>), E> {
    in_two_stages_on((1..threads).map(|_| Builder::new()), first, between, second)
}

/// The same on this thread and others that are built so.
fn in_two_stages_on<A: Send, B: Send + Sync, C: Send, E>(
    others: impl Iterator<Item = Builder>,
    first: impl Fn() -> A + Sync,
    between: impl FnOnce(Vec<A>) -> Result<B, E>,
    second: impl Fn(&B) -> C + Sync,
) -> Result<(B, Vec<C>), E> {
    let (plan, firsts, seconds) = (OnceLock::new(), Made::default(), Made::default());
    let other = || {
        firsts.add(&first);
        if let Some(plan) = wait_for(|| plan.get()) {
            seconds.add(|| second(plan));
        }
    };
    let made = std::thread::scope(|scope| {
        let _ends_wait = EndsWait(&plan);
        // Where the system gives no more threads, those that are there do it.
        let others = others.map_while(|builder| builder.spawn_scoped(scope, other).ok()).count();
        let own = first();
        let made = between(firsts.all(others, own))?;
        let plan = plan.get_or_init(|| Some(made)).as_ref();
        let own = plan.map(&second);
        Ok(own.map(|own| seconds.all(others, own)).unwrap_or_default())
    })?;
    let plan = plan.into_inner().flatten();
    Ok((plan.unwrap_or_else(|| unreachable!("made above")), made))
}

/// Dropped before there is a plan, it tells the threads that there will be none.
struct EndsWait<'a, B>(&'a OnceLock<Option<B>>);

impl<B> Drop for EndsWait<'_, B> {
    fn drop(&mut self) {
        let _ = self.0.set(None);
    }
}

/// What threads have made.
struct Made<T>(Mutex<Vec<std::thread::Result<T>>>);

impl<T> Default for Made<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Made<T> {
    fn add(&self, work: impl FnOnce() -> T) {
        // What a panic left half done is never seen: it goes on in `all`.
        let made = catch_unwind(AssertUnwindSafe(work));
        self.0.lock().push(made);
    }

    /// What so many others have made, and this thread.
    fn all(&self, others: usize, own: T) -> Vec<T> {
        let made = wait_for(|| {
            Some(self.0.lock())
                .filter(|made| made.len() == others)
                .map(|mut made| std::mem::take(&mut *made))
        });
        let made = made.into_iter().map(|made| made.unwrap_or_else(|panic| resume_unwind(panic)));
        std::iter::once(own).chain(made).collect()
    }
}

/// Waits without sleeping, and gives up the processor to others that want it.
fn wait_for<T>(ready: impl Fn() -> Option<T>) -> T {
    let backoff = Backoff::new();
    loop {
        match ready() {
            Some(ready) => return ready,
            None => backoff.snooze(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;

    #[test]
    fn every_thread_does_both_stages_and_all_that_they_made_is_returned() {
        for threads in [0, 1, 2, 3, 20] {
            let (started, seen) =
                (AtomicUsize::new(0), Mutex::new(std::collections::HashSet::new()));
            let first =
                || (started.fetch_add(1, Relaxed), seen.lock().insert(std::thread::current().id()));
            let here = std::thread::current().id();
            let between = |made: Vec<(usize, bool)>| {
                assert_eq!(std::thread::current().id(), here);
                assert!(made.iter().all(|(_, new)| *new), "each by a thread of its own: {made:?}");
                Ok::<_, ()>(made.iter().map(|(number, _)| *number).sum::<usize>())
            };
            let second = |sum: &usize| (*sum, seen.lock().remove(&std::thread::current().id()));
            let (sum, made) = in_two_stages(threads, first, between, second).unwrap();
            let threads = threads.max(1);
            assert_eq!((sum, made), (threads * (threads - 1) / 2, vec![(sum, true); threads]));
        }
    }

    #[test]
    fn it_is_done_by_those_threads_that_could_be_started() {
        for possible in [0, 1, 2] {
            // Stacks for which there are no addresses.
            let builder = |number| {
                if number < possible { Builder::new() } else { Builder::new().stack_size(1 << 60) }
            };
            let between = |made: Vec<()>| Ok::<_, ()>(made.len());
            let (threads, made) =
                in_two_stages_on((0..4).map(builder), || (), between, |threads| *threads).unwrap();
            assert_eq!((threads, made), (possible + 1, vec![possible + 1; possible + 1]));
        }
    }

    #[test]
    fn an_error_between_the_stages_ends_it() {
        let second = |_: &()| panic!("there is no second stage");
        assert_eq!(in_two_stages(3, || (), |_| Err("no"), second).unwrap_err(), "no");
    }

    /// The panic of the thread with this number, or of `between`, or of this thread alone.
    fn panic_in(stage: &str, of_this_thread: bool) -> String {
        let here = std::thread::current().id();
        let fail = |now: &str| {
            let is_meant =
                now == "between" || (std::thread::current().id() == here) == of_this_thread;
            assert!(now != stage || !is_meant, "in the {now} stage");
        };
        let between = |_| {
            fail("between");
            Ok::<_, ()>(())
        };
        let work = || in_two_stages(3, || fail("first"), between, |()| fail("second"));
        let panic = catch_unwind(AssertUnwindSafe(work)).unwrap_err();
        panic.downcast_ref::<String>().unwrap().clone()
    }

    #[test]
    fn a_panic_goes_on() {
        for of_this_thread in [true, false] {
            for stage in ["first", "between", "second"] {
                assert_eq!(panic_in(stage, of_this_thread), format!("in the {stage} stage"));
            }
        }
    }
}
