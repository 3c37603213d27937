//! Segments before they have a number: made ahead of need, or set free and to be used again.
//!
//! One is set free when a durable control block says that the log begins behind it (C8, R5). It
//! then becomes a spare if its header says the length that is wanted; others are removed, but for
//! the last spare that there would be.
//!
//! A log has a spare from its creation on, a small one if no other: what a full disk does not give
//! any more was taken when it had room. When the last one comes into use, and no other can be made,
//! a checkpoint follows at once: it sets the segments before that one free, and one of them is the
//! next spare. So two segments suffice for a log on a full disk, however long it is written to.
//!
//! Where the pool grows the log does (`Core::lengthen`): from then on new segments are longer, and
//! so are spares. Nothing durable says how long, but each header of its own file. So a crash at any
//! moment leaves what an opening finds whose options are not those of the session before. Spares
//! of the length before go at the next checkpoint, but for the least, and for the last one.
//!
//! After a power failure the file of a spare may have an older name as well as its own: that of the
//! segment that it was, whose number the name of the spare has; or the next one of the log, which
//! is removed before spares are looked at (R2). A spare whose segment is there is none.

use std::io;
use std::sync::Arc;

use crate::disk::{Disk, is_full};
use crate::segment::{SPARE, UNFINISHED, bytes_of, make, segment_name, segment_number};
use crate::weak::Weakness;

/// Bytes of the spare that a log has if it has no other, at most.
pub(crate) const LEAST: u64 = 512 << 10;

/// A segment without a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spare {
    pub(crate) name: String,
    /// Its length, as its header says.
    pub(crate) bytes: u64,
    /// Whether its header is durable for certain: a session before may not have synced it.
    pub(crate) durable: bool,
}

/// What is asked of the spares of a session, without its writer.
pub(crate) struct Spares {
    pub(crate) disk: Arc<dyn Disk>,
    /// What their headers say.
    pub(crate) uuid: u128,
    pub(crate) bytes: u64,
    /// How many segments there may be, those of the log and spares.
    pub(crate) most: u64,
}

impl Spares {
    /// Makes one of zeros: of the length that is wanted, which no other has; or of the least if
    /// there is room for no more, and no other spare (`is_first`), which may have that length.
    pub(crate) fn make(&self, is_first: bool) -> io::Result<Spare> {
        match self.make_of(self.bytes) {
            Err(error) if is_full(&error) && is_first && LEAST < self.bytes => self.make_least(),
            done => done,
        }
    }

    /// Makes the least one.
    pub(crate) fn make_least(&self) -> io::Result<Spare> {
        self.make_of(self.bytes.min(LEAST))
    }

    fn make_of(&self, bytes: u64) -> io::Result<Spare> {
        let name = format!("{SPARE}.{bytes:x}");
        make(&*self.disk, &name, (self.uuid, bytes), Weakness::default())?;
        Ok(Spare { name, bytes, durable: true })
    }

    /// Sets the segments before `first` free. The new spares. What a crash undoes is done again by
    /// the next opening.
    pub(crate) fn set_free(&self, first: u64) -> io::Result<Vec<Spare>> {
        let names = self.disk.names()?;
        let (mut free, mut others, mut none) = (Vec::new(), 0, true);
        for name in &names {
            match segment_number(name) {
                Some(number) if number < first => free.push(number),
                number => others += u64::from(number.is_some() || is_spare(name)),
            }
            none &= !is_spare(name);
        }
        let (mut spares, room) = (Vec::new(), self.most.saturating_sub(others));
        for number in free {
            let (name, spare) = (segment_name(number), format!("{SPARE}-{number:016x}"));
            let is_last = none && spares.is_empty();
            let bytes = bytes_of(&*self.disk, &name, self.uuid);
            match bytes.filter(|bytes| *bytes == self.bytes || is_last) {
                Some(bytes) if (spares.len() as u64) < room => {
                    self.disk.rename(&name, &spare)?;
                    spares.push(Spare { name: spare, bytes, durable: true });
                }
                _ => self.disk.remove(&name)?,
            }
        }
        Ok(spares)
    }

    /// The spares that a session before has left. What is not one any more is removed, and what was
    /// left unfinished. No segment is behind the end of the log.
    pub(crate) fn take_over(&self) -> io::Result<Vec<Spare>> {
        let names = self.disk.names()?;
        let mut spares = Vec::new();
        for name in names.iter().filter(|name| *name == UNFINISHED || is_spare(name)) {
            let segment = name.strip_prefix(SPARE).map(|number| format!("segment{number}"));
            let is_one = is_spare(name) && segment.is_none_or(|segment| !names.contains(&segment));
            match bytes_of(&*self.disk, name, self.uuid).filter(|_| is_one) {
                Some(bytes) => {
                    spares.push(Spare { name: name.clone(), bytes, durable: false });
                }
                None => self.disk.remove(name)?,
            }
        }
        // Those of another length are the first to go, but for the last spare.
        spares.sort_by_key(|spare| spare.bytes != self.bytes);
        let fit = spares.iter().filter(|spare| spare.bytes == self.bytes).count().max(1);
        for spare in spares.drain(fit.min(self.most as usize).min(spares.len())..) {
            self.disk.remove(&spare.name)?;
        }
        Ok(spares)
    }

    /// Bytes that are to be kept free for the log: for as many segments as it may have, less what
    /// is there.
    pub(crate) fn lacking_bytes(&self) -> io::Result<u64> {
        let mut there = 0;
        for name in self.disk.names()? {
            there += self.disk.open(&name).and_then(|file| file.length()).unwrap_or(0);
        }
        Ok(self.most.saturating_mul(self.bytes).saturating_sub(there))
    }
}

fn is_spare(name: &str) -> bool {
    name.starts_with(SPARE)
}
