//! Lines on the standard error stream: a level, what they are about, and names with values.

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

/// Writes a line: `time=<seconds since 1970> level=<level> about=<about> name="value"...`.
pub fn log(level: &str, about: &str, values: &[(&str, &str)]) {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut line = format!("time={:.3} level={level} about={about}", since.as_secs_f64());
    for (name, value) in values {
        // Writing to a string does not fail.
        let _ = write!(line, " {name}={value:?}");
    }
    eprintln!("{line}");
}
