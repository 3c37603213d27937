//! Numbers as C prints them, and those that Redis' scripts draw.

/// A number as C's `%.{digits}g` prints it.
pub fn general(number: f64, digits: usize) -> String {
    let sign = if number.is_sign_negative() { "-" } else { "" };
    if !number.is_finite() {
        return format!("{sign}{}", if number.is_nan() { "nan" } else { "inf" });
    }
    let digits = digits.max(1);
    let scientific = format!("{:.*e}", digits - 1, number.abs());
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let without_zeros = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if exponent < -4 || exponent >= digits as i32 {
        let mark = if exponent < 0 { '-' } else { '+' };
        return format!("{sign}{}e{mark}{:02}", without_zeros(mantissa), exponent.abs());
    }
    let decimals = (digits as i32 - 1 - exponent).unsigned_abs() as usize;
    format!("{sign}{}", without_zeros(&format!("{:.*}", decimals, number.abs())))
}

/// The generator behind `math.random`: C's `lrand48`, as Redis has it on every machine, so that a
/// script draws the same numbers each time it runs.
pub struct Draws(u64);

impl Draws {
    /// The greatest number that is drawn, and one more.
    pub const BELOW: i32 = i32::MAX;

    pub fn of(seed: i32) -> Self {
        Self(u64::from(seed as u32) << 16 | 0x330e)
    }

    pub fn next(&mut self) -> i32 {
        self.0 = self.0.wrapping_mul(0x5_deec_e66d).wrapping_add(0xb) & 0xffff_ffff_ffff;
        (self.0 >> 17) as i32
    }
}

impl Default for Draws {
    fn default() -> Self {
        Self::of(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_as_c_does() {
        for (number, digits, text) in [
            (0.0, 14, "0"),
            (-0.0, 14, "-0"),
            (1.0, 14, "1"),
            (0.1, 17, "0.10000000000000001"),
            (1e20, 17, "1e+20"),
            (1e15, 14, "1e+15"),
            (123_456_789_012_345_678.0, 14, "1.2345678901235e+17"),
            (2.718_281_828_459_1, 14, "2.7182818284591"),
            (1e-5, 14, "1e-05"),
            (0.0001, 14, "0.0001"),
            (99_999_999_999_999.9, 14, "1e+14"),
            (-1.5e300, 17, "-1.5000000000000001e+300"),
            (f64::INFINITY, 14, "inf"),
            (f64::NEG_INFINITY, 14, "-inf"),
        ] {
            assert_eq!(general(number, digits), text);
        }
    }

    #[test]
    fn the_numbers_that_redis_draws_are_drawn() {
        let mut draws = Draws::default();
        let drawn = [(); 5].map(|()| draws.next() % 1000 + 1);
        assert_eq!(drawn.len(), 5);
        assert_eq!(Draws::default().next(), Draws::of(0).next());
    }
}
