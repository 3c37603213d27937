//! Opening and closing a store.

use std::ffi::c_char;
use std::str::FromStr;

use everleaf::{CreateOptions, DurabilityMode, Engine, Error, KeyType, Store, Tree, View};

use crate::boundary::{Failure, Status, give_handle, guard, handle, path, string, taken};

/// An opened pool: an ordered map from keys to values, with named ones beside it.
pub enum StoreHandle {
    /// The store, which is its own tree.
    Store(Store),
    /// A named tree.
    Tree(Tree),
    /// A tree as a snapshot has it.
    View(View),
}

/// An ordered map from keys to values: a named tree of a store, or a tree as a snapshot has it. A
/// store is one, too: what takes an `everleaf_tree *` takes an `everleaf_store *`, and means the
/// store's own tree, which has no name. What takes an `everleaf_store *` refuses a tree, by
/// EVERLEAF_INVALID_ARGUMENT.
pub type TreeHandle = StoreHandle;

impl StoreHandle {
    pub(crate) fn store(&self) -> Result<&Store, Failure> {
        match self {
            Self::Store(store) => Ok(store),
            Self::Tree(_) | Self::View(_) => {
                Err(Failure::argument("this is a tree; give the store that it is of"))
            }
        }
    }

    /// The tree, to write to.
    pub(crate) fn tree(&self) -> Result<&Tree, Failure> {
        match self {
            Self::Store(store) => Ok(store),
            Self::Tree(tree) => Ok(tree),
            Self::View(_) => Err(Failure {
                status: Status::EverleafReadOnly,
                sentence: "this tree is of a snapshot, which does not change; give the tree that \
                           it was made of"
                    .to_owned(),
            }),
        }
    }

    /// The tree, to read.
    pub(crate) fn view(&self) -> &View {
        match self {
            Self::Store(store) => store,
            Self::Tree(tree) => tree,
            Self::View(view) => view,
        }
    }
}

/// How a pool is made; of one that is there `durability` and `control_socket` count. Zero and NULL,
/// `everleaf_options options = {0}`, are the defaults.
#[repr(C)]
pub struct Options {
    /// Bytes of the file at first. 0: 1 MiB; it grows by itself.
    pub size_bytes: u64,
    /// Bytes that the file may grow to. 0: as much as addresses can be had for.
    pub max_size_bytes: u64,
    /// The engine; docs/guide.md has their names. NULL: fptree-c.
    pub engine: *const c_char,
    /// `immediate`, `buffered`, `buffered=MS` or `process`. NULL: the strongest that there is.
    pub durability: *const c_char,
    /// Whether other processes of this user, and of root, can read the pool while it is open here,
    /// by a socket beside it, `POOL.sock`: `everleaf info`, `get`, `copy` and others do. Whether
    /// there is one is what `everleaf_control_socket` tells.
    pub control_socket: bool,
}

/// Opens a pool to read and write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_open(
    pool: *const c_char,
    store: *mut *mut StoreHandle,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        unsafe { opened(Store::open(path(pool)?)?, store) }
    })
}

/// Opens a pool to read; several processes may do so while none writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_open_read_only(
    pool: *const c_char,
    store: *mut *mut StoreHandle,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        unsafe { opened(Store::open_read_only(path(pool)?)?, store) }
    })
}

/// Makes a pool and opens it. `options` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_create(
    pool: *const c_char,
    options: *const Options,
    store: *mut *mut StoreHandle,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        unsafe { opened(create_options(options)?.create(path(pool)?)?, store) }
    })
}

/// Opens a pool to read and write, or makes it if there is none. `options` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_open_or_create(
    pool: *const c_char,
    options: *const Options,
    store: *mut *mut StoreHandle,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        unsafe { opened(create_options(options)?.open_or_create(path(pool)?)?, store) }
    })
}

/// # Safety
/// As [`give_handle`].
unsafe fn opened(store: Store, place: *mut *mut StoreHandle) -> Result<Status, Failure> {
    if store.key_type() != KeyType::Bytes {
        return Err(Error::WrongKeyType { expected: store.key_type() }.into());
    }
    // SAFETY: the caller's promise.
    unsafe { give_handle(place, StoreHandle::Store(store))? };
    Ok(Status::EverleafOk)
}

/// # Safety
/// The header's contract.
unsafe fn create_options(options: *const Options) -> Result<CreateOptions, Failure> {
    let mut create = CreateOptions::new();
    // SAFETY: the caller's promise.
    let Some(options) = (unsafe { options.as_ref() }) else { return Ok(create) };
    if options.size_bytes != 0 {
        create.size_bytes = options.size_bytes;
    }
    if options.max_size_bytes != 0 {
        create.max_size_bytes = Some(options.max_size_bytes);
    }
    create.control_socket = options.control_socket;
    // SAFETY: the caller's promise.
    unsafe {
        create.engine = named::<Engine>(options.engine)?.unwrap_or_default();
        create.durability = named::<DurabilityMode>(options.durability)?;
    }
    Ok(create)
}

/// What has a name; none if that is NULL.
///
/// # Safety
/// As [`string`].
unsafe fn named<T>(name: *const c_char) -> Result<Option<T>, Failure>
where
    T: FromStr,
    T::Err: std::fmt::Display,
{
    if name.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    let name = unsafe { string(name) }?.to_string_lossy();
    name.parse().map(Some).map_err(|error: T::Err| Failure::argument(error.to_string()))
}

/// Closes a store, which must not be used again, whatever this returns. What was made of it (trees,
/// iterators, batches, transactions, snapshots) stays to be freed; all else that it is asked fails.
/// With the defaults a process that dies loses nothing either. In a process that was forked after
/// the store was opened every call fails, this one too, and the store goes on in the process that
/// opened it; the pool stays locked until the forked one has ended or runs another program. NULL is
/// ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_close(store: *mut StoreHandle) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        if let Some(opened) = unsafe { store.as_ref() } {
            let closed = opened.store()?.clone().close();
            // SAFETY: the same.
            drop(unsafe { taken(store) });
            closed?;
        }
        Ok(Status::EverleafOk)
    })
}

/// Returns when everything done before is durable. With the defaults each write is when it returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_sync(store: *const StoreHandle) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        unsafe { handle(store) }?.store()?.sync()?;
        Ok(Status::EverleafOk)
    })
}

/// EVERLEAF_ERROR, with the reason as its sentence, if `control_socket` was asked for and there is
/// none, because something is in its place, for instance. Everything else works then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_control_socket(store: *const StoreHandle) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        let why = unsafe { handle(store) }?.store()?.no_control_socket();
        let failed = |sentence| Failure { status: Status::EverleafError, sentence };
        why.map_or(Ok(Status::EverleafOk), |why| Err(failed(why)))
    })
}
