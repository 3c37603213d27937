//! What a log that is refused still holds.
//!
//! Groups are taken from the redo point on, as far as they are valid: what they leave is an image
//! of some moment, and often the last but what is damaged. If the control file is damaged they are
//! taken from the older redo point that it still states, if its segment is there, or else from the
//! first segment of those without a gap; and from one session into the next. Words have absolute
//! values, so going through more of the log than necessary changes nothing at its end.

use everleaf_pmem::{Mapped, Region};

use crate::base::{Base, image_of_damaged};
use crate::control::Control;
use crate::disk::Disk;
use crate::payload::decode_payload;
use crate::reader::Reader;
use crate::replay::{read_only_damaged, set};
use crate::segment::segment_numbers;
use crate::{Damage, LogError};

/// What the file of a pool and its log hold together, in memory that no other process sees, and
/// why the log is refused, if it is. Nothing is written. A file that ends within a block shows
/// zeros behind its end.
///
/// Of a damaged log everything is taken that stands before the damage. Of one that belongs to
/// another pool or is of another time or format nothing is: the file alone counts.
///
/// # Errors
/// The file cannot be read, or there is no memory.
pub fn read_damaged(base: &Base, disk: &dyn Disk) -> Result<(Region, Option<LogError>), LogError> {
    let takes = |why: &LogError| {
        matches!(why, LogError::Missing | LogError::Damaged { .. } | LogError::Io { .. })
    };
    read(base, disk, takes).map(|(region, why, _)| (region, why))
}

/// As [`read_damaged`], of a file whose first page is damaged, and with it what tells whose the log
/// is: the one that has its name is taken for its own. If what is left of the page does not show
/// that it is, and it holds anything, that is [`LogError::OtherTime`]; all of it is taken.
///
/// # Errors
/// As [`read_damaged`].
pub fn read_unidentified(
    base: &Base,
    disk: &dyn Disk,
) -> Result<(Region, Option<LogError>), LogError> {
    let control = Control::newest_of_damaged(disk);
    let control = control.and_then(|found| found.ok_or(LogError::damaged(Damage::Control, 0)));
    let uuid = match control {
        Ok(control) => control.uuid,
        Err(why) => return Ok((image_of_damaged(base)?.0.into_region(), Some(why))),
    };
    let (region, why, took) = read(&Base { uuid, ..base.clone() }, disk, |_| true)?;
    Ok((region, why.filter(|why| took || !matches!(why, LogError::OtherTime))))
}

/// The same, and whether anything was taken of a log that is refused; `takes` says for which reason
/// that may be.
fn read(
    base: &Base,
    disk: &dyn Disk,
    takes: impl FnOnce(&LogError) -> bool,
) -> Result<(Region, Option<LogError>, bool), LogError> {
    let why = match read_only_damaged(base, disk) {
        Ok(region) => return Ok((region, None, false)),
        Err(why @ LogError::Map(_)) => return Err(why),
        Err(why) => why,
    };
    let (memory, _) = image_of_damaged(base)?;
    // What goes wrong from here on is told by `why`, since then something of the log is missing.
    let log = if takes(&why) { beginning(disk, base.uuid, &why).ok().flatten() } else { None };
    let took = log.is_some_and(|log| take(&memory, log));
    Ok((memory.into_region(), Some(why), took))
}

/// Where to begin in a damaged log; none if there is nothing of it.
fn beginning<'d>(
    disk: &'d dyn Disk,
    uuid: u128,
    why: &LogError,
) -> Result<Option<Reader<'d>>, LogError> {
    let control = match Control::newest_of_damaged(disk) {
        Err(LogError::Missing) => None,
        found => found?.filter(|control| control.uuid == uuid),
    };
    let known = !matches!(why, LogError::Missing | LogError::Damaged { what: Damage::Control, .. });
    let Some(first) = first_without_gap(&segment_numbers(disk)?) else { return Ok(None) };
    match control {
        Some(control) if known || control.redo.segment >= first => {
            Reader::of_damaged(disk, &control).map(Some)
        }
        _ => Reader::of_damaged_segment(disk, uuid, first).map(Some),
    }
}

/// The first of the numbers that lead to the last one without a gap.
fn first_without_gap(numbers: &[u64]) -> Option<u64> {
    let descending = numbers.iter().rev().copied();
    let last = descending.clone().next()?;
    let together = descending.zip((0..=last).rev()).take_while(|(number, back)| number == back);
    together.last().map(|(number, _)| number)
}

/// All that is valid, up to the end of the last session; whether that is anything.
fn take(memory: &Mapped, mut log: Reader<'_>) -> bool {
    let (mut followed, mut took) = (false, false);
    loop {
        match log.next() {
            Ok(true) => {
                decode_payload(log.payload(), |capture| took |= set(memory, &capture));
                followed = false;
            }
            Ok(false) if !followed && log.follow_session().is_ok_and(|follows| follows) => {
                followed = true;
            }
            _ => return took,
        }
    }
}
