//! What an engine is to those that use it by name: what the table of engines says of each, the code
//! that it has for a media, and what a family of trees gives to both.

use std::fmt;
use std::sync::Arc;

use everleaf_index::{BytesKeys, Contract, Index, IndexError, Result, U64Keys};
use everleaf_pmem::{Media, Transactions};
use everleaf_pool::{Format, Opened, Pool, Seal, Shutdown};

use crate::parameters::{EngineParameters, Offer};

/// Where an engine's index lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residence {
    /// In a pool that is opened again.
    Pool,
    /// In a pool on the media `Dram`: a twin of another engine in plain memory, made to be measured
    /// and never opened again.
    Dram,
    /// In the memory of the process: no pool can be made of it. A peer of the benchmarks.
    Process,
}

/// One line of the table of engines.
#[derive(Clone, Copy, Debug)]
pub struct EngineEntry {
    /// The name on the command line, in JSON and in the header of pools.
    pub name: &'static str,
    /// Where its index lives.
    pub residence: Residence,
    /// The parameters that it takes, as they are named on the command line without the dashes.
    pub parameters: &'static [&'static str],
    /// When the effect of a call is durable.
    pub contract: Contract,
    /// Whether several threads write at the same time; otherwise writers wait for each other.
    pub concurrent: bool,
    /// Whether keys may be byte strings; else they are `u64` only.
    pub bytes_keys: bool,
    /// Words that a value may have.
    pub max_value_words: usize,
    /// Entries of a small leaf, the smallest that makes sense: what tests and explorations use.
    pub min_leaf_slots: u32,
    /// Entries of a leaf of so many bytes, as the benchmarks count them.
    pub slots_of_bytes: fn(u32) -> u32,
    /// Whether the entries of a store over byte strings have one record each, which has key and
    /// value. Else each key has a record of its own besides.
    pub one_record: bool,
    /// [`TreeFamily::pack`] of its variant.
    pub pack: fn(&EngineParameters, u64) -> Result<[u64; 8]>,
    /// [`TreeFamily::unpack`] of its variant.
    pub unpack: fn([u64; 8]) -> Result<EngineParameters>,
}

impl fmt::Display for EngineEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}

impl PartialEq for EngineEntry {
    /// By the names.
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for EngineEntry {}

impl EngineEntry {
    /// What most engines are: an entry says its name, and in what it differs.
    pub const USUAL: Self = Self {
        name: "",
        residence: Residence::Pool,
        parameters: &[],
        contract: Contract::Strict,
        concurrent: false,
        bytes_keys: true,
        max_value_words: 1,
        min_leaf_slots: 4,
        slots_of_bytes: slots_of_array,
        one_record: false,
        pack: |_, _| Err(no_pool()),
        unpack: |_| Err(no_pool()),
    };

    /// Whether pools can be made of it, and opened again.
    pub const fn is_available(&self) -> bool {
        matches!(self.residence, Residence::Pool)
    }

    /// Whether it is the twin of an engine in plain memory: made on the media `Dram` and measured,
    /// never a pool that is opened again.
    pub const fn is_volatile_twin(&self) -> bool {
        matches!(self.residence, Residence::Dram)
    }

    /// Whether it is a map in the memory of the process, without a pool.
    pub const fn is_map(&self) -> bool {
        matches!(self.residence, Residence::Process)
    }
}

/// What opens an index of this kind of keys on a media.
pub type Open<K, M> = fn(&Arc<Pool<M>>, Opening) -> Result<Box<dyn Index<K>>>;

/// The code of an engine for a media, and for the sizes of nodes that it was compiled for.
pub struct EngineCode<M: Media> {
    /// The engine.
    pub entry: &'static EngineEntry,
    /// Refuses formats whose sizes are not those of this code.
    pub check: fn(&Format) -> Result<()>,
    /// Opens an index of numbers.
    pub open_u64: Open<U64Keys, M>,
    /// Opens an index of byte strings, if the engine has these.
    pub open_bytes: Option<Open<BytesKeys, M>>,
}

/// The engines that a program has for a media, family by family. Engines of the same name differ
/// by the sizes that they are for.
pub struct Engines<M: Media>(&'static [&'static [EngineCode<M>]]);

impl<M: Media> Clone for Engines<M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Media> Copy for Engines<M> {}

impl<M: Media> PartialEq for Engines<M> {
    /// Whether they are the same table.
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl<M: Media> Eq for Engines<M> {}

impl<M: Media> fmt::Debug for Engines<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().copied().flatten().map(|code| code.entry.name);
        f.debug_set().entries(names).finish()
    }
}

impl<M: Media> Engines<M> {
    /// Those of these families.
    pub const fn of(families: &'static [&'static [EngineCode<M>]]) -> Self {
        Self(families)
    }

    /// What has the code for a pool of this format; none: no engine here has its name.
    ///
    /// # Errors
    /// [`IndexError::Parameter`] names the first size that there is no code for.
    pub fn code(self, format: &Format) -> Option<Result<&'static EngineCode<M>>> {
        let mut refused = None;
        let codes = self.0.iter().copied().flatten();
        for code in codes.filter(|code| code.entry.name == format.engine) {
            match (code.check)(format) {
                Ok(()) => return Some(Ok(code)),
                Err(error) => refused = Some(Err(error)),
            }
        }
        refused
    }
}

fn no_pool() -> IndexError {
    let (parameter, offered) = ("engine", "no pool can be made of a map".to_owned());
    IndexError::Parameter { parameter, value: 0, offered }
}

/// The entry of an engine of a family: `engine_entry!(VARIANT, { name: .., .. })`. What is not
/// named is [`EngineEntry::USUAL`].
#[macro_export]
macro_rules! engine_entry {
    ($variant:expr, { $($facts:tt)* }) => {
        $crate::EngineEntry {
            pack: |chosen, value_words| $crate::TreeFamily::pack($variant, chosen, value_words),
            unpack: |packed| $crate::TreeFamily::unpack($variant, packed),
            $($facts)*
            ..$crate::EngineEntry::USUAL
        }
    };
}

/// The code of an engine for a media: `engine_code!(ENTRY, CHECK, OPEN)`, where the expression OPEN
/// opens an index of either kind of keys, or `engine_code!(ENTRY, CHECK, OPEN, u64)` where the
/// engine has no byte strings.
#[macro_export]
macro_rules! engine_code {
    ($entry:expr, $check:expr, $open:expr) => {
        $crate::EngineCode {
            entry: &$entry,
            check: $check,
            open_u64: $open,
            open_bytes: Some($open),
        }
    };
    ($entry:expr, $check:expr, $open:expr, u64) => {
        $crate::EngineCode { entry: &$entry, check: $check, open_u64: $open, open_bytes: None }
    };
}

/// Entries of 16 bytes in an array of so many bytes: what `--node-bytes` is to most engines.
pub const fn slots_of_array(bytes: u32) -> u32 {
    bytes / 16
}

/// What is decided anew each time an index is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// How the pool was left.
    pub shutdown: Shutdown,
    /// What the close has left: by it an image of inner nodes is taken.
    pub seal: Option<Seal>,
    /// How many threads look at the leaves; none: as many as there are processors for that much
    /// work.
    pub threads: Option<usize>,
    /// Which transactions the engine uses, if it knows any. Without any it has version locks.
    pub transactions: Transactions,
}

impl From<Shutdown> for Opening {
    /// Left so and without a seal, and opened with as many threads as there are processors for, and
    /// version locks.
    fn from(shutdown: Shutdown) -> Self {
        Self { shutdown, seal: None, threads: None, transactions: Transactions::Off }
    }
}

impl From<&Opened> for Opening {
    /// Left as the opening of the pool has found it, else as above.
    fn from(opened: &Opened) -> Self {
        Self { seal: opened.seal, ..Self::from(opened.shutdown) }
    }
}

/// What a family of trees gives to the table, for each of its variants.
pub trait TreeFamily: Copy {
    /// The sizes of nodes that it has on offer.
    fn offer(self) -> &'static Offer;

    /// The parameters as the header of a pool has them, in which values have so many words.
    ///
    /// # Errors
    /// [`IndexError::Parameter`] names the first that is not on offer.
    fn pack(self, chosen: &EngineParameters, value_words: u64) -> Result<[u64; 8]> {
        Ok(self.offer().pack(self.offer().choose(chosen, value_words)?))
    }

    /// The parameters that the header of a pool has.
    ///
    /// # Errors
    /// As [`pack`](Self::pack).
    fn unpack(self, packed: [u64; 8]) -> Result<EngineParameters> {
        Ok(self.offer().shown(self.offer().unpack(packed)?))
    }
}
