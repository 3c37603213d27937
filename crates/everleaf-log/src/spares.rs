//! Segments before they have a number: made ahead of need, or set free and to be used again.
//!
//! One is set free when a durable control block says that the log begins behind it (C8, R5). It
//! then becomes a spare if its header says the length that is wanted; others are removed. A spare
//! of a session is used by that session only: a closing and the next opening remove what is left,
//! because after a power failure a file may have its old name as well as its new one.

use std::io;
use std::sync::Arc;

use crate::disk::Disk;
use crate::segment::{SPARE, Segment, UNFINISHED, make, segment_name, segment_number};
use crate::weak::Weakness;

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
    /// Makes one of zeros. Its name.
    pub(crate) fn make(&self) -> io::Result<String> {
        make(&*self.disk, SPARE, (self.uuid, self.bytes), Weakness::default())?;
        Ok(SPARE.to_owned())
    }

    /// Sets the segments before `first` free. The names of new spares. What a crash undoes is done
    /// again by the next opening.
    pub(crate) fn set_free(&self, first: u64) -> io::Result<Vec<String>> {
        let names = self.disk.names()?;
        let (mut free, mut others) = (Vec::new(), 0);
        for name in &names {
            match segment_number(name) {
                Some(number) if number < first => free.push(number),
                number => others += u64::from(number.is_some() || is_spare(name)),
            }
        }
        let (mut spares, room) = (Vec::new(), self.most.saturating_sub(others));
        for number in free {
            let (name, spare) = (segment_name(number), format!("{SPARE}-{number:016x}"));
            if (spares.len() as u64) < room && self.fits(number) {
                self.disk.rename(&name, &spare)?;
                spares.push(spare);
            } else {
                self.disk.remove(&name)?;
            }
        }
        Ok(spares)
    }

    /// Whether a segment has the length that is wanted. What cannot be read is not used again.
    fn fits(&self, number: u64) -> bool {
        let found = Segment::open(&*self.disk, number, self.uuid);
        found.is_ok_and(|found| found.is_some_and(|segment| segment.bytes == self.bytes))
    }
}

/// Removes what a session has left unfinished, and its spares.
pub(crate) fn remove_unused(disk: &dyn Disk) -> io::Result<()> {
    for name in disk.names()? {
        if name == UNFINISHED || is_spare(&name) {
            disk.remove(&name)?;
        }
    }
    Ok(())
}

fn is_spare(name: &str) -> bool {
    name.starts_with(SPARE)
}
