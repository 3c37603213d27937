//! `lines`: a key a line; its value is the number of the line.

use std::io::{BufRead, Write};

use super::{Record, Records, TextLines};

/// Reads a key a line. Empty lines are skipped, and counted.
pub struct Lines {
    text: TextLines,
    value: Vec<u8>,
}

impl Lines {
    /// From the beginning of `input`; a line has at most `max_key_bytes`.
    pub fn new(input: Box<dyn BufRead>, max_key_bytes: usize) -> Self {
        Self { text: TextLines::new(input, max_key_bytes), value: Vec::new() }
    }
}

impl Records for Lines {
    fn next(&mut self) -> Result<Option<Record<'_>>, String> {
        if !self.text.advance()? {
            return Ok(None);
        }
        self.value.clear();
        write!(self.value, "{}", self.text.number).map_err(|error| error.to_string())?;
        Ok(Some(Record { number: self.text.number, key: &self.text.line, value: &self.value }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_is_the_number_of_the_line_in_the_file() {
        let mut lines = Lines::new(Box::new(&b"one\n\n\r\nfour\r\n\xff five"[..]), 100);
        assert_eq!(lines.next(), Ok(Some(Record { number: 1, key: b"one", value: b"1" })));
        assert_eq!(lines.next(), Ok(Some(Record { number: 4, key: b"four", value: b"4" })));
        assert_eq!(lines.next(), Ok(Some(Record { number: 5, key: b"\xff five", value: b"5" })));
        assert_eq!(lines.next(), Ok(None));
    }
}
