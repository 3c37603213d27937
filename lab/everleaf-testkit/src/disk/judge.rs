//! What a power failure leaves of a disk, and whether it is what was promised.

use everleaf::{Clock, Shutdown};
use everleaf_log::SimulatedDisk;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::DiskReport;
use super::case::{DiskCase, Opened};
use crate::model::{Content, model, show};
use crate::subject::sentence;
use crate::{Operation, Target};

/// Of so many images one is looked at closely: what was shown of it is cut again, its recovery is
/// cut, and what is closed afterwards is opened.
const CLOSELY: u32 = 4;
/// Images of the second cut.
const AGAIN: u64 = 2;

/// Whether what was found was promised; why not.
pub(super) type Promise<'p> = &'p dyn Fn(&Content) -> Result<(), String>;

/// Judges disks, and counts.
pub(super) struct Judge<'c> {
    case: &'c DiskCase,
    rng: StdRng,
    pub report: &'c mut DiskReport,
}

impl<'c> Judge<'c> {
    pub fn new(case: &'c DiskCase, report: &'c mut DiskReport) -> Self {
        Self { case, rng: StdRng::seed_from_u64(case.seed), report }
    }

    /// The power fails now; or the process alone dies.
    pub fn judge(&mut self, disk: &SimulatedDisk, promise: Promise<'_>) -> Result<(), String> {
        self.report.cuts += 1;
        self.report.sampled_cuts += u64::from(disk.outcomes() > self.case.images);
        for (number, image) in self.images(disk, self.case.images).into_iter().enumerate() {
            self.judge_image(&image, promise)
                .map_err(|error| format!("image {number}: {error}"))?;
        }
        if self.rng.random_ratio(1, CLOSELY) {
            let killed = self.judge_image(&disk.after_kill(), promise);
            killed.map_err(|error| format!("the process is killed: {error}"))?;
        }
        Ok(())
    }

    /// Everything that a power failure may leave, if that is no more than `most`; else only what is
    /// durable, all that was written, and others by chance.
    fn images(&mut self, disk: &SimulatedDisk, most: u64) -> Vec<SimulatedDisk> {
        let all = disk.outcomes();
        let numbered = |mut number: u64| {
            disk.after_power_failure(|ways| {
                let way = number % ways as u64;
                number /= ways as u64;
                way as usize
            })
        };
        if all <= most {
            return (0..all).map(numbered).collect();
        }
        let extremes = [disk.after_power_failure(|_| 0), disk.after_power_failure(|ways| ways - 1)];
        let drawn = (2..most).map(|_| drawn(disk, &mut self.rng));
        extremes.into_iter().chain(drawn).collect()
    }

    fn judge_image(&mut self, image: &SimulatedDisk, promise: Promise<'_>) -> Result<(), String> {
        self.report.images += 1;
        let closely = self.rng.random_ratio(1, CLOSELY);
        let untouched = closely.then(|| image.after_kill());
        let (opened, found) = self.recovered(image, promise)?;
        if let Some(mut again) = untouched {
            let shown = image.after_power_failure(|_| 0);
            let lost = self.recovered(&shown, &exactly(&found));
            lost.map_err(|error| format!("shown, and after a second cut: {error}"))?;
            for _ in 0..self.rng.random_range(1..=2) {
                again = again.after_kill();
                again.cut_before(self.rng.random_range(0..image.operations().max(1)));
                drop(self.open(&again));
            }
            for left in self.images(&again, AGAIN) {
                let recovered = self.recovered(&left, promise);
                recovered.map_err(|error| format!("cut in its recovery: {error}"))?;
            }
        }
        self.go_on(opened, found, image, closely)
    }

    fn open(&mut self, image: &SimulatedDisk) -> Result<Opened, String> {
        self.report.recoveries += 1;
        let session = self.rng.random_range(0..3);
        self.case.open(image, &Clock::manual(0), session)
    }

    /// Opens an image: it is sound, and holds what was promised.
    fn recovered(
        &mut self,
        image: &SimulatedDisk,
        promise: Promise<'_>,
    ) -> Result<(Opened, Content), String> {
        let opened = self.open(image)?;
        let found = Target::content(&opened.store)?;
        promise(&found)?;
        Target::check(&opened.store)?;
        Ok((opened, found))
    }

    /// The store can be written to, and closed; what was closed is found closed.
    fn go_on(
        &mut self,
        opened: Opened,
        mut content: Content,
        image: &SimulatedDisk,
        closely: bool,
    ) -> Result<(), String> {
        let removed = content.keys().next().cloned();
        let removed = removed.into_iter().map(Operation::Remove);
        for operation in removed.chain([Operation::Upsert(self.case.other_key(), 1)]) {
            let done = Target::apply(&opened.store, &operation);
            done.map_err(|error| format!("afterwards, {operation}: {error}"))?;
            model(&mut content, &operation);
        }
        let Opened { store, pool } = opened;
        store.close().map_err(|error| format!("it is not closed: {error}"))?;
        drop(pool);
        if !closely {
            return Ok(());
        }
        let closed = image.after_power_failure(|_| 0);
        let found = self.recovered(&closed, &exactly(&content));
        let (opened, _) = found.map_err(|error| format!("after it was closed: {error}"))?;
        match opened.store.statistics().map_err(sentence)?.shutdown {
            Shutdown::Clean => Ok(()),
            _ => Err("it was closed, and is not found closed".to_owned()),
        }
    }
}

/// One of the disks that a power failure may leave: each thing is any of its versions, mostly the
/// first, or mostly the last.
pub(super) fn drawn(disk: &SimulatedDisk, rng: &mut StdRng) -> SimulatedDisk {
    let leans = rng.random_range(0..3);
    disk.after_power_failure(|ways| match leans {
        1 if rng.random_ratio(7, 8) => 0,
        2 if rng.random_ratio(7, 8) => ways - 1,
        _ => rng.random_range(0..ways),
    })
}

fn exactly(content: &Content) -> impl Fn(&Content) -> Result<(), String> {
    let expected = content.clone();
    move |found| one_of(std::slice::from_ref(&expected), found)
}

/// Whether what was found is one of these contents.
pub(super) fn one_of(contents: &[Content], found: &Content) -> Result<(), String> {
    if contents.contains(found) {
        return Ok(());
    }
    let promised: Vec<String> = contents.iter().map(show).collect();
    Err(format!("the content is {} and should be {}", show(found), promised.join(" or ")))
}
