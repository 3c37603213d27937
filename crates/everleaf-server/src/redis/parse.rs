//! Requests: arrays of strings, or lines. Any bytes may come; none of this panics.

use std::ops::Range;

/// The longest line of a request.
const MAX_LINE_BYTES: usize = 64 << 10;
/// The most arguments of a request.
const MAX_ARGUMENTS: usize = 1 << 20;

/// What stands at the front of the bytes that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Front {
    /// A request of so many bytes. Its arguments are in the vector that was given.
    Request(usize),
    /// A request whose arguments are no part of the bytes, because they were quoted.
    Quoted(usize, Vec<Vec<u8>>),
    /// Its end has not come yet.
    Incomplete,
    /// It is none, and what follows cannot be understood.
    Wrong(String),
}

/// A line from `at` on, and where it ends.
fn line(input: &[u8], at: usize) -> Result<Option<(&[u8], usize)>, ()> {
    let rest = input.get(at..).unwrap_or_default();
    match rest.iter().take(MAX_LINE_BYTES).position(|byte| *byte == b'\n') {
        Some(end) => {
            let line = &rest[..end];
            Ok(Some((line.strip_suffix(b"\r").unwrap_or(line), at + end + 1)))
        }
        None if rest.len() >= MAX_LINE_BYTES => Err(()),
        None => Ok(None),
    }
}

fn length(digits: &[u8]) -> Option<i64> {
    super::number::integer(digits)
}

/// Looks for a request; a string in it has at most `max_bytes`.
pub fn front(input: &[u8], max_bytes: usize, arguments: &mut Vec<Range<usize>>) -> Front {
    arguments.clear();
    match input.first() {
        None => Front::Incomplete,
        Some(b'*') => array(input, max_bytes, arguments),
        Some(_) => inline(input, arguments),
    }
}

fn array(input: &[u8], max_bytes: usize, arguments: &mut Vec<Range<usize>>) -> Front {
    let wrong = |what: &str| Front::Wrong(format!("Protocol error: {what}"));
    let (head, mut at) = match line(input, 0) {
        Ok(Some(head)) => head,
        Ok(None) => return Front::Incomplete,
        Err(()) => return wrong("too big mbulk count string"),
    };
    let count = match length(&head[1..]) {
        Some(count) if count <= MAX_ARGUMENTS as i64 => usize::try_from(count).unwrap_or(0),
        _ => return wrong("invalid multibulk length"),
    };
    for _ in 0..count {
        let (head, behind) = match line(input, at) {
            Ok(Some(head)) => head,
            Ok(None) => return Front::Incomplete,
            Err(()) => return wrong("too big bulk count string"),
        };
        let Some((b'$', digits)) = head.split_first() else {
            let got = head.first().copied().unwrap_or(b'\r');
            return wrong(&format!("expected '$', got '{}'", got.escape_ascii()));
        };
        let bytes = match length(digits).and_then(|bytes| usize::try_from(bytes).ok()) {
            Some(bytes) if bytes <= max_bytes => bytes,
            _ => return wrong("invalid bulk length"),
        };
        if input.len() < behind + bytes + 2 {
            return Front::Incomplete;
        }
        arguments.push(behind..behind + bytes);
        at = behind + bytes + 2;
    }
    Front::Request(at)
}

fn inline(input: &[u8], arguments: &mut Vec<Range<usize>>) -> Front {
    let (text, end) = match line(input, 0) {
        Ok(Some(line)) => line,
        Ok(None) => return Front::Incomplete,
        Err(()) => return Front::Wrong("Protocol error: too big inline request".to_owned()),
    };
    if text.iter().any(|byte| matches!(byte, b'"' | b'\'')) {
        return match quoted(text) {
            Some(words) => Front::Quoted(end, words),
            None => Front::Wrong("Protocol error: unbalanced quotes in request".to_owned()),
        };
    }
    let mut at = 0;
    for word in text.split(u8::is_ascii_whitespace) {
        if !word.is_empty() {
            arguments.push(at..at + word.len());
        }
        at += word.len() + 1;
    }
    Front::Request(end)
}

/// Words, some of which are quoted.
fn quoted(text: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (mut words, mut rest) = (Vec::new(), text);
    loop {
        rest = rest.trim_ascii_start();
        let Some(first) = rest.first() else { return Some(words) };
        let mut word = Vec::new();
        if matches!(first, b'"' | b'\'') {
            let (quote, mut at) = (*first, 1);
            loop {
                let byte = *rest.get(at)?;
                at += 1;
                if byte == quote {
                    break;
                }
                if byte != b'\\' {
                    word.push(byte);
                    continue;
                }
                let next = *rest.get(at)?;
                at += 1;
                match next {
                    b'x' if quote == b'"' && rest.get(at..at + 2).and_then(hex).is_some() => {
                        word.extend(rest.get(at..at + 2).and_then(hex));
                        at += 2;
                    }
                    b'n' if quote == b'"' => word.push(b'\n'),
                    b'r' if quote == b'"' => word.push(b'\r'),
                    b't' if quote == b'"' => word.push(b'\t'),
                    b'b' if quote == b'"' => word.push(8),
                    b'a' if quote == b'"' => word.push(7),
                    next if quote == b'"' || next == b'\'' => word.push(next),
                    next => word.extend_from_slice(&[b'\\', next]),
                }
            }
            rest = &rest[at..];
            if rest.first().is_some_and(|byte| !byte.is_ascii_whitespace()) {
                return None;
            }
        } else {
            let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
            word.extend_from_slice(&rest[..end]);
            rest = &rest[end..];
        }
        words.push(word);
    }
}

fn hex(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(input: &[u8]) -> (Front, Vec<Vec<u8>>) {
        let mut arguments = Vec::new();
        let front = front(input, 100, &mut arguments);
        let words = arguments.into_iter().map(|range| input[range].to_vec()).collect();
        (front, words)
    }

    #[test]
    fn arrays_are_requests() {
        let request = b"*2\r\n$3\r\nGET\r\n$2\r\n\r\n\r\nrest";
        assert_eq!(words(request), (Front::Request(21), vec![b"GET".to_vec(), b"\r\n".to_vec()]));
        (0..21).for_each(|cut| assert_eq!(words(&request[..cut]).0, Front::Incomplete));
        assert_eq!(words(b"*0\r\n").0, Front::Request(4));
        assert_eq!(words(b"*-1\r\n").0, Front::Request(5));
    }

    #[test]
    fn lines_are_requests() {
        assert_eq!(words(b" PING  a\r\n"), (Front::Request(10), vec![b"PING".into(), b"a".into()]));
        assert_eq!(words(b"\r\n"), (Front::Request(2), vec![]));
        let quoted = vec![b"SET".to_vec(), b"a b".to_vec(), b"\x01\n".to_vec()];
        assert_eq!(words(b"SET 'a b' \"\\x01\\n\"\n").0, Front::Quoted(19, quoted));
    }

    #[test]
    fn what_is_none_is_said_to_be_wrong() {
        for wrong in [
            &b"*x\r\n"[..],
            b"*1048577\r\n",
            b"*1\r\n:1\r\n",
            b"*1\r\n$101\r\n",
            b"*1\r\n$-1\r\n",
            b"*1\r\n$536870912\r\n",
            b"GET \"a\n",
            &[b'x'; MAX_LINE_BYTES],
        ] {
            assert!(matches!(words(wrong).0, Front::Wrong(_)), "{}", wrong.escape_ascii());
        }
    }
}
