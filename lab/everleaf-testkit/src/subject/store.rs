//! An opened store, as operations of a script see it.

use std::time::{Duration, SystemTime};

use everleaf::{Batch, Entry, Error, OwnedKey, Store, Transaction, Tree};
use everleaf_pmem::WORD;

use super::sentence;
use super::target::administrative;
use crate::model::Content;
use crate::operation::filled;
use crate::{Answer, End, Key, Operation, Target};

/// What the clock of a store says, always: milliseconds since 1970.
pub(super) const NOW_MS: u64 = 1000;
/// When a value expires whose life has ended.
const BEFORE_NOW: Duration = Duration::from_millis(NOW_MS / 2);
/// How long a value lives that does not expire.
const LIFE: Duration = Duration::from_secs(60);
/// Entries that a range removes at once; of more than these a crash may leave some.
const MAX_AT_ONCE: u64 = 128;
/// The most KiB that a value of a script may have.
const MAX_KIB: u64 = 1024;

/// A value of a script as bytes: 1, 11 or 21 words, so that records differ in their sizes; or so
/// many KiB as its upper half says.
pub(crate) fn expand(value: u64) -> Vec<u8> {
    let words = match value >> 32 {
        kib @ 1..=MAX_KIB => kib * (1024 / WORD as u64),
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

/// A key as its tree has it.
pub(crate) fn owned(key: &Key) -> OwnedKey {
    match key {
        Key::U64(key) => OwnedKey::U64(*key),
        Key::Bytes(key) | Key::InTree(_, key) => OwnedKey::Bytes(key.as_slice().into()),
    }
}

/// The tree of a key, made if there is none.
fn tree_of(store: &Store, key: &Key) -> Result<Tree, Error> {
    key.tree().map_or_else(|| Ok(store.default_tree().clone()), |name| store.tree(name))
}

/// An entry of the tree of that name, or of the one without a name.
fn entry_of(tree: Option<&str>, (key, bytes): Entry) -> Result<(Key, u64), String> {
    let value = value_of(&bytes).map_err(|e| format!("{key:?}: {e}"))?;
    let key = match (tree, key) {
        (_, OwnedKey::U64(key)) => Key::U64(key),
        (None, OwnedKey::Bytes(key)) => Key::Bytes(key.into_vec()),
        (Some(name), OwnedKey::Bytes(key)) => Key::InTree(name.to_owned(), key.into_vec()),
    };
    Ok((key, value))
}

/// What an iterator over a tree shows, each key behind those that are smaller.
fn scanned(
    tree: Option<&str>,
    entries: impl Iterator<Item = Result<Entry, Error>>,
) -> Result<Vec<(Key, u64)>, String> {
    let entries: Vec<_> =
        entries.map(|entry| entry_of(tree, entry.map_err(sentence)?)).collect::<Result<_, _>>()?;
    match entries.array_windows().find(|[(key, _), (next, _)]| key >= next) {
        Some([(key, _), (next, _)]) => Err(format!("an iterator shows {next} behind {key}")),
        None => Ok(entries),
    }
}

/// A batch of writes.
fn together(store: &Store, operations: &[Operation]) -> Result<(), Error> {
    let mut batch = store.batch();
    operations.iter().try_for_each(|operation| add(store, &mut batch, operation))?;
    batch.commit().map(drop)
}

fn add(store: &Store, batch: &mut Batch, operation: &Operation) -> Result<(), Error> {
    let Some(key) = operation.keys().first().copied() else { return Ok(()) };
    let tree = tree_of(store, key)?;
    let mut batch = batch.on(&tree)?;
    match operation {
        Operation::Insert(key, value) => batch.put_if_absent(owned(key), expand(*value)),
        Operation::Update(key, value) => batch.replace(owned(key), expand(*value)),
        Operation::Upsert(key, value) => batch.put(owned(key), expand(*value)),
        Operation::PutFor(key, value) => batch.put_for(owned(key), expand(*value), LIFE),
        Operation::PutExpired(key, value) => {
            batch.put_until(owned(key), expand(*value), SystemTime::UNIX_EPOCH + BEFORE_NOW)
        }
        Operation::Fill(from, count, value) => {
            for (key, value) in filled(from, *count, *value) {
                batch.put(owned(&key), expand(value))?;
            }
            return Ok(());
        }
        Operation::Remove(key) => batch.delete(owned(key)),
        _ => return Ok(()), // A script has no others in a batch.
    }
    .map(drop)
}

/// A transaction; whether it changed anything.
fn transact(store: &Store, operation: &Operation) -> Result<bool, Error> {
    let trees: Vec<Tree> =
        operation.keys().iter().map(|key| tree_of(store, key)).collect::<Result<_, _>>()?;
    store.transaction(|tx: &mut Transaction| match (operation, &trees[..]) {
        (Operation::Move(from, to), [tree, other]) => {
            let Some(value) = tx.on(tree)?.remove(owned(from))? else { return Ok(false) };
            tx.on(other)?.put(owned(to), value)?;
            Ok(true)
        }
        (Operation::Copy(from, to), [tree, other]) => {
            let Some(value) = tx.on(tree)?.get(owned(from))? else { return Ok(false) };
            tx.on(other)?.put(owned(to), value)?;
            Ok(true)
        }
        (Operation::Claim(from, below, key, value), [tree, _, other]) => {
            let (from, below) = (owned(from), owned(below));
            let found = tx.on(tree)?.range(from.as_ref()..below.as_ref()).next().transpose()?;
            let unclaimed = found.is_none();
            if unclaimed {
                tx.on(other)?.put(owned(key), expand(*value))?;
            }
            Ok(unclaimed)
        }
        _ => Ok(false), // No other operation is a transaction.
    })
}

/// A range that is removed as one step.
fn delete_range(store: &Store, from: &Key, below: &Key) -> Result<(), String> {
    let tree = tree_of(store, from).map_err(sentence)?;
    let (from, below) = (owned(from), owned(below));
    match tree.delete_range(from.as_ref()..below.as_ref()).map_err(sentence)? {
        ..=MAX_AT_ONCE => Ok(()),
        removed => Err(format!(
            "a crash may leave some of {removed} entries; remove at most {MAX_AT_ONCE} at once"
        )),
    }
}

impl Target for Store {
    fn apply(&self, operation: &Operation) -> Result<(), String> {
        match operation {
            // What it shows is compared with all that is read otherwise.
            Operation::Scan => self.content().map(drop),
            operation => Target::answer(self, operation).map(drop),
        }
    }

    fn answer(&self, operation: &Operation) -> Result<Answer, String> {
        let tree = |key| tree_of(self, key);
        let changed = match operation {
            Operation::Insert(key, value) => {
                tree(key).and_then(|tree| tree.put_if_absent(owned(key), expand(*value)))
            }
            Operation::Update(key, value) => {
                tree(key).and_then(|tree| tree.replace(owned(key), expand(*value)))
            }
            Operation::Upsert(key, value) => {
                tree(key).and_then(|tree| tree.put(owned(key), expand(*value)))
            }
            Operation::PutFor(key, value) => {
                tree(key).and_then(|tree| tree.put_for(owned(key), expand(*value), LIFE))
            }
            Operation::PutExpired(key, value) => {
                let then = SystemTime::UNIX_EPOCH + BEFORE_NOW;
                tree(key).and_then(|tree| tree.put_until(owned(key), expand(*value), then))
            }
            Operation::Swap(key, old, new) => {
                let [old, new] = [old, new].map(|value| value.map(expand));
                tree(key).and_then(|tree| {
                    tree.compare_and_swap(owned(key), old.as_deref(), new.as_deref())
                })
            }
            Operation::Remove(key) => tree(key).and_then(|tree| tree.delete(owned(key))),
            Operation::Move(..) | Operation::Copy(..) | Operation::Claim(..) => {
                transact(self, operation)
            }
            operation => return other_answer(self, operation),
        };
        changed.map(Answer::Changed).map_err(sentence)
    }

    fn content(&self) -> Result<Content, String> {
        let mut content: Content = scanned(None, self.iter())?.into_iter().collect();
        for name in self.tree_names().map_err(sentence)? {
            let tree = self.existing_tree(&name).map_err(sentence)?;
            let tree = tree.ok_or("a name leads to no tree")?;
            content.extend(scanned(Some(&String::from_utf8_lossy(&name)), tree.iter())?);
        }
        for (key, value) in &content {
            let tree = match key.tree() {
                None => Some(self.default_tree().clone()),
                Some(name) => self.existing_tree(name).map_err(sentence)?,
            };
            let found = tree.map(|tree| tree.get(owned(key))).transpose().map_err(sentence)?;
            if found.flatten().is_none_or(|bytes| bytes != expand(*value)) {
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

/// The answer to what tells more than whether something has changed, or nothing.
fn other_answer(store: &Store, operation: &Operation) -> Result<Answer, String> {
    let value =
        |bytes: Option<Vec<u8>>| bytes.map(|bytes| value_of(&bytes)).transpose().map(Answer::Value);
    let tree = |key| tree_of(store, key);
    match operation {
        Operation::Get(key) => {
            value(tree(key).and_then(|tree| tree.get(owned(key))).map_err(sentence)?)
        }
        Operation::Take(key) => {
            value(tree(key).and_then(|tree| tree.remove(owned(key))).map_err(sentence)?)
        }
        Operation::Pop(end) => {
            let popped = match end {
                End::First => store.pop_first(),
                End::Last => store.pop_last(),
            };
            scanned(None, popped.transpose().into_iter()).map(Answer::Entries)
        }
        Operation::Scan => scanned(None, store.iter()).map(Answer::Entries),
        Operation::Snapshot => {
            let snapshot = store.snapshot().map_err(sentence)?;
            scanned(None, snapshot.iter()).map(Answer::Entries)
        }
        Operation::DeleteRange(from, below) => delete_range(store, from, below).map(done),
        Operation::Batch(operations) => together(store, operations).map(done).map_err(sentence),
        Operation::Sweep => store.remove_expired().map(|_| Answer::Done).map_err(sentence),
        Operation::DropTree(name) => store.drop_tree(name).map(|_| Answer::Done).map_err(sentence),
        Operation::Sync | Operation::Epoch => store.sync().map(done).map_err(sentence),
        Operation::Thread { operation, .. } => Target::answer(store, operation),
        other => administrative(other).map(done),
    }
}

fn done((): ()) -> Answer {
    Answer::Done
}
