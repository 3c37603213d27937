//! What a node answers with that does not lead: sessions on an empty pool, which has no file any
//! more when it is open. Nothing that needs keys is asked of them.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use everleaf::{Clock, CreateOptions, DurabilityMode, Error, MAX_VALUE_BYTES};

use crate::ServeOptions;
use crate::data::Database;
use crate::shared::Shared;

/// What these sessions share; the pool is made in a folder of this process alone.
pub fn shared(
    folder: &Path,
    options: &ServeOptions,
    open: &Arc<AtomicU64>,
) -> Result<Arc<Shared>, Error> {
    let path = folder.join("aside.pool");
    let _ = std::fs::remove_file(&path); // A process that was killed may have left one.
    // Values have as many bytes as elsewhere, and none is stored.
    let pool = CreateOptions::new().size_bytes(1 << 20).max_size_bytes(2 * MAX_VALUE_BYTES);
    let store = pool.durability(DurabilityMode::Process).create(&path)?;
    let _ = std::fs::remove_file(&path); // If it stays, it goes the next time.
    let data = Arc::new(Database::over(store, Clock::system())?);
    Ok(Shared::with_connections(data, options.clone(), (Arc::clone(open), Arc::default())))
}
