//! What operations returned and when, and which contents that allows.

use std::collections::BTreeSet;

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

    /// The contents that are legal after a crash that came after so many events: those in which a
    /// linearization of the operations that had returned, and of any of those in flight, leaves
    /// `start`. In a linearization, every operation that had returned gives what it returned, and
    /// none comes before one that had returned when it was begun.
    pub fn legal_contents<C: Clone + Ord>(
        &self,
        events: usize,
        start: &C,
        apply: &dyn Fn(&mut C, usize) -> O,
    ) -> BTreeSet<C> {
        let calls: Vec<(&Call<O>, Stage)> = self
            .calls
            .iter()
            .map(|call| (call, call.stage(events)))
            .filter(|(_, stage)| *stage != Stage::Ahead)
            .collect();
        let mut search = Search { calls, apply, seen: BTreeSet::new(), legal: BTreeSet::new() };
        search.go_on(0, start.clone());
        search.legal
    }
}

struct Search<'a, C, O> {
    calls: Vec<(&'a Call<O>, Stage)>,
    apply: &'a dyn Fn(&mut C, usize) -> O,
    seen: BTreeSet<(u64, C)>,
    legal: BTreeSet<C>,
}

impl<C: Clone + Ord, O: Clone + Eq> Search<'_, C, O> {
    /// The operations in the set `done` have happened, and led to `content`.
    fn go_on(&mut self, done: u64, content: C) {
        if !self.seen.insert((done, content.clone())) {
            return;
        }
        let waiting = |i: &usize| done >> i & 1 == 0;
        let returned = |i: &usize| self.calls[*i].1 == Stage::Returned;
        let must: Vec<usize> = (0..self.calls.len()).filter(waiting).filter(returned).collect();
        if must.is_empty() {
            self.legal.insert(content.clone());
        }
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
            if explained {
                self.go_on(done | 1 << i, next);
            }
        }
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
        history.legal_contents(events, &0, &register).into_iter().collect()
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
