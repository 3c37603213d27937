//! The two kinds of keys that an index may have, and how a [`Key`], which is either, becomes one.

use everleaf_index::{BytesKeys, IndexError, MAX_KEY_BYTES, U64Keys};
use everleaf_pool::KeyType;
use everleaf_tree::key::TreeKey;

use crate::{Error, Key};

/// A kind of key that stores have: [`U64Keys`] or [`BytesKeys`]. How [`Key`], which is either kind,
/// becomes a key of this kind and back.
pub trait StoreKey: TreeKey {
    /// Its name in the header.
    const TYPE: KeyType;

    /// The key, if it is of this kind.
    ///
    /// # Errors
    /// [`Error::WrongKeyType`].
    fn narrow(key: Key<'_>) -> Result<Self::Ref<'_>, Error>;

    /// The key as either kind.
    fn widen(key: Self::Ref<'_>) -> Key<'_>;

    /// The same, of a key whose length is to be checked because it will be stored or looked up.
    ///
    /// # Errors
    /// [`Error::WrongKeyType`], [`IndexError::KeyTooLong`].
    fn narrow_checked(key: Key<'_>) -> Result<Self::Ref<'_>, Error> {
        match key {
            Key::Bytes(bytes) if bytes.len() > MAX_KEY_BYTES => {
                Self::narrow(key)?;
                Err(IndexError::KeyTooLong { bytes: bytes.len(), max_bytes: MAX_KEY_BYTES }.into())
            }
            _ => Self::narrow(key),
        }
    }
}

impl StoreKey for U64Keys {
    const TYPE: KeyType = KeyType::U64;

    fn narrow(key: Key<'_>) -> Result<u64, Error> {
        match key {
            Key::U64(key) => Ok(key),
            Key::Bytes(_) => Err(Error::WrongKeyType { expected: Self::TYPE }),
        }
    }

    fn widen(key: Self::Ref<'_>) -> Key<'_> {
        Key::U64(key)
    }
}

impl StoreKey for BytesKeys {
    const TYPE: KeyType = KeyType::Bytes;

    fn narrow(key: Key<'_>) -> Result<&[u8], Error> {
        match key {
            Key::Bytes(key) => Ok(key),
            Key::U64(_) => Err(Error::WrongKeyType { expected: Self::TYPE }),
        }
    }

    fn widen(key: Self::Ref<'_>) -> Key<'_> {
        Key::Bytes(key)
    }
}
