//! Arguments that commands of both programs take.

use everleaf::KeyType;

/// Kinds of keys, as they are called on the command line.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Keys {
    /// Byte strings of 0 to 64 KiB, in lexicographic order.
    Bytes,
    /// Numbers from 0 to 2^64 - 1, in numeric order.
    U64,
}

impl From<Keys> for KeyType {
    fn from(keys: Keys) -> Self {
        match keys {
            Keys::Bytes => Self::Bytes,
            Keys::U64 => Self::U64,
        }
    }
}
