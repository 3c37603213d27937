//! Numbers as Redis reads and writes them.

use rustc_apfloat::ieee::Double;
use rustc_apfloat::{Float, Round, Status};

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

/// What C's `strtod` reads as a number, without its sign.
#[derive(Clone, Debug)]
pub enum Word<'w> {
    /// `inf` or `infinity`.
    Infinite {
        /// Whether it has a minus.
        negative: bool,
    },
    /// Digits, with a point and an exponent or without.
    Decimal {
        /// Whether it has a minus.
        negative: bool,
        /// What follows the sign.
        text: &'w str,
    },
    /// The same with `0x`, and always with an exponent.
    Hexadecimal {
        /// Whether it has a minus.
        negative: bool,
        /// What follows the sign.
        text: String,
    },
}

impl<'w> Word<'w> {
    /// Looks at the whole word: none if it is no number.
    pub fn of(word: &'w [u8]) -> Option<Self> {
        let signed = str::from_utf8(word).ok()?;
        let negative = signed.starts_with('-');
        let text = signed.strip_prefix(['+', '-']).unwrap_or(signed);
        if text.eq_ignore_ascii_case("inf") || text.eq_ignore_ascii_case("infinity") {
            return Some(Self::Infinite { negative });
        }
        if let Some(digits) = text.strip_prefix("0x").or(text.strip_prefix("0X")) {
            let has_exponent = is_number(digits, ['p', 'P'], |byte| byte.is_ascii_hexdigit())?;
            let exponent = if has_exponent { "" } else { "p0" };
            return Some(Self::Hexadecimal { negative, text: format!("0x{digits}{exponent}") });
        }
        is_number(text, ['e', 'E'], |byte| byte.is_ascii_digit())?;
        Some(Self::Decimal { negative, text })
    }
}

/// Whether digits are a number: if so, whether it has an exponent.
fn is_number(text: &str, mark: [char; 2], is_digit: fn(&u8) -> bool) -> Option<bool> {
    let (mantissa, exponent) =
        text.split_once(mark).map_or((text, None), |(front, behind)| (front, Some(behind)));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let are_digits = whole.bytes().chain(fraction.bytes()).all(|byte| is_digit(&byte));
    let exponent_is_right = exponent.is_none_or(|exponent| {
        let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    });
    let is_number = are_digits && whole.len() + fraction.len() > 0 && exponent_is_right;
    is_number.then_some(exponent.is_some())
}

/// What C's `strtod` makes of a whole word, and whether a number so great or so small is there.
fn strtod(word: &[u8]) -> Option<(f64, bool)> {
    let (negative, number, in_range) = match Word::of(word)? {
        Word::Infinite { negative } => (negative, f64::INFINITY, true),
        Word::Decimal { negative, text } => {
            let number = text.parse::<f64>().ok()?;
            let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
            let vanishes =
                number == 0.0 && mantissa.bytes().any(|byte| matches!(byte, b'1'..=b'9'));
            (negative, number, number.is_finite() && !vanishes)
        }
        Word::Hexadecimal { negative, text } => {
            let read = Double::from_str_r(&text, Round::NearestTiesToEven).ok()?;
            let number = f64::from_bits(read.value.to_bits() as u64);
            let vanishes = number == 0.0 && read.status != Status::OK;
            (negative, number, number.is_finite() && !vanishes)
        }
    };
    Some((if negative { -number } else { number }, in_range))
}

/// A number with a fraction.
pub fn float(word: &[u8]) -> Option<f64> {
    strtod(word).filter(|(_, in_range)| *in_range).map(|(number, _)| number)
}

/// The bound of a range of scores, which Redis reads less strictly: blanks may come before it,
/// nothing is 0, and what is too great is infinite.
pub fn bound(word: &[u8]) -> Option<f64> {
    if word.is_empty() {
        return Some(0.0);
    }
    strtod(word.trim_ascii_start()).map(|(number, _)| number)
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
    fn fractions_are_read_as_strtod_reads_them() {
        for (word, number) in [
            ("0x1A", 26.0),
            ("-0x1.8p3", -12.0),
            ("0X.8", 0.5),
            ("+1e2", 100.0),
            ("5.", 5.0),
            ("-Infinity", f64::NEG_INFINITY),
            ("4e-324", 5e-324),
            ("0e-999", 0.0),
            ("0x1p-1074", 5e-324),
        ] {
            assert_eq!(float(word.as_bytes()), Some(number), "{word}");
        }
        for no in ["1e400", "-1e400", "1e-400", "0x1p9999", "0x1p-9999", "0x", "1e", "infin", "1 "]
        {
            assert_eq!(float(no.as_bytes()), None, "{no}");
        }
        let bounds = ["", "  7", "1e400", "-1e400", "1e-400"].map(|word| bound(word.as_bytes()));
        assert_eq!(
            bounds,
            [Some(0.0), Some(7.0), Some(f64::INFINITY), Some(f64::NEG_INFINITY), Some(0.0)]
        );
        assert_eq!((bound(b" "), bound(b"7 "), bound(b"nan")), (None, None, None));
    }

    #[test]
    fn the_order_of_bytes_is_that_of_numbers() {
        let numbers = [f64::NEG_INFINITY, -1e9, -1.0, -0.5, 0.0, 1e-300, 2.0, f64::INFINITY];
        assert!(numbers.map(to_ordered).is_sorted());
        assert_eq!(to_ordered(-0.0), to_ordered(0.0));
        numbers.iter().for_each(|n| assert_eq!(of_ordered(&to_ordered(*n)), Some(*n)));
    }
}
