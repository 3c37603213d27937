//! What a command is about: a tree of a pool, keys of it, and how bytes are written.

use std::cell::OnceCell;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use everleaf::{Error, Expiry, Key, KeyType, Scan, Store, Tree};

use crate::escape::{Controls, write_escaped};
use crate::failure::Failure;
use crate::keys::{KeyArgument, readable};

/// Which tree.
#[derive(Debug, clap::Args)]
pub struct TreeArgument {
    /// The named tree; without it, the pool's own tree.
    #[arg(long = "tree", value_name = "NAME", value_parser = tree_name())]
    name: Option<OsString>,
}

/// Which tree, and whether bytes are hexadecimal digits.
#[derive(Debug, clap::Args)]
pub struct Target {
    #[command(flatten)]
    tree: TreeArgument,
    /// Write keys and values as hexadecimal digits, in arguments and in the output. Numbers that
    /// are keys stay decimal.
    #[arg(long)]
    hex: bool,
}

impl TreeArgument {
    /// The tree, which must exist.
    pub fn existing(&self, store: &Store) -> Result<Tree, Failure> {
        let Some(name) = &self.name else { return Ok(store.default_tree().clone()) };
        let tree = store.existing_tree(name.as_bytes())?;
        tree.ok_or_else(|| no_tree(Some(name)))
    }

    /// The tree, to be written to.
    pub fn to_write<'s>(&'s self, store: &'s Store) -> Result<WrittenTree<'s>, Failure> {
        let name = self.name.as_deref().map(OsStr::as_bytes);
        let tree = match name {
            None => Some(store.default_tree().clone()),
            Some(name) => store.existing_tree(name)?,
        };
        if tree.is_none() && store.key_type() == KeyType::U64 {
            return Err(Error::NoTrees.into());
        }
        let name = name.unwrap_or_default();
        Ok(WrittenTree { store, name, tree: tree.map_or_else(OnceCell::new, OnceCell::from) })
    }
}

/// A tree that is written to. A named one that does not exist is made with the first write that is
/// done, with the pool's kind of keys: a command that fails leaves no empty tree.
pub struct WrittenTree<'s> {
    store: &'s Store,
    name: &'s [u8],
    tree: OnceCell<Tree>,
}

impl WrittenTree<'_> {
    /// The kind of its keys.
    pub fn key_type(&self) -> KeyType {
        self.tree.get().map_or(self.store.key_type(), |tree| tree.key_type())
    }

    /// Writes to it.
    pub fn write<R, E: From<Error>>(
        &self,
        write: impl FnOnce(&Tree) -> Result<R, E>,
    ) -> Result<R, E> {
        if let Some(tree) = self.tree.get() {
            return write(tree);
        }
        let tree = self.store.tree_with(self.name, self.store.key_type())?;
        match write(&tree) {
            Ok(written) => {
                self.tree.get_or_init(|| tree);
                Ok(written)
            }
            Err(error) => {
                // What is to be told is why the write has failed.
                let _ = self.store.drop_tree(self.name);
                Err(error)
            }
        }
    }
}

/// The name of a tree. None is refused: it comes from a variable that is not set.
pub fn tree_name() -> impl TypedValueParser<Value = OsString> {
    OsStringValueParser::new().try_map(|name| match name.is_empty() {
        true => Err("give a name, or leave --tree out for the pool's own tree"),
        false => Ok(name),
    })
}

/// There is no tree of that name.
pub fn no_tree(name: Option<&OsStr>) -> Failure {
    let name = readable(name.unwrap_or_default().as_bytes());
    Failure::failed(format!(
        "there is no tree `{name}`; `everleaf trees` lists them, and `everleaf put` makes one"
    ))
}

impl Target {
    /// The tree, which must exist.
    pub fn existing(&self, store: &Store) -> Result<Tree, Failure> {
        self.tree.existing(store)
    }

    /// The tree, to be written to.
    pub fn to_write<'s>(&'s self, store: &'s Store) -> Result<WrittenTree<'s>, Failure> {
        self.tree.to_write(store)
    }

    /// An argument as a key of `tree`.
    pub fn key(&self, argument: &OsStr, tree: &Tree) -> Result<KeyArgument, Failure> {
        self.key_of(argument, tree.key_type())
    }

    /// An argument as a key of this kind.
    pub fn key_of(&self, argument: &OsStr, key_type: KeyType) -> Result<KeyArgument, Failure> {
        match key_type {
            KeyType::Bytes => self.bytes(argument).map(KeyArgument::Bytes),
            KeyType::U64 => KeyArgument::parse(argument, KeyType::U64),
        }
    }

    /// An argument as bytes.
    pub fn bytes(&self, argument: &OsStr) -> Result<Vec<u8>, Failure> {
        let bytes = argument.as_bytes();
        if self.hex { unhex(bytes).map_err(Failure::Usage) } else { Ok(bytes.to_vec()) }
    }

    /// Bytes that were read from a file, as bytes: line breaks around digits are no part of them.
    pub fn content(&self, bytes: Vec<u8>) -> Result<Vec<u8>, Failure> {
        if self.hex { unhex(bytes.trim_ascii()).map_err(Failure::Usage) } else { Ok(bytes) }
    }

    /// Whether bytes are written as digits.
    pub fn is_hex(&self) -> bool {
        self.hex
    }

    /// Writes a value as it is, or as digits.
    pub fn write_plain(&self, output: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
        if self.hex { output.write_all(hex(bytes).as_bytes()) } else { output.write_all(bytes) }
    }

    /// Writes bytes so that they stay within a line.
    pub fn write_in_line(
        &self,
        output: &mut impl Write,
        bytes: &[u8],
        controls: Controls,
    ) -> io::Result<()> {
        if self.hex {
            output.write_all(hex(bytes).as_bytes())
        } else {
            write_escaped(output, bytes, controls)
        }
    }

    /// Writes a key so that it stays within a line.
    pub fn write_key(
        &self,
        output: &mut impl Write,
        key: Key<'_>,
        controls: Controls,
    ) -> io::Result<()> {
        match key {
            Key::U64(number) => write!(output, "{number}"),
            Key::Bytes(bytes) => self.write_in_line(output, bytes, controls),
        }
    }

    /// What is missing, as a sentence.
    pub fn missing(&self, key: &KeyArgument, pool: &std::path::Path) -> Failure {
        let place = match &self.tree.name {
            Some(name) => format!("tree `{}` of ", readable(name.as_bytes())),
            None => String::new(),
        };
        Failure::absent(format!("there is no key {key} in {place}{}", pool.display()))
    }
}

/// Which keys of a tree.
#[derive(Debug, clap::Args)]
pub struct KeyRangeArguments {
    /// Only keys that begin with P (byte keys only).
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub prefix: Option<OsString>,
    /// Only keys from A on, A included.
    #[arg(long, value_name = "A", allow_negative_numbers = true)]
    pub from: Option<OsString>,
    /// Only keys below B, B excluded.
    #[arg(long, value_name = "B", allow_negative_numbers = true)]
    pub to: Option<OsString>,
}

impl KeyRangeArguments {
    /// Whether there are no bounds.
    pub fn is_everything(&self) -> bool {
        self.prefix.is_none() && self.from.is_none() && self.to.is_none()
    }

    /// Whether a bound is the empty string.
    pub fn has_empty_bound(&self) -> bool {
        [&self.prefix, &self.from, &self.to].into_iter().flatten().any(|bound| bound.is_empty())
    }

    /// The keys of `tree` within the bounds, in ascending order.
    pub fn scan(&self, target: &Target, tree: &Tree) -> Result<Scan, Failure> {
        let mut scan = Scan::all();
        if let Some(from) = &self.from {
            scan = scan.starting_at(target.key(from, tree)?.as_key());
        }
        if let Some(to) = &self.to {
            scan = scan.ending_before(target.key(to, tree)?.as_key());
        }
        match &self.prefix {
            None => Ok(scan),
            Some(_) if tree.key_type() == KeyType::U64 => Err(Failure::usage(
                "--prefix is for byte keys, and this tree has u64 keys; use --from and --to",
            )),
            Some(prefix) => Ok(scan.with_prefix(target.bytes(prefix)?)),
        }
    }
}

/// How long a value lives: a number of seconds, or numbers with units, like `1h` or `1h 30m`.
pub fn life(text: &str) -> Result<Duration, String> {
    let life = match text.parse() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        Err(_) if text.contains('M') => None, // Months, where minutes may be meant.
        Err(_) => humantime::parse_duration(text).ok(),
    };
    if life.is_some_and(|life| life.is_zero()) {
        return Err("a value lives for some time; give more than 0".to_owned());
    }
    life.ok_or_else(|| {
        format!(
            "`{text}` is not a number of seconds, nor a time with units like 90s, 15m (minutes), \
            1h or 2d"
        )
    })
}

/// When a value expires that replaces another.
#[derive(Debug, clap::Args)]
pub struct NewExpiry {
    /// When the new value expires: after a time, like 90s, 15m or 1h 30m, or `never`; `keep`: when
    /// the value before would have.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "keep",
        value_parser = expiry,
        allow_hyphen_values = true
    )]
    pub ttl: Expiry,
}

/// When a value expires: a [`life`], `keep` or `never`.
pub fn expiry(text: &str) -> Result<Expiry, String> {
    match text {
        "keep" => Ok(Expiry::Kept),
        "never" => Ok(Expiry::Never),
        _ => life(text).map(Expiry::After),
    }
}

/// The bytes that hexadecimal digits stand for, or a sentence.
pub fn unhex(digits: &[u8]) -> Result<Vec<u8>, String> {
    let digit = |byte: u8| (byte as char).to_digit(16).map(|value| value as u8);
    let byte = |pair: &[u8]| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    };
    digits.chunks(2).map(byte).collect::<Option<_>>().ok_or_else(|| {
        format!("`{}` is not hexadecimal; give two digits per byte, like 0aff", readable(digits))
    })
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lives_are_seconds_or_have_units() {
        for (text, seconds) in [
            ("0.001", 0.001),
            ("3600", 3600.0),
            ("0.5", 0.5),
            ("1e3", 1000.0),
            ("250ms", 0.25),
            ("90s", 90.0),
            ("15m", 900.0),
            ("1h", 3600.0),
            ("1h 30m", 5400.0),
            ("2d", 172_800.0),
            ("0.000001", 0.000_001),
            ("1ns", 0.000_000_001),
        ] {
            assert_eq!(life(text), Ok(Duration::from_secs_f64(seconds)), "{text}");
        }
        for text in [
            "",
            "soon",
            "-1",
            "nan",
            "inf",
            "1x",
            "h",
            "1h x",
            "1M",
            "1h 1M",
            "99999999999999999999d",
        ] {
            assert!(life(text).unwrap_err().contains("seconds"), "{text}");
        }
        for text in ["0", "0.0", "0s", "0h 0ns"] {
            assert!(life(text).unwrap_err().contains("more than 0"), "{text}");
        }
        assert_eq!((expiry("keep"), expiry("never")), (Ok(Expiry::Kept), Ok(Expiry::Never)));
        assert_eq!(expiry("90s"), Ok(Expiry::After(Duration::from_secs(90))));
        assert!(expiry("Keep").unwrap_err().contains("seconds"));
    }

    #[test]
    fn hexadecimal_digits_come_in_pairs() {
        assert_eq!(unhex(b"").unwrap(), b"");
        assert_eq!(unhex(b"00fFA9").unwrap(), b"\x00\xff\xa9");
        for text in [&b"0"[..], b"0g", b"+1", b"0x00", b" 00", b"\xc3\xa4"] {
            assert!(unhex(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn every_byte_comes_back() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(unhex(hex(&bytes).as_bytes()).unwrap(), bytes);
    }
}
