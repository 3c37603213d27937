//! Forms of values: what programs store, as text.

use std::borrow::Cow;

use serde::de::IgnoredAny;

use crate::digits::{hex, unhex};
use crate::failure::Failure;
use crate::keys::readable;

/// How values are written on the command line, in arguments and in the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ValueForm {
    /// A decimal number, of the 8 bytes, least one first, that a `u64` of a typed tree has.
    U64le,
    /// Text; a value that is not UTF-8 is refused.
    Utf8,
    /// JSON, checked, and in one line.
    Json,
    /// Hexadecimal digits, two a byte.
    Hex,
}

/// Which form.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct FormArgument {
    /// Write values in this form, in arguments and in the output: `u64le`, the numbers that
    /// programs store as 8 bytes; `utf8`, text and nothing else; `json`, in one line; `hex`,
    /// digits. A value that has not this form is a failure. Without it, values are their bytes.
    #[arg(long = "as", value_name = "FORM", hide_possible_values = true)]
    form: Option<ValueForm>,
}

impl FormArgument {
    /// The form, unless `--hex`, which is of keys too, says the same or another.
    pub fn or_hex(self, is_hex: bool) -> Option<ValueForm> {
        self.form.or(is_hex.then_some(ValueForm::Hex))
    }
}

/// The bytes that a text in this form stands for.
///
/// # Errors
/// It has not this form: the command line is wrong.
pub fn read(form: Option<ValueForm>, text: &[u8]) -> Result<Vec<u8>, Failure> {
    let is_none = |what: &str| {
        Failure::usage(format!("`{}` is {what}; --as is the form of values", readable(text)))
    };
    Ok(match form {
        None => text.to_vec(),
        Some(ValueForm::Hex) => unhex(text).map_err(Failure::Usage)?,
        Some(ValueForm::U64le) => {
            let digits = str::from_utf8(text).ok();
            let digits = digits.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
            let number = digits.and_then(|digits| digits.parse::<u64>().ok());
            let number =
                number.ok_or_else(|| is_none("no whole number from 0 to 18446744073709551615"))?;
            number.to_le_bytes().to_vec()
        }
        Some(ValueForm::Utf8) if str::from_utf8(text).is_err() => return Err(is_none("not UTF-8")),
        Some(ValueForm::Json) if in_one_line(text).is_none() => return Err(is_none("no JSON")),
        Some(ValueForm::Utf8 | ValueForm::Json) => text.to_vec(),
    })
}

/// A value in this form.
///
/// # Errors
/// It has not this form: what it is instead, to stand behind `the value of KEY`.
pub fn show(form: ValueForm, value: &[u8]) -> Result<Cow<'_, [u8]>, String> {
    match form {
        ValueForm::U64le => match value.try_into() {
            Ok(bytes) => Ok(u64::from_le_bytes(bytes).to_string().into_bytes().into()),
            Err(_) => Err(format!("has {} bytes, and a u64 has 8", value.len())),
        },
        ValueForm::Utf8 if str::from_utf8(value).is_ok() => Ok(value.into()),
        ValueForm::Utf8 => Err("is not UTF-8".to_owned()),
        ValueForm::Json => {
            in_one_line(value).map(Cow::Owned).ok_or_else(|| "is no JSON".to_owned())
        }
        ValueForm::Hex => Ok(hex(value).into_bytes().into()),
    }
}

/// JSON without the blanks between its words; none if it is no JSON. Numbers stay as they are.
fn in_one_line(text: &[u8]) -> Option<Vec<u8>> {
    // What is passed over is not looked at for being UTF-8.
    serde_json::from_str::<IgnoredAny>(str::from_utf8(text).ok()?).ok()?;
    let (mut line, mut in_string, mut escaped) = (Vec::with_capacity(text.len()), false, false);
    for byte in text {
        if in_string || !byte.is_ascii_whitespace() {
            line.push(*byte);
        }
        in_string ^= *byte == b'"' && !escaped;
        escaped = in_string && *byte == b'\\' && !escaped;
    }
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_in_a_form_is_read_back() {
        for (form, value, text) in [
            (ValueForm::U64le, &b"\x02\x01\0\0\0\0\0\0"[..], &b"258"[..]),
            (ValueForm::U64le, b"\xff\xff\xff\xff\xff\xff\xff\xff", b"18446744073709551615"),
            (ValueForm::Utf8, b"\xc3\xa4\n", b"\xc3\xa4\n"),
            (
                ValueForm::Json,
                b"{\"a b\":[1.50,\"\\\" \\\\\"],\"c\":1e400}",
                b"{\"a b\":[1.50,\"\\\" \\\\\"],\"c\":1e400}",
            ),
            (ValueForm::Hex, b"\0\xff", b"00ff"),
        ] {
            assert_eq!(show(form, value).unwrap(), text, "{form:?}");
            assert_eq!(read(Some(form), text).ok().as_deref(), Some(value), "{form:?}");
        }
        let spread = b" {\n \"a b\" : [ 1 , \"\\\\\" , \" \\\" \" ] }\n";
        assert_eq!(
            show(ValueForm::Json, spread).unwrap(),
            &b"{\"a b\":[1,\"\\\\\",\" \\\" \"]}"[..]
        );
    }

    #[test]
    fn what_has_not_the_form_is_refused_with_what_it_is() {
        for (form, value, what) in [
            (ValueForm::U64le, &b"12345"[..], "has 5 bytes, and a u64 has 8"),
            (ValueForm::Utf8, b"\xff", "is not UTF-8"),
            (ValueForm::Json, b"{\"a\":1,}", "is no JSON"),
            (ValueForm::Json, b"", "is no JSON"),
        ] {
            assert_eq!(show(form, value).unwrap_err(), what);
        }
        for (form, text) in [
            (ValueForm::U64le, &b"-1"[..]),
            (ValueForm::U64le, b""),
            (ValueForm::U64le, b"18446744073709551616"),
            (ValueForm::Utf8, b"\xff"),
            (ValueForm::Json, b"{"),
            (ValueForm::Hex, b"0"),
        ] {
            assert!(matches!(read(Some(form), text), Err(Failure::Usage(_))), "{form:?}");
        }
    }
}
