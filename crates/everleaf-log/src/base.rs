//! The file of a pool: read as an image, and the stamp in it, which says what log it needs.

use std::io;
use std::sync::Arc;

use everleaf_pmem::{Cpu, Mapped, Media, Region};

use crate::LogError;
use crate::control::Stamp;
use crate::disk::{BLOCK, DiskFile, PIECE};
use crate::weak::{Weak, Weakness};

/// The file of a pool.
#[derive(Clone)]
pub struct Base {
    /// The file.
    pub file: Arc<dyn DiskFile>,
    /// The identity of the pool, which its log bears too.
    pub uuid: u128,
    /// Bytes that the pool may grow to.
    pub max_bytes: u64,
    /// Where three words are that the pool keeps at zero, in its first 4096 bytes: in the file they
    /// say which log belongs to it.
    pub stamp_offset: u64,
    /// Whether an opening reads the file into memory, where a disk that cannot be read is an error,
    /// instead of mapping it.
    pub read_whole: bool,
}

/// Writes a stamp into the file, beside what the file holds there already, and syncs it.
pub(crate) fn write_stamp(base: &Base, stamp: Stamp, synced: bool) -> Result<(), LogError> {
    let write = || -> io::Result<()> {
        let mut page = [0; BLOCK as usize];
        base.file.read(0, &mut page)?;
        put_stamp(&mut page, base.stamp_offset, stamp);
        base.file.write(0, &page)?;
        if synced { base.file.sync() } else { Ok(()) }
    };
    write().map_err(LogError::io("writing the file of the pool"))
}

/// The file of the pool as an image, and the stamp in it.
pub(crate) fn image(base: &Base, weak: Weakness) -> Result<(Mapped, Stamp), LogError> {
    image_of(base, length(base)? / BLOCK * BLOCK, weak)
}

/// The same of a damaged file, which may end within a block: zeros are behind.
pub(crate) fn image_of_damaged(base: &Base) -> Result<(Mapped, Stamp), LogError> {
    image_of(base, length(base)?.next_multiple_of(BLOCK), Weakness::default())
}

fn length(base: &Base) -> Result<u64, LogError> {
    base.file.length().map_err(LogError::io("reading the pool"))
}

fn image_of(base: &Base, bytes: u64, weak: Weakness) -> Result<(Mapped, Stamp), LogError> {
    let max_bytes = base.max_bytes.max(bytes);
    let memory = match mapped(base, bytes, max_bytes)? {
        Some(memory) => memory,
        None => read(base, bytes, max_bytes)?,
    };
    let stamp = take_stamp(base, &memory, weak)?;
    Ok((memory, stamp))
}

/// The file as private memory; none where it cannot be mapped.
pub(crate) fn mapped(base: &Base, bytes: u64, max_bytes: u64) -> Result<Option<Mapped>, LogError> {
    if base.read_whole {
        return Ok(None);
    }
    let file = base.file.to_map().map_err(LogError::io("opening the pool"))?;
    let region = file.map(|file| Region::image(file, bytes, max_bytes)).transpose()?.flatten();
    Ok(region.map(|region| Mapped::new(region, &Cpu::detect())).transpose()?)
}

/// The file read into memory whole.
fn read(base: &Base, bytes: u64, max_bytes: u64) -> Result<Mapped, LogError> {
    let memory = zeroed(bytes, max_bytes)?;
    let mut piece = vec![0; PIECE];
    for offset in (0..bytes).step_by(PIECE) {
        let piece = &mut piece[..(bytes - offset).min(PIECE as u64) as usize];
        read_there(base, offset, piece)?;
        let cells = memory.region().cells(offset, piece.len() / 8).unwrap_or_default();
        for (cell, word) in cells.iter().zip(piece.as_chunks::<8>().0) {
            if *word != [0; 8] {
                memory.store(cell, u64::from_le_bytes(*word)); // Fresh memory is zero.
            }
        }
    }
    Ok(memory)
}

/// Fills `bytes` with what the file has from `offset` on, and with zeros behind its end.
fn read_there(base: &Base, offset: u64, bytes: &mut [u8]) -> Result<(), LogError> {
    let there = length(base)?.saturating_sub(offset).min(bytes.len() as u64) as usize;
    let (there, behind) = bytes.split_at_mut(there);
    behind.fill(0);
    base.file.read(offset, there).map_err(LogError::io("reading the pool"))
}

/// The stamp of the file, for which the image has zeros from now on.
pub(crate) fn take_stamp(base: &Base, memory: &Mapped, weak: Weakness) -> Result<Stamp, LogError> {
    let Some(cells) = memory.region().cells(base.stamp_offset, 3) else {
        return Ok(Stamp::default());
    };
    let mut page = [0; BLOCK as usize];
    read_there(base, 0, &mut page)?;
    if !weak.is(Weak::FirstPageUntouched) {
        cells.iter().for_each(|cell| memory.store(cell, 0));
    }
    Ok(stamp_in(&page, base.stamp_offset))
}

pub(crate) fn zeroed(bytes: u64, max_bytes: u64) -> Result<Mapped, LogError> {
    Ok(Mapped::new(Region::anonymous(bytes, max_bytes)?, &Cpu::detect())?)
}

/// Writes the stamp into the first page of the file, where the image has zeros.
pub(crate) fn put_stamp(page: &mut [u8], offset: u64, stamp: Stamp) {
    let places = page[offset as usize..].as_chunks_mut::<8>().0;
    for (place, word) in places.iter_mut().zip(stamp.words()) {
        *place = word.to_le_bytes();
    }
}

/// The stamp in the first page.
pub(crate) fn stamp_in(page: &[u8], offset: u64) -> Stamp {
    let words = page[offset as usize..].as_chunks::<8>().0;
    let word = |i: usize| words.get(i).map_or(0, |word| u64::from_le_bytes(*word));
    Stamp::of_words([word(0), word(1), word(2)])
}
