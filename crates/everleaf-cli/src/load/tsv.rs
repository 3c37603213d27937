//! `tsv`: key TAB value.

use std::io::BufRead;

use super::{Record, Records, read_line};

/// Reads lines of key TAB value. The first TAB separates: a value may have more of them. Nothing is
/// unescaped. Empty lines are skipped, and counted.
pub struct Tsv {
    input: Box<dyn BufRead>,
    max_line_bytes: usize,
    number: u64,
    line: Vec<u8>,
}

impl Tsv {
    /// From the beginning of `input`; a line has at most `max_line_bytes`.
    pub fn new(input: Box<dyn BufRead>, max_line_bytes: usize) -> Self {
        Self { input, max_line_bytes, number: 0, line: Vec::new() }
    }
}

impl Records for Tsv {
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
        let Some(tab) = self.line.iter().position(|byte| *byte == b'\t') else {
            return Err(format!("line {} has no TAB between a key and a value", self.number));
        };
        Ok(Some(Record {
            number: self.number,
            key: &self.line[..tab],
            value: &self.line[tab + 1..],
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_tab_separates_key_and_value() {
        let mut tsv = Tsv::new(Box::new(&b"a\t1\r\nb\t\n\n\tempty key\nc\tx\ty"[..]), 100);
        assert_eq!(tsv.next(), Ok(Some(Record { number: 1, key: b"a", value: b"1" })));
        assert_eq!(tsv.next(), Ok(Some(Record { number: 2, key: b"b", value: b"" })));
        assert_eq!(tsv.next(), Ok(Some(Record { number: 4, key: b"", value: b"empty key" })));
        assert_eq!(tsv.next(), Ok(Some(Record { number: 5, key: b"c", value: b"x\ty" })));
        assert_eq!(tsv.next(), Ok(None));
    }

    #[test]
    fn a_line_without_tab_is_named() {
        let mut tsv = Tsv::new(Box::new(&b"a\t1\nno tab here\n"[..]), 100);
        assert!(tsv.next().is_ok());
        assert!(tsv.next().unwrap_err().contains("line 2"));
    }
}
