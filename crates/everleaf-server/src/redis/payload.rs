//! What the bodies of payloads share, those of streams too: strings with their lengths.

use super::failure::{Failure, Outcome};

/// What is said of a payload that is none.
pub const BAD_FORMAT: &str = "ERR Bad data format";

/// The entries of a collection.
pub fn entries(mut body: &[u8]) -> Outcome<Vec<Vec<u8>>> {
    let mut entries = Vec::new();
    while let Some((length, rest)) = body.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*length) as usize;
        let entry = rest.get(..length).ok_or(Failure::Said(BAD_FORMAT))?;
        entries.push(entry.to_vec());
        body = &rest[length..];
    }
    match body.is_empty() && !entries.is_empty() {
        true => Ok(entries),
        false => Err(BAD_FORMAT.into()),
    }
}
