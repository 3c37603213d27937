//! Kinds of keys.

use std::fmt::Debug;

/// The longest byte-string key: 64 KiB.
pub const MAX_KEY_BYTES: usize = 64 << 10;

/// A kind of key. `Ref` is how a key is handed over: a `u64`, or borrowed bytes.
pub trait KeyKind: Send + Sync + 'static {
    /// A key as it is passed to an index and shown to a visitor.
    type Ref<'a>: Copy + Ord + Debug + Send + Sync;
    /// A key that is kept.
    type Owned: Clone + Ord + Debug + Send + Sync;

    /// Copies a key.
    fn to_owned(key: Self::Ref<'_>) -> Self::Owned;
    /// Borrows a kept key.
    fn borrow(key: &Self::Owned) -> Self::Ref<'_>;
}

/// Keys are `u64`, in numeric order.
#[derive(Clone, Copy, Debug)]
pub struct U64Keys;

/// Keys are byte strings of 0 to 64 KiB, in lexicographic order.
#[derive(Clone, Copy, Debug)]
pub struct BytesKeys;

impl KeyKind for U64Keys {
    type Ref<'a> = u64;
    type Owned = u64;
    fn to_owned(key: u64) -> u64 {
        key
    }
    fn borrow(key: &u64) -> u64 {
        *key
    }
}

impl KeyKind for BytesKeys {
    type Ref<'a> = &'a [u8];
    type Owned = Box<[u8]>;
    fn to_owned(key: &[u8]) -> Box<[u8]> {
        key.into()
    }
    fn borrow(key: &Box<[u8]>) -> &[u8] {
        key
    }
}

/// The way of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Towards greater keys.
    Forward,
    /// Towards smaller keys.
    Backward,
}
