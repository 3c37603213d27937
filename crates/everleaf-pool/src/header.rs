//! The identity of a pool: written once, checksummed, read from a file's bytes before anything is
//! mapped.

use everleaf_pmem::{Features, Media, Newer};

use crate::layout::{FORMAT_VERSION, IDENTITY_WORDS, Identity, MAGIC};
use crate::{Corruption, PoolError};

/// The kind of key that a pool was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum KeyType {
    /// `u64`.
    U64,
    /// Byte strings.
    Bytes,
}

/// What is decided when a pool is created and never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// Name of the engine; at most 24 bytes are kept.
    pub engine: String,
    /// Kind of keys.
    pub key_type: KeyType,
    /// Parameters of the engine; their meaning is the engine's own.
    pub parameters: [u64; 8],
}

impl Format {
    /// Whether nothing is known of it, because the first page of the pool is damaged.
    pub fn is_lost(&self) -> bool {
        self.engine.is_empty()
    }
}

/// The identity as it was read.
pub(crate) struct IdentityImage {
    pub format: Format,
    pub uuid: u128,
    pub max_bytes: u64,
    pub features: Features,
}

impl IdentityImage {
    /// Reads and checks the identity at the start of `words`. `Err(None)`: this is not a pool.
    pub fn read(words: &[u64]) -> Result<Self, Option<PoolError>> {
        let word = |i: usize| words.get(i).copied().ok_or(None);
        if word(0)? != MAGIC {
            return Err(None);
        }
        let corrupt = PoolError::corrupt(0, Corruption::Header);
        if word(IDENTITY_WORDS)? != checksum(&words[..IDENTITY_WORDS]) {
            return Err(Some(corrupt));
        }
        let features = Features { words: std::array::from_fn(|i| words[17 + i]) };
        let (found, known) = (word(1)?, FORMAT_VERSION);
        if found > known {
            let release = features.release();
            return Err(Some(PoolError::Newer(Newer::Format { found, known, release })));
        }
        if found < known {
            return Err(Some(PoolError::OlderVersion { found, supported: known }));
        }
        let name: Vec<u8> =
            words[4..7].iter().flat_map(|w| w.to_le_bytes()).take_while(|b| *b != 0).collect();
        let (Ok(engine), Some(key_type)) = (String::from_utf8(name), key_type_of(words[7])) else {
            return Err(Some(corrupt));
        };
        let parameters = std::array::from_fn(|i| words[8 + i]);
        let (uuid, max_bytes) = (uuid_in(words), words[16]);
        Ok(Self { format: Format { engine, key_type, parameters }, uuid, max_bytes, features })
    }

    /// Of a pool whose own is lost: no engine has an empty name, and the kind of keys is unknown.
    pub fn lost(max_bytes: u64) -> Self {
        let (key_type, parameters) = (KeyType::Bytes, [0; 8]);
        let format = Format { engine: String::new(), key_type, parameters };
        Self { format, uuid: 0, max_bytes, features: Features::default() }
    }

    /// The words of this identity, the magic first and the checksum last.
    fn words(&self) -> [u64; IDENTITY_WORDS + 1] {
        let mut words = [0; IDENTITY_WORDS + 1];
        (words[0], words[1]) = (MAGIC, FORMAT_VERSION);
        (words[2], words[3]) = (self.uuid as u64, (self.uuid >> 64) as u64);
        let mut name = [0u8; 24];
        let length = self.format.engine.len().min(name.len());
        name[..length].copy_from_slice(&self.format.engine.as_bytes()[..length]);
        for (word, bytes) in words[4..7].iter_mut().zip(name.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        }
        words[7] = u64::from(self.format.key_type == KeyType::Bytes);
        words[8..16].copy_from_slice(&self.format.parameters);
        words[16] = self.max_bytes;
        words[17..21].copy_from_slice(&self.features.words);
        words[IDENTITY_WORDS] = checksum(&words[..IDENTITY_WORDS]);
        words
    }

    /// Writes all but the magic word; flushed by the caller.
    pub fn write_body<M: Media>(&self, media: &M, identity: &Identity) {
        let words = self.words();
        let cells = [
            [&identity.version, &identity.uuid[0], &identity.uuid[1]].as_slice(),
            &identity.engine.each_ref(),
            &[&identity.key_type],
            &identity.parameters.each_ref(),
            &[&identity.max_bytes],
            &identity.features.each_ref(),
            &identity._reserved.each_ref(),
            &[&identity.checksum],
        ]
        .concat();
        for (cell, word) in cells.into_iter().zip(&words[1..]) {
            media.store(cell, *word);
        }
    }
}

/// The identity that the words of a header state.
pub(crate) fn uuid_in(words: &[u64]) -> u128 {
    u128::from(words[2]) | u128::from(words[3]) << 64
}

fn key_type_of(word: u64) -> Option<KeyType> {
    match word {
        0 => Some(KeyType::U64),
        1 => Some(KeyType::Bytes),
        _ => None,
    }
}

fn checksum(words: &[u64]) -> u64 {
    let mut crc = crc32fast::Hasher::new();
    for word in words {
        crc.update(&word.to_le_bytes());
    }
    u64::from(crc.finalize())
}
