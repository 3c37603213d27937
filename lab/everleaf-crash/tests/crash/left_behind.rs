//! What a recovery leaves behind although it is durable and at rest, and what breaks only in the
//! recovery from a crash in a recovery.

use crate::toys::{Structure, Toy, load, options, store, write};
use everleaf_crash::{During, Options, Report, Traced, explore};
use everleaf_pmem::{Media, Site, site};

const VALUE: usize = 1;
const LOG: usize = 2;
/// A line for each operation, so that what recoveries leave is many different things.
const SCRATCH: usize = 3;

/// A counter whose even operations are logged and whose odd ones store one word. Each leaves
/// something in a line of its own that nobody reads.
struct Mixed {
    /// Recovery retires the log that it has redone.
    retires: bool,
}

impl Structure for Mixed {
    fn create(&self, media: &Traced) {
        for line in VALUE..SCRATCH + 16 {
            write(media, line, 0, site!("mixed.create"));
        }
        media.fence(site!("mixed.create.fence"));
    }
    fn operate(&self, media: &Traced, i: usize) {
        let scratch = SCRATCH + i % 16;
        (0..4).for_each(|word| store(media, scratch, word, i as u64 + 7));
        if i.is_multiple_of(2) {
            write(media, LOG, i as u64 + 1, site!("mixed.log"));
            media.fence(site!("mixed.log.fence"));
        }
        write(media, VALUE, i as u64 + 1, site!("mixed.value"));
        media.fence(site!("mixed.value.fence"));
        if i.is_multiple_of(2) {
            write(media, LOG, 0, site!("mixed.reset"));
            media.fence(site!("mixed.reset.fence"));
        }
    }
    fn recover(&self, media: &Traced) {
        let logged = load(media, LOG, 0);
        if logged != 0 {
            write(media, VALUE, logged, site!("mixed.recover.value"));
            media.fence(site!("mixed.recover.value.fence"));
            if self.retires {
                write(media, LOG, 0, site!("mixed.recover.reset"));
                media.fence(site!("mixed.recover.reset.fence"));
            }
        }
    }
    fn completed(&self, media: &Traced) -> Result<usize, String> {
        Ok(load(media, VALUE, 0) as usize)
    }
    fn sites(&self) -> Vec<Site> {
        Vec::new()
    }
}

fn mixed(retires: bool, follow_up: usize) -> Report {
    let options = Options { mutate: false, follow_up, ..options() };
    explore(&Toy { structure: Mixed { retires }, operations: 4 }, &options)
        .expect("nothing fails without a crash")
}

#[test]
fn a_log_that_a_recovery_leaves_and_that_undoes_a_later_operation_is_found() {
    assert_eq!(mixed(false, 0).violations, [], "without the operation behind it, it is missed");
    let report = mixed(false, 1);
    let violation = &report.violations[0];
    assert_eq!(violation.crashes.len(), 2, "{violation}");
    assert!(matches!(violation.crashes[1].during, During::FollowUp(1)), "{violation}");
    assert_eq!(violation.error, "1 operations have happened, not 2", "{violation}");
}

#[test]
fn what_nobody_reads_makes_no_difference_to_the_operations_after_a_recovery() {
    let (alone, behind) = (mixed(true, 0), mixed(true, 1));
    assert_eq!((alone.violations, behind.violations), (Vec::new(), Vec::new()));
    assert!(behind.exhaustive && behind.exhaustive_depth == 2);
    // Dozens of different things are left in the scratch lines.
    assert!(
        behind.recoveries < alone.recoveries * 2,
        "{} recoveries, without what comes behind them {}",
        behind.recoveries,
        alone.recoveries
    );
}

const ATTEMPTS: usize = 2;

/// A counter behind a log whose recovery counts its attempts, in the line of the log.
struct Patient {
    /// A recovery gives up that finds the second attempt before it.
    gives_up: bool,
}

impl Structure for Patient {
    fn create(&self, media: &Traced) {
        write(media, VALUE, 0, site!("patient.create.value"));
        (0..=ATTEMPTS).for_each(|word| store(media, LOG, word, 0));
        write(media, LOG, 0, site!("patient.create.log"));
        media.fence(site!("patient.create.fence"));
    }
    fn operate(&self, media: &Traced, i: usize) {
        write(media, LOG, i as u64 + 1, site!("patient.log"));
        media.fence(site!("patient.log.fence"));
        write(media, VALUE, i as u64 + 1, site!("patient.value"));
        media.fence(site!("patient.value.fence"));
        write(media, LOG, 0, site!("patient.reset"));
        media.fence(site!("patient.reset.fence"));
    }
    fn recover(&self, media: &Traced) {
        let (logged, attempts) = (load(media, LOG, 0), load(media, LOG, ATTEMPTS));
        if logged == 0 {
            return;
        }
        store(media, LOG, ATTEMPTS, attempts + 1);
        write(media, LOG, logged, site!("patient.recover.attempt"));
        media.fence(site!("patient.recover.attempt.fence"));
        let value = if self.gives_up && attempts == 2 { 0 } else { logged };
        write(media, VALUE, value, site!("patient.recover.value"));
        media.fence(site!("patient.recover.value.fence"));
        store(media, LOG, ATTEMPTS, 0);
        write(media, LOG, 0, site!("patient.recover.reset"));
        media.fence(site!("patient.recover.reset.fence"));
    }
    fn completed(&self, media: &Traced) -> Result<usize, String> {
        Ok(load(media, VALUE, 0) as usize)
    }
    fn sites(&self) -> Vec<Site> {
        Vec::new()
    }
}

fn patient(gives_up: bool, recovery_depth: u8) -> Report {
    let options = Options { mutate: false, recovery_depth, ..options() };
    explore(&Toy { structure: Patient { gives_up }, operations: 3 }, &options)
        .expect("nothing fails without a crash")
}

#[test]
fn a_recovery_that_survives_one_crash_in_it_and_not_two_is_found() {
    let shallow = patient(true, 1);
    assert_eq!(shallow.violations, [], "with one crash in a recovery it is missed");
    assert!(shallow.exhaustive && shallow.exhaustive_depth == 1, "and the report says so");
    let report = patient(true, Options::default().recovery_depth);
    let violation = &report.violations[0];
    assert_eq!(violation.crashes.len(), 3, "{violation}");
    assert!(
        violation.crashes[1..].iter().all(|crash| crash.during == During::Recovery),
        "{violation}"
    );
    let report = patient(false, Options::default().recovery_depth);
    assert!(report.violations.is_empty() && report.exhaustive_depth == 2);
}
