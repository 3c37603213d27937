//! The engines on the media of the laboratory: here each tree is compiled for each of them, once,
//! and nowhere else. On [`Mapped`] they are those of the product.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

use std::sync::Arc;

use everleaf_crash::{Dram, Instrumented, Traced};
use everleaf_index::{BytesKeys, Index, U64Keys};
use everleaf_pmem::{Mapped, Transactions};
use everleaf_pool::Pool;
use everleaf_trees::{Engine, EngineError, Engines, Opening, Shipped, engines_on};

/// All engines, on every media.
#[derive(Clone, Copy, Debug)]
pub struct AllEngines;

engines_on!(AllEngines, Traced);
engines_on!(AllEngines, Instrumented);
engines_on!(AllEngines, Dram);

impl Engines<Mapped> for AllEngines {
    fn create_u64(
        &self,
        engine: Engine,
        pool: &Arc<Pool<Mapped>>,
        transactions: Transactions,
    ) -> Result<Box<dyn Index<U64Keys>>, EngineError> {
        Shipped.create_u64(engine, pool, transactions)
    }

    fn create_bytes(
        &self,
        engine: Engine,
        pool: &Arc<Pool<Mapped>>,
        transactions: Transactions,
    ) -> Result<Box<dyn Index<BytesKeys>>, EngineError> {
        Shipped.create_bytes(engine, pool, transactions)
    }

    fn open_u64(
        &self,
        engine: Engine,
        pool: &Arc<Pool<Mapped>>,
        opening: Opening,
    ) -> Result<Box<dyn Index<U64Keys>>, EngineError> {
        Shipped.open_u64(engine, pool, opening)
    }

    fn open_bytes(
        &self,
        engine: Engine,
        pool: &Arc<Pool<Mapped>>,
        opening: Opening,
    ) -> Result<Box<dyn Index<BytesKeys>>, EngineError> {
        Shipped.open_bytes(engine, pool, opening)
    }
}
