//! Circ-Tree: every node, inner ones too, is a sorted ring in persistent memory.
//!
//! After Wang, Brihadiswarn, Jiang, Chattopadhyay: "Circ-Tree: A B+-Tree Variant with Circular
//! Design for Persistent Memory", 2020.
//!
//! # The idea
//! Entries of a node are sorted, so a search reads few lines and a scan none in vain; but an
//! insertion into an array moves half of it. A *ring* has no fixed beginning: its first entry
//! stands in any slot, and an insertion or removal moves the entries on the side where there are
//! fewer, a quarter on average, and none at either end. Where the first entry is and how many there
//! are is one word, stored p-atomically. The whole tree is persistent: opening it reads the root's
//! address and nothing else.
//!
//! # Costs
//! | operation | flushes | fences |
//! |---|---|---|
//! | insert at an end of a node | 2 | 2 |
//! | insert elsewhere, moved and new entry come to lie in n lines | n + 1 | n + 1 |
//! | update | 1 | 1 |
//! | remove at an end | 1 | 1 |
//! | remove elsewhere, entries move into n lines | n + 1 | n + 1 |
//! | split | lines of the new node and 3, and those of the entry above | 2, and those of the entry above |
//! | merge | lines of the moved entries and 2, and those of the entry above | 2, and those of the entry above |
//!
//! Splits and merges add the pool's allocation (4 flushes, 2 fences) or freeing (4, 3).
//!
//! # The states that a crash can leave of a node
//! The paper tells by values that occur twice and by NULLs where a crash has interrupted a shift.
//! Here every key and value is legal, and values repeat. So a shift is *announced*: the header's
//! line gets the new key, the value at the edge, and then the state word with the step and its
//! position, is flushed and fenced, and *that the step is done is stored, but not flushed*: the
//! announcement stays true after the fact, because the entries themselves tell how far the step
//! came. That costs what the paper's flush of the header costs. Keys of a node differ, so the one
//! pair of neighbouring slots with the same key is the last whole move (`shift` has the proof).
//!
//! | step | after it a crash leaves | which is recognised by | and is |
//! |---|---|---|---|
//! | insert, nothing yet | the old state | rest | absent |
//! | P1 announced | the old entries | step; no slot pair of the step has one key; or the first pair does, by chance: its value is in `edge` | absent |
//! | P2 k-th move, value only | moved: k - 1; the source of the k-th is whole | step; pair k - 1 | absent |
//! | P2 k-th move | moved: k; its source may have the next value | step; pair k; the destination counts | absent |
//! | P3 new value only | all moved; the hole has its old key | step; the last pair | absent |
//! | P3 new key | the new entry | step; the hole has the announced key | **present** |
//! | P4 rest | the new entry | rest | present |
//! | E0 (after a removal), E1 at an end | the old entries; a dead slot has changed | rest | absent |
//! | E2 | one entry more | rest | **present** |
//! | remove, P1 announced | the old entries, or the removed one with a wrong value | step; no pair | **absent** |
//! | P2 k-th move | moved: k | step; pair k | absent |
//! | P2 last move | all moved; the vacated slot has its old key | step; the last pair | absent |
//! | P3 rest | one entry less | rest | absent |
//! | E1 at an end | one entry less | rest | **absent** |
//!
//! Lines become durable apart: within a step a line that has been left is flushed and fenced before
//! the next one is stored to, so at any time one line only is between two states, and within it
//! stores keep their order. While an end of a step is not durable the header may say *announced*
//! again after a crash. Then recovery must still read what it would have read right after the step:
//! of an insertion it looks at the hole's key, of a removal at the vacated slot. Both stay until
//! the header's line is flushed: every operation that moves entries or changes a header flushes it
//! first, in the same flush; one that writes into a dead slot beside the entries asks the state
//! word whether it has been vacated so (E0). Updates change values, and recovery compares keys.
//!
//! An almost full node has one dead slot, beside both ends: a step moves entries into it from one
//! side, and reads it on no other. A full one is split before anything is moved. What a crash
//! leaves of splits, merges and the two changes of the root is listed in `recover` of
//! [`sorted`](super).
//!
//! # Deviations from the paper, and why
//! * **The announcement** stands in for duplicates and NULLs; nothing is cleared, so a removal at
//!   an end is one store of one word.
//! * **Header and entries are one block**, so that both can be asked for at once; the paper's
//!   header points to its array. The header takes 32 bytes of a line. Nodes of 512 bytes fill the
//!   pool's blocks to 98 percent, of 1024 to 80, of 2048 and 4096 to 52.
//! * **No lock in the header**: see the errors.
//! * **Binary search** in the contiguous part (the paper: linear; `circtree-ls` has that, from the
//!   first entry on).
//! * **Nodes are split before the insertion**, all full ones on the way from the top down, so that
//!   one line of log suffices. At the right edge one entry moves: ascending keys fill nodes.
//! * **The left node takes the entries of the right one** in a merge (the paper: the other way
//!   round). They go into dead slots, and the node before the left one need not be found.
//! * **Nodes merge below a quarter** if they fit into three quarters together, or one is empty (the
//!   paper: below a half, if they fit): so that an insertion after a merge does not split again.
//! * **A thread that finds a changed node looks again from the root** (the paper: it moves right;
//!   see the errors).
//! * **Recovery happens when a node is first touched**, and changes of structure are ended from
//!   their log; after a crash one pass touches every node, by its state word, to count.
//!
//! # Errors and gaps in the paper
//! * Algorithm 1 adds a key that is present a second time, and compares with a dead slot where a
//!   node is empty (line 5).
//! * A pair is two stores. Between them an entry has its own key and its neighbour's value;
//!   shifting back (section 5.5, case 1a) copies that on.
//! * Case 1a takes any non-NULL value beside the base for a sign of a shift to the left: in an
//!   almost full node the slot beside the base is also the one behind the last entry, and a shift
//!   to the right has filled it.
//! * Case 2 (deletion) expects one value less than the header counts. While a deletion shifts,
//!   nothing is NULL yet and the numbers agree: a deletion that was cut in its shift is in neither
//!   case, with a value twice and the removed key still there.
//! * Moved values are recognised by being different, and inner nodes by pointers being different; a
//!   split's "duplicate valid values in two siblings" (case 3) is an ordinary state of ordinary
//!   data.
//! * Section 5.4 lets a waiting thread compare its key with the smallest key of the right sibling.
//!   Once that has been removed, a key between it and the separator is put into the left node,
//!   where no search looks for it.
//! * The lock is in the persistent header: it costs a store to a line that is about to be flushed,
//!   and recovery has to visit every node to clear it.
//! * A merge "under the same parental IN" detaches the left node from the list; the node before it,
//!   in which that is stored, may be under another parent, and is not locked.
//!
//! # Volatile twins
//! The same code on the media `Dram`, where flushes and fences are nothing: `volatile-circ`, and
//! `volatile-std`, whose nodes are arrays, that is rings whose entries all move to one side.
//!
//! # Map of the files
//! `insert` `remove` `split` `merge` (what each operation does in a node) · `shift` (the moves of a
//! step, and what tells how far they came) · `recover` (crash states of a node). The tree around
//! the nodes, with its threads, invariants and changes of structure, is [`sorted`](super).

mod insert;
mod merge;
mod recover;
mod remove;
mod shift;
mod split;

pub(super) use insert::insert_entry;
pub(super) use merge::open_dead_slots;
pub(super) use recover::{end_step, resolved};
pub(super) use remove::remove_entry;
pub(super) use split::{truncate, truncate_again};
