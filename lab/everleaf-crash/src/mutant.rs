//! Mutants: the program as it was recorded, but for one barrier.

use std::borrow::Cow;
use std::fmt;

use everleaf_pmem::{LINE, Site};

use crate::trace::{Trace, barrier};
use crate::{Assumptions, Event};

/// The operation that a barrier belongs to.
pub(crate) type OperationOf<'o> = &'o dyn Fn(Site) -> Option<&'static str>;

/// A program that differs from the explored one in one barrier, wherever that is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Mutant {
    /// This flush, fence or line write is not made.
    Without(Site),
    /// The stores to one line that this `order` keeps apart are swapped: the first one behind it
    /// comes before those before it.
    SwappedStores(Site),
    /// What is stored and flushed between this fence and the next one comes before what is stored
    /// and flushed between the fence before it and this one, within one operation of one thread.
    /// The last fence of an operation, of whichever layer
    /// ([`Subject::operation_of`](crate::Subject::operation_of)), has no such mutant.
    SwappedGroups(Site),
}

impl Mutant {
    /// The barrier.
    pub fn site(self) -> Site {
        match self {
            Mutant::Without(site) | Mutant::SwappedStores(site) | Mutant::SwappedGroups(site) => {
                site
            }
        }
    }

    /// The mutant that lacks the barrier which this event is.
    fn of(event: &Event) -> Option<Self> {
        let kind = if matches!(event, Event::Order { .. }) {
            Mutant::SwappedStores
        } else {
            Mutant::Without
        };
        barrier(event).map(kind)
    }

    /// What the mutant does where the program does `trace`.
    pub(crate) fn applied<'t>(
        self,
        trace: &'t Trace,
        operation_of: OperationOf<'_>,
    ) -> Cow<'t, Trace> {
        let site = self.site();
        let mutated = match self {
            Mutant::SwappedGroups(_) => trace.with_groups_swapped(site, operation_of),
            _ => trace
                .events
                .iter()
                .any(|event| barrier(event) == Some(site))
                .then(|| trace.without(site)),
        };
        mutated.map_or(Cow::Borrowed(trace), Cow::Owned)
    }
}

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mutant::Without(site) => write!(f, "{site}"),
            Mutant::SwappedStores(site) | Mutant::SwappedGroups(site) => write!(f, "swap {site}"),
        }
    }
}

impl Trace {
    /// The mutants that do something else than this. Groups are swapped only where one thread runs.
    pub fn mutants(
        &self,
        assumptions: Assumptions,
        operation_of: OperationOf<'_>,
    ) -> impl Iterator<Item = Mutant> {
        let alone = self.threads.is_empty();
        let idle = move |event: &&Event| assumptions.eadr && matches!(event, Event::Flush { .. });
        self.events
            .iter()
            .filter(move |event| !idle(event))
            .filter_map(Mutant::of)
            .chain(alone.then(|| self.swappable(operation_of)).into_iter().flatten())
    }

    /// The trace of a program that lacks this barrier.
    fn without(&self, site: Site) -> Self {
        let mut mutant = self.clone();
        let mut i = 0;
        while i < mutant.events.len() {
            let event = mutant.events[i];
            if barrier(&event) != Some(site) {
                i += 1;
                continue;
            }
            let thread = mutant.thread(i);
            mutant.remove(i);
            if matches!(event, Event::Order { .. }) {
                mutant.advance_store(i, thread);
            }
        }
        mutant
    }

    /// How many events a mutant has where this trace has `events`, if it is no other before; else
    /// 0.
    pub fn start_without(&self, site: Site, events: usize) -> usize {
        let suppressed = |event: &&Event| barrier(event) == Some(site);
        if self
            .events
            .iter()
            .any(|event| suppressed(&event) && matches!(event, Event::Order { .. }))
        {
            return 0; // A store may come earlier.
        }
        events - self.events[..events].iter().filter(suppressed).count()
    }

    /// What was promised after event `i` is promised after the event before it.
    fn remove(&mut self, i: usize) {
        self.events.remove(i);
        if !self.threads.is_empty() {
            self.threads.remove(i);
        }
        if !self.moments.is_empty() {
            self.moments.remove(i);
        }
    }

    /// Without an `order` of `thread` that stood before event `at`, the first store of that thread
    /// behind it that shares a line with stores of the thread before it may come first: it is moved
    /// before all of them, back to the thread's previous fence or `order`, but not past a store to
    /// its own word. What is promised after so many events stays.
    fn advance_store(&mut self, at: usize, thread: u16) {
        let own = |i: usize| self.thread(i) == thread;
        let edge = |i: usize| {
            own(i)
                && matches!(
                    self.events[i],
                    Event::Fence { .. } | Event::Order { .. } | Event::EndOperation
                )
        };
        let begin = (0..at).rev().find(|i| edge(*i)).map_or(0, |i| i + 1);
        let end = (at..self.events.len()).find(|i| edge(*i)).unwrap_or(self.events.len());
        for late in (at..end).filter(|i| own(*i)) {
            let Event::Store { offset, .. } = self.events[late] else { continue };
            let early = (begin..at).rev().map_while(|i| match self.events[i] {
                Event::Store { offset: other, .. } if other == offset => None,
                Event::Store { offset: other, .. }
                    if own(i) && other / LINE as u64 == offset / LINE as u64 =>
                {
                    Some(Some(i))
                }
                _ => Some(None),
            });
            if let Some(early) = early.flatten().last() {
                self.events[early..=late].rotate_right(1);
                if !self.threads.is_empty() {
                    self.threads[early..=late].rotate_right(1);
                }
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use everleaf_pmem::site;

    use super::*;
    use crate::known::Moment;

    fn store(word: u64) -> Event {
        Event::Store { offset: word * 8, old: 0, new: 1 }
    }
    const ORDER: Event = Event::Order { site: site!("test.order") };
    const OTHER: Event = Event::Order { site: site!("test.other") };
    const FENCE: Event = Event::Fence { site: site!("test.fence") };

    fn without(site: Site, events: &[Event]) -> Vec<Event> {
        Trace { events: events.to_vec(), ..Trace::default() }.without(site).events
    }

    #[test]
    fn without_its_order_a_store_comes_before_its_line() {
        let site = site!("test.order");
        // Line 0: words 0 to 7; line 1: 8 to 15. Word 3 overtakes words 1 and 2, and with them the
        // other line's word 8.
        assert_eq!(
            without(site, &[store(1), store(8), store(2), ORDER, store(3)]),
            [store(3), store(1), store(8), store(2)]
        );
        // The first store behind it that has company before it, here word 9.
        assert_eq!(
            without(site, &[store(8), ORDER, store(1), store(9)]),
            [store(9), store(8), store(1)]
        );
        // Never past a fence, another `order`, or a store to the same word.
        assert_eq!(
            without(site, &[store(1), FENCE, store(2), ORDER, store(3)]),
            [store(1), FENCE, store(3), store(2)]
        );
        assert_eq!(
            without(site, &[store(1), OTHER, store(2), ORDER, store(3)]),
            [store(1), OTHER, store(3), store(2)]
        );
        assert_eq!(
            without(site, &[store(3), store(2), ORDER, store(3)]),
            [store(3), store(3), store(2)]
        );
        assert_eq!(without(site, &[store(1), ORDER, FENCE, store(2)]), [store(1), FENCE, store(2)]);
        assert_eq!(without(site, &[store(8), ORDER, store(1)]), [store(8), store(1)]);
    }

    #[test]
    fn a_store_overtakes_stores_of_its_own_thread_only() {
        let trace = |events: &[(u16, Event)]| {
            let (threads, events): (Vec<_>, Vec<_>) = events.iter().copied().unzip();
            let moments = (0..=events.len()).map(Moment::between).collect();
            Trace { events, threads, moments, ..Trace::default() }
        };
        let without = |events: &[(u16, Event)]| {
            let mutant = trace(events).without(site!("test.order"));
            let moments: Vec<usize> =
                mutant.moments.iter().map(|moment| moment.acknowledged).collect();
            (mutant.threads.into_iter().zip(mutant.events).collect::<Vec<_>>(), moments)
        };
        // Thread 2's fence, store and `order` are no matter of thread 1; what is promised after so
        // many events stays.
        let (events, moments) = without(&[
            (1, store(1)),
            (2, FENCE),
            (2, store(4)),
            (1, ORDER),
            (2, OTHER),
            (2, store(5)),
            (1, store(3)),
        ]);
        assert_eq!(
            events,
            [(1, store(3)), (1, store(1)), (2, FENCE), (2, store(4)), (2, OTHER), (2, store(5))]
        );
        assert_eq!(
            moments,
            [0, 1, 2, 4, 5, 6, 7],
            "after the third event is promised what was promised after the `order`"
        );
        // Never past a store to the same word, of whichever thread.
        let (events, _) =
            without(&[(1, store(1)), (2, store(3)), (1, store(2)), (1, ORDER), (1, store(3))]);
        assert_eq!(events, [(1, store(1)), (2, store(3)), (1, store(3)), (1, store(2))]);
        let start = |events| {
            trace(&[(1, store(1)), (1, FENCE), (1, ORDER), (1, store(2))])
                .start_without(site!("test.fence"), events)
        };
        assert_eq!((start(1), start(2), start(4)), (1, 1, 3));
        let start = trace(&[(1, store(1)), (1, ORDER)]).start_without(site!("test.order"), 2);
        assert_eq!(start, 0, "a store may come earlier");
    }

    #[test]
    fn every_occurrence_of_a_barrier_is_left_out_and_no_other() {
        let flush = Event::Flush { site: site!("test.flush"), line: 0 };
        let events = [store(0), flush, FENCE, store(1), flush, FENCE];
        assert_eq!(without(site!("test.flush"), &events), [store(0), FENCE, store(1), FENCE]);
        assert_eq!(without(site!("test.fence"), &events), [store(0), flush, store(1), flush]);
        assert_eq!(without(site!("test.absent"), &events), events);
    }
}
