//! Rows as bytes: as they are gathered they are sent and stored.
//!
//! ```text
//! row     length of the key (u32), length of the value (u32; u32::MAX: the key is deleted),
//!         key, value
//! ```
//! All numbers are little-endian.

use serde::{Deserialize, Serialize};

use crate::bytes::{EntryError, Reader};

/// The length that stands for a deletion.
const DELETED: u32 = u32::MAX;

/// A key and its value, or none if it is deleted.
pub type RowBytes<'b> = (&'b [u8], Option<&'b [u8]>);

/// Keys that are put or deleted, in order; a later one counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<u8>", into = "Vec<u8>")]
pub struct Rows {
    /// Whole rows and nothing else.
    bytes: Vec<u8>,
}

impl Rows {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a row: a value, or none to delete the key. Keys have up to 64 KiB and values up to 1
    /// GiB, as in a store; longer ones are refused by it.
    pub fn push(&mut self, key: &[u8], value: Option<&[u8]>) {
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(DELETED - 1);
        self.bytes.extend(length(key).to_le_bytes());
        self.bytes.extend(value.map_or(DELETED, length).to_le_bytes());
        self.bytes.extend(key);
        self.bytes.extend(value.unwrap_or_default());
    }

    /// Adds what others are.
    pub fn append(&mut self, others: &Rows) {
        self.bytes.extend(&others.bytes);
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Bytes of all of them.
    pub fn len_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The rows, in order.
    pub fn iter(&self) -> impl Iterator<Item = RowBytes<'_>> {
        let mut rest = Reader::of(&self.bytes);
        std::iter::from_fn(move || row(&mut rest).ok().flatten())
    }

    /// As bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// The next row, or none at the end.
fn row<'b>(rest: &mut Reader<'b>) -> Result<Option<RowBytes<'b>>, EntryError> {
    if rest.is_at_end() {
        return Ok(None);
    }
    let (key, value) = (rest.u32()?, rest.u32()?);
    let key = rest.bytes(key)?;
    let value = if value == DELETED { None } else { Some(rest.bytes(value)?) };
    Ok(Some((key, value)))
}

impl TryFrom<Vec<u8>> for Rows {
    type Error = EntryError;

    fn try_from(bytes: Vec<u8>) -> Result<Self, EntryError> {
        let mut rest = Reader::of(&bytes);
        while row(&mut rest)?.is_some() {}
        Ok(Self { bytes })
    }
}

impl From<Rows> for Vec<u8> {
    fn from(rows: Rows) -> Self {
        rows.bytes
    }
}
