//! Lua's patterns, as Lua 5.1 matches them, with an end: what takes many steps asks whether it may
//! go on, and what lies too deep is refused.

/// How deep the parts of a pattern may lie in each other, as in later versions of Lua.
const DEPTH: usize = 200;
/// Captures of a pattern, at most.
const CAPTURES: usize = 32;
/// After so many steps it is asked whether it may go on.
const STEPS: u32 = 1 << 16;

/// Why a pattern was not matched to its end.
#[derive(Debug, PartialEq, Eq)]
pub enum Fault {
    /// The pattern is wrong: Lua's sentence.
    Wrong(&'static str),
    /// It may not go on.
    Stopped,
}

type Matched<T> = Result<T, Fault>;

/// What a capture has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capture {
    /// From where to where.
    Text(usize, usize),
    /// Where it stands, from 0 on.
    Position(usize),
}

#[derive(Clone, Copy)]
enum End {
    Open,
    Position,
    At(usize),
}

/// A pattern and the text that it is matched with.
pub struct Matcher<'t, 'f> {
    text: &'t [u8],
    pattern: &'t [u8],
    captures: Vec<(usize, End)>,
    depth: usize,
    steps: u32,
    may_go_on: &'f dyn Fn() -> bool,
}

impl<'t, 'f> Matcher<'t, 'f> {
    pub fn new(text: &'t [u8], pattern: &'t [u8], may_go_on: &'f dyn Fn() -> bool) -> Self {
        Self { text, pattern, captures: Vec::new(), depth: 0, steps: 0, may_go_on }
    }

    /// Where the pattern ends that is matched from `at` on; none: it is not there.
    pub fn matches_at(&mut self, at: usize) -> Matched<Option<usize>> {
        self.captures.clear();
        self.depth = 0;
        self.matches(at, 0)
    }

    /// How many captures there are; the whole match counts as one where there are none.
    pub fn captured(&self, whole_counts: bool) -> usize {
        if self.captures.is_empty() && whole_counts { 1 } else { self.captures.len() }
    }

    /// One of the captures of a match between these two.
    pub fn capture(&self, number: usize, (from, to): (usize, usize)) -> Matched<Capture> {
        match self.captures.get(number) {
            None if number == 0 => Ok(Capture::Text(from, to)),
            None => Err(Fault::Wrong("invalid capture index")),
            Some((_, End::Open)) => Err(Fault::Wrong("unfinished capture")),
            Some((at, End::Position)) => Ok(Capture::Position(*at)),
            Some((at, End::At(to))) => Ok(Capture::Text(*at, *to)),
        }
    }

    fn step(&mut self) -> Matched<()> {
        self.steps += 1;
        if self.steps >= STEPS {
            self.steps = 0;
            if !(self.may_go_on)() {
                return Err(Fault::Stopped);
            }
        }
        Ok(())
    }

    fn at(&self, p: usize) -> Option<u8> {
        self.pattern.get(p).copied()
    }

    fn matches(&mut self, s: usize, p: usize) -> Matched<Option<usize>> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(Fault::Wrong("pattern too complex"));
        }
        let found = self.matches_here(s, p);
        self.depth -= 1;
        found
    }

    fn matches_here(&mut self, mut s: usize, mut p: usize) -> Matched<Option<usize>> {
        loop {
            self.step()?;
            match (self.at(p), self.at(p + 1)) {
                (None, _) => return Ok(Some(s)),
                (Some(b'('), Some(b')')) => return self.start_capture(s, p + 2, End::Position),
                (Some(b'('), _) => return self.start_capture(s, p + 1, End::Open),
                (Some(b')'), _) => return self.end_capture(s, p + 1),
                (Some(b'$'), None) => return Ok((s == self.text.len()).then_some(s)),
                (Some(b'%'), Some(b'b')) => match self.balanced(s, p + 2)? {
                    Some(end) => (s, p) = (end, p + 4),
                    None => return Ok(None),
                },
                (Some(b'%'), Some(b'f')) => {
                    p += 2;
                    if self.at(p) != Some(b'[') {
                        return Err(Fault::Wrong("missing '[' after '%f' in pattern"));
                    }
                    let end = self.class_end(p)?;
                    let before = if s == 0 { 0 } else { self.text[s - 1] };
                    let here = self.text.get(s).copied().unwrap_or(0);
                    if self.in_set(before, p, end - 1) || !self.in_set(here, p, end - 1) {
                        return Ok(None);
                    }
                    p = end;
                }
                (Some(b'%'), Some(digit)) if digit.is_ascii_digit() => {
                    match self.captured_again(s, digit)? {
                        Some(end) => (s, p) = (end, p + 2),
                        None => return Ok(None),
                    }
                }
                _ => {
                    let end = self.class_end(p)?;
                    let single = self.matches_one(s, p, end);
                    match self.at(end) {
                        Some(b'?') => {
                            if single && let Some(found) = self.matches(s + 1, end + 1)? {
                                return Ok(Some(found));
                            }
                            p = end + 1;
                        }
                        Some(b'*') => return self.expand(s, p, end, 0),
                        Some(b'+') if single => return self.expand(s, p, end, 1),
                        Some(b'+') => return Ok(None),
                        Some(b'-') => return self.expand_least(s, p, end),
                        _ if single => (s, p) = (s + 1, end),
                        _ => return Ok(None),
                    }
                }
            }
        }
    }

    /// As many as there are, then fewer.
    fn expand(&mut self, s: usize, p: usize, end: usize, least: usize) -> Matched<Option<usize>> {
        let mut count = 0;
        while self.matches_one(s + count, p, end) {
            count += 1;
            self.step()?;
        }
        while count >= least {
            if let Some(found) = self.matches(s + count, end + 1)? {
                return Ok(Some(found));
            }
            if count == 0 {
                break;
            }
            count -= 1;
        }
        Ok(None)
    }

    /// As few as there are, then more.
    fn expand_least(&mut self, mut s: usize, p: usize, end: usize) -> Matched<Option<usize>> {
        loop {
            if let Some(found) = self.matches(s, end + 1)? {
                return Ok(Some(found));
            }
            if !self.matches_one(s, p, end) {
                return Ok(None);
            }
            s += 1;
        }
    }

    fn start_capture(&mut self, s: usize, p: usize, end: End) -> Matched<Option<usize>> {
        if self.captures.len() >= CAPTURES {
            return Err(Fault::Wrong("too many captures"));
        }
        let before = self.captures.len();
        self.captures.push((s, end));
        let found = self.matches(s, p)?;
        if found.is_none() {
            self.captures.truncate(before);
        }
        Ok(found)
    }

    fn end_capture(&mut self, s: usize, p: usize) -> Matched<Option<usize>> {
        let open = self.captures.iter().rposition(|(_, end)| matches!(end, End::Open));
        let open = open.ok_or(Fault::Wrong("invalid pattern capture"))?;
        self.captures[open].1 = End::At(s);
        let found = self.matches(s, p)?;
        if found.is_none() {
            self.captures[open].1 = End::Open;
        }
        Ok(found)
    }

    /// What a capture has found, once more.
    fn captured_again(&mut self, s: usize, digit: u8) -> Matched<Option<usize>> {
        let number = usize::from(digit).checked_sub(usize::from(b'1'));
        let Some((from, End::At(to))) = number.and_then(|number| self.captures.get(number)) else {
            return Err(Fault::Wrong("invalid capture index"));
        };
        let captured = &self.text[*from..*to];
        self.steps = self.steps.saturating_add(captured.len() as u32);
        Ok(self.text[s..].starts_with(captured).then_some(s + captured.len()))
    }

    fn balanced(&mut self, s: usize, p: usize) -> Matched<Option<usize>> {
        let (Some(open), Some(close)) = (self.at(p), self.at(p + 1)) else {
            return Err(Fault::Wrong("unbalanced pattern"));
        };
        if self.text.get(s) != Some(&open) {
            return Ok(None);
        }
        let mut depth = 1;
        for at in s + 1..self.text.len() {
            self.step()?;
            let byte = self.text[at];
            if byte == close {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(at + 1));
                }
            } else if byte == open {
                depth += 1;
            }
        }
        Ok(None)
    }

    // ---- classes
    // ---------------------------------------------------------------------------------------------

    /// Where the class ends that begins at `p`.
    fn class_end(&self, p: usize) -> Matched<usize> {
        match self.at(p) {
            Some(b'%') if p + 1 >= self.pattern.len() => {
                Err(Fault::Wrong("malformed pattern (ends with '%')"))
            }
            Some(b'%') => Ok(p + 2),
            Some(b'[') => {
                let missing = Fault::Wrong("malformed pattern (missing ']')");
                let mut at = p + 1;
                if self.at(at) == Some(b'^') {
                    at += 1;
                }
                // A bracket that comes first is no end.
                loop {
                    match self.at(at) {
                        None => return Err(missing),
                        Some(b'%') if at + 1 < self.pattern.len() => at += 2,
                        Some(_) => at += 1,
                    }
                    match self.at(at) {
                        None => return Err(missing),
                        Some(b']') => return Ok(at + 1),
                        Some(_) => {}
                    }
                }
            }
            _ => Ok(p + 1),
        }
    }

    fn matches_one(&self, s: usize, p: usize, end: usize) -> bool {
        let Some(&byte) = self.text.get(s) else { return false };
        match self.pattern[p] {
            b'.' => true,
            b'%' => in_class(byte, self.pattern[p + 1]),
            b'[' => self.in_set(byte, p, end - 1),
            other => other == byte,
        }
    }

    /// Whether a byte is in the set between the brackets at `p` and at `close`.
    fn in_set(&self, byte: u8, p: usize, close: usize) -> bool {
        let set = &self.pattern[p + 1..close];
        let (set, found) = match set.strip_prefix(b"^") {
            Some(rest) => (rest, false),
            None => (set, true),
        };
        let mut at = 0;
        while at < set.len() {
            match (set[at], set.get(at + 1), set.get(at + 2)) {
                (b'%', Some(class), _) => {
                    if in_class(byte, *class) {
                        return found;
                    }
                    at += 2;
                }
                (from, Some(b'-'), Some(to)) => {
                    if (from..=*to).contains(&byte) {
                        return found;
                    }
                    at += 3;
                }
                (other, ..) => {
                    if other == byte {
                        return found;
                    }
                    at += 1;
                }
            }
        }
        !found
    }
}

fn in_class(byte: u8, class: u8) -> bool {
    let found = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => byte.is_ascii_whitespace() || byte == 0x0b,
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    found != class.is_ascii_uppercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(text: &str, pattern: &str) -> Matched<Option<(usize, usize)>> {
        let goes_on = || true;
        let mut matcher = Matcher::new(text.as_bytes(), pattern.as_bytes(), &goes_on);
        for at in 0..=text.len() {
            if let Some(end) = matcher.matches_at(at)? {
                return Ok(Some((at, end)));
            }
        }
        Ok(None)
    }

    #[test]
    fn patterns_match_as_in_lua() {
        for (text, pattern, found) in [
            ("abc", "b", Some((1, 2))),
            ("  trim ", "%S.-%S%s*$", Some((2, 7))),
            ("f(a(b)c)d", "%b()", Some((1, 8))),
            ("THE (quick)", "%f[%a]%a+", Some((0, 3))),
            ("a]b", "[]]", Some((1, 2))),
            ("a^b", "[b^]", Some((1, 2))),
            ("a-z", "[a%-]+", Some((0, 2))),
            ("xyz", "[^x]", Some((1, 2))),
            ("helloo", "(o)%1", Some((4, 6))),
            ("aaab", "a-b", Some((0, 4))),
            ("abc", "x?b", Some((1, 2))),
            ("ab", "$", Some((2, 2))),
            ("a$", "$$", Some((1, 2))),
        ] {
            assert_eq!(first(text, pattern), Ok(found), "{text} {pattern}");
        }
    }

    #[test]
    fn wrong_patterns_are_refused_in_the_words_of_lua() {
        for (pattern, sentence) in [
            ("[a", "malformed pattern (missing ']')"),
            ("[", "malformed pattern (missing ']')"),
            ("[]", "malformed pattern (missing ']')"),
            ("[^", "malformed pattern (missing ']')"),
            ("[%", "malformed pattern (missing ']')"),
            ("%", "malformed pattern (ends with '%')"),
            ("%b", "unbalanced pattern"),
            ("%bx", "unbalanced pattern"),
            ("%f", "missing '[' after '%f' in pattern"),
            ("%1", "invalid capture index"),
            ("%0", "invalid capture index"),
            ("(%1)", "invalid capture index"),
            ("()%1", "invalid capture index"),
            (")", "invalid pattern capture"),
        ] {
            assert_eq!(first("abc", pattern), Err(Fault::Wrong(sentence)), "{pattern}");
        }
        let deep = Err(Fault::Wrong("pattern too complex"));
        assert_eq!(first(&"a".repeat(1000), &"a?".repeat(1000)), deep);
        assert_eq!(first("", &"()".repeat(33)), Err(Fault::Wrong("too many captures")));
    }

    /// Backtracking without an end can be stopped.
    #[test]
    fn what_takes_long_is_stopped() {
        let never = || false;
        let text = "a".repeat(100);
        let pattern = format!("{}b", "a*".repeat(100));
        let mut matcher = Matcher::new(text.as_bytes(), pattern.as_bytes(), &never);
        assert_eq!(matcher.matches_at(0), Err(Fault::Stopped));
    }
}
