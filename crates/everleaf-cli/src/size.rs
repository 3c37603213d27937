//! Sizes on the command line: `64KiB`, `1GB`, plain bytes; and sizes for people.

/// Parses a size: a whole number and, if any, a unit: `B`, `KiB`/`MiB`/`GiB`/`TiB` (powers of 1024,
/// also `K`/`M`/`G`/`T`) or `KB`/`MB`/`GB`/`TB` (powers of 1000), in capitals or not.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let scale: u64 = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err(not_a_size(text)),
    };
    let number: u64 = number.parse().map_err(|_| not_a_size(text))?;
    number.checked_mul(scale).ok_or_else(|| not_a_size(text))
}

fn not_a_size(text: &str) -> String {
    format!(
        "`{text}` is not a size; write a whole number of bytes, or with a unit, like 64KiB, \
        256MiB or 1GB"
    )
}

/// A size for people: `256 MiB`, `1.5 GiB`, `17 B`.
pub fn display_size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut unit = 0;
    let mut scale = 1u64;
    while unit + 1 < UNITS.len() && bytes / scale >= 1024 {
        scale <<= 10;
        unit += 1;
    }
    if bytes.is_multiple_of(scale) {
        format!("{} {}", display_count(bytes / scale), UNITS[unit])
    } else {
        format!("{:.1} {}", bytes as f64 / scale as f64, UNITS[unit])
    }
}

/// A count for people: `370,099`.
pub use everleaf_pmem::grouped as display_count;

/// So many things, for people: `1 key`, `1,251 keys`, `2 entries`.
pub fn display_counted(count: u64, thing: &str) -> String {
    let count_text = display_count(count);
    match thing.strip_suffix("ry") {
        _ if count == 1 => format!("{count_text} {thing}"),
        Some(stem) => format!("{count_text} {stem}ries"),
        None => format!("{count_text} {thing}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_with_and_without_units() {
        for (text, bytes) in [
            ("0", 0),
            ("65536", 65_536),
            ("64KiB", 65_536),
            ("64kib", 65_536),
            ("256MiB", 256 << 20),
            ("256M", 256 << 20),
            ("1GiB", 1 << 30),
            ("1GB", 1_000_000_000),
            ("2TB", 2_000_000_000_000),
            ("3 MB", 3_000_000),
            ("17B", 17),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in [
            "",
            "MiB",
            "-1",
            "+1",
            "1.5GiB",
            "64XB",
            "1 2",
            "lots",
            "18446744073709551616",
            "99999999999GiB",
            "0x10",
            "1MiBs",
        ] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_and_counts_for_people() {
        assert_eq!(display_size(0), "0 B");
        assert_eq!(display_size(1023), "1,023 B");
        assert_eq!(display_size(256 << 20), "256 MiB");
        assert_eq!(display_size((3 << 30) / 2), "1.5 GiB");
        assert_eq!(display_count(0), "0");
        assert_eq!(display_count(999), "999");
        assert_eq!(display_count(1_000), "1,000");
        assert_eq!(display_count(370_099), "370,099");
        assert_eq!(display_counted(1, "key"), "1 key");
        assert_eq!(display_counted(1_251, "key"), "1,251 keys");
        assert_eq!(display_counted(1, "entry"), "1 entry");
        assert_eq!(display_counted(0, "entry"), "0 entries");
    }
}
