//! Streams: entries in the order of their ids, groups of consumers, and what these have pending.
//!
//! ```text
//! the key's body        collection (8), entries (8), entries ever added (8), the last id (16), the
//!                       greatest id that was removed from between (16)
//! part Entry            a row for each entry
//!   id (16)             its fields and values in turn: length (4), bytes
//! part Group
//!   1 name              a group: its number (8), the last id that it was given (16), how many
//!                       entries it has read (8; -1: not known), how many are pending (8), how many
//!                       consumers it has (8)
//!   2 group (8) name    a consumer: its number (8), when it was seen (8), how many are pending (8)
//!   3 group (8) id (16) a pending entry: when it was delivered (8), how often (8), whose it is
//!   4 group (8) consumer (8) id (16)
//!                       the same entry, for who looks for those of a consumer: nothing
//! ```
//!
//! An id is one number of 128 bits, big-endian in rows, so that rows have its order; other words,
//! and ids within values, are little-endian. Numbers of groups and consumers are never given twice.

use std::fmt;
use std::ops::Bound;

use super::record::HEADER_BYTES;
use super::rows::{Ends, Part, part_rest, part_row};

/// The id of an entry: milliseconds, and a number among those of one millisecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id(u128);

impl Id {
    /// The least one, which no entry has.
    pub const MIN: Self = Self(0);
    /// The greatest one.
    pub const MAX: Self = Self(u128::MAX);

    /// Of milliseconds and a number.
    pub const fn new(ms: u64, number: u64) -> Self {
        Self((ms as u128) << 64 | number as u128)
    }

    /// Its milliseconds.
    pub const fn ms(self) -> u64 {
        (self.0 >> 64) as u64
    }

    /// The next one.
    pub fn next(self) -> Option<Self> {
        self.0.checked_add(1).map(Self)
    }

    /// The one before.
    pub fn previous(self) -> Option<Self> {
        self.0.checked_sub(1).map(Self)
    }

    /// Its bytes in a row.
    pub const fn bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// What these bytes stand for, at the end of a row.
    pub fn of_row(row: &[u8]) -> Self {
        Self(row.last_chunk().map_or(0, |bytes| u128::from_be_bytes(*bytes)))
    }

    const fn words(self) -> [u64; 2] {
        [self.ms(), self.0 as u64]
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms(), self.0 as u64)
    }
}

/// The words at the front of some bytes.
fn words<const N: usize>(bytes: &[u8]) -> Option<[u64; N]> {
    let mut words = [0; N];
    for (word, bytes) in words.iter_mut().zip(bytes.get(..8 * N)?.chunks_exact(8)) {
        *word = u64::from_le_bytes(bytes.try_into().ok()?);
    }
    Some(words)
}

/// The bytes of words.
fn of_words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// The body of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// What its parts' rows begin with.
    pub id: u64,
    /// Number of entries.
    pub length: u64,
    /// Entries that were ever added.
    pub added: u64,
    /// The greatest id that an entry has had.
    pub last: Id,
    /// The greatest id that XDEL has removed.
    pub deleted: Id,
}

impl Stream {
    /// One without entries.
    pub const fn new(id: u64) -> Self {
        Self { id, length: 0, added: 0, last: Id::MIN, deleted: Id::MIN }
    }

    /// The body of a value; none if it is damaged.
    pub fn read(value: &[u8]) -> Option<Self> {
        Self::of_body(value.get(HEADER_BYTES..)?)
    }

    /// What these bytes stand for; none if they are too few.
    pub fn of_body(bytes: &[u8]) -> Option<Self> {
        let [id, length, added, last, last_number, deleted, deleted_number] = words(bytes)?;
        let (last, deleted) = (Id::new(last, last_number), Id::new(deleted, deleted_number));
        Some(Self { id, length, added, last, deleted })
    }

    /// Its bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let ([last, last_number], [deleted, deleted_number]) =
            (self.last.words(), self.deleted.words());
        of_words(&[self.id, self.length, self.added, last, last_number, deleted, deleted_number])
    }

    /// The row of an entry.
    pub fn entry(&self, id: Id) -> Vec<u8> {
        part_row(self.id, Part::Entry, &id.bytes())
    }

    /// The rows of the entries between two ids, both included.
    pub fn entries(&self, from: Id, to: Id) -> Ends {
        (Bound::Included(self.entry(from)), Bound::Included(self.entry(to)))
    }
}

// ---- entries
// -------------------------------------------------------------------------------------------------

/// Appends a string and its length.
pub fn add_string(bytes: &mut Vec<u8>, string: &[u8]) {
    // A string that a client sends has less than 4 GiB.
    bytes.extend_from_slice(&(string.len() as u32).to_le_bytes());
    bytes.extend_from_slice(string);
}

/// The strings of an entry; what is damaged ends them.
pub fn strings(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = bytes.split_first_chunk::<4>()?;
        let length = u32::from_le_bytes(*length) as usize;
        let string = rest.get(..length)?;
        bytes = &rest[length..];
        Some(string)
    })
}

// ---- groups
// -------------------------------------------------------------------------------------------------

const GROUP: u8 = 1;
const CONSUMER: u8 = 2;
const PENDING: u8 = 3;
const DELIVERED: u8 = 4;

/// A group of consumers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The collection of its stream.
    pub stream: u64,
    /// Its name.
    pub name: Vec<u8>,
    /// What its other rows begin with.
    pub number: u64,
    /// The last id that it was given.
    pub last: Id,
    /// Entries that it has read; negative: not known.
    pub read: i64,
    /// Entries that were not acknowledged.
    pub pending: u64,
    /// Number of consumers.
    pub consumers: u64,
}

/// A consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consumer {
    /// Its name.
    pub name: Vec<u8>,
    /// What the rows of its entries begin with.
    pub number: u64,
    /// When it has asked for entries, in milliseconds since 1970.
    pub seen_ms: u64,
    /// Entries that it has not acknowledged.
    pub pending: u64,
}

/// A pending entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// When it was delivered, in milliseconds since 1970.
    pub delivered_ms: u64,
    /// How often.
    pub deliveries: i64,
    /// The name of the consumer.
    pub consumer: Vec<u8>,
}

/// The rows of groups, of one kind.
fn all(stream: u64, kind: u8, number: Option<u64>) -> Ends {
    let (from, to) = match number {
        None => (vec![kind], vec![kind + 1]),
        // Numbers of a sequence never reach the greatest one.
        Some(number) => (numbered(kind, number, &[]), numbered(kind, number + 1, &[])),
    };
    let row = |rest: &[u8]| part_row(stream, Part::Group, rest);
    (Bound::Included(row(&from)), Bound::Excluded(row(&to)))
}

fn numbered(kind: u8, number: u64, rest: &[u8]) -> Vec<u8> {
    [&[kind], &number.to_be_bytes()[..], rest].concat()
}

/// The rows of a stream's groups.
pub fn groups(stream: u64) -> Ends {
    all(stream, GROUP, None)
}

/// The row of a group.
pub fn group_row(stream: u64, name: &[u8]) -> Vec<u8> {
    part_row(stream, Part::Group, &[&[GROUP], name].concat())
}

impl Group {
    /// A group without consumers.
    pub fn new(stream: u64, name: &[u8], number: u64, last: Id, read: i64) -> Self {
        Self { stream, name: name.to_vec(), number, last, read, pending: 0, consumers: 0 }
    }

    /// What a row holds; none if it is damaged.
    pub fn read(stream: u64, row: &[u8], value: &[u8]) -> Option<Self> {
        let name = part_rest(row).get(1..)?.to_vec();
        let [number, last, last_number, read, pending, consumers] = words(value)?;
        let last = Id::new(last, last_number);
        Some(Self { stream, name, number, last, read: read as i64, pending, consumers })
    }

    /// Its bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let [last, last_number] = self.last.words();
        of_words(&[self.number, last, last_number, self.read as u64, self.pending, self.consumers])
    }

    /// Its row.
    pub fn row(&self) -> Vec<u8> {
        group_row(self.stream, &self.name)
    }

    fn part(&self, rest: &[u8]) -> Vec<u8> {
        part_row(self.stream, Part::Group, rest)
    }

    /// The row of a consumer.
    pub fn consumer_row(&self, name: &[u8]) -> Vec<u8> {
        self.part(&numbered(CONSUMER, self.number, name))
    }

    /// The rows of all consumers.
    pub fn consumer_rows(&self) -> Ends {
        all(self.stream, CONSUMER, Some(self.number))
    }

    /// The row of a pending entry.
    pub fn pending_row(&self, id: Id) -> Vec<u8> {
        self.part(&numbered(PENDING, self.number, &id.bytes()))
    }

    /// The rows of the pending entries between two ids, both included.
    pub fn pending_rows(&self, from: Id, to: Id) -> Ends {
        (Bound::Included(self.pending_row(from)), Bound::Included(self.pending_row(to)))
    }

    /// The row of an entry of a consumer.
    pub fn delivered_row(&self, consumer: &Consumer, id: Id) -> Vec<u8> {
        let rest = [consumer.number.to_be_bytes().as_slice(), &id.bytes()].concat();
        self.part(&numbered(DELIVERED, self.number, &rest))
    }

    /// The rows of the entries of a consumer between two ids, both included.
    pub fn delivered_rows(&self, consumer: &Consumer, from: Id, to: Id) -> Ends {
        let row = |id| Bound::Included(self.delivered_row(consumer, id));
        (row(from), row(to))
    }

    /// All rows of the group but its own.
    pub fn rows(&self) -> [Ends; 3] {
        [CONSUMER, PENDING, DELIVERED].map(|kind| all(self.stream, kind, Some(self.number)))
    }
}

impl Consumer {
    /// What a row holds; none if it is damaged.
    pub fn read(row: &[u8], value: &[u8]) -> Option<Self> {
        let name = part_rest(row).get(9..)?.to_vec();
        let [number, seen_ms, pending] = words(value)?;
        Some(Self { name, number, seen_ms, pending })
    }

    /// Its bytes.
    pub fn bytes(&self) -> Vec<u8> {
        of_words(&[self.number, self.seen_ms, self.pending])
    }
}

impl Pending {
    /// What a row holds; none if it is damaged.
    pub fn read(value: &[u8]) -> Option<Self> {
        let [delivered_ms, deliveries] = words(value)?;
        let consumer = value.get(16..)?.to_vec();
        Some(Self { delivered_ms, deliveries: deliveries as i64, consumer })
    }

    /// Its bytes.
    pub fn bytes(&self) -> Vec<u8> {
        [&of_words(&[self.delivered_ms, self.deliveries as u64])[..], &self.consumer].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::{Header, Kind, collection_of};
    use super::*;

    #[test]
    fn bodies_are_read_as_they_were_written() {
        let (last, deleted) = (Id::new(7, u64::MAX), Id::new(u64::MAX, 3));
        let stream = Stream { id: 1, length: 2, added: 9, last, deleted };
        let header = Header::new(Kind::Stream, 5);
        let value = header.with(&stream.bytes());
        assert_eq!(Stream::read(&value), Some(stream));
        // As a collection it has its id and its number of entries.
        let (_, collection) = collection_of(&value).unwrap();
        assert_eq!((collection.id, collection.members), (1, 2));
        (0..value.len()).for_each(|cut| assert_eq!(Stream::read(&value[..cut]), None));
        let group = Group { pending: 4, consumers: 5, ..Group::new(1, b"g", 3, last, -1) };
        assert_eq!(Group::read(1, &group.row(), &group.bytes()), Some(group.clone()));
        let consumer = Consumer { name: b"c".to_vec(), number: 6, seen_ms: 7, pending: 8 };
        let row = group.consumer_row(b"c");
        assert_eq!(Consumer::read(&row, &consumer.bytes()), Some(consumer));
        let pending = Pending { delivered_ms: 1, deliveries: 2, consumer: b"c".to_vec() };
        assert_eq!(Pending::read(&pending.bytes()), Some(pending));
        assert_eq!((Group::read(1, b"", b""), Pending::read(b"")), (None, None));
    }

    #[test]
    fn ids_have_the_order_of_their_rows() {
        let ids = [Id::MIN, Id::new(0, 1), Id::new(0, u64::MAX), Id::new(1, 0), Id::MAX];
        assert!(ids.is_sorted() && ids.map(Id::bytes).is_sorted());
        assert_eq!(Id::new(0, u64::MAX).next(), Some(Id::new(1, 0)));
        assert_eq!(Id::new(1, 0).previous(), Some(Id::new(0, u64::MAX)));
        assert_eq!((Id::MAX.next(), Id::MIN.previous()), (None, None));
        let stream = Stream::new(3);
        ids.iter().for_each(|id| assert_eq!(Id::of_row(&stream.entry(*id)), *id));
        assert_eq!(Id::new(5, 6).to_string(), "5-6");
    }

    #[test]
    fn rows_of_one_group_are_not_those_of_another() {
        let group = |number| Group::new(1, b"g", number, Id::MIN, 0);
        let (one, other) = (group(7), group(8));
        let consumer = Consumer { name: Vec::new(), number: 9, seen_ms: 0, pending: 0 };
        let within = |ends: &Ends, row: &[u8]| {
            let (Bound::Included(from), Bound::Excluded(to)) = ends else { panic!() };
            from[..] <= *row && *row < to[..]
        };
        let rows = |group: &Group| {
            [
                group.consumer_row(&[255; 20]),
                group.pending_row(Id::MAX),
                group.delivered_row(&consumer, Id::MAX),
            ]
        };
        for (at, ends) in one.rows().iter().enumerate() {
            for (other_at, row) in rows(&one).iter().enumerate() {
                assert_eq!(within(ends, row), at == other_at);
            }
            assert!(rows(&other).iter().all(|row| !within(ends, row)));
        }
        assert!(within(&groups(1), &one.row()) && !within(&groups(1), &rows(&one)[0]));
    }

    #[test]
    fn strings_are_read_as_they_were_written() {
        let mut bytes = Vec::new();
        let some: [&[u8]; 4] = [b"field", b"", b"\x00", &[b'x'; 300]];
        some.iter().for_each(|string| add_string(&mut bytes, string));
        assert_eq!(strings(&bytes).collect::<Vec<_>>(), some);
        assert_eq!(strings(&bytes[..bytes.len() - 1]).count(), 3);
    }
}
