//! What RFC 4180 allows. The `csv` crate reads anything, so a quote out of place (or a file that is
//! no CSV at all) would silently become other rows than its author meant. [`Strict`] stands before
//! it, passes bytes on unchanged, and stops at the first record that the grammar does not have. Two
//! habits of real files are allowed beyond it: lines may end with LF alone, and text may be any
//! UTF-8.

use std::io::{self, BufRead, Read};

use crate::size::display_count;

/// Where in the grammar the next byte stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    FieldStart,
    Plain,
    Quoted,
    /// After a quote in a quoted field: it either ends the field or is the first of two that mean
    /// one.
    AfterQuote,
    AfterReturn,
}

/// Passes CSV on to a lenient reader, whole records first, and fails with a sentence at the first
/// that is none.
pub struct Strict<R> {
    input: R,
    place: Place,
    line: u64,
    quote_line: u64,
    record_bytes: u64,
    max_record_bytes: u64,
    failure: Option<String>,
}

impl<R: BufRead> Strict<R> {
    /// From the beginning of `input`, whose records have at most `max_record_bytes`, as they stand
    /// in the file.
    pub const fn new(input: R, max_record_bytes: u64) -> Self {
        Self {
            input,
            place: Place::FieldStart,
            line: 1,
            quote_line: 1,
            record_bytes: 0,
            max_record_bytes,
            failure: None,
        }
    }

    /// Takes one byte; true if a record ends with it.
    fn step(&mut self, byte: u8) -> Result<bool, String> {
        self.record_bytes += 1;
        let next = match (self.place, byte) {
            (_, 0) => {
                return Err(format!("line {} has a zero byte, so this is no CSV file", self.line));
            }
            (Place::AfterReturn, b'\n') => Place::FieldStart,
            (Place::AfterReturn, _) => {
                return Err(format!("line {} has a carriage return that ends no line", self.line));
            }
            (Place::Quoted, b'"') => Place::AfterQuote,
            (Place::Quoted, _) => Place::Quoted,
            (Place::FieldStart, b'"') => {
                self.quote_line = self.line;
                Place::Quoted
            }
            (Place::Plain, b'"') => {
                return Err(format!(
                    "line {} has a quote inside of a field that does not begin with one",
                    self.line
                ));
            }
            (Place::AfterQuote, b'"') => Place::Quoted,
            (_, b',' | b'\n') => Place::FieldStart,
            (_, b'\r') => Place::AfterReturn,
            (Place::AfterQuote, _) => {
                return Err(format!(
                    "line {} has text after the closing quote of a field",
                    self.line
                ));
            }
            (Place::FieldStart | Place::Plain, _) => Place::Plain,
        };
        let ends_record = byte == b'\n' && next == Place::FieldStart;
        self.place = next;
        if byte == b'\n' {
            self.line += 1;
        }
        if ends_record {
            self.record_bytes = 0;
        } else if self.record_bytes > self.max_record_bytes {
            return Err(format!(
                "the row at line {} has more than {} bytes",
                self.line,
                display_count(self.max_record_bytes)
            ));
        }
        Ok(ends_record)
    }

    fn invalid(sentence: String) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, sentence)
    }
}

impl<R: BufRead> Read for Strict<R> {
    fn read(&mut self, output: &mut [u8]) -> io::Result<usize> {
        if let Some(sentence) = self.failure.clone() {
            return Err(Self::invalid(sentence));
        }
        let available = self.input.fill_buf()?;
        let length = available.len().min(output.len());
        let output = &mut output[..length];
        output.copy_from_slice(&available[..length]);
        self.input.consume(length);
        if length == 0 && self.place == Place::Quoted {
            return Err(Self::invalid(format!(
                "the quote that opens a field in line {} is never closed",
                self.quote_line
            )));
        }
        let mut whole_records = 0;
        for (place, byte) in output.iter().enumerate() {
            match self.step(*byte) {
                Ok(true) => whole_records = place + 1,
                Ok(false) => {}
                // The records before the bad one are handed on first: what was good is loaded.
                Err(sentence) if whole_records > 0 => {
                    self.failure = Some(sentence);
                    return Ok(whole_records);
                }
                Err(sentence) => {
                    self.failure = Some(sentence.clone());
                    return Err(Self::invalid(sentence));
                }
            }
        }
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What passes, and the complaint, with reads of every size.
    fn pass(text: &[u8], read_bytes: usize) -> (Vec<u8>, Option<String>) {
        let mut strict = Strict::new(text, 30);
        let mut passed = Vec::new();
        let mut buffer = vec![0; read_bytes];
        loop {
            match strict.read(&mut buffer) {
                Ok(0) => return (passed, None),
                Ok(read) => passed.extend_from_slice(&buffer[..read]),
                Err(error) => return (passed, Some(error.to_string())),
            }
        }
    }

    #[test]
    fn csv_passes_unchanged() {
        for text in [
            &b""[..],
            b"a,b\n1,2",
            b"a,b\r\n1,2\r\n",
            b"\"a\"\"\",\"b\r\n\"\n\"\",\"\"",
            b"a\n\n\nb\n",
            b",,\n\"x\",\"\",\n",
            "ä,\u{feff}\n".as_bytes(),
            b"a\r",
        ] {
            for read_bytes in 1..40 {
                assert_eq!(pass(text, read_bytes), (text.to_vec(), None), "{text:?} {read_bytes}");
            }
        }
    }

    #[test]
    fn what_the_grammar_does_not_have_is_refused_after_the_records_before_it() {
        for (text, whole, complaint) in [
            (&b"a\n1\nx\"y\n2\n"[..], 4, "line 3 has a quote inside"),
            (b"a\n\"x\"y\n", 2, "line 2 has text after the closing quote"),
            (b"a\n\"x\ny", 6, "in line 2 is never closed"),
            (b"a\rb\n", 0, "line 1 has a carriage return"),
            (b"a\n\0", 2, "line 2 has a zero byte"),
            (b"a\n0123456789012345678901234567890123456789\n", 2, "more than 30 bytes"),
        ] {
            let (passed, said) = pass(text, 100);
            assert_eq!(passed, &text[..whole], "{text:?}");
            assert!(
                said.as_deref().is_some_and(|said| said.contains(complaint)),
                "{text:?}: {said:?}"
            );
            for read_bytes in 1..40 {
                let (passed, said) = pass(text, read_bytes);
                assert!(text.starts_with(&passed), "{text:?} {read_bytes}");
                assert!(said.is_some_and(|said| said.contains(complaint)), "{text:?} {read_bytes}");
            }
        }
    }
}
