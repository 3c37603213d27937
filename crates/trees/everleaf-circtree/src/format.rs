//! The part of docs/format.md that both designs have.

use everleaf_pmem::{Field, Layout, WORD};

use super::layout::{Anchor, ChangeLog, DEFAULT_SLOTS, NodeHead, node_bytes};

/// What docs/format.md shows of this family: a node of the tuned size, and the anchor.
pub fn layouts() -> Vec<Layout> {
    let slots = DEFAULT_SLOTS as usize;
    let field = |name: String, slot: usize, word: usize, what: &str| Field {
        name,
        kind: "PCell".to_owned(),
        offset: size_of::<NodeHead>() + (2 * slot + word) * WORD,
        bytes: WORD,
        what: what.to_owned(),
    };
    let entries = [0, 1, slots - 1].into_iter().flat_map(|slot| {
        [
            field(format!("key {slot}"), slot, 0, "A key word."),
            field(format!("value {slot}"), slot, 1, "A value, or the offset of a child."),
        ]
    });
    let fields = NodeHead::layout().fields.into_iter().chain(entries).collect();
    let node = Layout { name: "Sorted node", bytes: node_bytes(slots) as usize, fields };
    vec![node, Anchor::layout(), ChangeLog::layout()]
}
