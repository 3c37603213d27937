//! What the other crates of this repository need of this one: the command line, the crash explorer
//! and the benchmarks. Not for users: it may change at any time.

use std::sync::Arc;
use std::time::Duration;

use everleaf_pmem::Media;
use everleaf_pool::Pool;
pub use everleaf_pool::remove_abandoned;

pub use crate::core::backend::ClaimedPlace;
pub use crate::core::progress::Watch;
pub use crate::key::{StoreKey, key_type_name};
/// Indexes by the names of their engines, without a store.
pub mod registry {
    pub use crate::registry::*;
}
#[cfg(feature = "control")]
pub use crate::control::{open_elsewhere, process_of};
pub use everleaf_index::{BytesKeys, U64Keys};
pub use everleaf_pmem::{InjectedAborts, Simulation};
pub use everleaf_tree::{EngineEntry, EngineParameters, Engines};

pub use crate::engine::SHIPPED;

use crate::transaction::Pace;
use crate::{CreateOptions, Error, OpenOptions, OrderedKey, Result, Store, Transaction, Tree};

/// Makes a store over the whole region of any media, whatever it holds. The pool is handed out too,
/// as the way to the media.
///
/// # Errors
/// As [`CreateOptions::create`], but for those about files.
pub fn create_on<M: Media>(
    engines: Engines<M>,
    options: &CreateOptions,
    media: M,
) -> Result<(Store, Arc<Pool<M>>)> {
    options.create_on(engines, media)
}

/// Opens what any media holds, and hands out the pool too.
///
/// # Errors
/// As [`OpenOptions::open`], but for those about files.
pub fn open_on<M: Media>(
    engines: Engines<M>,
    options: &OpenOptions,
    media: M,
) -> Result<(Store, Arc<Pool<M>>)> {
    options.open_on(engines, media)
}

/// Claims a place for a record of so many bytes, where nothing but records of `tree` lie: when
/// these are gone, and the place is dropped, the record has room there. The search begins at the
/// offset `from` of the pool. None: the place that was found has others too, or there is none.
///
/// # Errors
/// Damage.
pub fn claim_place(tree: &Tree, from: u64, bytes: u64) -> Result<Option<ClaimedPlace>> {
    tree.handle().backend().claim_place(tree.handle().space(), from, bytes)
}

/// Whether a record of so many bytes would fit into the pool if it were the only one: nodes stay
/// where they are.
///
/// # Errors
/// Damage.
pub fn has_place(tree: &Tree, bytes: u64) -> Result<bool> {
    tree.handle().backend().has_place(bytes)
}

/// The tree of that name with keys of a type, made if there is none, and with values of which
/// nothing is recorded: a file that is loaded does not tell.
///
/// # Errors
/// As [`Store::typed_tree`].
pub fn tree_of_keys<K: OrderedKey>(store: &Store, name: &[u8]) -> Result<Tree> {
    store.tree_of_keys::<K>(name)
}

/// The names of the types of a tree's keys and values, each none if it was not recorded; none if
/// there is no such tree.
///
/// # Errors
/// Damage.
pub fn types_of(store: &Store, name: &[u8]) -> Result<Option<[Option<String>; 2]>> {
    store.types_of(name)
}

/// As [`open_on`], to [restore](Store::restore) what is there: one whose restore was cut off too.
///
/// # Errors
/// As [`open_on`].
pub fn open_to_restore_on<M: Media>(
    engines: Engines<M>,
    media: M,
) -> Result<(Store, Arc<Pool<M>>)> {
    OpenOptions::to_restore().open_on(engines, media)
}

/// As [`Store::transaction`], after so many attempts beside other writers alone, and other threads
/// wait for so long at most the first time.
///
/// # Errors
/// Those of [`Store::transaction`].
pub fn transaction_alone<R, E: From<Error>>(
    store: &Store,
    beside: u32,
    patience: Duration,
    work: impl FnMut(&mut Transaction) -> std::result::Result<R, E>,
) -> std::result::Result<R, E> {
    Transaction::run(store.default_tree().handle(), Pace { beside, patience }, work)
}
