//! A counter on two lines that is buffered: what is added is durable when its epoch has ended.
//!
//! Each line has the value, what it was when the epoch began, and which epoch that was. The three
//! are in one line, so no flush keeps them apart (in-cache-line logging). One more line has the
//! number of the last epoch that ended durably, the *seal*; the epoch after it is the open one.
//!
//! 1. Add: unless the line was logged in this epoch, the old value, then the epoch, then the new
//!    value. Crash: a line whose log is younger than the seal goes back to the old value.
//! 2. End of the epoch: both lines are flushed, and a fence. Crash: as before.
//! 3. COMMIT: the seal is raised, flushed, and a fence.

use everleaf_crash::{Acknowledges, Promise, Restart, Subject, Traced};
use everleaf_pmem::{Media, Site, site};

use super::{flush, load, store, write};

const SEAL: usize = 1;
const LINES: [usize; 2] = [2, 3];
// The words of a line.
const VALUE: usize = 0;
const OLD: usize = 1;
const LOGGED: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// The second line is not logged.
    NotLogged,
    /// The new value is stored before the old one is logged.
    LoggedTooLate,
    /// The seal is raised before the lines are durable.
    SealedTooEarly,
    /// `sync` returns before the seal is durable.
    SyncDoesNotWait,
    /// Recovery undoes the last epoch that ended, too.
    UndoneTooMuch,
    /// Recovery seals the epoch that it undoes before that is durable.
    RecoverySealsTooEarly,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Adds one.
    Add,
    /// Ends the epoch.
    Epoch,
    /// Ends the epoch and waits.
    Sync,
    /// The power fails.
    Crash,
}

pub struct Counter {
    pub fault: Fault,
    pub program: Vec<Act>,
}

pub fn create(media: &Traced) {
    for line in [SEAL, LINES[0], LINES[1]] {
        (0..3).for_each(|word| store(media, line, word, 0));
        flush(media, site!("epochs.create.line"), line);
    }
    media.fence(site!("epochs.create.fence"));
}

pub fn add(fault: Fault, media: &Traced) {
    let epoch = load(media, SEAL, 0) + 1;
    for line in LINES {
        let (value, not_logged) = (load(media, line, VALUE), line == LINES[1]);
        if fault == Fault::LoggedTooLate {
            store(media, line, VALUE, value + 1);
        }
        let skips = fault == Fault::NotLogged && not_logged;
        if load(media, line, LOGGED) != epoch && !skips {
            store(media, line, OLD, value);
            media.order(site!("epochs.add.old"));
            store(media, line, LOGGED, epoch);
            media.order(site!("epochs.add.logged"));
        }
        store(media, line, VALUE, value + 1);
    }
}

pub fn end_epoch(fault: Fault, media: &Traced, waits: bool) {
    let epoch = load(media, SEAL, 0) + 1;
    LINES.into_iter().for_each(|line| flush(media, site!("epochs.end.line"), line));
    if fault != Fault::SealedTooEarly {
        media.fence(site!("epochs.end.fence"));
    }
    write(media, SEAL, epoch, site!("epochs.end.seal"));
    if fault != Fault::SyncDoesNotWait || !waits {
        media.fence(site!("epochs.end.sealed"));
    }
}

/// Undoes what was done in the epoch that a crash has cut, and seals that epoch: what follows is of
/// another one.
pub fn recover(fault: Fault, media: &Traced) {
    let seal = load(media, SEAL, 0);
    let undone = seal + u64::from(fault != Fault::UndoneTooMuch);
    for line in LINES {
        if load(media, line, LOGGED) >= undone.max(1) {
            store(media, line, VALUE, load(media, line, OLD));
            flush(media, site!("epochs.recover.line"), line);
        }
    }
    if fault != Fault::RecoverySealsTooEarly {
        media.fence(site!("epochs.recover.fence"));
    }
    // It becomes durable with the next seal, or the next recovery does the same again.
    store(media, SEAL, 0, seal + 1);
}

pub fn value(media: &Traced) -> Result<u64, String> {
    match LINES.map(|line| load(media, line, VALUE)) {
        [one, other] if one == other => Ok(one),
        [one, other] => Err(format!("one line has {one}, the other {other}")),
    }
}

impl Counter {
    /// What so many operations have added, of those that no crash has lost.
    fn value_after(&self, operations: usize, restarts: &[Restart]) -> u64 {
        let lost = restarts.iter().rposition(|restart| restart.operation < operations);
        let (first, base) = lost.map_or((0, 0), |place| {
            let Restart { operation, survived } = restarts[place];
            (operation, self.value_after(survived, &restarts[..place]))
        });
        let added = self.program[first..operations].iter().filter(|act| **act == Act::Add);
        base + added.count() as u64
    }
}

impl Subject for Counter {
    type State = Traced;

    fn prepare(&self, media: Traced) -> Result<Traced, String> {
        create(&media);
        Ok(media)
    }
    fn operation_count(&self) -> usize {
        self.program.len()
    }
    fn run(&self, media: &mut Traced, operation: usize) -> Result<(), String> {
        match self.program[operation] {
            Act::Add => add(self.fault, media),
            Act::Epoch => end_epoch(self.fault, media, false),
            Act::Sync => end_epoch(self.fault, media, true),
            Act::Crash => {}
        }
        Ok(())
    }
    fn acknowledges(&self, operation: usize) -> Acknowledges {
        match self.program[operation] {
            Act::Add => Acknowledges::Nothing,
            Act::Epoch => Acknowledges::EndOfEpoch,
            Act::Sync | Act::Crash => Acknowledges::Everything,
        }
    }
    fn recover(&self, image: Traced) -> Result<Traced, String> {
        recover(self.fault, &image);
        Ok(image)
    }
    fn verify(&self, media: &mut Traced, promise: &Promise) -> Result<(), String> {
        let found = value(media)?;
        if self.completed(media, promise).is_none() {
            return Err(format!("the counter is {found} after {promise} operations"));
        }
        for more in 1..=2 {
            add(self.fault, media);
            end_epoch(self.fault, media, true);
            if value(media)? != found + more {
                return Err(format!("{found} and {more} are not {found} + {more}"));
            }
        }
        Ok(())
    }
    fn completed(&self, media: &mut Traced, promise: &Promise) -> Option<usize> {
        let found = value(media).ok()?;
        let holds = |n: &usize| self.value_after(*n, promise.restarts()) == found;
        promise.boundaries().iter().copied().rev().find(holds)
    }
    fn is_crash(&self, operation: usize) -> bool {
        self.program[operation] == Act::Crash
    }
    fn sites(&self) -> Vec<Site> {
        vec![
            site!("epochs.add.old"),
            site!("epochs.add.logged"),
            site!("epochs.end.line"),
            site!("epochs.end.fence"),
            site!("epochs.end.seal"),
            site!("epochs.end.sealed"),
            site!("epochs.recover.line"),
            site!("epochs.recover.fence"),
        ]
    }
}
