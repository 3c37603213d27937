//! A link in which the index takes part: the store's part of it.
//!
//! ```text
//! P1         the new record                                              begin_doubt
//! P2         the doubt {old, new}, and the index's first step; fence     state_doubt
//! P3 COMMIT  the index's commit word, and the bits of both; fence        mark_doubt
//! P4         old may be used again, in DRAM                              end_doubt
//! ```
//!
//! The index has the entry's leaf locked from before P2 until after the fence of P3, so no other
//! thread sees what is not durable. A crash leaves the index before the commit or behind it, and
//! the two bits in any mixture with that: recovery asks the index about each block that is in
//! doubt, by the key in its record.

use everleaf_index::{IndexError, LinkSteps, Links};
use everleaf_pmem::{Media, PPtr, planted};
use everleaf_pool::{Doubt, Lease, Pool, Record, Worker};

use super::{InterruptOnDrop, Linked, OpenStore, foreign_record, linked_record, with_parts};
use crate::core::value::TimedValue;
use crate::core::value_record::{KeyBytes, ValueRecord, key_of_bytes};
use crate::{Error, StoreKey};

/// What is done within the index's two steps.
struct Steps<'w, M: Media> {
    worker: &'w mut Worker<M>,
    /// The record that the index must hold.
    old: PPtr<Record>,
}

impl<M: Media> LinkSteps for Steps<'_, M> {
    fn prepare(&mut self, old: Option<u64>) -> Result<(), IndexError> {
        if old.unwrap_or(0) != self.old.offset() {
            let what = "an entry has changed while the lock of its key was held";
            return Err(IndexError::Corrupt { offset: self.old.offset(), what });
        }
        Ok(self.worker.state_doubt()?)
    }

    fn complete(&mut self) -> Result<(), IndexError> {
        Ok(self.worker.mark_doubt()?)
    }
}

/// The same where the index says what it holds.
struct FindingSteps<'w, M: Media> {
    worker: &'w mut Worker<M>,
    pool: &'w Pool<M>,
    key: &'w [u8],
    found: Option<Linked>,
    /// What it holds is a run: nothing was done.
    is_run: bool,
}

impl<M: Media> LinkSteps for FindingSteps<'_, M> {
    fn prepare(&mut self, old: Option<u64>) -> Result<(), IndexError> {
        if let Some(offset) = old {
            let records = self.pool.pin();
            let record = PPtr::at(offset);
            self.found = linked_record(&records, record, self.key)?;
            let what = "the record there belongs to another key";
            self.is_run = self.found.is_some() && !self.worker.replace_in_doubt(record)?;
            if self.found.is_none() || self.is_run {
                return Err(IndexError::Corrupt { offset, what });
            }
        }
        Ok(self.worker.state_doubt()?)
    }

    fn complete(&mut self) -> Result<(), IndexError> {
        Ok(self.worker.mark_doubt()?)
    }
}

impl<M: Media, K: StoreKey> OpenStore<M, K> {
    /// Links a new record of `key` in place of whatever the index holds, and says what that was, by
    /// one descent. The outer none: nothing was done, and the caller asks the index first; so it is
    /// where the index takes no part in links, for a record that is a run, or replaces one, and
    /// where the pool is full. The caller has the key's lock.
    pub(crate) fn try_upsert(
        &self,
        key: K::Ref<'_>,
        new: TimedValue<'_>,
    ) -> Result<Option<Option<Linked>>, Error> {
        if self.epochs.is_some() || self.links != Links::All {
            return Ok(None);
        }
        if self.is_interrupted() {
            return Err(Error::Interrupted);
        }
        let mut worker = self.workers.lease()?;
        let record =
            with_parts::<K, _>(key, new, |parts| worker.begin_doubt(PPtr::NULL, Some(parts)));
        let record = match record.map_err(Error::from) {
            Ok(Some(record)) => record,
            Ok(None) => return Ok(None),
            Err(error) if error.is_full() => return Ok(None),
            Err(error) => return Err(error),
        };
        let unsettled = InterruptOnDrop(&self.interrupted);
        let bytes = KeyBytes::of(K::widen(key));
        let (key_bytes, pool) = (bytes.as_slice(), &*self.pool);
        let mut steps =
            FindingSteps { worker: &mut worker, pool, key: key_bytes, found: None, is_run: false };
        let linked = self.index.link(key, Some(record.offset()), &mut steps);
        let (found, is_run) = (steps.found, steps.is_run);
        match linked {
            // Only the next opening can tell.
            Err(error) if worker.is_in_doubt() => Err(error.into()),
            linked => {
                worker.end_doubt()?;
                std::mem::forget(unsettled);
                match linked.map_err(Error::from) {
                    Ok(linked) => Ok(linked.then_some(found)),
                    Err(error) if is_run || error.is_full() => Ok(None),
                    Err(error) => Err(error),
                }
            }
        }
    }

    /// Links `new`, or nothing if it is null, in place of `old`.
    pub(super) fn exchange_in_doubt(
        &self,
        mut worker: Lease<'_, M>,
        key: K::Ref<'_>,
        old: PPtr<Record>,
        new: PPtr<Record>,
    ) -> Result<(), Error> {
        let unsettled = InterruptOnDrop(&self.interrupted);
        let word = (!new.is_null()).then_some(new.offset());
        let linked = self.index.link(key, word, &mut Steps { worker: &mut worker, old });
        match linked {
            // Only the next opening can tell.
            Err(error) if worker.is_in_doubt() => Err(error.into()),
            linked => {
                worker.end_doubt()?;
                std::mem::forget(unsettled);
                if linked? { Ok(()) } else { Err(foreign_record(old.offset())) }
            }
        }
    }

    /// Settles the bits of the blocks that were in doubt when a crash came; how many were wrong.
    /// Links and batches are resolved.
    pub(crate) fn resolve_doubts(&self, doubts: &[Doubt]) -> Result<u64, Error> {
        if doubts.is_empty() {
            return Ok(0);
        }
        let held = doubts.iter().map(|doubt| self.holds_record(doubt));
        let mut held = held.collect::<Result<Vec<bool>, Error>>()?;
        planted!(309, held.fill(true));
        Ok(self.pool.end_doubts(doubts, &held)?)
    }

    /// Whether the index, asked for the key of a record, leads to this record.
    fn holds_record(&self, doubt: &Doubt) -> Result<bool, Error> {
        let key = ValueRecord::parse(doubt.content())
            .and_then(|found| key_of_bytes(found.key, K::TYPE))
            .and_then(|key| K::narrow(key).ok());
        let Some(key) = key else { return Ok(false) };
        let found = self.index.get(key)?;
        Ok(found == Some(doubt.record().offset()) || planted(308) && found.is_some())
    }
}
