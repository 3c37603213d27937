//! Checking a store: the index's own invariants, the values, and that no block is lost or used
//! twice.
//!
//! - S1: every entry of the index leads to a record that matches its checksum and holds this
//!   entry's key.
//! - S2: entries come in key order, and there are as many as the index says.
//! - S3: every block of the pool is reached exactly once, or is free.
//! - S4: the number of keys that is known, if it is, is that of those which are there.
//!
//! What a check cannot see: an entry that is missing altogether where nothing tells of it, and
//! damage that left a value with its checksum right.

use std::ops::{Bound, ControlFlow};

use everleaf_index::{Direction, Index};
use everleaf_pmem::{Media, PPtr};
use everleaf_pool::{Audit, Pool};

use crate::core::keyspace::Space;
use crate::core::progress::{Progress, Watch, report};
use crate::core::value::is_expired;
use crate::core::value_record::{KeyBytes, ValueRecord};
use crate::{CheckOutcome, Error, Key, OwnedKey, StoreKey};

/// Violations that are written out; what exceeds them is counted.
const MAX_SENTENCES: usize = 1000;
/// Entries between two calls of the callback.
const STEP: u64 = 256;

/// The index's own invariants are tested in one step; `watch` is called before it, and after each
/// step of the entries.
pub(crate) fn check<M: Media, K: StoreKey>(
    pool: &Pool<M>,
    index: &dyn Index<K>,
    mut audit: Audit,
    now_ms: u64,
    watch: &mut Watch<'_>,
) -> Result<CheckOutcome, Error> {
    let mut progress = Progress::of(Some(index.len()));
    report(watch, &progress)?;
    let found = index.check(&mut audit)?;
    let mut violations = found.violations;
    let mut keys = 0;
    let mut there = |key: Key<'_>, record: &ValueRecord<'_>| {
        let of_tree = Space::of_encoded(key).is_some_and(Space::is_of_tree);
        keys += u64::from(of_tree && !is_expired(record.expires_ms, now_ms));
    };
    let sentences = &mut violations;
    let entries =
        check_values(pool, index, &mut audit, sentences, watch, &mut progress, &mut there)?;
    if entries != found.keys || entries != index.len() {
        let (counted, len) = (found.keys, index.len());
        violations.push(format!(
            "S2: a scan gives {entries} keys, the index counts {counted} and says it has {len}"
        ));
    }
    let audited = pool.finish_audit(audit);
    violations.extend(audited.violations.into_iter().map(|violation| format!("S3: {violation}")));
    let ok = violations.is_empty() && audited.leaked_blocks == 0;
    let more = violations.len().saturating_sub(MAX_SENTENCES);
    if more > 0 {
        violations.truncate(MAX_SENTENCES);
        violations.push(format!("and {more} more"));
    }
    Ok(CheckOutcome { ok, keys, violations, leaked_blocks: audited.leaked_blocks })
}

/// Refuses an empty index beside records that it should lead to, as a damaged root or a damaged
/// first node leaves it: it would be taken for a store without keys, and written to. Looks only at
/// an index that is empty.
///
/// # Errors
/// [`Error::is_corruption`].
pub(crate) fn refuse_emptied<M: Media, K: StoreKey>(
    pool: &Pool<M>,
    index: &dyn Index<K>,
) -> Result<(), Error> {
    if !index.is_empty() || !pool.holds_records()? {
        return Ok(());
    }
    let mut audit = Audit::new();
    index.check(&mut audit)?;
    match pool.finish_audit(audit).leaked_blocks {
        0 => Ok(()),
        _ => Err(Error::corrupt(0, "the index is empty, and there are records")),
    }
}

/// S1 and S2; the number of entries. Those that are sound are shown to `there`.
fn check_values<M: Media, K: StoreKey>(
    pool: &Pool<M>,
    index: &dyn Index<K>,
    audit: &mut Audit,
    violations: &mut Vec<String>,
    watch: &mut Watch<'_>,
    progress: &mut Progress,
    there: &mut dyn FnMut(Key<'_>, &ValueRecord<'_>),
) -> Result<u64, Error> {
    let mut previous: Option<OwnedKey> = None;
    let (mut disordered, mut stopped) = (false, Ok(()));
    let scanned = index.scan(Bound::Unbounded, Direction::Forward, &mut |key, words| {
        if progress.entries > 0 && progress.entries.is_multiple_of(STEP) {
            stopped = report(watch, progress);
            if stopped.is_err() {
                return ControlFlow::Break(());
            }
        }
        progress.entries += 1;
        let key = K::widen(key);
        if previous.as_ref().is_some_and(|previous| previous.as_ref() >= key) {
            violations.push(format!("S2: key {key} comes after a key that is not less"));
            disordered = true; // A scan of a damaged index may never end.
            return ControlFlow::Break(());
        }
        previous = Some(key.to_owned());
        let offset = words.first().copied().unwrap_or(0);
        let records = pool.pin();
        match records.record(PPtr::at(offset)).map(ValueRecord::parse) {
            Ok(Some(record)) if record.key == KeyBytes::of(key).as_slice() => {
                progress.bytes += (record.key.len() + record.value.len()) as u64;
                audit.reach(offset);
                there(key, &record);
            }
            Ok(_) => violations.push(format!(
                "S1: the record at {offset:#x} does not belong to key {key}, which leads to it"
            )),
            Err(error) => {
                violations.push(format!("S1: the value of key {key} cannot be read: {error}"))
            }
        }
        ControlFlow::Continue(())
    });
    stopped?;
    match scanned {
        Err(error) => violations.push(format!("S2: the scan ended early: {error}")),
        Ok(()) if disordered => {
            violations.push("S2: the rest of the keys was not looked at".to_owned())
        }
        Ok(()) => {}
    }
    Ok(progress.entries)
}
