//! The text form of bytes: one entry stays one line, and what is readable stays readable.
//!
//! `scan` writes it and `load` reads it, so an entry comes back byte for byte.

use std::io::{self, Write};

/// Writes `bytes` with TAB, newline, carriage return and backslash as `\t`, `\n`, `\r`, `\\`, and
/// each byte that is not valid UTF-8 as `\xHH`.
pub fn write_escaped(output: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    for chunk in bytes.utf8_chunks() {
        let mut rest = chunk.valid().as_bytes();
        // The characters are ASCII, so a byte of theirs is never part of a longer character.
        while let Some(place) = rest.iter().position(|byte| letter_of(*byte).is_some()) {
            output.write_all(&rest[..place])?;
            output.write_all(&[b'\\', letter_of(rest[place]).unwrap_or(b'\\')])?;
            rest = &rest[place + 1..];
        }
        output.write_all(rest)?;
        for byte in chunk.invalid() {
            write!(output, "\\x{byte:02x}")?;
        }
    }
    Ok(())
}

/// The letter that stands for a byte behind a backslash.
fn letter_of(byte: u8) -> Option<u8> {
    match byte {
        b'\t' => Some(b't'),
        b'\n' => Some(b'n'),
        b'\r' => Some(b'r'),
        b'\\' => Some(b'\\'),
        _ => None,
    }
}

/// The bytes that a text form stands for. A backslash with anything else behind it stands for
/// itself.
pub fn unescape(text: &[u8], bytes: &mut Vec<u8>) {
    bytes.clear();
    let mut rest = text;
    while let Some(place) = rest.iter().position(|byte| *byte == b'\\') {
        bytes.extend_from_slice(&rest[..place]);
        let (byte, length) = escaped_byte(&rest[place..]);
        bytes.push(byte);
        rest = &rest[place + length..];
    }
    bytes.extend_from_slice(rest);
}

/// What the backslash at the beginning of `text` stands for, and how long that is.
fn escaped_byte(text: &[u8]) -> (u8, usize) {
    let digit = |byte: u8| (byte as char).to_digit(16).map(|value| value as u8);
    match *text {
        [_, b't', ..] => (b'\t', 2),
        [_, b'n', ..] => (b'\n', 2),
        [_, b'r', ..] => (b'\r', 2),
        [_, b'\\', ..] => (b'\\', 2),
        [_, b'x', high, low, ..] => match (digit(high), digit(low)) {
            (Some(high), Some(low)) => (high << 4 | low, 4),
            _ => (b'\\', 1),
        },
        _ => (b'\\', 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(bytes: &[u8]) -> Vec<u8> {
        let mut output = Vec::new();
        write_escaped(&mut output, bytes).unwrap();
        output
    }

    fn unescaped(text: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        unescape(text, &mut bytes);
        bytes
    }

    #[test]
    fn only_what_must_be_is_escaped() {
        assert_eq!(escaped(b""), b"");
        assert_eq!(escaped("plain ünïcödé \0".as_bytes()), "plain ünïcödé \0".as_bytes());
        assert_eq!(escaped(b"a\tb\nc\\d\r"), b"a\\tb\\nc\\\\d\\r");
        assert_eq!(escaped(b"\t\t"), b"\\t\\t");
        assert_eq!(escaped(b"\xff\x00\xc3("), b"\\xff\x00\\xc3(");
        assert_eq!(escaped(b"\xe2\x82"), b"\\xe2\\x82");
    }

    #[test]
    fn any_two_bytes_come_back() {
        for first in 0..=255u8 {
            for second in 0..=255u8 {
                let bytes = [first, second];
                let text = escaped(&bytes);
                assert!(!text.iter().any(|byte| matches!(byte, b'\t' | b'\n' | b'\r')));
                assert_eq!(unescaped(&text), bytes);
            }
        }
    }

    #[test]
    fn what_only_looks_like_an_escape_comes_back() {
        for bytes in [&b"\\x41"[..], b"\\\\t", b"\\", b"x\\xff\\", b"\\xf\xff"] {
            assert_eq!(unescaped(&escaped(bytes)), bytes);
        }
    }

    #[test]
    fn a_backslash_before_anything_else_stands_for_itself() {
        assert_eq!(unescaped(b"C:\\Users\\x4"), b"C:\\Users\\x4");
        assert_eq!(unescaped(b"\\xgg\\"), b"\\xgg\\");
    }
}
