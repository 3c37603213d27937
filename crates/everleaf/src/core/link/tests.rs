//! Writes that the index refuses, applies and then refuses, or panics in.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use everleaf_crash::Traced;
use everleaf_index::{
    CheckReport, Contract, EpochGuard, EpochPart, Epochs, IndexError, IndexStatistics, Model,
    Serialized, U64Keys, Visit,
};
use everleaf_pmem::{Cpu, Mapped, Region, site};
use everleaf_pool::{Audit, AuditReport, Format, KeyType, PoolError};
use parking_lot::Mutex;

use super::*;

/// What the next writes of an index come to.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    /// It changes nothing and returns an error.
    Refuses,
    /// It changes what it should, and then returns an error.
    Complains,
    /// As `Complains`, and from then on nothing can be read.
    GoesBlind,
    /// It changes what it should, and panics.
    Panics,
}

/// A model behind faults; clones share both.
#[derive(Clone)]
struct Faulty(Arc<(Serialized<Model<U64Keys>>, Mutex<Fault>)>);

impl Faulty {
    fn new() -> Self {
        Self(Arc::new((Serialized::new(Model::new()), Mutex::new(Fault::None))))
    }

    fn set(&self, fault: Fault) {
        *self.0.1.lock() = fault;
    }

    fn inner(&self) -> &dyn Index<U64Keys> {
        &self.0.0
    }

    fn change<R>(
        &self,
        change: impl FnOnce(&dyn Index<U64Keys>) -> Result<R, IndexError>,
    ) -> Result<R, IndexError> {
        let fault = *self.0.1.lock();
        let corrupt = IndexError::Corrupt { offset: 0, what: "injected" };
        match fault {
            Fault::None => change(self.inner()),
            Fault::Refuses => Err(corrupt),
            Fault::Complains | Fault::GoesBlind => change(self.inner()).and(Err(corrupt)),
            Fault::Panics => {
                change(self.inner())?;
                panic!("injected");
            }
        }
    }
}

impl Index<U64Keys> for Faulty {
    fn value_words(&self) -> usize {
        1
    }
    fn get_words(&self, key: u64, value: &mut [u64]) -> Result<bool, IndexError> {
        match *self.0.1.lock() {
            Fault::GoesBlind => Err(IndexError::Corrupt { offset: 0, what: "injected" }),
            _ => self.inner().get_words(key, value),
        }
    }
    fn get_many(&self, keys: &[u64], values: &mut [Option<u64>]) -> Result<(), IndexError> {
        self.inner().get_many(keys, values)
    }
    fn insert_words(&self, key: u64, value: &[u64]) -> Result<bool, IndexError> {
        self.change(|index| index.insert_words(key, value))
    }
    fn update_words(&self, key: u64, value: &[u64], old: &mut [u64]) -> Result<bool, IndexError> {
        self.change(|index| index.update_words(key, value, old))
    }
    fn upsert_words(&self, key: u64, value: &[u64], old: &mut [u64]) -> Result<bool, IndexError> {
        self.change(|index| index.upsert_words(key, value, old))
    }
    fn remove_words(&self, key: u64, old: &mut [u64]) -> Result<bool, IndexError> {
        self.change(|index| index.remove_words(key, old))
    }
    fn scan(
        &self,
        from: Bound<u64>,
        direction: Direction,
        visit: &mut Visit<'_, U64Keys>,
    ) -> Result<(), IndexError> {
        self.inner().scan(from, direction, visit)
    }
    fn len(&self) -> u64 {
        self.inner().len()
    }
    fn statistics(&self) -> IndexStatistics {
        self.inner().statistics()
    }
    fn check(&self, audit: &mut Audit) -> Result<CheckReport, IndexError> {
        self.inner().check(audit)
    }
    fn contract(&self) -> Contract {
        self.inner().contract()
    }
}

fn format() -> Format {
    Format { engine: "model".into(), key_type: KeyType::U64, parameters: [0; 8] }
}

fn live<M: Media>(pool: &Arc<Pool<M>>, index: &Faulty) -> OpenStore<M, U64Keys> {
    OpenStore::new(Box::new(index.clone()), Arc::clone(pool))
}

fn linked<M: Media>(live: &OpenStore<M, U64Keys>, key: u64) -> Result<PPtr<Record>, Error> {
    Ok(live.linked(key)?.map_or(PPtr::NULL, |linked| linked.record))
}

fn put<M: Media>(live: &OpenStore<M, U64Keys>, key: u64, value: &[u8]) -> Result<(), Error> {
    live.replace(key, linked(live, key)?, TimedValue { value, expires_ms: None })
}

fn delete<M: Media>(live: &OpenStore<M, U64Keys>, key: u64) -> Result<(), Error> {
    live.remove(key, linked(live, key)?)
}

fn value<M: Media>(pool: &Pool<M>, index: &Faulty, key: u64) -> Option<Vec<u8>> {
    let offset = index.inner().get(key).unwrap()?;
    let records = pool.pin();
    Some(ValueRecord::parse(records.record(PPtr::at(offset)).unwrap()).unwrap().value.to_vec())
}

/// Every record is reached by the index, and no other is allocated.
fn expect_no_leak<M: Media>(pool: &Pool<M>, index: &Faulty) {
    let mut audit = Audit::new();
    let reach = &mut |_: u64, words: &[u64]| {
        audit.reach(words[0]);
        ControlFlow::Continue(())
    };
    index.inner().scan(Bound::Unbounded, Direction::Forward, reach).unwrap();
    assert_eq!(pool.finish_audit(audit), AuditReport::default());
}

#[test]
fn a_write_that_the_index_refuses_leaves_the_old_value() {
    let pool = Pool::create(
        Mapped::new(Region::anonymous(1 << 20, 1 << 20).unwrap(), &Cpu::detect()).unwrap(),
        &format(),
    )
    .unwrap();
    let index = Faulty::new();
    let live = live(&pool, &index);
    put(&live, 1, b"old").unwrap();
    index.set(Fault::Refuses);
    assert!(
        put(&live, 1, b"new").is_err()
            && put(&live, 2, b"another").is_err()
            && delete(&live, 1).is_err()
    );
    assert_eq!((value(&pool, &index, 1), value(&pool, &index, 2)), (Some(b"old".to_vec()), None));
    expect_no_leak(&pool, &index);
    index.set(Fault::None);
    put(&live, 1, b"new").unwrap();
    assert_eq!(value(&pool, &index, 1), Some(b"new".to_vec()));
    expect_no_leak(&pool, &index);
}

#[test]
fn a_write_that_the_index_did_before_it_complained_is_done() {
    let pool = Pool::create(
        Mapped::new(Region::anonymous(1 << 20, 1 << 20).unwrap(), &Cpu::detect()).unwrap(),
        &format(),
    )
    .unwrap();
    let index = Faulty::new();
    let live = live(&pool, &index);
    put(&live, 1, b"old").unwrap();
    put(&live, 2, b"goes").unwrap();
    index.set(Fault::Complains);
    assert!(put(&live, 1, b"new").is_err() && delete(&live, 2).is_err() && !live.is_interrupted());
    assert_eq!((value(&pool, &index, 1), value(&pool, &index, 2)), (Some(b"new".to_vec()), None));
    expect_no_leak(&pool, &index);
}

#[test]
fn a_write_whose_fate_is_unknown_stops_writing_and_is_settled_by_the_next_opening() {
    for (fault, removal) in [
        (Fault::GoesBlind, false),
        (Fault::GoesBlind, true),
        (Fault::Panics, false),
        (Fault::Panics, true),
    ] {
        let pool = Pool::create(Traced::new(256 << 10, 256 << 10, 1).unwrap(), &format()).unwrap();
        let index = Faulty::new();
        let writer = live(&pool, &index);
        put(&writer, 1, b"old").unwrap();
        let old = linked(&writer, 1).unwrap();
        index.set(fault);
        let cut = catch_unwind(AssertUnwindSafe(|| match removal {
            false => writer.replace(1, old, TimedValue { value: &[7; 9000], expires_ms: None }),
            true => writer.remove(1, old),
        }));
        assert!(!matches!(cut, Ok(Ok(()))), "{fault:?}");
        index.set(Fault::None);
        assert!(
            writer.is_interrupted()
                && matches!(put(&writer, 2, b"another"), Err(Error::Interrupted)),
            "{fault:?}"
        );

        let media = Traced::from_image(&pool.media().image(), 256 << 10, 2).unwrap();
        let (pool, opened) = Pool::open(media).unwrap();
        assert_eq!(opened.pending_links.len(), 1);
        let writer = live(&pool, &index);
        writer.resolve(&opened).unwrap();
        assert_eq!(value(&pool, &index, 1), if removal { None } else { Some(vec![7; 9000]) });
        expect_no_leak(&pool, &index);
        put(&writer, 2, b"another").unwrap();
        expect_no_leak(&pool, &index);
    }
}

/// A model whose every change must lie in an epoch, and that ends epochs with what has joined them.
struct Epoched<M: Media>(Arc<Observed<M>>);

struct Observed<M: Media> {
    index: Serialized<Model<U64Keys>>,
    pool: Arc<Pool<M>>,
    pinned: AtomicBool,
    part: Mutex<Option<Arc<dyn EpochPart>>>,
    /// Which of the next changes are refused, the last one first; those behind them are not.
    refused: Mutex<Vec<bool>>,
    /// Whether keys that are absent are refused.
    is_full: AtomicBool,
}

impl<M: Media> Epoched<M> {
    fn new(pool: &Arc<Pool<M>>) -> Self {
        Self(Arc::new(Observed {
            index: Serialized::new(Model::new()),
            pool: Arc::clone(pool),
            pinned: AtomicBool::new(false),
            part: Mutex::default(),
            refused: Mutex::default(),
            is_full: AtomicBool::new(false),
        }))
    }

    fn changing(&self) -> Result<&dyn Index<U64Keys>, IndexError> {
        assert!(self.0.pinned.load(Ordering::Relaxed), "a change outside of an epoch");
        match self.0.refused.lock().pop() {
            Some(true) => Err(PoolError::PoolFull { requested_bytes: 1 }.into()),
            _ => Ok(&self.0.index),
        }
    }

    /// The next changes are accepted, or refused where there is an `x`.
    fn refuse(&self, changes: &str) {
        *self.0.refused.lock() = changes.chars().rev().map(|change| change == 'x').collect();
    }

    /// Blocks that the table says are in use and that no key leads to.
    fn leaked(&self) -> u64 {
        let mut audit = Audit::new();
        let reach = &mut |_: u64, words: &[u64]| {
            audit.reach(words[0]);
            ControlFlow::Continue(())
        };
        self.0.index.scan(Bound::Unbounded, Direction::Forward, reach).unwrap();
        let report = self.0.pool.finish_audit(audit);
        assert_eq!(report.violations, Vec::<String>::new());
        report.leaked_blocks
    }
}

impl<M: Media> Epochs for Observed<M> {
    fn unpin(&self, number: u64) {
        assert!(number == 1 && self.pinned.swap(false, Ordering::Relaxed));
    }
}

impl<M: Media> Index<U64Keys> for Epoched<M> {
    fn value_words(&self) -> usize {
        1
    }
    fn get_words(&self, key: u64, value: &mut [u64]) -> Result<bool, IndexError> {
        self.0.index.get_words(key, value)
    }
    fn get_many(&self, keys: &[u64], values: &mut [Option<u64>]) -> Result<(), IndexError> {
        self.0.index.get_many(keys, values)
    }
    fn insert_words(&self, key: u64, value: &[u64]) -> Result<bool, IndexError> {
        self.changing()?.insert_words(key, value)
    }
    fn update_words(&self, key: u64, value: &[u64], old: &mut [u64]) -> Result<bool, IndexError> {
        self.changing()?.update_words(key, value, old)
    }
    fn upsert_words(&self, key: u64, value: &[u64], old: &mut [u64]) -> Result<bool, IndexError> {
        let index = self.changing()?;
        if self.0.is_full.load(Ordering::Relaxed) && index.get(key)?.is_none() {
            return Err(PoolError::PoolFull { requested_bytes: 1 }.into());
        }
        index.upsert_words(key, value, old)
    }
    fn remove_words(&self, key: u64, old: &mut [u64]) -> Result<bool, IndexError> {
        self.changing()?.remove_words(key, old)
    }
    fn scan(
        &self,
        from: Bound<u64>,
        direction: Direction,
        visit: &mut Visit<'_, U64Keys>,
    ) -> Result<(), IndexError> {
        self.0.index.scan(from, direction, visit)
    }
    fn len(&self) -> u64 {
        Index::len(&self.0.index)
    }
    fn statistics(&self) -> IndexStatistics {
        Index::statistics(&self.0.index)
    }
    fn check(&self, audit: &mut Audit) -> Result<CheckReport, IndexError> {
        Index::check(&self.0.index, audit)
    }
    fn contract(&self) -> Contract {
        Contract::Buffered
    }
    fn pin(&self, _: usize) -> Result<EpochGuard<'_>, IndexError> {
        assert!(!self.0.pinned.swap(true, Ordering::Relaxed), "pinned twice");
        Ok(EpochGuard::new(&*self.0, 1))
    }
    fn join_epochs(&mut self, part: Arc<dyn EpochPart>) {
        *self.0.part.lock() = Some(part);
    }
    fn sync(&self) -> Result<(), IndexError> {
        assert!(!self.0.pinned.load(Ordering::Relaxed), "an end under a guard");
        let (part, pool) = (self.0.part.lock().clone().unwrap(), &self.0.pool);
        let epoch = pool.durable_epoch()? + 1;
        part.prepare(epoch)?;
        pool.media().fence(site!("test.epoch.fence"));
        pool.commit_epoch(epoch)?;
        part.finish()
    }
}

fn epoched() -> (Epoched<Mapped>, OpenStore<Mapped, U64Keys>) {
    let media = Mapped::new(Region::anonymous(1 << 20, 1 << 20).unwrap(), &Cpu::detect()).unwrap();
    let pool = Pool::create(media, &format()).unwrap();
    let index = Epoched::new(&pool);
    let live = OpenStore::new(Box::new(Epoched(Arc::clone(&index.0))), pool);
    (index, live)
}

const SMALL: TimedValue<'_> = TimedValue { value: &[1; 50], expires_ms: None };
/// A run of chunks of its own.
const LARGE: TimedValue<'_> = TimedValue { value: &[2; 9000], expires_ms: None };

#[test]
fn a_record_its_entry_and_the_block_that_is_freed_are_of_one_epoch() {
    let (index, live) = epoched();
    let allocated = || live.pool.space().unwrap().used_bytes;
    for new in [SMALL, LARGE] {
        live.replace(1, PPtr::NULL, new).unwrap();
        live.index.sync().unwrap();
        assert_eq!(index.leaked(), 0);
        let old = live.linked(1).unwrap().unwrap().record;
        live.replace(1, old, LARGE).unwrap();
        live.index.sync().unwrap();
        assert_eq!(index.leaked(), 0, "the old one is free, the new one in use");
        let (used, old) = (allocated(), live.linked(1).unwrap().unwrap().record);
        live.remove(1, old).unwrap();
        assert_eq!(allocated(), used, "it is not free before the epoch has ended");
        live.index.sync().unwrap();
        assert!(allocated() < used && index.leaked() == 0);
    }
    let change = |key| Change { key, old: PPtr::NULL, new: Some(SMALL) };
    live.exchange_all(&[change(2), change(3)]).unwrap();
    assert!(!index.0.pinned.load(Ordering::Relaxed));
    live.index.sync().unwrap();
    assert_eq!((index.leaked(), index.0.index.len()), (0, 2));
}

#[test]
fn a_write_that_finds_no_room_ends_the_epoch_once_and_is_done_again() {
    let (index, live) = epoched();
    let durable = || live.pool.durable_epoch().unwrap();
    index.refuse("x.");
    live.replace(1, PPtr::NULL, LARGE).unwrap();
    assert_eq!(durable(), 1, "the first attempt ended it");
    index.refuse("xx");
    assert!(live.replace(2, PPtr::NULL, LARGE).unwrap_err().is_full());
    assert!(durable() == 2 && !live.is_interrupted());
    live.index.sync().unwrap();
    assert_eq!((index.leaked(), index.0.index.len()), (0, 1));
}

#[test]
fn a_batch_that_is_refused_midway_is_taken_back_or_its_epoch_never_ends() {
    let (index, live) = epoched();
    let durable = || live.pool.durable_epoch().unwrap();
    live.replace(2, PPtr::NULL, SMALL).unwrap();
    let old = live.linked(2).unwrap().unwrap().record;
    let changes = [
        Change { key: 1, old: PPtr::NULL, new: Some(LARGE) },
        Change { key: 2, old, new: Some(LARGE) },
        Change { key: 3, old: PPtr::NULL, new: Some(SMALL) },
    ];
    // The third change is refused, the three are restored; twice.
    index.refuse("..x.....x...");
    assert!(live.exchange_all(&changes).unwrap_err().is_full());
    assert_eq!(live.linked(2).unwrap().unwrap().record, old);
    live.index.sync().unwrap();
    assert_eq!((index.leaked(), index.0.index.len(), durable()), (0, 1, 2));
    // It is refused once, and there is room when the epoch has ended.
    index.refuse("..x");
    live.exchange_all(&changes).unwrap();
    live.index.sync().unwrap();
    assert_eq!((index.leaked(), index.0.index.len(), durable()), (0, 3, 4));
    // Restoring is refused as well: nobody can tell what is there.
    let remove = |key| {
        let old = live.linked(key).unwrap().unwrap().record;
        Change { key, old, new: None }
    };
    index.refuse(".xx");
    assert!(live.exchange_all(&[remove(1), remove(2)]).is_err() && live.is_interrupted());
    assert!(matches!(live.index.sync(), Err(IndexError::EpochNotEnded)));
    assert_eq!(durable(), 4);
}

/// No key is removed before all are put: to put one back would need room.
#[test]
fn a_batch_that_a_full_index_refuses_is_taken_back_without_room() {
    let (index, live) = epoched();
    [1, 2].iter().for_each(|key| live.replace(*key, PPtr::NULL, SMALL).unwrap());
    let old = |key| live.linked(key).unwrap().unwrap().record;
    let changes = [
        Change { key: 1, old: old(1), new: None },
        Change { key: 2, old: old(2), new: Some(LARGE) },
        Change { key: 3, old: PPtr::NULL, new: Some(SMALL) },
    ];
    index.0.is_full.store(true, Ordering::Relaxed);
    assert!(live.exchange_all(&changes).unwrap_err().is_full() && !live.is_interrupted());
    live.index.sync().unwrap();
    assert_eq!((index.leaked(), index.0.index.len()), (0, 2));
}

/// A batch that is refused is taken back: who has read a key of it in between must not show that.
#[test]
fn what_was_read_beside_a_batch_is_not_settled_though_the_batch_has_ended() {
    let media = Mapped::new(Region::anonymous(1 << 20, 1 << 20).unwrap(), &Cpu::detect());
    let pool = Pool::create(media.unwrap(), &format()).unwrap();
    let live = live(&pool, &Faulty::new());
    let lock = live.lock_of(7);
    let before = live.version(lock);
    assert!(live.is_settled(lock, before) && live.are_unchanged([(lock, before)]));
    {
        let mut locks = live.lock_all_to_write(&[7]);
        assert!(live.is_settled(lock, before), "nothing has changed yet");
        Held::begin_change(&mut locks);
        assert!(!live.is_settled(lock, before), "a batch is under way");
        let meanwhile = live.version(lock);
        drop(locks);
        assert!(!live.is_settled(lock, before) && !live.is_settled(lock, meanwhile));
    }
    let before = live.version(lock);
    {
        let mut lock_of_one = live.lock_to_write(7);
        lock_of_one.begin_change();
        assert!(
            live.is_settled(lock, before),
            "one write leaves a key as it was, or as it will be"
        );
        assert!(!live.are_unchanged([(lock, before)]));
    }
    assert!(live.is_settled(lock, before) && !live.are_unchanged([(lock, before)]));
}
