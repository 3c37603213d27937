//! Trees with keys and values of types.
//!
//! A key of a type is a byte string whose order is the order of the type, and so lies in the index
//! like any other; a value is its encoding. The catalog of trees has the names of the types, so
//! that a tree is not opened with others.
//!
//! Map of the files: this one (the traits) · `names` (of types) · `key` and `value` (the types that
//! have encodings) · `json` (values by serde) · `range` (ranges of such keys, and the iterator) ·
//! `tree` (the methods).

mod entry;
#[cfg(feature = "serde")]
mod json;
mod key;
mod names;
mod range;
mod tree;
mod value;

use std::borrow::Cow;

use everleaf_pool::KeyType;

pub use self::entry::TreeEntry;
#[cfg(feature = "serde")]
pub use self::json::Json;
pub use self::range::{RangeFor, TypedKeys, TypedRange};
use crate::{Error, Result};

/// What stands for a key of type `K`: a `K`, a reference to one, or what is borrowed of it (`&str`
/// for `String`, `(&str, u64)` for `(String, u64)`).
pub trait KeyFor<K> {
    /// Appends the key as bytes. They must have the order of the keys: `a < b` just where the
    /// bytes of `a` are less than those of `b`.
    fn encode(&self, bytes: &mut Vec<u8>);

    /// The same for a part of a tuple that others follow: besides, no key's bytes may begin with
    /// those of another one. What always has the same length is encoded as such.
    fn encode_part(&self, bytes: &mut Vec<u8>) {
        self.encode(bytes);
    }
}

/// What the keys of type `K` that are wanted begin with: of `String` and `Vec<u8>` the first bytes;
/// of tuples the first parts, of which the last one may be a prefix itself.
///
/// Of keys `(String, String, u64)`, `("ann",)` stands for all whose first part is `"ann"`,
/// `("ann", "2024-05")` for those whose second part is `"2024-05"`, too. Of keys
/// `(String, String)`, `("ann", "2024-")` stands for all of `"ann"` whose second part begins with
/// `"2024-"`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the beginning of keys of type `{K}`",
    note = "keys of strings of bytes and of tuples have beginnings; of other types take a range"
)]
pub trait PrefixFor<K> {
    /// Appends the bytes that the encoding of such a key begins with.
    fn encode_prefix(&self, bytes: &mut Vec<u8>);
}

/// A type of keys: its encoding as bytes keeps its order.
///
/// There are integers, `bool`, `char`, `f32` and `f64`, `String`, `Vec<u8>`, `[u8; N]`,
/// `SystemTime`, with the feature `uuid` `Uuid`, and tuples of up to four of these. Floats are in
/// the order of numbers: `-0.0` is the same key as `0.0`, and is read as `0.0`; all NaNs are one
/// key, behind infinity. What is borrowed is no type of keys,
/// since keys that are read have to be kept somewhere: a tree of `String`s takes any `&str`. Others
/// are made of them:
///
/// ```
/// use everleaf::{KeyFor, OrderedKey};
///
/// #[derive(Debug, PartialEq)]
/// struct Celsius(i16);
///
/// impl KeyFor<Celsius> for Celsius {
///     fn encode(&self, bytes: &mut Vec<u8>) {
///         self.0.encode(bytes);
///     }
/// }
///
/// impl OrderedKey for Celsius {
///     fn decode_part(bytes: &mut &[u8]) -> Option<Self> {
///         i16::decode_part(bytes).map(Celsius)
///     }
/// }
///
/// # let folder = tempfile::tempdir()?;
/// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
/// let states = store.typed_tree::<Celsius, String>("states of water")?;
/// states.put(Celsius(100), "steam")?;
/// states.put(Celsius(-1), "ice")?;
/// assert_eq!(states.first()?, Some((Celsius(-1), "ice".to_owned())));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a type of keys of a typed tree",
    note = "for `&str` and `&[u8]` take `String` and `Vec<u8>`: their trees are given `&str` and \
            `&[u8]`; for a type of your own implement `KeyFor<Self>` and `OrderedKey`"
)]
pub trait OrderedKey: KeyFor<Self> + Sized {
    /// The kind of keys that the tree has.
    const KEY_TYPE: KeyType = KeyType::Bytes;

    /// Reads a key that [`encode_part`](KeyFor::encode_part) wrote from the front of `bytes`, and
    /// leaves the rest. None if there is none.
    fn decode_part(bytes: &mut &[u8]) -> Option<Self>;

    /// The key that [`encode`](KeyFor::encode) wrote as these bytes. None if they are not a key.
    fn decode(mut bytes: &[u8]) -> Option<Self> {
        Self::decode_part(&mut bytes).filter(|_| bytes.is_empty())
    }

    /// The name by which [`Store::typed_tree`](crate::Store::typed_tree) knows the type again: by
    /// default that of the Rust type without the modules that it lies in, up to 1,024 bytes. A type
    /// that is given another name in the program keeps its trees if it returns the old one here.
    /// Each encoding should have a name of its own.
    ///
    /// # Examples
    /// ```
    /// use everleaf::OrderedKey;
    ///
    /// assert_eq!(<(String, u64) as OrderedKey>::type_name(), "(String, u64)");
    /// ```
    fn type_name() -> String {
        names::without_modules(std::any::type_name::<Self>())
    }
}

/// What stands for a value of type `V`: a `V`, a reference to one, or what is borrowed of it.
pub trait ValueFor<V> {
    /// The value as bytes.
    ///
    /// # Errors
    /// [`Error::NotEncodable`], of encodings that not every value has.
    fn encode(&self) -> Result<Cow<'_, [u8]>>;
}

/// A type of values.
///
/// There are integers, `f32` and `f64` (little-endian), `bool`, `char`, `String`, `Vec<u8>`,
/// `[u8; N]`, `SystemTime`, `()`, `Option`s and tuples of up to four of these; with the feature
/// `uuid` also `Uuid`, and with `serde` `Json` of all that serde knows.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a type of values of a typed tree",
    note = "for `&str` and `&[u8]` take `String` and `Vec<u8>`: their trees are given `&str` and \
            `&[u8]`; for types with serde's traits take `everleaf::Json`; for others implement \
            `ValueFor<Self>` and `StoredValue`"
)]
pub trait StoredValue: ValueFor<Self> + Sized {
    /// The value of these bytes. None if they are no value.
    fn decode(bytes: &[u8]) -> Option<Self>;

    /// The name by which [`Store::typed_tree`](crate::Store::typed_tree) knows the type again, as
    /// [`OrderedKey::type_name`]. That of every `Json` is `Json`: which types read the same text,
    /// serde decides.
    ///
    /// # Examples
    /// ```
    /// use everleaf::StoredValue;
    ///
    /// assert_eq!(<Option<Vec<u8>> as StoredValue>::type_name(), "Option<Vec<u8>>");
    /// ```
    fn type_name() -> String {
        names::without_modules(std::any::type_name::<Self>())
    }
}

/// The error of bytes that are no `T`.
fn no<T>() -> Error {
    Error::WrongType { expected: std::any::type_name::<T>() }
}
