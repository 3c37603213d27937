//! The family's part of docs/format.md.

use everleaf_pmem::{Field, Layout, WORD};

use super::layout::{Fixed, LeafHead, Shape, SplitLog, WorkerLog};

/// What docs/format.md shows of this family: a leaf of the tuned sizes of either tree, and the
/// lines of the anchor.
pub fn layouts() -> Vec<Layout> {
    vec![
        leaf_layout("FPTree leaf", Fixed::<true, 56, 1> { one_record: false }),
        leaf_layout("PTree leaf", Fixed::<false, 32, 1> { one_record: false }),
        SplitLog::layout(),
        WorkerLog::layout(),
    ]
}

/// The head, and of the body the places of the first two slots and the last.
fn leaf_layout<S: Shape>(name: &'static str, shape: S) -> Layout {
    let field = |name: String, index: usize, words: usize, what: &str| Field {
        name,
        kind: if words == 1 { "PCell".to_owned() } else { format!("[PCell; {words}]") },
        offset: size_of::<LeafHead>() + index * WORD,
        bytes: words * WORD,
        what: what.to_owned(),
    };
    let slots = [0, 1, shape.slots() - 1];
    let keys =
        slots.map(|slot| field(format!("key {slot}"), shape.key_index(slot), 1, "A key word."));
    let values = slots.map(|slot| {
        field(format!("value {slot}"), shape.value_index(slot), shape.value_words(), "A value.")
    });
    let mut fields: Vec<Field> =
        LeafHead::layout().fields.into_iter().chain(keys).chain(values).collect();
    fields.sort_by_key(|field| field.offset);
    Layout { name, bytes: shape.leaf_bytes() as usize, fields }
}
