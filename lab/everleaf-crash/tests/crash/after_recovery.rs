//! What a recovery has returned is a promise, before the operation after it has done anything.

use crate::toys::{Structure, Toy, load, options, write};
use everleaf_crash::{During, Options, Promise, Report, Subject, Traced, explore};
use everleaf_pmem::{Media, Site, site};

const VALUE: usize = 1;
const LOG: usize = 2;

/// A value behind a log, whose recovery redoes what the log says. If `fenced` is not set it returns
/// before that is durable, and the first fence of the next operation makes good for it.
struct Redone {
    fenced: bool,
}

impl Structure for Redone {
    fn create(&self, media: &Traced) {
        write(media, VALUE, 0, site!("redone.create.value"));
        write(media, LOG, 0, site!("redone.create.log"));
        media.fence(site!("redone.create.fence"));
    }
    fn operate(&self, media: &Traced, i: usize) {
        write(media, LOG, i as u64 + 1, site!("redone.log"));
        media.fence(site!("redone.log.fence"));
        write(media, VALUE, i as u64 + 1, site!("redone.value"));
        media.fence(site!("redone.value.fence"));
        write(media, LOG, 0, site!("redone.reset"));
        media.fence(site!("redone.reset.fence"));
    }
    fn recover(&self, media: &Traced) {
        let logged = load(media, LOG, 0);
        if logged == 0 {
            return;
        }
        write(media, VALUE, logged, site!("redone.recover.value"));
        if self.fenced {
            media.fence(site!("redone.recover.value.fence"));
        }
        write(media, LOG, 0, site!("redone.recover.reset"));
        if self.fenced {
            media.fence(site!("redone.recover.reset.fence"));
        }
    }
    fn completed(&self, media: &Traced) -> Result<usize, String> {
        Ok(load(media, VALUE, 0) as usize)
    }
    fn sites(&self) -> Vec<Site> {
        Vec::new()
    }
}

fn explored(fenced: bool, operations: usize) -> Report {
    let options = Options { mutate: false, ..options() };
    explore(&Toy { structure: Redone { fenced }, operations }, &options)
        .expect("nothing fails without a crash")
}

#[test]
fn what_a_recovery_returned_and_the_next_operation_makes_durable_may_not_be_lost_between_them() {
    let violation = &explored(false, 2).violations[0];
    assert_eq!(violation.error, "0 operations have happened, not 1", "{violation}");
    assert_eq!(violation.crashes[1].during, During::Recovery, "{violation}");
    assert_eq!(explored(true, 2).violations, []);
}

#[test]
fn what_a_recovery_returned_may_not_be_lost_where_no_operation_comes_after_it() {
    let violation = &explored(false, 1).violations[0];
    assert_eq!(violation.crashes[1].during, During::Recovery, "{violation}");
    assert_eq!(explored(true, 1).violations, []);
}

/// A register whose recovery leaves a mark without a fence, and whose operations are refused where
/// there is one.
struct Trap;

impl Subject for Trap {
    type State = Traced;
    fn prepare(&self, media: Traced) -> Result<Traced, String> {
        write(&media, VALUE, 0, site!("trap.create.value"));
        write(&media, LOG, 0, site!("trap.create.mark"));
        media.fence(site!("trap.create.fence"));
        Ok(media)
    }
    fn operation_count(&self) -> usize {
        2
    }
    fn run(&self, media: &mut Traced, operation: usize) -> Result<(), String> {
        if load(media, LOG, 0) != 0 {
            return Err("there is a mark".into());
        }
        write(media, VALUE, operation as u64 + 1, site!("trap.value"));
        media.fence(site!("trap.fence"));
        Ok(())
    }
    fn recover(&self, image: Traced) -> Result<Traced, String> {
        write(&image, LOG, 1, site!("trap.recover.mark"));
        Ok(image)
    }
    fn verify(&self, _: &mut Traced, _: &Promise) -> Result<(), String> {
        Ok(())
    }
    fn completed(&self, media: &mut Traced, _: &Promise) -> Option<usize> {
        Some(load(media, VALUE, 0) as usize)
    }
}

#[test]
fn an_operation_that_fails_after_a_recovery_is_a_violation() {
    let report = explore(&Trap, &Options { mutate: false, ..options() })
        .expect("nothing fails without a crash");
    assert_eq!(report.violations[0].error, "after recovery, operation 0: there is a mark");
}

const MARK: usize = 3;

/// What an operation does about the log that a crash has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Settling {
    Right,
    /// Only the question how far it came looks.
    Never,
    /// The log is gone before what it says is done.
    ResetFirst,
}

/// A counter behind a log, whose recovery leaves the log to the first access.
struct Lazy {
    settling: Settling,
    /// Whether what the recovery itself writes is durable when it returns.
    fenced: bool,
}

impl Lazy {
    fn settle(media: &Traced) {
        let logged = load(media, LOG, 0);
        if logged != 0 {
            write(media, VALUE, logged, site!("lazy.settle.value"));
            media.fence(site!("lazy.settle.value.fence"));
            write(media, LOG, 0, site!("lazy.settle.reset"));
            media.fence(site!("lazy.settle.reset.fence"));
        }
    }
}

impl Structure for Lazy {
    fn create(&self, media: &Traced) {
        for line in [VALUE, LOG, MARK] {
            write(media, line, 0, site!("lazy.create"));
        }
        media.fence(site!("lazy.create.fence"));
    }
    fn operate(&self, media: &Traced, _: usize) {
        if self.settling == Settling::ResetFirst && load(media, LOG, 0) != 0 {
            let logged = load(media, LOG, 0);
            write(media, LOG, 0, site!("lazy.early.reset"));
            media.fence(site!("lazy.early.reset.fence"));
            write(media, VALUE, logged, site!("lazy.late.value"));
            media.fence(site!("lazy.late.value.fence"));
        }
        if self.settling == Settling::Right {
            Self::settle(media);
        }
        let next = load(media, VALUE, 0) + 1;
        write(media, LOG, next, site!("lazy.log"));
        media.fence(site!("lazy.log.fence"));
        write(media, VALUE, next, site!("lazy.value"));
        media.fence(site!("lazy.value.fence"));
        write(media, LOG, 0, site!("lazy.reset"));
        media.fence(site!("lazy.reset.fence"));
    }
    fn recover(&self, media: &Traced) {
        write(media, MARK, 1, site!("lazy.recover.mark"));
        if self.fenced {
            media.fence(site!("lazy.recover.fence"));
        }
    }
    fn completed(&self, media: &Traced) -> Result<usize, String> {
        Self::settle(media);
        Ok(load(media, VALUE, 0) as usize)
    }
    fn sites(&self) -> Vec<Site> {
        Vec::new()
    }
}

#[test]
fn who_asks_how_far_a_recovery_came_changes_nothing_for_the_operations_after_it() {
    for fenced in [false, true] {
        let explored = |settling| {
            let options = Options { mutate: false, ..options() };
            explore(&Toy { structure: Lazy { settling, fenced }, operations: 3 }, &options)
                .expect("nothing fails without a crash")
        };
        assert_eq!(explored(Settling::Right).violations, [], "fenced: {fenced}");
        for wrong in [Settling::Never, Settling::ResetFirst] {
            let report = explored(wrong);
            let violation =
                report.violations.first().unwrap_or_else(|| panic!("{wrong:?}, fenced: {fenced}"));
            assert!(matches!(violation.crashes[1].during, During::FollowUp(_)), "{violation}");
        }
    }
}
