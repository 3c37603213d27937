//! What an exploration may cost in all.

use crate::toys::{Structure, Toy, flush, load, options, store};
use everleaf_crash::{Options, Report, Traced, explore};
use everleaf_pmem::{Media, Site, site};

const OPERATIONS: usize = 4;
/// A line that counts, then those that are filled before it.
const COUNT: usize = 1;
const LINES: std::ops::Range<usize> = 2..8;

/// Fills some lines and then counts; its recovery reads them all.
struct Filled {
    /// The lines are durable before the count is.
    fenced: bool,
}

impl Structure for Filled {
    fn create(&self, media: &Traced) {
        for line in COUNT..LINES.end {
            (0..2).for_each(|word| store(media, line, word, 0));
            flush(media, site!("filled.create"), line);
        }
        media.fence(site!("filled.create.fence"));
    }
    fn operate(&self, media: &Traced, i: usize) {
        for line in LINES {
            (0..2).for_each(|word| store(media, line, word, i as u64 + 1));
            flush(media, site!("filled.line"), line);
        }
        if self.fenced {
            media.fence(site!("filled.line.fence"));
        }
        store(media, COUNT, 0, i as u64 + 1);
        flush(media, site!("filled.count"), COUNT);
        media.fence(site!("filled.count.fence"));
    }
    fn recover(&self, _: &Traced) {}
    fn completed(&self, media: &Traced) -> Result<usize, String> {
        let count = load(media, COUNT, 0);
        let old = LINES.filter(|line| load(media, *line, 1) < count).count();
        let some = LINES.map(|line| load(media, line, 0)).min();
        if old > 0 { Err(format!("{old} lines are old, {some:?}")) } else { Ok(count as usize) }
    }
    fn sites(&self) -> Vec<Site> {
        Vec::new()
    }
}

fn within(all_recoveries: u64, fenced: bool) -> Report {
    explored(Options { all_recoveries, ..options() }, fenced)
}

fn explored(options: Options, fenced: bool) -> Report {
    let options = Options { mutate: false, follow_up: 0, ..options };
    explore(&Toy { structure: Filled { fenced }, operations: OPERATIONS }, &options)
        .expect("nothing fails without a crash")
}

#[test]
fn an_exploration_that_may_cost_less_is_a_sample_that_reaches_every_crash_point() {
    let whole = within(u64::MAX, true);
    assert!(whole.exhaustive && whole.exhaustive_depth == 2);
    let quarter = within(whole.recoveries / 4, true);
    assert!(quarter.violations.is_empty() && !quarter.exhaustive && quarter.sampled_points > 0);
    assert_eq!(quarter.crash_points, whole.crash_points);
    assert!(
        quarter.recoveries < whole.recoveries / 2,
        "{} recoveries, {} in all",
        quarter.recoveries,
        whole.recoveries
    );
    let found = within(whole.recoveries / 4, false);
    assert!(!found.violations.is_empty(), "an order that is wrong is found in a sample, too");
}

#[test]
fn work_bounds_an_exploration_as_recoveries_do() {
    let whole = explored(Options { work: u64::MAX - 1, ..options() }, true);
    assert!(whole.exhaustive && whole.recoveries == within(u64::MAX, true).recoveries);
    // A recovery costs a thousand accesses at least.
    let little = Options { work: whole.recoveries * 250, ..options() };
    let quarter = explored(little.clone(), true);
    assert!(quarter.violations.is_empty() && !quarter.exhaustive && quarter.sampled_points > 0);
    assert_eq!(quarter.crash_points, whole.crash_points);
    assert!(quarter.recoveries < whole.recoveries / 2, "{}", quarter.recoveries);
    assert!(!explored(little, false).violations.is_empty(), "found in a sample, too");
}
