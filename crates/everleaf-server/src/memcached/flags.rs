//! What follows the key of a meta command: flags of one letter, each with a token or without.

use super::parse::{MAX_KEY_BYTES, Words, base64, signed, unsigned};

const BAD_TOKEN: &[u8] = b"CLIENT_ERROR bad token in command line format\r\n";

/// The flags of a request, which were looked at once to see that they are all allowed.
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
    /// The flags in `words`, all of which must be in `allowed`.
    ///
    /// # Errors
    /// The reply.
    pub fn read(words: Words<'i>, allowed: &[u8]) -> Result<Self, &'static [u8]> {
        let mut seen = 0u128;
        for word in words {
            let Some(letter) = word.first().filter(|letter| allowed.contains(letter)) else {
                return Err(b"CLIENT_ERROR invalid flag\r\n");
            };
            let bit = 1u128 << (letter & 0x7f);
            if seen & bit != 0 {
                return Err(b"CLIENT_ERROR duplicate flag\r\n");
            }
            seen |= bit;
        }
        Ok(Self { words, seen })
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

    /// The token as a number without a sign.
    ///
    /// # Errors
    /// The reply.
    pub fn unsigned(&self, letter: u8) -> Result<Option<u64>, &'static [u8]> {
        self.token(letter).map(|token| unsigned(token).ok_or(BAD_TOKEN)).transpose()
    }

    /// The token as a number.
    ///
    /// # Errors
    /// The reply.
    pub fn signed(&self, letter: u8) -> Result<Option<i64>, &'static [u8]> {
        self.token(letter).map(|token| signed(token).ok_or(BAD_TOKEN)).transpose()
    }

    /// The key, decoded where flag b says so.
    ///
    /// # Errors
    /// The reply.
    pub fn key(&self, sent: &'i [u8]) -> Result<MetaKey<'i>, &'static [u8]> {
        if sent.is_empty() || sent.len() > MAX_KEY_BYTES {
            return Err(b"CLIENT_ERROR bad command line format\r\n");
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_checked_once() {
        let flags = Flags::read(Words::of(b"v T30 Oabc"), b"vTO").unwrap();
        assert!(flags.has(b'v') && !flags.has(b'q'));
        assert_eq!((flags.signed(b'T'), flags.token(b'O')), (Ok(Some(30)), Some(&b"abc"[..])));
        assert!(flags.unsigned(b'O').is_err());
        assert!(Flags::read(Words::of(b"v v"), b"v").is_err());
        assert!(Flags::read(Words::of(b"\xff"), b"v").is_err());
    }
}
