//! The first line of a script, which may say what it is and how it is to be run.

/// What that line says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// Whether there is such a line.
    pub is_said: bool,
    /// It writes nothing.
    pub no_writes: bool,
}

/// The flags that there are.
const FLAGS: &[&str] =
    &["no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"];

/// Reads that line; where it ends.
pub fn read(script: &[u8]) -> Result<(Flags, usize), String> {
    if !script.starts_with(b"#!") {
        return Ok((Flags::default(), 0));
    }
    let end = script.iter().position(|byte| *byte == b'\n');
    let end = end.ok_or("Invalid script shebang")?;
    let line = String::from_utf8_lossy(&script[..end]);
    let mut words = line.split_ascii_whitespace();
    match words.next() {
        Some("#!lua") => {}
        Some(other) => return Err(format!("Unexpected engine in script shebang: {other}")),
        None => return Err("Invalid engine in script shebang".to_owned()),
    }
    let mut flags = Flags { is_said: true, ..Flags::default() };
    for word in words {
        let Some(named) = word.strip_prefix("flags=") else {
            return Err(format!("Unknown lua shebang option: {word}"));
        };
        for flag in named.split(',').filter(|_| !named.is_empty()) {
            if !FLAGS.contains(&flag) {
                return Err(format!("Unexpected flag in script shebang: {flag}"));
            }
            flags.no_writes |= flag == "no-writes";
        }
    }
    Ok((flags, end))
}
