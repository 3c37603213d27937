//! FPTree and PTree: leaves in persistent memory, inner nodes in DRAM.
//!
//! After Oukid, Lasperas, Nica, Willhalm, Lehner: "FPTree: A Hybrid SCM-DRAM Persistent and
//! Concurrent B-Tree for Storage Class Memory", SIGMOD 2016.
//!
//! # The idea
//! What cannot be rebuilt is persistent, everything else is not: leaves are in persistent memory,
//! the inner nodes above them in DRAM, built anew when the tree is opened (*selective
//! persistence*). A leaf is not sorted; a bitmap says which of its slots are live, so that an
//! insertion writes one entry and one bit, and the p-atomic store of the bitmap is the commit point
//! of every operation. The line of the bitmap also holds a one-byte hash of each key
//! (*fingerprints*): a search reads that line, compares 56 fingerprints at once, and almost always
//! reads exactly one entry, for whose line it has asked already. Leaves come from the pool in
//! groups, so that a split rarely allocates. `PTree` is the same tree without fingerprints, its
//! keys and values in arrays of their own; it is searched key by key.
//!
//! # Costs
//! | operation | flushes | fences |
//! |---|---|---|
//! | insert | 2 (PTree 3) | 2 |
//! | update, one word | 1 | 1 |
//! | update, wider | lines of the entry + 1 | 2 |
//! | remove | 1 | 1 |
//! | split, 56 slots of 16 bytes | 6 and the lines of the moved entries, at most 14 | 2 |
//!
//! Byte-string keys whose records the tree owns add the pool's record operations
//! (`docs/trees/fptree.md` has the whole table).
//!
//! # Byte-string keys
//! Of a tree by itself the key word of an entry leads to a record of the key's bytes, which the
//! tree owns. Of a store's each entry has *one record* (`Shape::one_record`), that which its value
//! leads to and which has the key: the key word is the hash of the key, and the tree neither
//! allocates nor frees anything for an entry. The pool says which it is. What is said of records of
//! keys in the sequences of operations and in recovery is of the former only.
//!
//! # Invariants
//! * I1: a bitmap has bits within the slots of its leaf only.
//! * I2: the fingerprint of a live slot is the hash of its key (FPTree), and where entries have one
//!   record its key word is.
//! * I3: every key of a leaf is at least its lower bound and less than the lower bound of the next
//!   leaf.
//! * I4: no key is twice in a leaf.
//! * I5: the leaf of the tree with the least lower bound has the minimum, persistently; no two
//!   leaves have the same.
//! * I6: the inner nodes lead, in order, to exactly the leaves of the runs whose bitmap is not 0,
//!   and to the leftmost, whose bitmap may be 0; their separators are the leaves' lower bounds.
//! * I7: every leaf of every run is either in the tree or in the list of free leaves; the counts of
//!   the groups agree.
//! * I8: outside of operations the lower bound of a free leaf is null (byte-string keys), and a
//!   dead slot's pointer to a record of a key, in free leaves too.
//! * I9: outside of operations the micro-log is retired.
//! * I10: the number of keys is the number of live slots.
//!
//! # Deviations from the paper, and why
//! * **No persistent list of leaves, no logs for deletion.** Every leaf persists its lower bound,
//!   and the pool lists the runs that hold leaves. Recovery reads two lines of a leaf and sorts,
//!   where the paper follows the list and reads every key for the greatest. So a leaf leaves the
//!   tree by the very store that removes its last key (bitmap 0), and Algorithms 6, 7, 12 and 13
//!   with their micro-logs are gone, as are the links of the groups (10 and 11). Neighbours are
//!   found through the inner nodes.
//! * **Separators are lower bounds** (the paper: greatest keys), because they do not change when
//!   keys are removed.
//! * **One line for bitmap and fingerprints.** The paper persists them one after the other (3
//!   flushes an insertion). Stores to a line become durable in order, so fingerprint, then bitmap,
//!   then one flush suffice: 2 flushes, 2 fences.
//! * **A leaf has at most 56 slots** for that reason (the paper's concurrent tree uses 64).
//! * **Updates of one word are in place**: a p-atomic store needs no second slot (the paper always
//!   takes one, and splits a full leaf for it).
//! * **A split writes what it moves**; the paper copies the whole leaf.
//! * **Each key has a home**: a hash chooses the line of the leaf where its entry is put if there
//!   is room, and a search asks for that line together with the fingerprints. The two misses of a
//!   search, one after the other in the paper, mostly overlap.
//! * **At the right edge a split moves one key**, so that ascending keys fill leaves.
//! * **PTree has leaf groups too**; only its leaves differ.
//! * **Separators of byte strings are cut** to the shortest that separates.
//! * **8-byte pointers**: the paper's 16 bytes are not written p-atomically.
//!
//! # Errors in the printed algorithms
//! * Algorithms 2, 8, 14 and 16 go on with the old leaf after a split, also when the key belongs to
//!   the new one; 8 and 16 keep the previous slot from before the split, so an update of a moved
//!   key leaves it in both leaves. Here the target leaf and the slot are found again.
//! * Algorithm 3 resets its micro-log without persisting the reset. A later crash finds the log
//!   valid, and Algorithm 4 then copies a leaf over another that has new keys (line 9), or gives a
//!   leaf the bitmap that it had at the split (line 12). Here the reset is flushed before the next
//!   commit.
//! * Algorithm 4, line 2 returns without resetting `PNewLeaf`. If `PCurrentLeaf` was reset first,
//!   the next split that crashes before its allocation goes on with a leaf that is in the tree.
//!   Here one word makes the log valid.
//! * A split copies all key pointers into both leaves ("identical to that of fixed-size keys");
//!   Algorithm 17, line 12, looks for a dead slot's pointer in the same leaf only, so after any
//!   split and crash it deallocates keys of the sibling. Here moved pointers are made null under
//!   the log.
//! * Algorithm 16, line 16, resets the dead pointer without persisting it: when the key has been
//!   removed since, recovery frees its block once more.
//! * Algorithm 15 clears the bitmap before the micro-log of the deletion is set: a crash in between
//!   leaves an empty leaf in the list, whose "greatest key" is the least of all, out of order for
//!   the inner nodes (Algorithm 17, line 3).
//! * Algorithm 5 never clears the bitmap of a leaf that it deletes. With leaf groups, whose
//!   recovery reads all leaves of the groups (appendix B), the deleted key is back after a crash.
//!   Lines 9 and 11 (and 15) follow `PPrevLeaf`, which the first leaf has not; and the last leaf of
//!   the tree may be deleted.
//! * Algorithms 7 and 13 tell a finished unlinking from one that was not begun by `Next == PHead`,
//!   which is wrong once another deletion has moved the head on: the leaf leaks.
//! * Algorithm 8 finds the leaf twice (lines 4 and 5) and calls one slot `prevPos` and `prevSlot`.
//! * Algorithm 10 neither ends the list at the new group nor makes its bitmaps 0 before linking it:
//!   recovery walks into garbage.
//! * Algorithm 12 frees the last group of the list without moving `PGroupsListTail`, which
//!   Algorithm 10 then writes through; it is called in the place of an allocator that resets
//!   `PCurrentLeaf`, and does not, so Algorithm 7 follows a leaf of a freed group. Algorithm 9
//!   calls neither 11 nor 13.
//! * Section 4.2 conditions the expected number of probes on "the fingerprint occurs", not on "the
//!   key is there": with m keys a successful search makes 1 + (m - 1) / 512 probes, 1.107 for m =
//!   56 (by the paper's formula 1.056).
//!
//! # Map of the files
//! Of a leaf, for both trees: `layout` (every persistent byte) · `leaf` (its cells by slot) ·
//! `entry` (where the key of a slot is) · `search` `scan` `sort` `insert` `split` `update` `remove`
//! `link` `batch` (what each operation does in a leaf) · `recover` (what a crash has left in it) ·
//! `check` (I1 to I5, I8).
//!
//! Of a tree: [`serial`] (for one thread) and [`concurrent`] (for many), with the same files each ·
//! `engine` (for the table of engines) · `format` (for docs/format.md).
//!
//! Of opening, for both: `survey` (the pass over all leaves); `support::opening` goes on from
//! there.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod batch;
mod check;
pub mod concurrent;
pub mod engine;
mod entry;
mod format;
mod insert;
mod layout;
mod leaf;
mod link;
mod recover;
mod remove;

mod scan;
mod search;
pub mod serial;

mod split;
mod survey;
#[cfg(test)]
mod tests;
mod update;

#[cfg(not(test))]
pub use engine::SHIPPED;
pub use engine::{
    FPTREE, FPTREE_C, PTREE, Variant, create, engines, laboratory, offer, open, open_with,
};
pub use everleaf_tree::parameters::Parameters;
pub use format::layouts;
pub use layout::{Fixed, Flexible, LeafHead, Shape, SlotSet, SplitLog};

pub use everleaf_tree::Opening;
