//! Making and opening an index by the name of its engine, on any media and in any pool: what
//! stores, benchmarks and tests share. Who calls says who has the code for the media.

use std::sync::Arc;

use everleaf_index::{Index, IndexError};
use everleaf_pmem::{Media, Transactions};
use everleaf_pool::{Format, KeyType, Pool, Shutdown};
use everleaf_trees::EngineError;
pub use everleaf_trees::{Engines, Opening, Shipped};

use crate::durability::without_choice;
use crate::{Engine, EngineParameters, Error, StoreKey};

/// What the header of a pool says in which `engine` keeps values of `value_words` words. The format
/// that a pool is laid out with decides all sizes.
///
/// # Errors
/// [`Error::UnknownEngine`], [`Error::UnknownParameter`], [`Error::NoByteStrings`], or
/// [`IndexError::Parameter`] for a size that is not on offer.
pub fn pool_format(
    engine: Engine,
    key_type: KeyType,
    parameters: &EngineParameters,
    value_words: usize,
) -> Result<Format, Error> {
    engine.check_keys(key_type)?;
    let parameters = engine.pack(parameters, value_words)?;
    Ok(Format { engine: engine.name().to_owned(), key_type, parameters })
}

/// The same of a store, whose values are the offsets of records that have the keys.
///
/// # Errors
/// As [`pool_format`].
pub(crate) fn store_format(
    engine: Engine,
    key_type: KeyType,
    parameters: &EngineParameters,
) -> Result<Format, Error> {
    engine.check_keys(key_type)?;
    let parameters = engine.pack_for_store(parameters, key_type)?;
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
/// use everleaf::internal::registry::{self, Shipped};
/// use everleaf::{Engine, EngineParameters, KeyType};
/// use everleaf_index::U64Keys;
/// use everleaf_pmem::{Cpu, Mapped, Region};
/// use everleaf_pool::Pool;
///
/// let media = Mapped::new(Region::anonymous(1 << 20, 1 << 24)?, &Cpu::detect())?;
/// let parameters = EngineParameters::default();
/// let format = registry::pool_format(Engine::FpTree, KeyType::U64, &parameters, 1)?;
/// let pool = Pool::create(media, &format)?;
/// let engine = Engine::FpTree;
/// let index = registry::create_index::<U64Keys, _>(&Shipped, &pool, engine, &parameters, 1)?;
/// assert!(index.insert(7, 70)?);
/// assert_eq!(index.get(7)?, Some(70));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn create_index<K: StoreKey, M: Media>(
    engines: &dyn Engines<M>,
    pool: &Arc<Pool<M>>,
    engine: Engine,
    parameters: &EngineParameters,
    value_words: usize,
) -> Result<Box<dyn Index<K>>, Error> {
    create_index_with(engines, pool, engine, parameters, value_words, Transactions::Off)
}

/// As [`create_index`], with these transactions where the engine knows any.
///
/// # Errors
/// As [`create_index`].
pub fn create_index_with<K: StoreKey, M: Media>(
    engines: &dyn Engines<M>,
    pool: &Arc<Pool<M>>,
    engine: Engine,
    parameters: &EngineParameters,
    value_words: usize,
    transactions: Transactions,
) -> Result<Box<dyn Index<K>>, Error> {
    let format = pool_format(engine, K::TYPE, parameters, value_words)?;
    create_of_format(engines, pool, engine, &format, transactions)
}

/// As [`create_index_with`], in a pool that was laid out with the [`store_format`] of the same
/// arguments.
///
/// # Errors
/// As [`create_index`].
pub(crate) fn create_for_store<K: StoreKey, M: Media>(
    engines: &dyn Engines<M>,
    pool: &Arc<Pool<M>>,
    engine: Engine,
    parameters: &EngineParameters,
    transactions: Transactions,
) -> Result<Box<dyn Index<K>>, Error> {
    create_of_format(
        engines,
        pool,
        engine,
        &store_format(engine, K::TYPE, parameters)?,
        transactions,
    )
}

fn create_of_format<K: StoreKey, M: Media>(
    engines: &dyn Engines<M>,
    pool: &Arc<Pool<M>>,
    engine: Engine,
    format: &Format,
    transactions: Transactions,
) -> Result<Box<dyn Index<K>>, Error> {
    if without_choice(pool.format()) != *format {
        return Err(Error::OtherFormat { name: pool.format().engine.clone() });
    }
    Ok(K::create(engines, engine, pool, transactions)?)
}

/// Opens the index in a pool, which was left by `shutdown`, and says which engine it is.
///
/// # Errors
/// [`Error::EngineOfPool`], [`Error::ParameterOfPool`], [`Error::WrongKeyType`], or damage.
pub fn open_index<K: StoreKey, M: Media>(
    engines: &dyn Engines<M>,
    pool: &Arc<Pool<M>>,
    shutdown: Shutdown,
) -> Result<(Box<dyn Index<K>>, Engine), Error> {
    open_index_with(engines, pool, shutdown.into())
}

/// As [`open_index`], with everything that can be chosen: how many threads rebuild what the index
/// keeps in DRAM, and which transactions it uses where the engine knows any.
///
/// # Errors
/// As [`open_index`].
pub fn open_index_with<K: StoreKey, M: Media>(
    engines: &dyn Engines<M>,
    pool: &Arc<Pool<M>>,
    opening: Opening,
) -> Result<(Box<dyn Index<K>>, Engine), Error> {
    let format = pool.format();
    if format.key_type != K::TYPE {
        return Err(Error::WrongKeyType { expected: format.key_type });
    }
    let engine = engine_of(format)?;
    Ok((open_engine(engines, pool, engine, opening)?, engine))
}

/// Opens the index in a pool, whose engine and kind of keys are known.
///
/// # Errors
/// [`Error::ParameterOfPool`], or damage.
pub(crate) fn open_engine<K: StoreKey, M: Media>(
    engines: &dyn Engines<M>,
    pool: &Arc<Pool<M>>,
    engine: Engine,
    opening: Opening,
) -> Result<Box<dyn Index<K>>, Error> {
    K::open(engines, engine, pool, opening).map_err(|error| of_pool(error, pool.format()))
}

/// The engine of a pool.
pub(crate) fn engine_of(format: &Format) -> Result<Engine, Error> {
    let engine = format.engine.parse::<Engine>().and_then(Engine::require_available);
    engine.map_err(|_| Error::EngineOfPool { name: format.engine.clone() })
}

/// The engine of a pool, if there is code for its format: asked before anything is written to it.
pub(crate) fn check_format(format: &Format) -> Result<Engine, Error> {
    let engine = engine_of(format)?;
    engine.check_keys(format.key_type)?;
    let sizes = engine.unpack(format.parameters);
    sizes.map(|_| engine).map_err(|error| of_pool(error, format))
}

/// Bad parameters in a pool's header are not the caller's error.
fn of_pool(error: EngineError, format: &Format) -> Error {
    match error {
        EngineError::Index(IndexError::Parameter { parameter, value, offered }) => {
            Error::ParameterOfPool { name: format.engine.clone(), parameter, value, offered }
        }
        error => error.into(),
    }
}

/// The sizes that a pool was laid out with, as [`pool_format`] takes them.
pub fn parameters_of(engine: Engine, format: &Format) -> EngineParameters {
    engine.unpack(format.parameters).unwrap_or_default()
}
