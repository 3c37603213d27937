//! How the inner nodes of a tree are encoded: what the benchmarks ask for. Writes nothing.

use everleaf_index::Result;
use everleaf_pmem::{Media, WORD};
use everleaf_pool::Pool;

use super::layout::Shape;
use super::parameters::{Parameters, Variant};
use super::search::{AtOnce, Nodes, Settings};
use everleaf_tree::key::TreeKey;

/// An inner node as it is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InnerEncoding {
    /// Levels of inner nodes below it.
    pub level: u32,
    /// Its children, one more than its keys.
    pub children: usize,
    /// Bytes of a difference of keys; a node of one key has none.
    pub key_bytes: usize,
    /// Bytes of a difference of children.
    pub child_bytes: usize,
    /// How many children would need so many bytes each by itself, from 1.
    pub own_bytes: [u64; WORD],
}

/// Shows every inner node of the tree in a pool, which is open and is not changed meanwhile. Reads
/// each line once.
///
/// # Errors
/// [`IndexError::Parameter`](everleaf_index::IndexError::Parameter) if the pool has another tree,
/// [`IndexError::Corrupt`](everleaf_index::IndexError::Corrupt) or
/// [`IndexError::Pool`](everleaf_index::IndexError::Pool) if damage is met.
pub fn inner_encodings<K: TreeKey, M: Media>(
    pool: &Pool<M>,
    visit: &mut dyn FnMut(InnerEncoding),
) -> Result<()> {
    let packed = pool.format().parameters;
    let parameters = Parameters::unpack(packed, Variant::Append)
        .or_else(|_| Parameters::unpack(packed, Variant::Encoded))?;
    let settings = Settings {
        shape: Shape::LINE, // No leaf is looked at.
        encoded: false,
        at_once: AtOnce::Never,
        shadow: false,
        paper_order: parameters.paper_order,
    };
    let nodes = Nodes::<K, M>::new(pool, settings);
    let root = nodes.root()?;
    let mut to_visit = vec![(root.offset(), root.height())];
    while let Some((offset, height)) = to_visit.pop() {
        let Some(level) = height.checked_sub(1) else { continue };
        let line = nodes.decode(offset, nodes.words(offset)?)?;
        let (key_bytes, child_bytes) = (line.key_bytes(), line.child_bytes());
        let own_bytes = line.own_bytes();
        visit(InnerEncoding {
            level,
            children: line.children(),
            key_bytes,
            child_bytes,
            own_bytes,
        });
        if level > 0 {
            for child in 0..line.children() {
                to_visit.push((nodes.offset_of(line.child(child))?, level));
            }
        }
    }
    Ok(())
}
