//! A table of requests and replies, which our server and, where it is installed, memcached itself
//! must give: so the table is checked as well.
//!
//! A line `> request` is sent with a line's end behind it, a line `< reply` is expected likewise,
//! `#` begins a case on a connection of its own. `{name}` in a reply takes a number, which `{name}`
//! stands for afterwards; `{long}` is a value of 1,048,577 bytes. `\r`, `\n`, `\xHH` and `\\` are
//! escapes. A case whose name begins with `!` is ours alone.

use std::collections::HashMap;

use crate::common::{Client, Served};
use crate::stock;

const TABLE: &str = include_str!("memcached.cases");

struct Case<'t> {
    name: &'t str,
    lines: Vec<&'t str>,
}

fn cases() -> Vec<Case<'static>> {
    let mut cases: Vec<Case<'static>> = Vec::new();
    for line in TABLE.lines().filter(|line| !line.is_empty()) {
        match line.strip_prefix("# ") {
            Some(name) => cases.push(Case { name, lines: Vec::new() }),
            None => cases.last_mut().unwrap().lines.push(line),
        }
    }
    cases
}

fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next().unwrap() {
            b'r' => bytes.push(b'\r'),
            b'n' => bytes.push(b'\n'),
            b'x' => {
                let digits = [rest.next().unwrap(), rest.next().unwrap()];
                let digits = str::from_utf8(&digits).unwrap();
                bytes.push(u8::from_str_radix(digits, 16).unwrap());
            }
            other => bytes.push(other),
        }
    }
    bytes
}

fn filled(text: &str, names: &HashMap<String, String>) -> String {
    names
        .iter()
        .fold(text.to_owned(), |text, (name, number)| text.replace(&format!("{{{name}}}"), number))
}

/// Whether a line is as expected; takes the numbers that are named in it.
fn matches(expected: &str, line: &str, names: &mut HashMap<String, String>) -> bool {
    let expected = filled(expected, names);
    let Some((front, rest)) = expected.split_once('{') else { return expected == line };
    let Some((name, behind)) = rest.split_once('}') else { return expected == line };
    let Some(found) = line.strip_prefix(front) else { return false };
    let digits = found.bytes().take_while(u8::is_ascii_digit).count();
    names.insert(name.to_owned(), found[..digits].to_owned());
    digits > 0 && matches(behind, &found[digits..], names)
}

fn run(case: &Case<'_>, mut client: Client) {
    let long = ("long".to_owned(), "x".repeat((1 << 20) + 1));
    let mut names = HashMap::from([long]);
    for line in &case.lines {
        if let Some(request) = line.strip_prefix("> ") {
            client.send([&unescaped(&filled(request, &names))[..], b"\r\n"].concat());
        } else if let Some(reply) = line.strip_prefix("< ") {
            let got = client.line();
            let expected = String::from_utf8_lossy(&unescaped(reply)).into_owned();
            let same = matches(&expected, &got, &mut names);
            assert!(same, "case {}: expected {expected:?}, got {got:?}", case.name);
        } else {
            panic!("case {}: a line that is neither request nor reply: {line}", case.name);
        }
    }
    // Nothing came that was not expected.
    client.send("mn\r\n");
    assert_eq!(client.line(), "MN", "behind case {}", case.name);
}

#[test]
fn requests_are_answered_as_the_table_says() {
    let served = Served::new();
    for case in cases() {
        run(&case, served.memcached());
    }
}

#[test]
fn memcached_itself_answers_as_the_table_says() {
    let Some(memcached) = stock::memcached() else { return };
    for case in cases().iter().filter(|case| !case.name.starts_with('!')) {
        run(case, Client::connect(memcached.address));
    }
}
