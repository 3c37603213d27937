//! Events that took long, for LATENCY: the last of each kind.

use std::collections::{BTreeMap, VecDeque};

use parking_lot::Mutex;

/// Events of a kind that are remembered.
const KEPT: usize = 160;

/// The events of a kind: seconds since 1970 and milliseconds of each, and the longest ever.
#[derive(Clone, Default)]
pub struct Events {
    /// The last ones, the latest at the end.
    pub last: VecDeque<(u64, u64)>,
    /// The milliseconds of the longest.
    pub longest_ms: u64,
}

/// All kinds.
#[derive(Default)]
pub struct Latency {
    kinds: Mutex<BTreeMap<&'static str, Events>>,
}

impl Latency {
    /// An event took so long. Of those of a second the longest is kept.
    pub fn add(&self, kind: &'static str, at_seconds: u64, ms: u64) {
        let mut kinds = self.kinds.lock();
        let events = kinds.entry(kind).or_default();
        events.longest_ms = events.longest_ms.max(ms);
        match events.last.back_mut() {
            Some((then, longest)) if *then == at_seconds => *longest = ms.max(*longest),
            _ => events.last.push_back((at_seconds, ms)),
        }
        if events.last.len() > KEPT {
            events.last.pop_front();
        }
    }

    /// All of them, by kind.
    pub fn all(&self) -> BTreeMap<&'static str, Events> {
        self.kinds.lock().clone()
    }

    /// Forgets a kind; whether there was any.
    pub fn forget(&self, kind: &str) -> bool {
        self.kinds.lock().remove(kind).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_events_and_the_longest_are_remembered() {
        let latency = Latency::default();
        (0..500).for_each(|at| latency.add("command", at, 1000 - at));
        latency.add("command", 499, 7);
        latency.add("command", 499, 600);
        let events = latency.all().remove("command").unwrap();
        assert_eq!((events.last.len(), events.longest_ms), (KEPT, 1000));
        assert_eq!(events.last.back(), Some(&(499, 600)));
        assert!(latency.forget("command") && !latency.forget("command"));
    }
}
