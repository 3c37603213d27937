//! The family's part of docs/format.md.

use everleaf_pmem::{Field, LINE, Layout, WORD};

use super::layout::{ClfAnchor, Shape};
use super::parameters::Parameters;

/// What docs/format.md shows of this family: a leaf of the default size, an encoded leaf, an inner
/// node, the anchor.
pub fn layouts() -> Vec<Layout> {
    let shape = Shape::new(Parameters::default().leaf_slots);
    let lines = [encoded_leaf_layout(), inner_layout(), ClfAnchor::layout()];
    shape.map(leaf_layout).into_iter().chain(lines).collect()
}

fn field(name: String, kind: &str, offset: usize, bytes: usize, what: &str) -> Field {
    Field { name, kind: kind.to_owned(), offset, bytes, what: what.to_owned() }
}

/// The head, and of the entries the first two and the last.
fn leaf_layout(shape: Shape) -> Layout {
    let live = "Bit i: slot i is live. The commit word of insertions and removals.";
    let mut fields = vec![
        field("live".to_owned(), "PCell", 0, WORD, live),
        field("free".to_owned(), "PCell", WORD, WORD, "Nothing."),
    ];
    for slot in [0, 1, shape.slots() - 1] {
        let at = shape.entry_index(slot) * WORD;
        let key = "A key, the record of one with 16 bits of a hash, or the hash of one.";
        fields.push(field(format!("key {slot}"), "PCell", at, WORD, key));
        fields.push(field(format!("value {slot}"), "PCell", at + WORD, WORD, "A value."));
    }
    Layout { name: "clfB-tree leaf", bytes: shape.leaf_bytes() as usize, fields }
}

/// Bytes, which are packed into words.
fn bytes(name: &str, at: usize, bytes: usize, what: &str) -> Field {
    field(name.to_owned(), "bytes", at, bytes, what)
}

/// The bytes of an encoded leaf.
fn encoded_leaf_layout() -> Layout {
    let fields = vec![
        bytes(
            "kind",
            0,
            1,
            "Bit 0: valid; bit 1: 0; bit 2: the base of values is not a value; the rest: how many \
             entries. Not valid: as of an inner node.",
        ),
        bytes(
            "widths",
            1,
            1,
            "Bytes of a difference of keys, less 1; 8: a leaf; 16 times those of values, less 1.",
        ),
        bytes("key base", 2, WORD, "The first key."),
        bytes("value base", 10, WORD, "The first value, or a word near to all."),
        bytes("differences", 18, LINE - 18, "Of keys to their base, then of values to theirs."),
    ];
    Layout { name: "clfB-tree encoded leaf", bytes: LINE, fields }
}

/// The bytes of an inner node.
fn inner_layout() -> Layout {
    let fields = vec![
        bytes(
            "kind",
            0,
            1,
            "Bit 0: valid; bit 1: the base of keys is not a key; bit 2: that of children not a \
             child; the rest: how many keys. Not valid: the other seven bytes of the word say \
             where the log is.",
        ),
        bytes("widths", 1, 1, "Bytes of a difference of keys, less 1; 16 times that of children."),
        bytes("key base", 2, WORD, "The first key, or a word near to all."),
        bytes("child base", 10, WORD, "The first child, or a line near to all."),
        bytes("differences", 18, LINE - 18, "Of keys to their base, then of children to theirs."),
    ];
    Layout { name: "clfB-tree inner node", bytes: LINE, fields }
}
