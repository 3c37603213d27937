//! The family's part of docs/format.md.

use everleaf_pmem::{Field, Layout, WORD};

use super::engine::TUNED;
use super::layout::{LeafHead, ListHead, Shape};

/// What docs/format.md shows of this family: a leaf of the default sizes, and the anchor.
pub fn layouts() -> Vec<Layout> {
    let sizes = TUNED;
    let shape = Shape::new(sizes.leaf_slots as usize, sizes.value_words as usize, true);
    shape.map(leaf_layout).into_iter().chain([ListHead::layout()]).collect()
}

/// The head, and of the body the first two elements and the last.
fn leaf_layout(shape: Shape) -> Layout {
    let mut fields = LeafHead::layout().fields;
    for slot in [0, 1, shape.slots() - 1] {
        for (word, name, what) in [
            (0, "mark", "1: the key is there; 2: it is removed; and a hash of the key's bytes."),
            (1, "key", "A key word."),
            (2, "value", "A value."),
        ] {
            fields.push(Field {
                name: format!("{name} {slot}"),
                kind: "PCell".to_owned(),
                offset: size_of::<LeafHead>() + (shape.element_index(slot) + word) * WORD,
                bytes: WORD,
                what: what.to_owned(),
            });
        }
    }
    Layout { name: "NV-Tree leaf", bytes: shape.leaf_bytes() as usize, fields }
}
