//! What operations returned and when, and which contents that allows.

use std::collections::{BTreeMap, BTreeSet};

use super::judge::Durable;
use crate::Acknowledges;

/// Operations that a history may have: those that are done are a set of bits.
pub(crate) const MAX_OPERATIONS: usize = u64::BITS as usize;

/// A moment of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark {
    /// So many marks were set before.
    pub order: u32,
    /// So many events of the memory had happened.
    pub events: usize,
}

/// An operation that was begun.
#[derive(Clone, Debug)]
pub(crate) struct Call<O> {
    pub thread: u16,
    pub operation: usize,
    pub invoked: Mark,
    pub returned: Option<(Mark, O)>,
}

/// How far an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It has done nothing.
    Ahead,
    /// It may have taken effect or not.
    InFlight,
    /// It is acknowledged.
    Returned,
}

impl<O> Call<O> {
    /// How far it is after so many events of the memory, and before the next. What was returned
    /// then is known to the caller, so the promise is the strictest of that time.
    pub fn stage(&self, events: usize) -> Stage {
        match &self.returned {
            Some((returned, _)) if returned.events <= events => Stage::Returned,
            _ if self.invoked.events < events => Stage::InFlight,
            _ => Stage::Ahead,
        }
    }
}

/// The operations of a step in the order in which they were begun.
#[derive(Debug)]
pub(crate) struct History<O> {
    pub calls: Vec<Call<O>>,
    marks: u32,
}

impl<O> Default for History<O> {
    fn default() -> Self {
        Self { calls: Vec::new(), marks: 0 }
    }
}

impl<O: Clone + Eq> History<O> {
    fn mark(&mut self, events: usize) -> Mark {
        self.marks += 1;
        Mark { order: self.marks, events }
    }

    /// An operation begins; returns its place.
    pub fn invoke(&mut self, thread: u16, operation: usize, events: usize) -> usize {
        let invoked = self.mark(events);
        self.calls.push(Call { thread, operation, invoked, returned: None });
        self.calls.len() - 1
    }

    /// It returns.
    pub fn returns(&mut self, place: usize, outcome: O, events: usize) {
        let mark = self.mark(events);
        self.calls[place].returned = Some((mark, outcome));
    }

    /// The contents that are legal after a crash that came after so many events: those which a
    /// linearization of the operations that had returned, and of any of those in flight, leaves
    /// right after one that ends an epoch (of a strict structure, each does), and not before one
    /// that has acknowledged everything. In a linearization, every operation that had returned
    /// gives what it returned, and none comes before one that had returned when it was begun.
    pub fn legal_contents<C: Clone + Ord>(
        &self,
        events: usize,
        start: &Durable<C>,
        apply: &dyn Fn(&mut C, usize) -> O,
        acknowledges: &dyn Fn(usize) -> Acknowledges,
    ) -> BTreeSet<C> {
        let calls: Vec<(&Call<O>, Stage)> = self
            .calls
            .iter()
            .map(|call| (call, call.stage(events)))
            .filter(|(_, stage)| *stage != Stage::Ahead)
            .collect();
        let kinds: Vec<Acknowledges> =
            calls.iter().map(|(call, _)| acknowledges(call.operation)).collect();
        let acknowledged = (0..calls.len())
            .filter(|i| calls[*i].1 == Stage::Returned && kinds[*i] == Acknowledges::Everything)
            .fold(0, |set, i| set | 1 << i);
        let (seen, legal) = (BTreeMap::new(), BTreeSet::new());
        let mut search = Search { calls, kinds, acknowledged, apply, seen, legal };
        if search.explains(0, start.content.clone()) && acknowledged == 0 {
            search.legal.extend(start.legal.iter().cloned());
        }
        search.legal
    }

    /// The contents that may be there without a crash, after so many events.
    pub fn contents<C: Clone + Ord>(
        &self,
        events: usize,
        start: &C,
        apply: &dyn Fn(&mut C, usize) -> O,
    ) -> BTreeSet<C> {
        let strictly = |_| Acknowledges::Everything;
        self.legal_contents(events, &Durable::of(start.clone()), apply, &strictly)
    }
}

struct Search<'a, C, O> {
    calls: Vec<(&'a Call<O>, Stage)>,
    /// What each acknowledges when it returns.
    kinds: Vec<Acknowledges>,
    /// The set of those that had returned and acknowledged everything.
    acknowledged: u64,
    apply: &'a dyn Fn(&mut C, usize) -> O,
    /// Whether the rest can be explained where these have happened and this is there.
    seen: BTreeMap<(u64, C), bool>,
    legal: BTreeSet<C>,
}

impl<C: Clone + Ord, O: Clone + Eq> Search<'_, C, O> {
    /// Whether the rest can be explained where the operations in the set `done` have happened, and
    /// led to `content`.
    fn explains(&mut self, done: u64, content: C) -> bool {
        if let Some(known) = self.seen.get(&(done, content.clone())) {
            return *known;
        }
        let waiting = |i: &usize| done >> i & 1 == 0;
        let returned = |i: &usize| self.calls[*i].1 == Stage::Returned;
        let must: Vec<usize> = (0..self.calls.len()).filter(waiting).filter(returned).collect();
        let mut explains = must.is_empty();
        // None that had returned may be overtaken by one that was begun later.
        let first_return = must
            .iter()
            .filter_map(|i| self.calls[*i].0.returned.as_ref())
            .map(|(mark, _)| mark.order)
            .min();
        for i in (0..self.calls.len()).filter(waiting) {
            let (call, stage) = self.calls[i];
            if first_return.is_some_and(|order| order < call.invoked.order) {
                continue;
            }
            let mut next = content.clone();
            let outcome = (self.apply)(&mut next, call.operation);
            let explained = match &call.returned {
                Some((_, returned)) if stage == Stage::Returned => *returned == outcome,
                _ => true,
            };
            let done = done | 1 << i;
            if explained && self.explains(done, next.clone()) {
                explains = true;
                let ends = self.kinds[i] != Acknowledges::Nothing;
                if ends && self.acknowledged & !done == 0 {
                    self.legal.insert(next);
                }
            }
        }
        self.seen.insert((done, content), explains);
        explains
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Operation `10 + n` sets a register to `n` and returns 0, any other reads it.
    fn register(content: &mut u64, operation: usize) -> u64 {
        if operation < 10 {
            return *content;
        }
        *content = operation as u64 - 10;
        0
    }

    fn legal(history: &History<u64>, events: usize) -> Vec<u64> {
        let strictly = |_| Acknowledges::Everything;
        let legal = history.legal_contents(events, &Durable::of(0), &register, &strictly);
        legal.into_iter().collect()
    }

    /// The same where reads acknowledge nothing, nor do sets; operation 1 ends an epoch, 2 is sync.
    fn buffered(history: &History<u64>, events: usize, older: &[u64]) -> Vec<u64> {
        let acknowledges = |operation| match operation {
            1 => Acknowledges::EndOfEpoch,
            2 => Acknowledges::Everything,
            _ => Acknowledges::Nothing,
        };
        let start = Durable { content: 0, legal: older.iter().copied().collect() };
        let apply = |content: &mut u64, operation| match operation {
            1 | 2 => 0,
            _ => register(content, operation),
        };
        history.legal_contents(events, &start, &apply, &acknowledges).into_iter().collect()
    }

    #[test]
    fn a_crash_leaves_a_consistent_cut_of_a_buffered_structure() {
        let mut history = History::default();
        let set = history.invoke(1, 15, 0);
        assert_eq!(buffered(&history, 1, &[0, 9]), [0, 9], "what is in flight is of no epoch");
        history.returns(set, 0, 1);
        assert_eq!(buffered(&history, 1, &[0, 9]), [0, 9], "nor is what has returned");
        let epoch = history.invoke(2, 1, 1);
        let other = history.invoke(1, 16, 2);
        assert_eq!(buffered(&history, 3, &[0]), [0, 5, 6], "it ends before the other, or after");
        history.returns(epoch, 0, 3);
        history.returns(other, 0, 3);
        assert_eq!(buffered(&history, 3, &[0]), [0, 5, 6], "nobody has waited for it");
        let sync = history.invoke(2, 2, 3);
        assert_eq!(buffered(&history, 4, &[0]), [0, 5, 6]);
        history.returns(sync, 0, 5);
        assert_eq!(buffered(&history, 5, &[0]), [6], "it came after both");
    }

    #[test]
    fn an_epoch_that_nothing_explains_is_no_cut() {
        let mut history = History::default();
        history.invoke(1, 15, 0);
        history.invoke(2, 1, 0);
        let read = history.invoke(3, 0, 1);
        history.returns(read, 7, 2);
        assert_eq!(buffered(&history, 2, &[0]), [] as [u64; 0], "no operation sets 7");
    }

    #[test]
    fn what_is_in_flight_may_have_happened_or_not() {
        let mut history = History::default();
        let set = history.invoke(1, 15, 0);
        assert_eq!(legal(&history, 0), [0], "it has done nothing");
        assert_eq!(legal(&history, 1), [0, 5]);
        history.returns(set, 0, 3);
        assert_eq!(legal(&history, 2), [0, 5]);
        assert_eq!(legal(&history, 3), [5]);
    }

    #[test]
    fn a_value_that_was_read_must_be_there() {
        let mut history = History::default();
        history.invoke(1, 15, 0);
        let read = history.invoke(2, 0, 1);
        history.returns(read, 5, 1);
        assert_eq!(legal(&history, 1), [5]);
        // And one that was read without it must be explained too: the set comes later, or never.
        let other = history.invoke(2, 0, 1);
        history.returns(other, 0, 1);
        assert_eq!(legal(&history, 1), [] as [u64; 0], "no operation sets it back");
    }

    #[test]
    fn concurrent_operations_have_any_order_and_others_their_own() {
        let mut history = History::default();
        let one = history.invoke(1, 11, 0);
        let two = history.invoke(2, 12, 1);
        history.returns(one, 0, 2);
        history.returns(two, 0, 2);
        assert_eq!(legal(&history, 2), [1, 2]);
        let three = history.invoke(1, 13, 2);
        history.returns(three, 0, 4);
        assert_eq!(legal(&history, 3), [1, 2, 3]);
        assert_eq!(legal(&history, 4), [3]);
    }

    #[test]
    fn what_is_in_flight_cannot_come_before_what_had_returned_when_it_began() {
        let mut history = History::default();
        let read = history.invoke(1, 0, 0);
        history.returns(read, 5, 0);
        history.invoke(2, 15, 0);
        assert_eq!(legal(&history, 1), [] as [u64; 0]);
    }
}
