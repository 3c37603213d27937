//! What follows the key of a meta command: flags of one letter, each with a token or without.

use super::parse::{Words, base64, seconds, unsigned};

/// The most words of a line, with the command and the key.
const MAX_WORDS: usize = 19;
/// The longest opaque token, with its letter.
const MAX_OPAQUE_BYTES: usize = 32;
/// The reply to a longer one.
pub const OPAQUE_TOO_LONG: &[u8] = b"CLIENT_ERROR opaque token too long\r\n";

/// The flags of a request. Every command takes all of them, and does not look at those that mean
/// nothing to it; their tokens were checked once.
#[derive(Clone, Copy)]
pub struct Flags<'i> {
    words: Words<'i>,
    seen: u128,
}

/// A key as it was sent, and as it is stored.
pub struct MetaKey<'i> {
    /// What the reply repeats.
    pub sent: &'i [u8],
    /// What base64 stands for, if it was that.
    pub decoded: Option<Vec<u8>>,
}

impl MetaKey<'_> {
    /// What it is in the store.
    pub fn bytes(&self) -> &[u8] {
        self.decoded.as_deref().unwrap_or(self.sent)
    }
}

impl<'i> Flags<'i> {
    /// The flags in `words`.
    ///
    /// # Errors
    /// The reply: for the first flag that is unknown or repeated, else for the last wrong token.
    pub fn read(words: Words<'i>) -> Result<Self, &'static [u8]> {
        let (mut seen, mut read) = (0u128, Ok(()));
        for word in words {
            let (letter, token) = (word[0], &word[1..]);
            let bit = 1u128 << (letter & 0x7f);
            if !letter.is_ascii() || seen & bit != 0 {
                return Err(b"CLIENT_ERROR duplicate flag\r\n");
            }
            seen |= bit;
            read = check(letter, token)?.and(read);
        }
        read.map(|()| Self { words, seen })
    }

    /// Whether the line has more words than a request may have; `before` come before the flags.
    pub fn are_too_many(words: Words<'_>, before: usize) -> bool {
        before + words.count() > MAX_WORDS
    }

    /// Whether a flag is there.
    pub const fn has(&self, letter: u8) -> bool {
        self.seen >> (letter & 0x7f) & 1 == 1
    }

    /// The letters and their tokens, as they were sent.
    pub fn each(&self) -> impl Iterator<Item = (u8, &'i [u8])> {
        self.words.filter_map(|word| Some((*word.first()?, &word[1..])))
    }

    /// The token of a flag, if the flag is there.
    pub fn token(&self, letter: u8) -> Option<&'i [u8]> {
        let token = || self.each().find(|(sent, _)| *sent == letter).map(|(_, token)| token);
        self.has(letter).then(token).flatten()
    }

    /// The token as a number, if the flag is there.
    pub fn number(&self, letter: u8) -> Option<u64> {
        self.token(letter).and_then(unsigned)
    }

    /// The token as a number of seconds, if the flag is there.
    pub fn seconds(&self, letter: u8) -> Option<i32> {
        self.token(letter).and_then(seconds)
    }

    /// The key, decoded where flag b says so.
    ///
    /// # Errors
    /// The reply.
    pub fn key(&self, sent: &'i [u8]) -> Result<MetaKey<'i>, &'static [u8]> {
        let decoded = match self.has(b'b') {
            true => match base64(sent) {
                Some(key) if !key.is_empty() => Some(key),
                _ => return Err(b"CLIENT_ERROR error decoding key\r\n"),
            },
            false => None,
        };
        Ok(MetaKey { sent, decoded })
    }

    /// Repeats what every reply repeats when asked to: the key and the opaque token. True if
    /// `letter` is one of them.
    pub fn repeat(key: &MetaKey<'_>, letter: u8, token: &[u8], out: &mut Vec<u8>) -> bool {
        match letter {
            b'k' => {
                out.extend_from_slice(b" k");
                out.extend_from_slice(key.sent);
                if key.decoded.is_some() {
                    out.extend_from_slice(b" b");
                }
            }
            b'O' => {
                out.extend_from_slice(b" O");
                out.extend_from_slice(token);
            }
            _ => return false,
        }
        true
    }
}

/// Checks a flag: the outer error ends the line.
fn check(letter: u8, token: &[u8]) -> Result<Result<(), &'static [u8]>, &'static [u8]> {
    let (right, wrong): (bool, &[u8]) = match letter {
        b'N' | b'T' | b'R' => {
            (seconds(token).is_some(), b"CLIENT_ERROR bad token in command line format\r\n")
        }
        b'C' | b'E' => {
            (unsigned(token).is_some(), b"CLIENT_ERROR bad token in command line format\r\n")
        }
        b'F' => (
            unsigned(token).is_some_and(|flags| u32::try_from(flags).is_ok()),
            b"CLIENT_ERROR bad command line format\r\n",
        ),
        b'J' => (unsigned(token).is_some(), b"CLIENT_ERROR invalid numeric initial value\r\n"),
        b'D' => (unsigned(token).is_some(), b"CLIENT_ERROR invalid numeric delta value\r\n"),
        b'M' => (token.len() == 1, b"CLIENT_ERROR incorrect length for M token\r\n"),
        b'O' => (token.len() < MAX_OPAQUE_BYTES, OPAQUE_TOO_LONG),
        b'b' | b'c' | b'f' | b'h' | b'I' | b'k' | b'L' | b'l' | b'P' | b'q' | b's' | b't'
        | b'u' | b'v' | b'x' => (true, b""),
        _ => return Err(b"CLIENT_ERROR invalid flag\r\n"),
    };
    Ok(if right { Ok(()) } else { Err(wrong) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_checked_once() {
        let flags = Flags::read(Words::of(b"v T30 Oabc")).unwrap();
        assert!(flags.has(b'v') && !flags.has(b'q'));
        assert_eq!((flags.seconds(b'T'), flags.token(b'O')), (Some(30), Some(&b"abc"[..])));
        assert_eq!((flags.number(b'O'), flags.number(b'D')), (None, None));
        for no in [&b"v v"[..], b"\xff", b"\x7f", b"Tx v v", b"z", b"T", b"MMM", b"F4294967296"] {
            assert!(Flags::read(Words::of(no)).is_err(), "{}", no.escape_ascii());
        }
    }
}
