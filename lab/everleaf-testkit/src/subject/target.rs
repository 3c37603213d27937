//! An opened index, as operations of a script see it.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use everleaf::internal::StoreKey;
use everleaf_crash::Traced;
use everleaf_index::{Direction, Index, IndexStatistics, KeyKind};
use everleaf_pool::{Audit, Pool};

use super::sentence;
use crate::model::Content;
use crate::{Answer, Key, Operation};

/// An opened index or store.
pub trait Target: Send + Sync {
    /// Runs an operation; a refusal (insert of a present key) is not an error.
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
fn of_script<K: StoreKey>(key: &Key) -> K::Ref<'_> {
    let key = match key {
        Key::U64(key) => everleaf::Key::U64(*key),
        Key::Bytes(key) | Key::InTree(_, key) => everleaf::Key::Bytes(key),
    };
    K::narrow(key).expect("a scenario has keys of one type")
}

/// A key of an index, as scripts have it.
fn to_script<K: StoreKey>(key: K::Ref<'_>) -> Key {
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
        if operation.is_of_store() {
            return Err(format!("{operation} is the store's; explore the store"));
        }
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
        let mut wrong = None;
        let mut visit = |key: K::Ref<'_>, value: &[u64]| {
            let key = to_script::<K>(key);
            if value != words_of(value[0], value.len()) {
                wrong = Some(format!("the value of {key} is none that was stored"));
            }
            if let Some((last, _)) = content.last_key_value().filter(|(last, _)| **last >= key) {
                wrong = Some(format!("a scan shows {key} behind {last}"));
            }
            content.insert(key, value[0]);
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
        wrong.map_or(Ok(()), Err)?;
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

/// What is not an operation on the content: the business of the target's owner.
pub(super) fn administrative(operation: &Operation) -> Result<(), String> {
    match operation {
        Operation::Crash => Ok(()),
        other => Err(format!("{other} is not for an open index")),
    }
}

/// Runs an operation on an index.
fn answer<K: StoreKey>(index: &dyn Index<K>, operation: &Operation) -> Result<Answer, String> {
    if operation.is_of_store() {
        return Err(format!("{operation} is the store's; explore the store"));
    }
    match operation {
        Operation::Get(key) => index.get(of_script::<K>(key)).map(Answer::Value),
        Operation::Insert(key, value) => {
            index.insert(of_script::<K>(key), *value).map(Answer::Changed)
        }
        Operation::Update(key, value) => {
            index.update(of_script::<K>(key), *value).map(Answer::Value)
        }
        Operation::Upsert(key, value) => {
            index.upsert(of_script::<K>(key), *value).map(Answer::Value)
        }
        Operation::Remove(key) => index.remove(of_script::<K>(key)).map(Answer::Value),
        Operation::Scan => {
            let mut entries = Vec::new();
            let scanned = index.scan(Bound::Unbounded, Direction::Forward, &mut |key, words| {
                entries.push((to_script::<K>(key), words[0]));
                ControlFlow::Continue(())
            });
            scanned.map(|()| Answer::Entries(entries))
        }
        Operation::Thread { operation, .. } => return answer(index, operation),
        Operation::Sync | Operation::Epoch | Operation::Crash => {
            index.sync().map(|()| Answer::Done)
        }
        other => return Err(format!("{other} is not for an open index")),
    }
    .map_err(sentence)
}
