//! Making and opening an index by the name of its engine, on any media and in any pool: what
//! stores, benchmarks and tests share. The caller says which engines there are for the media.

use std::sync::Arc;

use everleaf_index::{Index, IndexError};
use everleaf_pmem::{Media, Transactions};
use everleaf_pool::{Format, KeyType, Pool, Shutdown};
use everleaf_tree::EngineCode;
pub use everleaf_tree::{Engines, Opening};

use crate::durability::without_choice;
pub use crate::engine::SHIPPED;
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
    engine.format(key_type, parameters, value_words)
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
/// use everleaf::internal::registry::{self, SHIPPED};
/// use everleaf::{Engine, EngineParameters, KeyType};
/// use everleaf_index::U64Keys;
/// use everleaf_pmem::{Cpu, Mapped, Region};
/// use everleaf_pool::Pool;
///
/// let media = Mapped::new(Region::anonymous(1 << 20, 1 << 24)?, &Cpu::detect())?;
/// let parameters = EngineParameters::default();
/// let format = registry::pool_format(Engine::FPTREE, KeyType::U64, &parameters, 1)?;
/// let pool = Pool::create(media, &format)?;
/// let engine = Engine::FPTREE;
/// let index = registry::create_index::<U64Keys, _>(SHIPPED, &pool, engine, &parameters, 1)?;
/// assert!(index.insert(7, 70)?);
/// assert_eq!(index.get(7)?, Some(70));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn create_index<K: StoreKey, M: Media>(
    engines: Engines<M>,
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
    engines: Engines<M>,
    pool: &Arc<Pool<M>>,
    engine: Engine,
    parameters: &EngineParameters,
    value_words: usize,
    transactions: Transactions,
) -> Result<Box<dyn Index<K>>, Error> {
    let format = pool_format(engine, K::TYPE, parameters, value_words)?;
    create_of_format(engines, pool, &format, transactions)
}

/// As [`create_index_with`], in a pool that was laid out for a store.
///
/// # Errors
/// As [`create_index`].
pub(crate) fn create_for_store<K: StoreKey, M: Media>(
    engines: Engines<M>,
    pool: &Arc<Pool<M>>,
    engine: Engine,
    parameters: &EngineParameters,
    transactions: Transactions,
) -> Result<Box<dyn Index<K>>, Error> {
    let format = engine.store_format(K::TYPE, parameters)?;
    create_of_format(engines, pool, &format, transactions)
}

fn create_of_format<K: StoreKey, M: Media>(
    engines: Engines<M>,
    pool: &Arc<Pool<M>>,
    format: &Format,
    transactions: Transactions,
) -> Result<Box<dyn Index<K>>, Error> {
    if without_choice(pool.format()) != *format {
        return Err(Error::OtherFormat { name: pool.format().engine.clone() });
    }
    let code = code_of_new(engines, pool.format())?;
    let opening = Opening { transactions, ..Opening::from(Shutdown::Clean) };
    open_code(code, pool, opening)
}

/// What has the code for a pool that is to be made.
///
/// # Errors
/// [`Error::UnknownEngine`], or [`IndexError::Parameter`] for a size that is not on offer.
pub(crate) fn code_of_new<M: Media>(
    engines: Engines<M>,
    format: &Format,
) -> Result<&'static EngineCode<M>, Error> {
    Ok(engines.code(format).ok_or_else(|| Error::unknown_engine(&format.engine))??)
}

/// Opens the index in a pool, which was left by `shutdown`, and says which engine it is.
///
/// # Errors
/// [`Error::EngineOfPool`], [`Error::ParameterOfPool`], [`Error::WrongKeyType`], or damage.
pub fn open_index<K: StoreKey, M: Media>(
    engines: Engines<M>,
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
    engines: Engines<M>,
    pool: &Arc<Pool<M>>,
    opening: Opening,
) -> Result<(Box<dyn Index<K>>, Engine), Error> {
    let format = pool.format();
    if format.key_type != K::TYPE {
        return Err(Error::WrongKeyType { expected: format.key_type });
    }
    let code = check_format(engines, format)?;
    Ok((open_code(code, pool, opening)?, Engine::of(code.entry)))
}

/// Opens the index in a pool by the code that its format was found to have.
///
/// # Errors
/// [`Error::ParameterOfPool`], or damage.
pub(crate) fn open_code<K: StoreKey, M: Media>(
    code: &EngineCode<M>,
    pool: &Arc<Pool<M>>,
    opening: Opening,
) -> Result<Box<dyn Index<K>>, Error> {
    let open = K::open_by(code).ok_or(Error::NoByteStrings { engine: Engine::of(code.entry) })?;
    open(pool, opening).map_err(|error| of_pool(error, pool.format()))
}

/// What has the code for a pool: asked before anything is written to it.
///
/// # Errors
/// [`Error::EngineOfPool`], [`Error::ParameterOfPool`], [`Error::NoByteStrings`].
pub(crate) fn check_format<M: Media>(
    engines: Engines<M>,
    format: &Format,
) -> Result<&'static EngineCode<M>, Error> {
    let code = engines.code(format);
    let code = code.ok_or_else(|| Error::EngineOfPool { name: format.engine.clone() })?;
    let code = code.map_err(|error| of_pool(error, format))?;
    Engine::of(code.entry).check_keys(format.key_type)?;
    Ok(code)
}

/// Bad parameters in a pool's header are not the caller's error.
fn of_pool(error: IndexError, format: &Format) -> Error {
    match error {
        IndexError::Parameter { parameter, value, offered } => {
            Error::ParameterOfPool { name: format.engine.clone(), parameter, value, offered }
        }
        error => error.into(),
    }
}

/// The sizes that a pool was laid out with, as [`pool_format`] takes them.
pub fn parameters_of(engine: Engine, format: &Format) -> EngineParameters {
    engine.unpack(format.parameters).unwrap_or_default()
}
