//! Sizes of nodes, fixed when a pool is created: which ones are chosen, which ones an engine has on
//! offer, and how they stand in the header of a pool.

use everleaf_index::{IndexError, Result};

/// The unit in which the pool gives memory for groups of leaves, in bytes.
pub const GROUP_UNIT: u64 = 4096;
/// The largest group of leaves, in bytes.
pub const MAX_GROUP_BYTES: u64 = 1 << 30;

/// Sizes of an engine's nodes. What is not set is the engine's own default (its tuned size).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct EngineParameters {
    /// Entries in a leaf; in any node where all nodes are alike (Circ-Tree, FAST+FAIR).
    pub leaf_slots: Option<u32>,
    /// Keys in an inner node.
    pub inner_keys: Option<u32>,
    /// Bytes of persistent memory that are taken from the pool at a time for leaves.
    pub group_bytes: Option<u64>,
    /// Whether the pool may rely on lines that are written whole or not at all, as no processor
    /// documents it: the assumption `atomic-line`.
    pub atomic_line: bool,
    /// Whether the tree does as the engine's paper does where that is worse, for comparisons with
    /// its numbers: a clfB-tree flushes as much, leaves of an NV-Tree have no hashes.
    pub paper_order: bool,
    /// Whether a redo log has the ranges of a node that change, and not the whole node.
    pub log_ranges: bool,
    /// Whether each value stands in a buffer of its own, as in the paper of Durable Masstree, for
    /// comparisons with its numbers.
    pub buffers: bool,
}

impl EngineParameters {
    /// Name of [`leaf_slots`](Self::leaf_slots).
    pub const LEAF_SLOTS: &'static str = "leaf-slots";
    /// Name of [`inner_keys`](Self::inner_keys).
    pub const INNER_KEYS: &'static str = "inner-keys";
    /// Name of [`group_bytes`](Self::group_bytes).
    pub const GROUP_BYTES: &'static str = "group-bytes";

    /// Name of [`atomic_line`](Self::atomic_line), and of other assumptions to come.
    pub const ASSUME: &'static str = "assume";
    /// Name of [`paper_order`](Self::paper_order).
    pub const PAPER_ORDER: &'static str = "paper-order";
    /// Name of [`log_ranges`](Self::log_ranges).
    pub const LOG_RANGES: &'static str = "log-ranges";
    /// Name of [`buffers`](Self::buffers).
    pub const BUFFERS: &'static str = "buffers";

    /// Sets the entries in a leaf.
    #[must_use]
    pub fn leaf_slots(mut self, slots: u32) -> Self {
        self.leaf_slots = Some(slots);
        self
    }

    /// Sets the keys in an inner node.
    #[must_use]
    pub fn inner_keys(mut self, keys: u32) -> Self {
        self.inner_keys = Some(keys);
        self
    }

    /// Sets the bytes taken from the pool at a time.
    #[must_use]
    pub fn group_bytes(mut self, bytes: u64) -> Self {
        self.group_bytes = Some(bytes);
        self
    }

    /// Lets the pool rely on whole lines.
    #[must_use]
    pub fn atomic_line(mut self, assumed: bool) -> Self {
        self.atomic_line = assumed;
        self
    }

    /// Sets the order of the paper.
    #[must_use]
    pub fn paper_order(mut self, paper_order: bool) -> Self {
        self.paper_order = paper_order;
        self
    }

    /// Lets the log have ranges.
    #[must_use]
    pub fn log_ranges(mut self, log_ranges: bool) -> Self {
        self.log_ranges = log_ranges;
        self
    }

    /// Gives each value a buffer.
    #[must_use]
    pub fn buffers(mut self, buffers: bool) -> Self {
        self.buffers = buffers;
        self
    }

    /// The names of those that are set.
    pub fn given(&self) -> impl Iterator<Item = &'static str> {
        [
            (Self::LEAF_SLOTS, self.leaf_slots.is_some()),
            (Self::INNER_KEYS, self.inner_keys.is_some()),
            (Self::GROUP_BYTES, self.group_bytes.is_some()),
            (Self::ASSUME, self.atomic_line),
            (Self::PAPER_ORDER, self.paper_order),
            (Self::LOG_RANGES, self.log_ranges),
            (Self::BUFFERS, self.buffers),
        ]
        .into_iter()
        .filter_map(|(name, given)| given.then_some(name))
    }
}

/// Sizes of nodes. What an engine's nodes do not have is what its [`Offer`] has as the tuned size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Entries in a leaf; in any node where all nodes are alike.
    pub leaf_slots: u64,
    /// Keys, or children, of an inner node.
    pub inner_keys: u64,
    /// Words in a value.
    pub value_words: u64,
    /// Bytes that are taken from the pool at a time for leaves; 0: a leaf at a time.
    pub group_bytes: u64,
}

/// The values of a parameter that an engine has on offer.
#[derive(Clone, Copy, Debug)]
pub enum Choice {
    /// These.
    OneOf(&'static [u64]),
    /// All from the first to the last.
    From(u64, u64),
    /// The multiples of [`GROUP_UNIT`] from this one up to [`MAX_GROUP_BYTES`].
    Groups(u64),
    /// The tuned one only. The word in the header is zero.
    Tuned,
}

impl Choice {
    fn has(self, value: u64, tuned: u64) -> bool {
        match self {
            Self::OneOf(values) => values.contains(&value),
            Self::From(first, last) => (first..=last).contains(&value),
            Self::Groups(first) => {
                value.is_multiple_of(GROUP_UNIT) && (first..=MAX_GROUP_BYTES).contains(&value)
            }
            Self::Tuned => value == tuned,
        }
    }

    fn offered(self, tuned: u64) -> String {
        match self {
            Self::OneOf(values) => format!("{values:?}"),
            Self::From(first, last) => format!("{first} to {last}"),
            Self::Groups(0) => {
                format!("the multiples of {GROUP_UNIT} up to {MAX_GROUP_BYTES}")
            }
            Self::Groups(first) => {
                format!("the multiples of {GROUP_UNIT} from {first} to {MAX_GROUP_BYTES}")
            }
            Self::Tuned => tuned.to_string(),
        }
    }
}

/// What an engine has on offer.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    /// The sizes that measured best.
    pub tuned: Parameters,
    /// Of [`Parameters::leaf_slots`].
    pub leaf_slots: Choice,
    /// Of [`Parameters::inner_keys`].
    pub inner_keys: Choice,
    /// Of [`Parameters::value_words`].
    pub value_words: Choice,
    /// Of [`Parameters::group_bytes`].
    pub group_bytes: Choice,
}

/// The word of the header's parameters that says whether entries have one record each, of those
/// that no engine has for sizes: 1, or else 0.
pub const ONE_RECORD: usize = 6;

impl Offer {
    /// Each parameter of `sizes`, in the order of the words in the header: its name, its value, the
    /// tuned value, and the choice.
    fn fields(&self, sizes: Parameters) -> [(&'static str, u64, u64, Choice); 4] {
        let tuned = self.tuned;
        [
            ("leaf_slots", sizes.leaf_slots, tuned.leaf_slots, self.leaf_slots),
            ("inner_keys", sizes.inner_keys, tuned.inner_keys, self.inner_keys),
            ("value_words", sizes.value_words, tuned.value_words, self.value_words),
            ("group_bytes", sizes.group_bytes, tuned.group_bytes, self.group_bytes),
        ]
    }

    /// Whether the sizes are on offer.
    ///
    /// # Errors
    /// [`IndexError::Parameter`] names the first that is not.
    pub fn check(&self, sizes: Parameters) -> Result<()> {
        let refused =
            self.fields(sizes).into_iter().find(|(_, value, tuned, of)| !of.has(*value, *tuned));
        match refused {
            None => Ok(()),
            Some((parameter, value, tuned, of)) => {
                Err(IndexError::Parameter { parameter, value, offered: of.offered(tuned) })
            }
        }
    }

    /// The sizes that were chosen, the tuned ones for the others.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn choose(&self, chosen: &EngineParameters, value_words: u64) -> Result<Parameters> {
        let sizes = Parameters {
            leaf_slots: chosen.leaf_slots.map_or(self.tuned.leaf_slots, u64::from),
            inner_keys: chosen.inner_keys.map_or(self.tuned.inner_keys, u64::from),
            value_words,
            group_bytes: chosen.group_bytes.unwrap_or(self.tuned.group_bytes),
        };
        self.check(sizes)?;
        Ok(sizes)
    }

    /// As they stand in the header of a pool: a word each, zero where there is no choice.
    pub fn pack(&self, sizes: Parameters) -> [u64; 8] {
        let mut words = [0; 8];
        for (word, (_, value, _, of)) in words.iter_mut().zip(self.fields(sizes)) {
            *word = if matches!(of, Choice::Tuned) { 0 } else { value };
        }
        words
    }

    /// From the header of a pool.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn unpack(&self, words: [u64; 8]) -> Result<Parameters> {
        let [leaf_slots, inner_keys, value_words, group_bytes, ..] = words;
        let read = Parameters { leaf_slots, inner_keys, value_words, group_bytes };
        let [leaf_slots, inner_keys, value_words, group_bytes] =
            self.fields(read).map(|(name, value, tuned, of)| match of {
                Choice::Tuned => tuned,
                // Inner nodes were once offered with these, and are not in the pool: they are made
                // as they are made now.
                Choice::OneOf(_) if name == "inner_keys" && [32, 128, 4096].contains(&value) => {
                    if of.has(value, tuned) {
                        value
                    } else {
                        tuned
                    }
                }
                _ => value,
            });
        let sizes = Parameters { leaf_slots, inner_keys, value_words, group_bytes };
        self.check(sizes)?;
        Ok(sizes)
    }

    /// The sizes that a user can choose.
    pub fn shown(&self, sizes: Parameters) -> EngineParameters {
        let choosable = |of: Choice, value: u64| (!matches!(of, Choice::Tuned)).then_some(value);
        EngineParameters {
            leaf_slots: choosable(self.leaf_slots, sizes.leaf_slots).map(|value| value as u32),
            inner_keys: choosable(self.inner_keys, sizes.inner_keys).map(|value| value as u32),
            group_bytes: choosable(self.group_bytes, sizes.group_bytes),
            ..EngineParameters::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFER: Offer = Offer {
        tuned: Parameters { leaf_slots: 8, inner_keys: 3, value_words: 1, group_bytes: 4096 },
        leaf_slots: Choice::OneOf(&[4, 8]),
        inner_keys: Choice::From(3, 15),
        value_words: Choice::Tuned,
        group_bytes: Choice::Groups(4096),
    };

    #[test]
    fn sizes_on_offer_come_back_from_a_header_and_others_are_refused() {
        let chosen = EngineParameters::default().leaf_slots(4).inner_keys(15).group_bytes(1 << 20);
        let sizes = OFFER.choose(&chosen, 1).unwrap();
        assert_eq!(OFFER.pack(sizes), [4, 15, 0, 1 << 20, 0, 0, 0, 0]);
        assert_eq!(OFFER.unpack(OFFER.pack(sizes)).unwrap(), sizes);
        assert_eq!(OFFER.shown(sizes), chosen);
        assert_eq!(OFFER.choose(&EngineParameters::default(), 1).unwrap(), OFFER.tuned);
        for wrong in [
            Parameters { leaf_slots: 5, ..sizes },
            Parameters { inner_keys: 2, ..sizes },
            Parameters { inner_keys: 16, ..sizes },
            Parameters { value_words: 2, ..sizes },
            Parameters { group_bytes: 0, ..sizes },
            Parameters { group_bytes: 100, ..sizes },
            Parameters { group_bytes: u64::MAX, ..sizes },
        ] {
            assert!(OFFER.check(wrong).is_err(), "{wrong:?}");
        }
    }
}
