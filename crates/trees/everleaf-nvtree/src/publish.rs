//! How new leaves are written, and how the list of leaves is made to lead to them.
//!
//! The order is the same for one thread and for many. With many the leaves that go, and the one
//! whose word leads to them, belong to the caller alone.

use everleaf_index::Result;
use everleaf_pmem::{Media, PCell, PPtr, Site, planted, site};

use super::layout::{Fill, Kind, LeafHead, Mark};
use super::leaf::{Leaf, tag_of};
use super::plan::{Change, Item, Source};
use super::steps::{Done, Steps};
use everleaf_tree::key::{KeyHash, TreeKey};

/// The leaves that go: a full one, and its right sibling if it is merged with that.
#[derive(Clone, Copy)]
pub(super) struct Old<'p> {
    pub left: Leaf<'p>,
    pub right: Option<Leaf<'p>>,
}

impl<'p> Old<'p> {
    /// The last of them.
    fn last(self) -> Leaf<'p> {
        self.right.unwrap_or(self.left)
    }
}

/// S1: writes new leaves, the first `middle` items to the first one. The last leads to what
/// followed the old ones. The bound of the second, and for byte-string keys the record of a new
/// key, are in their places already.
pub(super) fn write_leaves<K: TreeKey, M: Media>(
    media: &M,
    old: Old<'_>,
    offsets: &[u64],
    middle: usize,
    items: &[Item<'_, K>],
    key: K::Ref<'_>,
    change: &Change<'_>,
) -> Result<()> {
    let last = if planted(235) { old.left } else { old.last() };
    let after = media.load(&last.head.next);
    planted!(236, media.store(&old.left.head.next, PPtr::at(offsets[0])));
    // Crash: nothing leads to them; their pointers are copies of those of leaves in the list, or
    // the only ones to records that recovery frees.
    for (number, items) in [&items[..middle], &items[middle..]].iter().enumerate() {
        let Some(offset) = offsets.get(number) else { continue };
        let leaf = Leaf::at(media.region(), *offset, old.left.shape())?;
        for (slot, item) in items.iter().enumerate() {
            match item.source {
                Source::Slot { sibling, slot: from } => {
                    let source = if sibling { old.last() } else { old.left };
                    media.store(leaf.key(slot), media.load(source.key(from)));
                    media.store(leaf.mark(slot), media.load(source.mark(from)));
                    leaf.copy_value(media, slot, source, from);
                    leaf.copy_hash(media, slot, source, from);
                }
                Source::New => write_new::<K, M>(media, old.left, leaf, slot, key, change),
            }
        }
        leaf.flush_elements(media, site!("nvtree.split.S1.elements"), 0..items.len());
        let next = offsets.get(number + 1).map_or(after, |next| PPtr::at(*next));
        media.store(&leaf.head.fill, Fill::all_live(items.len()));
        media.store(&leaf.head.next, next);
        if number == 0 {
            media.store(&leaf.head.lower_bound, media.load(&old.left.head.lower_bound));
        }
        media.flush(site!("nvtree.split.S1.head"), &leaf.head.fill);
    }
    media.fence(site!("nvtree.split.S1.fence"));
    Ok(())
}

/// Writes the element of the change to a slot of a new leaf.
fn write_new<K: TreeKey, M: Media>(
    media: &M,
    left: Leaf<'_>,
    leaf: Leaf<'_>,
    slot: usize,
    key: K::Ref<'_>,
    change: &Change<'_>,
) {
    let Change::Put { known, hash, value } = change else { return };
    match known {
        Some(known) => media.store(leaf.key(slot), media.load(left.key(*known))),
        None if K::RECORDS => {} // It is placed.
        None => media.store(leaf.key(slot), K::word(key, 0)),
    }
    media.store(leaf.mark(slot), Mark::new(Kind::Present, tag_of::<K>(*hash)));
    leaf.store_value(media, slot, value);
    leaf.store_hash(media, slot, hash.fingerprint());
}

/// S2 COMMIT: the word that leads to the first leaf that goes. Crash: the old leaves are in the
/// list, or the new ones, the change of the key with them.
pub(super) fn exchange<M: Media, S: Steps>(
    media: &M,
    word: &PCell<PPtr<LeafHead>>,
    first: u64,
    steps: &mut S,
) -> Done {
    let sites = [site!("nvtree.split.S2.link"), site!("nvtree.split.S2.fence")];
    lead_to(media, word, PPtr::at(first), sites, steps)
}

/// A leaf with one new key behind the last leaf, which is full.
pub(super) fn append_leaf<K: TreeKey, M: Media, S: Steps>(
    media: &M,
    last: Leaf<'_>,
    leaf: Leaf<'_>,
    (key, hash, value): (K::Ref<'_>, KeyHash, &[u64]),
    steps: &mut S,
) -> Done {
    // L1: the new leaf. Crash: as after S1.
    if !K::RECORDS {
        media.store(leaf.key(0), K::word(key, 0));
    }
    media.store(leaf.mark(0), Mark::new(Kind::Present, tag_of::<K>(hash)));
    leaf.store_value(media, 0, value);
    leaf.store_hash(media, 0, hash.fingerprint());
    leaf.flush_elements(media, site!("nvtree.split.L1.element"), 0..1);
    media.store(&leaf.head.fill, Fill::all_live(1));
    media.store(&leaf.head.next, PPtr::NULL);
    media.flush(site!("nvtree.split.L1.head"), &leaf.head.fill);
    media.fence(site!("nvtree.split.L1.fence"));
    // L2 COMMIT: the last leaf leads to it. Crash: the key is there or not.
    let sites = [site!("nvtree.split.L2.link"), site!("nvtree.split.L2.fence")];
    lead_to(media, &last.head.next, PPtr::at(leaf.offset()), sites, steps)
}

/// Takes a leaf out of the list; `word` is that of the leaf before.
pub(super) fn unlink<M: Media, S: Steps>(
    media: &M,
    word: &PCell<PPtr<LeafHead>>,
    leaf: Leaf<'_>,
    steps: &mut S,
) -> Done {
    if S::ANY {
        // U0: what the steps have prepared. Crash: the key is there.
        media.fence(site!("nvtree.remove.U0.fence"));
    }
    // U1 COMMIT: the leaf before leads to the one behind. Crash: the key is there, or it and its
    // leaf are not.
    let sites = [site!("nvtree.remove.U1.link"), site!("nvtree.remove.U1.fence")];
    lead_to(media, word, media.load(&leaf.head.next), sites, steps)
}

/// One p-atomic store, with the rest of the steps. Crash: the steps in any mixture with it; what
/// they have prepared tells recovery where to look.
fn lead_to<M: Media, S: Steps>(
    media: &M,
    word: &PCell<PPtr<LeafHead>>,
    target: PPtr<LeafHead>,
    [link, fence]: [Site; 2],
    steps: &mut S,
) -> Done {
    media.store(word, target);
    media.flush(link, word);
    let completed = steps.complete();
    media.fence(fence);
    Done(completed)
}
