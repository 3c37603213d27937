//! The family's part of docs/format.md.

use everleaf_pmem::{Field, Layout, WORD};

use super::engine::OFFER;
use super::layout::{CddsRoot, ENTRY_WORDS, Shape};

/// What docs/format.md shows of this family: a node of the default size, and the anchor.
pub fn layouts() -> Vec<Layout> {
    let shape = Shape::new(OFFER.tuned.leaf_slots);
    shape.into_iter().map(node_layout).chain([CddsRoot::layout()]).collect()
}

/// The first two slots and the last.
fn node_layout(shape: Shape) -> Layout {
    let words = [
        ("key", "A key."),
        ("start", "The first version that it holds for; 0: the slot is empty."),
        ("end", "The first version that it does not hold for."),
        ("value", "A value, or the offset of a child and its level."),
    ];
    let field = |slot: usize, word: usize| Field {
        name: format!("{} {slot}", words[word].0),
        kind: "PCell".to_owned(),
        offset: (slot * ENTRY_WORDS + word) * WORD,
        bytes: WORD,
        what: words[word].1.to_owned(),
    };
    let slots = [0, 1, shape.slots() - 1].into_iter();
    let fields = slots.flat_map(|slot| (0..ENTRY_WORDS).map(move |word| field(slot, word)));
    Layout { name: "CDDS node", bytes: shape.node_bytes() as usize, fields: fields.collect() }
}
