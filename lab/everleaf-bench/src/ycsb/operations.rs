//! What a thread does: drawn before, then done.

use super::draw::Picks;
use super::workloads::{Distribution, Kind, Operation, Record, Workload};
use crate::key::BenchKey;
use crate::keys::{Draws, KeySequence, Shuffle, mix};
use crate::measure::Clock;
use crate::target::Operations;

/// Records that a scan reads at most.
const MAX_SCANNED: u64 = 100;

/// What the operations of a run are drawn from.
#[derive(Clone, Debug)]
pub struct Source {
    pub workload: Workload,
    pub distribution: Distribution,
    pub sequence: KeySequence,
    /// Records that are loaded.
    pub loaded: u64,
    pub operations: u64,
    pub threads: u64,
    pub seed: u64,
}

impl Source {
    /// The operations of a thread. It wants records that were loaded and those that it inserted
    /// itself, so all of them are there.
    pub fn draw<K: BenchKey>(&self, thread: u64) -> Vec<Operation<K>> {
        let bound = |thread: u64| self.operations * thread / self.threads;
        let (start, share) = (bound(thread), bound(thread + 1) - bound(thread));
        let seed = mix(self.seed.wrapping_add(thread << 20));
        let (mut draws, order) = (Draws::new(seed), Shuffle::new(share.max(1), mix(seed)));
        let picks = Picks::new(self.distribution, self.loaded, self.seed);
        let sorted = if picks.is_in_key_order() { self.sorted_places() } else { Vec::new() };
        let [(first, _), (second, _)] = self.workload.mix();
        // Counted over all operations, so that what threads round off does not add up.
        let second_kind =
            self.workload.second_kind(start + share) - self.workload.second_kind(start);
        let first_insert = self.loaded + self.workload.inserts(start);
        let mut inserted = 0;
        let operation = |i| {
            let kind = if order.at(i) < second_kind { second } else { first };
            let place = if kind == Kind::Insert {
                inserted += 1;
                first_insert + inserted - 1
            } else {
                let place = picks.pick(&mut draws, self.loaded + inserted);
                let loaded = sorted.get(place as usize).copied().unwrap_or(place);
                if place < self.loaded { loaded } else { first_insert + (place - self.loaded) }
            };
            let records = if kind == Kind::Scan { draws.below(MAX_SCANNED) as u8 + 1 } else { 0 };
            Operation { key: K::of(self.sequence.number(place)), kind, records }
        };
        (0..share).map(operation).collect()
    }

    /// Places of the loaded records in the order of their keys.
    fn sorted_places(&self) -> Vec<u64> {
        let mut places: Vec<u64> = (0..self.loaded).collect();
        places.sort_unstable_by_key(|place| self.sequence.number(*place));
        places
    }
}

/// What stands around each operation.
pub trait Stopwatch: Send {
    /// What stands around each insertion of the loading.
    type Load: Clock + Clone;
    /// One that has seen nothing yet.
    fn loading() -> Self::Load;
    /// The first operation begins.
    fn begin(&mut self) {}
    /// Does `work`, which is an operation of this kind.
    fn time<R>(&mut self, kind: Kind, work: impl FnOnce() -> R) -> R;
    /// Some operations are done.
    fn passed(&mut self, operations: usize);
}

/// The value that a key gets; the lowest byte, which changes, stays out of what is compared.
#[inline(always)]
fn value_of<K: BenchKey>(key: &K, generation: u64) -> u64 {
    key.word() & !0xff | generation & 0xff
}

#[inline(always)]
fn is_value_of<K: BenchKey>(found: Option<u64>, key: &K) -> bool {
    found.is_some_and(|word| word & !0xff == key.word() & !0xff)
}

/// Operations between two looks at the clock.
pub const STRIDE: usize = 1000;

/// Does operations; how many had the outcome that they must have.
pub fn perform<K: BenchKey, O: Operations<K>, W: Stopwatch>(
    target: &mut O,
    watch: &mut W,
    operations: &[Operation<K>],
    record: Record,
) -> Result<u64, O::Failure> {
    // One field of ten is changed: the others must be known.
    let reads_first = record == Record::Fields;
    let mut right = 0;
    for (stride, operations) in operations.chunks(STRIDE).enumerate() {
        let generation = stride as u64 + 1;
        for Operation { key, kind, records } in operations {
            let is_right = match kind {
                Kind::Read => is_value_of(watch.time(*kind, || target.get(key))?, key),
                Kind::Insert => {
                    watch.time(*kind, || target.insert(key, value_of(key, generation)))?
                }
                Kind::Scan => watch.time(*kind, || target.scan(key, (*records).into()))?,
                Kind::Update | Kind::ReadModifyWrite => watch.time(*kind, || {
                    let known = !(reads_first || *kind == Kind::ReadModifyWrite)
                        || is_value_of(target.get(key)?, key);
                    Ok(known && target.update(key, value_of(key, generation))?.is_some())
                })?,
            };
            right += u64::from(is_right);
        }
        watch.passed(operations.len());
    }
    Ok(right)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::Order;

    fn source(workload: Workload, distribution: Distribution, threads: u64) -> Source {
        let sequence = KeySequence::new(Order::Random, 64, 10_000, 3);
        Source {
            workload,
            distribution,
            sequence,
            loaded: 1000,
            operations: 2003,
            threads,
            seed: 3,
        }
    }

    #[test]
    fn a_workload_has_its_mix_and_wants_only_what_is_there() {
        for workload in Workload::ALL {
            for distribution in [
                workload.distribution(),
                Distribution::Uniform,
                Distribution::Normal { deviation: 0.3 },
            ] {
                for threads in [1, 3] {
                    let source = source(workload, distribution, threads);
                    let loaded: HashSet<u64> =
                        (0..1000).map(|place| source.sequence.number(place)).collect();
                    let mut inserted_by_all = HashSet::new();
                    let (mut operations, mut of_second_kind) = (0, 0);
                    for thread in 0..threads {
                        let drawn = source.draw::<u64>(thread);
                        operations += drawn.len();
                        let mut present = loaded.clone();
                        for Operation { key, kind, records } in &drawn {
                            if *kind == Kind::Insert {
                                assert!(
                                    present.insert(*key) && inserted_by_all.insert(*key),
                                    "{workload} {distribution:?}"
                                );
                            } else {
                                assert!(
                                    present.contains(key),
                                    "{workload} {distribution:?}: {key} is not there"
                                );
                            }
                            assert_eq!((1..=100).contains(records), *kind == Kind::Scan);
                        }
                        let [_, (second, share)] = workload.mix();
                        let of_second =
                            drawn.iter().filter(|operation| operation.kind == second).count();
                        let (exact, of_second) =
                            (drawn.len() as f64 * share as f64 / 100.0, of_second as u64);
                        assert!(
                            (of_second as f64 - exact).abs() < 1.0,
                            "{workload}: {of_second} of {}",
                            drawn.len()
                        );
                        of_second_kind += of_second;
                    }
                    assert_eq!(operations, 2003);
                    assert_eq!(
                        of_second_kind,
                        workload.second_kind(2003),
                        "{workload}, {threads} threads"
                    );
                    let inserted: HashSet<u64> = (1000..1000 + workload.inserts(2003))
                        .map(|place| source.sequence.number(place))
                        .collect();
                    assert_eq!(
                        inserted_by_all, inserted,
                        "{workload}: as many as are planned, and no others"
                    );
                }
            }
        }
    }

    #[test]
    fn normal_picks_are_near_each_other_in_the_order_of_keys() {
        let source = source(Workload::C, Distribution::Normal { deviation: 0.02 }, 1);
        let keys: Vec<u64> = source.draw::<u64>(0).iter().map(|operation| operation.key).collect();
        let (least, greatest) = (keys.iter().min().unwrap(), keys.iter().max().unwrap());
        assert!(greatest - least < u64::MAX / 4, "{least} to {greatest}");
        assert!(*least > u64::MAX / 4 && *greatest < u64::MAX / 4 * 3);
    }

    #[test]
    fn the_seed_decides_everything() {
        let drawn =
            |seed| Source { seed, ..source(Workload::D, Distribution::Latest, 2) }.draw::<u64>(1);
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
    }
}
