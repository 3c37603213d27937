//! The part of transactions that is under the locks of the store: reading, and committing.
//!
//! What a transaction has read belongs to one moment, at every time: a key is read together with
//! its lock's version, which must be the one that was there when everything was last seen together
//! ([`link/locks.rs`](crate::core::link)). Where it is another one, all that was read is looked at
//! again, with all locks held; if something has changed, that is a conflict. So is it at the
//! commit, with the locks of the keys that are written held alone and those of the keys that were
//! read shared; of all keys, if ranges were read, for no lock is of a key that is not there yet.
//! What was read and has expired by then is a conflict too: others may have seen that it is absent.
//! Then the writes are done as a batch, before any of the locks is given back: everything that was
//! read holds at the moment at which the writes happen.
//!
//! Deadlock: no code of a caller runs under these locks, and none is held between two calls, so a
//! closure that panics, never ends or calls the store itself holds nothing. Locks of keys are taken
//! in the order of their numbers, after the lock that all operations share and before the one that
//! keeps scans out, and who has one waits neither for the medium nor at the
//! [gate](crate::core::gate), which alone keeps others from writing while a closure runs, and not
//! for long.

use std::ops::{Bound, ControlFlow};
use std::time::Duration;

use everleaf_index::Direction;
use everleaf_pmem::{Media, planted};

use super::Attached;
use super::durable::wait;
use super::expiring::WhenFull;
use super::read::{Now, narrow_bound};
use crate::core::backend::{Backend, Transacting, Visit};
use crate::core::entry_batches::{BATCH_BYTES, BATCH_ENTRIES, borrowed, passes};
use crate::core::gate::Turn;
use crate::core::link::{Held, OpenStore, value_record};
use crate::core::read_set::{Bounds, Reads, Value};
use crate::core::tree_liveness::TreeLiveness;
use crate::core::value::is_expired;
use crate::core::value_record::KeyBytes;
use crate::core::write::Write;
use crate::{Error, Key, OwnedKey, StoreKey};

impl<M: Media, K: StoreKey> Transacting for Attached<M, K> {
    fn begin_reads(&self) -> Result<Reads, Error> {
        self.read(|live| Ok(Reads::new(live.versions(), self.now_ms())))
    }

    fn read_into(&self, reads: &mut Reads, life: &TreeLiveness, key: Key<'_>) -> Result<(), Error> {
        let narrow = K::narrow_checked(key)?;
        let pending = self.read(|live| {
            life.check()?;
            let number = live.lock_of(narrow);
            {
                let _lock = live.lock_to_read(narrow);
                if live.version(number) == reads.versions[number] || planted(317) {
                    reads.points.insert(key.to_owned(), current(live, key, reads.now_ms)?);
                    return Ok(self.pending_of(live, narrow));
                }
            }
            let _locks = live.lock_all(live.every_lock(), &[]);
            renew(live, reads)?;
            reads.points.insert(key.to_owned(), current(live, key, reads.now_ms)?);
            Ok(self.pending_of(live, narrow))
        })?;
        wait(pending)
    }

    /// Reads at most so many entries of a range into `reads`, from one end; what is left of it, if
    /// anything is: as long as nobody writes, a step of it. With all locks held everything is read
    /// that is wanted: each further step would look again at all those before it.
    fn scan_into(
        &self,
        reads: &mut Reads,
        life: &TreeLiveness,
        (lower, upper): Bounds,
        end: Direction,
        limit: usize,
    ) -> Result<Option<Bounds>, Error> {
        let whole = (lower, upper);
        let (entries, pending) = self.read(|live| {
            life.check()?;
            let step = (limit.min(BATCH_ENTRIES), BATCH_BYTES);
            let mut entries = entries_in(live, &whole, end, step, reads.now_ms)?;
            if !live.is_unchanged(&reads.versions) && !planted(318) {
                let _locks = live.lock_all(live.every_lock(), &[]);
                renew(live, reads)?;
                entries = entries_in(live, &whole, end, (limit, usize::MAX), reads.now_ms)?;
            }
            Ok((entries, self.pending_to_reader(live)))
        })?;
        wait(pending)?;
        let Some((last, _)) = entries.found.last().filter(|_| entries.more) else {
            reads.took(whole, entries.found);
            return Ok(None);
        };
        let (lower, upper) = whole;
        let (at, behind) = (Bound::Included(last.clone()), Bound::Excluded(last.clone()));
        let (seen, left) = match end {
            Direction::Forward => ((lower, at), (behind, upper)),
            Direction::Backward => ((at, upper), (lower, behind)),
        };
        reads.took(seen, entries.found);
        Ok(Some(left))
    }

    fn run_alone(&self, patience: Duration) -> Option<Turn<'_>> {
        // Under the explorer, which schedules, no thread may block; nor need it: see the gate.
        (!M::SCHEDULED).then(|| self.gate.close(patience))
    }

    fn commit(&self, reads: &Reads, writes: &[Write]) -> Result<(), Error> {
        let keys = writes
            .iter()
            .map(|write| K::narrow_checked(write.key.as_ref()))
            .collect::<Result<Vec<_>, _>>()?;
        self.writing(WhenFull::RemoveExpired, |live| {
            writes.iter().try_for_each(|write| write.life.check())?;
            let mut locks = if reads.ranges.is_empty() {
                let number =
                    |key: &OwnedKey| Ok::<_, Error>(live.lock_of(K::narrow(key.as_ref())?));
                let read = reads.points.keys().filter(|_| !planted(316));
                let numbers = read.map(number).collect::<Result<Vec<_>, _>>()?;
                live.lock_all(numbers, &keys)
            } else {
                live.lock_all(live.every_lock(), &keys)
            };
            if !is_as_read(live, reads)? {
                return Err(Error::Conflict);
            }
            // Before the time is looked at, as in a batch.
            Held::begin_change(&mut locks);
            let now = Now::of(self);
            let expired = |seen: &Value| now.is_past(seen.expires_ms) && !planted(326);
            if reads.points.values().flatten().any(expired) {
                return Err(Error::Conflict);
            }
            self.write_locked(live, &mut locks, writes, &keys, &now)?;
            Ok(())
        })
    }
}

/// Makes this the moment at which everything was seen together. The caller has all locks.
fn renew<M: Media, K: StoreKey>(live: &OpenStore<M, K>, reads: &mut Reads) -> Result<(), Error> {
    if !is_as_read(live, reads)? {
        return Err(Error::Conflict);
    }
    reads.versions = live.versions();
    Ok(())
}

/// Whether everything that was read would be read again. The caller has the locks of all of it.
fn is_as_read<M: Media, K: StoreKey>(live: &OpenStore<M, K>, reads: &Reads) -> Result<bool, Error> {
    for (key, seen) in &reads.points {
        let number = live.lock_of(K::narrow(key.as_ref())?);
        let mut changed = live.version(number) != reads.versions[number];
        changed &= !(planted(315) && seen.is_none());
        if changed && current(live, key.as_ref(), reads.now_ms)? != *seen {
            return Ok(false);
        }
    }
    if reads.ranges.is_empty() || live.is_unchanged(&reads.versions) || planted(314) {
        return Ok(true);
    }
    for range in &reads.ranges {
        if !has(live, range, reads.seen_in(range), reads.now_ms)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What a key is. The caller has its lock.
fn current<M: Media, K: StoreKey>(
    live: &OpenStore<M, K>,
    key: Key<'_>,
    now_ms: u64,
) -> Result<Option<Value>, Error> {
    let records = live.pin_records();
    let Some(offset) = live.index.get(K::narrow(key)?)? else { return Ok(None) };
    let found = value_record(&records, offset, &KeyBytes::of(key))?.found();
    Ok((!is_expired(found.expires_ms, now_ms)).then(|| Value::of(found)))
}

/// What a look at a range has found.
struct Entries {
    found: Vec<(OwnedKey, Value)>,
    /// Whether the range goes on behind the last of them.
    more: bool,
}

/// The first entries of a range from one end: at most so many, and about so many bytes.
fn entries_in<M: Media, K: StoreKey>(
    live: &OpenStore<M, K>,
    range: &Bounds,
    end: Direction,
    (limit, limit_bytes): (usize, usize),
    now_ms: u64,
) -> Result<Entries, Error> {
    let mut entries = Entries { found: Vec::new(), more: false };
    let mut bytes = 0;
    visit(live, range, end, now_ms, &mut |key, here| {
        entries.more = entries.found.len() >= limit || bytes >= limit_bytes;
        if entries.more {
            return ControlFlow::Break(());
        }
        bytes += KeyBytes::of(key).as_slice().len() + here.value.len();
        entries.found.push((key.to_owned(), Value::of(here)));
        ControlFlow::Continue(())
    })?;
    Ok(entries)
}

/// Whether a range has these entries. The caller has all locks.
fn has<'s, M: Media, K: StoreKey>(
    live: &OpenStore<M, K>,
    range: &Bounds,
    mut seen: impl Iterator<Item = (&'s OwnedKey, &'s Value)>,
    now_ms: u64,
) -> Result<bool, Error> {
    let mut same = true;
    visit(live, range, Direction::Forward, now_ms, &mut |key, here| {
        same = seen.next().is_some_and(|(seen, value)| seen.as_ref() == key && value.is(here));
        if same { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(same && seen.next().is_none())
}

/// Shows the entries of a range from one end on.
fn visit<M: Media, K: StoreKey>(
    live: &OpenStore<M, K>,
    (lower, upper): &Bounds,
    end: Direction,
    now_ms: u64,
    show: &mut Visit<'_>,
) -> Result<(), Error> {
    let forward = end == Direction::Forward;
    let (start, stop) = if forward { (lower, upper) } else { (upper, lower) };
    let mut wrong = None;
    let _batches = live.lock_batches_out();
    let records = live.pin_records();
    live.index.scan(narrow_bound::<K>(borrowed(start))?, end, &mut |key, words| {
        let key = K::widen(key);
        if !passes(stop, key, !forward) {
            return ControlFlow::Break(());
        }
        let offset = words.first().copied().unwrap_or(0);
        match value_record(&records, offset, &KeyBytes::of(key)) {
            Ok(record) if is_expired(record.expires_ms, now_ms) => ControlFlow::Continue(()),
            Ok(record) => show(key, record.found()),
            Err(error) => {
                wrong = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    wrong.map_or(Ok(()), Err)
}
