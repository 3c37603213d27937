//! How far work has come that takes long.

use std::ops::ControlFlow;

use super::entry_batches::Fetched;
use super::keyspace::Space;
use crate::Error;

/// How far long work has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "control", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Progress {
    /// Entries that are done: of trees; their names are none. A check counts what has expired and
    /// names, too.
    pub entries: u64,
    /// Entries in all, where that is known: about so many, since others write, and with names and
    /// what has expired.
    pub of_entries: Option<u64>,
    /// Bytes of their keys and values.
    pub bytes: u64,
}

impl Progress {
    pub(crate) fn of(entries: Option<u64>) -> Self {
        Self { of_entries: entries, ..Self::default() }
    }

    pub(crate) fn add(&mut self, entry: &Fetched) {
        let of_tree = Space::of_encoded(entry.key.as_ref()).is_some_and(Space::is_of_tree);
        self.entries += u64::from(of_tree);
        let key_bytes = if let crate::OwnedKey::Bytes(key) = &entry.key { key.len() } else { 8 };
        self.bytes += (key_bytes + entry.value.len()) as u64;
    }
}

/// Watches long work: called after each step of some hundred entries; `Break` ends the work
/// with [`Error::Aborted`].
pub type Watch<'w> = dyn FnMut(&Progress) -> ControlFlow<()> + 'w;

pub(crate) fn report(watch: &mut Watch<'_>, progress: &Progress) -> Result<(), Error> {
    match watch(progress) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Error::Aborted),
    }
}
