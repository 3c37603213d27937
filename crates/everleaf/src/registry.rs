//! Making and opening an index by the name of its engine, on any media and in any pool: what
//! stores, benchmarks and tests share.

use std::sync::Arc;

use everleaf_index::{Index, IndexError};
use everleaf_pmem::{Media, Site, Transactions};
use everleaf_pool::{Format, KeyType, Pool, Shutdown};
pub use everleaf_trees::fptree::Opening;
use everleaf_trees::fptree::{self, Variant};
use everleaf_trees::sorted;

use crate::options::GROUP_UNIT;
use crate::{Engine, EngineParameters, Error, StoreKey};

/// What the header of a pool says in which `engine` keeps values of `value_words` words. The format
/// that a pool is laid out with decides all sizes.
///
/// # Errors
/// [`Error::UnknownEngine`], [`Error::UnknownParameter`], or [`IndexError::Parameter`] for a size
/// that is not on offer.
pub fn pool_format(
    engine: Engine,
    key_type: KeyType,
    parameters: &EngineParameters,
    value_words: usize,
) -> Result<Format, Error> {
    parameters.check_for(engine)?;
    let parameters = match kind(engine)? {
        Kind::FpTree(variant) => {
            let tuned = fptree::Parameters::defaults(variant);
            let chosen = fptree::Parameters {
                leaf_slots: parameters.leaf_slots.map_or(tuned.leaf_slots, u64::from),
                inner_keys: parameters.inner_keys.map_or(tuned.inner_keys, u64::from),
                group_bytes: parameters.group_bytes.unwrap_or(tuned.group_bytes),
                value_words: value_words as u64,
            };
            chosen.validate()?;
            if parameters.group_bytes == Some(0) {
                let offered = format!("the multiples of {GROUP_UNIT} from {GROUP_UNIT} on");
                return Err(
                    IndexError::Parameter { parameter: "group_bytes", value: 0, offered }.into()
                );
            }
            chosen.pack()
        }
        Kind::Sorted(_) => {
            if value_words != 1 {
                let offered = "1".to_owned();
                return Err(IndexError::Parameter {
                    parameter: "value_words",
                    value: value_words as u64,
                    offered,
                }
                .into());
            }
            let tuned = sorted::Parameters::default();
            let chosen = sorted::Parameters {
                node_slots: parameters.leaf_slots.map_or(tuned.node_slots, u64::from),
            };
            chosen.validate()?;
            chosen.pack()
        }
        Kind::BTreeMap => [value_words as u64, 0, 0, 0, 0, 0, 0, 0],
    };
    Ok(Format { engine: engine.name().to_owned(), key_type, parameters })
}

/// Makes an empty index in a fresh pool that was laid out with the [`pool_format`] of the same
/// arguments.
///
/// # Errors
/// [`Error::OtherFormat`] if it was not; as [`pool_format`]; or [`IndexError::Pool`] if the pool
/// has no room for it.
///
/// # Examples
/// ```
/// use everleaf::{Engine, EngineParameters, KeyType, U64Keys, registry};
/// use everleaf_pmem::{Cpu, Hardware, Region};
/// use everleaf_pool::Pool;
///
/// let media = Hardware::new(Region::anonymous(1 << 20, 1 << 24)?, &Cpu::detect())?;
/// let parameters = EngineParameters::default();
/// let pool = Pool::create(media, &registry::pool_format(Engine::FpTree, KeyType::U64, &parameters, 1)?)?;
/// let index = registry::create_index::<U64Keys, _>(&pool, Engine::FpTree, &parameters, 1)?;
/// assert!(index.insert(7, 70)?);
/// assert_eq!(index.get(7)?, Some(70));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn create_index<K: StoreKey, M: Media>(
    pool: &Arc<Pool<M>>,
    engine: Engine,
    parameters: &EngineParameters,
    value_words: usize,
) -> Result<Box<dyn Index<K>>, Error> {
    create_index_with(pool, engine, parameters, value_words, Transactions::Off)
}

/// As [`create_index`], with these transactions where the engine knows any.
///
/// # Errors
/// As [`create_index`].
pub fn create_index_with<K: StoreKey, M: Media>(
    pool: &Arc<Pool<M>>,
    engine: Engine,
    parameters: &EngineParameters,
    value_words: usize,
    transactions: Transactions,
) -> Result<Box<dyn Index<K>>, Error> {
    if *pool.format() != pool_format(engine, K::TYPE, parameters, value_words)? {
        return Err(Error::OtherFormat { name: pool.format().engine.clone() });
    }
    match kind(engine)? {
        Kind::FpTree(variant) => Ok(fptree::open_with(
            pool,
            variant,
            Opening { transactions, ..Opening::from(Shutdown::Clean) },
        )?),
        Kind::Sorted(variant) => Ok(sorted::create(pool, variant)?),
        Kind::BTreeMap => Ok(K::model(value_words)?),
    }
}

/// Opens the index in a pool, which was left by `shutdown`, and says which engine it is.
///
/// # Errors
/// [`Error::EngineOfPool`], [`Error::ParameterOfPool`], [`Error::WrongKeyType`], or damage.
pub fn open_index<K: StoreKey, M: Media>(
    pool: &Arc<Pool<M>>,
    shutdown: Shutdown,
) -> Result<(Box<dyn Index<K>>, Engine), Error> {
    open_index_with(pool, shutdown.into())
}

/// As [`open_index`], with everything that can be chosen: how many threads rebuild what the index
/// keeps in DRAM, and which transactions it uses where the engine knows any.
///
/// # Errors
/// As [`open_index`].
pub fn open_index_with<K: StoreKey, M: Media>(
    pool: &Arc<Pool<M>>,
    opening: Opening,
) -> Result<(Box<dyn Index<K>>, Engine), Error> {
    let format = pool.format();
    if format.key_type != K::TYPE {
        return Err(Error::WrongKeyType { expected: format.key_type });
    }
    let engine = format.engine.parse::<Engine>().and_then(Engine::require_available);
    let engine = engine.map_err(|_| Error::EngineOfPool { name: format.engine.clone() })?;
    let opened = match kind(engine)? {
        Kind::FpTree(variant) => fptree::open_with(pool, variant, opening),
        Kind::Sorted(variant) => sorted::open(pool, variant, opening.shutdown),
        Kind::BTreeMap => return Err(Error::EngineOfPool { name: format.engine.clone() }),
    };
    Ok((opened.map_err(|error| of_pool(error, format))?, engine))
}

/// Whether there is code for a pool of this format: asked before anything is written to it.
pub(crate) fn check_format(format: &Format) -> Result<(), Error> {
    let kind = format.engine.parse::<Engine>().and_then(Engine::require_available).and_then(kind);
    let unpacked = match kind.map_err(|_| Error::EngineOfPool { name: format.engine.clone() })? {
        Kind::FpTree(_) => fptree::Parameters::unpack(format.parameters).map(drop),
        Kind::Sorted(_) => sorted::Parameters::unpack(format.parameters).map(drop),
        Kind::BTreeMap => return Err(Error::EngineOfPool { name: format.engine.clone() }),
    };
    unpacked.map_err(|error| of_pool(error, format))
}

/// What is wrong with the parameters of a pool is no mistake of the caller, who has given none.
fn of_pool(error: IndexError, format: &Format) -> Error {
    match error {
        IndexError::Parameter { parameter, value, offered } => {
            Error::ParameterOfPool { name: format.engine.clone(), parameter, value, offered }
        }
        error => error.into(),
    }
}

/// The sizes that a pool was laid out with, as [`pool_format`] takes them.
pub fn parameters_of(format: &Format) -> EngineParameters {
    let none = EngineParameters::default();
    let Ok(engine) = format.engine.parse::<Engine>() else { return none };
    match kind(engine) {
        Ok(Kind::FpTree(_)) => {
            fptree::Parameters::unpack(format.parameters).map_or(none, |sizes| {
                let chosen =
                    none.leaf_slots(sizes.leaf_slots as u32).inner_keys(sizes.inner_keys as u32);
                let grouped = engine.parameters().contains(&EngineParameters::GROUP_BYTES);
                if grouped { chosen.group_bytes(sizes.group_bytes) } else { chosen }
            })
        }
        Ok(Kind::Sorted(_)) => sorted::Parameters::unpack(format.parameters)
            .map_or(none, |sizes| none.leaf_slots(sizes.node_slots as u32)),
        Ok(Kind::BTreeMap) | Err(_) => none,
    }
}

/// Every barrier of an engine's index, without those of the pool. None for what does not persist.
pub fn sites(engine: Engine) -> &'static [Site] {
    match kind(engine) {
        Ok(Kind::FpTree(variant)) => fptree::sites(variant),
        Ok(Kind::Sorted(variant)) => sorted::sites(variant),
        Ok(Kind::BTreeMap) | Err(_) => &[],
    }
}

/// The engines that there are code for.
enum Kind {
    FpTree(Variant),
    Sorted(sorted::Variant),
    BTreeMap,
}

fn kind(engine: Engine) -> Result<Kind, Error> {
    match engine {
        Engine::FpTree => Ok(Kind::FpTree(Variant::FpTree)),
        Engine::FpTreeConcurrent => Ok(Kind::FpTree(Variant::Concurrent)),
        Engine::PTree => Ok(Kind::FpTree(Variant::PTree)),
        Engine::CircTree => Ok(Kind::Sorted(sorted::Variant::CircTree)),
        Engine::CircTreeLinear => Ok(Kind::Sorted(sorted::Variant::Linear)),
        Engine::FastFair => Ok(Kind::Sorted(sorted::Variant::FastFair)),
        Engine::VolatileCircular => Ok(Kind::Sorted(sorted::Variant::CircTree)),
        Engine::VolatileStandard => Ok(Kind::Sorted(sorted::Variant::Array)),
        Engine::BTreeMap => Ok(Kind::BTreeMap),
        engine => Err(Error::unavailable(engine.name())),
    }
}

/// A `BTreeMap` as an index of values of a number of words that is known at run time only.
macro_rules! model {
    ($key:ty, $value_words:expr, $($words:literal)*) => {
        match $value_words {
            $($words => Ok(Box::new(::everleaf_index::Serialized::new(::everleaf_index::Model::<$key, $words>::new()))),)*
            words => Err($crate::registry::unoffered_words(words)),
        }
    };
}
pub(crate) use model;

pub(crate) fn unoffered_words(words: usize) -> IndexError {
    IndexError::Parameter {
        parameter: "value_words",
        value: words as u64,
        offered: "1 to 14".to_owned(),
    }
}
