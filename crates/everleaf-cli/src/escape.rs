//! The text form of bytes: one entry stays one line, and what is readable stays readable.
//!
//! `scan` writes it and `load` reads it, so an entry comes back byte for byte.

use std::io::{self, IsTerminal, Write, stdout};

/// What becomes of control characters that would not break a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Controls {
    /// They stay, for programs.
    Kept,
    /// They are escaped: a terminal would obey them.
    Escaped,
}

impl Controls {
    /// For what is written to the standard output.
    pub fn on_stdout() -> Self {
        if stdout().is_terminal() { Self::Escaped } else { Self::Kept }
    }

    fn must_escape(self, character: char) -> bool {
        self == Self::Escaped && character.is_control()
    }
}

/// Writes `bytes` with TAB, newline, carriage return and backslash as `\t`, `\n`, `\r`, `\\`, and
/// each byte that is not valid UTF-8, or of a control character to be escaped, as `\xHH`.
pub fn write_escaped(output: &mut impl Write, bytes: &[u8], controls: Controls) -> io::Result<()> {
    let special = |character| letter_of(character).is_some() || controls.must_escape(character);
    for chunk in bytes.utf8_chunks() {
        let mut rest = chunk.valid();
        while let Some(place) = rest.find(special) {
            output.write_all(&rest.as_bytes()[..place])?;
            let mut characters = rest[place..].chars();
            if let Some(character) = characters.next() {
                match letter_of(character) {
                    Some(letter) => write!(output, "\\{letter}")?,
                    None => write_digits(output, character.encode_utf8(&mut [0; 4]).as_bytes())?,
                }
            }
            rest = characters.as_str();
        }
        output.write_all(rest.as_bytes())?;
        write_digits(output, chunk.invalid())?;
    }
    Ok(())
}

fn write_digits(output: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    bytes.iter().try_for_each(|byte| write!(output, "\\x{byte:02x}"))
}

/// Writes JSON, whose control characters all stand in strings.
pub fn write_json(output: &mut impl Write, json: &str, controls: Controls) -> io::Result<()> {
    let mut rest = json;
    while let Some(place) = rest.find(|character| controls.must_escape(character)) {
        output.write_all(&rest.as_bytes()[..place])?;
        let mut characters = rest[place..].chars();
        if let Some(character) = characters.next() {
            write!(output, "\\u{:04x}", u32::from(character))?;
        }
        rest = characters.as_str();
    }
    output.write_all(rest.as_bytes())
}

/// The letter that stands for a character behind a backslash.
fn letter_of(character: char) -> Option<char> {
    match character {
        '\t' => Some('t'),
        '\n' => Some('n'),
        '\r' => Some('r'),
        '\\' => Some('\\'),
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
        shown(bytes, Controls::Kept)
    }

    fn shown(bytes: &[u8], controls: Controls) -> Vec<u8> {
        let mut output = Vec::new();
        write_escaped(&mut output, bytes, controls).unwrap();
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
                let on_a_terminal = shown(&bytes, Controls::Escaped);
                let text = str::from_utf8(&on_a_terminal).unwrap();
                assert!(!text.contains(char::is_control), "{text:?}");
                assert_eq!(unescaped(&on_a_terminal), bytes);
            }
        }
    }

    #[test]
    fn json_for_a_terminal_has_no_control_character_and_means_the_same() {
        let text: String = (0..=0xff).map(char::from).collect();
        let json = serde_json::to_string(&text).unwrap();
        for (controls, has_some) in [(Controls::Kept, true), (Controls::Escaped, false)] {
            let mut output = Vec::new();
            write_json(&mut output, &json, controls).unwrap();
            let output = String::from_utf8(output).unwrap();
            assert_eq!(output.contains(char::is_control), has_some);
            assert_eq!(serde_json::from_str::<String>(&output).unwrap(), text);
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
