//! Replies of a cluster are held until what they tell is settled, and what was read is confirmed.
//!
//! A thread is woken once for all of its connections whose replies may go.

use std::cell::RefCell;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};

use crate::data::{Ahead, AheadMark as Mark, Progress};

/// Connections of a thread, and what they wait for.
type Waiting = Arc<Mutex<Vec<(Mark, oneshot::Sender<()>)>>>;

thread_local! {
    /// Those of the last reign.
    static HELD: RefCell<(Weak<Ahead>, Waiting)> = RefCell::default();
}

/// Returns when it is reached; false: it never will be, as the reign has ended.
pub(super) async fn reached(ahead: &Arc<Ahead>, mark: Mark) -> bool {
    if let known @ (None | Some(true)) = mark.is_reached(&ahead.progress().borrow()) {
        return known == Some(true);
    }
    let (tell, told) = oneshot::channel();
    HELD.with_borrow_mut(|(reign, waiting)| {
        if reign.as_ptr() != Arc::as_ptr(ahead) {
            (*reign, *waiting) = (Arc::downgrade(ahead), Waiting::default());
            tokio::spawn(tell_all(ahead.progress(), Arc::clone(waiting)));
        }
        waiting.lock().push((mark, tell));
    });
    told.await.is_ok()
}

/// Tells the connections of one thread, until the reign ends.
async fn tell_all(mut progress: watch::Receiver<Progress>, waiting: Waiting) {
    loop {
        let now = *progress.borrow_and_update();
        let reached = |(mark, _): &mut (Mark, _)| mark.is_reached(&now) != Some(false);
        let some: Vec<_> = waiting.lock().extract_if(.., reached).collect();
        if !now.is_lost {
            some.into_iter().for_each(|(_, tell)| _ = tell.send(())); // Who is gone needs nothing.
        }
        if progress.changed().await.is_err() {
            break;
        }
    }
    waiting.lock().clear();
}
