//! `jsonl`: an object of JSON a line, as `scan --json` writes them.

use std::io::BufRead;

use serde::Deserialize;

use super::{Record, Records, read_line};
use crate::target::unhex;

/// Reads `{"key":..,"value":..}`; bytes that are no text are digits under `key_hex` and
/// `value_hex`, and a key may be a number. Empty lines are skipped, and counted.
pub struct JsonLines {
    input: Box<dyn BufRead>,
    max_line_bytes: usize,
    number: u64,
    line: Vec<u8>,
    key: Vec<u8>,
    value: Vec<u8>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Object {
    key: Option<Text>,
    key_hex: Option<String>,
    value: Option<Text>,
    value_hex: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Text {
    Number(u64),
    Text(String),
}

impl JsonLines {
    /// From the beginning of `input`; a line has at most `max_line_bytes`.
    pub fn new(input: Box<dyn BufRead>, max_line_bytes: usize) -> Self {
        let (line, key, value) = (Vec::new(), Vec::new(), Vec::new());
        Self { input, max_line_bytes, number: 0, line, key, value }
    }

    fn parse(&mut self) -> Result<(), String> {
        let object: Object =
            serde_json::from_slice(&self.line).map_err(|error| error.to_string())?;
        self.key = bytes_of("key", object.key, object.key_hex)?;
        self.value = bytes_of("value", object.value, object.value_hex)?;
        Ok(())
    }
}

/// The bytes that stand under `name`, or as digits under `name_hex`.
fn bytes_of(name: &str, text: Option<Text>, digits: Option<String>) -> Result<Vec<u8>, String> {
    match (text, digits) {
        (Some(Text::Text(text)), None) => Ok(text.into_bytes()),
        (Some(Text::Number(number)), None) => Ok(number.to_string().into_bytes()),
        (None, Some(digits)) => unhex(digits.as_bytes()),
        (None, None) => Err(format!("there is no `{name}`")),
        (Some(_), Some(_)) => Err(format!("there are both `{name}` and `{name}_hex`")),
    }
}

impl Records for JsonLines {
    fn unit(&self) -> &'static str {
        "line"
    }

    fn next(&mut self) -> Result<Option<Record<'_>>, String> {
        loop {
            self.number += 1;
            if !read_line(&mut *self.input, &mut self.line, self.number, self.max_line_bytes)? {
                return Ok(None);
            }
            if !self.line.is_empty() {
                break;
            }
        }
        let number = self.number;
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
            ("[]", "line 1"),
            ("{\"key\":\"a\"}", "there is no `value`"),
            ("{\"value\":\"a\"}", "there is no `key`"),
            ("{\"key\":\"a\",\"key_hex\":\"61\",\"value\":\"\"}", "both `key` and `key_hex`"),
            ("{\"key_hex\":\"6\",\"value\":\"\"}", "is not hexadecimal"),
            ("{\"key\":-1,\"value\":\"\"}", "line 1"),
            ("{\"key\":\"a\",\"value\":\"\",\"name\":1}", "unknown field `name`"),
        ] {
            let said = JsonLines::new(Box::new(text.as_bytes()), 100).next().unwrap_err();
            assert!(said.contains(what), "{text}: {said}");
        }
    }
}
