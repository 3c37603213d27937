//! Opening: the inner nodes are followed from the root, the one that a crash has cut is restored,
//! and every node that is not reached is free.
//!
//! | crash state | found as | action |
//! |---|---|---|
//! | creation, before its end | no root | an empty leaf becomes it |
//! | insertion, removal, update; before P2, R2, U2 are durable | the old entry | none |
//! | split or last key of a leaf, before P2, A2, D2 are durable | nodes outside the tree | none: they are free |
//! | a copy of a line, before S2 is durable | a line outside the tree | none: it is free |
//! | a line being overwritten, before its commit | a line that is not valid | the log has it |
//! | publication, after its commit | the new tree | none: the old nodes are free |
//! | byte-string keys: a record in the anchor that is not in the tree | the same | it is freed |
//!
//! Every action may be cut by a crash and is then done again by the next recovery. The log stays as
//! it is until the line is durable; a record is freed and forgotten in one moment.

use std::sync::Arc;

use everleaf_index::{IndexError, Result};
use everleaf_pmem::{Line, Media, planted, site};
use everleaf_pool::{Pool, Shutdown, Worker};

use super::ClfTree;
use super::encode::{Bases, Encoded, Kind, Overwritten, Words, encode};
use super::layout::{LEAVES, LINES, LiveSet, Root};
use super::publish::log_offset;
use super::scan::Content;
use super::search::{Nodes, Settings};
use super::space::Space;
use everleaf_tree::fresh::require_fresh;
use everleaf_tree::key::TreeKey;

impl<K: TreeKey, M: Media> ClfTree<K, M> {
    /// Opens what the pool holds; an empty tree if it is fresh.
    ///
    /// # Errors
    /// [`IndexError::Corrupt`] or [`IndexError::Pool`] if damage is met, or a fresh pool has no
    /// room for one run of leaves.
    pub(super) fn open(
        pool: &Arc<Pool<M>>,
        settings: Settings,
        group_bytes: u64,
        shutdown: Shutdown,
    ) -> Result<Self> {
        let mut worker = pool.worker()?;
        let nodes = Nodes::<K, M>::new(pool, settings);
        let space = |kind, node_bytes| -> Result<Space> {
            Ok(Space::new(kind, &pool.runs(kind)?, node_bytes, group_bytes))
        };
        let mut leaves = space(LEAVES, settings.shape.leaf_bytes())?;
        let mut lines = space(LINES, size_of::<Words>() as u64)?;
        if nodes.root()?.is_null() {
            require_fresh(pool)?;
            let leaf = leaves.take(&mut worker, 0)?;
            make_first(nodes, leaf)?;
            return Ok(Self {
                pool: Arc::clone(pool),
                worker,
                leaves,
                lines,
                settings,
                keys: 0,
                of: Default::default(),
            });
        }
        let reached = Reached::follow(nodes, &mut leaves, &mut lines)?;
        if shutdown == Shutdown::Crash {
            settle(nodes, &mut worker, reached.has_separator)?;
        }
        let keys = reached.keys;
        Ok(Self {
            pool: Arc::clone(pool),
            worker,
            leaves,
            lines,
            settings,
            keys,
            of: Default::default(),
        })
    }
}

/// Makes an empty leaf the root of a fresh pool.
fn make_first<K: TreeKey, M: Media>(nodes: Nodes<'_, K, M>, offset: u64) -> Result<()> {
    let (media, anchor, leaf) = (nodes.media(), nodes.anchor()?, nodes.leaf(offset)?);
    // R1: the leaf. Crash: nothing leads to it.
    match encode(&[], &[], Bases::default(), Kind::Leaf).filter(|_| nodes.settings.encoded) {
        Some(words) => {
            let line = nodes.leaf_line(offset)?;
            line.0.iter().zip(words).for_each(|(cell, word)| media.store(cell, word));
        }
        None => leaf.store_all_live(media, LiveSet::default()),
    }
    media.flush(site!("clftree.recover.R1.leaf"), leaf.live_cell(0));
    media.fence(site!("clftree.recover.R1.fence"));
    // R2 COMMIT: it is the root. Crash: it is, or another becomes it.
    media.store(&anchor.root, Root::new(offset, 0));
    media.flush(site!("clftree.recover.R2.root"), &anchor.root);
    media.fence(site!("clftree.recover.R2.fence"));
    Ok(())
}

/// What the root leads to.
struct Reached {
    keys: u64,
    /// Whether the record of a separator that the anchor has is in the tree.
    has_separator: bool,
}

impl Reached {
    /// Follows the inner nodes from the root. No node is reached twice, so there are as many steps
    /// as nodes.
    fn follow<K: TreeKey, M: Media>(
        nodes: Nodes<'_, K, M>,
        leaves: &mut Space,
        lines: &mut Space,
    ) -> Result<Self> {
        let (media, root) = (nodes.media(), nodes.root()?);
        let doubted = media.load(&nodes.anchor()?.separator).offset();
        let mut reached = Self { keys: 0, has_separator: false };
        let mut restored = false;
        let mut to_visit = vec![(root.offset(), root.height())];
        while let Some((offset, height)) = to_visit.pop() {
            if height == 0 {
                leaves.reach(offset)?;
                if nodes.settings.encoded {
                    mend(nodes, nodes.leaf_line(offset)?, (offset, Kind::Leaf), &mut restored)?;
                }
                reached.keys += Content::of(nodes, nodes.leaf(offset)?)?.count() as u64;
                continue;
            }
            lines.reach(offset)?;
            let inner = (offset, Nodes::<K, M>::INNER);
            let words = mend(nodes, nodes.line(offset)?, inner, &mut restored)?;
            let line = nodes.decode(offset, words)?;
            reached.has_separator |= (0..line.keys()).any(|key| line.key(key) == doubted);
            for child in (0..line.children()).rev() {
                to_visit.push((nodes.offset_of(line.child(child))?, height - 1));
            }
        }
        Ok(reached)
    }
}

/// The words of a line of this kind, which is restored from the log if a crash has cut it. That
/// can be one of all.
fn mend<K: TreeKey, M: Media>(
    nodes: Nodes<'_, K, M>,
    line: &Line,
    (offset, kind): (u64, Kind),
    restored: &mut bool,
) -> Result<Words> {
    let (media, anchor) = (nodes.media(), nodes.anchor()?);
    let words_of = |line: &Line| -> Words { std::array::from_fn(|at| media.load(&line.0[at])) };
    let words = words_of(line);
    let Some(overwritten) = Overwritten::from_word(words[0]) else { return Ok(words) };
    if std::mem::replace(restored, true) {
        let what = "two nodes were left in the middle of a change";
        return Err(IndexError::Corrupt { offset, what });
    }
    let words = words_of(&anchor.log);
    let is_log = overwritten.log() == log_offset(nodes, anchor);
    if !is_log || Encoded::new(words, kind).is_none() {
        let what = "a node was left in the middle of a change, and its log cannot be read";
        return Err(IndexError::Corrupt { offset, what });
    }
    // L1: all words but the first, which says still that the log has them. Crash: done again.
    planted!(262, media.store(&line.0[0], words[0]));
    for (cell, word) in line.0.iter().zip(words).skip(1 + usize::from(planted(263))) {
        media.store(cell, word);
    }
    media.order(site!("clftree.recover.L1.order"));
    // L2: the first word. Durable before the log is written again.
    media.store(&line.0[0], words[0]);
    media.flush(site!("clftree.recover.L2.line"), &line.0[0]);
    media.fence(site!("clftree.recover.L2.fence"));
    Ok(words)
}

/// Frees the records that the anchor has and the tree has not.
fn settle<K: TreeKey, M: Media>(
    nodes: Nodes<'_, K, M>,
    worker: &mut Worker<M>,
    has_separator: bool,
) -> Result<()> {
    if !K::RECORDS {
        return Ok(());
    }
    let (media, anchor) = (nodes.media(), nodes.anchor()?);
    let record = media.load(&anchor.key).offset();
    if record != 0 && nodes.owns_keys() {
        let key = K::copy(nodes.pool, record)?;
        let key = K::borrow(&key);
        let found = nodes.search(key, K::hash(key))?;
        let held = found.slot.map(|slot| found.leaf.key_of::<K, M>(media, slot));
        if held != Some(record) || planted(265) {
            K::discard(worker, anchor.key.as_word())?;
        }
    }
    if !has_separator && !planted(264) {
        K::discard(worker, anchor.separator.as_word())?;
    }
    Ok(())
}
