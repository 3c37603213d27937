//! Requests: arrays of strings, or lines. Any bytes may come; none of this panics.

use std::ops::Range;

/// The longest line of a request.
const MAX_LINE_BYTES: usize = 64 << 10;
/// The most arguments of a request.
const MAX_ARGUMENTS: usize = 1 << 20;
/// The same of a client that has given no password, and the longest of them.
const UNAUTHENTICATED_ARGUMENTS: i64 = LEAST_ARGUMENTS as i64;
/// So many arguments every client may send.
const LEAST_ARGUMENTS: usize = 10;
const UNAUTHENTICATED_BYTES: i64 = 16 << 10;
/// The longest string of Redis; where the limit is less, its error says so.
const REDIS_BYTES: i64 = 512 << 20;
/// Room for arguments that a connection keeps between requests.
const KEPT_ARGUMENTS: usize = 256;

/// What stands at the front of the bytes that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Front {
    /// A request of so many bytes, whose arguments the parser shows.
    Request(usize),
    /// Its end has not come yet.
    Incomplete,
    /// It is none, and what follows cannot be understood.
    Wrong(String),
}

/// What was understood of the request at the front. It is kept while the rest comes, so that no
/// byte is looked at again.
#[derive(Debug, Default)]
pub struct Parser {
    /// Bytes in front of this one are understood.
    at: usize,
    /// Bytes behind them that hold no end of a line.
    searched: usize,
    /// Arguments that have not come; none: how many there are is not known.
    missing: Option<usize>,
    /// Bytes of the argument whose length is known and whose bytes have not come.
    length: Option<usize>,
    /// Where the arguments are in the bytes that came.
    arguments: Vec<Range<usize>>,
    /// The arguments of a line with quotes, which are not part of the bytes that came.
    quoted: Vec<Vec<u8>>,
    /// Bytes of requests that were looked at, for tests: it grows with what has come.
    looked_at: u64,
}

fn length(digits: &[u8]) -> Option<i64> {
    super::number::integer(digits)
}

/// The number behind a sign, and bytes to the end of their line, where it is short and whole: as
/// nearly all are. What else there may be is for [`Parser::line`].
fn short_number(input: &[u8], sign: u8) -> Option<(usize, usize)> {
    const MOST_DIGITS: usize = 4;
    let digits = input.strip_prefix(&[sign])?;
    let mut number = 0;
    for (at, byte) in digits.iter().take(MOST_DIGITS + 1).enumerate() {
        match byte {
            b'0'..=b'9' if at == 0 || number > 0 => {
                number = 10 * number + usize::from(byte - b'0');
            }
            b'\r' if at > 0 && digits.get(at + 1) == Some(&b'\n') => return Some((number, at + 3)),
            _ => return None,
        }
    }
    None
}

fn wrong(what: &str) -> Front {
    Front::Wrong(format!("Protocol error: {what}"))
}

impl Parser {
    /// Looks for a request; a string in it has at most `max_bytes`; none: its client still has to
    /// give a password. `input` begins where it began the time before, and holds more.
    pub fn front(&mut self, input: &[u8], max_bytes: Option<usize>) -> Front {
        match input.first() {
            _ if self.missing == Some(0) => Front::Request(self.at),
            None => Front::Incomplete,
            Some(b'*') => self.array(input, max_bytes).unwrap_or_else(|front| front),
            Some(_) => self.inline(input),
        }
    }

    /// The request was answered; the next one begins behind it.
    pub fn next_request(&mut self) {
        (self.at, self.searched, self.missing, self.length) = (0, 0, None, None);
        self.arguments.clear();
        self.quoted = Vec::new();
        if self.arguments.capacity() > KEPT_ARGUMENTS {
            self.arguments = Vec::new();
        }
    }

    /// Whether nothing is known of the request at the front.
    pub fn is_new(&self) -> bool {
        self.at == 0 && self.searched == 0 && self.missing.is_none()
    }

    /// The request at the front is one of so many bytes, whose arguments lie there.
    pub fn understood(&mut self, bytes: usize, arguments: &[Range<usize>]) {
        (self.at, self.missing) = (bytes, Some(0));
        self.arguments.extend_from_slice(arguments);
    }

    /// Bytes that are understood.
    pub fn bytes(&self) -> usize {
        self.at
    }

    /// Where the arguments lie, unless some were in quotes.
    pub fn unquoted(&self) -> Option<&[Range<usize>]> {
        self.quoted.is_empty().then_some(&self.arguments)
    }

    /// Number of arguments that have come.
    pub fn len(&self) -> usize {
        self.arguments.len() + self.quoted.len()
    }

    /// An argument of the request at the front of `input`; no bytes where there is none.
    pub fn argument<'a>(&'a self, input: &'a [u8], at: usize) -> &'a [u8] {
        match self.arguments.get(at) {
            Some(range) => input.get(range.clone()).unwrap_or_default(),
            None => self.quoted.get(at).map_or(&[], Vec::as_slice),
        }
    }

    /// Bytes of memory that it holds for the request.
    pub fn held_bytes(&self) -> usize {
        self.arguments.capacity() * size_of::<Range<usize>>()
    }

    /// The next line, which is understood then; an error if it is too long.
    fn line<'i>(&mut self, input: &'i [u8]) -> Result<Option<&'i [u8]>, ()> {
        let rest = input.get(self.at..).unwrap_or_default();
        let end = rest.len().min(MAX_LINE_BYTES);
        let new = &rest[self.searched.min(end)..end];
        let Some(at) = new.iter().position(|byte| *byte == b'\n') else {
            self.looked_at += new.len() as u64;
            self.searched = end;
            return if rest.len() >= MAX_LINE_BYTES { Err(()) } else { Ok(None) };
        };
        self.looked_at += at as u64 + 1;
        let line = &rest[..self.searched + at];
        self.at += line.len() + 1;
        self.searched = 0;
        Ok(Some(line.strip_suffix(b"\r").unwrap_or(line)))
    }

    /// A short number behind a sign, which is understood then, and not more than `most`.
    fn short(&mut self, input: &[u8], sign: u8, most: usize) -> Option<usize> {
        let rest = input.get(self.at..).filter(|_| self.searched == 0)?;
        let (number, bytes) = short_number(rest, sign).filter(|(number, _)| *number <= most)?;
        self.looked_at += bytes as u64;
        self.at += bytes;
        Some(number)
    }

    /// An array of strings; what stands for it if it is not understood to its end.
    fn array(&mut self, input: &[u8], max_bytes: Option<usize>) -> Result<Front, Front> {
        let counted = self.missing.or_else(|| self.short(input, b'*', LEAST_ARGUMENTS));
        let mut missing = match counted {
            Some(missing) => missing,
            None => {
                let head = self.line(input).map_err(|()| wrong("too big mbulk count string"))?;
                let head = head.ok_or(Front::Incomplete)?;
                match length(&head[1..]) {
                    Some(count)
                        if max_bytes.is_none()
                            && (UNAUTHENTICATED_ARGUMENTS + 1..=i64::from(i32::MAX))
                                .contains(&count) =>
                    {
                        return Err(wrong("unauthenticated multibulk length"));
                    }
                    Some(count) if count <= MAX_ARGUMENTS as i64 => {
                        usize::try_from(count).unwrap_or(0)
                    }
                    _ => return Err(wrong("invalid multibulk length")),
                }
            }
        };
        self.missing = Some(missing);
        while missing > 0 {
            let most = max_bytes.unwrap_or(0);
            let bytes = match self.length.or_else(|| self.short(input, b'$', most)) {
                Some(bytes) => bytes,
                None => self.argument_length(input, max_bytes)?,
            };
            self.length = Some(bytes);
            if input.len() < self.at + bytes + 2 {
                return Err(Front::Incomplete);
            }
            self.arguments.push(self.at..self.at + bytes);
            self.at += bytes + 2;
            missing -= 1;
            (self.length, self.missing) = (None, Some(missing));
        }
        Ok(Front::Request(self.at))
    }

    fn argument_length(&mut self, input: &[u8], max_bytes: Option<usize>) -> Result<usize, Front> {
        let head = self.line(input).map_err(|()| wrong("too big bulk count string"))?;
        let Some((b'$', digits)) = head.ok_or(Front::Incomplete)?.split_first() else {
            let got = head.and_then(|head| head.first()).copied().unwrap_or(b'\r');
            return Err(wrong(&format!("expected '$', got '{}'", got.escape_ascii())));
        };
        let most = max_bytes.map_or(UNAUTHENTICATED_BYTES, |most| most as i64);
        let bytes = length(digits).filter(|bytes| (0..=most.max(REDIS_BYTES)).contains(bytes));
        match bytes {
            Some(bytes) if bytes <= most => Ok(bytes as usize),
            Some(_) if max_bytes.is_none() => Err(wrong("unauthenticated bulk length")),
            Some(_) => Err(wrong(&format!(
                "invalid bulk length; a value has at most {most} bytes here (everleaf serve \
                 --max-value, and the size of the pool)"
            ))),
            None => Err(wrong("invalid bulk length")),
        }
    }

    fn inline(&mut self, input: &[u8]) -> Front {
        let text = match self.line(input) {
            Ok(Some(line)) => line,
            Ok(None) => return Front::Incomplete,
            Err(()) => return wrong("too big inline request"),
        };
        self.missing = Some(0);
        if text.iter().any(|byte| matches!(byte, b'"' | b'\'')) {
            match quoted(text) {
                Some(words) => self.quoted = words,
                None => return wrong("unbalanced quotes in request"),
            }
            return Front::Request(self.at);
        }
        let mut at = 0;
        for word in text.split(u8::is_ascii_whitespace) {
            if !word.is_empty() {
                self.arguments.push(at..at + word.len());
            }
            at += word.len() + 1;
        }
        Front::Request(self.at)
    }
}

/// Words, some of which are quoted, as a whole or at their end.
pub fn quoted(text: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (mut words, mut rest) = (Vec::new(), text);
    loop {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return Some(words);
        }
        let is_end = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'');
        let end = rest.iter().position(is_end).unwrap_or(rest.len());
        let mut word = rest[..end].to_vec();
        rest = &rest[end..];
        if let Some(quote @ (b'"' | b'\'')) = rest.first() {
            rest = &rest[within_quotes(rest, *quote, &mut word)?..];
            if rest.first().is_some_and(|byte| !byte.is_ascii_whitespace()) {
                return None;
            }
        }
        words.push(word);
    }
}

/// Adds to a word what stands between quotes; where that ends, with its quotes.
fn within_quotes(text: &[u8], quote: u8, word: &mut Vec<u8>) -> Option<usize> {
    let mut at = 1;
    loop {
        let byte = *text.get(at)?;
        at += 1;
        if byte == quote {
            return Some(at);
        }
        if byte != b'\\' {
            word.push(byte);
            continue;
        }
        let next = *text.get(at)?;
        at += 1;
        match next {
            b'x' if quote == b'"' && text.get(at..at + 2).and_then(hex).is_some() => {
                word.extend(text.get(at..at + 2).and_then(hex));
                at += 2;
            }
            b'n' if quote == b'"' => word.push(b'\n'),
            b'r' if quote == b'"' => word.push(b'\r'),
            b't' if quote == b'"' => word.push(b'\t'),
            b'b' if quote == b'"' => word.push(8),
            b'a' if quote == b'"' => word.push(7),
            next if quote == b'"' || next == b'\'' => word.push(next),
            next => word.extend_from_slice(&[b'\\', next]),
        }
    }
}

fn hex(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(input: &[u8]) -> (Front, Vec<Vec<u8>>) {
        let mut parser = Parser::default();
        let front = parser.front(input, Some(100));
        let words = (0..parser.len()).map(|at| parser.argument(input, at).to_vec()).collect();
        (front, words)
    }

    /// Bytes that are looked at when the input comes byte by byte.
    fn looked_at(input: &[u8]) -> u64 {
        let mut parser = Parser::default();
        for end in 1..input.len() {
            assert_eq!(parser.front(&input[..end], Some(100)), Front::Incomplete);
        }
        assert_eq!(parser.front(input, Some(100)), Front::Request(input.len()));
        parser.looked_at
    }

    #[test]
    fn short_numbers_are_those_of_whole_lines() {
        const BYTES: &[u8] = b"059+ \r\n";
        for mut choice in 0..BYTES.len().pow(6) {
            let mut input = vec![b'$'];
            for _ in 0..6 {
                input.push(BYTES[choice % BYTES.len()]);
                choice /= BYTES.len();
            }
            if let Some((number, bytes)) = short_number(&input, b'$') {
                let mut parser = Parser::default();
                let line = parser.line(&input).unwrap().unwrap();
                assert_eq!(length(&line[1..]), Some(number as i64), "{}", input.escape_ascii());
                assert_eq!(parser.at, bytes, "{}", input.escape_ascii());
            }
        }
        assert_eq!(short_number(b"$9876\r\n", b'$'), Some((9876, 7)));
        assert_eq!(short_number(b"$98765\r\n", b'$'), None);
        assert_eq!(short_number(b"*1\r\n", b'$'), None);
    }

    #[test]
    fn a_request_that_comes_byte_by_byte_is_not_looked_at_anew() {
        let one = b"$9\r\nsome name\r\n";
        for names in [1_000, 10_000] {
            let request = [format!("*{names}\r\n").as_bytes(), &one.repeat(names)].concat();
            let looked_at = looked_at(&request);
            assert!(looked_at <= request.len() as u64, "{looked_at} of {}", request.len());
        }
        let line = [&b"MGET"[..], &b" name".repeat(10_000), b"\r\n"].concat();
        assert_eq!(looked_at(&line), line.len() as u64);
    }

    #[test]
    fn arrays_are_requests() {
        let request = b"*2\r\n$3\r\nGET\r\n$2\r\n\r\n\r\nrest";
        assert_eq!(words(request), (Front::Request(21), vec![b"GET".to_vec(), b"\r\n".to_vec()]));
        (0..21).for_each(|cut| assert_eq!(words(&request[..cut]).0, Front::Incomplete));
        assert_eq!(looked_at(&request[..21]), 12);
        assert_eq!(words(b"*0\r\n").0, Front::Request(4));
        assert_eq!(words(b"*-1\r\n").0, Front::Request(5));
    }

    #[test]
    fn lines_are_requests() {
        assert_eq!(words(b" PING  a\r\n"), (Front::Request(10), vec![b"PING".into(), b"a".into()]));
        assert_eq!(words(b"\r\n"), (Front::Request(2), vec![]));
        let quoted = vec![b"SET".to_vec(), b"a b".to_vec(), b"\x01\n".to_vec()];
        assert_eq!(words(b"SET 'a b' \"\\x01\\n\"\n"), (Front::Request(19), quoted));
    }

    #[test]
    fn who_has_given_no_password_may_send_little() {
        let said = |input: &[u8]| match Parser::default().front(input, None) {
            Front::Wrong(why) => why,
            other => format!("{other:?}"),
        };
        assert_eq!(said(b"*10\r\n"), "Incomplete");
        assert_eq!(said(b"*11\r\n"), "Protocol error: unauthenticated multibulk length");
        assert_eq!(said(b"*2147483648\r\n"), "Protocol error: invalid multibulk length");
        assert_eq!(said(b"*1\r\n$16384\r\n"), "Incomplete");
        assert_eq!(said(b"*1\r\n$16385\r\n"), "Protocol error: unauthenticated bulk length");
        assert_eq!(said(b"*1\r\n$536870913\r\n"), "Protocol error: invalid bulk length");
        assert_eq!(said(b"*1\r\n$-1\r\n"), "Protocol error: invalid bulk length");
    }

    #[test]
    fn what_is_none_is_said_to_be_wrong() {
        for wrong in [
            &b"*x\r\n"[..],
            b"*1048577\r\n",
            b"*1\r\n:1\r\n",
            b"*1\r\n$101\r\n",
            b"*1\r\n$-1\r\n",
            b"*1\r\n$536870912\r\n",
            b"GET \"a\n",
            &[b'x'; MAX_LINE_BYTES],
        ] {
            assert!(matches!(words(wrong).0, Front::Wrong(_)), "{}", wrong.escape_ascii());
        }
    }
}
