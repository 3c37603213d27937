//! Keys of the store: a first byte says what a row is, so that no key of a client can be taken for
//! anything else.
//!
//! ```text
//! 00 name                    a word of the server's own
//! 01 database key            a key of a client: its header, and the value of a string
//! 02 part id(8) rest         a part of a collection: the id is its header's
//! 03 id(8)                   a collection that was deleted and still has parts
//! ```
//!
//! A collection's id has a fixed length and is never given twice. So a field cannot be taken for
//! another key's, and the parts of a deleted collection are never seen again, however late they are
//! removed. Parts follow each other in the order that their collection has.

use std::collections::BTreeMap;
use std::hash::Hasher;
use std::ops::Bound;

/// A range of rows.
pub type Ends = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// Rows and what they will hold; none: nothing.
pub type Pending = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Databases that Redis clients may select; memcached's keys are in the first one.
pub const DATABASES: u8 = 16;
/// The longest key, field or member, in bytes: what the store takes, without the bytes in front.
pub const MAX_KEY_BYTES: usize = 64 * 1024 - 64;

const WORD: u8 = 0;
const KEY: u8 = 1;
const PART: u8 = 2;
const DELETED: u8 = 3;

/// Which rows of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Part {
    /// Fields of a hash, members of a set, members of a sorted set with their scores: by name.
    Member = 1,
    /// Members of a sorted set: by score, then by name.
    Score = 2,
    /// Elements of a list: by position.
    Element = 3,
    /// Entries of a stream: by id.
    Entry = 4,
    /// Groups of a stream, their consumers and what is pending (`stream.rs`).
    Group = 5,
}

impl Part {
    /// All of them.
    pub const ALL: [Part; 5] = [Part::Member, Part::Score, Part::Element, Part::Entry, Part::Group];
}

/// The row of a word of the server's own.
pub fn word_row(name: &str) -> Vec<u8> {
    [&[WORD], name.as_bytes()].concat()
}

/// Whether a row is one of these words.
pub fn is_word(row: &[u8]) -> bool {
    row.first() == Some(&WORD)
}

/// The row of a client's key.
pub fn key_row(database: u8, key: &[u8]) -> Vec<u8> {
    let mut row = Vec::with_capacity(key.len() + 2);
    row.extend_from_slice(&[KEY, database]);
    row.extend_from_slice(key);
    row
}

/// What all keys begin with: of a database, or of all.
pub fn keys_prefix(database: Option<u8>) -> Vec<u8> {
    let mut prefix = vec![KEY];
    prefix.extend(database);
    prefix
}

/// The database and the key that a row stands for.
pub fn key_of(row: &[u8]) -> Option<(u8, &[u8])> {
    match row {
        [KEY, database, key @ ..] => Some((*database, key)),
        _ => None,
    }
}

/// What the rows of all parts of all collections begin with.
pub const PARTS_PREFIX: [u8; 1] = [PART];

/// What the rows of a part of a collection begin with.
pub fn part_prefix(id: u64, part: Part) -> Vec<u8> {
    part_row(id, part, &[])
}

/// The row of a part of a collection.
pub fn part_row(id: u64, part: Part, rest: &[u8]) -> Vec<u8> {
    let mut row = Vec::with_capacity(rest.len() + 10);
    row.extend_from_slice(&[PART, part as u8]);
    row.extend_from_slice(&id.to_be_bytes());
    row.extend_from_slice(rest);
    row
}

/// Bytes of that prefix.
pub const PREFIX_BYTES: usize = 10;

/// The bytes of a part's row behind its prefix.
pub fn part_rest(row: &[u8]) -> &[u8] {
    row.get(PREFIX_BYTES..).unwrap_or_default()
}

/// The collection that a part's row, or its prefix, belongs to.
pub fn part_id(row: &[u8]) -> Option<u64> {
    match row {
        [PART, _, rest @ ..] => rest.first_chunk().map(|id| u64::from_be_bytes(*id)),
        _ => None,
    }
}

/// The least row behind all that begin with a part's prefix: numbers of a sequence never reach the
/// greatest one.
pub fn behind_prefix(prefix: &[u8]) -> Vec<u8> {
    let id = part_id(prefix).unwrap_or(0).wrapping_add(1);
    [&prefix[..PREFIX_BYTES - 8], &id.to_be_bytes()].concat()
}

/// The row that says that a collection was deleted.
pub fn deleted_row(id: u64) -> Vec<u8> {
    let mut row = vec![DELETED];
    row.extend_from_slice(&id.to_be_bytes());
    row
}

/// What those rows begin with.
pub const DELETED_PREFIX: [u8; 1] = [DELETED];

/// The collection that such a row speaks of.
pub fn deleted_of(row: &[u8]) -> Option<u64> {
    row.strip_prefix(&DELETED_PREFIX)?.try_into().ok().map(u64::from_be_bytes)
}

/// An end of a range.
pub fn slice(end: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    end.as_ref().map(Vec::as_slice)
}

/// Whether no row lies between.
pub fn is_empty((from, to): &Ends) -> bool {
    match (from, to) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (
            Bound::Included(from) | Bound::Excluded(from),
            Bound::Included(to) | Bound::Excluded(to),
        ) => from >= to,
    }
}

/// A hash by which rows share words in memory.
pub fn hash(row: &[u8]) -> usize {
    let mut hasher = rustc_hash::FxHasher::default();
    hasher.write(row);
    hasher.finish() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_is_taken_for_a_part_or_a_word() {
        let part = part_row(7, Part::Member, b"field");
        for key in [&part[..], &part[1..], b"\x00sequence", b""] {
            let row = key_row(0, key);
            assert_eq!(key_of(&row), Some((0, key)));
            assert!(!row.starts_with(&part_prefix(7, Part::Member)));
            assert!(!row.starts_with(&[WORD]));
        }
        assert_eq!(key_of(&part), None);
    }

    #[test]
    fn the_fields_of_one_collection_are_not_those_of_another() {
        let long = part_row(1, Part::Member, &2u64.to_be_bytes());
        assert!(!long.starts_with(&part_prefix(2, Part::Member)));
        assert_eq!(deleted_of(&deleted_row(9)), Some(9));
        assert_eq!((part_id(&long), part_id(&deleted_row(9))), (Some(1), None));
        let behind = behind_prefix(&part_prefix(1, Part::Member));
        assert!(long < behind && behind == part_prefix(2, Part::Member));
        assert_eq!(deleted_of(&long), None);
    }
}
