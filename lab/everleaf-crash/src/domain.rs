//! Stores that wait to become durable, grouped as the hardware orders them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::rc::Rc;

use rand::rngs::SmallRng;
use rand::{Rng, RngExt};

use crate::outcomes::{LineOutcomes, word_hash};

/// A store that is visible, but not durable for certain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingStore {
    /// Offset divided by 8.
    pub word: usize,
    pub value: u64,
    pub thread: u16,
    /// Words of one unit become durable together. Only unordered stores have one.
    pub unit: Option<u32>,
}

/// One way in which the pending stores of a domain may have become durable.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// So many ordinary stores, counted from the oldest, are durable.
    prefix: usize,
    /// Bit `i`: the unordered unit `i` is durable; bit 127 speaks for all units from there on.
    units: u128,
    /// What differs from the floor.
    pub changes: Vec<(usize, u64)>,
    /// What the changes do to the hash of an image.
    pub delta: u128,
}

/// Stores whose mutual order matters: those to one line; under eADR, all of them.
#[derive(Clone, Debug)]
pub(crate) struct Domain {
    /// The line; 0 under eADR.
    pub key: u64,
    pending: Vec<PendingStore>,
    /// By thread: how many of the pending ordinary stores its last flush has captured.
    flushed: Vec<(u16, usize)>,
    outcomes: Vec<Outcome>,
    by_delta: HashMap<u128, usize, BuildHasherDefault<Folded>>,
    /// Ordinary stores and units that `outcomes` takes into account.
    covered: (usize, usize),
    new_from: usize,
    fullest: usize,
    possible: u64,
    stale: bool,
    /// What outcomes the last [`contents`](Self::contents) was asked for, and its answer.
    contents: RefCell<Option<(usize, usize, Rc<LineOutcomes>)>>,
}

/// The outcomes of one domain that an enumeration may choose from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub from: usize,
    pub to: usize,
    /// The outcome with everything durable.
    pub fullest: usize,
    /// How many there would be if none had been left out.
    pub possible: u64,
}

impl Domain {
    pub fn new(key: u64) -> Self {
        Self {
            key,
            pending: Vec::new(),
            flushed: Vec::new(),
            outcomes: Vec::new(),
            by_delta: HashMap::default(),
            covered: (0, 0),
            new_from: 0,
            fullest: 0,
            possible: 1,
            stale: true,
            contents: RefCell::default(),
        }
    }

    pub fn push(&mut self, store: PendingStore) {
        self.pending.push(store);
        self.stale = true;
    }

    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    fn ordered(&self) -> usize {
        self.pending.iter().filter(|store| store.unit.is_none()).count()
    }

    /// Ordinary stores up to the last one that `thread` made.
    fn ordered_until_last_of(&self, thread: u16) -> usize {
        let ordered = self.pending.iter().filter(|store| store.unit.is_none());
        ordered
            .enumerate()
            .filter(|(_, store)| store.thread == thread)
            .last()
            .map_or(0, |(i, _)| i + 1)
    }

    /// Unordered units, oldest first: in ascending order.
    fn units(&self) -> Vec<u32> {
        let mut units: Vec<u32> = self.pending.iter().filter_map(|store| store.unit).collect();
        units.dedup();
        units
    }

    /// A flush: it captures the stores made so far, and is complete only after a fence of the same
    /// thread.
    pub fn flush(&mut self, thread: u16) {
        let ordered = self.ordered();
        self.flushed.retain(|(by, _)| *by != thread);
        self.flushed.push((thread, ordered));
    }

    /// How many ordinary stores a fence of `thread` makes durable; none if it changes nothing, not
    /// even of unordered stores.
    pub fn fenced(&self, thread: u16, all: bool) -> Option<usize> {
        let captured =
            self.flushed.iter().find(|(by, _)| *by == thread).map_or(0, |(_, count)| *count);
        let prefix = if all { self.ordered_until_last_of(thread) } else { captured };
        let unordered = |store: &PendingStore| store.unit.is_some() && store.thread == thread;
        (prefix > 0 || self.pending.iter().any(unordered)).then_some(prefix)
    }

    /// How many ordinary stores are durable for certain, where `thread` reads a word that another
    /// one has stored last; none if nobody else has.
    pub fn shown(&self, thread: u16, word: usize) -> Option<usize> {
        let ordered = self.pending.iter().filter(|store| store.unit.is_none());
        let (number, last) = ordered.enumerate().filter(|(_, store)| store.word == word).last()?;
        (last.thread != thread).then_some(number + 1)
    }

    /// So many ordinary stores are durable; unordered ones wait for their fence.
    pub fn persist_prefix(&mut self, prefix: usize, persist: impl FnMut(usize, u64)) {
        self.settle(prefix, |_| false, persist);
    }

    /// A fence: what `thread` has flushed, and its unordered stores, are durable. With `all`, so
    /// are its ordinary stores, and with them those of other threads that became visible earlier.
    /// `prefix` is what [`fenced`](Self::fenced) says.
    pub fn fence(&mut self, thread: u16, prefix: usize, persist: impl FnMut(usize, u64)) {
        self.settle(prefix, |store| store.thread == thread, persist);
        self.flushed.retain(|(by, _)| *by != thread);
    }

    /// So many ordinary stores are durable, and these unordered ones.
    fn settle(
        &mut self,
        prefix: usize,
        unordered: impl Fn(&PendingStore) -> bool,
        mut persist: impl FnMut(usize, u64),
    ) {
        let mut ordered = 0;
        let mut rest: Vec<PendingStore> = Vec::new();
        for store in self.pending.drain(..) {
            ordered += usize::from(store.unit.is_none());
            let durable = store.unit.map_or(ordered <= prefix, |_| unordered(&store));
            if !durable {
                rest.push(store);
                continue;
            }
            persist(store.word, store.value);
            // A word never returns to what an older store put there.
            rest.iter_mut()
                .filter(|older| older.word == store.word)
                .for_each(|older| older.value = store.value);
        }
        self.pending = rest;
        self.flushed.iter_mut().for_each(|(_, count)| *count = count.saturating_sub(prefix));
        self.flushed.retain(|(_, count)| *count > 0);
        self.forget_outcomes();
    }

    fn forget_outcomes(&mut self) {
        self.outcomes.clear();
        self.by_delta.clear();
        self.covered = (0, 0);
        self.stale = true;
        *self.contents.get_mut() = None;
    }

    // ---- outcomes
    // ---------------------------------------------------------------------------------------------

    /// Whether stores have come since the last [`refresh`](Self::refresh).
    pub fn is_stale(&self) -> bool {
        self.stale
    }

    /// Brings the list of outcomes up to date; what is added now counts as new until the next time.
    pub fn refresh(&mut self, floor: &[u64], cap: u64, rng: &mut SmallRng) {
        self.stale = false;
        let (ordered, units) = (self.ordered(), self.units());
        let subsets = 1u64.checked_shl(units.len() as u32).unwrap_or(u64::MAX);
        self.possible = (ordered as u64 + 1).saturating_mul(subsets);
        if self.possible > cap && units.is_empty() {
            self.follow(ordered, floor, cap);
            return;
        }
        if self.possible > cap {
            self.sample(ordered, &units, floor, cap, rng);
            return;
        }
        if self.outcomes.is_empty() {
            self.admit(0, 0, &units, floor);
        }
        self.new_from = self.outcomes.len();
        let (old_prefix, old_subsets) = (self.covered.0, 1u128 << self.covered.1);
        for prefix in 0..=ordered {
            let first = if prefix <= old_prefix { old_subsets } else { 0 };
            for subset in first..u128::from(subsets) {
                self.admit(prefix, subset, &units, floor);
            }
        }
        self.covered = (ordered, units.len());
        self.possible = self.outcomes.len() as u64;
        self.fullest = self.admit(ordered, u128::from(subsets) - 1, &units, floor);
    }

    /// Too many ordinary stores to list each prefix of them, as under eADR: the new ones are
    /// listed, and of the old ones some go when there are too many, so that the rest is evenly
    /// spread. So a store costs about one outcome, and not all of them.
    fn follow(&mut self, ordered: usize, floor: &[u64], cap: u64) {
        let half = (cap as usize / 2).max(1);
        let new = ordered - self.covered.0.min(ordered);
        let step = new.div_ceil(half).max(1);
        if self.outcomes.is_empty() {
            self.admit(0, 0, &[], floor);
        }
        if self.outcomes.len() > half {
            self.thin(ordered.div_ceil((half / 2).max(1)).next_power_of_two());
        }
        self.new_from = self.outcomes.len();
        for prefix in (self.covered.0 + 1..=ordered).step_by(step) {
            self.admit(prefix, 0, &[], floor);
        }
        self.fullest = self.admit(ordered, 0, &[], floor);
        self.covered = (ordered, 0);
    }

    /// Keeps the first outcome of every so many stores: so never forgets the one with nothing
    /// durable. They are in the order of their stores, and the numbers are powers of two, so that
    /// what was kept before fills every stretch.
    fn thin(&mut self, apart: usize) {
        let mut next = 0;
        self.outcomes.retain(|outcome| {
            let stays = outcome.prefix >= next;
            if stays {
                next = (outcome.prefix / apart + 1) * apart;
            }
            stays
        });
        let places = self.outcomes.iter().enumerate();
        self.by_delta = places.map(|(place, outcome)| (outcome.delta, place)).collect();
        *self.contents.get_mut() = None;
    }

    /// Too many to list: nothing, everything, every prefix with all units and with none, every unit
    /// alone and missing alone, and chance.
    fn sample(
        &mut self,
        ordered: usize,
        units: &[u32],
        floor: &[u64],
        cap: u64,
        rng: &mut SmallRng,
    ) {
        self.forget_outcomes();
        self.stale = false;
        self.admit(0, 0, units, floor);
        self.new_from = 1;
        self.fullest = self.admit(ordered, u128::MAX, units, floor);
        let step = (ordered as u64 * 4 / cap.max(1) + 1) as usize;
        for prefix in (0..=ordered).step_by(step) {
            self.admit(prefix, 0, units, floor);
            self.admit(prefix, u128::MAX, units, floor);
        }
        for unit in 0..units.len().min(128) {
            self.admit(0, 1 << unit, units, floor);
            self.admit(ordered, !(1 << unit), units, floor);
        }
        for _ in 0..cap {
            if self.outcomes.len() as u64 >= cap {
                break;
            }
            let subset = u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64());
            self.admit(rng.random_range(0..=ordered), subset, units, floor);
        }
    }

    /// Lists an outcome unless an equal one is there, and returns its place.
    fn admit(&mut self, prefix: usize, units: u128, names: &[u32], floor: &[u64]) -> usize {
        let durable = self.judged(prefix, units, names).filter(|(_, durable)| *durable);
        let mut changes: Vec<(usize, u64)> =
            durable.map(|(store, _)| (store.word, store.value)).collect();
        // Of the stores to one word, the last one counts. Under eADR there may be thousands of
        // stores to sort.
        changes.reverse();
        changes.sort_by_key(|(word, _)| *word);
        changes.dedup_by_key(|(word, _)| *word);
        changes.retain(|(word, value)| floor[*word] != *value);
        let delta = changes
            .iter()
            .fold(0, |delta, (w, value)| delta ^ word_hash(*w, floor[*w]) ^ word_hash(*w, *value));
        let next = self.outcomes.len();
        let place = *self.by_delta.entry(delta).or_insert(next);
        if place == next {
            self.outcomes.push(Outcome { prefix, units, changes, delta });
        }
        place
    }

    /// Each pending store with whether it is durable, in program order.
    fn judged(
        &self,
        prefix: usize,
        units: u128,
        names: &[u32],
    ) -> impl Iterator<Item = (&PendingStore, bool)> {
        let mut ordered = 0;
        self.pending.iter().map(move |store| {
            ordered += usize::from(store.unit.is_none());
            let durable = match store.unit {
                None => ordered <= prefix,
                Some(unit) => {
                    let place = names.binary_search(&unit).unwrap_or(127).min(127);
                    units >> place & 1 == 1
                }
            };
            (store, durable)
        })
    }

    /// The pending stores as an outcome has them.
    pub fn stores(&self, outcome: usize) -> Vec<(PendingStore, bool)> {
        let Outcome { prefix, units, .. } = self.outcomes[outcome];
        self.judged(prefix, units, &self.units())
            .map(|(store, durable)| (*store, durable))
            .collect()
    }

    pub fn outcome(&self, place: usize) -> &Outcome {
        &self.outcomes[place]
    }

    /// What the line holds after each outcome of a range.
    pub fn contents(&self, range: &Range, floor: &[u64]) -> Rc<LineOutcomes> {
        let mut known = self.contents.borrow_mut();
        if let Some((from, to, contents)) = &*known
            && (*from, *to) == (range.from, range.to)
        {
            return contents.clone();
        }
        let outcomes = self.outcomes[range.from..range.to].iter();
        let contents = LineOutcomes::of(outcomes.map(|outcome| &outcome.changes[..]), floor);
        *known = Some((range.from, range.to, contents.clone()));
        contents
    }

    pub fn range(&self, only_new: bool) -> Range {
        let to = self.outcomes.len();
        let from = if only_new { self.new_from.min(to) } else { 0 };
        let fullest = if self.fullest >= from { self.fullest } else { to.saturating_sub(1) };
        Range { from, to, fullest, possible: self.possible.saturating_sub(from as u64) }
    }
}

/// The hasher of what is a hash already.
#[derive(Default)]
pub(crate) struct Folded(u64);

impl Hasher for Folded {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }
    fn write_u128(&mut self, value: u128) {
        self.0 = value as u64;
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn of_thousands_of_ordinary_stores_the_newest_outcome_is_always_listed() {
        const CAP: u64 = 64;
        let (mut domain, mut rng) = (Domain::new(0), SmallRng::seed_from_u64(1));
        let floor = vec![0; 5000];
        for word in 0..floor.len() {
            domain.push(PendingStore { word, value: 7, thread: 0, unit: None });
            domain.refresh(&floor, CAP, &mut rng);
            let (all, new) = (domain.range(false), domain.range(true));
            assert!(all.to as u64 <= CAP, "{} outcomes after {word} stores", all.to);
            assert_eq!(new.to - new.from, 1, "a store adds one outcome");
            assert_eq!(domain.outcome(new.from).changes.len(), word + 1);
            assert_eq!((all.fullest, new.fullest), (new.from, new.from));
            assert!(domain.outcome(0).changes.is_empty(), "nothing durable is always possible");
            assert_eq!(all.possible, word as u64 + 2);
            let mut before = 0;
            for place in 0..all.to {
                let Outcome { prefix, changes, .. } = domain.outcome(place);
                assert_eq!(*prefix, changes.len());
                assert!(prefix - before <= 16 * word / CAP as usize + 1, "evenly spread");
                before = *prefix;
                assert!(changes.iter().enumerate().all(|(at, (word, _))| at == *word));
                assert_eq!(domain.by_delta[&domain.outcome(place).delta], place);
            }
        }
    }
}
