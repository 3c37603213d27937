//! Forms of keys: what typed trees of programs make of them, as text.
//!
//! A key of one type is its number or its text; a tuple is an array of JSON, like `["ann",7]`. What
//! the bytes are, the library's own types say.

use std::fmt;

use everleaf::{KeyFor, OrderedKey};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::escape::{Controls, unescape, write_escaped};
use crate::failure::Failure;
use crate::keys::readable;

/// Which form of keys was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AskedForm {
    /// The tuple that the catalog tells.
    Recorded,
    /// That of these types.
    Types(KeyForm),
}

/// Types of keys: one, or those of the parts of a tuple.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyForm {
    parts: Vec<&'static Part>,
    is_tuple: bool,
}

/// A type of keys.
pub struct Part {
    name: &'static str,
    /// The key at the front of bytes, or all of them.
    read: fn(&mut &[u8], bool) -> Option<Value>,
    /// Appends the key that a value stands for, as a part that others follow or as the last one.
    write: fn(&Value, bool, &mut Vec<u8>) -> Option<()>,
}

impl PartialEq for Part {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}
impl Eq for Part {}

const PARTS: [Part; 14] = [
    of::<u8>("u8"),
    of::<u16>("u16"),
    of::<u32>("u32"),
    of::<u64>("u64"),
    of::<i8>("i8"),
    of::<i16>("i16"),
    of::<i32>("i32"),
    of::<i64>("i64"),
    of::<bool>("bool"),
    of::<char>("char"),
    of::<String>("String"),
    Part { name: "Vec<u8>", read: read_bytes, write: write_bytes },
    Part { name: "f32", read: read_float::<f32>, write: write_float::<f32> },
    Part { name: "f64", read: read_float::<f64>, write: write_float::<f64> },
];

const fn of<K: OrderedKey + Serialize + DeserializeOwned>(name: &'static str) -> Part {
    Part {
        name,
        read: |bytes, last| serde_json::to_value(take::<K>(bytes, last)?).ok(),
        write: |value, last, bytes| {
            append(&serde_json::from_value::<K>(value.clone()).ok()?, last, bytes);
            Some(())
        },
    }
}

fn take<K: OrderedKey>(bytes: &mut &[u8], last: bool) -> Option<K> {
    if last { K::decode(std::mem::take(bytes)) } else { K::decode_part(bytes) }
}

fn append<K: OrderedKey>(key: &K, last: bool, bytes: &mut Vec<u8>) {
    if last { KeyFor::<K>::encode(key, bytes) } else { KeyFor::<K>::encode_part(key, bytes) }
}

/// Bytes are text with escapes.
fn read_bytes(bytes: &mut &[u8], last: bool) -> Option<Value> {
    let mut text = Vec::new();
    write_escaped(&mut text, &take::<Vec<u8>>(bytes, last)?, Controls::Escaped).ok()?;
    String::from_utf8(text).ok().map(Value::from)
}

fn write_bytes(value: &Value, last: bool, bytes: &mut Vec<u8>) -> Option<()> {
    let mut key = Vec::new();
    unescape(value.as_str()?.as_bytes(), &mut key);
    append(&key, last, bytes);
    Some(())
}

/// What is no number of JSON is text: inf, -inf and NaN.
fn read_float<F: OrderedKey + Into<f64> + Copy + fmt::Display>(
    bytes: &mut &[u8],
    last: bool,
) -> Option<Value> {
    let float: F = take(bytes, last)?;
    // The shortest digits that mean this number, of its own width.
    let number = float.to_string().parse().ok().and_then(serde_json::Number::from_f64);
    Some(number.map_or_else(|| float.to_string().into(), Value::from))
}

fn write_float<F: OrderedKey + Into<f64> + Copy + std::str::FromStr>(
    value: &Value,
    last: bool,
    bytes: &mut Vec<u8>,
) -> Option<()> {
    let text = match value {
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        _ => return None,
    };
    let float: F = text.parse().ok()?;
    if float.into().is_infinite() && text.bytes().any(|byte| byte.is_ascii_digit()) {
        return None; // A number that has no room is not infinity.
    }
    append(&float, last, bytes);
    Some(())
}

/// Reads `--key-as`.
pub fn asked_form(text: &str) -> Result<AskedForm, String> {
    match text {
        "tuple" => Ok(AskedForm::Recorded),
        "float" => KeyForm::of("f64").map(AskedForm::Types),
        types => KeyForm::of(types).map(AskedForm::Types),
    }
}

impl KeyForm {
    /// Of the name of a type, as the catalog has it: `f64`, `(String, u64)`.
    ///
    /// # Errors
    /// A sentence with the types that there are.
    pub fn of(types: &str) -> Result<Self, String> {
        let within = types.strip_prefix('(').and_then(|types| types.strip_suffix(')'));
        let names = within.unwrap_or(types).split(',').map(str::trim);
        let part = |name: &str| PARTS.iter().find(|part| part.name == name);
        match names.map(part).collect::<Option<Vec<&'static Part>>>() {
            Some(parts) if within.is_some() == (parts.len() > 1) => {
                Ok(Self { is_tuple: parts.len() > 1, parts })
            }
            _ => Err(format!(
                "`{}` is no type of keys that is shown; choose tuple (as the program that made the \
                 tree has recorded it), float, {}, or a tuple of these, like '(String, u64)'",
                readable(types.as_bytes()),
                PARTS.iter().map(|part| part.name).collect::<Vec<_>>().join(", ")
            )),
        }
    }

    /// Whether keys of this type lie in trees of `u64` keys.
    pub fn is_u64(&self) -> bool {
        !self.is_tuple && self.parts[0].name == "u64"
    }

    /// Whether keys may begin with the same bytes, and mean it.
    pub fn has_prefixes(&self) -> bool {
        self.is_tuple || ["String", "Vec<u8>"].contains(&self.parts[0].name)
    }

    /// The key that an argument stands for, or the first parts of a tuple.
    ///
    /// # Errors
    /// It is none: wrong usage.
    pub fn read(&self, text: &[u8], may_be_short: bool) -> Result<Vec<u8>, Failure> {
        let written = || -> Option<Vec<u8>> {
            let mut bytes = Vec::new();
            let text = str::from_utf8(text).ok()?;
            if !self.is_tuple {
                let value = match serde_json::from_str(text) {
                    Ok(value @ (Value::Number(_) | Value::Bool(_))) => value,
                    _ => Value::from(text),
                };
                let part = self.parts[0];
                let of_text = || (part.write)(&Value::from(text), true, &mut Vec::new()).is_some();
                let value = if of_text() { Value::from(text) } else { value };
                (part.write)(&value, true, &mut bytes)?;
                return Some(bytes);
            }
            let values: Vec<Value> = serde_json::from_str(text).ok()?;
            let is_whole = values.len() == self.parts.len();
            if !(is_whole || may_be_short && values.len() < self.parts.len()) {
                return None;
            }
            for (place, (part, value)) in self.parts.iter().zip(&values).enumerate() {
                (part.write)(value, place + 1 == self.parts.len(), &mut bytes)?;
            }
            Some(bytes)
        };
        written().ok_or_else(|| {
            let how = match self.parts[0].name {
                _ if self.is_tuple => "; write an array of JSON, like '[\"ann\",7]'",
                "f32" | "f64" => "; write a number that it has room for, inf, -inf or NaN",
                _ => "",
            };
            Failure::usage(format!("`{}` is no key of type {self}{how}", readable(text)))
        })
    }

    /// A key as a value of JSON.
    ///
    /// # Errors
    /// Its bytes are no such key.
    pub fn show(&self, mut key: &[u8]) -> Result<Value, Failure> {
        let bytes = key;
        let last = self.parts.len() - 1;
        let parts = self.parts.iter().enumerate();
        let values = parts.map(|(place, part)| (part.read)(&mut key, place == last));
        let values: Option<Vec<Value>> = values.collect();
        let not = || {
            Failure::failed(format!(
                "the key `{}` is not of type {self}; --hex shows its bytes",
                readable(bytes)
            ))
        };
        let mut values = values.ok_or_else(not)?;
        Ok(if self.is_tuple { values.into() } else { values.pop().unwrap_or_default() })
    }
}

impl fmt::Display for KeyForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.parts.iter().map(|part| part.name).collect();
        if self.is_tuple { write!(f, "({})", names.join(", ")) } else { f.write_str(names[0]) }
    }
}

impl fmt::Debug for KeyForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_read_back() {
        for (types, text) in [
            ("u64", "7"),
            ("i32", "-7"),
            ("f64", "-2.5"),
            ("f64", "inf"),
            ("String", "7"),
            ("Vec<u8>", "a\\xff"),
            ("(String, u64)", "[\"ann\",18446744073709551615]"),
            ("(String,String)", "[\"\",\"\\u0000\"]"),
            ("(i64, f64, bool)", "[-3,0.1,true]"),
            ("(f32, char)", "[0.1,\"\u{e4}\"]"),
            ("(Vec<u8>, f64)", "[\"\\\\xff\",\"-inf\"]"),
        ] {
            let form = KeyForm::of(types).unwrap();
            let key = form.read(text.as_bytes(), false).unwrap();
            let shown = match form.show(&key).unwrap() {
                Value::String(text) => text,
                value => value.to_string(),
            };
            assert_eq!(shown, text, "{types}");
        }
    }

    #[test]
    fn keys_are_those_of_the_library() {
        let mut bytes = Vec::new();
        KeyFor::<(String, u64)>::encode(&("ann", 7u64), &mut bytes);
        let form = KeyForm::of("(String, u64)").unwrap();
        assert_eq!(form.read(b"[\"ann\", 7]", false).unwrap(), bytes);
        assert_eq!(form.read(b"[\"ann\"]", true).unwrap(), b"ann\0\0");
    }

    #[test]
    fn other_types_and_keys_that_have_not_the_type_are_refused() {
        for types in ["", "()", "(u64)", "u64, u64", "str", "(String, Uuid)", "(String, u64"] {
            assert!(KeyForm::of(types).unwrap_err().contains("(String, u64)"), "{types}");
        }
        let pair = KeyForm::of("(String, u8)").unwrap();
        for text in ["", "ann", "[\"ann\"]", "[\"ann\",256]", "[\"ann\",1,1]", "[1,\"ann\"]", "{}"]
        {
            assert!(matches!(pair.read(text.as_bytes(), false), Err(Failure::Usage(_))), "{text}");
        }
        for (types, text) in [
            ("f64", "1e999"),
            ("f64", "-1e999"),
            ("f64", "1e"),
            ("f32", "1e39"),
            ("(f64, u8)", "[1e999,1]"),
            ("(f64, u8)", "[\"1e999\",1]"),
            ("(f32, u8)", "[-1e39,1]"),
        ] {
            let read = KeyForm::of(types).unwrap().read(text.as_bytes(), false);
            assert!(matches!(read, Err(Failure::Usage(_))), "{types}: {text}");
        }
        assert!(pair.show(b"ann").is_err());
        assert!(KeyForm::of("u64").unwrap().show(b"short").is_err());
    }
}
