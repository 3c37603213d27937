//! The family's part of docs/format.md.

use everleaf_pmem::{Field, Layout, WORD};

use super::engine::{BITMAP_OFFER, SLOT_OFFER};
use super::layout::{Shape, WbAnchor};

/// What docs/format.md shows of this family: leaves of the default sizes, and the anchor.
pub fn layouts() -> Vec<Layout> {
    let slot = Shape::new(false, SLOT_OFFER.tuned.leaf_slots, 1);
    let bitmap = Shape::new(true, BITMAP_OFFER.tuned.leaf_slots, 1);
    let nodes = [("wBTree node, slot-only", slot), ("wBTree node with a bitmap", bitmap)];
    let nodes = nodes.into_iter().flat_map(|(name, shape)| Some(node_layout(name, shape?)));
    [WbAnchor::layout()].into_iter().chain(nodes).collect()
}

fn word(name: &str, index: usize, what: &str) -> Field {
    Field {
        name: name.to_owned(),
        kind: "PCell".to_owned(),
        offset: index * WORD,
        bytes: WORD,
        what: what.to_owned(),
    }
}

/// The words before the entries, the first two entries and the last.
fn node_layout(name: &'static str, shape: Shape) -> Layout {
    let mut fields =
        vec![word("slots", 0, "Entries, and the places of the first seven, by bytes.")];
    for index in 1..shape.array_words() {
        fields.push(word(&format!("slots {index}"), index, "The places of eight more."));
    }
    if shape.has_bitmap() {
        let what = "Bit 0: the slot array is valid; bit 1 + p: place p has an entry.";
        fields.push(word("bitmap", shape.level_index() - 1, what));
    }
    fields.push(word("level", shape.level_index(), "Levels above the leaves."));
    for place in [0, 1, shape.slots() - 1] {
        let first = shape.entry_index(0, place);
        fields.push(word(&format!("key {place}"), first, "A key, or where its record is."));
        let what = "A value, or the offset of a child.";
        fields.push(word(&format!("value {place}"), first + 1, what));
    }
    Layout { name, bytes: shape.node_bytes() as usize, fields }
}
