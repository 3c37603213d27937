//! What operations do, as a map tells it.

use std::collections::BTreeMap;

use crate::operation::filled;
use crate::{End, Key, Operation};

/// What an index or a store holds, named trees included: those have the keys behind all others.
pub(crate) type Content = BTreeMap<Key, u64>;

/// What an operation leaves.
pub(crate) fn model(content: &mut Content, operation: &Operation) {
    match operation {
        Operation::Insert(key, value) => drop(content.entry(key.clone()).or_insert(*value)),
        Operation::Update(key, value) => drop(content.get_mut(key).map(|old| *old = *value)),
        Operation::Upsert(key, value) => drop(content.insert(key.clone(), *value)),
        Operation::PutFor(key, value) => drop(content.insert(key.clone(), *value)),
        // An expired value is never shown, and what it replaces is gone.
        Operation::Remove(key) | Operation::Take(key) | Operation::PutExpired(key, _) => {
            content.remove(key);
        }
        Operation::Swap(key, old, new) => {
            if content.get(key) == old.as_ref() {
                put(content, key, *new);
            }
        }
        Operation::Pop(end) => {
            if let Some(key) = outermost(content, *end).cloned() {
                content.remove(&key);
            }
        }
        Operation::DeleteRange(from, below) => {
            content.retain(|key, _| !(from..below).contains(&key))
        }
        Operation::DropTree(name) => content.retain(|key, _| key.tree() != Some(name)),
        Operation::Fill(from, count, value) => content.extend(filled(from, *count, *value)),
        Operation::Create => content.clear(),
        Operation::Batch(operations) => {
            operations.iter().for_each(|operation| model(content, operation))
        }
        Operation::Move(from, to) => {
            if let Some(value) = content.remove(from) {
                content.insert(to.clone(), value);
            }
        }
        Operation::Copy(from, to) => {
            if let Some(value) = content.get(from).copied() {
                content.insert(to.clone(), value);
            }
        }
        Operation::Claim(from, below, key, value) => {
            if is_unclaimed(content, from, below) {
                content.insert(key.clone(), *value);
            }
        }
        Operation::Thread { operation, .. } => model(content, operation),
        Operation::Get(_)
        | Operation::Scan
        | Operation::Snapshot
        | Operation::Sweep
        | Operation::Sync
        | Operation::Epoch
        | Operation::Crash
        | Operation::Reopen
        | Operation::Close
        | Operation::Open
        | Operation::Refused(_) => {}
    }
}

fn put(content: &mut Content, key: &Key, value: Option<u64>) {
    match value {
        Some(value) => content.insert(key.clone(), value),
        None => content.remove(key),
    };
}

/// The entries of the tree without a name.
pub(crate) fn unnamed(content: &Content) -> impl DoubleEndedIterator<Item = (&Key, &u64)> {
    content.iter().filter(|(key, _)| key.tree().is_none())
}

/// The key at one end of that tree.
pub(crate) fn outermost(content: &Content, end: End) -> Option<&Key> {
    let mut keys = unnamed(content).map(|(key, _)| key);
    match end {
        End::First => keys.next(),
        End::Last => keys.next_back(),
    }
}

/// Whether there is no key from one on and below another.
pub(crate) fn is_unclaimed(content: &Content, from: &Key, below: &Key) -> bool {
    content.range(from..).next().is_none_or(|(key, _)| key >= below)
}

pub(crate) fn show<'c>(content: impl IntoIterator<Item = (&'c Key, &'c u64)>) -> String {
    let entries: Vec<String> =
        content.into_iter().map(|(key, value)| format!("{key}={value}")).collect();
    format!("{{{}}}", entries.join(" "))
}
