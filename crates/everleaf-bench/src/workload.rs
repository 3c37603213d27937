//! The operations of a run, drawn before they are timed.

use std::ops::Range;

use crate::Phase;
use crate::keys::{BenchKey, Draws, KeySequence, Shuffle, mix};
use crate::options::Plan;

/// Which keys are present, as places in the sequence of insertions.
#[derive(Clone, Debug, Default)]
struct Present {
    /// What a deletion of a part left over.
    survivors: Vec<u64>,
    /// What was inserted since.
    recent: Range<u64>,
}

impl Present {
    fn len(&self) -> u64 {
        self.survivors.len() as u64 + (self.recent.end - self.recent.start)
    }

    fn at(&self, i: u64) -> u64 {
        let survivors = self.survivors.len() as u64;
        if i < survivors { self.survivors[i as usize] } else { self.recent.start + (i - survivors) }
    }

    /// Takes `count` in random order out.
    fn remove(&mut self, count: u64, seed: u64) -> Vec<u64> {
        let shuffle = Shuffle::new(self.len(), seed);
        let at = |i| self.at(shuffle.at(i));
        let (removed, survivors) = ((0..count).map(at).collect(), (count..self.len()).map(at).collect());
        *self = Self { survivors, recent: self.recent.end..self.recent.end };
        removed
    }
}

/// Draws the keys of one phase after the other. The same plan and seed give the same keys.
#[derive(Clone, Debug)]
pub struct Workload {
    sequence: KeySequence,
    present: Present,
    keys: u64,
    seed: u64,
    phase: u64,
}

impl Workload {
    /// At its beginning: the keys of the warm-up are present.
    pub(crate) fn new(plan: &Plan) -> Self {
        let options = &plan.options;
        let sequence = KeySequence::new(options.order, options.key_bits, plan.total_keys, options.seed);
        let present = Present { survivors: Vec::new(), recent: 0..options.warm };
        Self { sequence, present, keys: options.keys, seed: mix(options.seed), phase: 0 }
    }

    /// The key at a place of the sequence of insertions.
    pub fn key<K: BenchKey>(&self, place: u64) -> K {
        K::of(self.sequence.number(place))
    }

    /// The keys of the next phase, whose effect is taken as done.
    pub fn operations<K: BenchKey>(&mut self, phase: Phase) -> Vec<K> {
        self.phase += 1;
        let seed = mix(self.seed.wrapping_add(self.phase));
        match phase {
            Phase::Insert => {
                let start = self.present.recent.end;
                self.present.recent.end += self.keys;
                (start..self.present.recent.end).map(|place| self.key(place)).collect()
            }
            Phase::Delete => self.present.remove(self.keys, seed).into_iter().map(|place| self.key(place)).collect(),
            Phase::Find | Phase::Multiget | Phase::Update | Phase::Scan => {
                let (mut draws, len) = (Draws::new(seed), self.present.len());
                (0..self.keys).map(|_| self.key(self.present.at(draws.below(len)))).collect()
            }
        }
    }

    /// Keys that are present now.
    #[cfg(test)]
    pub fn present(&self) -> u64 {
        self.present.len()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{MicroOptions, Order};

    /// Follows the phases with a set of keys and asserts what each of them promises.
    fn follow(order: Order, warm: u64, keys: u64, phases: &[Phase]) {
        let options = MicroOptions { order, warm, keys, phases: phases.to_vec(), key_bits: 16, seed: 11, ..Default::default() };
        let plan = Plan::new(&options).unwrap();
        let mut workload = Workload::new(&plan);
        let mut present: BTreeSet<u64> = (0..warm).map(|place| workload.key(place)).collect();
        assert_eq!(present.len() as u64, warm);
        for &phase in phases {
            let drawn: Vec<u64> = workload.operations(phase);
            assert_eq!(drawn.len() as u64, keys);
            for key in drawn {
                match phase {
                    Phase::Insert => assert!(present.insert(key), "{order:?} {phase}: {key} is not new"),
                    Phase::Delete => assert!(present.remove(&key), "{order:?} {phase}: {key} is not there"),
                    _ => assert!(present.contains(&key), "{order:?} {phase}: {key} is not there"),
                }
            }
            assert_eq!(workload.present(), present.len() as u64);
        }
    }

    #[test]
    fn phases_touch_the_keys_that_they_promise() {
        use Phase::*;
        for order in [Order::Random, Order::Ascending, Order::Descending] {
            follow(order, 0, 1000, &[Insert, Find, Multiget, Update, Scan, Delete, Insert, Find]);
            follow(order, 950, 300, &[Delete, Find, Delete, Insert, Delete, Scan, Insert, Delete, Delete, Insert, Update]);
            follow(order, 1, 1, &[Find, Delete, Insert]);
        }
    }

    #[test]
    fn the_order_governs_insertions_and_not_deletions() {
        let drawn = |order, phase| {
            let options = MicroOptions { order, warm: 1000, keys: 1000, phases: vec![phase], ..Default::default() };
            Workload::new(&Plan::new(&options).unwrap()).operations::<u64>(phase)
        };
        assert!(drawn(Order::Ascending, Phase::Insert).is_sorted());
        assert!(drawn(Order::Descending, Phase::Insert).iter().rev().is_sorted());
        assert!(!drawn(Order::Random, Phase::Insert).is_sorted());
        assert!(!drawn(Order::Ascending, Phase::Delete).is_sorted());
    }

    #[test]
    fn the_seed_decides_the_keys() {
        let drawn = |seed| {
            let options = MicroOptions { seed, warm: 10, keys: 100, phases: vec![Phase::Find], ..Default::default() };
            Workload::new(&Plan::new(&options).unwrap()).operations::<u64>(Phase::Find)
        };
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
    }
}
