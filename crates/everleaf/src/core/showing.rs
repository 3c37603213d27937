//! Closures of callers that run while their store is read: what they would call of it could wait
//! for the very thread that they run in, and is refused.

use std::cell::Cell;

use crate::Error;

thread_local! {
    /// The store that shows something to a closure in this thread, by its address; 0: none does.
    static SHOWING: Cell<usize> = const { Cell::new(0) };
}

/// As long as this is there, a store shows something to a closure in this thread. A closure within
/// one of another store hides the outer one.
pub(crate) struct Showing {
    outer: usize,
}

impl Showing {
    pub(crate) fn of<S: ?Sized>(store: &S) -> Self {
        Self { outer: SHOWING.replace(address(store)) }
    }
}

impl Drop for Showing {
    fn drop(&mut self) {
        SHOWING.set(self.outer);
    }
}

/// Asked by each operation before it waits for anything. Of what is not shown where it lies, as the
/// copies of a snapshot or of an engine of epochs, nothing is asked.
///
/// # Errors
/// [`Error::WithinClosure`].
#[inline]
pub(crate) fn check<S: ?Sized>(store: &S) -> Result<(), Error> {
    if SHOWING.get() == address(store) { Err(Error::WithinClosure) } else { Ok(()) }
}

fn address<S: ?Sized>(store: &S) -> usize {
    std::ptr::from_ref(store).cast::<()>().addr()
}
