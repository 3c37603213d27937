//! An opened index or store, as operations of a script see it.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use everleaf::internal::StoreKey;
use everleaf::{Error, OwnedKey, Store};
use everleaf_crash::Traced;
use everleaf_index::{Direction, Index, IndexStatistics, KeyKind};
use everleaf_pmem::WORD;
use everleaf_pool::{Audit, Pool};

use super::{Content, sentence};
use crate::concurrent::answer;
use crate::{Answer, Key, Operation};

/// An opened index or store.
pub trait Target: Send + Sync {
    /// Runs an operation; a refusal (insert of a present key) is no error.
    ///
    /// # Errors
    /// What the engine says.
    fn apply(&self, operation: &Operation) -> Result<(), String>;
    /// As [`apply`](Target::apply), and tells what the caller was told.
    ///
    /// # Errors
    /// What the engine says.
    fn answer(&self, operation: &Operation) -> Result<Answer, String>;
    /// Everything in it.
    ///
    /// # Errors
    /// What the engine says, or that a value is none that was ever stored.
    fn content(&self) -> Result<Content, String>;
    /// The sizes of the index, where it can be asked.
    fn shape(&self) -> Option<IndexStatistics> {
        None
    }
    /// Its invariants and the leak audit.
    ///
    /// # Errors
    /// The first violation.
    fn check(&self) -> Result<(), String>;
    /// Closes it cleanly.
    ///
    /// # Errors
    /// What the engine says.
    fn close(self: Box<Self>) -> Result<(), String>;
}

/// A key of a script, as an index of such keys takes it.
pub(crate) fn of_script<K: StoreKey>(key: &Key) -> K::Ref<'_> {
    let key = match key {
        Key::U64(key) => everleaf::Key::U64(*key),
        Key::Bytes(key) => everleaf::Key::Bytes(key),
    };
    K::narrow(key).expect("a scenario has keys of one type")
}

/// A key of an index, as scripts have it.
pub(crate) fn to_script<K: StoreKey>(key: K::Ref<'_>) -> Key {
    match K::widen(key) {
        everleaf::Key::U64(key) => Key::U64(key),
        everleaf::Key::Bytes(key) => Key::Bytes(key.to_vec()),
    }
}

/// An index and the pool that it alone uses.
pub(super) struct PooledIndex<K: KeyKind> {
    pub index: Box<dyn Index<K>>,
    pub pool: Arc<Pool<Traced>>,
}

/// A value of a script as words; none is like another, so that torn values are found.
fn words_of(value: u64, words: usize) -> Vec<u64> {
    (0..words as u64).map(|i| value ^ i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect()
}

impl<K: StoreKey> Target for PooledIndex<K> {
    fn apply(&self, operation: &Operation) -> Result<(), String> {
        let width = self.index.value_words();
        let mut old = vec![0; width];
        match operation {
            Operation::Insert(key, value) => {
                self.index.insert_words(of_script::<K>(key), &words_of(*value, width))
            }
            Operation::Update(key, value) => {
                self.index.update_words(of_script::<K>(key), &words_of(*value, width), &mut old)
            }
            Operation::Upsert(key, value) => {
                self.index.upsert_words(of_script::<K>(key), &words_of(*value, width), &mut old)
            }
            Operation::Remove(key) => self.index.remove_words(of_script::<K>(key), &mut old),
            Operation::Get(key) => self.index.get_words(of_script::<K>(key), &mut old),
            Operation::Scan => return self.content().map(drop),
            Operation::Sync | Operation::Epoch => self.index.sync().map(|()| true),
            Operation::Thread { operation, .. } => return self.apply(operation),
            other => return administrative(other),
        }
        .map(drop)
        .map_err(sentence)
    }

    fn answer(&self, operation: &Operation) -> Result<Answer, String> {
        answer::<K>(&*self.index, operation)
    }

    fn content(&self) -> Result<Content, String> {
        let mut content = Content::new();
        let mut torn = None;
        let mut visit = |key: K::Ref<'_>, value: &[u64]| {
            if value != words_of(value[0], value.len()) {
                torn =
                    Some(format!("the value of {} is none that was stored", to_script::<K>(key)));
            }
            content.insert(to_script::<K>(key), value[0]);
            ControlFlow::Continue(())
        };
        self.index.scan(Bound::Unbounded, Direction::Forward, &mut visit).map_err(sentence)?;
        let mut found = vec![0; self.index.value_words()];
        for (key, value) in &content {
            if !self.index.get_words(of_script::<K>(key), &mut found).map_err(sentence)?
                || found[0] != *value
            {
                return Err(format!("a scan shows {key}={value}, a find does not"));
            }
        }
        torn.map_or(Ok(()), Err)?;
        Ok(content)
    }

    fn shape(&self) -> Option<IndexStatistics> {
        Some(self.index.statistics())
    }

    fn close(self: Box<Self>) -> Result<(), String> {
        let Self { index, pool } = *self;
        let seal = index.close().map_err(sentence)?;
        drop(index);
        pool.close_with(seal).map_err(sentence)
    }

    fn check(&self) -> Result<(), String> {
        let mut audit = Audit::new();
        let report = self.index.check(&mut audit).map_err(sentence)?;
        let audited = self.pool.finish_audit(audit);
        match (
            report.violations.into_iter().chain(audited.violations).next(),
            audited.leaked_blocks,
        ) {
            (Some(violation), _) => Err(violation),
            (None, 0) => Ok(()),
            (None, leaked) => {
                Err(format!("{leaked} blocks are allocated and reachable from nowhere"))
            }
        }
    }
}

/// What is no operation on the content: the business of the target's owner.
fn administrative(operation: &Operation) -> Result<(), String> {
    match operation {
        Operation::Crash => Ok(()),
        Operation::Batch(_) | Operation::Move(..) | Operation::Copy(..) | Operation::Claim(..) => {
            Err("an index has no batches and transactions; explore the store".to_owned())
        }
        other => Err(format!("{other} is not for an open index")),
    }
}

/// The most KiB that a value of a script may have.
const MOST_KIB: u64 = 64;

/// A value of a script as bytes: 0 to 3 lines of them, so that records differ in their sizes; or so
/// many KiB as its upper half says.
pub(crate) fn expand(value: u64) -> Vec<u8> {
    let words = match value >> 32 {
        kib @ 1..=MOST_KIB => kib * (1024 / WORD as u64),
        _ => 1 + value % 3 * 10,
    };
    value.to_le_bytes().repeat(words as usize)
}

/// The value of a script that these bytes stand for.
pub(crate) fn value_of(bytes: &[u8]) -> Result<u64, String> {
    let value = bytes
        .first_chunk()
        .map(|bytes| u64::from_le_bytes(*bytes))
        .ok_or("a value is too short")?;
    if bytes == expand(value) {
        Ok(value)
    } else {
        Err("the value is none that was stored".to_owned())
    }
}

pub(crate) fn owned(key: &Key) -> OwnedKey {
    match key {
        Key::U64(key) => OwnedKey::U64(*key),
        Key::Bytes(key) => OwnedKey::Bytes(key.as_slice().into()),
    }
}

/// What an iterator shows.
fn scanned(store: &Store) -> Result<Vec<(Key, u64)>, String> {
    let entry = |entry: Result<(OwnedKey, Vec<u8>), Error>| {
        let (key, bytes) = entry.map_err(sentence)?;
        let value = value_of(&bytes).map_err(|e| format!("{key:?}: {e}"))?;
        let key = match key {
            OwnedKey::U64(key) => Key::U64(key),
            OwnedKey::Bytes(key) => Key::Bytes(key.into_vec()),
        };
        Ok((key, value))
    };
    store.iter().map(entry).collect()
}

/// A batch of writes.
fn together(store: &Store, operations: &[Operation]) -> Result<(), Error> {
    let mut batch = store.batch();
    for operation in operations {
        match operation {
            Operation::Insert(key, value) => batch.put_if_absent(owned(key), expand(*value))?,
            Operation::Update(key, value) => batch.replace(owned(key), expand(*value))?,
            Operation::Upsert(key, value) => batch.put(owned(key), expand(*value))?,
            Operation::Remove(key) => batch.delete(owned(key))?,
            _ => &mut batch, // A script has no others in a batch.
        };
    }
    batch.commit().map(drop)
}

/// A transaction; whether it changed anything.
fn transact(store: &Store, operation: &Operation) -> Result<bool, Error> {
    store.transaction(|tx| match operation {
        Operation::Move(from, to) => {
            let Some(value) = tx.remove(owned(from))? else { return Ok(false) };
            tx.put(owned(to), value)?;
            Ok(true)
        }
        Operation::Copy(from, to) => {
            let Some(value) = tx.get(owned(from))? else { return Ok(false) };
            tx.put(owned(to), value)?;
            Ok(true)
        }
        Operation::Claim(from, below, key, value) => {
            let (from, below) = (owned(from), owned(below));
            let unclaimed = tx.range(from.as_ref()..below.as_ref())?.is_empty();
            if unclaimed {
                tx.put(owned(key), expand(*value))?;
            }
            Ok(unclaimed)
        }
        _ => Ok(false), // No other operation is a transaction.
    })
}

impl Target for Store {
    fn apply(&self, operation: &Operation) -> Result<(), String> {
        match operation {
            Operation::Insert(key, value) => {
                self.put_if_absent(owned(key), expand(*value)).map(drop)
            }
            Operation::Update(key, value) => self.replace(owned(key), expand(*value)).map(drop),
            Operation::Upsert(key, value) => self.put(owned(key), expand(*value)).map(drop),
            Operation::Remove(key) => self.delete(owned(key)).map(drop),
            Operation::Get(key) => self.get(owned(key)).map(drop),
            Operation::Batch(operations) => together(self, operations),
            Operation::Move(..) | Operation::Copy(..) | Operation::Claim(..) => {
                transact(self, operation).map(drop)
            }
            Operation::Scan => return self.content().map(drop),
            Operation::Sync | Operation::Epoch => self.sync(),
            Operation::Thread { operation, .. } => return Target::apply(self, operation),
            other => return administrative(other),
        }
        .map_err(sentence)
    }

    fn answer(&self, operation: &Operation) -> Result<Answer, String> {
        match operation {
            Operation::Insert(key, value) => {
                self.put_if_absent(owned(key), expand(*value)).map(Answer::Changed)
            }
            Operation::Upsert(key, value) => {
                self.put(owned(key), expand(*value)).map(Answer::Changed)
            }
            Operation::Remove(key) => self.delete(owned(key)).map(Answer::Changed),
            Operation::Get(key) => {
                let value = self.get(owned(key)).map_err(sentence)?;
                return value.map(|bytes| value_of(&bytes)).transpose().map(Answer::Value);
            }
            Operation::Update(key, value) => {
                self.replace(owned(key), expand(*value)).map(Answer::Changed)
            }
            Operation::Move(..) | Operation::Copy(..) | Operation::Claim(..) => {
                transact(self, operation).map(Answer::Changed)
            }
            Operation::Scan => return scanned(self).map(Answer::Entries),
            Operation::Thread { operation, .. } => return Target::answer(self, operation),
            other => return Target::apply(self, other).map(|()| Answer::Done),
        }
        .map_err(sentence)
    }

    fn content(&self) -> Result<Content, String> {
        let content: Content = scanned(self)?.into_iter().collect();
        for (key, value) in &content {
            let found = self.get(owned(key)).map_err(sentence)?;
            if found.is_none_or(|bytes| bytes != expand(*value)) {
                return Err(format!("an iterator shows {key}, a get finds something else"));
            }
        }
        Ok(content)
    }

    fn close(self: Box<Self>) -> Result<(), String> {
        Self::close(*self).map_err(sentence)
    }

    fn check(&self) -> Result<(), String> {
        let outcome = Store::check(self).map_err(sentence)?;
        match (outcome.violations.first(), outcome.leaked_blocks) {
            (Some(violation), _) => Err(violation.clone()),
            (None, 0) => Ok(()),
            (None, leaked) => {
                Err(format!("{leaked} blocks are allocated and reachable from nowhere"))
            }
        }
    }
}
