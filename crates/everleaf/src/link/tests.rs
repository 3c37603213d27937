//! Writes that the index refuses, applies and then refuses, or panics in.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use everleaf_index::{
    CheckReport, Contract, EpochGuard, Epochs, IndexError, IndexStatistics, Model, Serialized,
    U64Keys, Visit,
};
use everleaf_pmem::{Cpu, Hardware, Region, Traced};
use everleaf_pool::{Audit, AuditReport, Format, KeyType};
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

fn live<M: Media>(pool: &Arc<Pool<M>>, index: &Faulty) -> Live<M, U64Keys> {
    Live::new(Box::new(index.clone()), Arc::clone(pool))
}

fn linked<M: Media>(live: &Live<M, U64Keys>, key: u64) -> Result<PPtr<Record>, Error> {
    Ok(live.linked(key)?.map_or(PPtr::NULL, |linked| linked.record))
}

fn put<M: Media>(live: &Live<M, U64Keys>, key: u64, value: &[u8]) -> Result<(), Error> {
    live.replace(key, linked(live, key)?, NewValue { value, expires_ms: None })
}

fn delete<M: Media>(live: &Live<M, U64Keys>, key: u64) -> Result<(), Error> {
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
        Hardware::new(Region::anonymous(1 << 20, 1 << 20).unwrap(), &Cpu::detect()).unwrap(),
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
        Hardware::new(Region::anonymous(1 << 20, 1 << 20).unwrap(), &Cpu::detect()).unwrap(),
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
            false => writer.replace(1, old, NewValue { value: &[7; 9000], expires_ms: None }),
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

/// A model whose every change must lie in an epoch, and that looks at what the pool uses when the
/// epoch is pinned, when the entry changes, and when the guard is dropped.
struct Epoched<M: Media>(Arc<Observed<M>>);

struct Observed<M: Media> {
    index: Serialized<Model<U64Keys>>,
    pool: Arc<Pool<M>>,
    pinned: AtomicBool,
    /// Bytes used: when pinned, at the changes, when unpinned.
    used: Mutex<Vec<u64>>,
}

impl<M: Media> Epoched<M> {
    fn new(pool: &Arc<Pool<M>>) -> Self {
        Self(Arc::new(Observed {
            index: Serialized::new(Model::new()),
            pool: Arc::clone(pool),
            pinned: AtomicBool::new(false),
            used: Mutex::default(),
        }))
    }

    fn changing(&self) -> &dyn Index<U64Keys> {
        assert!(self.0.pinned.load(Ordering::Relaxed), "a change outside of an epoch");
        self.0.observe();
        &self.0.index
    }
}

impl<M: Media> Observed<M> {
    fn observe(&self) {
        self.used.lock().push(self.pool.space().unwrap().used_bytes);
    }
}

impl<M: Media> Epochs for Observed<M> {
    fn unpin(&self, number: u64) {
        assert!(number == 1 && self.pinned.swap(false, Ordering::Relaxed));
        self.observe();
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
        self.changing().insert_words(key, value)
    }
    fn update_words(&self, key: u64, value: &[u64], old: &mut [u64]) -> Result<bool, IndexError> {
        self.changing().update_words(key, value, old)
    }
    fn upsert_words(&self, key: u64, value: &[u64], old: &mut [u64]) -> Result<bool, IndexError> {
        self.changing().upsert_words(key, value, old)
    }
    fn remove_words(&self, key: u64, old: &mut [u64]) -> Result<bool, IndexError> {
        self.changing().remove_words(key, old)
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
    fn pin(&self) -> Result<EpochGuard<'_>, IndexError> {
        assert!(!self.0.pinned.swap(true, Ordering::Relaxed), "pinned twice");
        self.0.observe();
        Ok(EpochGuard::new(&*self.0, 1))
    }
}

#[test]
fn a_record_its_entry_and_the_block_that_is_freed_for_it_are_of_one_epoch() {
    let media =
        Hardware::new(Region::anonymous(1 << 20, 1 << 20).unwrap(), &Cpu::detect()).unwrap();
    let pool = Pool::create(media, &format()).unwrap();
    let index = Epoched::new(&pool);
    let linked = Live::new(Box::new(Epoched(Arc::clone(&index.0))), Arc::clone(&pool));
    let used = |write: &dyn Fn()| {
        index.0.used.lock().clear();
        write();
        index.0.used.lock().clone()
    };
    // Runs of chunks of their own, so that what is used changes by them.
    let (small, large) = ([1; 5000], [2; 9000]);
    let value = |value| NewValue { value, expires_ms: None };
    let put = used(&|| linked.replace(1, PPtr::NULL, value(&large)).unwrap());
    assert!(matches!(*put, [pinned, changed, unpinned] if pinned < changed && changed == unpinned));

    let old = linked.linked(1).unwrap().unwrap().record;
    let replaced = used(&|| linked.replace(1, old, value(&small)).unwrap());
    assert!(matches!(*replaced, [pinned, changed, unpinned]
        if pinned < changed && unpinned < changed && unpinned < pinned));

    let old = linked.linked(1).unwrap().unwrap().record;
    let removed = used(&|| linked.remove(1, old).unwrap());
    assert!(
        matches!(*removed, [pinned, changed, unpinned] if pinned == changed && unpinned < pinned)
    );

    let change = |key| Change { key, old: PPtr::NULL, new: Some(value(&small)) };
    let batch = used(&|| linked.exchange_all(&[change(2), change(3)]).unwrap());
    assert!(matches!(*batch, [pinned, first, second, unpinned]
        if pinned < first && first == second && unpinned <= second));
    assert!(!index.0.pinned.load(Ordering::Relaxed));
}
