//! What a recovery has returned is a promise, before the operation after it has done anything.

mod toys;

use everleaf_crash::{During, Options, Report, explore};
use everleaf_pmem::{Media, Site, Traced, site};
use toys::{Structure, Toy, flush, load, options, store};

const VALUE: usize = 1;
const LOG: usize = 2;

/// A value behind a log, whose recovery redoes what the log says. If `fenced` is not set it returns before that is durable, and the
/// first fence of the next operation makes good for it.
struct Redone {
    fenced: bool,
}

fn write(media: &Traced, line: usize, value: u64, flushed: Site) {
    store(media, line, 0, value);
    flush(media, flushed, line);
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
    explore(&Toy { structure: Redone { fenced }, operations }, &options).expect("nothing fails without a crash")
}

#[test]
fn what_a_recovery_returned_and_the_next_operation_makes_durable_may_not_be_lost_between_them() {
    let violation = &explored(false, 2).violations[0];
    assert_eq!(violation.error, "0 operations have happened, not 1..=1", "{violation}");
    assert_eq!(violation.crashes[1].during, During::Recovery, "{violation}");
    assert_eq!(explored(true, 2).violations, []);
}

#[test]
fn what_a_recovery_returned_may_not_be_lost_where_no_operation_comes_after_it() {
    let violation = &explored(false, 1).violations[0];
    assert_eq!(violation.crashes[1].during, During::Recovery, "{violation}");
    assert_eq!(explored(true, 1).violations, []);
}
