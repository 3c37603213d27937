//! Keys as a store takes and gives them.
//!
//! Map of the files: this one (what a key is) · `argument` (what can be given as a key, or as a
//! range of keys) · `convert` (conversions and comparisons) · `kind` (the kinds that an index has).

mod argument;
mod convert;
mod kind;

use std::cmp::Ordering;
use std::fmt::{self, Write};

use everleaf_pool::KeyType;

pub use self::argument::{AsKey, KeyRange};
pub use self::kind::StoreKey;

/// A key, borrowed.
///
/// ```
/// use everleaf::Key;
/// assert_eq!(Key::from(7u64), Key::U64(7));
/// assert_eq!(Key::from("seven"), Key::Bytes(b"seven"));
/// assert_eq!(Key::from("seven"), "seven");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Key<'a> {
    /// An integer, ordered by number.
    U64(u64),
    /// A byte string of 0 to 64 KiB, ordered lexicographically.
    Bytes(&'a [u8]),
}

/// A key that a store hands out. It displays as text, compares with what keys are made of, and
/// converts to it.
///
/// ```
/// use everleaf::OwnedKey;
///
/// let key = OwnedKey::from("oak");
/// assert_eq!(key, "oak");
/// assert_eq!(key.as_str(), Some("oak"));
/// assert_eq!(format!("{key} {key:?}"), r#"oak "oak""#);
/// assert_eq!(key.as_bytes(), Some(&b"oak"[..]));
/// assert_eq!(String::try_from(key.clone())?, "oak");
/// assert_eq!(Vec::try_from(key)?, b"oak");
/// assert_eq!(u64::try_from(OwnedKey::from(7))?, 7);
/// # Ok::<(), everleaf::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OwnedKey {
    /// An integer.
    U64(u64),
    /// A byte string.
    Bytes(Box<[u8]>),
}

impl Ord for Key<'_> {
    /// Numbers come before byte strings, which never meet in one tree.
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Key::U64(left), Key::U64(right)) => left.cmp(right),
            (Key::Bytes(left), Key::Bytes(right)) => cmp_bytes(left, right),
            (Key::U64(_), Key::Bytes(_)) => Ordering::Less,
            (Key::Bytes(_), Key::U64(_)) => Ordering::Greater,
        }
    }
}

impl PartialOrd for Key<'_> {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Most keys differ in their first eight bytes: a compare of these needs no call.
#[inline]
fn cmp_bytes(left: &[u8], right: &[u8]) -> Ordering {
    match (left.first_chunk::<8>(), right.first_chunk::<8>()) {
        (Some(left), Some(right)) if left != right => {
            u64::from_be_bytes(*left).cmp(&u64::from_be_bytes(*right))
        }
        _ => left.cmp(right),
    }
}

impl<'a> Key<'a> {
    /// A copy that keeps its own bytes.
    pub fn to_owned(self) -> OwnedKey {
        match self {
            Key::U64(key) => OwnedKey::U64(key),
            Key::Bytes(key) => OwnedKey::Bytes(key.into()),
        }
    }

    /// Which kind of key this is.
    pub const fn key_type(self) -> KeyType {
        match self {
            Key::U64(_) => KeyType::U64,
            Key::Bytes(_) => KeyType::Bytes,
        }
    }

    /// The bytes; none of an integer.
    pub const fn as_bytes(self) -> Option<&'a [u8]> {
        match self {
            Key::U64(_) => None,
            Key::Bytes(bytes) => Some(bytes),
        }
    }

    /// The bytes as text; none of an integer, and none where they are not UTF-8.
    pub fn as_str(self) -> Option<&'a str> {
        self.as_bytes().and_then(|bytes| std::str::from_utf8(bytes).ok())
    }

    /// The integer; none of a byte string.
    pub const fn as_u64(self) -> Option<u64> {
        match self {
            Key::U64(key) => Some(key),
            Key::Bytes(_) => None,
        }
    }
}

impl OwnedKey {
    /// The key, borrowed.
    pub fn as_ref(&self) -> Key<'_> {
        match self {
            OwnedKey::U64(key) => Key::U64(*key),
            OwnedKey::Bytes(key) => Key::Bytes(key),
        }
    }

    /// The bytes; none of an integer.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        self.as_ref().as_bytes()
    }

    /// The bytes as text; none of an integer, and none where they are not UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        self.as_ref().as_str()
    }

    /// The integer; none of a byte string.
    pub fn as_u64(&self) -> Option<u64> {
        self.as_ref().as_u64()
    }
}

/// The bytes, so that `std::str::from_utf8(&key)` and the like take a key. An integer has none: it
/// derefs to the empty slice, and [`as_bytes`](OwnedKey::as_bytes) tells the two apart.
///
/// # Examples
/// ```
/// use everleaf::OwnedKey;
///
/// let key = OwnedKey::from("oak");
/// assert_eq!(std::str::from_utf8(&key)?, "oak");
/// assert!(key.starts_with(b"oa") && key.len() == 3);
/// # Ok::<(), std::str::Utf8Error>(())
/// ```
impl std::ops::Deref for OwnedKey {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.as_bytes().unwrap_or_default()
    }
}

/// Writes the text of bytes: what is UTF-8 and can be printed as it is, anything else escaped.
fn write_text(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                '\t' => f.write_str("\\t")?,
                character if character.is_control() => {
                    let mut utf8 = [0; 4];
                    for byte in character.encode_utf8(&mut utf8).bytes() {
                        write!(f, "\\x{byte:02x}")?;
                    }
                }
                character => f.write_char(character)?,
            }
        }
        for byte in chunk.invalid() {
            write!(f, "\\x{byte:02x}")?;
        }
    }
    Ok(())
}

impl fmt::Display for Key<'_> {
    /// The number, or the bytes as text: `\\`, `\n`, `\t`, and `\xHH` for what is not UTF-8 or
    /// cannot be printed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::U64(key) => fmt::Display::fmt(key, f),
            Key::Bytes(key) => write_text(key, f),
        }
    }
}

impl fmt::Display for OwnedKey {
    /// As [`Key`]'s.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.as_ref(), f)
    }
}

impl fmt::Debug for Key<'_> {
    /// As it is displayed, byte strings in quotes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::U64(key) => fmt::Debug::fmt(key, f),
            Key::Bytes(key) => {
                f.write_char('"')?;
                write_text(key, f)?;
                f.write_char('"')
            }
        }
    }
}

impl fmt::Debug for OwnedKey {
    /// As [`Key`]'s.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.as_ref(), f)
    }
}

/// How a kind of key is called on the command line and in JSON.
pub const fn key_type_name(key_type: KeyType) -> &'static str {
    match key_type {
        KeyType::U64 => "u64",
        KeyType::Bytes => "bytes",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_shown_as_text_where_they_are_text() {
        for (bytes, display) in [
            (&b"oak"[..], "oak"),
            ("\u{e4}pfel".as_bytes(), "\u{e4}pfel"),
            (b"a\tb\nc\\", "a\\tb\\nc\\\\"),
            (b"\x00\xff", "\\x00\\xff"),
            (b"", ""),
        ] {
            assert_eq!(Key::Bytes(bytes).to_string(), display);
            assert_eq!(format!("{:?}", OwnedKey::from(bytes)), format!("\"{display}\""));
        }
        assert_eq!(format!("{} {:?} {:03}", Key::U64(7), OwnedKey::U64(8), Key::U64(9)), "7 8 009");
    }
}
