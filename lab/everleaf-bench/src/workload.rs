//! The operations of a run, drawn before they are timed.

use std::ops::Range;

use crate::Phase;
use crate::key::BenchKey;
use crate::keys::{Draws, KeySequence, Shuffle, mix};
use crate::plan::{Plan, inserts_of_mixture};

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
        let (removed, survivors) =
            ((0..count).map(at).collect(), (count..self.len()).map(at).collect());
        *self = Self { survivors, recent: self.recent.end..self.recent.end };
        removed
    }
}

/// The operations of a phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drawn<K> {
    keys: Vec<K>,
    /// Of a mixture: whether the operation on the key at the same place inserts it. Empty
    /// otherwise.
    inserts: Vec<bool>,
}

/// Some of the operations of a phase.
#[derive(Clone, Copy, Debug)]
pub struct Part<'d, K> {
    /// Keys in the order of their operations.
    pub keys: &'d [K],
    /// As of [`Drawn`].
    pub inserts: &'d [bool],
}

impl<K> Drawn<K> {
    /// The same operation with every key.
    pub const fn alike(keys: Vec<K>) -> Self {
        Self { keys, inserts: Vec::new() }
    }

    /// Number of operations.
    pub fn len(&self) -> u64 {
        self.keys.len() as u64
    }

    /// Everything.
    pub fn whole(&self) -> Part<'_, K> {
        Part { keys: &self.keys, inserts: &self.inserts }
    }

    /// Part `place` of `parts` equal ones.
    pub fn part(&self, place: usize, parts: usize) -> Part<'_, K> {
        self.whole().part(place, parts)
    }
}

impl<'d, K> Part<'d, K> {
    /// Number of operations.
    pub fn len(&self) -> u64 {
        self.keys.len() as u64
    }

    /// Part `place` of `parts` equal ones.
    pub fn part(&self, place: usize, parts: usize) -> Part<'d, K> {
        Part { keys: cut(self.keys, place, parts), inserts: cut(self.inserts, place, parts) }
    }
}

/// Part `place` of `parts` equal ones.
fn cut<T>(all: &[T], place: usize, parts: usize) -> &[T] {
    let bound = |place: usize| (all.len() as u128 * place as u128 / parts as u128) as usize;
    &all[bound(place)..bound(place + 1)]
}

/// All operations of some targets.
pub fn wholes<K>(drawn: &[Drawn<K>]) -> impl Iterator<Item = Part<'_, K>> {
    drawn.iter().map(Drawn::whole)
}

/// Draws the keys of one phase after the other. The same plan and seed give the same keys.
#[derive(Clone, Debug)]
pub struct Workload {
    sequence: KeySequence,
    present: Present,
    keys: u64,
    scans: u64,
    mixed_inserts: u32,
    seed: u64,
    phase: u64,
}

impl Workload {
    /// At its beginning: the keys of the warm-up are present. `index` tells the indexes of a run
    /// apart, which have keys of their own.
    pub(crate) fn new(plan: &Plan, index: u64) -> Self {
        let options = &plan.options;
        let seed = options.seed.wrapping_add(index << 32); // Far from the seeds of other rounds.
        let sequence = plan.sequence(seed);
        let present = Present { survivors: Vec::new(), recent: 0..options.warm };
        let (keys, scans) = (options.keys, options.operations(Phase::Scan));
        Self {
            sequence,
            present,
            keys,
            scans,
            mixed_inserts: options.mixed_inserts,
            seed: mix(seed),
            phase: 0,
        }
    }

    /// The key at a place of the sequence of insertions.
    pub fn key<K: BenchKey>(&self, place: u64) -> K {
        K::of(self.sequence.number(place))
    }

    /// The operations of the next phase, whose effect is taken as done.
    pub fn operations<K: BenchKey>(&mut self, phase: Phase) -> Drawn<K> {
        self.phase += 1;
        let seed = mix(self.seed.wrapping_add(self.phase));
        match phase {
            Phase::Insert => {
                let start = self.present.recent.end;
                self.present.recent.end += self.keys;
                Drawn::alike(
                    (start..self.present.recent.end).map(|place| self.key(place)).collect(),
                )
            }
            Phase::Delete => {
                let removed = self.present.remove(self.keys, seed);
                Drawn::alike(removed.into_iter().map(|place| self.key(place)).collect())
            }
            Phase::Find | Phase::Multiget | Phase::Update | Phase::Scan => {
                let (mut draws, len) = (Draws::new(seed), self.present.len());
                let count = if phase == Phase::Scan { self.scans } else { self.keys };
                Drawn::alike(
                    (0..count).map(|_| self.key(self.present.at(draws.below(len)))).collect(),
                )
            }
            Phase::Mixed => self.mixture(seed),
        }
    }

    /// Half of the operations insert, or so many percent, at places that a shuffle chooses; the
    /// others ask for what was there before.
    fn mixture<K: BenchKey>(&mut self, seed: u64) -> Drawn<K> {
        let (mut draws, len) = (Draws::new(seed), self.present.len());
        let inserted = inserts_of_mixture(self.keys, self.mixed_inserts);
        let shuffle = Shuffle::new(self.keys, mix(seed));
        let inserts: Vec<bool> = (0..self.keys).map(|i| shuffle.at(i) < inserted).collect();
        let mut keys = Vec::with_capacity(inserts.len());
        let mut new = self.present.recent.end;
        for &insert in &inserts {
            let place = if insert { new } else { self.present.at(draws.below(len)) };
            new += u64::from(insert);
            keys.push(self.key(place));
        }
        self.present.recent.end = new;
        Drawn { keys, inserts }
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
        let options = MicroOptions {
            order,
            warm,
            keys,
            phases: phases.to_vec(),
            key_bits: 16,
            seed: 11,
            ..Default::default()
        };
        let plan = Plan::new(&options).unwrap();
        let mut workload = Workload::new(&plan, 0);
        let mut present: BTreeSet<u64> = (0..warm).map(|place| workload.key(place)).collect();
        assert_eq!(present.len() as u64, warm);
        for &phase in phases {
            let before = present.clone();
            let drawn: Drawn<u64> = workload.operations(phase);
            assert_eq!(drawn.len(), keys);
            assert_eq!(drawn.inserts.len() as u64, if phase == Phase::Mixed { keys } else { 0 });
            assert_eq!(
                drawn.inserts.iter().filter(|insert| **insert).count(),
                drawn.inserts.len() / 2
            );
            for (i, key) in drawn.keys.into_iter().enumerate() {
                match phase {
                    Phase::Mixed if drawn.inserts[i] => {
                        assert!(present.insert(key), "{order:?} {phase}: {key} is not new")
                    }
                    Phase::Mixed => {
                        assert!(before.contains(&key), "{order:?} {phase}: {key} was not there")
                    }
                    Phase::Insert => {
                        assert!(present.insert(key), "{order:?} {phase}: {key} is not new")
                    }
                    Phase::Delete => {
                        assert!(present.remove(&key), "{order:?} {phase}: {key} is not there")
                    }
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
            follow(
                order,
                950,
                300,
                &[
                    Delete, Find, Delete, Insert, Delete, Scan, Insert, Delete, Delete, Insert,
                    Update,
                ],
            );
            follow(order, 1, 1, &[Find, Mixed, Delete, Insert]);
            follow(order, 7, 301, &[Mixed, Find, Mixed, Delete, Mixed, Mixed, Delete]);
        }
    }

    #[test]
    fn the_order_governs_insertions_and_not_deletions() {
        let drawn = |order, phase| {
            let options = MicroOptions {
                order,
                warm: 1000,
                keys: 1000,
                phases: vec![phase],
                ..Default::default()
            };
            Workload::new(&Plan::new(&options).unwrap(), 0).operations::<u64>(phase).keys
        };
        assert!(drawn(Order::Ascending, Phase::Insert).is_sorted());
        assert!(drawn(Order::Descending, Phase::Insert).iter().rev().is_sorted());
        assert!(!drawn(Order::Random, Phase::Insert).is_sorted());
        assert!(!drawn(Order::Ascending, Phase::Delete).is_sorted());
    }

    #[test]
    fn a_mixture_alternates_at_random_and_no_thread_only_inserts() {
        let options =
            MicroOptions { warm: 10, keys: 4096, phases: vec![Phase::Mixed], ..Default::default() };
        let drawn = Workload::new(&Plan::new(&options).unwrap(), 0).operations::<u64>(Phase::Mixed);
        let changes = drawn.inserts.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!((1900..2200).contains(&changes), "{changes} changes of 4095");
        for thread in 0..4 {
            let part = drawn.part(thread, 4);
            let inserts = part.inserts.iter().filter(|insert| **insert).count();
            assert!(
                part.keys.len() == 1024 && (440..585).contains(&inserts),
                "{inserts} insertions of 1024"
            );
        }
    }

    #[test]
    fn threads_share_all_keys_and_no_key_twice() {
        for (len, threads) in [(0, 2), (1, 3), (10, 3), (64, 64), (100, 7)] {
            let drawn = Drawn::alike((0..len).collect::<Vec<usize>>());
            let parts: Vec<usize> =
                (0..threads).flat_map(|thread| drawn.part(thread, threads).keys).copied().collect();
            assert_eq!(parts, drawn.keys);
        }
    }

    #[test]
    fn the_seed_decides_the_keys() {
        let drawn = |seed| {
            let options = MicroOptions {
                seed,
                warm: 10,
                keys: 100,
                phases: vec![Phase::Find],
                ..Default::default()
            };
            Workload::new(&Plan::new(&options).unwrap(), 0).operations::<u64>(Phase::Find)
        };
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
        let plan = Plan::new(&MicroOptions { keys: 100, ..Default::default() }).unwrap();
        let of_index = |index| Workload::new(&plan, index).operations::<u64>(Phase::Insert);
        assert_ne!(of_index(0), of_index(1));
    }
}
