//! Arguments as keys.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;

use everleaf::{Key, KeyType};

use crate::escape::{Controls, write_escaped};
use crate::failure::Failure;

/// A key that was given on the command line, of the type of the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyArgument {
    /// A number.
    U64(u64),
    /// The bytes of the argument, as the operating system handed them over.
    Bytes(Vec<u8>),
}

impl KeyArgument {
    /// Reads an argument for a tree with keys of `key_type`, which has this name unless it is the
    /// pool's own.
    pub fn parse(
        argument: &OsStr,
        key_type: KeyType,
        tree: Option<&[u8]>,
    ) -> Result<Self, Failure> {
        let text = argument.as_bytes();
        match key_type {
            KeyType::Bytes => Ok(Self::Bytes(text.to_vec())),
            KeyType::U64 => parse_u64(text, tree).map(Self::U64).map_err(Failure::Usage),
        }
    }

    /// As the store takes it.
    pub fn as_key(&self) -> Key<'_> {
        match self {
            Self::U64(key) => Key::U64(*key),
            Self::Bytes(key) => Key::Bytes(key),
        }
    }
}

impl From<Key<'_>> for KeyArgument {
    fn from(key: Key<'_>) -> Self {
        match key {
            Key::U64(key) => Self::U64(key),
            Key::Bytes(key) => Self::Bytes(key.to_vec()),
        }
    }
}

impl fmt::Display for KeyArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::U64(key) => write!(f, "{key}"),
            Self::Bytes(key) => write!(f, "`{}`", readable(key)),
        }
    }
}

/// Reads a decimal u64 as a key of this tree, or of the pool's own: digits and nothing else.
pub fn parse_u64(text: &[u8], tree: Option<&[u8]>) -> Result<u64, String> {
    let digits =
        str::from_utf8(text).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    digits.and_then(|digits| digits.parse().ok()).ok_or_else(|| {
        let tree =
            tree.map_or_else(|| "pool".to_owned(), |name| format!("tree `{}`", readable(name)));
        format!(
            "the {tree} has u64 keys, and `{}` is not a whole number from 0 to {}",
            readable(text),
            u64::MAX
        )
    })
}

/// Bytes for a message: escaped as `scan` does on a terminal, and cut when they are long.
pub fn readable(bytes: &[u8]) -> String {
    const SHOWN: usize = 64;
    let mut text = Vec::new();
    // Writing to a vector cannot fail.
    let _ = write_escaped(&mut text, &bytes[..bytes.len().min(SHOWN)], Controls::Escaped);
    let text = String::from_utf8_lossy(&text).into_owned();
    if bytes.len() > SHOWN { text + "..." } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn u64_keys_are_decimal_digits() {
        assert_eq!(parse_u64(b"0", None), Ok(0));
        assert_eq!(parse_u64(b"007", None), Ok(7));
        assert_eq!(parse_u64(b"18446744073709551615", None), Ok(u64::MAX));
        for text in
            [&b""[..], b"+1", b"-1", b" 1", b"1 ", b"0x1", b"1.0", b"18446744073709551616", b"\xff"]
        {
            assert!(parse_u64(text, None).is_err());
        }
    }

    #[test]
    fn byte_keys_are_the_bytes_of_the_argument() {
        let key = KeyArgument::parse(OsStr::from_bytes(b"\xff\x01"), KeyType::Bytes, None).ok();
        assert_eq!(key, Some(KeyArgument::Bytes(vec![0xff, 1])));
    }

    #[test]
    fn long_keys_are_cut_in_messages() {
        assert_eq!(readable(&[b'x'; 100]), "x".repeat(64) + "...");
    }

    #[test]
    fn a_terminal_does_not_obey_a_key_in_a_message() {
        assert_eq!(readable(b"\x1b[2J\0"), "\\x1b[2J\\x00");
    }
}
