//! Lines of the text protocol, without allocation. Any bytes may come; none of this panics.

use std::iter::FusedIterator;

/// The longest key, in bytes, as memcached has it.
pub const MAX_KEY_BYTES: usize = 250;
/// The longest line, but for lines that name many keys.
pub const MAX_LINE_BYTES: usize = 2048;
/// The longest line of a retrieval.
pub const MAX_KEYS_LINE_BYTES: usize = 1 << 20;
/// Seconds up to which a time is one from now; a greater one is one since 1970.
const RELATIVE_SECONDS: i32 = 60 * 60 * 24 * 30;

/// What stands at the front of the bytes that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front<'i> {
    /// A line without its end, and the bytes that it takes with its end.
    Line(&'i [u8], usize),
    /// The end of the line has not come yet.
    Incomplete,
    /// It will not come within the limit.
    TooLong,
}

/// Looks for the line at the front. What was found is kept while the rest comes, so that no byte is
/// looked at again.
#[derive(Debug, Default)]
pub struct Search {
    /// Bytes at the front that hold no end of a line.
    searched: usize,
    /// Where the line ends.
    end: Option<usize>,
    looked_at: u64,
}

impl Search {
    /// Looks for a line. `input` begins where it began the time before, and holds more.
    pub fn front<'i>(&mut self, input: &'i [u8]) -> Front<'i> {
        let keys = [&b"get "[..], b"gets ", b"gat ", b"gats "];
        let limit = match keys.iter().any(|command| input.starts_with(command)) {
            true => MAX_KEYS_LINE_BYTES,
            false => MAX_LINE_BYTES,
        };
        if self.end.is_none() {
            let stop = input.len().min(limit);
            let new = &input[self.searched.min(stop)..stop];
            let at = new.iter().position(|byte| *byte == b'\n');
            self.looked_at += at.map_or(new.len(), |at| at + 1) as u64;
            self.end = at.map(|at| self.searched + at);
            self.searched = stop;
        }
        match self.end.and_then(|end| Some((input.get(..end)?, end + 1))) {
            Some((line, bytes)) => Front::Line(line.strip_suffix(b"\r").unwrap_or(line), bytes),
            None if input.len() >= limit => Front::TooLong,
            None => Front::Incomplete,
        }
    }

    /// The line was taken; the next one begins behind it.
    pub fn next_line(&mut self) {
        (self.searched, self.end) = (0, None);
    }

    /// Whether nothing of the line was looked at.
    pub fn is_new(&self) -> bool {
        self.searched == 0 && self.end.is_none()
    }

    /// Bytes that were looked at, for tests: it grows with what has come.
    pub fn looked_at(&self) -> u64 {
        self.looked_at
    }
}

/// The words of a line, which blanks part.
#[derive(Clone, Copy, Debug)]
pub struct Words<'i> {
    rest: &'i [u8],
}

impl<'i> Words<'i> {
    /// The words of `line`.
    pub const fn of(line: &'i [u8]) -> Self {
        Self { rest: line }
    }

    /// The bytes that no word was taken from.
    pub const fn rest(&self) -> &'i [u8] {
        self.rest
    }
}

impl<'i> Iterator for Words<'i> {
    type Item = &'i [u8];

    fn next(&mut self) -> Option<&'i [u8]> {
        let start = self.rest.iter().position(|byte| *byte != b' ')?;
        let rest = &self.rest[start..];
        let end = rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len());
        let (word, rest) = rest.split_at(end);
        self.rest = rest;
        Some(word)
    }
}

impl FusedIterator for Words<'_> {}

/// A number that is not negative. A plus and white space around it are taken, as memcached does.
pub fn unsigned(word: &[u8]) -> Option<u64> {
    let word = word.trim_ascii();
    digits(word.strip_prefix(b"+").unwrap_or(word))
}

fn digits(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, byte| match byte {
        b'0'..=b'9' => number.checked_mul(10)?.checked_add(u64::from(byte - b'0')),
        _ => None,
    })
}

/// The length of a value: what is greater than memcached's is none.
pub fn length(word: &[u8]) -> Option<u64> {
    const LONGEST: u64 = i32::MAX as u64 - 2;
    unsigned(word).filter(|length| *length <= LONGEST)
}

/// A number of seconds. memcached keeps the lower 32 bits of a greater one: some clients send -1 as
/// 4294967295.
pub fn seconds(word: &[u8]) -> Option<i32> {
    let word = word.trim_ascii();
    let number = match word.strip_prefix(b"-") {
        Some(digits) => 0i64.checked_sub_unsigned(self::digits(digits)?)?,
        None => i64::try_from(unsigned(word)?).ok()?,
    };
    Some(number as i32)
}

/// When a value expires: milliseconds since 1970, none for never. A time before now has expired.
pub fn expiry(seconds: i32, now_ms: u64) -> Option<u64> {
    let ms = u64::from(seconds.unsigned_abs()) * 1000;
    match seconds {
        0 => None,
        ..0 => Some(1),
        1..=RELATIVE_SECONDS => Some(now_ms.saturating_add(ms)),
        _ => Some(ms),
    }
}

/// The bytes that a base64 word stands for, with padding or without; none if it is not base64.
pub fn base64(word: &[u8]) -> Option<Vec<u8>> {
    let digits = word.strip_suffix(b"==").or(word.strip_suffix(b"=")).unwrap_or(word);
    if digits.len() % 4 == 1 || (digits.len() != word.len() && !word.len().is_multiple_of(4)) {
        return None;
    }
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    let (mut bits, mut count) = (0u32, 0);
    for digit in digits {
        let six = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(six);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
}

/// The base64 word of some bytes, with padding.
pub fn to_base64(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for three in bytes.chunks(3) {
        let at = |i: usize| u32::from(three.get(i).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for i in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * i) & 63) as usize];
            out.push(if i <= three.len() { digit } else { b'=' });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_with_a_newline_before_the_limit() {
        fn front(input: &[u8]) -> Front<'_> {
            Search::default().front(input)
        }
        assert_eq!(front(b"get a\r\nrest"), Front::Line(b"get a", 7));
        assert_eq!(front(b"get a\nrest"), Front::Line(b"get a", 6));
        assert_eq!(front(b"get a\r"), Front::Incomplete);
        assert_eq!(front(&[b'x'; MAX_LINE_BYTES]), Front::TooLong);
        let mut long = b"get ".to_vec();
        long.resize(MAX_LINE_BYTES * 2, b'x');
        assert_eq!(front(&long), Front::Incomplete);
        long.resize(MAX_KEYS_LINE_BYTES, b'x');
        assert_eq!(front(&long), Front::TooLong);
    }

    #[test]
    fn a_line_that_comes_byte_by_byte_is_not_looked_at_anew() {
        let line = [&b"get"[..], &b" key".repeat(10_000), b"\r\n"].concat();
        let mut search = Search::default();
        (1..line.len()).for_each(|end| assert_eq!(search.front(&line[..end]), Front::Incomplete));
        assert!(matches!(search.front(&line), Front::Line(..)));
        assert!(matches!(search.front(&line), Front::Line(..)), "a line that is answered in parts");
        assert_eq!(search.looked_at(), line.len() as u64);
    }

    #[test]
    fn words_are_parted_by_blanks() {
        let words = |line| Words::of(line).map(|w| String::from_utf8_lossy(w).into_owned());
        assert_eq!(words(b"  set  a 0 ").collect::<Vec<_>>(), ["set", "a", "0"]);
        assert_eq!(words(b"").count() + words(b"   ").count(), 0);
    }

    #[test]
    fn numbers_have_limits() {
        assert_eq!(unsigned(b"18446744073709551615"), Some(u64::MAX));
        for no in [&b"18446744073709551616"[..], b"", b"-1", b"+", b"++1", b"+-1", b"1a", b"1 2"] {
            assert_eq!(unsigned(no), None, "{no:?}");
        }
        for one in [&b"+1"[..], b"1  ", b"\t1", b"000000000000000000001"] {
            assert_eq!(unsigned(one), Some(1), "{one:?}");
        }
    }

    #[test]
    fn seconds_have_32_bits() {
        for (word, number) in [
            (&b"4294967295"[..], -1),
            (b"4294967296", 0),
            (b"4294967396", 100),
            (b"2147483648", i32::MIN),
            (b"-9223372036854775808", 0),
            (b"9223372036854775807", -1),
            (b"+5", 5),
            (b"-1", -1),
        ] {
            assert_eq!(seconds(word), Some(number), "{}", word.escape_ascii());
        }
        for no in [&b"9223372036854775808"[..], b"-9223372036854775809", b"-", b"", b"--1", b"x"] {
            assert_eq!(seconds(no), None, "{}", no.escape_ascii());
        }
    }

    #[test]
    fn times_up_to_thirty_days_are_from_now() {
        assert_eq!(expiry(0, 5), None);
        assert_eq!(expiry(-1, 5), Some(1));
        assert_eq!(expiry(2_592_000, 5), Some(2_592_000_005));
        assert_eq!(expiry(2_592_001, 5), Some(2_592_001_000));
        assert_eq!(expiry(i32::MIN, 5), Some(1));
        assert_eq!(expiry(i32::MAX, 5), Some(2_147_483_647_000));
    }

    #[test]
    fn base64_goes_both_ways() {
        for bytes in [&b""[..], b"f", b"fo", b"foo", b"\xff\x00\xfe\x01"] {
            let mut word = Vec::new();
            to_base64(bytes, &mut word);
            assert_eq!(base64(&word).as_deref(), Some(bytes));
        }
        let mut word = Vec::new();
        to_base64(b"fo", &mut word);
        assert_eq!(word, b"Zm8=");
        for no in [&b"Zm8==="[..], b"Z", b"Zm 8", b"Zm=8", b"Zm8*"] {
            assert_eq!(base64(no), None, "{no:?}");
        }
    }
}
