//! Making what is measured, by its name.

use everleaf_engines::{LaboratoryMedia, all};
use std::path::Path;
use std::sync::Arc;

use everleaf::internal::{StoreKey, create_on, registry};
use everleaf::{CreateOptions, Engine, EngineParameters, KeyType, Store};
use everleaf_crash::{Dram, Instrumented, Latencies as AddedLatencies};
use everleaf_pmem::{Mapped, Region};
use everleaf_pool::Pool;

use super::Session;
use crate::key::{BenchKey, String16};
use crate::options::{Acknowledged, BenchKeyType};
use crate::peers::{self, store::Everleaf};
use crate::plan::within;
use crate::stx::Sizes;
use crate::target::{ByteStore, ByteTarget, IndexTarget, MapTarget, StxTarget, Target};
use crate::{BenchError, Peer, Subject};

/// The kind of key of a pool.
pub(crate) const fn key_type(keys: BenchKeyType) -> KeyType {
    match keys {
        BenchKeyType::U64 => KeyType::U64,
        BenchKeyType::String16 => KeyType::Bytes,
    }
}

/// The sizes of nodes of `stx`, without those that are given the ones of FPTree's Table 1.
pub(crate) fn stx_sizes(
    keys: BenchKeyType,
    parameters: &EngineParameters,
) -> Result<Sizes, BenchError> {
    let sizes = [("inner-keys", parameters.inner_keys), ("leaf-slots", parameters.leaf_slots)];
    let of_paper = match keys {
        BenchKeyType::U64 => 16,
        BenchKeyType::String16 => 8,
    };
    let mut others = *parameters;
    (others.inner_keys, others.leaf_slots) = (None, None);
    if others != EngineParameters::default() {
        return Err(BenchError::NotAnIndex { engine: Subject::Stx });
    }
    let [least, most] = Sizes::RANGE;
    for (option, size) in sizes {
        within(option, size.unwrap_or(of_paper).into(), least, most)?;
    }
    let [inner_keys, leaf_entries] = sizes.map(|(_, size)| size.unwrap_or(of_paper) as usize);
    Ok(Sizes { inner_keys, leaf_entries })
}

/// What is done with targets, compiled for each kind of them.
pub(crate) trait Driver<K> {
    /// Whether maps hold arrays of several words, or boxes instead: each kind of value is code to
    /// be compiled.
    const ARRAYS: bool;
    /// Does it, with empty targets of one kind.
    fn drive<T: Target<K> + 'static>(self, targets: Vec<T>) -> Result<(), BenchError>;
}

impl Session {
    /// Makes as many empty targets as the session has, of whatever it measures, and drives them.
    pub fn with_targets<K: BenchKey, D: Driver<K>>(&self, driver: D) -> Result<(), BenchError> {
        match self.plan.subject {
            Subject::Index(engine) if engine.entry().is_map() => self.with_maps::<K, D>(driver),
            Subject::Index(engine) if engine.entry().is_volatile_twin() => {
                driver.drive(self.several(|| {
                    Ok(self.index::<K, _>(engine, Dram::new(self.region()?, &self.cpu))?.1)
                })?)
            }
            Subject::Index(engine) => driver.drive(self.several(|| {
                match self.added() {
                    None => Ok(self.index::<K, _>(engine, self.hardware(self.region()?)?)?.1),
                    Some(added) => Ok(self
                        .index::<K, _>(
                            engine,
                            Instrumented::delaying(self.hardware(self.region()?)?, added),
                        )?
                        .1),
                }
            })?),
            Subject::Store(engine) if self.waits() => {
                driver.drive(self.of_bytes::<K, _>(|| self.waiting_store::<K>(engine))?)
            }
            Subject::Store(engine) => {
                driver.drive(self.of_bytes::<K, _>(|| match self.added() {
                    None => {
                        let media = self.hardware(self.region()?)?;
                        Ok(Everleaf::new(self.store::<K, _>(engine, media)?.0))
                    }
                    Some(added) => {
                        let media = self.hardware(self.region()?)?;
                        let media = Instrumented::delaying(media, added);
                        Ok(Everleaf::new(self.store::<K, _>(engine, media)?.0))
                    }
                })?)
            }
            Subject::Stx => self.with_stx::<K, D>(driver),
            Subject::Peer(peer) => self.with_peers::<K, D>(peer, driver),
        }
    }

    /// Opens the store that another process has left in a folder.
    pub fn with_left<D: Driver<String16>>(
        mut self,
        folder: &Path,
        driver: D,
    ) -> Result<(), BenchError> {
        self.place = self.place.left(folder);
        match self.plan.subject {
            Subject::Store(engine) => {
                driver.drive(self.of_bytes(|| self.waiting_store::<String16>(engine))?)
            }
            Subject::Peer(peer) => self.with_peers(peer, driver),
            engine => Err(BenchError::NotAStore { engine }),
        }
    }

    fn several<T>(&self, make: impl Fn() -> Result<T, BenchError>) -> Result<Vec<T>, BenchError> {
        (0..self.indexes).map(|_| make()).collect()
    }

    fn of_bytes<K, S: ByteStore<K> + 'static>(
        &self,
        make: impl Fn() -> Result<S, BenchError>,
    ) -> Result<Vec<ByteTarget<K>>, BenchError> {
        let (value_bytes, batch) = (self.plan.value_bytes(), self.plan.options.batch as usize);
        self.several(|| Ok(ByteTarget::new(make()?, value_bytes, batch)))
    }

    /// Whether a write waits for more than that it outlives the process.
    fn waits(&self) -> bool {
        self.plan.options.acknowledged != Acknowledged::Process
    }

    /// An empty store in a file, as a program would make it.
    fn waiting_store<K: BenchKey>(&self, engine: Engine) -> Result<Everleaf, BenchError> {
        let options = self.store_options::<K>(engine);
        let options = options.durability(self.plan.options.acknowledged.mode());
        Everleaf::create(self.place.create_folder()?, &options)
    }

    fn store_options<K: BenchKey>(&self, engine: Engine) -> CreateOptions {
        let options = CreateOptions::new().engines(all()).engine(engine).key_type(K::Kind::TYPE);
        let options = options.size_bytes(self.pool_bytes).parameters(self.parameters);
        options.transactions(self.plan.options.transactions)
    }

    /// Latencies that are to be added, if any.
    pub fn added(&self) -> Option<AddedLatencies> {
        let options = &self.plan.options;
        let added = AddedLatencies {
            flush_ns: options.flush_ns,
            fence_ns: options.fence_ns,
            read_ns: options.read_ns,
        };
        (added != AddedLatencies::default()).then_some(added)
    }

    fn with_maps<K: BenchKey, D: Driver<K>>(&self, driver: D) -> Result<(), BenchError> {
        let bytes = self.plan.value_bytes();
        if !D::ARRAYS {
            return match bytes {
                8 => driver.drive(self.several(|| Ok(MapTarget::<K, [u64; 1]>::new(bytes)))?),
                _ => driver.drive(self.several(|| Ok(MapTarget::<K, Box<[u8]>>::new(bytes)))?),
            };
        }
        macro_rules! of_words {
            ($($words:literal)*) => {
                match bytes {
                    $(bytes if bytes == 8 * $words => {
                        let map = || Ok(MapTarget::<K, [u64; $words]>::new(bytes));
                        driver.drive(self.several(map)?)
                    })*
                    _ => driver.drive(self.several(|| Ok(MapTarget::<K, Box<[u8]>>::new(bytes)))?),
                }
            };
        }
        of_words!(1 2 4 8 14)
    }

    fn with_stx<K: BenchKey, D: Driver<K>>(&self, driver: D) -> Result<(), BenchError> {
        let sizes = stx_sizes(self.plan.options.key_type, &self.parameters)?;
        match self.plan.value_bytes() {
            8 => driver.drive(self.several(|| Ok(StxTarget::<K, [u64; 1]>::with_sizes(sizes, 8)))?),
            bytes => driver
                .drive(self.several(|| Ok(StxTarget::<K, Box<[u8]>>::with_sizes(sizes, bytes)))?),
        }
    }

    fn with_peers<K: BenchKey, D: Driver<K>>(
        &self,
        peer: Peer,
        driver: D,
    ) -> Result<(), BenchError> {
        #[cfg(any(feature = "peers", feature = "rocksdb", feature = "sqlite"))]
        let options = &self.plan.options;
        #[cfg(any(feature = "peers", feature = "rocksdb", feature = "sqlite"))]
        let (acknowledged, cache, folder) =
            (options.acknowledged, options.cache_bytes, || self.place.create_folder());
        let targets = match peer {
            Peer::SkipMap => self.of_bytes::<K, _>(|| Ok(peers::skipmap::Skip::<K>::new()))?,
            #[cfg(feature = "peers")]
            Peer::Lmdb => self.of_bytes::<K, _>(|| {
                peers::lmdb::Lmdb::create(folder()?, self.pool_bytes * 2, acknowledged)
            })?,
            #[cfg(feature = "peers")]
            Peer::Redb => {
                self.of_bytes::<K, _>(|| peers::redb::Redb::create(folder()?, acknowledged, cache))?
            }
            #[cfg(feature = "peers")]
            Peer::Fjall => self
                .of_bytes::<K, _>(|| peers::fjall::Fjall::create(folder()?, acknowledged, cache))?,
            #[cfg(feature = "rocksdb")]
            Peer::RocksDb => self.of_bytes::<K, _>(|| {
                peers::rocksdb::RocksDb::create(folder()?, acknowledged, cache)
            })?,
            #[cfg(feature = "sqlite")]
            Peer::Sqlite => self.of_bytes::<K, _>(|| {
                peers::sqlite::Sqlite::create(folder()?, acknowledged, cache)
            })?,
            #[cfg(not(all(feature = "peers", feature = "rocksdb", feature = "sqlite")))]
            _ => {
                let feature = peer.missing_feature().unwrap_or_default();
                return Err(BenchError::NotBuilt { what: peer.name(), feature });
            }
        };
        driver.drive(targets)
    }

    /// Memory for a pool.
    pub fn region(&self) -> Result<Region, BenchError> {
        self.place.create(self.pool_bytes)
    }

    /// The media that was asked for, without added latencies.
    pub fn hardware(&self, region: Region) -> Result<Mapped, BenchError> {
        match self.plan.options.flush.forced() {
            None => Ok(Mapped::new(region, &self.cpu)?),
            Some(forced) => Ok(Mapped::forced(region, &self.cpu, forced)?),
        }
    }

    /// A fresh pool and an empty index in it.
    pub fn index<K: BenchKey, M: LaboratoryMedia>(
        &self,
        engine: Engine,
        media: M,
    ) -> Result<(Arc<Pool<M>>, IndexTarget<K>), BenchError> {
        let words = self.plan.options.value_words as usize;
        let format = registry::pool_format(engine, K::Kind::TYPE, &self.parameters, words)?;
        let pool = Pool::create(media, &format)?;
        let transactions = self.plan.options.transactions;
        let index = registry::create_index_with::<K::Kind, M>(
            all(),
            &pool,
            engine,
            &self.parameters,
            words,
            transactions,
        )?;
        let target = IndexTarget::new(index);
        let target = match self.plan.options.epoch_ops {
            Some(writes) => target.ending_epochs_after(writes),
            // A run that must repeat ends no epochs by time: it counts what operations cost.
            None if pool.media().is_repeatable() => target,
            None => target.ending_epochs()?,
        };
        Ok((pool, target))
    }

    /// An empty store on a media, and its pool.
    pub fn store<K: BenchKey, M: LaboratoryMedia>(
        &self,
        engine: Engine,
        media: M,
    ) -> Result<(Store, Arc<Pool<M>>), BenchError> {
        Ok(create_on(all(), &self.store_options::<K>(engine), media)?)
    }
}
