//! Replies, in RESP2 or RESP3.

use std::io::Write;

use super::number::show;

/// Where replies are written, and in which version of the protocol.
pub struct Reply<'o> {
    /// The bytes.
    pub out: &'o mut Vec<u8>,
    /// Whether it is RESP3.
    pub three: bool,
    /// Once there are more bytes than these, no string is added: the reply is too long.
    pub end: usize,
}

impl<'o> Reply<'o> {
    /// A reply of any length.
    pub fn to(out: &'o mut Vec<u8>, three: bool) -> Self {
        Self { out, three, end: usize::MAX }
    }

    /// Whether it is too long already.
    pub fn is_too_long(&self) -> bool {
        self.out.len() > self.end
    }

    fn head(&mut self, mark: u8, number: usize) {
        // Writing to a vector does not fail.
        let _ = write!(self.out, "{}{number}\r\n", mark as char);
    }

    /// A word that says that it was done.
    pub fn simple(&mut self, word: &str) {
        let _ = write!(self.out, "+{word}\r\n");
    }

    /// OK.
    pub fn ok(&mut self) {
        self.out.extend_from_slice(b"+OK\r\n");
    }

    /// What went wrong, with its code in front.
    pub fn error(&mut self, sentence: &str) {
        let line = sentence.replace(['\r', '\n'], " ");
        let _ = write!(self.out, "-{line}\r\n");
    }

    /// A whole number.
    pub fn integer(&mut self, number: i64) {
        let _ = write!(self.out, ":{number}\r\n");
    }

    /// A number of things.
    pub fn count(&mut self, number: usize) {
        self.head(b':', number);
    }

    /// Yes or no, as 1 or 0.
    pub fn flag(&mut self, yes: bool) {
        self.integer(i64::from(yes));
    }

    /// A string.
    pub fn bulk(&mut self, bytes: impl AsRef<[u8]>) {
        if self.is_too_long() {
            return;
        }
        let bytes = bytes.as_ref();
        self.head(b'$', bytes.len());
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    /// A string, or nothing.
    pub fn maybe(&mut self, bytes: Option<impl AsRef<[u8]>>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    /// Nothing.
    pub fn null(&mut self) {
        self.out.extend_from_slice(if self.three { b"_\r\n" } else { b"$-1\r\n" });
    }

    /// Nothing, where an array would be.
    pub fn null_array(&mut self) {
        self.out.extend_from_slice(if self.three { b"_\r\n" } else { b"*-1\r\n" });
    }

    /// A number with a fraction.
    pub fn double(&mut self, number: f64) {
        if self.three {
            let _ = write!(self.out, ",{}\r\n", show(number));
        } else {
            self.bulk(show(number));
        }
    }

    /// So many values follow.
    pub fn array(&mut self, length: usize) {
        self.head(b'*', length);
    }

    /// A message of so many values, which is no reply.
    pub fn push(&mut self, length: usize) {
        self.head(if self.three { b'>' } else { b'*' }, length);
    }

    /// So many pairs follow.
    pub fn map(&mut self, pairs: usize) {
        if self.three { self.head(b'%', pairs) } else { self.head(b'*', 2 * pairs) }
    }

    /// The entries of so many streams follow, as READ commands tell them.
    pub fn streams(&mut self, streams: usize) {
        if self.three { self.map(streams) } else { self.array(streams) }
    }

    /// The entries of one of these follow.
    pub fn stream(&mut self, key: &[u8]) {
        if !self.three {
            self.array(2);
        }
        self.bulk(key);
    }

    /// So many members follow.
    pub fn set(&mut self, length: usize) {
        self.head(if self.three { b'~' } else { b'*' }, length);
    }

    /// What the second words of a command mean.
    pub fn help(&mut self, command: &[u8], lines: &[&str]) {
        let name = command.escape_ascii().to_string().to_ascii_uppercase();
        let head = format!("{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
        let own = [&head[..]];
        let lines = own.iter().chain(lines).chain(&["HELP", "    Prints this help."]);
        self.array(lines.clone().count());
        lines.for_each(|line| self.simple(line));
    }

    /// Text to be read by people.
    pub fn text(&mut self, text: &str) {
        if self.three {
            self.head(b'=', text.len() + 4);
            let _ = write!(self.out, "txt:{text}\r\n");
        } else {
            self.bulk(text);
        }
    }
}
