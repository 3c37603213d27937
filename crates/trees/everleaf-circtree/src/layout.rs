//! Every persistent byte of a node and of the anchor.
//!
//! ```text
//! node     line 0    header, 32 bytes: state word | next node of the level | key and edge of the
//!                    step that is under way
//!          line 1..  4, 8, 16, 32, 64, 128 or 256 entries of a key word and a value word, four a
//!                    line
//! anchor   line 0    root, and the totals that a clean shutdown leaves
//!          line 1    the log of a change of structure
//! ```
//!
//! In a leaf a value word is the key's value. In an inner node it is the offset of a child, and the
//! key word is the least key that belongs there; that of the first entry of the first node of a
//! level is 0, and a first entry's is never compared with.
//!
//! In a ring the state word says where the first entry is and how many there are. In a shifted
//! array the first entry is in slot 0 and the slot behind the last one has the key word 0; the
//! state word says how many there are too, but that is a copy, which is good for the opening of the
//! tree that made it. Whatever the other slots hold means nothing: they are *dead*.

use everleaf_pmem::{LINE, PCell, PPtr, WORD, Word, persistent};
use everleaf_pool::{Node, NodeKind};

/// Entries in a line.
pub(super) const ENTRIES_PER_LINE: usize = LINE / (2 * WORD);
/// Entries that a node may have room for.
pub(super) const SLOTS: &[u64] = &[4, 8, 16, 32, 64, 128, 256];
/// The tuned number: 512 bytes of entries.
pub(super) const DEFAULT_SLOTS: u64 = 32;
/// Levels that a tree may have.
pub(super) const MAX_LEVELS: usize = 32;

persistent! {
    /// The first line of every node. Its words become durable in the order in which they are
    /// stored.
    pub struct NodeHead {
        /// Where the entries are, and what is being done to them: the commit word of most
        /// operations.
        pub state: PCell<StateWord>,
        /// The node to the right on the same level; null: none.
        pub next: PCell<PPtr<NodeHead>>,
        /// The key that an insertion brings; means nothing without one.
        pub key: PCell,
        /// The value of the entry that an insertion moves first; means nothing without one.
        pub edge: PCell,
        /// Nothing.
        pub _reserved: [PCell; 4],
    }

    /// What is being done to the structure. A split uses the first four words, of which `new` is
    /// allocated into and `left` is stored last; a merge the others, of which `removed` is stored
    /// last and freed from.
    pub struct ChangeLog {
        /// The node that was allocated; null: none.
        pub new: PCell<PPtr<NodeHead>>,
        /// The node that is split; null: `new` is not part of a split, or not yet.
        pub left: PCell<PPtr<NodeHead>>,
        /// The node above.
        pub parent: PCell<PPtr<NodeHead>>,
        /// The key word that `new` gets in the node above.
        pub separator: PCell,
        /// The node that leaves the tree; null: none.
        pub removed: PCell<PPtr<NodeHead>>,
        /// The node that takes its entries; null: `removed` is a root.
        pub absorber: PCell<PPtr<NodeHead>>,
        /// The state of `absorber` once it has them.
        pub absorbed: PCell<StateWord>,
        /// Nothing.
        pub _reserved: PCell,
    }

    /// The index's own page of the pool.
    pub struct Anchor {
        /// The root; null before the tree is made.
        pub root: PCell<PPtr<NodeHead>>,
        /// 1: the totals are right. Stored after them, cleared when the tree is opened.
        pub closed: PCell,
        /// Number of keys.
        pub keys: PCell,
        /// Number of leaves.
        pub leaves: PCell,
        /// Number of inner nodes.
        pub inner_nodes: PCell,
        /// Which opening of a tree of shifted arrays the last one was, as an empty node of it would
        /// say; 0: none yet.
        pub session: PCell<StateWord>,
        /// Nothing.
        pub _reserved: [PCell; 2],
        /// Line 1.
        pub log: ChangeLog,
    }
}

impl Node for NodeHead {
    const KIND: NodeKind = NodeKind::new(1);
}

const _: () = {
    // The header is one line, so that what is stored first is durable first, and the entries begin
    // a line.
    assert!(size_of::<NodeHead>() == LINE && std::mem::offset_of!(NodeHead, edge) + WORD == 32);
    // The log is one line: the word that makes it valid is durable last.
    assert!(
        size_of::<ChangeLog>() == LINE
            && std::mem::offset_of!(Anchor, log) == LINE
            && size_of::<Anchor>() <= 4096
    );
    // Root and totals share a line: `closed` is durable no earlier than what it speaks of.
    assert!(std::mem::offset_of!(Anchor, inner_nodes) < LINE);
    // An entry never straddles a line.
    assert!(ENTRIES_PER_LINE == 4);
    let mut i = 0;
    while i < SLOTS.len() {
        // A ring is a power of two, whole lines, and its positions fit into the state word.
        assert!(
            SLOTS[i].is_power_of_two()
                && (SLOTS[i] as usize).is_multiple_of(ENTRIES_PER_LINE)
                && SLOTS[i] < 1 << COUNT_BITS
        );
        i += 1;
    }
};

/// What all nodes of a tree have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Entries that a node has room for, a power of two.
    pub slots: usize,
    /// How they are kept.
    pub discipline: Discipline,
}

/// How a node keeps its entries sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discipline {
    /// In a ring, whose entries move to the nearer side (`ring`).
    Ring,
    /// In a ring whose first entry stays in slot 0, so that all move to one side: the volatile twin
    /// that rings are compared with.
    Array,
    /// In an array with a terminator (`shifted`); this is which opening of the tree, from
    /// 1 on.
    Shifted { session: u32 },
}

impl Discipline {
    /// What the state words of nodes at rest are marked with; 0 where they are right whenever they
    /// were written.
    #[inline(always)]
    pub const fn session(self) -> u32 {
        match self {
            Self::Ring | Self::Array => 0,
            Self::Shifted { session } => session,
        }
    }
}

/// Bytes of a node with room for so many entries.
pub(super) const fn node_bytes(slots: usize) -> u64 {
    (size_of::<NodeHead>() + slots * 2 * WORD) as u64
}

/// A step that moves entries of a node. Up is towards greater keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShiftStep {
    /// None: all entries stand where the state says.
    Rest,
    /// An entry is inserted before position `at`; those from there on move up.
    InsertUp,
    /// The same; those before it move down.
    InsertDown,
    /// The entry at position `at` is removed; those before it move up.
    RemoveUp,
    /// The same; those after it move down.
    RemoveDown,
}

impl ShiftStep {
    const ALL: [ShiftStep; 5] = [
        ShiftStep::Rest,
        ShiftStep::InsertUp,
        ShiftStep::InsertDown,
        ShiftStep::RemoveUp,
        ShiftStep::RemoveDown,
    ];

    /// Whether an entry is inserted.
    pub const fn inserts(self) -> bool {
        matches!(self, ShiftStep::InsertUp | ShiftStep::InsertDown)
    }
}

/// What the state word of a node says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// 0: a leaf.
    pub level: u8,
    /// The slot of the first entry.
    pub base: u16,
    /// Number of entries; as it was before the step that is under way.
    pub count: u16,
    /// What is being done.
    pub step: ShiftStep,
    /// Where; 0 at rest.
    pub at: u16,
    /// A removal has moved entries, and that it is done may not be durable: the slot that it has
    /// vacated still tells recovery so.
    pub vacated: bool,
    /// Which opening of the tree has stored this, where it is only a copy of what the entries say:
    /// then all of the above is at rest from slot 0 on. Else 0.
    pub session: u32,
}

/// A state in 48 bits, and 16 bits of check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateWord(u64);

impl Word for StateWord {
    #[inline(always)]
    fn into_word(self) -> u64 {
        self.0
    }
    #[inline(always)]
    fn from_word(word: u64) -> Self {
        Self(word)
    }
}

const BASE_BITS: u32 = 8;
const COUNT_BITS: u32 = 9;
const LEVEL_BITS: u32 = 5;
const STEP_BITS: u32 = 3;
const SESSION_BITS: u32 = u32::BITS;
const CONTENT_BITS: u32 = 48;
/// In the content: this is the copy of some session.
const COPY: u64 = 1 << (CONTENT_BITS - 1);

const _: () = {
    assert!(BASE_BITS + 2 * COUNT_BITS + LEVEL_BITS + STEP_BITS + 1 < CONTENT_BITS);
    assert!(COUNT_BITS + LEVEL_BITS + SESSION_BITS < CONTENT_BITS);
    assert!(MAX_LEVELS <= 1 << LEVEL_BITS && ShiftStep::ALL.len() <= 1 << STEP_BITS);
};

#[inline(always)]
const fn sealed(content: u64) -> u64 {
    // Multiplication carries every bit of the content into the top 16; the constant keeps a word of
    // zeros from being a state.
    content
        | ((content ^ 0xc1_5c7e).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> CONTENT_BITS)
            << CONTENT_BITS
}

impl State {
    /// A node at rest.
    pub const fn at_rest(level: u8, base: u16, count: u16) -> Self {
        Self { level, base, count, step: ShiftStep::Rest, at: 0, vacated: false, session: 0 }
    }

    /// As it stands in a node.
    #[inline(always)]
    pub const fn seal(self) -> StateWord {
        if self.session != 0 {
            let content = (self.session as u64) << LEVEL_BITS | self.level as u64;
            return StateWord(sealed(COPY | content << COUNT_BITS | self.count as u64));
        }
        let mut content = self.vacated as u64;
        content = content << STEP_BITS | self.step as u64;
        content = content << LEVEL_BITS | self.level as u64;
        content = content << COUNT_BITS | self.at as u64;
        content = content << COUNT_BITS | self.count as u64;
        StateWord(sealed(content << BASE_BITS | self.base as u64))
    }

    /// With a step under way.
    pub const fn with_step(self, step: ShiftStep, at: usize) -> Self {
        Self { step, at: at as u16, vacated: false, ..self }
    }

    /// At rest, as if the step had never begun.
    pub const fn without_step(self) -> Self {
        Self::at_rest(self.level, self.base, self.count)
    }

    /// Once the step is done, in a ring of so many slots.
    #[inline(always)]
    pub const fn after_step(self, slots: usize) -> Self {
        let mask = slots as u16 - 1;
        let (base, count) = match self.step {
            ShiftStep::Rest => (self.base, self.count),
            ShiftStep::InsertUp => (self.base, self.count + 1),
            ShiftStep::InsertDown => (self.base.wrapping_sub(1) & mask, self.count + 1),
            ShiftStep::RemoveUp => (self.base.wrapping_add(1) & mask, self.count - 1),
            ShiftStep::RemoveDown => (self.base, self.count - 1),
        };
        Self::at_rest(self.level, base, count)
    }
}

impl StateWord {
    /// The session that it was stored in, 0 if it was not; none if it is damaged.
    pub fn open_session(self) -> Option<u32> {
        if self.0 == 0 { Some(0) } else { self.open(0).map(|state| state.session) }
    }

    /// What it says of a node with room for `slots` entries; none if it is damaged.
    #[inline(always)]
    pub fn open(self, slots: usize) -> Option<State> {
        let content = self.0 & ((1 << CONTENT_BITS) - 1);
        if sealed(content) != self.0 {
            return None;
        }
        let field = |shift: u32, bits: u32| (content >> shift & ((1 << bits) - 1)) as u16;
        if content & COPY != 0 {
            let session = (content & !COPY) >> (COUNT_BITS + LEVEL_BITS);
            let (level, count) = (field(COUNT_BITS, LEVEL_BITS) as u8, field(0, COUNT_BITS));
            let possible =
                session != 0 && session <= u64::from(u32::MAX) && usize::from(count) <= slots;
            return possible
                .then_some(State { session: session as u32, ..State::at_rest(level, 0, count) });
        }
        let (level_shift, step_shift) =
            (BASE_BITS + 2 * COUNT_BITS, BASE_BITS + 2 * COUNT_BITS + LEVEL_BITS);
        let state = State {
            level: field(level_shift, LEVEL_BITS) as u8,
            base: field(0, BASE_BITS),
            count: field(BASE_BITS, COUNT_BITS),
            step: *ShiftStep::ALL.get(usize::from(field(step_shift, STEP_BITS)))?,
            at: field(BASE_BITS + COUNT_BITS, COUNT_BITS),
            vacated: content >> (step_shift + STEP_BITS) & 1 != 0,
            session: 0,
        };
        let (base, count, at) =
            (usize::from(state.base), usize::from(state.count), usize::from(state.at));
        let possible = match state.step {
            ShiftStep::Rest => true,
            ShiftStep::InsertUp => count < slots && at < count,
            ShiftStep::InsertDown => count < slots && (1..=count).contains(&at),
            ShiftStep::RemoveUp => (1..count).contains(&at),
            ShiftStep::RemoveDown => at + 1 < count,
        };
        (base < slots && count <= slots && possible).then_some(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn states() -> impl Strategy<Value = (State, usize)> {
        let sizes = (
            0..SLOTS.len(),
            any::<u16>(),
            any::<u16>(),
            any::<u16>(),
            0..6usize,
            0..32u8,
            any::<u32>(),
        );
        sizes.prop_filter_map(
            "an impossible step",
            |(size, base, count, at, step, level, session)| {
                let slots = SLOTS[size] as usize;
                let (base, count) = (base % slots as u16, count % (slots as u16 + 1));
                let at = at % (count + 1);
                let state = match ShiftStep::ALL.get(step) {
                    Some(step) => State {
                        step: *step,
                        at,
                        vacated: session % 2 == 1,
                        ..State::at_rest(level, base, count)
                    },
                    None => State { session: session.max(1), ..State::at_rest(level, 0, count) },
                };
                let word = state.seal();
                word.open(slots).map(|found| {
                    assert_eq!(found, state);
                    (state, slots)
                })
            },
        )
    }

    proptest! {
        #[test]
        fn states_round_trip_and_every_flipped_bit_is_noticed(
            (state, slots) in states(),
            bit in 0..64u32,
        ) {
            let word = state.seal();
            prop_assert_eq!(StateWord::from_word(word.into_word()).open(slots), Some(state));
            prop_assert_eq!(StateWord(word.0 ^ 1 << bit).open(slots), None);
        }

        #[test]
        fn a_step_changes_the_number_of_entries_by_one((state, slots) in states()) {
            let after = state.after_step(slots);
            let change = i32::from(after.count) - i32::from(state.count);
            let expected = match state.step {
                ShiftStep::Rest => 0,
                ShiftStep::InsertUp | ShiftStep::InsertDown => 1,
                ShiftStep::RemoveUp | ShiftStep::RemoveDown => -1,
            };
            prop_assert_eq!(change, expected);
            prop_assert_eq!(after.seal().open(slots), Some(after));
        }
    }

    #[test]
    fn memory_that_was_never_written_is_no_state() {
        assert_eq!(StateWord(0).open(256), None);
        assert_eq!(StateWord(u64::MAX).open(256), None);
    }
}
