//! Requests that hold locks for as long as they like: scripts. Who waits for what they hold is
//! turned away after a time, and they can be ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The shortest and the longest pause between two tries to get a lock.
const PAUSES: [Duration; 2] = [Duration::from_micros(20), Duration::from_millis(2)];

/// What runs, for who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Running {
    /// The function; empty: it is a script.
    pub function: String,
    /// The words of the request.
    pub words: Vec<Vec<u8>>,
}

/// What became of the wish to end them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Killed {
    /// They end.
    Ends,
    /// There is none that others are turned away from.
    None,
    /// There are, but of the other kind.
    Others,
}

/// One of them.
pub struct Holder {
    since: Instant,
    running: Running,
    /// The locks of keys that it holds, in ascending order; none: everything.
    stripes: Option<Vec<usize>>,
    /// Whether it is to end.
    pub killed: Arc<AtomicBool>,
}

/// All of them.
pub struct Holders {
    list: Mutex<Vec<Arc<Holder>>>,
    /// How many there are.
    count: AtomicUsize,
    /// Who waits for everything: new requests wait behind it.
    waiting: AtomicUsize,
    /// Whether who begins is to end at once; changed and looked at under the list's lock.
    is_stopping: AtomicBool,
    /// After how many milliseconds who waits for them is turned away.
    busy_ms: Arc<AtomicU64>,
}

/// It holds its locks as long as this lives.
pub struct Held<'h> {
    holders: &'h Holders,
    /// What is held.
    pub holder: Arc<Holder>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.holders.list.lock().retain(|other| !Arc::ptr_eq(other, &self.holder));
        self.holders.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Somebody waits for everything as long as this lives.
pub(super) struct WaitsForAll<'h>(&'h Holders);

impl Drop for WaitsForAll<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// To share everything with others.
    Share,
    /// The lock of a key.
    Stripe(usize),
    /// Everything.
    All,
}

impl Holder {
    fn holds(&self, wanted: Wanted) -> bool {
        match (&self.stripes, wanted) {
            (None, _) | (_, Wanted::All) => true,
            (Some(_), Wanted::Share) => false,
            (Some(stripes), Wanted::Stripe(stripe)) => stripes.binary_search(&stripe).is_ok(),
        }
    }
}

impl Default for Holders {
    fn default() -> Self {
        Self {
            list: Mutex::default(),
            count: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            is_stopping: AtomicBool::new(false),
            busy_ms: Arc::new(AtomicU64::new(5000)),
        }
    }
}

impl Holders {
    /// The number of milliseconds after which who waits is turned away.
    pub fn busy_ms(&self) -> &Arc<AtomicU64> {
        &self.busy_ms
    }

    /// Somebody begins that holds these locks of keys, or everything.
    pub fn begin(&self, stripes: Option<Vec<usize>>, running: Running) -> Held<'_> {
        let since = Instant::now();
        let holder = Arc::new(Holder { since, running, stripes, killed: Arc::default() });
        self.count.fetch_add(1, Ordering::Relaxed);
        let mut list = self.list.lock();
        list.push(Arc::clone(&holder));
        holder.killed.store(self.is_stopping.load(Ordering::Relaxed), Ordering::Relaxed);
        drop(list);
        Held { holders: self, holder }
    }

    fn is_late(&self, holder: &Holder) -> bool {
        holder.since.elapsed() >= Duration::from_millis(self.busy_ms.load(Ordering::Relaxed))
    }

    /// Ends the functions, or the scripts, that others are turned away from.
    pub fn kill(&self, functions: bool) -> Killed {
        let list = self.list.lock();
        let late: Vec<_> = list.iter().filter(|holder| self.is_late(holder)).collect();
        let is_meant = |holder: &&&Arc<Holder>| holder.running.function.is_empty() != functions;
        let meant: Vec<_> = late.iter().filter(is_meant).collect();
        meant.iter().for_each(|holder| holder.killed.store(true, Ordering::Relaxed));
        match (late.is_empty(), meant.is_empty()) {
            (true, _) => Killed::None,
            (false, true) => Killed::Others,
            (false, false) => Killed::Ends,
        }
    }

    /// What others are turned away from first, and for how long it has run.
    pub fn running(&self) -> Option<(Running, Duration)> {
        let list = self.list.lock();
        let late = list.iter().find(|holder| self.is_late(holder))?;
        Some((late.running.clone(), late.since.elapsed()))
    }

    /// Ends all of them, and those that begin from now on: the server stops.
    pub fn kill_all(&self) {
        let list = self.list.lock();
        self.is_stopping.store(true, Ordering::Relaxed);
        list.iter().for_each(|holder| holder.killed.store(true, Ordering::Relaxed));
    }

    /// Those that begin from now on may go on: a server starts.
    pub fn admit(&self) {
        let _list = self.list.lock();
        self.is_stopping.store(false, Ordering::Relaxed);
    }

    /// Whether there are any.
    pub fn any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Whether one of them holds what is wanted; `late`: for so long that it is not waited for.
    pub(super) fn is_held(&self, wanted: Wanted, late: bool) -> bool {
        let holds = |held: &Arc<Holder>| held.holds(wanted) && (!late || self.is_late(held));
        self.any() && self.list.lock().iter().any(holds)
    }

    /// Somebody waits for everything: so that it gets it, others wait meanwhile, but where it waits
    /// for a script itself.
    pub(super) fn wait_for_all(&self) -> WaitsForAll<'_> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        WaitsForAll(self)
    }

    /// Whether to wait behind who waits for everything.
    pub(super) fn is_first(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) == 0 || self.any()
    }

    /// Tries until it succeeds; none: what is wanted is held by one of them, and `late` as above.
    pub(super) fn wait<T>(
        &self,
        (wanted, late): (Wanted, bool),
        mut attempt: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        let [mut pause, longest] = PAUSES;
        loop {
            if let Some(got) = attempt() {
                return Some(got);
            }
            if self.is_held(wanted, late) {
                return None;
            }
            std::thread::sleep(pause);
            pause = (2 * pause).min(longest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_what_a_script_holds_is_turned_away_after_a_time() {
        let holders = Holders::default();
        let held = holders.begin(Some(vec![3, 7]), Running::default());
        let kill = || holders.kill(false);
        assert!(!holders.is_held(Wanted::Stripe(3), true) && kill() == Killed::None);
        holders.busy_ms().store(0, Ordering::Relaxed);
        for (wanted, is_busy) in [
            (Wanted::Stripe(3), true),
            (Wanted::Stripe(4), false),
            (Wanted::Share, false),
            (Wanted::All, true),
        ] {
            assert_eq!(holders.is_held(wanted, true), is_busy, "{wanted:?}");
        }
        assert_eq!(holders.wait((Wanted::All, true), || None::<()>), None);
        assert_eq!(holders.kill(true), Killed::Others);
        assert!(!held.holder.killed.load(Ordering::Relaxed));
        assert!(kill() == Killed::Ends && held.holder.killed.load(Ordering::Relaxed));
        drop(held);
        assert!(!holders.is_held(Wanted::All, true) && kill() == Killed::None);
        let function = Running { function: "f".to_owned(), words: Vec::new() };
        let _all = holders.begin(None, function.clone());
        assert_eq!(holders.running().map(|(running, _)| running), Some(function));
        assert!(holders.is_held(Wanted::Share, true) && holders.is_held(Wanted::Stripe(4), true));
    }

    #[test]
    fn who_begins_when_all_were_ended_is_ended_too() {
        let holders = Holders::default();
        let before = holders.begin(None, Running::default());
        holders.kill_all();
        let after = holders.begin(None, Running::default());
        assert!([&before, &after].iter().all(|held| held.holder.killed.load(Ordering::Relaxed)));
        holders.admit();
        assert!(!holders.begin(None, Running::default()).holder.killed.load(Ordering::Relaxed));
    }
}
