//! Dumps: a store as a stream of bytes that no pool is needed to read.
//!
//! ```text
//! head    "EVLFDUMP", version (u8), the least release that reads it (3 bytes: the last part of
//!         its version first; zeros: 0.2.0), kind of keys (u8: 0 u64, 1 bytes), features that a
//!         reader may ignore (u8, a bit each), features that no reader may (u8), zero (u8),
//!         CRC-32 of these 16 bytes (u32)
//! frames  length of the content (u32), CRC-32 of length and content (u32),
//!         content: entries, whole, one after the other
//! entry   flags (u8: 1 the value expires), length of the key (u32), length of the value (u32),
//!         when it expires (u64, only with the flag), key, value
//! end     a frame of length 0, then the number of entries (u64) and its CRC-32 (u32)
//! ```
//!
//! All numbers are little-endian; keys are those of the index (docs/format.md), a `u64` as 8 bytes,
//! big-endian. Entries come in key order. Each frame is checked before anything of it is stored,
//! and a dump without its end was cut off.

use std::io::{Read, Write};
use std::ops::ControlFlow;

use everleaf_pmem::{Features, Newer};
use everleaf_pool::{KeyType, POOL_MAGIC};

use crate::core::entry_batches::Fetched;
use crate::core::progress::{Progress, Watch, report};
use crate::core::value_record::{KeyBytes, key_of_bytes};
use crate::transfer::{Everything, store_all};
use crate::{Error, MAX_KEY_BYTES, MAX_VALUE_BYTES, Store};

const MAGIC: &[u8; 8] = b"EVLFDUMP";
const VERSION: u8 = 1;
/// A frame is written when it has so many bytes; one entry may be longer.
const FRAME_BYTES: usize = 64 << 10;
/// The longest frame: one with the longest entry behind others.
const MAX_FRAME_BYTES: u64 = MAX_VALUE_BYTES + MAX_KEY_BYTES as u64 + 2 * FRAME_BYTES as u64;
/// Flag of an entry that expires.
const EXPIRES: u8 = 1;
/// Bytes before a key.
const ENTRY_HEAD: usize = 9;
/// What is wrong with a dump without its end.
pub(crate) const CUT_OFF: &str = "it ends too early";

fn crc(parts: &[&[u8]]) -> [u8; 4] {
    let mut crc = crc32fast::Hasher::new();
    parts.iter().for_each(|part| crc.update(part));
    crc.finalize().to_le_bytes()
}

fn damaged(what: impl Into<String>) -> Error {
    Error::Dump { what: what.into() }
}

impl Store {
    /// Writes everything in the store, as it is at one moment, to `output`, while others go on
    /// reading and writing. What has expired is left out.
    ///
    /// # Errors
    /// [`Error::Stream`], damage.
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let options = everleaf::CreateOptions::new();
    /// # let create = |name| options.create(folder.path().join(name));
    /// let (store, other) = (create("a.pool")?, create("b.pool")?);
    /// store.tree("trees")?.put("oak", "Quercus robur")?;
    /// let mut dump = Vec::new();
    /// store.dump(&mut dump)?;
    /// other.restore(&*dump)?;
    /// assert_eq!(other.tree("trees")?.get("oak")?, Some(b"Quercus robur".to_vec()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn dump(&self, output: impl Write) -> Result<Progress, Error> {
        self.dump_with(output, |_| ControlFlow::Continue(()))
    }

    /// As [`dump`](Store::dump), with a callback, which is told how far it has come and may end it.
    ///
    /// # Errors
    /// As [`dump`](Store::dump); [`Error::Aborted`].
    pub fn dump_with(
        &self,
        mut output: impl Write,
        mut watch: impl FnMut(&Progress) -> ControlFlow<()>,
    ) -> Result<Progress, Error> {
        let everything = Everything::of(self.backend())?;
        self.dump_entries(everything, &mut output, &mut watch)
    }

    /// As [`dump_with`](Store::dump_with), of one named tree only, which has its name again where
    /// it is restored; none if there is no such tree.
    ///
    /// # Errors
    /// As [`dump_with`](Store::dump_with).
    ///
    /// # Examples
    /// ```
    /// # use std::ops::ControlFlow;
    /// # let folder = tempfile::tempdir()?;
    /// # let options = everleaf::CreateOptions::new();
    /// # let create = |name| options.create(folder.path().join(name));
    /// let (store, other) = (create("a.pool")?, create("b.pool")?);
    /// store.tree("trees")?.put("oak", "Quercus robur")?;
    /// store.tree("herbs")?.put("mint", "Mentha")?;
    /// let mut dump = Vec::new();
    /// store.dump_tree_with("herbs", &mut dump, |_| ControlFlow::Continue(()))?.unwrap();
    /// other.restore(&*dump)?;
    /// assert_eq!(other.tree_names()?, [b"herbs"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn dump_tree_with(
        &self,
        name: impl AsRef<[u8]>,
        mut output: impl Write,
        mut watch: impl FnMut(&Progress) -> ControlFlow<()>,
    ) -> Result<Option<Progress>, Error> {
        let Some(entries) = self.whole_tree(name.as_ref())? else { return Ok(None) };
        self.dump_entries(entries, &mut output, &mut watch).map(Some)
    }

    /// Not generic, so that it is compiled here, once.
    pub(crate) fn dump_entries(
        &self,
        mut source: Everything<'_>,
        output: &mut dyn Write,
        watch: &mut Watch<'_>,
    ) -> Result<Progress, Error> {
        let mut write = |bytes: &[u8]| {
            output.write_all(bytes).map_err(|source| Error::Stream { action: "writing", source })
        };
        let key_type = u8::from(self.backend().key_type() == KeyType::Bytes);
        let head = [&MAGIC[..], &[VERSION, 0, 0, 0, key_type, 0, 0, 0]].concat();
        write(&head)?;
        write(&crc(&[&head]))?;
        let mut progress = Progress::of(Some(self.statistics()?.entries));
        let (mut frame, mut written) = (Vec::new(), 0_u64);
        loop {
            let entries = source.next()?;
            let at_end = entries.is_empty();
            written += entries.len() as u64;
            for entry in entries {
                progress.add(&entry);
                add(&mut write, &mut frame, &entry)?;
            }
            if at_end {
                break;
            }
            report(watch, &progress)?;
        }
        end(&mut write, &mut frame)?;
        let count = written.to_le_bytes();
        write(&count)?;
        write(&crc(&[&count]))?;
        output.flush().map_err(|source| Error::Stream { action: "writing", source })?;
        Ok(progress)
    }
}

/// Writes entries as the frames of a dump, the empty one included.
#[cfg(feature = "control")]
pub(crate) fn write_frames(output: &mut dyn Write, entries: &[Fetched]) -> Result<(), Error> {
    let mut write = |bytes: &[u8]| {
        output.write_all(bytes).map_err(|source| Error::Stream { action: "writing", source })
    };
    let mut frame = Vec::new();
    entries.iter().try_for_each(|entry| add(&mut write, &mut frame, entry))?;
    end(&mut write, &mut frame)
}

/// Reads what [`write_frames`] has written.
#[cfg(feature = "control")]
pub(crate) fn read_frames(input: &mut dyn Read, key_type: KeyType) -> Result<Vec<Fetched>, Error> {
    let mut entries = Vec::new();
    loop {
        let frame = read_frame(input)?;
        if frame.is_empty() {
            return Ok(entries);
        }
        entries.extend(parse_frame(&frame, key_type)?);
    }
}

/// Adds an entry to a frame, which is written when it is long enough.
fn add(
    write: &mut impl FnMut(&[u8]) -> Result<(), Error>,
    frame: &mut Vec<u8>,
    entry: &Fetched,
) -> Result<(), Error> {
    append(frame, entry);
    if frame.len() >= FRAME_BYTES { write_frame(write, frame) } else { Ok(()) }
}

/// Writes the last frame, and the empty one that ends them.
fn end(
    write: &mut impl FnMut(&[u8]) -> Result<(), Error>,
    frame: &mut Vec<u8>,
) -> Result<(), Error> {
    if !frame.is_empty() {
        write_frame(write, frame)?;
    }
    write_frame(write, frame)
}

fn append(frame: &mut Vec<u8>, entry: &Fetched) {
    let key = KeyBytes::of(entry.key.as_ref());
    let key = key.as_slice();
    frame.push(if entry.expires_ms.is_some() { EXPIRES } else { 0 });
    frame.extend_from_slice(&(key.len() as u32).to_le_bytes());
    frame.extend_from_slice(&(entry.value.len() as u32).to_le_bytes());
    frame.extend(entry.expires_ms.into_iter().flat_map(u64::to_le_bytes));
    frame.extend_from_slice(key);
    frame.extend_from_slice(&entry.value);
}

fn write_frame(
    write: &mut impl FnMut(&[u8]) -> Result<(), Error>,
    frame: &mut Vec<u8>,
) -> Result<(), Error> {
    let length = (frame.len() as u32).to_le_bytes();
    write(&length)?;
    write(&crc(&[&length, frame]))?;
    write(frame)?;
    frame.clear();
    Ok(())
}

fn read_array<const N: usize>(input: &mut dyn Read) -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    match input.read_exact(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(source) if source.kind() == std::io::ErrorKind::UnexpectedEof => Err(damaged(CUT_OFF)),
        Err(source) => Err(Error::Stream { action: "reading", source }),
    }
}

/// Reads the head of a dump that is to be restored into a store: the kind of its keys.
pub(crate) fn read_head_for(store: &Store, input: &mut dyn Read) -> Result<KeyType, Error> {
    let (key_type, expected) = (read_head(input)?, store.backend().key_type());
    if key_type == expected { Ok(key_type) } else { Err(Error::WrongKeyType { expected }) }
}

/// Stores what follows the head of a dump; what was stored before an error stays.
pub(crate) fn read_entries(
    store: &Store,
    key_type: KeyType,
    input: &mut dyn Read,
    watch: &mut Watch<'_>,
) -> Result<Progress, Error> {
    let (mut progress, mut stored) = (Progress::default(), 0_u64);
    loop {
        let frame = read_frame(input)?;
        if frame.is_empty() {
            break;
        }
        let entries = parse_frame(&frame, key_type)?;
        entries.iter().for_each(|entry| progress.add(entry));
        stored += entries.len() as u64;
        store_all(store.backend(), entries)?;
        report(watch, &progress)?;
    }
    let count: [u8; 8] = read_array(input)?;
    if read_array(input)? != crc(&[&count]) || u64::from_le_bytes(count) != stored {
        return Err(damaged("entries are missing"));
    }
    match input.read(&mut [0]) {
        Ok(0) => Ok(progress),
        Ok(_) => Err(damaged("something follows its end")),
        Err(source) => Err(Error::Stream { action: "reading", source }),
    }
}

fn read_head(input: &mut dyn Read) -> Result<KeyType, Error> {
    let head: [u8; 16] = read_array(input)?;
    let magic = &head[..8];
    if magic == POOL_MAGIC {
        return Err(damaged("it is a pool; dump it first, or copy it"));
    }
    if magic != MAGIC {
        return Err(damaged("it does not begin like one"));
    }
    if read_array(input)? != crc(&[&head]) {
        return Err(damaged("its head does not match its checksum"));
    }
    let word = u64::from_le_bytes(std::array::from_fn(|i| head[8 + i]));
    let byte = |at: u32| word >> (8 * at) & 0xff;
    let features = Features { words: [word >> 8, byte(5), 0, word >> 48] };
    let (found, known, release) = (byte(0), u64::from(VERSION), features.release());
    let newer = Newer::Format { found, known, release };
    let readable = if found == known { features.check(false) } else { Err(newer) };
    readable.map_err(|newer| damaged(format!("it {newer}")))?;
    match byte(4) {
        0 => Ok(KeyType::U64),
        1 => Ok(KeyType::Bytes),
        _ => Err(damaged("its kind of keys is unknown")),
    }
}

/// The content of the next frame; empty at the end.
fn read_frame(input: &mut dyn Read) -> Result<Vec<u8>, Error> {
    let length: [u8; 4] = read_array(input)?;
    let expected: [u8; 4] = read_array(input)?;
    let bytes = u64::from(u32::from_le_bytes(length));
    if bytes > MAX_FRAME_BYTES {
        return Err(damaged("a frame is longer than any can be"));
    }
    // No more than there is: a damaged length must not take the memory.
    let mut frame = Vec::with_capacity(bytes.min(2 * FRAME_BYTES as u64) as usize);
    input
        .take(bytes)
        .read_to_end(&mut frame)
        .map_err(|source| Error::Stream { action: "reading", source })?;
    if frame.len() as u64 != bytes {
        return Err(damaged(CUT_OFF));
    }
    if crc(&[&length, &frame]) != expected {
        return Err(damaged("a frame does not match its checksum"));
    }
    Ok(frame)
}

fn parse_frame(frame: &[u8], key_type: KeyType) -> Result<Vec<Fetched>, Error> {
    let mut entries = Vec::new();
    let mut rest = frame;
    while !rest.is_empty() {
        let (entry, behind) = parse_entry(rest, key_type)
            .ok_or_else(|| damaged("an entry does not fit its frame"))?;
        entries.push(entry);
        rest = behind;
    }
    Ok(entries)
}

fn parse_entry(bytes: &[u8], key_type: KeyType) -> Option<(Fetched, &[u8])> {
    let (head, mut rest) = bytes.split_first_chunk::<ENTRY_HEAD>()?;
    let length = |at: usize| {
        head[at..at + 4].iter().rev().fold(0, |length, byte| length << 8 | usize::from(*byte))
    };
    let mut expires_ms = None;
    match head[0] {
        0 => {}
        EXPIRES => {
            let (expires, behind) = rest.split_first_chunk::<8>()?;
            (expires_ms, rest) = (Some(u64::from_le_bytes(*expires)), behind);
        }
        _ => return None,
    }
    let (key, rest) = rest.split_at_checked(length(1))?;
    let (value, rest) = rest.split_at_checked(length(5))?;
    let key = key_of_bytes(key, key_type)?.to_owned();
    Some((Fetched { key, value: value.to_vec(), expires_ms }, rest))
}
