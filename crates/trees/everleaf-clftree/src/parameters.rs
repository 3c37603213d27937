//! Sizes on offer, and the trees that have them.

use std::sync::Arc;

use everleaf_index::{Index, IndexError, Result, Serialized};
use everleaf_pmem::Media;
use everleaf_pool::{Pool, Shutdown};

use super::ClfTree;
use super::encode::MAX_ENTRIES;
use super::layout::{SLOTS, Shape};
use super::search::{AtOnce, Settings};
use everleaf_tree::key::TreeKey;
use everleaf_tree::parameters::{Choice, GROUP_UNIT, ONE_RECORD, Offer, Parameters as Sizes};

const TUNED: Sizes =
    Sizes { leaf_slots: 31, inner_keys: 0, value_words: 1, group_bytes: 256 << 10 };

/// Entries of a leaf, and bytes of a run of leaves or of inner nodes.
pub const OFFER: Offer = Offer {
    tuned: TUNED,
    leaf_slots: Choice::OneOf(SLOTS),
    inner_keys: Choice::Tuned,
    value_words: Choice::OneOf(&[1]),
    group_bytes: Choice::Groups(GROUP_UNIT),
};

/// The same of encoded leaves, which are one line.
pub static ENCODED_OFFER: Offer = Offer {
    tuned: Sizes { leaf_slots: MAX_ENTRIES as u64, ..TUNED },
    leaf_slots: Choice::OneOf(&[MAX_ENTRIES as u64]),
    ..OFFER
};

/// Words of the header behind those of the sizes.
const ATOMIC_LINE: usize = 4;
const PAPER_ORDER: usize = 5;

/// Which tree of the family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// Leaves that are appended to, inner nodes that are written at once where the pool has the
    /// assumption and the media a way.
    Append,
    /// The same with inner nodes that are always written by the log.
    InPlace,
    /// Leaves of one encoded line, which are written like inner nodes; those as with `Append`.
    /// `u64` keys.
    Encoded,
    /// As `Append`, with inner nodes that are copied: one word of the parent makes the copy theirs.
    Shadow,
    /// As `Encoded`, with leaves and inner nodes that are copied likewise.
    EncodedShadow,
}

impl Variant {
    /// What it has on offer.
    pub(super) fn sizes(self) -> &'static Offer {
        match self {
            Self::Append | Self::InPlace | Self::Shadow => &OFFER,
            Self::Encoded | Self::EncodedShadow => &ENCODED_OFFER,
        }
    }

    /// Whether its leaves are encoded.
    pub(super) fn is_encoded(self) -> bool {
        matches!(self, Self::Encoded | Self::EncodedShadow)
    }

    /// Whether its lines are copied.
    fn is_shadow(self) -> bool {
        matches!(self, Self::Shadow | Self::EncodedShadow)
    }
}

/// Sizes, fixed when the pool is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Entries of a leaf: 3, 7, 15, 31, 63, 124 or 252, which are 64 bytes to 4 KiB. Encoded: 24,
    /// the most that a line has.
    pub leaf_slots: u64,
    /// Bytes that are taken from the pool at a time, for leaves and for inner nodes: a multiple of
    /// 4096 up to 1 GiB.
    pub group_bytes: u64,
    /// Whether inner nodes may be written as whole lines: the assumption `atomic-line`.
    pub atomic_line: bool,
    /// Whether as much is flushed as in the paper, where whole lines are assumed.
    pub paper_order: bool,
}

impl Default for Parameters {
    /// Leaves of 512 bytes.
    fn default() -> Self {
        Self { leaf_slots: 31, group_bytes: 256 << 10, atomic_line: false, paper_order: false }
    }
}

impl Parameters {
    /// As they stand in the header of a pool. Values have one word.
    pub fn pack(self) -> [u64; 8] {
        let mut words = OFFER.pack(Sizes {
            leaf_slots: self.leaf_slots,
            group_bytes: self.group_bytes,
            ..OFFER.tuned
        });
        words[ATOMIC_LINE] = self.atomic_line.into();
        words[PAPER_ORDER] = self.paper_order.into();
        words
    }

    /// From the header of a pool.
    ///
    /// # Errors
    /// [`IndexError::Parameter`] for what is not on offer.
    pub fn unpack(packed: [u64; 8], variant: Variant) -> Result<Self> {
        let Sizes { leaf_slots, group_bytes, .. } = variant.sizes().unpack(packed)?;
        let flag = |parameter, value| match value {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(IndexError::Parameter { parameter, value, offered: "0, 1".to_owned() }),
        };
        let atomic_line = flag("atomic_line", packed[ATOMIC_LINE])?;
        let paper_order = flag("paper_order", packed[PAPER_ORDER])?;
        Ok(Self { leaf_slots, group_bytes, atomic_line, paper_order })
    }
}

/// Opens the tree in a pool whose format has its [`Parameters`], left by `shutdown`; makes an empty
/// tree in a fresh pool, where a crash on the way leaves an empty tree or none.
///
/// # Errors
/// [`IndexError::Parameter`] if the pool's parameters are not on offer, [`IndexError::Corrupt`] or
/// [`IndexError::Pool`] if damage is met, or if a fresh pool has no room for a run of leaves.
///
/// # Examples
/// ```
/// use everleaf_index::{Index, U64Keys};
/// use everleaf_pmem::{Cpu, Mapped, Region};
/// use everleaf_pool::{Format, KeyType, Pool, Shutdown};
/// use everleaf_clftree::{Parameters, Variant, open};
///
/// let parameters = Parameters { group_bytes: 4096, ..Parameters::default() };
/// let format = Format {
///     engine: "clftree-append".into(),
///     key_type: KeyType::U64,
///     parameters: parameters.pack(),
/// };
/// let region = Region::anonymous(1 << 20, 1 << 24)?;
/// let pool = Pool::create(Mapped::new(region, &Cpu::detect())?, &format)?;
/// let tree = open::<U64Keys, _>(&pool, Variant::Append, Shutdown::Clean)?;
/// assert!(tree.insert(7, 70)?);
/// assert_eq!(tree.update(7, 71)?, Some(70));
/// assert_eq!(tree.get(7)?, Some(71));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open<K: TreeKey, M: Media>(
    pool: &Arc<Pool<M>>,
    variant: Variant,
    shutdown: Shutdown,
) -> Result<Box<dyn Index<K>>> {
    let parameters = Parameters::unpack(pool.format().parameters, variant)?;
    let (encoded, shadow) = (variant.is_encoded(), variant.is_shadow());
    let shape = if encoded { Some(Shape::LINE) } else { Shape::new(parameters.leaf_slots) };
    let shape = shape.ok_or_else(|| IndexError::Parameter {
        parameter: "leaf_slots",
        value: parameters.leaf_slots,
        offered: format!("{SLOTS:?}"),
    })?;
    let shape = shape.with_one_record(K::RECORDS && pool.format().parameters[ONE_RECORD] == 1);
    let Parameters { atomic_line, paper_order, .. } = parameters;
    let at_once = match variant {
        Variant::InPlace | Variant::Shadow | Variant::EncodedShadow => AtOnce::Never,
        Variant::Append | Variant::Encoded if paper_order => AtOnce::Always,
        Variant::Append | Variant::Encoded if atomic_line => AtOnce::Assumed,
        Variant::Append | Variant::Encoded => AtOnce::Promised,
    };
    let settings = Settings { shape, encoded, at_once, shadow, paper_order };
    let tree = ClfTree::<K, M>::open(pool, settings, parameters.group_bytes, shutdown)?;
    Ok(Box::new(Serialized::new(tree)))
}
