//! `incr`: a value that is a number.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

use everleaf::{Store, Tree};

use crate::failure::{Failure, Outcome};
use crate::forms::ValueForm;
use crate::keys::{KeyArgument, readable};
use crate::target::{NewExpiry, ValueTarget};

/// Add to a value that is a decimal number, and print the result.
///
/// Numbers are whole, from -9223372036854775808 to 9223372036854775807. An absent key counts as 0.
/// With --as u64le they are those that programs store, from 0 to 18446744073709551615. A named tree
/// that does not exist is made.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  everleaf incr words.pool visits
  everleaf incr words.pool stock -3
  everleaf incr shop.pool next --tree counters --as u64le")]
pub struct Args {
    /// The pool.
    pool: PathBuf,
    /// The key: any bytes, or a decimal number for a tree with u64 keys.
    #[arg(allow_negative_numbers = true)]
    key: OsString,
    /// The number to add.
    #[arg(default_value = "1", allow_negative_numbers = true)]
    by: i64,
    #[command(flatten)]
    target: ValueTarget,
    #[command(flatten)]
    expiry: NewExpiry,
}

/// Adds; durable when it returns.
pub fn run(args: Args) -> Outcome {
    let add = match args.target.form() {
        None => add,
        Some(ValueForm::U64le) => add_u64le,
        Some(_) => {
            return Err(Failure::usage("incr adds to decimal numbers, or to those --as u64le"));
        }
    };
    let store = Store::open(&args.pool)?;
    let tree = args.target.to_write(&store)?;
    let key = args.target.key_of(&args.key, tree.key_type())?;
    let sum = tree.write(|tree| add(&tree.with_expiry(args.expiry.ttl), &key, args.by))?;
    store.close()?;
    writeln!(std::io::stdout(), "{sum}").map_err(|error| Failure::output(&error))
}

/// Adds to the value of `key`; what it became, as text.
pub fn add(tree: &Tree, key: &KeyArgument, by: i64) -> Result<String, Failure> {
    change(tree, key, |old| {
        let sum = sum(old, by)?.to_string();
        Ok((sum.clone().into_bytes(), sum))
    })
}

/// The same, of a value as a typed tree of `u64` stores it.
fn add_u64le(tree: &Tree, key: &KeyArgument, by: i64) -> Result<String, Failure> {
    change(tree, key, |old| {
        let sum = sum_u64le(old, by)?;
        Ok((sum.to_le_bytes().to_vec(), sum.to_string()))
    })
}

/// Puts what becomes of a value, until nobody else has put one in between.
fn change(
    tree: &Tree,
    key: &KeyArgument,
    new: impl Fn(Option<&[u8]>) -> Result<(Vec<u8>, String), String>,
) -> Result<String, Failure> {
    loop {
        let old = tree.get(key.as_key())?;
        let (value, shown) = new(old.as_deref()).map_err(Failure::Failed)?;
        if tree.compare_and_swap(key.as_key(), old.as_deref(), Some(&value))? {
            return Ok(shown);
        }
    }
}

fn sum_u64le(old: Option<&[u8]>, by: i64) -> Result<u64, String> {
    let old = old.unwrap_or(&[0; 8]);
    let number = old.try_into().map(u64::from_le_bytes).map_err(|_| {
        format!("the value has {} bytes, and a u64 has 8; it was not changed", old.len())
    })?;
    number.checked_add_signed(by).ok_or_else(|| {
        format!("{number} and {by} are no number from 0 to {}; the value was not changed", u64::MAX)
    })
}

fn sum(old: Option<&[u8]>, by: i64) -> Result<i64, String> {
    let Some(old) = old else { return Ok(by) };
    let number: Option<i64> = str::from_utf8(old).ok().and_then(|text| text.parse().ok());
    let number = number.ok_or_else(|| {
        format!(
            "the value `{}` is not a whole number of 64 bits; it was not changed",
            readable(old)
        )
    })?;
    number.checked_add(by).ok_or_else(|| {
        format!("{number} and {by} are more than 64 bits hold; the value was not changed")
    })
}

#[cfg(test)]
mod tests {
    use super::{sum, sum_u64le};

    #[test]
    fn only_numbers_that_fit_are_added() {
        assert_eq!(sum(None, 3), Ok(3));
        assert_eq!(sum(Some(b"-5"), 3), Ok(-2));
        assert_eq!(sum(Some(b"9223372036854775806"), 1), Ok(i64::MAX));
        for (old, by) in [(&b"9223372036854775807"[..], 1), (b"-9223372036854775808", -1)] {
            assert!(sum(Some(old), by).is_err_and(|sentence| sentence.contains("64 bits hold")));
        }
        assert_eq!(sum_u64le(None, 3), Ok(3));
        assert_eq!(sum_u64le(Some(&[5, 1, 0, 0, 0, 0, 0, 0]), -6), Ok(255));
        assert!(sum_u64le(Some(&[0; 8]), -1).is_err_and(|said| said.contains("not changed")));
        assert!(sum_u64le(Some(b"12345"), 1).is_err_and(|said| said.contains("has 5 bytes")));
        for old in [&b""[..], b"1.5", b" 1", b"\xff", b"x"] {
            assert!(sum(Some(old), 1).is_err_and(|sentence| sentence.contains("not changed")));
        }
    }
}
