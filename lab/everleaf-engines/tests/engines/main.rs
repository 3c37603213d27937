//! What holds of all engines, or of several families, on traced memory.

mod images;
mod one_record;
mod parameters;

use std::sync::Arc;

use everleaf_crash::Traced;
use everleaf_index::Index;
use everleaf_pool::Pool;
use everleaf_tree::key::TreeKey;
use everleaf_tree::{EngineEntry, Opening};

type Engine = &'static EngineEntry;

/// Opens the index of a pool, or makes it in a fresh one.
fn open<K: TreeKey>(pool: &Arc<Pool<Traced>>, opening: Opening) -> Box<dyn Index<K>> {
    let code = everleaf_engines::all::<Traced>().code(pool.format()).unwrap().unwrap();
    K::open_by(code).unwrap()(pool, opening).unwrap()
}
