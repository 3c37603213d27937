//! The words of a line: which commands there are, and what follows them.

use everleaf::Scan;

/// Commands: name, what follows, what it does.
pub const COMMANDS: &[(&str, &str, &str)] = &[
    ("get", "KEY", "print a value"),
    (
        "put",
        "KEY VALUE [TIME]",
        "store a value; it expires after TIME, like 90, 15m or 1h, or `keep`: as the one before",
    ),
    ("insert", "KEY VALUE", "store a value if the key is absent"),
    ("update", "KEY VALUE", "store a value if the key is present"),
    ("cas", "KEY OLD NEW", "replace the value if it is OLD"),
    ("del", "KEY", "remove a key"),
    ("incr", "KEY [BY]", "add to a number, and print the sum"),
    ("ttl", "KEY", "print the seconds until the value expires, or `never`"),
    ("expire", "KEY TIME", "let the value expire after TIME from now on"),
    ("persist", "KEY", "let the value stay for ever"),
    (
        "scan",
        "[FROM [TO]] [--reverse] [--limit N]",
        "print entries from FROM on, below TO; 100 if no limit",
    ),
    ("prefix", "P [--reverse] [--limit N]", "print entries whose keys begin with P"),
    ("first", "", "print the entry with the least key"),
    ("last", "", "print the entry with the greatest key"),
    ("count", "", "print the number of keys"),
    ("use", "[TREE]", "go to a named tree (made if missing), or back"),
    ("trees", "", "list the named trees"),
    ("drop", "TREE", "remove a named tree with all its entries"),
    ("begin", "", "gather the writes that follow"),
    ("commit", "", "do all of them, or none"),
    ("abort", "", "discard them"),
    ("sweep", "", "remove expired values"),
    ("copy", "FILE", "copy everything to a new pool"),
    ("info", "", "show how full the pool is"),
    ("check", "", "check everything"),
    ("read", "FILE", "do the lines of a file"),
    ("timer", "on|off", "print on stderr how long each line takes"),
    ("help", "", "this list; `--` stands before words that begin with `-`"),
    ("quit", "", "leave"),
];

/// Whether a word looks like an option: a hyphen with something behind it that is not a number.
pub fn looks_like_option(word: &str) -> bool {
    let Some(rest) = word.strip_prefix('-').filter(|rest| !rest.is_empty()) else { return false };
    !(rest.starts_with(|first: char| first.is_ascii_digit()) && rest.parse::<f64>().is_ok())
}

/// The words of a line without their options, which stand before the first `--`. Behind it every
/// word is a key or a value.
pub fn without_options<'w>(words: &[&'w str]) -> Result<(Vec<&'w str>, Shown), String> {
    let mut shown = Shown { reverse: false, limit: SHOWN, asked: false };
    let mut others = Vec::new();
    let scans = matches!(words.first(), Some(&("scan" | "prefix")));
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--" => {
                others.extend(words);
                break;
            }
            "--reverse" if scans => shown.reverse = true,
            "--limit" if scans => {
                let number = words.next().ok_or("--limit needs a number")?;
                shown.asked = true;
                shown.limit =
                    number.parse().map_err(|_| format!("`{number}` is not a number of entries"))?;
            }
            word if looks_like_option(word) => {
                return Err(format!(
                    "`{word}` is not an option here; write `--` before words that begin with `-`"
                ));
            }
            word => others.push(word),
        }
    }
    Ok((others, shown))
}

/// Entries that a scan shows if nothing else is said.
const SHOWN: usize = 100;

/// How a command is written.
pub fn usage(word: &str) -> String {
    match COMMANDS.iter().find(|(name, ..)| *name == word) {
        Some((name, follows, _)) => format!("usage: {}", format!("{name} {follows}").trim_end()),
        None => format!("`{word}` is not a command; `help` lists them"),
    }
}

/// The list of commands, in lines of at most `columns` columns, as far as words are not longer: in
/// two columns, or what a command does below it where the terminal is narrow.
pub fn help(columns: usize) -> String {
    let column = if columns < 60 { 4 } else { 25 };
    let mut text = String::new();
    for (name, follows, what) in COMMANDS {
        let form = format!("{name} {follows}");
        if form.len() < column {
            let indented = wrapped(what, columns, column);
            text += &format!("{form:column$}{}", indented.trim_start());
        } else {
            text += &wrapped(&form, columns, 0);
            text += &wrapped(what, columns, column);
        }
    }
    text
}

/// Words in lines of at most `columns` columns, which begin at the column `indent`.
fn wrapped(text: &str, columns: usize, indent: usize) -> String {
    let mut lines = String::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && indent + line.len() + 1 + word.len() > columns {
            lines += &format!("{:indent$}{line}\n", "");
            line.clear();
        }
        line += if line.is_empty() { "" } else { " " };
        line += word;
    }
    lines + &format!("{:indent$}{line}\n", "")
}

/// The options of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    reverse: bool,
    /// At most so many entries.
    pub limit: usize,
    /// Whether the limit was asked for: then nobody has to be told that there is more.
    pub asked: bool,
}

impl Shown {
    /// The scan in the direction that was asked for.
    pub fn turn(self, scan: Scan) -> Scan {
        if self.reverse { scan.backward() } else { scan }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_stand_anywhere_among_the_bounds() {
        let line = ["scan", "a", "--limit", "5", "b", "--reverse"];
        let (words, shown) = without_options(&line).unwrap();
        assert_eq!(words, ["scan", "a", "b"]);
        assert_eq!(shown, Shown { reverse: true, limit: 5, asked: true });
        for wrong in [&["scan", "--limit"][..], &["prefix", "--limit", "x"], &["get", "--limit"]] {
            assert!(without_options(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn numbers_and_a_single_hyphen_are_not_options() {
        for word in ["", "-", "-5", "-0", "-1.5", "-2e10", "a-b", "5"] {
            assert!(!looks_like_option(word), "{word}");
        }
        for word in ["-h", "--", "--5", "-inf", "-nan", "-e5", "-1x", "-1e", "-.", "-5-"] {
            assert!(looks_like_option(word), "{word}");
        }
        let (words, _) = without_options(&["put", "--", "-h", "--"]).unwrap();
        assert_eq!(words, ["put", "-h", "--"]);
    }

    #[test]
    fn the_help_fits_a_terminal() {
        for columns in [20, 40, 59, 60, 80, 200] {
            let help = help(columns);
            assert!(help.lines().all(|line| line.len() <= columns), "{help}");
            let words: Vec<&str> = help.split_whitespace().collect();
            let expected = COMMANDS.iter().flat_map(|(name, follows, what)| {
                [name, follows, what].into_iter().flat_map(|text| text.split_whitespace())
            });
            assert!(expected.eq(words), "no word is broken: {help}");
        }
    }
}
