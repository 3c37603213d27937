//! Which keys are asked for, in which mix: drawn before the clock starts.

use std::fmt;
use std::str::FromStr;

use crate::key::String16;
use crate::keys::{Draws, KeySequence, mix};
use crate::ycsb::{Distribution, Kind, Operation, Source, Workload};
use crate::{BenchError, Order};

/// A request: a SET of the key's value, or a GET.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    pub key: String16,
    pub stores: bool,
}

/// Which requests a run has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// SETs and GETs of keys that are there, all wanted alike: so many percent are SETs.
    Sets(u32),
    /// YCSB's workload D: GETs of the latest records, and 5 percent SETs of new ones.
    StatusUpdate,
    /// YCSB's workload A: GETs and SETs by halves, some records wanted much more than others.
    SessionStore,
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sets(100) => f.pad("set"),
            Self::Sets(0) => f.pad("get"),
            Self::Sets(sets) => f.pad(&format!("{sets}/{}", 100 - sets)),
            Self::StatusUpdate => f.pad("status-update"),
            Self::SessionStore => f.pad("session-store"),
        }
    }
}

impl FromStr for Mix {
    type Err = BenchError;

    fn from_str(name: &str) -> Result<Self, BenchError> {
        let percents = |(sets, gets): (&str, &str)| {
            let (sets, gets): (u32, u32) = (sets.parse().ok()?, gets.parse().ok()?);
            (sets.checked_add(gets) == Some(100)).then_some(Self::Sets(sets))
        };
        let known = match name {
            "set" => Some(Self::Sets(100)),
            "get" => Some(Self::Sets(0)),
            "status-update" => Some(Self::StatusUpdate),
            "session-store" => Some(Self::SessionStore),
            _ => name.split_once('/').and_then(percents),
        };
        known.ok_or_else(|| BenchError::Unknown {
            what: "mix",
            name: name.into(),
            choices: "set, get, status-update, session-store, or SETS/GETS such as 10/90".into(),
        })
    }
}

impl Mix {
    const fn workload(self) -> (Workload, Distribution) {
        match self {
            Self::Sets(_) => (Workload::C, Distribution::Uniform),
            Self::StatusUpdate => (Workload::D, Distribution::Latest),
            Self::SessionStore => (Workload::A, Distribution::Zipfian),
        }
    }

    /// New keys among so many requests.
    pub(super) const fn inserts(self, requests: u64) -> u64 {
        self.workload().0.inserts(requests)
    }

    /// The requests of each connection, when so many keys are there.
    pub(super) fn draw(
        self,
        requests: u64,
        connections: u32,
        present: u64,
        seeds: Seeds,
    ) -> Vec<Vec<Request>> {
        let (workload, distribution) = self.workload();
        let source = Source {
            workload,
            distribution,
            sequence: seeds.keys(),
            loaded: present,
            operations: requests,
            threads: connections.into(),
            seed: seeds.round,
        };
        let sets = if let Self::Sets(sets) = self { sets } else { 0 };
        let of_connection = |connection: u64| {
            let mut draws = Draws::new(mix(seeds.round ^ mix(connection)));
            let request = |operation: Operation<String16>| Request {
                key: operation.key,
                stores: operation.kind != Kind::Read || draws.below(100) < sets.into(),
            };
            source.draw(connection).into_iter().map(request).collect()
        };
        (0..connections.into()).map(of_connection).collect()
    }
}

/// What decides keys, which stay the same, and requests, which each round draws anew.
#[derive(Clone, Copy, Debug)]
pub struct Seeds {
    pub keys: u64,
    pub round: u64,
}

impl Seeds {
    fn keys(self) -> KeySequence {
        KeySequence::new(Order::Random, u64::BITS, u64::MAX, self.keys)
    }

    /// SETs of the first keys, each once, shared out to connections.
    pub fn load(self, keys: u64, connections: u64) -> Vec<Vec<Request>> {
        let sequence = self.keys();
        let request =
            |place| Request { key: crate::key::BenchKey::of(sequence.number(place)), stores: true };
        let share = |connection| {
            let bound = |connection: u64| keys * connection / connections;
            (bound(connection)..bound(connection + 1)).map(request).collect()
        };
        (0..connections).map(share).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const SEEDS: Seeds = Seeds { keys: 3, round: 4 };

    #[test]
    fn mixes_are_named_and_others_are_refused() {
        for name in ["set", "get", "10/90", "status-update", "session-store"] {
            assert_eq!(name.parse::<Mix>().unwrap().to_string(), name);
        }
        assert_eq!("100/0".parse::<Mix>().unwrap(), Mix::Sets(100));
        for wrong in ["", "sets", "50/60", "-1/101", "4294967295/101"] {
            assert!(wrong.parse::<Mix>().unwrap_err().is_wrong_usage(), "{wrong}");
        }
    }

    #[test]
    fn a_mix_has_its_part_of_sets_and_asks_for_what_is_there() {
        let loaded: HashSet<String16> =
            SEEDS.load(1000, 3).into_iter().flatten().map(|request| request.key).collect();
        assert_eq!(loaded.len(), 1000);
        for (mix, sets) in [
            (Mix::Sets(100), 10_000..=10_000),
            (Mix::Sets(0), 0..=0),
            (Mix::Sets(10), 800..=1200),
            (Mix::StatusUpdate, 500..=500),
            (Mix::SessionStore, 5000..=5000),
        ] {
            let (mut stored, mut asked) = (0, 0);
            for requests in mix.draw(10_000, 7, 1000, SEEDS) {
                let mut present = loaded.clone();
                for Request { key, stores } in requests {
                    asked += 1;
                    stored += u64::from(stores);
                    let is_new = !present.contains(&key);
                    assert!(!is_new || stores && mix.inserts(10_000) > 0, "{mix}");
                    present.insert(key);
                }
            }
            assert_eq!(asked, 10_000);
            assert!(sets.contains(&stored), "{mix}: {stored}");
        }
    }
}
