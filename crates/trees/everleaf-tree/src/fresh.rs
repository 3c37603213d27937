//! What a root that leads nowhere means.

use everleaf_index::{IndexError, Result};
use everleaf_pmem::{Media, PCell};
use everleaf_pool::Pool;

/// Refuses a pool that is not fresh, before a tree whose root leads nowhere is begun, or anything
/// of it is cleared up. The first record is made when there is a root, so records beside a root
/// that leads nowhere are what a damaged one has led to. A creation that was cut has left none.
///
/// # Errors
/// [`IndexError::Corrupt`] if a record is in use, [`IndexError::Pool`] if the table of chunks is
/// damaged. Reads it once.
pub fn require_fresh<M: Media>(pool: &Pool<M>) -> Result<()> {
    if !pool.holds_records()? {
        return Ok(());
    }
    let root: &PCell = pool.index_root()?;
    let offset = pool.media().region().pointer_to(root).offset();
    Err(IndexError::Corrupt { offset, what: "the root leads nowhere, and there are records" })
}
