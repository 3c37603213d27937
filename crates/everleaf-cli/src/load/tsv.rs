//! `tsv`: key TAB value.

use std::io::BufRead;

use super::{Record, Records, TextLines};
use crate::escape::unescape;

/// Reads lines of key TAB value, as `scan` writes them. The first TAB separates: a value may have
/// more of them. Empty lines are skipped, and counted.
pub struct Tsv {
    text: TextLines,
    /// Whether a backslash always stands for itself.
    raw: bool,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Tsv {
    /// From the beginning of `input`; a line has at most `max_line_bytes`.
    pub fn new(input: Box<dyn BufRead>, max_line_bytes: usize, raw: bool) -> Self {
        let (text, key, value) = (TextLines::new(input, max_line_bytes), Vec::new(), Vec::new());
        Self { text, raw, key, value }
    }
}

impl Records for Tsv {
    fn next(&mut self) -> Result<Option<Record<'_>>, String> {
        if !self.text.advance()? {
            return Ok(None);
        }
        let number = self.text.number;
        let Some(tab) = self.text.line.iter().position(|byte| *byte == b'\t') else {
            return Err(format!("line {number} has no TAB between a key and a value"));
        };
        let (key, value) = (&self.text.line[..tab], &self.text.line[tab + 1..]);
        if self.raw || !self.text.line.contains(&b'\\') {
            return Ok(Some(Record { number, key, value }));
        }
        unescape(key, &mut self.key);
        unescape(value, &mut self.value);
        Ok(Some(Record { number, key: &self.key, value: &self.value }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_tab_separates_key_and_value() {
        let text = &b"a\t1\r\nb\t\n\n\tempty key\nc\tx\ty"[..];
        let mut tsv = Tsv::new(Box::new(text), 100, false);
        assert_eq!(tsv.next(), Ok(Some(Record { number: 1, key: b"a", value: b"1" })));
        assert_eq!(tsv.next(), Ok(Some(Record { number: 2, key: b"b", value: b"" })));
        assert_eq!(tsv.next(), Ok(Some(Record { number: 4, key: b"", value: b"empty key" })));
        assert_eq!(tsv.next(), Ok(Some(Record { number: 5, key: b"c", value: b"x\ty" })));
        assert_eq!(tsv.next(), Ok(None));
    }

    #[test]
    fn backslashes_are_read_as_scan_writes_them_unless_the_file_is_raw() {
        let text = &b"a\\tb\t\\xff\\n\\q\n"[..];
        let mut tsv = Tsv::new(Box::new(text), 100, false);
        let read = Record { number: 1, key: b"a\tb", value: b"\xff\n\\q" };
        assert_eq!(tsv.next(), Ok(Some(read)));
        let mut raw = Tsv::new(Box::new(text), 100, true);
        let read = Record { number: 1, key: b"a\\tb", value: b"\\xff\\n\\q" };
        assert_eq!(raw.next(), Ok(Some(read)));
    }

    #[test]
    fn a_line_without_tab_is_named() {
        let mut tsv = Tsv::new(Box::new(&b"a\t1\nno tab here\n"[..]), 100, false);
        assert!(tsv.next().is_ok());
        assert!(tsv.next().unwrap_err().contains("line 2"));
    }
}
