//! The traits that engines implement.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use everleaf_pool::{Audit, Seal};

use crate::{
    CheckReport, Contract, Direction, EpochGuard, EpochPart, IndexError, IndexStatistics, KeyKind,
    Result,
};

/// What a scan calls for each entry: the key, its value words; `Break` ends the scan.
pub type Visit<'v, K> = dyn for<'a> FnMut(<K as KeyKind>::Ref<'a>, &[u64]) -> ControlFlow<()> + 'v;

/// [`Visit`], lent to a scan.
pub type Visitor<'v, K> = &'v mut Visit<'v, K>;

/// Where a scan begins.
pub type Start<'k, K> = Bound<<K as KeyKind>::Ref<'k>>;

/// What takes part in a change of one entry and becomes durable by the same two fences: see
/// [`Index::link`]. For a store it is the record that the entry leads to.
pub trait LinkSteps {
    /// The entry has this word now, or there is none. Its leaf is locked, and the index can no
    /// longer refuse. Stores and flushes what recovery goes by; the index's own first step follows,
    /// and a fence.
    ///
    /// # Errors
    /// As the caller of [`Index::link`] decides: the index changes nothing.
    fn prepare(&mut self, old: Option<u64>) -> Result<()>;

    /// The index has stored and flushed its commit word. Stores and flushes the rest; a fence
    /// follows, and only then the leaf is unlocked.
    ///
    /// # Errors
    /// As the caller of [`Index::link`] decides: the entry is changed.
    fn complete(&mut self) -> Result<()>;
}

/// The changes of a batch: each key once, with the word that it is to have, or none if it is to be
/// removed. Those with a word come first; both parts are in the order of the keys.
pub type Changes<'c, K> = [(<K as KeyKind>::Ref<'c>, Option<u64>)];

/// What takes part in a batch of changes: see [`Index::link_all`]. For a store these are the
/// records that the entries lead to, and the log by which recovery does a batch again.
pub trait BatchSteps {
    /// What the index has prepared is flushed. Fences, and makes the batch count, durably: from
    /// here on a crash is recovered by making all changes again.
    ///
    /// # Errors
    /// As the caller of [`Index::link_all`] decides: the batch does not count, and the index
    /// changes nothing.
    fn commit(&mut self) -> Result<()>;

    /// The index has made, and flushed, all changes. Stores and flushes the rest; a fence follows,
    /// and only then the last leaves are unlocked.
    ///
    /// # Errors
    /// As the caller of [`Index::link_all`] decides: the changes are made.
    fn complete(&mut self) -> Result<()>;
}

/// Which changes of an entry an engine makes together with [`LinkSteps`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// None.
    None,
    /// Those of the word of a present key.
    Replacements,
    /// All.
    All,
}

impl Links {
    /// Whether such an engine links a change from `was_present` to `will_be_present`.
    pub const fn include(self, was_present: bool, will_be_present: bool) -> bool {
        match self {
            Links::None => false,
            Links::Replacements => was_present && will_be_present,
            Links::All => true,
        }
    }
}

/// An ordered map from keys to values of [`value_words`](Index::value_words) words each. All
/// methods may be called from several threads. When the effect of a call is durable is the
/// [`contract`](Index::contract).
///
/// Values are slices of exactly `value_words()` words; the methods without `_words` are for values
/// of one word. **An engine writes either the five that end in `_words`, or, if its values have one
/// word, the five without**: each five are there by the other. (One that writes neither calls
/// itself without an end.)
pub trait Index<K: KeyKind>: Send + Sync {
    /// Words in a value, 1 to 14.
    fn value_words(&self) -> usize {
        1
    }

    /// Copies the value of `key` to `value`; false if the key is absent.
    ///
    /// # Errors
    /// [`IndexError::Corrupt`] if damage is met; [`IndexError::ValueWords`] if `value` has another
    /// length.
    #[inline]
    fn get_words(&self, key: K::Ref<'_>, value: &mut [u64]) -> Result<bool> {
        let value = one_word(value)?;
        Ok(hand_over(self.get(key)?, value))
    }

    /// Looks up many keys together, so that their cache misses overlap. `values[i]` is the first
    /// word of the value of `keys[i]`.
    ///
    /// # Errors
    /// As [`get_words`](Index::get_words).
    ///
    /// # Panics
    /// If the slices differ in length.
    fn get_many(&self, keys: &[K::Ref<'_>], values: &mut [Option<u64>]) -> Result<()>;

    /// Adds a key; false, and nothing changed, if it is present.
    ///
    /// # Errors
    /// [`IndexError::Pool`] when the pool is full (nothing changed), [`IndexError::KeyTooLong`],
    /// [`IndexError::ValueWords`], [`IndexError::Corrupt`].
    #[inline]
    fn insert_words(&self, key: K::Ref<'_>, value: &[u64]) -> Result<bool> {
        self.insert(key, word(value)?)
    }

    /// Replaces the value of a present key and copies the old one to `old`; false, and nothing
    /// changed, if it is absent.
    ///
    /// # Errors
    /// As [`insert_words`](Index::insert_words).
    #[inline]
    fn update_words(&self, key: K::Ref<'_>, value: &[u64], old: &mut [u64]) -> Result<bool> {
        let old = one_word(old)?;
        Ok(hand_over(self.update(key, word(value)?)?, old))
    }

    /// Inserts or updates; true if there was an old value, which is copied to `old`.
    ///
    /// # Errors
    /// As [`insert_words`](Index::insert_words).
    #[inline]
    fn upsert_words(&self, key: K::Ref<'_>, value: &[u64], old: &mut [u64]) -> Result<bool> {
        let old = one_word(old)?;
        Ok(hand_over(self.upsert(key, word(value)?)?, old))
    }

    /// Removes a key and copies its value to `old`; false if it is absent.
    ///
    /// # Errors
    /// As [`insert_words`](Index::insert_words).
    #[inline]
    fn remove_words(&self, key: K::Ref<'_>, old: &mut [u64]) -> Result<bool> {
        let old = one_word(old)?;
        Ok(hand_over(self.remove(key)?, old))
    }

    /// Which changes [`link`](Index::link) makes. All others are refused.
    fn links(&self) -> Links {
        Links::None
    }

    /// Makes `new` the word of `key`, or removes the key if there is none, together with `steps`;
    /// only of values of one word. False if the engine has no such sequence, or there is no key to
    /// be removed: then `steps` was not called. Durable on return, by two fences, apart from splits
    /// and leaves that are emptied.
    ///
    /// # Errors
    /// As [`insert_words`](Index::insert_words), before `steps` is called; and what `steps`
    /// returns.
    fn link(&self, key: K::Ref<'_>, new: Option<u64>, steps: &mut dyn LinkSteps) -> Result<bool> {
        let _ = (key, new, steps);
        Ok(false)
    }

    /// Makes the changes of a batch together with `steps`. The caller sees to it that no thread
    /// changes the keys meanwhile, or takes what it reads of them for settled, and that none scans.
    /// False if the engine has no such sequence: then `steps` was not called.
    ///
    /// Durable on return. Apart from leaves that are split or emptied the FPTrees take one fence
    /// beside the two of [`commit`](BatchSteps::commit), one more where there are words and
    /// removals, and two more for each 128 leaves; the line tree one for each 16 changes.
    ///
    /// # Errors
    /// As [`insert_words`](Index::insert_words), and what `steps` returns. Before the commit
    /// nothing has changed; after it the index has made some of the changes, durably, and no
    /// removal if it is full.
    fn link_all(&self, changes: &Changes<'_, K>, steps: &mut dyn BatchSteps) -> Result<bool> {
        let _ = (changes, steps);
        Ok(false)
    }

    /// Visits entries in key order from `from` on, in `direction` (backward: from the greatest key
    /// within the bound downwards).
    ///
    /// What is shown stays while `visit` runs: a call that replaces the value of that key, or
    /// removes it, returns only afterwards. So `visit` may read what a value leads to. It may run
    /// under a lock: it must not call the index, nor wait for a thread that does.
    ///
    /// # Errors
    /// [`IndexError::Corrupt`] if damage is met.
    fn scan(&self, from: Start<'_, K>, direction: Direction, visit: Visitor<'_, K>) -> Result<()>;

    /// Number of keys.
    fn len(&self) -> u64;

    /// Whether there is no key.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sizes and shape.
    fn statistics(&self) -> IndexStatistics;

    /// Tests every invariant and reports every block of the pool that the index owns to `audit`.
    /// Never writes.
    ///
    /// # Errors
    /// Only what makes checking itself impossible; violations are in the report.
    fn check(&self, audit: &mut Audit) -> Result<CheckReport>;

    /// When the effect of a call is durable.
    fn contract(&self) -> Contract;

    /// Keeps the epoch from ending until the guard is dropped, so that a record, the change of the
    /// index that leads to it, and the block that is freed for it are of one epoch. Waits while an
    /// epoch ends. Of a strict engine it is nothing and costs nothing.
    ///
    /// The caller changes so many keys under the guard. Of several there is room then for what
    /// undoes them after a crash. Others need not stand while the end of an epoch waits for many.
    ///
    /// # Errors
    /// As the medium reports: no epoch can be completed any more. [`IndexError::Pool`] if the pool
    /// is full.
    #[inline]
    fn pin(&self, _changes: usize) -> Result<EpochGuard<'_>> {
        Ok(EpochGuard::none())
    }

    /// Makes something end together with the epochs of this index, from the next end on. Strict
    /// engines have no epochs, and never call it.
    fn join_epochs(&mut self, _part: Arc<dyn EpochPart>) {}

    /// Makes everything done so far durable. Strict engines have nothing to do. The caller holds no
    /// guard of an epoch.
    ///
    /// # Errors
    /// As the medium reports.
    fn sync(&self) -> Result<()> {
        Ok(())
    }

    /// Prepares for a clean shutdown: stores what speeds opening up, where the engine has anything
    /// of the kind. No other operation may run meanwhile, and nothing may be written afterwards:
    /// the seal that it returns goes to [`Pool::close_with`](everleaf_pool::Pool::close_with) when
    /// the index is gone. A pool without room is not an error.
    ///
    /// # Errors
    /// As the medium reports.
    fn close(&self) -> Result<Option<Seal>> {
        Ok(None)
    }

    /// The engine without its lock, for a caller that has the index alone: none where there is
    /// no lock to leave out. A lock's atomic instructions wait for the fence of the operation
    /// before; without them the next operation's misses overlap with that fence.
    fn exclusive(&mut self) -> Option<&mut dyn SerialIndex<K>> {
        None
    }

    /// [`get_words`](Index::get_words) for values of one word.
    ///
    /// # Errors
    /// Those of [`get_words`](Index::get_words).
    #[inline]
    fn get(&self, key: K::Ref<'_>) -> Result<Option<u64>> {
        let mut value = [0];
        Ok(self.get_words(key, &mut value)?.then_some(value[0]))
    }

    /// [`insert_words`](Index::insert_words) for values of one word.
    ///
    /// # Errors
    /// Those of [`insert_words`](Index::insert_words).
    #[inline]
    fn insert(&self, key: K::Ref<'_>, value: u64) -> Result<bool> {
        self.insert_words(key, &[value])
    }

    /// [`update_words`](Index::update_words) for values of one word; the old value.
    ///
    /// # Errors
    /// Those of [`update_words`](Index::update_words).
    #[inline]
    fn update(&self, key: K::Ref<'_>, value: u64) -> Result<Option<u64>> {
        let mut old = [0];
        Ok(self.update_words(key, &[value], &mut old)?.then_some(old[0]))
    }

    /// [`upsert_words`](Index::upsert_words) for values of one word; the old value.
    ///
    /// # Errors
    /// Those of [`upsert_words`](Index::upsert_words).
    #[inline]
    fn upsert(&self, key: K::Ref<'_>, value: u64) -> Result<Option<u64>> {
        let mut old = [0];
        Ok(self.upsert_words(key, &[value], &mut old)?.then_some(old[0]))
    }

    /// [`remove_words`](Index::remove_words) for values of one word; the old value.
    ///
    /// # Errors
    /// Those of [`remove_words`](Index::remove_words).
    #[inline]
    fn remove(&self, key: K::Ref<'_>) -> Result<Option<u64>> {
        let mut old = [0];
        Ok(self.remove_words(key, &mut old)?.then_some(old[0]))
    }
}

/// An engine for one thread at a time; [`Serialized`](crate::Serialized) makes it an [`Index`]. The
/// methods mean what those of the same name in [`Index`] mean. Its contract is strict.
#[allow(missing_docs, clippy::missing_errors_doc, clippy::len_without_is_empty)]
pub trait SerialIndex<K: KeyKind>: Send + Sync {
    fn value_words(&self) -> usize {
        1
    }
    #[inline]
    fn get_words(&self, key: K::Ref<'_>, value: &mut [u64]) -> Result<bool> {
        let value = one_word(value)?;
        Ok(hand_over(self.get(key)?, value))
    }
    fn get_many(&self, keys: &[K::Ref<'_>], values: &mut [Option<u64>]) -> Result<()>;
    #[inline]
    fn insert_words(&mut self, key: K::Ref<'_>, value: &[u64]) -> Result<bool> {
        self.insert(key, word(value)?)
    }
    #[inline]
    fn update_words(&mut self, key: K::Ref<'_>, value: &[u64], old: &mut [u64]) -> Result<bool> {
        let old = one_word(old)?;
        Ok(hand_over(self.update(key, word(value)?)?, old))
    }
    #[inline]
    fn upsert_words(&mut self, key: K::Ref<'_>, value: &[u64], old: &mut [u64]) -> Result<bool> {
        let old = one_word(old)?;
        Ok(hand_over(self.upsert(key, word(value)?)?, old))
    }
    #[inline]
    fn remove_words(&mut self, key: K::Ref<'_>, old: &mut [u64]) -> Result<bool> {
        let old = one_word(old)?;
        Ok(hand_over(self.remove(key)?, old))
    }
    #[inline]
    fn get(&self, key: K::Ref<'_>) -> Result<Option<u64>> {
        let mut value = [0];
        Ok(self.get_words(key, &mut value)?.then_some(value[0]))
    }
    #[inline]
    fn insert(&mut self, key: K::Ref<'_>, value: u64) -> Result<bool> {
        self.insert_words(key, &[value])
    }
    #[inline]
    fn update(&mut self, key: K::Ref<'_>, value: u64) -> Result<Option<u64>> {
        let mut old = [0];
        Ok(self.update_words(key, &[value], &mut old)?.then_some(old[0]))
    }
    #[inline]
    fn upsert(&mut self, key: K::Ref<'_>, value: u64) -> Result<Option<u64>> {
        let mut old = [0];
        Ok(self.upsert_words(key, &[value], &mut old)?.then_some(old[0]))
    }
    #[inline]
    fn remove(&mut self, key: K::Ref<'_>) -> Result<Option<u64>> {
        let mut old = [0];
        Ok(self.remove_words(key, &mut old)?.then_some(old[0]))
    }
    fn links(&self) -> Links {
        Links::None
    }
    fn link(
        &mut self,
        key: K::Ref<'_>,
        new: Option<u64>,
        steps: &mut dyn LinkSteps,
    ) -> Result<bool> {
        let _ = (key, new, steps);
        Ok(false)
    }
    fn link_all(&mut self, changes: &Changes<'_, K>, steps: &mut dyn BatchSteps) -> Result<bool> {
        let _ = (changes, steps);
        Ok(false)
    }
    fn scan(&self, from: Start<'_, K>, direction: Direction, visit: Visitor<'_, K>) -> Result<()>;
    fn len(&self) -> u64;
    fn statistics(&self) -> IndexStatistics;
    fn check(&self, audit: &mut Audit) -> Result<CheckReport>;
    fn sync(&mut self) -> Result<()> {
        Ok(())
    }
    fn close(&mut self) -> Result<Option<Seal>> {
        Ok(None)
    }
}

/// The place of a value of one word.
#[inline(always)]
fn one_word(value: &mut [u64]) -> Result<&mut u64> {
    let words = value.len();
    match value {
        [word] => Ok(word),
        _ => Err(IndexError::ValueWords { words, expected: 1 }),
    }
}

/// The word of a value of one word.
#[inline(always)]
fn word(value: &[u64]) -> Result<u64> {
    match value {
        [word] => Ok(*word),
        _ => Err(IndexError::ValueWords { words: value.len(), expected: 1 }),
    }
}

/// Stores what was found where the caller wants it; whether there was something.
#[inline(always)]
fn hand_over(found: Option<u64>, place: &mut u64) -> bool {
    if let Some(value) = found {
        *place = value;
    }
    found.is_some()
}
