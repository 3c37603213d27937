//! Removing a key: its live bit goes off. With the last key of a leaf the leaf leaves the tree
//! instead: its parent is published without it. The tree's only leaf stays, empty.
//!
//! 1 flush, 1 fence; with steps of a store 2 fences. The last key: see `publish`. Byte-string keys:
//! 1 flush more, and the records are freed.

use everleaf_index::Result;
use everleaf_pmem::{Media, PPtr, planted, site};

use super::ClfTree;
use super::layout::LiveSet;
use super::leaf::Leaf;
use super::parents::Plan;
use super::publish::publish;
use super::search::Nodes;
use everleaf_tree::key::TreeKey;
use everleaf_tree::steps::Steps;

impl<K: TreeKey, M: Media> ClfTree<K, M> {
    /// Removes a key; the value that it had.
    #[inline(always)]
    pub(super) fn remove(&mut self, key: K::Ref<'_>, steps: &mut Steps<'_>) -> Result<Option<u64>> {
        if self.settings.encoded {
            return self.remove_encoded(key, steps);
        }
        let nodes = Nodes::<K, M>::new(&self.pool, self.settings);
        let found = nodes.search(key, K::hash(key))?;
        let Some(slot) = found.slot else { return Ok(None) };
        let old = nodes.media().load(found.leaf.value(slot));
        if found.live.count() == 1 && nodes.root()?.height() > 0 {
            self.remove_last(key, slot, old, steps)?;
        } else {
            clear(nodes, found.leaf, found.live, slot, old, steps)?;
            self.keys = self.keys.saturating_sub(1);
            self.discard_key()?;
        }
        Ok(Some(old))
    }

    /// Frees the record of the key that was removed, if it has one of its own.
    #[inline(always)]
    fn discard_key(&mut self) -> Result<()> {
        let nodes = Nodes::<K, M>::new(&self.pool, self.settings);
        if !nodes.owns_keys() {
            return Ok(());
        }
        K::discard(&mut self.worker, nodes.anchor()?.key.as_word())
    }

    /// The same from an encoded leaf: it is published without the entry.
    fn remove_encoded(&mut self, key: K::Ref<'_>, steps: &mut Steps<'_>) -> Result<Option<u64>> {
        let nodes = Nodes::<K, M>::new(&self.pool, self.settings);
        let leaf = nodes.leaf_of(key)?;
        let (_, line) = nodes.decode_leaf(leaf)?;
        let Ok(slot) = nodes.place_in(&line, key)? else { return Ok(None) };
        let old = line.child(slot);
        if line.keys() == 1 && nodes.root()?.height() > 0 {
            self.remove_last(key, slot, old, steps)?;
        } else {
            self.take_out(key, slot, old, steps)?;
            self.keys = self.keys.saturating_sub(1);
        }
        Ok(Some(old))
    }

    /// Removes the last key of a leaf.
    #[cold]
    fn remove_last(
        &mut self,
        key: K::Ref<'_>,
        slot: usize,
        old: u64,
        steps: &mut Steps<'_>,
    ) -> Result<()> {
        let pool = std::sync::Arc::clone(&self.pool);
        let nodes = Nodes::<K, M>::new(&pool, self.settings);
        let anchor = nodes.anchor()?;
        let (path, leaf) = nodes.path_to(key)?;
        let plan = Plan::to_remove(nodes, &mut self.lines, &mut self.worker, &path)?;
        let Some((commit, plan)) = plan.and_then(|plan| Some((plan.commit?, plan))) else {
            match self.settings.encoded {
                true => self.take_out(key, slot, old, steps)?,
                false => clear(nodes, leaf, leaf.live(nodes.media())?, slot, old, steps)?,
            }
            self.keys = self.keys.saturating_sub(1);
            return self.discard_key();
        };
        planted!(267, self.leaves.give_back(leaf.offset(), &mut self.worker)?);
        // D1: where recovery looks for the records of the key and of the separator. Crash: both are
        // in the tree.
        let doubted =
            doubt(nodes, leaf, slot, plan.separator).and_then(|()| steps.prepare(Some(old)));
        let plan = plan.unless_refused(doubted, &mut self.lines, &mut self.worker)?;
        // The copies, if lines are copied. Crash: nothing leads to them.
        plan.write_fresh(nodes, site!("clftree.remove.D1.line"))?;
        // D2 COMMIT: the inner nodes lead no longer to the leaf. Crash: the key is there, or it and
        // the leaf are not.
        let doubted = nodes.owns_keys() || K::RECORDS && plan.separator.is_some();
        let flushed = doubted || !plan.fresh.is_empty();
        publish(nodes, commit, flushed, nodes.owns_keys(), steps)?;
        self.keys = self.keys.saturating_sub(1);
        // D3: the records. Crash: recovery does not find them in the tree and frees them.
        self.discard_key()?;
        K::discard(&mut self.worker, anchor.separator.as_word())?;
        self.leaves.give_back(leaf.offset(), &mut self.worker)?;
        plan.end(nodes.media(), &mut self.lines, &mut self.worker)
    }
}

/// Makes a live slot free. If this fails nothing has changed.
#[inline(always)]
fn clear<K: TreeKey, M: Media>(
    nodes: Nodes<'_, K, M>,
    leaf: Leaf<'_>,
    live: LiveSet,
    slot: usize,
    old: u64,
    steps: &mut Steps<'_>,
) -> Result<()> {
    let media = nodes.media();
    // R1: where recovery looks for the record of the key, and what the steps prepare. Crash: the
    // key is there.
    doubt(nodes, leaf, slot, None)?;
    steps.prepare(Some(old))?;
    if nodes.owns_keys() || steps.take_part() {
        media.fence(site!("clftree.remove.R1.fence"));
    }
    // R2 COMMIT: the live bit. Crash: the key is there or not; its record is freed next, or by
    // recovery.
    leaf.store_live(media, live.without(slot), slot);
    media.flush(site!("clftree.remove.R2.live"), leaf.live_cell(slot));
    steps.complete();
    if !nodes.owns_keys() {
        // Else the freeing fences before it changes anything.
        media.fence(site!("clftree.remove.R2.fence"));
    }
    Ok(())
}

/// Notes the records that the key in a slot and a separator have, of their own, as about to leave
/// the tree. A flush if there are any; no fence.
#[inline(always)]
fn doubt<K: TreeKey, M: Media>(
    nodes: Nodes<'_, K, M>,
    leaf: Leaf<'_>,
    slot: usize,
    separator: Option<u64>,
) -> Result<()> {
    let separator = separator.filter(|_| K::RECORDS);
    if !nodes.owns_keys() && separator.is_none() {
        return Ok(());
    }
    let (media, anchor) = (nodes.media(), nodes.anchor()?);
    if nodes.owns_keys() {
        media.store(&anchor.key, PPtr::at(leaf.key_of::<K, M>(media, slot)));
    }
    if let Some(separator) = separator {
        media.store(&anchor.separator, PPtr::at(separator));
    }
    media.flush(site!("clftree.remove.R1.records"), &anchor.key);
    Ok(())
}
