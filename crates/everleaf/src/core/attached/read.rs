//! Reading keys and ranges.

use std::cell::OnceCell;
use std::ops::{Bound, ControlFlow};

use everleaf_index::Direction;
use everleaf_pmem::{Media, planted};
use everleaf_pool::RecordGuard;

use super::Attached;
use super::durable::wait;
use crate::core::backend::{Backend, Reading, Visit};
use crate::core::keyspace::Space;
use crate::core::link::{OpenStore, value_record};
use crate::core::tree_liveness::TreeLiveness;
use crate::core::value::TimedValue;
use crate::core::value::is_expired;
use crate::core::value_record::KeyBytes;
use crate::{Error, Key, StoreKey};

/// Keys that are read together, and values that a scan shows under one guard.
const GROUP: usize = 64;

/// The time, looked at when a value that expires is first met.
pub(super) struct Now<'b, B: Backend>(&'b B, OnceCell<u64>);

impl<'b, B: Backend> Now<'b, B> {
    pub(super) fn of(backend: &'b B) -> Self {
        Self(backend, OnceCell::new())
    }

    /// Whether a value that expires then is there no more.
    pub(super) fn is_past(&self, expires_ms: Option<u64>) -> bool {
        expires_ms.is_some() && is_expired(expires_ms, *self.1.get_or_init(|| self.0.now_ms()))
    }
}

/// What the index leads to, unless it has expired.
#[inline(always)]
fn find<'g, M: Media, K: StoreKey, B: Backend>(
    live: &OpenStore<M, K>,
    records: &'g RecordGuard<'_, M>,
    key: K::Ref<'_>,
    now: &Now<'_, B>,
) -> Result<Option<TimedValue<'g>>, Error> {
    let Some(offset) = live.index.get(key)? else { return Ok(None) };
    let found = value_record(records, offset, &KeyBytes::of(K::widen(key)))?.found();
    Ok(Some(found).filter(|found| !now.is_past(found.expires_ms) || planted(320)))
}

/// A copy of what was found.
fn copied(found: TimedValue<'_>) -> (Vec<u8>, Option<u64>) {
    (found.value.to_vec(), found.expires_ms)
}

pub(super) fn narrow_bound<K: StoreKey>(bound: Bound<Key<'_>>) -> Result<Bound<K::Ref<'_>>, Error> {
    Ok(match bound {
        Bound::Included(key) => Bound::Included(K::narrow(key)?),
        Bound::Excluded(key) => Bound::Excluded(K::narrow(key)?),
        Bound::Unbounded => Bound::Unbounded,
    })
}

impl<M: Media, K: StoreKey> Reading for Attached<M, K> {
    fn get_with(
        &self,
        life: &TreeLiveness,
        key: Key<'_>,
        show: &mut dyn FnMut(TimedValue<'_>),
    ) -> Result<bool, Error> {
        let narrow = K::narrow_checked(key)?;
        let now = Now::of(self);
        self.ready()?;
        let shared = self.share();
        let live = shared.as_ref().ok_or(Error::Closed)?;
        life.check()?;
        let number = live.lock_of(narrow);
        let before = live.version(number);
        {
            let records = live.pin_records(); // Before the record is found: see its text.
            let found = find(live, &records, narrow, &now)?;
            if live.is_settled(number, before) && self.pending_of(live, narrow).is_none() {
                found.into_iter().for_each(show);
                return Ok(found.is_some());
            }
        }
        // Nothing is pinned while this waits. It is shown when nothing is held any more.
        let lock = live.lock_to_read(narrow);
        let copy = find(live, &live.pin_records(), narrow, &now)?.map(copied);
        let pending = self.pending_of(live, narrow);
        drop(lock);
        drop(shared);
        wait(pending)?;
        let found = copy.as_ref();
        let found = found.map(|(value, expires_ms)| TimedValue { value, expires_ms: *expires_ms });
        found.into_iter().for_each(show);
        Ok(copy.is_some())
    }

    fn get_many(
        &self,
        life: &TreeLiveness,
        keys: &[Key<'_>],
        show: &mut dyn FnMut(usize, TimedValue<'_>),
    ) -> Result<(), Error> {
        let now = Now::of(self);
        for (group, keys) in keys.chunks(GROUP).enumerate() {
            let narrow =
                keys.iter().map(|key| K::narrow_checked(*key)).collect::<Result<Vec<_>, _>>()?;
            self.read_durable(|live| {
                life.check()?;
                let numbers = || narrow.iter().map(|key| live.lock_of(*key));
                let before: Vec<u64> = numbers().map(|number| live.version(number)).collect();
                let mut shown = |settled: &dyn Fn() -> bool| {
                    let mut offsets = [None; GROUP];
                    let offsets = &mut offsets[..keys.len()];
                    let records = live.pin_records();
                    live.find_many(&narrow, offsets)?;
                    let mut found = [None; GROUP];
                    for ((key, offset), found) in keys.iter().zip(&*offsets).zip(&mut found) {
                        let record = |offset| value_record(&records, offset, &KeyBytes::of(*key));
                        *found = offset.map(record).transpose()?.map(|record| record.found());
                    }
                    if !settled() {
                        return Ok(false);
                    }
                    let there = found.iter().enumerate().filter_map(|(i, f)| Some((i, (*f)?)));
                    there
                        .filter(|(_, found)| !now.is_past(found.expires_ms) || planted(321))
                        .for_each(|(i, found)| show(group * GROUP + i, found));
                    Ok::<_, Error>(true)
                };
                let unchanged = || live.are_unchanged(numbers().zip(before.iter().copied()));
                if !shown(&unchanged)? {
                    let _locks = live.lock_all_to_read(&narrow); // Nothing is pinned meanwhile.
                    shown(&|| true)?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn prefetch(&self, life: &TreeLiveness, keys: &[Key<'_>]) -> Result<(), Error> {
        for keys in keys.chunks(GROUP) {
            let narrow =
                keys.iter().map(|key| K::narrow_checked(*key)).collect::<Result<Vec<_>, _>>()?;
            self.read(|live| {
                life.check()?;
                let _records = live.pin_records(); // Keys stand in records.
                live.find_many(&narrow, &mut [None; GROUP][..keys.len()])
            })?;
        }
        Ok(())
    }

    fn scan(
        &self,
        life: &TreeLiveness,
        from: Bound<Key<'_>>,
        direction: Direction,
        expired: bool,
        visit: &mut Visit<'_>,
    ) -> Result<(), Error> {
        let from = narrow_bound::<K>(from)?;
        let now = Now::of(self);
        self.read_durable(|live| {
            life.check()?;
            // A batch is in the index wholly or not at all.
            let _batches = live.lock_batches_out();
            let mut failed = None;
            let (mut records, mut shown) = (live.pin_records(), 0_usize);
            live.index.scan(from, direction, &mut |key, words| {
                shown += 1;
                if shown.is_multiple_of(GROUP) {
                    records.renew(); // What others replace meanwhile is to be free again.
                }
                let key = K::widen(key);
                let offset = words.first().copied().unwrap_or(0);
                match value_record(&records, offset, &KeyBytes::of(key)) {
                    Ok(record) if !expired && !planted(319) && now.is_past(record.expires_ms) => {
                        ControlFlow::Continue(())
                    }
                    Ok(record) => visit(key, record.found()),
                    Err(error) => {
                        failed = Some(error);
                        ControlFlow::Break(())
                    }
                }
            })?;
            failed.map_or(Ok(()), Err)
        })
    }
    fn keys_in(&self, life: &TreeLiveness, space: Option<Space>) -> Result<u64, Error> {
        self.count_keys(life, space)
    }
}
