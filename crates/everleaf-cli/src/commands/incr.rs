//! `incr`: a value that is a number.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

use everleaf::{Store, Tree};

use crate::failure::{Failure, Outcome};
use crate::keys::{KeyArgument, readable};
use crate::target::{NewExpiry, Target};

/// Add to a value that is a decimal number, and print the result.
///
/// Numbers are whole, from -9223372036854775808 to 9223372036854775807. An absent key counts as 0.
/// A named tree that does not exist is made.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  everleaf incr words.pool visits
  everleaf incr words.pool stock -3")]
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
    target: Target,
    #[command(flatten)]
    expiry: NewExpiry,
}

/// Adds; durable when it returns.
pub fn run(args: Args) -> Outcome {
    let store = Store::open(&args.pool)?;
    let tree = args.target.to_write(&store)?;
    let key = args.target.key_of(&args.key, tree.key_type())?;
    let sum = tree.write(|tree| add(&tree.with_expiry(args.expiry.ttl), &key, args.by))?;
    store.close()?;
    writeln!(std::io::stdout(), "{sum}").map_err(|error| Failure::output(&error))
}

/// Adds to the value of `key`; what it became.
pub fn add(tree: &Tree, key: &KeyArgument, by: i64) -> Result<i64, Failure> {
    loop {
        let old = tree.get(key.as_key())?;
        let sum = sum(old.as_deref(), by).map_err(Failure::Failed)?;
        if tree.compare_and_swap(key.as_key(), old.as_deref(), Some(sum.to_string().as_bytes()))? {
            return Ok(sum);
        }
    }
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
    use super::sum;

    #[test]
    fn only_numbers_that_fit_are_added() {
        assert_eq!(sum(None, 3), Ok(3));
        assert_eq!(sum(Some(b"-5"), 3), Ok(-2));
        assert_eq!(sum(Some(b"9223372036854775806"), 1), Ok(i64::MAX));
        for (old, by) in [(&b"9223372036854775807"[..], 1), (b"-9223372036854775808", -1)] {
            assert!(sum(Some(old), by).is_err_and(|sentence| sentence.contains("64 bits hold")));
        }
        for old in [&b""[..], b"1.5", b" 1", b"\xff", b"x"] {
            assert!(sum(Some(old), 1).is_err_and(|sentence| sentence.contains("not changed")));
        }
    }
}
