//! The first line of a script, which may say what it is and how it is to be run, or of a library,
//! which does.

use crate::resp::parse::quoted;

/// What that line says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// Whether there is such a line.
    pub is_said: bool,
    /// It writes nothing.
    pub no_writes: bool,
    /// Which of the names stand there, a bit each.
    named: u8,
}

/// The flags that there are.
pub const FLAGS: [&str; 5] =
    ["no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"];

impl Flags {
    /// Adds the flag of a name; whether there is such a flag.
    pub fn add(&mut self, name: &str) -> bool {
        let Some(at) = FLAGS.iter().position(|flag| *flag == name) else { return false };
        self.named |= 1 << at;
        self.no_writes |= name == "no-writes";
        true
    }

    /// The names that were added.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        let named = self.named;
        FLAGS.iter().enumerate().filter(move |(at, _)| named >> at & 1 == 1).map(|(_, name)| *name)
    }
}

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
            if !flags.add(flag) {
                return Err(format!("Unexpected flag in script shebang: {flag}"));
            }
        }
    }
    Ok((flags, end))
}

/// Whether something may be the name of a library or of a function.
pub fn is_name(name: &[u8]) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    !name.is_empty() && name.iter().all(is_part)
}

/// What is said of one that may not.
pub const BAD_NAME: &str = "Library names can only contain letters, numbers, or underscores(_) and \
                            must be at least one character long";

/// Reads the first line of a library: its name, and where the line ends.
pub fn of_library(code: &[u8]) -> Result<(String, usize), String> {
    let invalid = || "Invalid library metadata".to_owned();
    if !code.starts_with(b"#!") {
        return Err("Missing library metadata".to_owned());
    }
    let end = code.iter().position(|byte| *byte == b'\n').ok_or_else(invalid)?;
    let words = quoted(&code[..end]).ok_or_else(invalid)?;
    let (engine, words) = words.split_first().ok_or_else(invalid)?;
    let (engine, mut name) = (String::from_utf8_lossy(&engine[2..]), None);
    for word in words {
        match word.get(..5) {
            Some(front) if !front.eq_ignore_ascii_case(b"name=") => {}
            Some(_) if name.is_some() => {
                let sentence = "Invalid metadata value, name argument was given multiple times";
                return Err(sentence.to_owned());
            }
            Some(_) => {
                name = Some(&word[5..]);
                continue;
            }
            None => {}
        }
        return Err(format!("Invalid metadata value given: {}", String::from_utf8_lossy(word)));
    }
    let name = name.ok_or("Library name was not given")?;
    if !is_name(name) {
        return Err(BAD_NAME.to_owned());
    }
    if !engine.eq_ignore_ascii_case("lua") {
        return Err(format!("Engine '{engine}' not found"));
    }
    Ok((String::from_utf8_lossy(name).into_owned(), end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_a_library_names_it() {
        let named = |code: &str| of_library(code.as_bytes()).map(|(name, _)| name);
        for (code, name) in [
            ("#!lua name=a\nx", "a"),
            ("#!LUA NAME='a_1'\n", "a_1"),
            ("#!lua  name=\"q\"  \n", "q"),
        ] {
            assert_eq!(named(code).as_deref(), Ok(name), "{code}");
        }
        for (code, sentence) in [
            ("return 1\n", "Missing library metadata"),
            ("", "Missing library metadata"),
            ("#!lua name=a", "Invalid library metadata"),
            ("#!lua name='a\n", "Invalid library metadata"),
            ("#!lua name=a b\n", "Invalid metadata value given: b"),
            ("#!lua\n", "Library name was not given"),
            ("#!lua name=\n", BAD_NAME),
            ("#!lua name=a-b\n", BAD_NAME),
            ("#!tcl name=a\n", "Engine 'tcl' not found"),
            ("#! name=a\n", "Engine '' not found"),
        ] {
            assert_eq!(named(code), Err(sentence.to_owned()), "{code}");
        }
    }

    #[test]
    fn flags_are_told_by_their_names() {
        let mut flags = Flags::default();
        assert!(flags.add("allow-oom") && !flags.add("x") && !flags.no_writes);
        assert!(flags.add("no-writes") && flags.no_writes);
        assert_eq!(flags.names().collect::<Vec<_>>(), ["no-writes", "allow-oom"]);
    }
}
