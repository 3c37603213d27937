//! Changing an entry together with what it leads to: the sequences of insertion, update and removal
//! with one step of another's before each of their two fences. The steps are prepared when nothing
//! can be refused any more.
//!
//! Those of the change, and those of the steps; 2 fences, of the last key of a leaf too.

use everleaf_index::{LinkSteps, Result};
use everleaf_pmem::Media;

use super::ConcurrentNvTree;
use super::write::Write;
use crate::steps::Linked;
use everleaf_tree::key::TreeKey;
use everleaf_tree::operations::SkipIf;

impl<K: TreeKey, M: Media> ConcurrentNvTree<K, M> {
    /// Makes `new` the value of a key, or removes it. False if there is no such key to be removed.
    pub(super) fn link_entry(
        &self,
        key: K::Ref<'_>,
        new: Option<u64>,
        steps: &mut dyn LinkSteps,
    ) -> Result<bool> {
        K::admit(key)?;
        let value = new.map(|word| [word]);
        let value = value.as_ref().map(<[u64; 1]>::as_slice);
        let skip = if new.is_some() { SkipIf::Never } else { SkipIf::Absent };
        let write = Write { key, hash: K::hash(key), value };
        Ok(self.write(&write, skip, &mut [0], &mut Linked(steps))?.is_some())
    }
}
