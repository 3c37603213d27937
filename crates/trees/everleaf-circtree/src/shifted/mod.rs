//! FAST+FAIR: every node, inner ones too, is a sorted array in persistent memory, and each store of
//! a shift leaves it readable.
//!
//! After Hwang, Kim, Won, Nam: "Endurable Transient Inconsistency in Byte-Addressable Persistent
//! B+-Tree", FAST 2018; it is what the paper of Circ-Tree measures itself with.
//!
//! # The idea
//! An insertion into a sorted array moves the entries behind it, one after the other, each by two
//! stores of 8 bytes. Stores to one line become durable in their order, and a line that the shift
//! leaves is flushed before the next one is written: so a crash leaves the array as it was after
//! some store. If every one of those states can be told from the others, nothing has to be
//! announced and nothing has to be logged (*FAST*, failure-atomic shift). A split first lets the
//! new node follow the old one and then cuts the old one (*FAIR*, failure-atomic in-place
//! rebalance), so that at every moment every key is found.
//!
//! # How an array says what it holds
//! The original knows an entry from a hole by comparing value words: a hole has its left
//! neighbour's. So no two neighbours may have the same value, and no value may be 0. Here all
//! values and all keys are legal, and *keys* tell:
//!
//! * S1: keys of a node ascend, so two neighbouring slots with the same key word are one entry that
//!   is being moved. **The upper one counts; the lower one is a hole.** (A word that is the offset
//!   of a record is one entry's alone, too.)
//! * S2: **a key word 0 in any slot but the first ends the array.** No entry there can have it: a
//!   key 0, and the 0 of the first node of a level, is the least of all and in slot 0. A full array
//!   has no terminator.
//! * S3: whether an array is empty is said by the header. Going from empty to one entry and back
//!   commits there.
//!
//! Moving up, a slot gets the value first and then the key: with the key it counts, and the one
//! below is the hole. Moving down, a slot that is a hole, or becomes one, gets the key first and
//! then the value: with its upper neighbour's key it is a hole until that one gets another key.
//!
//! # Costs
//! | operation | flushes | fences |
//! |---|---|---|
//! | insert, moved and new entry come to lie in n lines | n | n |
//! | the same, where the terminator begins a line of its own | n + 1 | n + 1 |
//! | insert into an empty node | 2 | 2 |
//! | update | 1 | 1 |
//! | remove, it and the entries behind it lie in n lines | n | n |
//! | remove the only entry | 1 | 1 |
//! | split | lines of the new node and 4, and those of the entry above | 3, and those of the entry above |
//! | merge | lines of the moved entries and 3, and those of the entry above | 3, and those of the entry above |
//! | opening | 1 | 1 |
//!
//! A removal of a byte-string key adds 1 and 1, so that the header knows the record. Splits and
//! merges add the pool's allocation (4 flushes, 2 fences) or freeing (4, 3).
//!
//! # The states that a crash can leave of a node
//! With entries in slots 0 to c - 1 and the terminator in slot c:
//!
//! | step | after it a crash leaves | which is read as |
//! |---|---|---|
//! | insert, F0: 0 into key c + 1 | two terminators | the old entries: the first one counts |
//! | F1: value i into i + 1 | of the first move: a value beside the terminator; of a later one: of the hole | the old entries |
//! | F1: key i into i + 1 | keys i and i + 1 are one | the old entries: i is a hole |
//! | F2: the new value | of the hole, or beside the terminator | the old entries |
//! | F2: the new key | no hole, no terminator there | **with the new one** |
//! | Z1: first entry and terminator of an empty node | the header says empty | nothing |
//! | Z2: the header | it does not | **the one entry** |
//! | remove at i, D1: key i + 1 into i | keys i and i + 1 are one | **without the removed one**: i is a hole |
//! | D1: value i + 1 into i | of the hole | the same |
//! | D1: key i + 2 into i + 1 | keys i + 1 and i + 2 are one; i has the entry that was in i + 1 | the same |
//! | D3: 0 into key c - 1 | no hole, the terminator is in c - 1 | the same; if the last entry was removed: **without it** |
//! | X1: the header | it says empty | **nothing** |
//!
//! There is never more than one hole, in whatever order lines become durable: within a line stores
//! keep their order, and what moves between two lines is fenced before the slot that it came from
//! is written. A removal that was cut is gone on with; an insertion that was cut before its commit
//! is *undone the same way*: what is behind the hole moves down over it. So one loop is the
//! removal, the recovery of a removal and the recovery of an insertion.
//!
//! # The copy of the count
//! To search by halves one must know how many entries there are. The original stores a hint, which
//! may be wrong after a crash, and searches from the first slot on. Here the state word of the
//! header holds a copy of the count, marked with the *session*, the number of the opening of the
//! tree that stored it. It is stored whenever the count changes and flushed only where it commits
//! (Z2, X1). An operation that meets a copy of another session counts the slots, closes the hole
//! that a crash may have left, and stores a copy of this one: so recovery happens when a node is
//! first touched, reading needs no header that was flushed, and a clean shutdown flushes nothing.
//! The session's number is durable before any copy of it can be (O1).
//!
//! # Deviations from the paper, and why
//! * **Holes by keys, not by values** (S1 to S3), for the sake of repeated values and of 0.
//! * **Readers do not look at a shift that is under way.** FAST makes that possible: they would
//!   only see all entries but the one that is being written. But what they returned of that one a
//!   crash could still undo; the paper allows it (read uncommitted), this store does not. They take
//!   no lock and store nothing: they read between two looks at a version in DRAM, which changes
//!   when everything is durable. So the direction of a shift, which the original's readers need to
//!   know, does not matter here.
//! * **One line of log for a split and a merge.** Without it a crash between the split and the
//!   entry above leaves a node that only its left neighbour knows, and a crash before leaks it.
//! * **Nodes merge**; the published code has that switched off.
//! * **A thread that finds a changed node looks again from the root**; in the original it moves
//!   right. Ascending keys fill nodes.
//! * **A new node is flushed as far as it has entries**; the original flushes all of it.
//!
//! # Errors and gaps of the published code
//! * A value that is equal to its left neighbour's is taken for a hole: the entry is not found, and
//!   is lost when the node is next changed.
//! * The terminator that moves into a line of its own is to be flushed where the address of its
//!   pointer is a multiple of 64. It never is: pointers are the second words of their entries. A
//!   crash then leaves whatever was behind the last entry as entries.
//! * A removal flushes the lines that its shift leaves, and not the one in which it ends: it is not
//!   durable when it returns.
//! * A crash between a split and the insertion above is never repaired: keys are found through the
//!   neighbour for ever after. One before that leaks the new node.
//! * The header holds a pointer to a lock in the memory of the process; after a restart it leads
//!   nowhere.
//!
//! # Map of the files
//! `insert` `remove` `split` `merge` (what each operation does in a node) · `recover` (what slots
//! say, sessions). The tree around the nodes, with its threads, invariants and changes of
//! structure, is [`sorted`](super).

mod insert;
mod merge;
mod recover;
mod remove;
mod split;

pub(super) use insert::{insert_entry, terminate};
pub(super) use merge::{commit_taken, has_absorbed};
pub(super) use recover::{begin_session, end_step, resolved};
pub(super) use remove::remove_entry;
pub(super) use split::{truncate, truncate_again};
