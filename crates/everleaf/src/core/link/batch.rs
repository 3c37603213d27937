//! Many links with one commit point: the store's part of a batch.
//!
//! ```text
//! P1         the new records and the log of the batch are written            stage, log_batch
//! P2 COMMIT  the log counts, and the new records are in use                  commit_batch
//! P3         the index holds every new record; removals come last            the engine's own
//! P4         the old records are free                                        mark_batch
//! P5         the intent is cleared                                           end_batch
//! ```
//!
//! From P2 on the batch has happened: a crash is recovered by doing the rest again. The caller has
//! the locks of all keys from before P1 until after P5, and who reads a key asks its version
//! whether a batch has it: so gets see all or nothing. Scans are kept out from before P2 until P3
//! is done.
//!
//! An engine that takes part ([`Index::link_all`]) prepares its entries before P2 and makes them
//! count afterwards: its entries are durable by the fences of P2, its changes together with P4. So
//! a batch of any size costs four fences, apart from leaves that are split or emptied. The others
//! change entry by entry, each change durable by itself.
//!
//! Should the index refuse an entry in P3, which it does for want of room, the entries that it has
//! taken are restored. That needs no room: new keys are removed, values of present keys are set
//! back, and no key was removed yet. Instead of the old records the new ones are freed in P4.
//!
//! On an engine of epochs a batch is what `link/epochs.rs` says.

use everleaf_index::{BatchSteps, Index, IndexError};
use everleaf_pmem::{Media, PPtr, planted};
use everleaf_pool::{Lease, PendingBatch, Record, Worker};

use super::{InterruptOnDrop, OpenStore, foreign_record, with_parts};
use crate::core::value::TimedValue;
use crate::core::value_record::{ValueRecord, key_of_bytes};
use crate::{Error, OwnedKey, StoreKey};

/// What a batch does to one key: each occurs once.
pub(crate) struct Change<'c, K: StoreKey> {
    pub(crate) key: K::Ref<'c>,
    /// The record that the index holds, or null.
    pub(crate) old: PPtr<Record>,
    /// None: the key is removed.
    pub(crate) new: Option<TimedValue<'c>>,
}

/// A change of one entry of the index.
pub(super) struct Link<R> {
    pub(super) key: R,
    pub(super) old: PPtr<Record>,
    pub(super) new: PPtr<Record>,
}

impl<M: Media, K: StoreKey> OpenStore<M, K> {
    /// Does all changes or none. The caller has the locks of the keys.
    pub(crate) fn exchange_all(&self, changes: &[Change<'_, K>]) -> Result<(), Error> {
        if self.is_interrupted() {
            return Err(Error::Interrupted);
        }
        match changes {
            [] => Ok(()),
            // One store commits one link, without a log.
            [Change { key, old, new: Some(new) }] => self.replace(*key, *old, *new),
            [Change { key, old, new: None }] => self.remove(*key, *old),
            _ => self.exchange_many(changes),
        }
    }

    /// The same, as long as the pool has room for it.
    pub(super) fn exchange_all_at_once(&self, changes: &[Change<'_, K>]) -> Result<(), Error> {
        if let Some(records) = &self.epochs {
            return self.exchange_all_in_epoch(records, changes);
        }
        let mut worker = self.workers.lease()?;
        // P1. Crash or error: nothing happened.
        worker.begin_batch();
        let links = match stage(&mut worker, changes) {
            Ok(links) => links,
            Err(error) => {
                worker.abandon_batch()?;
                return Err(error);
            }
        };
        let unsettled = InterruptOnDrop(&self.interrupted);
        let mut steps = Steps { worker: &mut worker, reached: Reached::Nothing };
        // P2 COMMIT, P3, and P4 where the engine takes part.
        let linked = {
            let _scans_wait = (!planted(301)).then(|| self.lock_scans_out());
            link_all(&*self.index, links, &mut steps)
        };
        let reached = steps.reached;
        if reached == Reached::Nothing {
            worker.abandon_batch()?;
            std::mem::forget(unsettled);
            return linked?;
        }
        let settled = linked?;
        // P4 where it has not been done yet, and P5. Crash: P3 is done again, which changes
        // nothing, and then this.
        match reached {
            Reached::Marks => worker.end_batch(true)?,
            _ => worker.settle_batch(settled.is_ok())?,
        }
        std::mem::forget(unsettled);
        settled
    }

    /// Completes a batch that a crash cut after its commit.
    pub(super) fn resolve_batch(&self, batch: &PendingBatch) -> Result<(), Error> {
        let mut links = Vec::new();
        for (old, new) in batch.links() {
            let record = if new.is_null() { old } else { new };
            let records = self.pool.pin();
            let parsed = ValueRecord::parse(records.record(record)?);
            let key = parsed
                .and_then(|found| key_of_bytes(found.key, K::TYPE))
                .ok_or(foreign_record(record.offset()))?;
            links.push(Link { key: key.to_owned(), old, new });
        }
        let narrow = |link: &Link<OwnedKey>| {
            Ok((K::to_owned(K::narrow(link.key.as_ref())?), link.old, link.new))
        };
        let owned: Vec<(K::Owned, _, _)> =
            links.iter().map(narrow).collect::<Result<_, Error>>()?;
        let mut links: Vec<Link<K::Ref<'_>>> = owned
            .iter()
            .map(|(key, old, new)| Link { key: K::borrow(key), old: *old, new: *new })
            .collect();
        planted!(304, links.retain(|link| link.new.is_null()));
        let settled = settle(&*self.index, &links)?;
        self.workers.lease()?.resolve_batch(batch, settled.is_ok())?;
        Ok(())
    }
}

fn stage<'c, M: Media, K: StoreKey>(
    worker: &mut Lease<'_, M>,
    changes: &[Change<'c, K>],
) -> Result<Vec<Link<K::Ref<'c>>>, Error> {
    let mut links = Vec::with_capacity(changes.len());
    for Change { key, old, new } in changes {
        let new = match new {
            None => worker.stage(*old, None)?,
            Some(new) => with_parts::<K, _>(*key, *new, |parts| worker.stage(*old, Some(parts)))?,
        };
        links.push(Link { key: *key, old: *old, new });
    }
    worker.log_batch()?;
    Ok(links)
}

/// How far a batch has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reached {
    Nothing,
    /// P2.
    Commit,
    /// P4.
    Marks,
}

/// What is done within the steps of the index.
struct Steps<'w, M: Media> {
    worker: &'w mut Worker<M>,
    reached: Reached,
}

impl<M: Media> BatchSteps for Steps<'_, M> {
    fn commit(&mut self) -> Result<(), IndexError> {
        self.reached = Reached::Commit; // After an error too: it may count.
        Ok(self.worker.commit_batch()?)
    }

    fn complete(&mut self) -> Result<(), IndexError> {
        self.reached = Reached::Marks;
        Ok(self.worker.mark_batch(true)?)
    }
}

/// P2 and P3, or the contrary of P3: as [`settle`]. Where the steps have reached nothing, the index
/// is as it was before; where they have reached the marks, an error says that only the next opening
/// can tell.
fn link_all<M: Media, K: StoreKey>(
    index: &dyn Index<K>,
    mut links: Vec<Link<K::Ref<'_>>>,
    steps: &mut Steps<'_, M>,
) -> Result<Result<(), Error>, Error> {
    links.sort_unstable_by_key(|link| (link.new.is_null(), link.key));
    let word = |new: PPtr<Record>| (!new.is_null()).then_some(new.offset());
    let changes: Vec<_> = links.iter().map(|link| (link.key, word(link.new))).collect();
    match index.link_all(&changes, steps) {
        Ok(true) => Ok(Ok(())),
        Ok(false) => {
            steps.commit()?;
            settle(index, &links)
        }
        Err(refusal) if steps.reached == Reached::Commit => {
            take_back(index, &links)?;
            Ok(Err(refusal.into()))
        }
        Err(error) => Err(error.into()),
    }
}

/// P3, or its contrary: the inner error says why the index is as it was before. The outer one: it
/// is neither.
pub(super) fn settle<K: StoreKey>(
    index: &dyn Index<K>,
    links: &[Link<K::Ref<'_>>],
) -> Result<Result<(), Error>, Error> {
    let (puts, removals): (Vec<_>, Vec<_>) = links.iter().partition(|link| !link.new.is_null());
    let forward = |link: &&Link<K::Ref<'_>>| make_hold(index, link.key, link.new);
    let (first, then) = if planted(303) { (&removals, &puts) } else { (&puts, &removals) };
    match first.iter().chain(then).try_for_each(forward) {
        Ok(()) => Ok(Ok(())),
        Err(refusal) => {
            take_back(index, links)?;
            Ok(Err(refusal))
        }
    }
}

/// The contrary of P3.
fn take_back<K: StoreKey>(index: &dyn Index<K>, links: &[Link<K::Ref<'_>>]) -> Result<(), Error> {
    planted!(302, return Ok(()));
    links.iter().rev().try_for_each(|link| make_hold(index, link.key, link.old))
}

/// Makes the index hold this record for the key, or nothing.
fn make_hold<K: StoreKey>(
    index: &dyn Index<K>,
    key: K::Ref<'_>,
    record: PPtr<Record>,
) -> Result<(), Error> {
    if record.is_null() {
        index.remove(key)?;
    } else {
        index.upsert(key, record.offset())?;
    }
    Ok(())
}
