//! Groups of stores between fences that change places.

use std::collections::{BTreeMap, BTreeSet};

use everleaf_pmem::{LINE, Site};

use crate::Event;
use crate::mutant::{Mutant, OperationOf};
use crate::trace::{Trace, barrier};

impl Trace {
    /// The fences whose groups can be swapped somewhere in here.
    pub fn swappable(&self, operation_of: OperationOf<'_>) -> Vec<Mutant> {
        let groups: Vec<&[Event]> = self.events.split_inclusive(is_fence).collect();
        let goes_on = self.goes_on(operation_of);
        let swaps = |(pair, goes_on): (&[&[Event]], &bool)| {
            let site = pair[0].last().and_then(barrier).filter(|_| *goes_on)?;
            Swap::of(pair[0], pair[1]).map(|_| Mutant::SwappedGroups(site))
        };
        groups.windows(2).zip(&goes_on).filter_map(swaps).collect()
    }

    /// For each fence, whether the operation that it belongs to goes on behind it: whether its next
    /// barrier is one that it has not had before. A call that makes several operations of the index
    /// marks their ends: one that ends with a fence goes on no more.
    fn goes_on(&self, operation_of: OperationOf<'_>) -> Vec<bool> {
        let mut runs: BTreeMap<&str, Run> = BTreeMap::new();
        let mut fences: Vec<(Option<&str>, bool)> = Vec::new();
        for event in &self.events {
            if *event == Event::EndOperation {
                let last = fences.len().checked_sub(1);
                runs.retain(|_, run| run.last_fence.is_none() || run.last_fence != last);
            }
            let Some(site) = barrier(event) else { continue };
            let operation = operation_of(site);
            if let Some(operation) = operation {
                let run = runs.entry(operation).or_default();
                if let Some(fence) = run.last_fence {
                    fences[fence].1 = !run.seen.contains(&site);
                }
                run.pass(site, is_fence(event).then_some(fences.len()));
            }
            if is_fence(event) {
                fences.push((operation, operation.is_none()));
            }
        }
        fences.into_iter().map(|(_, goes_on)| goes_on).collect()
    }

    /// The trace in which the groups around a fence are swapped, wherever it is executed; none if
    /// nothing is. A group takes part in one swap only: where it could in two, in the first.
    pub fn with_groups_swapped(&self, site: Site, operation_of: OperationOf<'_>) -> Option<Self> {
        if !self.threads.is_empty() {
            return None;
        }
        let executes =
            |event: &Event| matches!(event, Event::Fence { site: fence } if *fence == site);
        if !self.events.iter().any(executes) {
            return None;
        }
        let mut events = Vec::with_capacity(self.events.len() + 1);
        let mut groups = self
            .events
            .split_inclusive(is_fence)
            .zip(self.goes_on(operation_of).into_iter().chain([false]))
            .peekable();
        let mut changed = false;
        while let Some((group, goes_on)) = groups.next() {
            let fence = group.last().filter(|event| goes_on && executes(event));
            match fence.zip(groups.peek()).and_then(|(_, (next, _))| Swap::of(group, next)) {
                Some(swap) => {
                    swap.apply(&mut events);
                    groups.next();
                    changed = true;
                }
                None => events.extend_from_slice(group),
            }
        }
        changed.then(|| Self { events, ..self.clone() })
    }
}

/// Barriers of one operation of one layer, since it began.
#[derive(Default)]
struct Run {
    seen: BTreeSet<Site>,
    /// Since its last fence.
    recent: BTreeSet<Site>,
    /// Which of the trace's fences was its last barrier.
    last_fence: Option<usize>,
}

impl Run {
    /// A barrier; with its number, if it is a fence. One that comes again behind a fence begins the
    /// operation anew.
    fn pass(&mut self, site: Site, fence: Option<usize>) {
        if self.seen.contains(&site) && !self.recent.contains(&site) {
            *self = Self::default();
        }
        self.seen.insert(site);
        self.recent.insert(site);
        if fence.is_some() {
            self.recent.clear();
        }
        self.last_fence = fence;
    }
}

fn is_fence(event: &Event) -> bool {
    matches!(event, Event::Fence { .. })
}

fn stored(event: &Event) -> Option<u64> {
    match event {
        Event::Store { offset, .. } | Event::UnorderedStore { offset, .. } => Some(*offset),
        _ => None,
    }
}

/// Two neighbouring groups, each with the fence at its end, that can change places.
struct Swap<'t> {
    /// The first group, without its fence.
    first: &'t [Event],
    fence: Event,
    /// What of the second group comes before the first.
    early: Vec<Event>,
    /// What has to stay behind it: lines of which both groups store the same word, whose last value
    /// would change.
    late: Vec<Event>,
    /// The fence at the end of the second group; none if the operation returns without one.
    end: Option<Event>,
}

impl<'t> Swap<'t> {
    /// None if a group stores nothing, or nothing that could come earlier.
    fn of(first: &'t [Event], second: &[Event]) -> Option<Self> {
        let (fence, first) = first.split_last()?;
        let (end, second) = match second.split_last() {
            Some((end, second)) if is_fence(end) => (Some(*end), second),
            _ => (None, second),
        };
        let words: Vec<u64> = first.iter().filter_map(stored).collect();
        if words.is_empty() {
            return None;
        }
        let line = |offset: u64| offset / LINE as u64;
        let bound: Vec<u64> = second
            .iter()
            .filter_map(stored)
            .filter(|offset| words.contains(offset))
            .map(line)
            .collect();
        // A line that the first group has left to the second to flush is flushed where it was:
        // after both.
        let unflushed = |flushed: u64| {
            let last = first.iter().rev().find(|event| match event {
                Event::Flush { line, .. } => *line == flushed,
                event => {
                    matches!(event, Event::Store { .. }) && stored(event).map(line) == Some(flushed)
                }
            });
            last.is_some_and(|event| stored(event).is_some())
        };
        let stays = |event: &Event| match event {
            Event::Flush { line, .. } => bound.contains(line) || unflushed(*line),
            event => stored(event).is_some_and(|offset| bound.contains(&line(offset))),
        };
        let (late, early): (Vec<Event>, Vec<Event>) = second.iter().copied().partition(stays);
        early.iter().any(|event| stored(event).is_some()).then_some(Self {
            first,
            fence: *fence,
            early,
            late,
            end,
        })
    }

    /// What came second, the fence, what came first; the fence once more where nothing else would
    /// keep what came first before what follows. Memory grows before anything else, since what is
    /// stored may be in there.
    fn apply(self, events: &mut Vec<Event>) {
        let grows = |event: &&Event| matches!(event, Event::Grow { .. });
        let rest = |event: &&Event| !grows(event);
        events.extend(self.first.iter().filter(grows).chain(self.early.iter().filter(grows)));
        events.extend(self.early.iter().filter(rest));
        events.push(self.fence);
        events.extend(self.first.iter().filter(rest));
        if self.end.is_none() || !self.late.is_empty() {
            events.push(self.fence);
        }
        events.extend(self.late);
        events.extend(self.end);
    }
}

#[cfg(test)]
mod tests {
    use everleaf_pmem::site;

    use super::*;
    use crate::Assumptions;

    const FENCE: Event = Event::Fence { site: site!("test.fence") };

    fn at(word: u64, new: u64) -> Event {
        Event::Store { offset: word * 8, old: 0, new }
    }
    fn flush(line: u64) -> Event {
        Event::Flush { site: site!("test.flush"), line }
    }
    const END: Event = Event::Fence { site: site!("test.end") };

    fn swapped(events: &[Event]) -> Option<Vec<Event>> {
        let trace = Trace { events: events.to_vec(), ..Trace::default() };
        let swapped =
            trace.with_groups_swapped(site!("test.fence"), &|_| None).map(|mutant| mutant.events);
        assert_eq!(
            swapped.is_some(),
            trace
                .mutants(Assumptions::default(), &|_| None)
                .any(|mutant| mutant == Mutant::SwappedGroups(site!("test.fence")))
        );
        swapped
    }

    #[test]
    fn what_follows_a_fence_comes_before_what_it_follows() {
        let (one, two) = ([at(0, 1), flush(0)], [at(8, 2), flush(1), at(16, 3), flush(2)]);
        let events = [&one[..], &[FENCE], &two, &[END], &[at(24, 4)]].concat();
        assert_eq!(
            swapped(&events),
            Some([&two[..], &[FENCE], &one, &[END], &[at(24, 4)]].concat())
        );
        // Where the operation returns without a fence, the first group is made durable all the
        // same: no durability is lost, only the order.
        let events = [&one[..], &[FENCE], &two].concat();
        assert_eq!(swapped(&events), Some([&two[..], &[FENCE], &one, &[FENCE]].concat()));
        // Other words of the same line change places too.
        let events = [at(0, 1), flush(0), FENCE, at(1, 2), flush(0), END];
        assert_eq!(
            swapped(&events),
            Some(vec![at(1, 2), flush(0), FENCE, at(0, 1), flush(0), END])
        );
    }

    #[test]
    fn a_word_that_both_groups_store_keeps_its_last_value_and_its_line_its_place() {
        let events =
            [at(0, 1), flush(0), FENCE, at(0, 2), at(1, 3), flush(0), at(8, 4), flush(1), END];
        let mutant = [
            at(8, 4),
            flush(1),
            FENCE,
            at(0, 1),
            flush(0),
            FENCE,
            at(0, 2),
            at(1, 3),
            flush(0),
            END,
        ];
        assert_eq!(swapped(&events), Some(mutant.to_vec()));
        assert_eq!(swapped(&[at(0, 1), flush(0), FENCE, at(0, 2), flush(0), END]), None);
        // A flush that is made late is made late still.
        let events = [at(0, 1), FENCE, at(1, 2), flush(0), END];
        assert_eq!(swapped(&events), Some(vec![at(1, 2), FENCE, at(0, 1), FENCE, flush(0), END]));
    }

    #[test]
    fn a_group_takes_part_in_one_swap_and_empty_ones_in_none() {
        let (a, b, c) = (at(0, 1), at(8, 2), at(16, 3));
        assert_eq!(swapped(&[a, FENCE, b, FENCE, c, END]), Some(vec![b, FENCE, a, FENCE, c, END]));
        assert_eq!(swapped(&[FENCE, a, END]), None, "nothing before it");
        assert_eq!(swapped(&[a, FENCE, flush(0), END, b]), None, "nothing in the group behind it");
        assert_eq!(swapped(&[a, END, b]), None, "another fence");
        assert_eq!(swapped(&[a, FENCE]), None, "the last one");
        let grown = Event::Grow { len: 4096 };
        assert_eq!(
            swapped(&[a, FENCE, grown, b, END]),
            Some(vec![grown, b, FENCE, a, END]),
            "memory is there before it is stored to"
        );
    }

    #[test]
    fn the_last_fence_of_an_operation_of_a_lower_layer_has_no_swap() {
        const CHANGED: Event = Event::Fence { site: site!("tree.insert.P1.fence") };
        const ALLOCATED: Event = Event::Fence { site: site!("pool.take.A1.fence") };
        const RETIRED: Event = Event::Fence { site: site!("pool.take.A2.fence") };
        const DONE: Event = Event::Fence { site: site!("tree.insert.P2.fence") };
        let layers = |site: Site| {
            Some(if site.name().starts_with("pool.") { "pool.take" } else { "tree.insert" })
        };
        let take = |word: u64| [at(word, 1), ALLOCATED, at(word + 8, 2), RETIRED];
        let events =
            [&take(0)[..], &take(64), &[at(128, 3), CHANGED, at(136, 4), DONE, at(144, 5)]]
                .concat();
        let trace = Trace { events, ..Trace::default() };
        let swaps: Vec<Mutant> = trace.swappable(&layers);
        let expected = ["pool.take.A1.fence", "pool.take.A1.fence", "tree.insert.P1.fence"];
        assert_eq!(swaps.iter().map(|mutant| mutant.site().name()).collect::<Vec<_>>(), expected);
        assert!(trace.with_groups_swapped(site!("pool.take.A2.fence"), &layers).is_none());
        let mutant = trace.with_groups_swapped(site!("pool.take.A1.fence"), &layers).unwrap();
        let swapped = |word: u64| [at(word + 8, 2), ALLOCATED, at(word, 1), RETIRED];
        assert_eq!(mutant.events[..8], [swapped(0), swapped(64)].concat());
    }

    #[test]
    fn what_follows_the_end_of_an_operation_is_another_one() {
        const OTHER: Event = Event::Fence { site: site!("tree.insert.P3.fence") };
        let layers = |_: Site| Some("tree.insert");
        let swaps = |events: &[Event]| {
            Trace { events: events.to_vec(), ..Trace::default() }.swappable(&layers).len()
        };
        assert_eq!(swaps(&[at(0, 1), FENCE, at(8, 2), OTHER]), 1);
        assert_eq!(swaps(&[at(0, 1), FENCE, Event::EndOperation, at(8, 2), OTHER]), 0);
    }
}
