//! Numbers as Redis reads and writes them.

/// A whole number, written as it would be printed: without blanks, signs of plus or leading zeros.
pub fn integer(word: &[u8]) -> Option<i64> {
    let digits = word.strip_prefix(b"-").unwrap_or(word);
    let plain = matches!(digits, [b'0'] | [b'1'..=b'9', ..]) && word != b"-0";
    if !plain || digits.len() > 19 {
        return None;
    }
    // Downwards, where there is one number more.
    let down = digits.iter().try_fold(0i64, |number, byte| match byte {
        b'0'..=b'9' => number.checked_mul(10)?.checked_sub(i64::from(byte - b'0')),
        _ => None,
    })?;
    if digits.len() < word.len() { Some(down) } else { down.checked_neg() }
}

/// A number with a fraction; not one that is not a number.
pub fn float(word: &[u8]) -> Option<f64> {
    let text = str::from_utf8(word).ok()?;
    let first = text.strip_prefix(['+', '-']).unwrap_or(text).bytes().next()?;
    if !(first.is_ascii_digit() || matches!(first, b'.' | b'i' | b'I')) {
        return None;
    }
    text.parse::<f64>().ok().filter(|number| !number.is_nan())
}

/// The shortest text that stands for the number.
pub fn show(number: f64) -> String {
    if number == f64::INFINITY {
        "inf".to_owned()
    } else if number == f64::NEG_INFINITY {
        "-inf".to_owned()
    } else if number == number.trunc() && number.abs() < 1e17 {
        format!("{number:.0}")
    } else if number != 0.0 && !(1e-5..1e17).contains(&number.abs()) {
        let text = format!("{number:e}");
        match text.split_once("e-") {
            Some((digits, exponent)) => format!("{digits}e-{exponent:0>2}"),
            None => text.replace('e', "e+"),
        }
    } else {
        number.to_string()
    }
}

/// The bytes whose order is that of the numbers; -0 is 0.
pub fn to_ordered(number: f64) -> [u8; 8] {
    let bits = (number + 0.0).to_bits();
    let ordered = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
    ordered.to_be_bytes()
}

/// The number that such bytes stand for.
pub fn of_ordered(bytes: &[u8]) -> Option<f64> {
    let ordered = u64::from_be_bytes(bytes.get(..8)?.try_into().ok()?);
    let bits = if ordered >> 63 == 1 { ordered & !(1 << 63) } else { !ordered };
    Some(f64::from_bits(bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_read_as_they_are_printed() {
        for number in [0, 1, -1, i64::MAX, i64::MIN] {
            assert_eq!(integer(number.to_string().as_bytes()), Some(number));
        }
        for no in ["", "-", "01", "-0", "+1", " 1", "1 ", "9223372036854775808", "1.0"] {
            assert_eq!(integer(no.as_bytes()), None, "{no}");
        }
    }

    #[test]
    fn fractions_are_shown_as_short_as_they_are() {
        let cases = [(0.1, "0.1"), (3.0, "3"), (-0.0, "-0"), (1e20, "1e+20"), (1e-7, "1e-07")];
        for (number, text) in cases {
            assert_eq!(show(number), text);
            assert_eq!(float(text.as_bytes()), Some(number));
        }
        assert_eq!((show(f64::INFINITY), float(b"-inf")), ("inf".into(), Some(f64::NEG_INFINITY)));
        assert_eq!((float(b"nan"), float(b""), float(b" 1")), (None, None, None));
    }

    #[test]
    fn the_order_of_bytes_is_that_of_numbers() {
        let numbers = [f64::NEG_INFINITY, -1e9, -1.0, -0.5, 0.0, 1e-300, 2.0, f64::INFINITY];
        assert!(numbers.map(to_ordered).is_sorted());
        assert_eq!(to_ordered(-0.0), to_ordered(0.0));
        numbers.iter().for_each(|n| assert_eq!(of_ordered(&to_ordered(*n)), Some(*n)));
    }
}
