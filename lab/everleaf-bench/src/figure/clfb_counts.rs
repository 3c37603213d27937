//! How the inner nodes of clfB-trees are encoded, counted.

/// Bytes of a difference, from 1.
pub const WIDTHS: usize = 8;
/// Children of a line without an encoding: with two bytes of head, four children and three keys.
const PLAIN_CHILDREN: f64 = 4.0;

/// How the inner nodes of a tree are encoded.
#[derive(Clone, Debug, Default)]
pub struct Encodings {
    pub nodes: u64,
    pub children: u64,
    /// Nodes by bytes of a difference of children.
    pub by_child_bytes: [u64; WIDTHS],
    /// Nodes of two keys and more, by bytes of a difference of keys.
    pub by_key_bytes: [u64; WIDTHS],
    /// Children by the bytes that the difference of each needs.
    pub children_by_bytes: [u64; WIDTHS],
}

impl Encodings {
    /// Adds a node. The widest of its differences decides for all.
    pub fn add(&mut self, children: usize, key_bytes: usize, own_bytes: [u64; WIDTHS]) {
        let widest = own_bytes.iter().rposition(|count| *count > 0).unwrap_or(0);
        self.nodes += 1;
        self.children += children as u64;
        self.by_child_bytes[widest] += 1;
        self.by_key_bytes[key_bytes - 1] += u64::from(children > 2);
        self.children_by_bytes.iter_mut().zip(own_bytes).for_each(|(sum, count)| *sum += count);
    }

    /// Children of a node to those of a line without an encoding, in percent; none if there are no
    /// inner nodes.
    pub fn utilisation(&self) -> Option<f64> {
        let each = self.children as f64 / self.nodes as f64;
        (self.nodes > 0).then_some(100.0 * each / PLAIN_CHILDREN)
    }
}
