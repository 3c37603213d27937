//! How many keys each tree has: known from the creation of a pool on, and kept up by the writers. A
//! clean close stores it (`kept_counts`). After a crash everything is counted when it is first
//! asked.
//!
//! What counts is what reading finds: values that have not expired, now. So the moments at which
//! values expire are kept beside the numbers, and what has passed since the last call is taken off
//! by the next one.
//!
//! * C1. Counting is reading a snapshot. At its moment, when no write is under way, the counts
//!   begin at zero, and writers add what they change. What the snapshot has is added later.
//! * C2. A writer adds after it has changed the index, and before it gives the key's lock back. So
//!   what two writers of a key add comes in their order.
//! * C3. A value that had expired by the time up to which the counts are told counts for nothing,
//!   neither when it goes nor when it comes.
//! * C4. Writers that come from several threads share no lock, mostly; who asks takes all of them.
//! * C5. A write that fails midway may be done or not: then the counts are not known any more.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam_utils::CachePadded;
use everleaf_index::Direction;
use everleaf_pmem::{Media, PPtr, planted};
use everleaf_pool::slot_of_thread;
use parking_lot::Mutex;

use super::Attached;
use crate::core::backend::Backend;
use crate::core::entry_batches::{BATCH_ENTRIES, Fetched};
use crate::core::images::Images;
use crate::core::keyspace::Space;
use crate::core::link::{OpenStore, foreign_record};
use crate::core::tree_liveness::TreeLiveness;
use crate::core::value::is_expired;
use crate::core::value_record::{KeyBytes, ValueRecord};
use crate::{Error, Key, KeyType, OwnedKey, StoreKey};

/// Parts of the counts: writers in several threads seldom want the same.
const PARTS: usize = 16;
/// Moments of expiry that a part keeps before it looks which of them have passed.
const FEW_MOMENTS: usize = 1024;
/// What writers may replace ahead of who counts, in DRAM: 4 GiB.
const IMAGES_BYTES: u64 = 4 << 30;

/// What the counts ask of a value: when it expires, if it does.
pub(super) type Expires = Option<u64>;

#[derive(Default)]
pub(super) struct Counts {
    /// Whether writers keep the counts up.
    kept_up: AtomicBool,
    parts: [CachePadded<Mutex<Part>>; PARTS],
    /// Whether everything that was there has been counted. Held while it is.
    known: Mutex<bool>,
    /// A write has failed midway, so that the counts may be wrong.
    doubtful: AtomicBool,
}

/// What some of the threads have added. What one adds another takes off, so a part of the whole may
/// be negative.
#[derive(Default)]
struct Part {
    /// What had expired by then has been taken off, in milliseconds since 1970.
    until_ms: u64,
    by_space: BTreeMap<Space, Count>,
    /// With more moments of expiry than this, and some more, those that have passed are dropped.
    many_moments: usize,
}

impl Part {
    fn expire(&mut self, until_ms: u64) {
        self.until_ms = self.until_ms.max(until_ms);
        self.by_space.values_mut().for_each(|count| count.expire(self.until_ms));
    }
}

/// The keys of a space.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Count {
    pub present: i64,
    /// Those that will expire, and when.
    pub expiring: BTreeMap<u64, i64>,
}

impl Count {
    fn add(&mut self, expires: Expires, by: i64, until_ms: u64) {
        if is_expired(expires, until_ms) {
            return;
        }
        self.present += by;
        if let Some(expires_ms) = expires {
            let there = self.expiring.entry(expires_ms).or_default();
            *there += by;
            if *there == 0 {
                self.expiring.remove(&expires_ms);
            }
        }
    }

    fn expire(&mut self, until_ms: u64) {
        while let Some(first) = self.expiring.first_entry().filter(|e| *e.key() <= until_ms) {
            self.present -= first.remove() * i64::from(!planted(325));
        }
    }
}

/// What a store had, as far as it had not expired by that time.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Counted {
    pub until_ms: u64,
    pub by_space: BTreeMap<Space, Count>,
}

impl Counted {
    /// The keys of all trees.
    pub(super) fn keys(&self) -> u64 {
        let of_trees = self.by_space.iter().filter(|(space, _)| space.is_of_tree());
        of_trees.map(|(_, count)| count.present).sum::<i64>().try_into().unwrap_or(0)
    }
}

impl Counts {
    /// Of a store that has this, and no writer yet.
    pub(super) fn knowing(counted: Counted) -> Self {
        let counts = Self::default();
        counts.begin(counted.until_ms);
        counts.add(counted.by_space);
        *counts.known.lock() = true;
        counts
    }

    /// A write has failed midway: what it has done is not counted.
    pub(super) fn doubt(&self) {
        self.doubtful.store(true, Ordering::Release);
    }

    /// What there is, but for what has expired now; none if that is not known. No thread may be
    /// writing.
    pub(super) fn counted(&self, now_ms: u64) -> Option<Counted> {
        if !*self.known.lock() || self.doubtful.load(Ordering::Acquire) {
            return None;
        }
        let until_ms = self.parts.iter().map(|part| part.lock().until_ms).fold(now_ms, u64::max);
        let mut all = Counted { until_ms, ..Counted::default() };
        for part in &self.parts {
            let mut part = part.lock();
            part.expire(until_ms);
            for (space, count) in &part.by_space {
                let sum = all.by_space.entry(*space).or_default();
                sum.present += count.present;
                for (expires_ms, there) in &count.expiring {
                    *sum.expiring.entry(*expires_ms).or_default() += there;
                }
            }
        }
        for sum in all.by_space.values_mut() {
            sum.expiring.retain(|_, there| *there != 0);
        }
        Some(all)
    }

    /// No thread may be writing.
    fn begin(&self, now_ms: u64) {
        for part in &self.parts {
            *part.lock() = Part { until_ms: now_ms, ..Part::default() };
        }
        self.doubtful.store(false, Ordering::Release);
        self.kept_up.store(true, Ordering::Release);
    }

    /// A key had this value, or none, and has that one, or none. The caller has the key's lock.
    pub(super) fn changed<M: Media>(
        &self,
        media: &M,
        key: Key<'_>,
        had: Option<Expires>,
        has: Option<Expires>,
        now_ms: impl FnOnce() -> u64,
    ) {
        if had == has || !self.kept_up.load(Ordering::Acquire) {
            return;
        }
        let Some(space) = Space::of_encoded(key) else { return };
        let mut part = self.parts[slot_of_thread(media, PARTS)].lock();
        let until_ms = part.until_ms;
        let count = part.by_space.entry(space).or_default();
        for (value, by) in [(had.filter(|_| !planted(324)), -1), (has, 1)] {
            if let Some(expires) = value {
                count.add(expires, by, until_ms);
            }
        }
        if count.expiring.len() > FEW_MOMENTS.max(part.many_moments) {
            part.expire(now_ms());
            let moments = part.by_space.values().map(|count| count.expiring.len());
            part.many_moments = 2 * moments.sum::<usize>();
        }
    }

    /// What a snapshot of the moment at which the counts began has.
    fn add(&self, counted: BTreeMap<Space, Count>) {
        let mut part = self.parts[0].lock();
        let until_ms = part.until_ms;
        for (space, counted) in counted {
            let count = part.by_space.entry(space).or_default();
            count.present += counted.present;
            for (expires_ms, there) in counted.expiring {
                *count.expiring.entry(expires_ms).or_default() += there;
            }
            count.expire(until_ms);
        }
    }

    /// The keys of those spaces; none if the time is before one at which this was asked: what had
    /// expired by then is known no more.
    fn of(&self, now_ms: impl FnOnce() -> u64, wanted: impl Fn(Space) -> bool) -> Option<u64> {
        let mut parts: Vec<_> = self.parts.iter().map(|part| part.lock()).collect();
        let (now_ms, mut sum) = (now_ms(), 0);
        if parts.iter().any(|part| part.until_ms > now_ms) {
            return None;
        }
        for part in &mut parts {
            part.expire(now_ms);
            let counts = part.by_space.iter().filter(|(space, _)| wanted(**space));
            sum += counts.map(|(_, count)| count.present).sum::<i64>();
        }
        Some(u64::try_from(sum).unwrap_or(0))
    }
}

impl<M: Media, K: StoreKey> Attached<M, K> {
    /// Keys of one tree, or of all.
    pub(super) fn count_keys(
        &self,
        life: &TreeLiveness,
        space: Option<Space>,
    ) -> Result<u64, Error> {
        // Keys do not tell of which kind those of their tree are.
        let space = space.map(|space| match space {
            Space::Named(number, _) => Space::Named(number, KeyType::Bytes),
            other => other,
        });
        let wanted = |of: Space| space.map_or(of.is_of_tree(), |space| of == space);
        loop {
            self.count_once()?;
            let count = self.read_durable(|_| {
                life.check()?;
                Ok(self.counts.of(|| self.now_ms(), wanted))
            })?;
            match count {
                Some(count) => return Ok(count),
                None => *self.counts.known.lock() = false,
            }
        }
    }

    /// Counts everything, unless that was done.
    fn count_once(&self) -> Result<(), Error> {
        self.ready()?;
        let mut known = self.counts.known.lock();
        if *known && !self.counts.doubtful.load(Ordering::Acquire) {
            return Ok(());
        }
        let images = self.alone(|_| {
            let now_ms = self.now_ms();
            self.counts.begin(now_ms);
            Ok(self.snapshots.begin(now_ms, IMAGES_BYTES))
        })?;
        let counted = self.count_snapshot(&images);
        self.snapshots.end(&images);
        self.counts.add(counted?);
        *known = true;
        Ok(())
    }

    fn count_snapshot(&self, images: &Images) -> Result<BTreeMap<Space, Count>, Error> {
        let mut counts: BTreeMap<Space, Count> = BTreeMap::new();
        let mut from: Bound<OwnedKey> = Bound::Unbounded;
        loop {
            let mut found = self.read(|live| heads(live, &from, false))?;
            let more = found.len() >= BATCH_ENTRIES;
            let last = found.last().filter(|_| more).map(|entry| entry.key.clone());
            let to = last.clone().map_or(Bound::Unbounded, Bound::Included);
            images.overlay(&mut found, (from, to))?;
            for entry in found {
                if let Some(space) = Space::of_encoded(entry.key.as_ref()) {
                    counts.entry(space).or_default().add(entry.expires_ms, 1, images.now_ms);
                }
            }
            let Some(last) = last else { return Ok(counts) };
            images.pass(&last);
            from = Bound::Excluded(last);
        }
    }
}

/// The next entries, without their values; those whose records cannot be read are an error, or left
/// out.
pub(super) fn heads<M: Media, K: StoreKey>(
    live: &OpenStore<M, K>,
    from: &Bound<OwnedKey>,
    leave_out: bool,
) -> Result<Vec<Fetched>, Error> {
    let from = super::read::narrow_bound::<K>(from.as_ref().map(OwnedKey::as_ref))?;
    let (mut found, mut wrong) = (Vec::new(), None);
    let records = live.pin_records();
    live.index.scan(from, Direction::Forward, &mut |key, words| {
        let key = K::widen(key);
        let offset = words.first().copied().unwrap_or(0);
        let head = records.record_unverified(PPtr::at(offset)).map(ValueRecord::parse);
        match head {
            Ok(Some(record)) if record.key == KeyBytes::of(key).as_slice() => {
                let (value, expires_ms) = (Vec::new(), record.expires_ms);
                found.push(Fetched { key: key.to_owned(), value, expires_ms });
            }
            _ if leave_out => {}
            Ok(_) => wrong = Some(foreign_record(offset)),
            Err(error) => wrong = Some(error.into()),
        }
        let go_on = wrong.is_none() && found.len() < BATCH_ENTRIES;
        if go_on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    wrong.map_or(Ok(found), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_goes_back_makes_the_counts_unknown() {
        let counts = Counts::default();
        counts.begin(10);
        let mut counted = Count::default();
        for expires in [None, Some(10), Some(11), Some(15), Some(15)] {
            counted.add(expires, 1, 10);
        }
        counts.add(BTreeMap::from([(Space::Own, counted)]));
        let of = |now_ms: u64| counts.of(|| now_ms, |space| space == Space::Own);
        assert_eq!([10, 11, 14, 15, 20].map(of), [4, 3, 3, 1, 1].map(Some));
        assert_eq!((of(19), of(20)), (None, Some(1)));
    }
}
