//! A change of the entries of a leaf, and what a crash may have left of one.

use everleaf_index::Result;
use everleaf_pmem::{Media, planted, site};
use everleaf_pool::Pool;

use super::layout::{Shape, Slots};
use super::node::Node;
use everleaf_tree::key::TreeKey;

/// An entry for a place that has none.
#[derive(Clone, Copy)]
pub(super) struct Entry<'v> {
    pub place: usize,
    pub key: u64,
    pub value: &'v [u64],
}

/// What a leaf becomes.
pub(super) struct Change<'v> {
    /// The slot array.
    pub slots: Slots,
    /// The entry that comes.
    pub new: Option<Entry<'v>>,
    /// The place of the entry that goes.
    pub old: Option<usize>,
}

/// Changes the entries of a leaf.
///
/// Flushes and fences, where an entry lies in one line: 2 and 2, or 1 and 1 without a new entry;
/// with a bitmap 4 and 3, or 3 and 3.
#[inline(always)]
pub(super) fn publish<M: Media>(media: &M, leaf: Node<'_>, change: &Change<'_>) {
    if leaf.has_bitmap() {
        publish_bitmap(media, leaf, change);
    } else {
        publish_word(media, leaf, change);
    }
}

/// The slot array is one word.
fn publish_word<M: Media>(media: &M, leaf: Node<'_>, change: &Change<'_>) {
    planted!(360, media.store(leaf.array_cell(0), change.slots.word(0)));
    if let Some(Entry { place, key, value }) = change.new {
        // P1: the entry. Crash: the slot array does not name its place, its words mean nothing.
        leaf.store_entry(media, place, key, value);
        leaf.flush_entry(media, site!("wbtree.slots.P1.entry"), place);
        media.fence(site!("wbtree.slots.P1.fence"));
    }
    // P2 COMMIT: the slot array. Crash: the leaf is as before or as after.
    media.store(leaf.array_cell(0), change.slots.word(0));
    media.flush(site!("wbtree.slots.P2.array"), leaf.array_cell(0));
    media.fence(site!("wbtree.slots.P2.fence"));
}

/// The slot array is a line, and a bitmap says whether it is valid.
fn publish_bitmap<M: Media>(media: &M, leaf: Node<'_>, change: &Change<'_>) {
    // B1: the slot array is not valid. Crash: the bitmap has the entries as before, and who looks
    // at the leaf next makes the slot array of them.
    let mut bitmap = media.load(leaf.bitmap_cell());
    media.store(leaf.bitmap_cell(), bitmap.invalid());
    media.flush(site!("wbtree.bitmap.B1.flag"), leaf.bitmap_cell());
    media.fence(site!("wbtree.bitmap.B1.fence"));
    // B2: the entry, and the slot array. Crash: as B1.
    if let Some(Entry { place, key, value }) = change.new {
        leaf.store_entry(media, place, key, value);
        leaf.flush_entry(media, site!("wbtree.bitmap.B2.entry"), place);
        bitmap = bitmap.with(place);
    }
    if let Some(place) = change.old {
        bitmap = bitmap.without(place);
    }
    planted!(361, media.store(leaf.bitmap_cell(), bitmap));
    leaf.store_array(media, &change.slots);
    media.flush(site!("wbtree.bitmap.B2.array"), leaf.array_cell(0));
    media.fence(site!("wbtree.bitmap.B2.fence"));
    // B3 COMMIT: the bitmap. Crash: the leaf is as before, without a valid slot array, or as after.
    media.store(leaf.bitmap_cell(), bitmap);
    media.flush(site!("wbtree.bitmap.B3.bitmap"), leaf.bitmap_cell());
    media.fence(site!("wbtree.bitmap.B3.fence"));
}

/// Makes the slot array of the entries that the bitmap has. Threads that read may do so at the same
/// time: they store the same words.
#[cold]
pub(super) fn mend<'p, K: TreeKey, M: Media>(
    pool: &'p Pool<M>,
    shape: Shape,
    leaf: Node<'p>,
) -> Result<Node<'p>> {
    if leaf.level() > 0 {
        return Err(leaf.damaged("the slot array of an inner node is not valid"));
    }
    let media = pool.media();
    let bitmap = media.load(leaf.bitmap_cell());
    let places = (0..shape.slots()).filter(|place| bitmap.has(*place));
    let key_of = |place: usize| K::copy(pool, media.load(&leaf.entry_cells(place)[0]));
    let keyed: Result<Vec<_>> = places.map(|place| Ok((key_of(place)?, place))).collect();
    let mut keyed = keyed?;
    keyed.sort_by(|one, other| K::cmp_keys(K::borrow(&one.0), K::borrow(&other.0)));
    let slots = Slots::of(keyed.into_iter().map(|(_, place)| place));
    // M1: the slot array. Crash: it is not valid yet.
    leaf.store_array(media, &slots);
    media.flush(site!("wbtree.mend.M1.array"), leaf.array_cell(0));
    media.fence(site!("wbtree.mend.M1.fence"));
    // M2: it is valid. Not fenced: as long as it may be lost it does no harm that it is.
    media.store(leaf.bitmap_cell(), slots.bitmap());
    Node::at(media, leaf.offset(), shape)
}
