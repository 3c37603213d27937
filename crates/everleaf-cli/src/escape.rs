//! How `scan` shows bytes: one entry stays one line, and what is readable stays readable.

use std::io::{self, Write};

/// Writes `bytes` with TAB, newline and backslash as `\t`, `\n`, `\\`, and each byte that is not
/// valid UTF-8 as `\xHH`.
pub fn write_escaped(output: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    for chunk in bytes.utf8_chunks() {
        let mut rest = chunk.valid().as_bytes();
        // The three characters are ASCII, so a byte of theirs is never part of a longer character.
        while let Some(place) = rest.iter().position(|byte| matches!(byte, b'\t' | b'\n' | b'\\')) {
            output.write_all(&rest[..place])?;
            output.write_all(match rest[place] {
                b'\t' => b"\\t",
                b'\n' => b"\\n",
                _ => b"\\\\",
            })?;
            rest = &rest[place + 1..];
        }
        output.write_all(rest)?;
        for byte in chunk.invalid() {
            write!(output, "\\x{byte:02x}")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(bytes: &[u8]) -> Vec<u8> {
        let mut output = Vec::new();
        write_escaped(&mut output, bytes).unwrap();
        output
    }

    #[test]
    fn only_what_must_be_is_escaped() {
        assert_eq!(escaped(b""), b"");
        assert_eq!(escaped("plain ünïcödé \r\0".as_bytes()), "plain ünïcödé \r\0".as_bytes());
        assert_eq!(escaped(b"a\tb\nc\\d"), b"a\\tb\\nc\\\\d");
        assert_eq!(escaped(b"\t\t"), b"\\t\\t");
        assert_eq!(escaped(b"\xff\x00\xc3("), b"\\xff\x00\\xc3(");
        assert_eq!(escaped(b"\xe2\x82"), b"\\xe2\\x82");
    }

    #[test]
    fn different_bytes_never_look_the_same() {
        let mut seen = std::collections::HashSet::new();
        for first in 0..=255u8 {
            for second in 0..=255u8 {
                assert!(seen.insert(escaped(&[first, second])), "{first:#x} {second:#x}");
            }
        }
    }
}
