//! The files that `load` reads, as streams of records in file order: nothing but the record at hand
//! is ever in memory.
//!
//! Map of the files: `lines` (a key a line) · `tsv` (key TAB value) · `jsonl` (objects of
//! JSON) · `objects` (any objects of JSON, a field of which is the key) · `rows` (CSV rows as JSON
//! objects) · `rfc4180` (what is CSV at all).

mod jsonl;
mod lines;
mod objects;
mod rfc4180;
mod rows;
mod tsv;

use std::io::{self, BufRead, Read};

pub use jsonl::JsonLines;
pub use lines::Lines;
pub use objects::JsonObjects;
pub use rows::{HeaderError, Rows};
pub use tsv::Tsv;

use crate::size::display_count;

/// One record of a file.
#[derive(Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Number of the line (lines, tsv) or of the row (csv) from 1, for messages.
    pub number: u64,
    /// Its key, as it stands in the file.
    pub key: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
}

/// A file of some format.
pub trait Records {
    /// What `number` counts: `line` or `row`.
    fn unit(&self) -> &'static str {
        "line"
    }

    /// The next record, None at the end, or a sentence that says what is wrong where.
    fn next(&mut self) -> Result<Option<Record<'_>>, String>;
}

/// The lines of a text that are not empty; all are counted.
struct TextLines {
    input: Box<dyn BufRead>,
    max_bytes: usize,
    /// The number of the line, from 1.
    number: u64,
    line: Vec<u8>,
}

impl TextLines {
    /// From the beginning of `input`; a line has at most `max_bytes`.
    const fn new(input: Box<dyn BufRead>, max_bytes: usize) -> Self {
        Self { input, max_bytes, number: 0, line: Vec::new() }
    }

    /// Goes on to the next line; false at the end.
    fn advance(&mut self) -> Result<bool, String> {
        loop {
            self.number += 1;
            let found = read_line(&mut *self.input, &mut self.line, self.number, self.max_bytes)?;
            if !found || !self.line.is_empty() {
                return Ok(found);
            }
        }
    }
}

/// Reads a line of at most `max_bytes` bytes without its newline (LF or CRLF) into `line`; false at
/// the end of the file. The limit keeps a file without newlines from filling the memory.
fn read_line(
    input: &mut dyn BufRead,
    line: &mut Vec<u8>,
    number: u64,
    max_bytes: usize,
) -> Result<bool, String> {
    line.clear();
    let limit = max_bytes as u64 + 2;
    let read = input.take(limit).read_until(b'\n', line).map_err(|error| unreadable(&error))?;
    if read == 0 {
        return Ok(false);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
    }
    if line.len() > max_bytes {
        return Err(format!(
            "line {number} has more than {} bytes, which is the most that can be stored",
            display_count(max_bytes as u64)
        ));
    }
    Ok(true)
}

/// The sentence for an error of reading.
pub fn unreadable(error: &io::Error) -> String {
    format!("the file cannot be read any further: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_with_lf_or_crlf_or_the_file() {
        let mut input: &[u8] = b"a\r\n\nb\rc\nlast\r";
        let mut line = Vec::new();
        let mut lines = Vec::new();
        while read_line(&mut input, &mut line, 1, 10).unwrap() {
            lines.push(line.clone());
        }
        assert_eq!(lines, [&b"a"[..], b"", b"b\rc", b"last\r"]);
    }

    #[test]
    fn a_line_at_the_limit_is_read_and_a_longer_one_refused() {
        let mut line = Vec::new();
        for end in ["", "\n", "\r\n"] {
            let full = format!("0123456789{end}");
            assert_eq!(read_line(&mut full.as_bytes(), &mut line, 1, 10), Ok(true));
            assert_eq!(line, b"0123456789");
            let longer = format!("0123456789a{end}");
            assert!(
                read_line(&mut longer.as_bytes(), &mut line, 7, 10).unwrap_err().contains("line 7")
            );
        }
        assert!(read_line(&mut &[b'x'; 1000][..], &mut line, 7, 10).is_err());
    }
}
