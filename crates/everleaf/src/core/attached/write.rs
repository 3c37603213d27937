//! Writing a key, and writing many keys together.

use std::borrow::Cow;
use std::collections::BTreeMap;

use everleaf_pmem::{Media, PPtr, planted};
use everleaf_pool::Record;

use super::Attached;
use super::counts::Expires;
use super::expiring::WhenFull;
use super::read::Now;
use crate::core::backend::{Backend, Condition, WriteOutcome, Writing};
use crate::core::link::{Change, Held, OpenStore, value_record};
use crate::core::tree_liveness::TreeLiveness;
use crate::core::value::{NewExpiry, NewValue, TimedValue, is_expired};
use crate::core::value_record::KeyBytes;
use crate::core::write::{Kind, Write};
use crate::{Error, Key, StoreKey};

/// What a batch makes of a key, write by write.
struct Outcome<'w> {
    old: PPtr<Record>,
    /// When that expires; none if there is none.
    had: Option<Expires>,
    /// The same of the value after the writes so far; none if it has expired, too.
    there: Option<Expires>,
    /// When what is to be stored at last expires; the inner none: nothing is to be. The outer none:
    /// what is there stays.
    new: Option<Option<Expires>>,
    /// What is to be stored then.
    value: Cow<'w, [u8]>,
}

impl<M: Media, K: StoreKey> Writing for Attached<M, K> {
    fn write(
        &self,
        life: &TreeLiveness,
        key: Key<'_>,
        mut condition: Condition<'_>,
        new: Option<NewValue<'_>>,
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
            self.write_locked(live, &mut locks, writes, &keys, &Now::of(self))
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
        new: Option<NewValue<'_>>,
    ) -> Result<WriteOutcome, Error> {
        life.check()?;
        let key = K::widen(narrow);
        let expires = new.is_some_and(|new| matches!(new.expiry, NewExpiry::At(Some(_))));
        self.expiring.mark(&live.pool, expires && !planted(331))?;
        let mut lock = live.lock_to_write(narrow);
        let _note = self.note(live, &[narrow]); // Dropped before the lock.
        if let (Condition::Always, Some(NewValue { value, expiry: NewExpiry::At(expires_ms) })) =
            (&condition, new)
            && self.snapshots.is_empty()
        {
            let new = TimedValue { value, expires_ms };
            lock.begin_change();
            let found = live.try_upsert(narrow, new).inspect_err(|_| self.doubt())?;
            if let Some(old) = found {
                let had = old.map(|old| old.expires_ms);
                self.changed(live, key, had, Some(expires_ms));
                let was_present = had.is_some_and(|expires| !Now::of(self).is_past(expires));
                return Ok(WriteOutcome { done: true, was_present });
            }
        }
        let linked = live.linked(narrow)?;
        let expired = linked.is_some_and(|linked| Now::of(self).is_past(linked.expires_ms));
        let was_present = linked.is_some() && (!expired || planted(322));
        let old = linked.map_or(PPtr::NULL, |linked| linked.record);
        let there = linked.filter(|_| was_present).map(|linked| linked.expires_ms);
        let new =
            new.map(|new| TimedValue { value: new.value, expires_ms: new.expiry.over(there) });
        let done = match condition {
            Condition::Always => true,
            Condition::Absent => !was_present,
            Condition::Present => was_present,
            Condition::Expired(by_ms) => {
                linked.is_some_and(|linked| is_expired(linked.expires_ms, by_ms))
            }
            Condition::If(test) if was_present => {
                let records = live.pin_records();
                test(Some(value_record(&records, old.offset(), &KeyBytes::of(key))?.value))
            }
            Condition::If(test) => test(None),
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
        now: &Now<'_, Self>,
    ) -> Result<Vec<WriteOutcome>, Error> {
        let _note = self.note(live, keys); // Dropped before the locks.
        let mut outcomes: BTreeMap<K::Ref<'_>, Outcome<'_>> = BTreeMap::new();
        for key in keys {
            if !outcomes.contains_key(key) {
                let linked = live.linked(*key)?;
                let old = linked.map_or(PPtr::NULL, |linked| linked.record);
                let had = linked.map(|linked| linked.expires_ms);
                let (there, new, value) = Default::default();
                outcomes.insert(*key, Outcome { old, had, there, new, value });
            }
        }
        // Before the time is looked at: who reads a value as expired has looked at it before.
        Held::begin_change(locks);
        for outcome in outcomes.values_mut() {
            outcome.there = outcome.had.filter(|expires| !now.is_past(*expires));
        }
        let mut written = Vec::with_capacity(writes.len());
        for (write, key) in writes.iter().zip(keys) {
            let Some(outcome) = outcomes.get_mut(key) else { continue };
            if write.kind == Kind::Touch && outcome.there.is_some() && outcome.new.is_none() {
                let (records, bytes) = (live.pin_records(), KeyBytes::of(K::widen(*key)));
                let found = value_record(&records, outcome.old.offset(), &bytes)?;
                outcome.value = found.value.to_vec().into();
            }
            written.push(outcome.then(write, now));
        }
        let (mut changes, mut had): (Vec<Change<'_, K>>, Vec<_>) = Default::default();
        for (key, outcome) in &outcomes {
            if let Some(new) = outcome.at_last() {
                let key = K::narrow(K::widen(*key))?; // For as long as the values live.
                changes.push(Change { key, old: outcome.old, new });
                had.push(outcome.had);
            }
        }
        for change in changes.iter().filter(|_| !planted(328)) {
            self.keep_image(live, K::widen(change.key), change.old)?;
        }
        let expires =
            changes.iter().any(|change| change.new.is_some_and(|new| new.expires_ms.is_some()));
        self.expiring.mark(&live.pool, expires)?;
        self.countable(live.exchange_all(&changes))?;
        for (change, had) in changes.iter().zip(had) {
            let has = change.new.map(|new| new.expires_ms);
            self.changed(live, K::widen(change.key), had, has);
        }
        Ok(written)
    }
}

impl<'w> Outcome<'w> {
    /// One write more.
    fn then<B: Backend>(&mut self, write: &'w Write, now: &Now<'_, B>) -> WriteOutcome {
        let was_present = self.there.is_some();
        let done = match write.kind {
            Kind::Put | Kind::Delete => true,
            Kind::Insert => !was_present,
            Kind::Update | Kind::Touch => was_present,
        };
        if done {
            if write.kind != Kind::Touch {
                self.value = Cow::Borrowed(&write.value);
            }
            let expires = write.expiry.over(self.there);
            let stored = (write.kind != Kind::Delete).then_some(expires);
            self.there = stored.filter(|expires| !now.is_past(*expires));
            self.new = Some(stored);
        }
        WriteOutcome { done, was_present }
    }

    /// What is to be stored at last, or that nothing is; none if nothing is to be done.
    fn at_last(&self) -> Option<Option<TimedValue<'_>>> {
        let stored = self.new.filter(|stored| stored.is_some() || !self.old.is_null())?;
        Some(stored.map(|expires_ms| TimedValue { value: &self.value, expires_ms }))
    }
}
