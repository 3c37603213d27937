//! Closures of callers that run while their store is read: what they would call of it could wait
//! for the very thread that they run in, and is refused.

use std::cell::RefCell;

use crate::Error;

thread_local! {
    /// The stores that show something to closures in this thread, by their addresses, the innermost
    /// last.
    static SHOWING: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// As long as this is there, a store shows something to a closure in this thread.
pub(crate) struct Showing(());

impl Showing {
    pub(crate) fn of<S: ?Sized>(store: &S) -> Self {
        let _ = SHOWING.try_with(|stores| stores.borrow_mut().push(address(store)));
        Self(())
    }
}

impl Drop for Showing {
    fn drop(&mut self) {
        let _ = SHOWING.try_with(|stores| stores.borrow_mut().pop());
    }
}

/// Asked by each operation before it waits for anything. Of what is not shown where it lies, as the
/// copies of a snapshot or of an engine of epochs, nothing is asked.
///
/// # Errors
/// [`Error::WithinClosure`].
#[inline]
pub(crate) fn check<S: ?Sized>(store: &S) -> Result<(), Error> {
    // A thread that ends may have dropped the list.
    let within = SHOWING.try_with(|stores| stores.borrow().contains(&address(store)));
    if within == Ok(true) { Err(Error::WithinClosure) } else { Ok(()) }
}

fn address<S: ?Sized>(store: &S) -> usize {
    std::ptr::from_ref(store).cast::<()>().addr()
}
