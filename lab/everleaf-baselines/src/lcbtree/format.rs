//! The family's part of docs/format.md.

use everleaf_pmem::{Field, Layout, WORD};

use super::engine::OFFER;
use super::layout::{LINE_WORDS, LcbHead, LcbRoot, Shape};

/// What docs/format.md shows of this family: a node of the default size, the log for such nodes,
/// and the anchor.
pub fn layouts() -> Vec<Layout> {
    let shape = Shape::new(OFFER.tuned.leaf_slots);
    let of_shape = shape.into_iter().flat_map(|shape| [node_layout(shape), log_layout(shape)]);
    of_shape.chain([LcbRoot::layout()]).collect()
}

fn word(name: String, index: usize, what: &str) -> Field {
    Field {
        name,
        kind: "PCell".to_owned(),
        offset: index * WORD,
        bytes: WORD,
        what: what.to_owned(),
    }
}

/// The head, and of the body the first two elements and the last.
fn node_layout(shape: Shape) -> Layout {
    let mut fields = LcbHead::layout().fields;
    for slot in [0, 1, shape.slots() - 1] {
        let first = Shape::element_index(slot);
        fields.push(word(format!("mark {slot}"), first, "1."));
        fields.push(word(format!("key {slot}"), first + 1, "A key."));
        fields.push(word(format!("value {slot}"), first + 2, "A value, or the offset of a child."));
    }
    Layout { name: "LCB+Tree node", bytes: shape.node_bytes() as usize, fields }
}

/// The first half whole, of the second its commit word.
fn log_layout(shape: Shape) -> Layout {
    let (half, of_commit) = (shape.half_words(), "Sequence number, and words of the records.");
    let fields = vec![
        word("commit 0".to_owned(), 0, of_commit),
        word("target 0".to_owned(), 1, "Where the record goes, and its length."),
        word("word 0".to_owned(), 2, "What goes there; then the next record."),
        word(format!("last of line {}", half / LINE_WORDS - 1), half - 1, "The last of the half."),
        word("commit 1".to_owned(), half, of_commit),
    ];
    Layout { name: "LCB+Tree log", bytes: shape.log_bytes() as usize, fields }
}
