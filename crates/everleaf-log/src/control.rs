//! The control file: where the log begins.
//!
//! Two blocks of 4096 bytes that are written in turn, so a torn write leaves the one before. Both
//! carry a checksum; the valid one with the greater number counts.

use std::io;

use crate::disk::{BLOCK, Disk, DiskFile};
use crate::{Damage, LogError};

/// Its name in the folder of the log.
pub(crate) const NAME: &str = "control";
/// The first eight bytes of a control block, "ELlogctl".
const MAGIC: u64 = u64::from_le_bytes(*b"ELlogctl");
/// Version of the log's format.
const VERSION: u64 = 1;
/// Words of a block, its checksum being the last.
const WORDS: usize = 18;

/// A place between two groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// The segment in which the next group is, or the one before it.
    pub segment: u64,
    /// Where in that segment it is, unless it begins the next one.
    pub offset: u64,
    /// The number of the next group.
    pub number: u64,
    /// The checksum of the group before.
    pub before: u32,
}

/// What the file of the pool says of the log: it holds nothing that is not in the groups up to this
/// one, and needs the log as far as that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub session: u64,
    pub number: u64,
    pub checksum: u32,
}

/// A control block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Control {
    /// One more than that of the block before.
    pub number: u64,
    pub uuid: u128,
    pub session: u64,
    pub previous_session: u64,
    /// Where replay begins.
    pub redo: Place,
    /// Length of the redo point's segment.
    pub segment_bytes: u64,
    /// What the file of the pool bears, durably; none while that is being settled.
    pub stamp: Option<Stamp>,
    /// Nothing follows the redo point: the session was closed.
    pub clean: bool,
}

impl Control {
    fn encode(&self) -> [u8; BLOCK as usize] {
        let stamp = self.stamp.unwrap_or_default();
        let flags = u64::from(self.clean) | u64::from(self.stamp.is_some()) << 1;
        let words: [u64; WORDS - 1] = [
            MAGIC,
            VERSION,
            self.number,
            self.uuid as u64,
            (self.uuid >> 64) as u64,
            self.session,
            self.previous_session,
            self.redo.segment,
            self.redo.offset,
            self.redo.number,
            u64::from(self.redo.before),
            self.segment_bytes,
            stamp.session,
            stamp.number,
            u64::from(stamp.checksum),
            flags,
            0,
        ];
        let mut block = [0; BLOCK as usize];
        for (place, word) in block.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        let end = (WORDS - 1) * 8;
        let crc = crc32c::crc32c(&block[..end]);
        block[end..end + 4].copy_from_slice(&crc.to_le_bytes());
        block
    }

    /// The block in `bytes`; none if it is not valid.
    fn decode(bytes: &[u8]) -> Option<Result<Self, LogError>> {
        let end = (WORDS - 1) * 8;
        let crc = u32::from_le_bytes(*bytes.get(end..)?.first_chunk()?);
        if crc32c::crc32c(&bytes[..end]) != crc {
            return None;
        }
        let words = bytes.as_chunks::<8>().0;
        let word = |i: usize| u64::from_le_bytes(words[i]);
        match (word(0), word(1)) {
            (MAGIC, VERSION) => {}
            (MAGIC, found) => {
                return Some(Err(LogError::NewerVersion { found, supported: VERSION }));
            }
            _ => return None,
        }
        let stamp = Stamp { session: word(12), number: word(13), checksum: word(14) as u32 };
        Some(Ok(Self {
            number: word(2),
            uuid: u128::from(word(3)) | u128::from(word(4)) << 64,
            session: word(5),
            previous_session: word(6),
            redo: Place {
                segment: word(7),
                offset: word(8),
                number: word(9),
                before: word(10) as u32,
            },
            segment_bytes: word(11),
            stamp: (word(15) & 2 != 0).then_some(stamp),
            clean: word(15) & 1 != 0,
        }))
    }

    /// Writes the block in place of the older one, and syncs it.
    pub(crate) fn write(&self, file: &dyn DiskFile) -> Result<(), LogError> {
        let write = || -> io::Result<()> {
            file.write(self.number % 2 * BLOCK, &self.encode())?;
            file.sync()
        };
        write().map_err(LogError::io("writing the log's control file"))
    }

    /// The block that counts.
    pub(crate) fn read(disk: &dyn Disk) -> Result<Self, LogError> {
        let damaged = LogError::damaged(Damage::Control, 0);
        let file = match disk.open(NAME) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(LogError::Missing),
            file => file.map_err(LogError::io("opening the log's control file"))?,
        };
        let failed = LogError::io("reading the log's control file");
        match file.length() {
            Ok(length) if length < 2 * BLOCK => return Err(damaged),
            Ok(_) => {}
            Err(error) => return Err(failed(error)),
        }
        let mut blocks = [0; 2 * BLOCK as usize];
        file.read(0, &mut blocks).map_err(failed)?;
        let mut newest: Option<Self> = None;
        for block in blocks.as_chunks::<{ BLOCK as usize }>().0 {
            if let Some(found) = Self::decode(block) {
                let found = found?;
                if newest.is_none_or(|newest| newest.number < found.number) {
                    newest = Some(found);
                }
            }
        }
        newest.ok_or(damaged)
    }
}
