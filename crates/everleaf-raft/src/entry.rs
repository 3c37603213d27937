//! An entry as bytes, in the log and between nodes.
//!
//! ```text
//! head    version (u8: 1), kind (u8: 0 blank, 1 group, 2 members),
//!         term (u64), node (u64), index (u64)
//! group   reign (u64), number (u64), the leader's clock (u64), rows (to the end)
//! members JSON
//! ```
//! All numbers are little-endian. In the log a record's checksum stands beside them, between nodes
//! that of a frame.

use openraft::EntryPayload;

use crate::bytes::{EntryError, Reader};
use crate::rows::Rows;
use crate::types::{Entry, Group, LeaderId, LogId};

const VERSION: u8 = 1;
const BLANK: u8 = 0;
const GROUP: u8 = 1;
const MEMBERS: u8 = 2;

/// An entry type with bytes of its own.
pub trait EntryBytes: Sized {
    /// Adds the bytes to others.
    fn write_to(&self, out: &mut Vec<u8>);

    /// Reads what [`write_to`](Self::write_to) has written.
    ///
    /// # Errors
    /// [`EntryError`].
    fn read(bytes: &[u8]) -> Result<Self, EntryError>;
}

impl EntryBytes for Entry {
    fn write_to(&self, out: &mut Vec<u8>) {
        let kind = match &self.payload {
            EntryPayload::Blank => BLANK,
            EntryPayload::Normal(_) => GROUP,
            EntryPayload::Membership(_) => MEMBERS,
        };
        out.extend([VERSION, kind]);
        write_log_id(&self.log_id, out);
        match &self.payload {
            EntryPayload::Blank => {}
            EntryPayload::Normal(group) => write_group(group, out),
            // Numbers and texts: it cannot fail.
            EntryPayload::Membership(members) => {
                out.extend(serde_json::to_vec(members).unwrap_or_default());
            }
        }
    }

    fn read(bytes: &[u8]) -> Result<Self, EntryError> {
        let mut rest = Reader::of(bytes);
        let (version, kind) = (rest.u8()?, rest.u8()?);
        if version != VERSION {
            return Err(EntryError::Version { version });
        }
        let log_id = read_log_id(&mut rest)?;
        let payload = match kind {
            BLANK => EntryPayload::Blank,
            GROUP => EntryPayload::Normal(read_group(&mut rest)?),
            MEMBERS => EntryPayload::Membership(
                serde_json::from_slice(rest.all())
                    .map_err(|_| EntryError::Damaged { what: "its members" })?,
            ),
            _ => return Err(EntryError::Damaged { what: "its kind" }),
        };
        if !rest.is_at_end() {
            return Err(EntryError::Damaged { what: "its end" });
        }
        Ok(Self { log_id, payload })
    }
}

fn write_group(group: &Group, out: &mut Vec<u8>) {
    for number in [group.reign, group.number, group.clock_ms] {
        out.extend(number.to_le_bytes());
    }
    out.extend(group.rows.as_bytes());
}

fn read_group(rest: &mut Reader<'_>) -> Result<Group, EntryError> {
    let (reign, number, clock_ms) = (rest.u64()?, rest.u64()?, rest.u64()?);
    Ok(Group { reign, number, clock_ms, rows: Rows::try_from(rest.all().to_vec())? })
}

/// Adds the 24 bytes of a log id to others.
pub fn write_log_id(id: &LogId, out: &mut Vec<u8>) {
    for number in [id.leader_id.term, id.leader_id.node_id, id.index] {
        out.extend(number.to_le_bytes());
    }
}

/// Reads what [`write_log_id`] has written.
///
/// # Errors
/// [`EntryError::CutOff`].
pub fn read_log_id(rest: &mut Reader<'_>) -> Result<LogId, EntryError> {
    let leader_id = LeaderId { term: rest.u64()?, node_id: rest.u64()? };
    Ok(LogId { leader_id, index: rest.u64()? })
}
