//! What a log that is refused still holds.
//!
//! Groups are taken from the redo point on, as far as they are valid: what they leave is an image
//! of some moment, and often the last but what is damaged. If the control file is damaged they are
//! taken from the older redo point that it still states, if its segment is there, or else from the
//! first segment of those without a gap; and from one session into the next. Words have absolute
//! values, so going through more of the log than necessary changes nothing at its end.

use everleaf_pmem::{Hardware, Region};

use crate::control::Control;
use crate::disk::Disk;
use crate::payload::decode_payload;
use crate::reader::Reader;
use crate::recover::{Base, image};
use crate::replay::{read_only, set};
use crate::segment::segment_numbers;
use crate::weak::Weakness;
use crate::{Damage, LogError};

/// What the file of a pool and its log hold together, in memory that no other process sees, and
/// why the log is refused, if it is. Nothing is written.
///
/// Of a damaged log everything is taken that stands before the damage. Of one that belongs to
/// another pool or is of another time or format nothing is: the file alone counts.
///
/// # Errors
/// The file cannot be read, or there is no memory.
pub fn read_damaged(base: &Base, disk: &dyn Disk) -> Result<(Region, Option<LogError>), LogError> {
    let why = match read_only(base, disk) {
        Ok(region) => return Ok((region, None)),
        Err(why) => why,
    };
    let (hardware, _) = image(base, Weakness::default())?;
    let takes = matches!(why, LogError::Missing | LogError::Damaged { .. } | LogError::Io { .. });
    if takes && let Some(log) = beginning(disk, base.uuid, &why) {
        take(&hardware, log);
    }
    Ok((hardware.into_region(), Some(why)))
}

/// As [`read_damaged`], of a file whose first page is lost, and with it what tells whose the log
/// is: the one that has its name is taken for its own.
///
/// # Errors
/// As [`read_damaged`].
pub fn read_unidentified(base: &Base, disk: &dyn Disk) -> Result<Region, LogError> {
    let (hardware, _) = image(base, Weakness::default())?;
    let control = Control::newest_of_damaged(disk);
    if let Some(log) = control.and_then(|control| Reader::of_damaged(disk, &control).ok()) {
        take(&hardware, log);
    }
    Ok(hardware.into_region())
}

/// Where to begin in a damaged log.
fn beginning<'d>(disk: &'d dyn Disk, uuid: u128, why: &LogError) -> Option<Reader<'d>> {
    let control = Control::newest_of_damaged(disk).filter(|control| control.uuid == uuid);
    let known = !matches!(why, LogError::Missing | LogError::Damaged { what: Damage::Control, .. });
    let first = first_without_gap(&segment_numbers(disk).ok()?)?;
    match control {
        Some(control) if known || control.redo.segment >= first => {
            Reader::of_damaged(disk, &control).ok()
        }
        _ => Reader::of_damaged_segment(disk, uuid, first).ok(),
    }
}

/// The first of the numbers that lead to the last one without a gap.
fn first_without_gap(numbers: &[u64]) -> Option<u64> {
    let descending = numbers.iter().rev().copied();
    let last = descending.clone().next()?;
    let together = descending.zip((0..=last).rev()).take_while(|(number, back)| number == back);
    together.last().map(|(number, _)| number)
}

/// All that is valid, up to the end of the last session.
fn take(hardware: &Hardware, mut log: Reader<'_>) {
    let mut followed = false;
    loop {
        match log.next() {
            Ok(true) => {
                decode_payload(log.payload(), |capture| _ = set(hardware, &capture));
                followed = false;
            }
            Ok(false) if !followed && log.follow_session().is_ok_and(|follows| follows) => {
                followed = true;
            }
            _ => return,
        }
    }
}
