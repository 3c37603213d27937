//! How many keys there are, from a clean close to the next opening.
//!
//! ```text
//! K1  a close, after the last write: the record, and the root leads to it    alloc_record_into
//!     Crash: it is there wholly or not at all, and true either way.
//! K2  an opening, before the first write: the record is read, and freed      free_from
//!     Crash: it is still there, and true.
//! ```
//! So it is never there while anything is written. A store with few entries stores none, nor one
//! with very many moments at which values expire, nor one that has no room: the next opening counts
//! when it is asked.

use std::collections::BTreeMap;
use std::sync::Arc;

use everleaf_pmem::{Media, PCell, PPtr, persistent, planted};
use everleaf_pool::{KeyType, Pool, Record, RootName};

use super::counts::{Count, Counted};
use crate::Error;
use crate::core::keyspace::Space;

const ROOT: RootName = RootName::new("counts");
/// Fewer entries are counted at once.
pub(super) const MANY_ENTRIES: u64 = 10_000;
/// Moments of expiry that are stored: 16 bytes each.
const MAX_MOMENTS: usize = 4096;

persistent! {
    /// Where the counts are, in a pool that was closed.
    pub struct KeptCounts {
        /// None while the pool is open to write.
        pub record: PCell<PPtr<Record>>,
    }
}

/// K1.
pub(super) fn store<M: Media>(pool: &Arc<Pool<M>>, counted: &Counted) -> Result<(), Error> {
    let moments: usize = counted.by_space.values().map(|count| count.expiring.len()).sum();
    if moments > MAX_MOMENTS {
        return Ok(());
    }
    let mut worker = pool.worker()?;
    worker.create_root::<KeptCounts>(ROOT)?;
    worker.alloc_record_into(&pool.root::<KeptCounts>(ROOT)?.record, &[&to_bytes(counted)])?;
    Ok(())
}

/// K2: what a close has stored.
pub(super) fn take<M: Media>(pool: &Arc<Pool<M>>) -> Result<Option<Counted>, Error> {
    if !pool.has_root(ROOT) {
        return Ok(None);
    }
    let cell = &pool.root::<KeptCounts>(ROOT)?.record;
    let record = pool.media().load(cell);
    if record.is_null() {
        return Ok(None);
    }
    let counted = pool.copy_record(record).ok().and_then(|bytes| of_bytes(&bytes));
    let freed = if planted(327) { Ok(()) } else { pool.worker()?.free_from(cell) };
    match freed {
        Err(error) if counted.is_some() => Err(error.into()),
        // What is damaged now is never taken.
        _ => Ok(counted),
    }
}

/// How the record begins.
const MAGIC: &[u8] = b"keys";

/// `keys`, the time up to which values had expired, and of each space its number, how many moments
/// of expiry it has, how many keys, and of each moment the time and how many keys; little-endian.
fn to_bytes(counted: &Counted) -> Vec<u8> {
    let mut bytes = [MAGIC, &counted.until_ms.to_le_bytes()].concat();
    for (space, count) in &counted.by_space {
        bytes.extend(number_of(*space).to_le_bytes());
        bytes.extend((count.expiring.len() as u32).to_le_bytes());
        bytes.extend(count.present.to_le_bytes());
        for (expires_ms, there) in &count.expiring {
            bytes.extend(expires_ms.to_le_bytes());
            bytes.extend(there.to_le_bytes());
        }
    }
    bytes
}

/// None if these are none of this version.
fn of_bytes(bytes: &[u8]) -> Option<Counted> {
    let mut rest = bytes.strip_prefix(MAGIC)?;
    let mut counted = Counted { until_ms: word(&mut rest)?, ..Counted::default() };
    while !rest.is_empty() {
        let head = word(&mut rest)?;
        let (space, moments) = (space_of(head as u32)?, head >> 32);
        let mut count = Count { present: word(&mut rest)? as i64, expiring: BTreeMap::new() };
        for _ in 0..moments {
            let expires_ms = word(&mut rest)?;
            count.expiring.insert(expires_ms, word(&mut rest)? as i64);
        }
        counted.by_space.insert(space, count);
    }
    Some(counted)
}

fn word(rest: &mut &[u8]) -> Option<u64> {
    let (word, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(u64::from_le_bytes(*word))
}

/// Keys do not tell of which kind those of their tree are, nor do counts.
fn number_of(space: Space) -> u32 {
    match space {
        Space::Numbers => 0,
        Space::Own => 1,
        Space::Catalog => 2,
        Space::Named(number, _) => 3 + u32::from(number),
    }
}

fn space_of(number: u32) -> Option<Space> {
    Some(match number {
        0 => Space::Numbers,
        1 => Space::Own,
        2 => Space::Catalog,
        named => Space::Named(u16::try_from(named - 3).ok()?, KeyType::Bytes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_round_trip_and_a_part_of_them_is_none() {
        let count = |present, moments: &[(u64, i64)]| Count {
            present,
            expiring: moments.iter().copied().collect(),
        };
        let named = |number| Space::Named(number, KeyType::Bytes);
        let counted = Counted {
            until_ms: 77,
            by_space: [
                (Space::Own, count(3, &[(100, 1), (u64::MAX, 2)])),
                (Space::Numbers, count(0, &[])),
                (Space::Catalog, count(1, &[])),
                (named(0), count(1 << 40, &[])),
                (named(u16::MAX), count(9, &[(200, 9)])),
            ]
            .into(),
        };
        let bytes = to_bytes(&counted);
        assert_eq!(of_bytes(&bytes), Some(counted));
        assert_eq!(of_bytes(&bytes[..bytes.len() - 1]), None);
        assert_eq!(of_bytes(b"text"), None);
    }
}
