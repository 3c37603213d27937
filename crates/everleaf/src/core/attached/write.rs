//! Writing a key, and writing many keys together.

use std::collections::BTreeMap;

use everleaf_pmem::{Media, PPtr, planted};
use everleaf_pool::Record;

use super::Attached;
use super::counts::Expires;
use super::expiring::WhenFull;
use super::read::Now;
use crate::core::backend::{Backend, Condition, WriteOutcome, Writing};
use crate::core::life::TreeLiveness;
use crate::core::link::{Change, Held, OpenStore, value_record};
use crate::core::value::{TimedValue, is_expired};
use crate::core::value_record::KeyBytes;
use crate::core::write::{Kind, Write};
use crate::{Error, Key, StoreKey};

/// What a batch makes of a key, write by write.
struct Outcome<'w> {
    old: PPtr<Record>,
    /// When that expires; none if there is none.
    had: Option<Expires>,
    /// Whether there is a value now that has not expired: after the writes so far.
    present: bool,
    /// What is to be stored at last; the inner none: nothing. The outer none: what is there stays.
    new: Option<Option<TimedValue<'w>>>,
}

impl<M: Media, K: StoreKey> Writing for Attached<M, K> {
    fn write(
        &self,
        life: &TreeLiveness,
        key: Key<'_>,
        mut condition: Condition<'_>,
        new: Option<TimedValue<'_>>,
    ) -> Result<WriteOutcome, Error> {
        let narrow = K::narrow_checked(key)?;
        let when_full = if new.is_some() { WhenFull::RemoveExpired } else { WhenFull::Fail };
        // The condition may be asked several times: each time about what is there.
        self.writing(when_full, |live| self.write_in(live, life, narrow, condition.reborrow(), new))
    }

    fn apply(&self, writes: &[Write]) -> Result<Vec<WriteOutcome>, Error> {
        let keys = writes
            .iter()
            .map(|write| K::narrow_checked(write.key.as_ref()))
            .collect::<Result<Vec<_>, _>>()?;
        // Removals do not wait for what has expired: see `Handle::remove_all`.
        let removals = writes.iter().all(|write| write.kind == Kind::Delete);
        let when_full = if removals { WhenFull::Fail } else { WhenFull::RemoveExpired };
        self.writing(when_full, |live| {
            writes.iter().try_for_each(|write| write.life.check())?;
            let mut locks = live.lock_all_to_write(&keys);
            self.write_locked(live, &mut locks, writes, &keys)
        })
    }
}

impl<M: Media, K: StoreKey> Attached<M, K> {
    /// One write within an operation.
    pub(super) fn write_in(
        &self,
        live: &OpenStore<M, K>,
        life: &TreeLiveness,
        narrow: K::Ref<'_>,
        condition: Condition<'_>,
        new: Option<TimedValue<'_>>,
    ) -> Result<WriteOutcome, Error> {
        life.check()?;
        let key = K::widen(narrow);
        let expires = new.is_some_and(|new| new.expires_ms.is_some()) && !planted(331);
        self.expiring.mark(&live.pool, expires)?;
        let mut lock = live.lock_to_write(narrow);
        let _note = self.note(live, &[narrow]); // Dropped before the lock.
        if let (Condition::Always, Some(new), true) = (&condition, new, self.snapshots.is_empty()) {
            lock.begin_change();
            let found = live.try_upsert(narrow, new).inspect_err(|_| self.doubt())?;
            if let Some(old) = found {
                let (had, has) = (old.map(|old| old.expires_ms), Some(new.expires_ms));
                self.changed(live, key, had, has);
                let was_present = had.is_some_and(|expires| !Now::of(self).is_past(expires));
                return Ok(WriteOutcome { done: true, was_present });
            }
        }
        let linked = live.linked(narrow)?;
        let expired = linked.is_some_and(|linked| Now::of(self).is_past(linked.expires_ms));
        let was_present = linked.is_some() && (!expired || planted(322));
        let old = linked.map_or(PPtr::NULL, |linked| linked.record);
        let new = match (&condition, linked.filter(|_| was_present)) {
            (Condition::Keeping(_), Some(linked)) => {
                new.map(|new| TimedValue { expires_ms: linked.expires_ms, ..new })
            }
            _ => new,
        };
        let done = match condition {
            Condition::Always => true,
            Condition::Absent => !was_present,
            Condition::Present => was_present,
            Condition::Expired(by_ms) => {
                linked.is_some_and(|linked| is_expired(linked.expires_ms, by_ms))
            }
            Condition::If(test) | Condition::Keeping(test) if was_present => {
                let records = live.pin_records();
                test(Some(value_record(&records, old.offset(), &KeyBytes::of(key))?.value))
            }
            Condition::If(test) | Condition::Keeping(test) => test(None),
        };
        if done && !(new.is_none() && old.is_null()) {
            self.keep_image(live, key, old)?;
            lock.begin_change();
            self.countable(match new {
                Some(new) => live.replace(narrow, old, new),
                None => live.remove(narrow, old),
            })?;
            let had = linked.map(|linked| linked.expires_ms);
            let has = new.map(|new| new.expires_ms);
            self.changed(live, key, had, has);
        }
        Ok(WriteOutcome { done, was_present })
    }

    /// What was refused for want of room has changed nothing. After any other error the write may
    /// be done or not.
    fn countable(&self, done: Result<(), Error>) -> Result<(), Error> {
        if done.as_ref().is_err_and(|error| !error.is_full()) {
            self.doubt();
        }
        done
    }

    pub(super) fn doubt(&self) {
        self.counts.doubt();
        self.expiring.doubt();
    }

    /// A key had this value, or none, and has that one, or none. The caller has the key's lock.
    fn changed(
        &self,
        live: &OpenStore<M, K>,
        key: Key<'_>,
        had: Option<Expires>,
        has: Option<Expires>,
    ) {
        self.counts.changed(live.pool.media(), key, had, has, || self.now_ms());
        self.expiring.changed(key, had, has);
    }

    /// For the snapshots that there are: what the key is before it changes.
    fn keep_image(
        &self,
        live: &OpenStore<M, K>,
        key: Key<'_>,
        old: PPtr<Record>,
    ) -> Result<(), Error> {
        if self.snapshots.is_empty() {
            return Ok(());
        }
        let records = live.pin_records();
        let found: Option<TimedValue<'_>> = match old.is_null() {
            true => None,
            false => Some(value_record(&records, old.offset(), &KeyBytes::of(key))?.found()),
        };
        self.snapshots.keep(key, found);
        Ok(())
    }

    /// All of the writes or none; what became of each. The caller has the locks of the keys, alone.
    pub(super) fn write_locked<'w>(
        &self,
        live: &OpenStore<M, K>,
        locks: &mut [Held<'_>],
        writes: &'w [Write],
        keys: &[K::Ref<'w>],
    ) -> Result<Vec<WriteOutcome>, Error> {
        let _note = self.note(live, keys); // Dropped before the locks.
        let mut outcomes: BTreeMap<K::Ref<'_>, Outcome<'_>> = BTreeMap::new();
        let now = Now::of(self);
        for key in keys {
            if !outcomes.contains_key(key) {
                let linked = live.linked(*key)?;
                let present = linked.is_some_and(|linked| !now.is_past(linked.expires_ms));
                let old = linked.map_or(PPtr::NULL, |linked| linked.record);
                let had = linked.map(|linked| linked.expires_ms);
                outcomes.insert(*key, Outcome { old, had, present, new: None });
            }
        }
        let mut written = Vec::with_capacity(writes.len());
        for (write, key) in writes.iter().zip(keys) {
            let Some(outcome) = outcomes.get_mut(key) else { continue };
            written.push(outcome.then(write, &now));
        }
        let changes: Vec<Change<'_, K>> =
            outcomes.iter().filter_map(|(key, outcome)| outcome.change::<K>(*key)).collect();
        for change in changes.iter().filter(|_| !planted(328)) {
            self.keep_image(live, K::widen(change.key), change.old)?;
        }
        if !changes.is_empty() {
            Held::begin_change(locks);
        }
        let expires =
            changes.iter().any(|change| change.new.is_some_and(|new| new.expires_ms.is_some()));
        self.expiring.mark(&live.pool, expires)?;
        self.countable(live.exchange_all(&changes))?;
        for change in &changes {
            let had = outcomes.get(&change.key).and_then(|outcome| outcome.had);
            let has = change.new.map(|new| new.expires_ms);
            let key = K::widen(change.key);
            self.changed(live, key, had, has);
        }
        Ok(written)
    }
}

impl<'w> Outcome<'w> {
    /// One write more.
    fn then<B: Backend>(&mut self, write: &'w Write, now: &Now<'_, B>) -> WriteOutcome {
        let was_present = self.present;
        let done = match write.kind {
            Kind::Put | Kind::Delete => true,
            Kind::Insert => !was_present,
            Kind::Update => was_present,
        };
        if done {
            let value = TimedValue { value: &write.value, expires_ms: write.expires_ms };
            let puts = write.kind != Kind::Delete;
            self.present = puts && !now.is_past(write.expires_ms);
            self.new = Some(puts.then_some(value));
        }
        WriteOutcome { done, was_present }
    }

    /// What is to be done at last; none if nothing is.
    fn change<K: StoreKey>(&self, key: K::Ref<'w>) -> Option<Change<'w, K>> {
        match self.new {
            None => None,
            Some(None) if self.old.is_null() => None,
            Some(new) => Some(Change { key, old: self.old, new }),
        }
    }
}
