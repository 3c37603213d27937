//! What a command is about: a tree of a pool, keys of it, and how bytes are written.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::ops::Deref;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use everleaf::internal::{tree_of_keys, types_of};
use everleaf::{Error, Expiry, Key, KeyType, Scan, Store, Tree};

use serde_json::Value;

use crate::digits::{hex, unhex};
use crate::escape::{Controls, write_escaped, write_json};
use crate::failure::Failure;
use crate::forms::{self, FormArgument, ValueForm};
use crate::key_forms::{AskedForm, KeyForm, asked_form};
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
    /// Write keys and values as hexadecimal digits, in arguments and in the output. Keys of trees
    /// of `u64` keys stay decimal.
    #[arg(long)]
    hex: bool,
    /// Write keys as programs have them: `u64` or another type of Rust; `tuple`, as an array of
    /// JSON, of the types that the tree was made with, or of '(String, u64)'. Numbers of trees of
    /// `u64` and of `float` keys are decimal without it.
    #[arg(long, value_name = "FORM", value_parser = asked_form, conflicts_with = "hex")]
    key_as: Option<AskedForm>,
    /// The form of keys of the tree that was opened.
    #[arg(skip)]
    key_form: OnceCell<Option<KeyForm>>,
}

/// The same, and how values are written.
#[derive(Debug, clap::Args)]
pub struct ValueTarget {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    form: FormArgument,
}

impl Deref for ValueTarget {
    type Target = Target;
    fn deref(&self) -> &Target {
        &self.target
    }
}

impl ValueTarget {
    /// The form of values, if they are not their bytes.
    pub fn form(&self) -> Option<ValueForm> {
        self.form.or_hex(self.target.hex)
    }

    /// An argument as a value.
    pub fn value(&self, argument: &OsStr) -> Result<Vec<u8>, Failure> {
        forms::read(self.form(), argument.as_bytes())
    }

    /// Bytes that were read from a file, as a value: line breaks around digits are no part of
    /// them.
    pub fn content(&self, bytes: Vec<u8>) -> Result<Vec<u8>, Failure> {
        match self.form() {
            None => Ok(bytes),
            Some(ValueForm::Utf8) => forms::read(self.form(), &bytes),
            form => forms::read(form, bytes.trim_ascii()),
        }
    }

    /// A value as it is, or in its form.
    pub fn show<'v>(&self, key: Key<'_>, value: &'v [u8]) -> Result<Cow<'v, [u8]>, Failure> {
        let Some(form) = self.form() else { return Ok(value.into()) };
        forms::show(form, value).map_err(|what| {
            let key = self.target.named(key);
            Failure::failed(format!("the value of {key} {what}; --as hex shows any value"))
        })
    }
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
        self.to_write_with(store, None)
    }

    /// The tree, to be written to, which has such keys or is made with them.
    pub fn to_write_with<'s>(
        &'s self,
        store: &'s Store,
        keys: Option<TreeKeys>,
    ) -> Result<WrittenTree<'s>, Failure> {
        let name = self.name.as_deref().map(OsStr::as_bytes);
        let tree = match name {
            None => Some(store.default_tree().clone()),
            Some(name) => store.existing_tree(name)?,
        };
        if tree.is_none() && store.key_type() == KeyType::U64 {
            return Err(Error::NoTrees.into());
        }
        let pools = if store.key_type() == KeyType::U64 { TreeKeys::U64 } else { TreeKeys::Bytes };
        let found = match &tree {
            None => keys.unwrap_or(pools),
            Some(tree) if tree.key_type() == KeyType::U64 => TreeKeys::U64,
            Some(_) if self.recorded_keys(store)?.as_deref() == Some("f64") => TreeKeys::Float,
            Some(_) => TreeKeys::Bytes,
        };
        if let Some(keys) = keys.filter(|keys| *keys != found) {
            let (has, wanted) = (found.name(), keys.name());
            return Err(Failure::usage(match name {
                Some(_) => {
                    format!("the tree has {has} keys, and --keys says {wanted}; leave it out")
                }
                None => format!(
                    "the pool's own tree has {has} keys; give the name of a --tree that is made \
                     with {wanted} keys"
                ),
            }));
        }
        let name = name.unwrap_or_default();
        let tree = tree.map_or_else(OnceCell::new, OnceCell::from);
        Ok(WrittenTree { store, name, keys: found, tree })
    }

    /// The name of the type of its keys, if a program or `load --keys` has recorded it.
    fn recorded_keys(&self, store: &Store) -> Result<Option<String>, Failure> {
        let Some(name) = &self.name else { return Ok(None) };
        Ok(types_of(store, name.as_bytes())?.and_then(|[keys, _]| keys))
    }
}

/// Kinds of keys of trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum TreeKeys {
    /// Byte strings.
    Bytes,
    /// Numbers from 0 to 2^64 - 1.
    U64,
    /// Numbers with a fraction, as `f64` of Rust: in their order, NaN behind all.
    Float,
}

impl TreeKeys {
    const fn name(self) -> &'static str {
        match self {
            Self::Bytes => "byte-string",
            Self::U64 => "u64",
            Self::Float => "float",
        }
    }
}

/// A tree that is written to. A named one that does not exist is made with the first write that is
/// done: a command that fails leaves no empty tree.
pub struct WrittenTree<'s> {
    store: &'s Store,
    name: &'s [u8],
    keys: TreeKeys,
    tree: OnceCell<Tree>,
}

impl WrittenTree<'_> {
    /// The kind of its keys in the index.
    pub fn key_type(&self) -> KeyType {
        if self.keys == TreeKeys::U64 { KeyType::U64 } else { KeyType::Bytes }
    }

    /// Its name; none: it is the pool's own.
    pub fn name(&self) -> Option<&[u8]> {
        (!self.name.is_empty()).then_some(self.name)
    }

    /// The kind of its keys.
    pub fn keys(&self) -> TreeKeys {
        self.keys
    }

    /// Writes to it.
    pub fn write<R, E: From<Error>>(
        &self,
        write: impl FnOnce(&Tree) -> Result<R, E>,
    ) -> Result<R, E> {
        if let Some(tree) = self.tree.get() {
            return write(tree);
        }
        let tree = match self.keys {
            TreeKeys::Bytes => self.store.tree_with(self.name, KeyType::Bytes)?,
            TreeKeys::U64 => tree_of_keys::<u64>(self.store, self.name)?,
            TreeKeys::Float => tree_of_keys::<f64>(self.store, self.name)?,
        };
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
        let tree = self.tree.existing(store)?;
        self.set_key_form(store, tree.key_type())?;
        Ok(tree)
    }

    /// The tree, to be written to.
    pub fn to_write<'s>(&'s self, store: &'s Store) -> Result<WrittenTree<'s>, Failure> {
        let tree = self.tree.to_write(store)?;
        self.set_key_form(store, tree.key_type())?;
        Ok(tree)
    }

    /// Notes the form that keys of the tree have.
    fn set_key_form(&self, store: &Store, key_type: KeyType) -> Result<(), Failure> {
        let recorded = self.tree.recorded_keys(store)?;
        let form = match (&self.key_as, &recorded) {
            (Some(AskedForm::Types(form)), _) => Some(form.clone()),
            // Keys that are numbers are written as such.
            (None, Some(name)) if name == "f64" && !self.hex => KeyForm::of(name).ok(),
            (None, _) => None,
            (Some(AskedForm::Recorded), Some(name)) => {
                Some(KeyForm::of(name).map_err(Failure::failed)?)
            }
            (Some(AskedForm::Recorded), None) => {
                return Err(Failure::usage(
                    "which types the keys of this tree have is not recorded; name them, as in \
                     --key-as '(String, u64)'",
                ));
            }
        };
        let form = match (form, key_type) {
            (Some(form), KeyType::U64) if !form.is_u64() => {
                return Err(Failure::usage(format!("this tree has u64 keys, and no {form}")));
            }
            (_, KeyType::U64) => None,
            (form, KeyType::Bytes) => form,
        };
        self.key_form.get_or_init(|| form);
        Ok(())
    }

    /// The form of keys, if they are not their bytes.
    fn key_form(&self) -> Option<&KeyForm> {
        self.key_form.get().and_then(Option::as_ref)
    }

    /// An argument as a key of `tree`.
    pub fn key(&self, argument: &OsStr, tree: &Tree) -> Result<KeyArgument, Failure> {
        self.key_of(argument, tree.key_type())
    }

    /// An argument as a key of this kind.
    pub fn key_of(&self, argument: &OsStr, key_type: KeyType) -> Result<KeyArgument, Failure> {
        match key_type {
            KeyType::Bytes => self.key_bytes(argument, false).map(KeyArgument::Bytes),
            KeyType::U64 => {
                let name = self.tree.name.as_deref().map(OsStr::as_bytes);
                KeyArgument::parse(argument, key_type, name)
            }
        }
    }

    /// An argument as the bytes of a key, or as those that keys begin with.
    fn key_bytes(&self, argument: &OsStr, may_be_short: bool) -> Result<Vec<u8>, Failure> {
        let bytes = argument.as_bytes();
        match self.key_form() {
            Some(form) => form.read(bytes, may_be_short),
            None if self.hex => unhex(bytes).map_err(Failure::Usage),
            None => Ok(bytes.to_vec()),
        }
    }

    /// Whether bytes are written as digits.
    pub fn is_hex(&self) -> bool {
        self.hex
    }

    /// A key in its form, if it has one: text, a number, or the array of a tuple.
    pub fn key_in_form(&self, key: Key<'_>) -> Result<Option<Value>, Failure> {
        match (key, self.key_form()) {
            (Key::Bytes(bytes), Some(form)) => form.show(bytes).map(Some),
            _ => Ok(None),
        }
    }

    /// A key so that it stays within a line.
    pub fn key_in_line(&self, key: Key<'_>, controls: Controls) -> Result<Vec<u8>, Failure> {
        let (mut line, form) = (Vec::new(), self.key_in_form(key)?);
        let written = match (key, form) {
            (_, Some(Value::String(text))) => write_escaped(&mut line, text.as_bytes(), controls),
            (_, Some(value)) => write_json(&mut line, &value.to_string(), controls),
            (Key::U64(number), None) => write!(line, "{number}"),
            (Key::Bytes(bytes), None) if self.hex => line.write_all(hex(bytes).as_bytes()),
            (Key::Bytes(bytes), None) => write_escaped(&mut line, bytes, controls),
        };
        written.map_err(|error| Failure::output(&error)).map(|()| line)
    }

    /// What is missing, as a sentence.
    pub fn missing(&self, key: &KeyArgument, pool: &std::path::Path) -> Failure {
        let place = match &self.tree.name {
            Some(name) => format!("tree `{}` of ", readable(name.as_bytes())),
            None => String::new(),
        };
        let key = self.named(key.as_key());
        Failure::absent(format!("there is no key {key} in {place}{}", pool.display()))
    }

    /// A key for a message, in its form if it has one.
    pub fn named(&self, key: Key<'_>) -> String {
        match self.key_in_form(key) {
            Ok(Some(Value::String(text))) => format!("`{}`", readable(text.as_bytes())),
            Ok(Some(value)) => format!("`{}`", readable(value.to_string().as_bytes())),
            Ok(None) | Err(_) => KeyArgument::from(key).to_string(),
        }
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
        let bound = |bound: &OsString| match tree.key_type() {
            KeyType::Bytes => target.key_bytes(bound, true).map(KeyArgument::Bytes),
            KeyType::U64 => target.key(bound, tree),
        };
        if let Some(from) = &self.from {
            scan = scan.starting_at(bound(from)?.as_key());
        }
        if let Some(to) = &self.to {
            scan = scan.ending_before(bound(to)?.as_key());
        }
        match &self.prefix {
            None => Ok(scan),
            Some(_) if tree.key_type() == KeyType::U64 => Err(Failure::usage(
                "--prefix is for byte keys, and this tree has u64 keys; use --from and --to",
            )),
            Some(prefix) => match target.key_form() {
                Some(form) if !form.has_prefixes() => Err(Failure::usage(format!(
                    "keys of type {form} have no prefixes; use --from and --to"
                ))),
                _ => Ok(scan.with_prefix(target.key_bytes(prefix, true)?)),
            },
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
}
