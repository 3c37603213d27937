//! Sums of INCRBYFLOAT and HINCRBYFLOAT: C's `long double` of x86-64, which Redis computes with. It
//! has 64 bits of mantissa, so that it holds every whole number of 64 bits.

use rustc_apfloat::ieee::X87DoubleExtended;
use rustc_apfloat::{Float, Round, Status};

use super::number::Word;

/// Bytes of the longest text that Redis reads.
const LONGEST_BYTES: usize = 5 * 1024 - 1;
/// Decimals that are printed.
const DECIMALS: usize = 17;
const ONE: u128 = 10u128.pow(DECIMALS as u32);

/// A `long double` that is a number or infinite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LongDouble(X87DoubleExtended);

impl LongDouble {
    /// Reads a word as Redis does, which lets `strtold` read it.
    pub fn read(word: &[u8]) -> Option<Self> {
        if word.len() > LONGEST_BYTES {
            return None;
        }
        let (negative, text) = match Word::of(word)? {
            Word::Infinite { negative } if negative => {
                return Some(Self(-X87DoubleExtended::INFINITY));
            }
            Word::Infinite { .. } => return Some(Self(X87DoubleExtended::INFINITY)),
            Word::Decimal { negative, text } => (negative, text.to_owned()),
            Word::Hexadecimal { negative, text } => (negative, text),
        };
        let read = X87DoubleExtended::from_str_r(&text, Round::NearestTiesToEven).ok()?;
        let underflows = read.value.is_zero() && read.status != Status::OK;
        let number = if negative { -read.value } else { read.value };
        (number.is_finite() && !underflows).then_some(Self(number))
    }

    /// Whether it is a number.
    pub fn is_finite(self) -> bool {
        self.0.is_finite()
    }

    /// The sum; none if it is no number.
    pub fn plus(self, other: Self) -> Option<Self> {
        let sum = (self.0 + other.0).value;
        sum.is_finite().then_some(Self(sum))
    }

    /// The number with at most 17 decimals and without an exponent.
    pub fn show(self) -> String {
        let bits = self.0.to_bits();
        let (mantissa, exponent) = (bits as u64, (bits >> 64) as i32 & 0x7fff);
        // Numbers that are too small for a normal mantissa have the smallest exponent.
        let power = exponent.max(1) - 0x3fff - 63;
        let (whole, fraction) = if power >= 0 {
            (shifted(mantissa, power as u32), 0)
        } else {
            let scaled = rounded(u128::from(mantissa) * ONE, power.unsigned_abs());
            ((scaled / ONE).to_string(), scaled % ONE)
        };
        let decimals = format!("{fraction:0DECIMALS$}");
        let decimals = decimals.trim_end_matches('0');
        let point = if decimals.is_empty() { "" } else { "." };
        let sign = if self.0.is_negative() { "-" } else { "" };
        match format!("{sign}{whole}{point}{decimals}") {
            zero if zero == "-0" => "0".to_owned(),
            text => text,
        }
    }
}

/// `number` / 2^`power`, rounded to the nearest, half to even.
const fn rounded(number: u128, power: u32) -> u128 {
    if power > 127 {
        return 0; // The number has at most 121 bits.
    }
    let (floor, rest, half) = (number >> power, number & ((1 << power) - 1), 1 << (power - 1));
    let up = rest > half || rest == half && floor % 2 == 1;
    floor + up as u128
}

/// The digits of `number` * 2^`power`.
fn shifted(number: u64, power: u32) -> String {
    /// Nine digits in each word, the last ones first.
    const WORD: u64 = 1_000_000_000;
    const STEP: u32 = 29;
    let mut words = vec![number % WORD, number / WORD % WORD, number / WORD / WORD];
    let mut left = power;
    while left > 0 {
        let step = left.min(STEP);
        let mut carry = 0;
        for word in &mut words {
            let shifted = (*word << step) + carry;
            (*word, carry) = (shifted % WORD, shifted / WORD);
        }
        if carry > 0 {
            words.push(carry);
        }
        left -= step;
    }
    let digits: String = words.iter().rev().map(|word| format!("{word:09}")).collect();
    match digits.trim_start_matches('0') {
        "" => "0".to_owned(),
        digits => digits.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sum(a: &str, b: &str) -> Option<String> {
        let sum = LongDouble::read(a.as_bytes())?.plus(LongDouble::read(b.as_bytes())?)?;
        Some(sum.show())
    }

    #[test]
    fn sums_are_those_of_a_long_double() {
        for (a, b, expected) in [
            ("9007199254740993", "0", "9007199254740993"),
            ("1700000000000000000", "1", "1700000000000000001"),
            ("0.1", "0.2", "0.3"),
            ("9223372036854775807", "1", "9223372036854775808"),
            ("18446744073709551615", "0", "18446744073709551615"),
            ("1e20", "0", "100000000000000000000"),
            ("-0", "-0", "0"),
            ("5e-18", "0", "0"),
            ("6e-18", "0", "0.00000000000000001"),
            ("-1.5", "1", "-0.5"),
            ("0x1A", "0X1.8p3", "38"),
            ("0x.8", "-0x1.p-1", "0"),
            (".5", "5.", "5.5"),
            ("3.0e2", "+1", "301"),
            ("1e-4940", "0", "0"),
        ] {
            assert_eq!(sum(a, b).as_deref(), Some(expected), "{a} + {b}");
        }
        let largest = sum("1.18973149535723176502e4932", "0").unwrap();
        assert!(largest.len() == 4933 && largest.starts_with("118973149535723176502"));
        assert_eq!(sum("1.18973149535723176502e4932", "1e4932"), None);
        assert_eq!(sum("inf", "-inf").or(sum("inf", "1")), None);
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for no in [
            "",
            " 1",
            "1 ",
            "1e",
            "1e+",
            "e1",
            ".",
            "+",
            "--1",
            "0x",
            "0xg",
            "0x1p",
            "0x.p1",
            "nan",
            "nan(1)",
            "infi",
            "1_0",
            "1e5000",
            "1e-5000",
            "1e99999999999999999999",
            "1\0",
            "1e-99999999999999999999",
            "0x1p99999999999999999999",
        ] {
            assert_eq!(LongDouble::read(no.as_bytes()), None, "{no}");
        }
        assert_eq!(LongDouble::read(&[b'1'; 5120]), None);
        assert!(LongDouble::read(&[b'1'; 4000]).is_some());
        assert!(LongDouble::read(b"0e99999999999999999999").is_some());
        assert!(LongDouble::read(b"-INFINITY").is_some_and(|number| !number.is_finite()));
    }

    proptest! {
        #[test]
        fn any_word_is_read_without_a_panic(
            word in "[-+]?(0[xX])?[0-9a-f]{0,30}[.]?[0-9a-f]{0,30}([eEpP][-+]?[0-9]{0,25})?",
        ) {
            if let Some(number) = LongDouble::read(word.as_bytes()) {
                number.show();
            }
        }

        #[test]
        fn whole_numbers_are_shown_as_they_are(a in any::<u64>(), b in any::<u32>()) {
            prop_assert_eq!(sum(&a.to_string(), "0"), Some(a.to_string()));
            let (a, b) = (i64::from(b) << 20, a as i64 >> 12);
            prop_assert_eq!(sum(&a.to_string(), &b.to_string()), Some((a + b).to_string()));
        }
    }
}
