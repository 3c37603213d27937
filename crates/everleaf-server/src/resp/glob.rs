//! Patterns of keys: `*`, `?`, `[a-c]`, `[^a]`, and `\` before a character that means itself.

/// Whether `text` is as `pattern` says. Costs at most the product of their lengths.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where to go on if what follows the last star does not fit.
    let mut star: Option<(usize, usize)> = None;
    loop {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            star = Some((p, t));
            continue;
        }
        let fits = match text.get(t) {
            None if p == pattern.len() => return true,
            None => None,
            Some(byte) => one(&pattern[p..], *byte),
        };
        match (fits, star) {
            (Some(length), _) => (p, t) = (p + length, t + 1),
            (None, Some((behind, from))) if from < text.len() => {
                (p, t) = (behind, from + 1);
                star = Some((behind, from + 1));
            }
            _ => return false,
        }
    }
}

/// The length of the part of the pattern that stands for this character, if it does.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [b'[', rest @ ..] => {
            let (negated, rest, mut at) = match rest {
                [b'^', rest @ ..] => (true, rest, 2),
                rest => (false, rest, 1),
            };
            let (mut found, mut rest) = (false, rest);
            loop {
                let (from, to, length) = match rest {
                    [] => break,
                    [b']', ..] => {
                        at += 1;
                        break;
                    }
                    [b'\\', one, ..] => (*one, *one, 2),
                    [from, b'-', to, ..] if *to != b']' => (*from.min(to), *from.max(to), 3),
                    [one, ..] => (*one, *one, 1),
                };
                found |= (from..=to).contains(&byte);
                at += length;
                rest = &rest[length..];
            }
            (found != negated).then_some(at)
        }
        [first, ..] => (*first == byte).then_some(1),
        [] => None,
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns() {
        for (pattern, yes, no) in [
            ("*", "", "never"),
            ("h?llo", "hello", "hllo"),
            ("h*llo", "heeello", "hell"),
            ("h[ae]llo", "hallo", "hillo"),
            ("h[^e]llo", "hallo", "hello"),
            ("h[a-c]llo", "hbllo", "hdllo"),
            ("\\*", "*", "a"),
            ("a*b*c", "axxbyyc", "axxbyy"),
            ("[\\]]", "]", "\\"),
            ("[a", "a", "b"),
        ] {
            assert!(matches(pattern.as_bytes(), yes.as_bytes()), "{pattern} {yes}");
            assert!(
                pattern == "*" || !matches(pattern.as_bytes(), no.as_bytes()),
                "{pattern} {no}"
            );
        }
        assert!(!matches(b"a*a*a*a*a*a*a*b", &[b'a'; 1000]));
    }
}
