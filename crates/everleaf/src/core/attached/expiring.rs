//! What will expire, in the order in which it will: so what has expired is found without a look at
//! anything else. It is kept in DRAM, by who writes.
//!
//! * X1. Of each value that expires there is an entry, its moment and its key, once the old values
//!   are known (X4) and no write of the key is under way: a writer takes the entry of the old value
//!   out and enters that of the new one, before it gives the key's lock back.
//! * X2. There may be entries of no value. They are harmless: a key is removed under its lock, and
//!   only if the value that it has then had expired by the time that was asked for.
//! * X3. What is taken out to be removed had expired by a time, and that time decides whether it is
//!   removed: not the clock, which may have gone back since. So a value of the same moment, which
//!   changes nothing here when it is written meanwhile, is removed too. What could not be removed
//!   is entered again.
//! * X4. What stood in the pool before it was opened is found by a walk over the index beside
//!   writers. A key that no writer has touched is there all the time, and so is one whose new value
//!   has the moment of the old one: the walk meets it. Any other one that was written since has
//!   entered itself (X1), and what the walk has read of it before makes an entry of no value (X2).
//!   The walk is kept out while a batch changes the index, so it sees nothing of one that is taken
//!   back. What it cannot read it leaves out: `check` reports that.
//! * X5. A pool in which no value ever expired has no mark, and is not walked. The mark is durable
//!   before the first value that expires is written:
//!
//! ```text
//! M1  the mark                              1 flush, 1 fence     Pool::set_mark
//!     Crash: no value expires; a walk finds nothing.
//! M2  the first value that expires          the link, as always
//! ```
//! * X6. A write that fails midway may be done or not: then there is another walk, when somebody
//!   asks for what has expired.

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use crossbeam_utils::CachePadded;
use everleaf_pmem::{Media, planted};
use everleaf_pool::{Pool, RootName};
use parking_lot::{Mutex, MutexGuard};
use rustc_hash::FxHasher;

use super::Attached;
use super::counts::{Expires, heads};
use super::durable::wait;
use crate::core::backend::{Backend, Condition, Sweeping, Swept};
use crate::core::entry_batches::BATCH_ENTRIES;
use crate::core::link::OpenStore;
use crate::core::tree_liveness::TreeLiveness;
use crate::{Error, Key, OwnedKey, StoreKey};

/// That a value in the pool expires, or did.
const MARK: RootName = RootName::new("expiry");
/// Parts of the order: writers of several keys seldom want the same.
const PARTS: usize = 64;
/// Keys that are removed under one hold of the store.
const GROUP: usize = 64;
/// Keys that are removed for a write that is refused: so many at first, twice as many each time
/// after, and no more than these at once.
const FIRST_ROOM: usize = GROUP;
const MAX_ROOM: usize = GROUP << 11;
/// How often a writer without room looks whether others have removed what they have in hand.
const PATIENCE: usize = 100_000;

type Part = BTreeSet<(u64, OwnedKey)>;

/// What becomes of an operation that is refused for want of room.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WhenFull {
    /// It fails.
    Fail,
    /// Expired values are removed, and it is done again.
    RemoveExpired,
}

pub(super) struct Expiring {
    parts: Box<[CachePadded<Mutex<Part>>]>,
    /// Whether the pool has the mark.
    marked: AtomicBool,
    /// Walks that were needed, and those of them that have ended.
    wanted: AtomicU64,
    walked: AtomicU64,
    /// Held by who walks.
    walking: Mutex<()>,
    /// Keys that were removed, by all threads; and those that are taken out to be.
    removed: AtomicU64,
    in_hand: AtomicU64,
}

impl Expiring {
    pub(super) fn of<M: Media>(pool: &Pool<M>) -> Self {
        let marked = pool.has_root(MARK);
        Self {
            parts: (0..PARTS).map(|_| CachePadded::default()).collect(),
            marked: AtomicBool::new(marked),
            wanted: AtomicU64::new(marked.into()),
            walked: AtomicU64::new(0),
            walking: Mutex::default(),
            removed: AtomicU64::new(0),
            in_hand: AtomicU64::new(0),
        }
    }

    /// M1: to be called before values are written of which some expire.
    pub(super) fn mark<M: Media>(&self, pool: &Pool<M>, expires: bool) -> Result<(), Error> {
        if expires && !self.marked.load(Ordering::Acquire) {
            pool.set_mark(MARK)?;
            self.marked.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// A key had this value, or none, and has that one, or none. The caller has the key's lock.
    pub(super) fn changed(&self, key: Key<'_>, had: Option<Expires>, has: Option<Expires>) {
        let (had, has) = (had.flatten(), has.flatten());
        if had == has {
            return;
        }
        let mut entry = (had.unwrap_or(0), key.to_owned());
        let mut part = self.part(key).lock();
        if had.is_some() && !planted(332) {
            part.remove(&entry);
        }
        if let Some(expires_ms) = has {
            entry.0 = expires_ms;
            part.insert(entry);
        }
    }

    fn enter(&self, expires_ms: u64, key: OwnedKey) {
        let part = self.part(key.as_ref());
        part.lock().insert((expires_ms, key));
    }

    fn part(&self, key: Key<'_>) -> &Mutex<Part> {
        let mut hasher = FxHasher::default();
        key.hash(&mut hasher);
        &self.parts[(hasher.finish() >> 32) as usize % PARTS]
    }

    /// Takes out at most so many of those that have expired by then.
    fn take(&self, by_ms: u64, most: usize) -> Vec<(u64, OwnedKey)> {
        let mut taken = Vec::new();
        for part in &self.parts {
            let mut part = part.lock();
            while taken.len() < most && part.first().is_some_and(|first| first.0 <= by_ms) {
                taken.extend(part.pop_first());
                self.in_hand.fetch_add(1, Ordering::AcqRel);
            }
        }
        taken
    }

    /// X6.
    pub(super) fn doubt(&self) {
        self.wanted.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether everything that was there has been entered.
    fn is_known(&self) -> bool {
        self.walked.load(Ordering::Acquire) == self.wanted.load(Ordering::Acquire)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.parts.iter().map(|part| part.lock().len()).sum()
    }
}

impl<M: Media, K: StoreKey> Sweeping for Attached<M, K> {
    fn knows_what_expires(&self) -> bool {
        self.expiring.is_known()
    }

    /// Returns when all that was there is known: waits for who walks, or walks.
    fn know_what_expires(&self) -> Result<(), Error> {
        if !self.terms.writable {
            return Err(Error::ReadOnly);
        }
        self.ready()?;
        if self.expiring.is_known() {
            return Ok(());
        }
        let walking = self.turn_to_walk()?;
        self.walk_if_wanted(walking)
    }

    /// Begins the walk on a thread for which nobody waits; whether there is one. It ends when the
    /// store is closed, and keeps nothing of it but DRAM. Where runs must repeat, as under the
    /// explorer, who asks walks.
    fn walk_in_background(self: Arc<Self>) -> bool {
        let repeats = self.read(|live| Ok(live.pool.media().is_repeatable())).unwrap_or(true);
        if repeats || !self.terms.writable || self.expiring.is_known() {
            return false;
        }
        let attached = Arc::downgrade(&self);
        let walk = move || {
            let Some(attached) = attached.upgrade() else { return };
            // What fails here fails for who asks too, who gets the error.
            if let Some(walking) = attached.expiring.walking.try_lock() {
                let _ = attached.walk_if_wanted(walking);
            }
        };
        // Where no thread can be had, who asks walks.
        thread::Builder::new().name("everleaf-expiry".to_owned()).spawn(walk).is_ok()
    }

    /// Removes at most [`GROUP`] of what had expired by then. An error only where it could do
    /// nothing.
    fn remove_some_expired(&self, by_ms: u64) -> Result<Swept, Error> {
        self.writing(WhenFull::Fail, |live| {
            let (mut swept, mut failed) = (Swept::default(), None);
            for (expires_ms, key) in self.expiring.take(by_ms, GROUP) {
                let (life, expired) = (TreeLiveness::OF_STORE, Condition::Expired(by_ms));
                let written = K::narrow_checked(key.as_ref())
                    .and_then(|key| self.write_in(live, &life, key, expired, None));
                match written {
                    Ok(written) => {
                        swept.looked_at += 1;
                        swept.removed += u64::from(written.done);
                        self.expiring.removed.fetch_add(written.done.into(), Ordering::AcqRel);
                        live.pool.media().end_operation();
                    }
                    Err(error) => {
                        // One that is damaged does not keep the others.
                        self.expiring.enter(expires_ms, key);
                        failed = Some(error);
                    }
                }
                self.expiring.in_hand.fetch_sub(1, Ordering::AcqRel);
            }
            failed.filter(|_| swept.looked_at == 0).map_or(Ok(swept), Err)
        })
    }
}

impl<M: Media, K: StoreKey> Attached<M, K> {
    /// Waits for who walks. Under the explorer, which schedules, no thread may block.
    fn turn_to_walk(&self) -> Result<MutexGuard<'_, ()>, Error> {
        if !M::SCHEDULED {
            return Ok(self.expiring.walking.lock());
        }
        loop {
            if let Some(walking) = self.expiring.walking.try_lock() {
                return Ok(walking);
            }
            self.read(|live| {
                live.pool.media().relax();
                Ok(())
            })?;
        }
    }

    fn walk_if_wanted(&self, _walking: MutexGuard<'_, ()>) -> Result<(), Error> {
        let wanted = self.expiring.wanted.load(Ordering::Acquire);
        if self.expiring.walked.load(Ordering::Acquire) != wanted {
            self.walk()?;
            self.expiring.walked.store(wanted, Ordering::Release);
        }
        Ok(())
    }

    /// X4.
    fn walk(&self) -> Result<(), Error> {
        let mut from: Bound<OwnedKey> = Bound::Unbounded;
        loop {
            let found = self.read(|live| {
                let _batches = live.lock_batches_out();
                heads(live, &from, true)
            })?;
            let more = found.len() >= BATCH_ENTRIES;
            let last = found.last().filter(|_| more).map(|entry| entry.key.clone());
            for entry in found {
                if let Some(expires_ms) = entry.expires_ms {
                    self.expiring.enter(expires_ms, entry.key);
                }
            }
            let Some(last) = last else { return Ok(()) };
            from = Bound::Excluded(last);
        }
    }

    /// An operation that writes. Where it is refused for want of room it may be done again, as long
    /// as the room of expired values comes back, a bounded number of times.
    ///
    /// In between this holds nothing: no lock, no pin, no worker and no guard of an epoch. It has
    /// come by the gate, and does so again; a turn of its own is not an obstacle. So whatever the
    /// removals wait for does not wait for this.
    pub(super) fn writing<R>(
        &self,
        when_full: WhenFull,
        mut operation: impl FnMut(&OpenStore<M, K>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        if !self.terms.writable {
            return Err(Error::ReadOnly);
        }
        let mut most = FIRST_ROOM;
        loop {
            self.ready()?; // Before the gate, at which it could wait.
            self.gate.pass();
            let removed = self.expiring.removed.load(Ordering::Acquire);
            let shared = self.share();
            let live = shared.as_ref().ok_or(Error::Closed)?;
            let result = operation(live);
            live.pool.media().end_operation();
            let pending = self.pending(live);
            drop(shared);
            match result {
                // Whatever waiting says, it is done, and not done again.
                Ok(result) => return wait(pending).map(|()| result),
                Err(error) if when_full == WhenFull::Fail || !error.is_full() => {
                    return Err(error);
                }
                Err(error) if most > MAX_ROOM || !self.make_room(most, removed) => {
                    return Err(error);
                }
                Err(_) => most *= 2,
            }
        }
    }

    /// Removes about so many expired values; whether any has gone since that number of them was
    /// read.
    #[cold]
    fn make_room(&self, most: usize, before: u64) -> bool {
        let by_ms = self.now_ms();
        let remove = || {
            let mut removed = 0;
            while removed < most as u64
                && let Ok(swept) = self.remove_some_expired(by_ms)
                && swept.looked_at > 0
            {
                removed += swept.removed;
            }
            removed > 0
        };
        // Old values may be the only ones. Under the explorer no thread may wait for another one.
        let known = M::SCHEDULED || self.knows_what_expires();
        remove()
            || self.others_make_room(before)
            || !known && self.know_what_expires().is_ok() && remove()
    }

    /// Whether other threads have removed something since, or do while this waits a little.
    fn others_make_room(&self, before: u64) -> bool {
        for _ in 0..PATIENCE {
            // In this order: who has nothing in hand any more has counted it.
            let in_hand = self.expiring.in_hand.load(Ordering::Acquire);
            if self.expiring.removed.load(Ordering::Acquire) != before {
                return true;
            }
            if in_hand == 0 || M::SCHEDULED {
                return false;
            }
            thread::yield_now();
        }
        false
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::path::Path;
    use std::time::Instant;

    use everleaf_index::BytesKeys;
    use everleaf_pmem::{Cpu, Durability, Mapped, Medium, Transactions};
    use everleaf_pool::{OpenMode, create_file, open_file};

    use super::super::Terms;
    use super::*;
    use crate::core::backend::Writing;
    use crate::core::value::{NewExpiry, NewValue};
    use crate::core::write::{Kind, Write};
    use crate::registry::SHIPPED;
    use crate::{Clock, DurabilityMode, Engine, EngineParameters, KeyType};

    type Store = Arc<Attached<Mapped, BytesKeys>>;

    const ENGINE: Engine = Engine::FPTREE;

    fn terms(clock: &Clock) -> Terms {
        Terms {
            writable: true,
            medium: Medium::PageCache,
            log: false,
            durability: Durability::ProcessCrash,
            mode: DurabilityMode::Process,
            transactions: Transactions::Off,
            clock: clock.clone(),
        }
    }

    pub(in super::super) fn create(path: &Path, clock: &Clock) -> Store {
        let parameters = EngineParameters::default();
        let format = ENGINE.store_format(KeyType::Bytes, &parameters).unwrap();
        let pool = create_file(path, 1 << 20, 1 << 20, |region| {
            Pool::create(Mapped::new(region, &Cpu::detect()).unwrap(), &format)
        });
        let attached = Attached::create(SHIPPED, &pool.unwrap(), ENGINE, &parameters, terms(clock));
        Arc::new(attached.unwrap())
    }

    pub(in super::super) fn open(path: &Path, clock: &Clock) -> Store {
        let region = open_file(path, OpenMode::ReadWrite).unwrap();
        let media = Mapped::new(region, &Cpu::detect()).unwrap();
        let (pool, opened) = Pool::open(media).unwrap();
        let (start, terms) = (Instant::now(), terms(clock));
        let code = SHIPPED.code(pool.format()).unwrap().unwrap();
        Arc::new(Attached::open(code, &pool, &opened, terms, start, None).unwrap())
    }

    pub(in super::super) fn put(store: &Store, key: &str, expires_ms: Option<u64>) {
        let new = NewValue { value: b"value", expiry: NewExpiry::At(expires_ms) };
        let key = Key::Bytes(key.as_bytes());
        store.write(&TreeLiveness::OF_STORE, key, Condition::Always, Some(new)).unwrap();
    }

    fn remove(store: &Store, key: &str) {
        let key = Key::Bytes(key.as_bytes());
        store.write(&TreeLiveness::OF_STORE, key, Condition::Always, None).unwrap();
    }

    fn write(kind: Kind, key: &str, expires_ms: Option<u64>) -> Write {
        let (life, key) = (TreeLiveness::OF_STORE, OwnedKey::Bytes(key.as_bytes().into()));
        let expiry = NewExpiry::At(expires_ms);
        Write { life, key, kind, value: b"together".as_slice().into(), expiry }
    }

    #[test]
    fn values_that_were_replaced_or_removed_leave_no_entries() {
        let folder = tempfile::tempdir().unwrap();
        let clock = Clock::manual(100);
        let store = create(&folder.path().join("a.pool"), &clock);
        put(&store, "a", Some(200));
        put(&store, "a", Some(200));
        put(&store, "a", Some(300));
        assert_eq!(store.expiring.len(), 1);
        put(&store, "a", None);
        assert_eq!(store.expiring.len(), 0);
        put(&store, "a", Some(200));
        put(&store, "b", Some(200));
        remove(&store, "a");
        assert_eq!(store.expiring.len(), 1);
        let writes = [
            write(Kind::Put, "a", Some(150)),
            write(Kind::Put, "b", None),
            write(Kind::Put, "c", Some(150)),
            write(Kind::Insert, "c", Some(400)),
        ];
        store.apply(&writes).unwrap();
        assert_eq!(store.expiring.len(), 2);
        store.apply(&[write(Kind::Delete, "c", None), write(Kind::Put, "d", None)]).unwrap();
        assert_eq!(store.remove_some_expired(149).unwrap(), Swept::default());
        let one = Swept { looked_at: 1, removed: 1 };
        assert_eq!(store.remove_some_expired(150).unwrap(), one);
        assert_eq!(store.expiring.len(), 0);
    }

    /// An entry was taken out when the clock was at 200, and then the clock went back.
    #[test]
    fn a_clock_that_goes_back_loses_no_entry() {
        let folder = tempfile::tempdir().unwrap();
        let clock = Clock::manual(100);
        let store = create(&folder.path().join("a.pool"), &clock);
        put(&store, "a", Some(200));
        let taken = store.expiring.take(200, GROUP);
        put(&store, "a", Some(200)); // Of the same moment: it enters nothing.
        let [(200, key)] = &taken[..] else { panic!("{taken:?}") };
        let expired = Condition::Expired(200);
        assert!(store.write(&TreeLiveness::OF_STORE, key.as_ref(), expired, None).unwrap().done);
        // Of another moment: it is entered, and the removal leaves it.
        put(&store, "a", Some(200));
        let taken = store.expiring.take(200, GROUP);
        put(&store, "a", Some(201));
        let expired = Condition::Expired(200);
        assert!(!store.write(&TreeLiveness::OF_STORE, key.as_ref(), expired, None).unwrap().done);
        assert_eq!((taken.len(), store.expiring.len()), (1, 1));
    }

    #[test]
    fn only_a_pool_in_which_a_value_ever_expired_has_a_mark_and_is_walked() {
        let folder = tempfile::tempdir().unwrap();
        let (path, clock) = (folder.path().join("a.pool"), Clock::manual(100));
        let has_mark = |store: &Store| store.read(|live| Ok(live.pool.has_root(MARK))).unwrap();
        let store = create(&path, &clock);
        put(&store, "a", None);
        assert!(!has_mark(&store) && store.knows_what_expires());
        store.close().unwrap();
        let store = open(&path, &clock);
        assert!(!Arc::clone(&store).walk_in_background());
        put(&store, "b", Some(200));
        assert!(has_mark(&store) && store.knows_what_expires());
        drop(store); // A crash: it is not closed.
        let store = open(&path, &clock);
        assert!(has_mark(&store) && !store.knows_what_expires());
        assert_eq!(store.expiring.len(), 0);
        assert!(Arc::clone(&store).walk_in_background());
        store.know_what_expires().unwrap();
        assert!(store.knows_what_expires() && !Arc::clone(&store).walk_in_background());
        assert_eq!(store.expiring.len(), 1);
        // A write that may be done or not.
        store.doubt();
        store.know_what_expires().unwrap();
        assert_eq!(store.expiring.len(), 1);
        store.close().unwrap();
        let store = open(&path, &clock);
        store.close().unwrap();
        assert!(matches!(store.know_what_expires(), Err(Error::Closed)));
    }
}
