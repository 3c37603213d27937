//! What trees count besides barriers.

/// An exact event of an index that a media which counts adds up and every other media ignores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Counter {
    /// A key in a leaf was compared with the key asked for.
    LeafProbes,
    /// An entry was moved within its node.
    EntriesShifted,
    /// A leaf was split.
    LeafSplits,
    /// An inner node was split.
    InnerSplits,
    /// A node was copied to a log before it was changed.
    NodesLogged,
    /// A pointer could not be changed by one store, since others are differences to it: the node
    /// was copied.
    CascadesByBase,
    /// The same, since the new pointer needs more bytes.
    CascadesByWidth,
    /// The same, since its bytes that change lie in two words.
    CascadesByWords,
    /// A block was taken from the pool.
    Allocations,
}

impl Counter {
    /// All of them, in the order of their discriminants.
    pub const ALL: [Counter; 9] = [
        Counter::LeafProbes,
        Counter::EntriesShifted,
        Counter::LeafSplits,
        Counter::InnerSplits,
        Counter::NodesLogged,
        Counter::CascadesByBase,
        Counter::CascadesByWidth,
        Counter::CascadesByWords,
        Counter::Allocations,
    ];
}
