//! What is measured, by name: an index, the store, a tree in memory that the papers' trees are set
//! against, or a peer, which is a store or map of other projects.

use std::fmt;
use std::str::FromStr;

use everleaf::{Contract, Engine};
use everleaf_engines::{named, pools, volatile};

use crate::{Acknowledged, BenchError};

/// The name of [`Subject::Stx`].
const STX: &str = "stx";

/// What a benchmark runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// An index of this engine by itself, with values of words; `btreemap` is the standard
    /// library's map.
    Index(Engine),
    /// The store over an index of this engine, with values of bytes: `store` over the default
    /// engine, `store:E` over engine E.
    Store(Engine),
    /// The B+-tree in memory that FPTree's paper sets its trees against.
    Stx,
    /// Another store or map.
    Peer(Peer),
}

/// A store or map of another project.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Peer {
    /// crossbeam's concurrent skip list.
    SkipMap,
    /// LMDB, by the feature `peers`.
    Lmdb,
    /// redb, likewise.
    Redb,
    /// fjall, likewise.
    Fjall,
    /// RocksDB, by the feature `rocksdb`.
    RocksDb,
    /// SQLite, by the feature `sqlite`.
    Sqlite,
}

impl Peer {
    /// All of them, also those that this build lacks.
    pub const ALL: [Peer; 6] =
        [Peer::SkipMap, Peer::Lmdb, Peer::Redb, Peer::Fjall, Peer::RocksDb, Peer::Sqlite];

    /// The name on the command line and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Peer::SkipMap => "skipmap",
            Peer::Lmdb => "lmdb",
            Peer::Redb => "redb",
            Peer::Fjall => "fjall",
            Peer::RocksDb => "rocksdb",
            Peer::Sqlite => "sqlite",
        }
    }

    /// The feature of this crate that it needs, and whether this build has that.
    const fn requirement(self) -> Option<(&'static str, bool)> {
        match self {
            Peer::SkipMap => None,
            Peer::Lmdb | Peer::Redb | Peer::Fjall => Some(("peers", cfg!(feature = "peers"))),
            Peer::RocksDb => Some(("rocksdb", cfg!(feature = "rocksdb"))),
            Peer::Sqlite => Some(("sqlite", cfg!(feature = "sqlite"))),
        }
    }

    /// Whether this build has it.
    pub const fn is_built(self) -> bool {
        self.missing_feature().is_none()
    }

    /// The feature by which a build has it, if this build lacks it.
    pub const fn missing_feature(self) -> Option<&'static str> {
        match self.requirement() {
            Some((feature, false)) => Some(feature),
            _ => None,
        }
    }

    /// What it is run with, and what an acknowledged write survives by that.
    pub const fn settings(self, acknowledged: Acknowledged) -> &'static str {
        match acknowledged {
            Acknowledged::Process => self.settings_without_sync(),
            Acknowledged::Buffered => match self {
                Peer::Redb => "Durability::None: what is committed is lost with the process",
                _ => self.settings_without_sync(),
            },
            Acknowledged::Immediate => match self {
                Peer::SkipMap => self.settings_without_sync(),
                Peer::Lmdb => "its defaults: each commit is synced",
                Peer::Redb => "Durability::Immediate: each commit is synced",
                Peer::Fjall => "each write is followed by persist(SyncData); no compression",
                Peer::RocksDb => "each write syncs the log; no compression",
                Peer::Sqlite => "WAL, synchronous=FULL: each commit syncs the log",
            },
        }
    }

    const fn settings_without_sync(self) -> &'static str {
        match self {
            Peer::SkipMap => "in memory, a lock for each value: nothing survives",
            Peer::Lmdb => {
                "write map, no sync: a commit lies in the shared map when it returns, and outlives \
                the process"
            }
            Peer::Redb => {
                "Durability::Immediate, which syncs the file at each commit; a commit without that \
                is lost with the process"
            }
            Peer::Fjall => {
                "each write goes to the system's buffers (its default), no compression, a cache of \
                1 GiB or --cache"
            }
            Peer::RocksDb => {
                "write-ahead log without sync (its default), no compression, a cache of 1 GiB or \
                --cache"
            }
            Peer::Sqlite => {
                "WAL, synchronous=OFF: a commit goes to the system's buffers; a cache of 1 GiB or \
                --cache"
            }
        }
    }
}

impl Subject {
    /// Everything that this build can measure.
    pub fn available() -> impl Iterator<Item = Subject> {
        let indexes = pools().map(Engine::of).chain(volatile().map(Engine::of)).map(Subject::Index);
        let peers = Peer::ALL.into_iter().filter(|peer| peer.is_built()).map(Subject::Peer);
        indexes.chain([Subject::Stx, Subject::Store(Engine::default())]).chain(peers)
    }

    /// Whether several threads may use it at the same time.
    pub const fn is_concurrent(self) -> bool {
        match self {
            Subject::Index(engine) => engine.is_concurrent(),
            Subject::Stx => false,
            Subject::Store(_) | Subject::Peer(_) => true,
        }
    }

    /// Whether it is made of epochs, at the ends of which it is durable.
    pub fn has_epochs(self) -> bool {
        match self {
            Subject::Index(engine) | Subject::Store(engine) => {
                engine.contract() == Contract::Buffered
            }
            Subject::Stx | Subject::Peer(_) => false,
        }
    }

    /// Whether it lives in a pool, whose media can count.
    pub const fn has_pool(self) -> bool {
        match self {
            Subject::Index(engine) => !engine.entry().is_map(),
            Subject::Store(_) => true,
            Subject::Stx | Subject::Peer(_) => false,
        }
    }

    /// What it is run with, and what an acknowledged write survives by that.
    pub const fn settings(self, acknowledged: Acknowledged) -> &'static str {
        match self {
            Subject::Peer(peer) => peer.settings(acknowledged),
            subject if subject.is_volatile() => "in memory: nothing survives",
            Subject::Store(_) if !matches!(acknowledged, Acknowledged::Process) => {
                "a log beside the pool, one sync for all who wait"
            }
            Subject::Index(_) | Subject::Store(_) | Subject::Stx => {
                "the flushes and fences that the medium needs, on tmpfs none"
            }
        }
    }

    /// Whether nothing of it survives its process, whatever it is run with.
    pub const fn is_volatile(self) -> bool {
        match self {
            Subject::Index(engine) => engine.entry().is_map() || engine.entry().is_volatile_twin(),
            Subject::Stx | Subject::Peer(Peer::SkipMap) => true,
            Subject::Store(_) | Subject::Peer(_) => false,
        }
    }

    /// Whether its values are words, as many as the format of the pool or the map says.
    pub const fn has_words(self) -> bool {
        matches!(self, Subject::Index(_) | Subject::Stx)
    }

    /// Whether it is a map in memory, which has boxes too, of any number of bytes.
    pub const fn is_map(self) -> bool {
        match self {
            Subject::Index(engine) => engine.entry().is_map(),
            _ => matches!(self, Subject::Stx),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Index(engine) => f.pad(engine.name()),
            Subject::Store(engine) if engine.name() == Engine::DEFAULT.name() => f.pad("store"),
            Subject::Store(engine) => f.pad(&format!("store:{engine}")),
            Subject::Stx => f.pad(STX),
            Subject::Peer(peer) => f.pad(peer.name()),
        }
    }
}

impl FromStr for Subject {
    type Err = BenchError;

    fn from_str(name: &str) -> Result<Self, BenchError> {
        if let Some(peer) = Peer::ALL.into_iter().find(|peer| peer.name() == name) {
            return match peer.missing_feature() {
                None => Ok(Self::Peer(peer)),
                Some(feature) => Err(BenchError::NotBuilt { what: peer.name(), feature }),
            };
        }
        let unknown = || BenchError::UnknownEngine {
            name: name.to_owned(),
            choices: Self::available()
                .map(|subject| subject.to_string())
                .collect::<Vec<_>>()
                .join(", "),
        };
        let available = |engine: &str| named(engine).map(Engine::of).map_err(|_| unknown());
        match name.split_once(':') {
            Some(("store", engine)) => Ok(Self::Store(available(engine)?)),
            None if name == "store" => Ok(Self::Store(Engine::default())),
            None if name == STX => Ok(Self::Stx),
            None if let Some(twin) =
                volatile().map(Engine::of).find(|twin| name == twin.name()) =>
            {
                Ok(Self::Index(twin))
            }
            _ => Ok(Self::Index(available(name)?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for subject in Subject::available() {
            assert_eq!(subject.to_string().parse::<Subject>().unwrap(), subject);
        }
        assert_eq!("store:fptree".parse::<Subject>().unwrap(), Subject::Store(Engine::FPTREE));
        assert_eq!(Subject::Store(Engine::FPTREE).to_string(), "store:fptree");
    }

    #[test]
    fn what_is_not_there_is_refused_with_what_there_is() {
        for name in [
            "bogus",
            "stxtree",
            "store:",
            "store:stx",
            "store:btreemap",
            "store:bogus",
            "fptree:store",
            "",
        ] {
            let error = name.parse::<Subject>().unwrap_err();
            assert!(error.is_wrong_usage(), "{error}");
            let sentence = error.to_string();
            assert!(
                sentence.contains("fptree, ") && sentence.contains("store, skipmap"),
                "{sentence}"
            );
        }
    }

    #[test]
    fn a_peer_that_is_not_in_this_build_is_refused_with_the_feature_that_it_needs() {
        for peer in Peer::ALL {
            let parsed = peer.name().parse::<Subject>();
            match peer.missing_feature() {
                None => assert_eq!(parsed.unwrap(), Subject::Peer(peer)),
                Some(feature) => assert_eq!(
                    parsed.unwrap_err().to_string(),
                    format!(
                        "{} is not in this build: build with --features {feature}",
                        peer.name()
                    )
                ),
            }
        }
        assert_eq!(Peer::Lmdb.is_built(), cfg!(feature = "peers"));
    }
}
