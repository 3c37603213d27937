//! Whole stores over a log on a disk whose power fails.
//!
//! A program runs on a store whose log, and whose file, are on a
//! [`SimulatedDisk`](everleaf_log::SimulatedDisk). The disk is looked at before each of its
//! operations: what a power failure may leave then is opened, and must be sound and hold what was
//! promised; it can be written to and is closed cleanly. Of some of these images the recovery is
//! cut, or what was shown of them is cut again. The same program runs on disks that fail at an
//! operation: then nothing more is acknowledged, and what can be read is there after all.
//!
//! Map of the files: `case` (one program, its pool) · `judge` (what is left of a disk) · `run` (a
//! program of one thread) · `threads` (one of three).

mod case;
mod judge;
mod run;
mod threads;

pub use case::DiskCase;

use judge::Judge;

/// What explorations have seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskReport {
    /// Operations of the programs.
    pub operations: u64,
    /// Moments at which the power failed: before each operation of a disk.
    pub cuts: u64,
    /// Those that may leave more images than were tried.
    pub sampled_cuts: u64,
    /// Images that were tried.
    pub images: u64,
    /// Openings, of these images and after further cuts.
    pub recoveries: u64,
    /// Runs on disks that fail.
    pub failures: u64,
    /// Checkpoints that the programs have made.
    pub checkpoints: u64,
    /// Programs whose pool has grown.
    pub grown: u64,
}

impl DiskCase {
    /// Explores the program, and adds what was seen to `report`.
    ///
    /// # Errors
    /// The first violation.
    pub fn explore(&self, report: &mut DiskReport) -> Result<(), String> {
        let mut judge = Judge::new(self, report);
        let explored = match self.threads {
            false => run::explore(self, &mut judge),
            true => threads::explore(self, &mut judge),
        };
        explored.map_err(|error| format!("{self}: {error}"))
    }
}
