//! `jsonl`: an object of JSON a line, as `scan --json` writes them.

use std::io::BufRead;

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Number, Value};

use super::{Record, Records, TextLines};
use crate::digits::unhex;
use crate::keys::readable;

/// Reads `{"key":..,"value":..}`; bytes that are no text are digits under `key_hex` and
/// `value_hex`, and a key may be a number. Empty lines are skipped, and counted.
pub struct JsonLines {
    text: TextLines,
    key: Vec<u8>,
    value: Vec<u8>,
}

/// A key or a value that is null is there, and no text.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Object {
    #[serde(default, deserialize_with = "present")]
    key: Option<Text<Number>>,
    key_hex: Option<String>,
    #[serde(default, deserialize_with = "present")]
    value: Option<Text<u64>>,
    value_hex: Option<String>,
}

fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(json: D) -> Result<Option<T>, D::Error> {
    T::deserialize(json).map(Some)
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Text<N> {
    Number(N),
    Text(String),
}

impl JsonLines {
    /// From the beginning of `input`; a line has at most `max_line_bytes`.
    pub fn new(input: Box<dyn BufRead>, max_line_bytes: usize) -> Self {
        let (text, key, value) = (TextLines::new(input, max_line_bytes), Vec::new(), Vec::new());
        Self { text, key, value }
    }

    fn parse(&mut self) -> Result<(), String> {
        let object = match self.text.line.trim_ascii_start().first() {
            Some(b'[') => Err("it is an array".to_owned()), // Serde would take it for the fields.
            _ => serde_json::from_slice(&self.text.line)
                .map_err(|error| why_not(&self.text.line, &error)),
        };
        let object: Object = object?;
        self.key = bytes_of("key", object.key, object.key_hex)?;
        self.value = bytes_of("value", object.value, object.value_hex)?;
        Ok(())
    }
}

/// Why a line is no such object, in words of the format and not of the parser.
fn why_not(line: &[u8], error: &serde_json::Error) -> String {
    let fields: Map<String, Value> = match serde_json::from_slice(line) {
        Ok(Value::Object(fields)) => fields,
        Ok(_) => return "it is a value alone".to_owned(),
        Err(error) => return format!("from byte {} on it is no JSON", error.column()),
    };
    for (name, value) in &fields {
        match name.as_str() {
            "key" if !value.is_string() && !value.is_number() => {
                return "`key` is neither a text nor a number".to_owned();
            }
            "value" if !value.is_string() && !value.is_u64() => {
                return "`value` is neither a text nor a whole number of 64 bits".to_owned();
            }
            "key_hex" | "value_hex" if !value.is_string() => {
                return format!("`{name}` is no text of hexadecimal digits");
            }
            "key" | "value" | "key_hex" | "value_hex" => {}
            _ => return format!("there is an unknown field `{}`", readable(name.as_bytes())),
        }
    }
    // A field that comes twice: the parser's own words are good, but for its place in the line.
    error.to_string().split(" at line ").next().unwrap_or_default().to_owned()
}

/// The bytes that stand under `name`, or as digits under `name_hex`.
fn bytes_of(
    name: &str,
    text: Option<Text<impl ToString>>,
    digits: Option<String>,
) -> Result<Vec<u8>, String> {
    match (text, digits) {
        (Some(Text::Text(text)), None) => Ok(text.into_bytes()),
        (Some(Text::Number(number)), None) => Ok(number.to_string().into_bytes()),
        (None, Some(digits)) => unhex(digits.as_bytes()),
        (None, None) => Err(format!("there is no `{name}`")),
        (Some(_), Some(_)) => Err(format!("there are both `{name}` and `{name}_hex`")),
    }
}

impl Records for JsonLines {
    fn next(&mut self) -> Result<Option<Record<'_>>, String> {
        if !self.text.advance()? {
            return Ok(None);
        }
        let number = self.text.number;
        self.parse().map_err(|what| {
            format!(
                "line {number} is no object with a key and a value as `scan --json` prints \
                them: {what}"
            )
        })?;
        Ok(Some(Record { number, key: &self.key, value: &self.value }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_digits_and_numbers_are_read() {
        let text = "{\"key\":\"a\\u0000\",\"value\":\"\"}\n\n{\"key_hex\":\"ff00\",\
            \"value_hex\":\"\"}\r\n{\"value\":\"v\",\"key\":18446744073709551615}";
        let mut lines = JsonLines::new(Box::new(text.as_bytes()), 100);
        assert_eq!(lines.next(), Ok(Some(Record { number: 1, key: b"a\0", value: b"" })));
        assert_eq!(lines.next(), Ok(Some(Record { number: 3, key: b"\xff\0", value: b"" })));
        let most = b"18446744073709551615";
        assert_eq!(lines.next(), Ok(Some(Record { number: 4, key: most, value: b"v" })));
        assert_eq!(lines.next(), Ok(None));
    }

    #[test]
    fn what_is_no_such_object_is_refused() {
        for (text, what) in [
            ("leaf\t1", "line 1 is no object"),
            ("leaf\t1", "from byte 1 on it is no JSON"),
            ("{\"key\":\"a\",", "it is no JSON"),
            ("[]", "line 1"),
            ("[1]", "it is an array"),
            (" [\"a\",null,\"b\",null]", "it is an array"),
            ("7", "it is a value alone"),
            ("{\"key\":\"a\",\"value\":null}", "`value` is neither a text nor a whole"),
            ("{\"key\":\"a\",\"value\":[1]}", "`value` is neither a text nor a whole"),
            ("{\"key\":\"a\",\"value_hex\":1}", "`value_hex` is no text of hexadecimal"),
            ("{\"key\":1,\"key\":2,\"value\":\"\"}", "duplicate field `key`"),
            ("{\"key\":\"a\"}", "there is no `value`"),
            ("{\"value\":\"a\"}", "there is no `key`"),
            ("{\"key\":\"a\",\"key_hex\":\"61\",\"value\":\"\"}", "both `key` and `key_hex`"),
            ("{\"key_hex\":\"6\",\"value\":\"\"}", "is not hexadecimal"),
            ("{\"key\":true,\"value\":\"\"}", "`key` is neither a text nor a number"),
            ("{\"key\":\"a\",\"value\":-1}", "`value` is neither a text nor a whole"),
            ("{\"key\":\"a\",\"value\":\"\",\"name\":1}", "unknown field `name`"),
        ] {
            let said = JsonLines::new(Box::new(text.as_bytes()), 100).next().unwrap_err();
            assert!(said.contains(what), "{text}: {said}");
            assert!(!said.contains(" at line ") && !said.contains("untagged"), "{text}: {said}");
        }
    }
}
