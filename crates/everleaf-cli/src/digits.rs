//! Bytes as hexadecimal digits, and back.

use crate::keys::readable;

/// The bytes that hexadecimal digits stand for, or a sentence.
pub fn unhex(digits: &[u8]) -> Result<Vec<u8>, String> {
    let digit = |byte: u8| (byte as char).to_digit(16).map(|value| value as u8);
    let byte = |pair: &[u8]| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    };
    digits.chunks(2).map(byte).collect::<Option<_>>().ok_or_else(|| {
        format!("`{}` is not hexadecimal; give two digits per byte, like 0aff", readable(digits))
    })
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_digits_come_in_pairs() {
        assert_eq!(unhex(b"").unwrap(), b"");
        assert_eq!(unhex(b"00fFA9").unwrap(), b"\x00\xff\xa9");
        for text in [&b"0"[..], b"0g", b"+1", b"0x00", b" 00", b"\xc3\xa4"] {
            assert!(unhex(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn every_byte_comes_back() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(unhex(hex(&bytes).as_bytes()).unwrap(), bytes);
    }
}
