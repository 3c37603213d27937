//! Crash points with more images than the budget: only what recovery and checks read is branched
//! on.

use std::cell::RefCell;
use std::collections::BTreeSet;

use crate::toys::{flush, load, options, store};
use everleaf_crash::{Assumptions, During, Options, Promise, Report, Subject, Traced, explore};
use everleaf_pmem::{Line, Media, PPtr, site};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// The lines that are dirty all at once.
const LINES: std::ops::Range<usize> = 4..44;

/// An operation that stores twice to each of many lines, with no barrier until the end; what is
/// done after a crash are closures.
struct Wide<R, V> {
    recover: R,
    verify: V,
    /// What the operation after a recovery does.
    goes_on: fn(&Traced),
}

impl<R, V> Subject for Wide<R, V>
where
    R: Fn(&Traced),
    V: Fn(&Traced) -> Result<(), String>,
{
    type State = Traced;
    fn prepare(&self, media: Traced) -> Result<Traced, String> {
        for line in (1..4).chain(LINES) {
            store(&media, line, 0, 0);
            store(&media, line, 1, 0);
            flush(&media, site!("wide.create.line"), line);
        }
        media.fence(site!("wide.create.fence"));
        Ok(media)
    }
    fn operation_count(&self) -> usize {
        2
    }
    fn run(&self, media: &mut Traced, operation: usize) -> Result<(), String> {
        if operation == 1 {
            (self.goes_on)(media);
            return Ok(());
        }
        for line in LINES {
            store(media, line, 0, 1);
            store(media, line, 1, 1);
            flush(media, site!("wide.line"), line);
        }
        media.fence(site!("wide.fence"));
        Ok(())
    }
    fn recover(&self, image: Traced) -> Result<Traced, String> {
        (self.recover)(&image);
        Ok(image)
    }
    fn verify(&self, media: &mut Traced, _: &Promise) -> Result<(), String> {
        (self.verify)(media)
    }
    fn completed(&self, _: &mut Traced, _: &Promise) -> Option<usize> {
        Some(1)
    }
}

fn explored(
    recover: impl Fn(&Traced),
    verify: impl Fn(&Traced) -> Result<(), String>,
    options: &Options,
) -> Report {
    explore(&Wide { recover, verify, goes_on: |_| {} }, options)
        .expect("nothing fails without a crash")
}

/// So many images, and no mutants.
fn within(budget: u64) -> Options {
    Options { budget, mutate: false, ..options() }
}

/// A line that has its first store and not its second.
fn torn(media: &Traced, line: usize) -> bool {
    load(media, line, 0) == 1 && load(media, line, 1) == 0
}

/// Breaks if five lines are all torn: of the 243 ways in which they can be left, one.
fn five(media: &Traced) -> Result<(), String> {
    if [7, 15, 22, 30, 41].iter().all(|line| torn(media, *line)) {
        Err("five are torn".to_owned())
    } else {
        Ok(())
    }
}

fn read_everything(media: &Traced) {
    LINES.for_each(|line| _ = (load(media, line, 0), load(media, line, 1)));
}

#[test]
fn what_a_sample_would_miss_is_found_where_little_is_read() {
    // At the end 3^40 images, of which recovery and checks can tell 11.
    let lazily = explored(|_| {}, five, &within(100));
    assert_eq!(lazily.violations[0].error, "five are torn");
    let torn: Vec<u64> = lazily.violations[0].crashes[0]
        .lines
        .iter()
        .filter(|line| line.durable.len() == 1)
        .map(|line| line.line)
        .collect();
    assert_eq!(torn, [7, 15, 22, 30, 41]);
    // As many images, but every line matters: this is a sample.
    let sampled = explored(read_everything, five, &within(100));
    assert_eq!(sampled.violations.first().map(ToString::to_string), None);
}

#[test]
fn where_little_is_read_every_image_is_accounted_for() {
    let never = |media: &Traced| five(media).or(Ok(()));
    let report = explored(|_| {}, never, &within(100));
    assert!(report.exhaustive && report.left_out == 0);
    // A store brings 3^n new images where n lines are written already: up to 3^4 they are few.
    assert_eq!((report.crash_points, report.sampled_points), (84, 0));
    assert_eq!(report.lazily_exhaustive_points, 80 - 10);
    assert!(report.recoveries < 2000, "{} runs", report.recoveries);
}

#[test]
fn where_everything_is_read_the_rest_is_a_sample_and_said_to_be() {
    let report = explored(read_everything, |_| Ok(()), &within(100));
    assert!(
        !report.exhaustive && report.sampled_points > 60 && report.left_out > 1 << 60,
        "{report:?}"
    );
    assert!(report.recoveries <= report.crash_points * 100, "{} runs", report.recoveries);
    assert_eq!(report.lazily_exhaustive_points, 0);
}

/// Two writes of one line with no fence between them have 2^16 outcomes, which are too many to
/// list. One word of them is read, or none.
struct Rewritten {
    is_read: bool,
}

impl Subject for Rewritten {
    type State = Traced;
    fn prepare(&self, media: Traced) -> Result<Traced, String> {
        Ok(media)
    }
    fn operation_count(&self) -> usize {
        1
    }
    fn run(&self, media: &mut Traced, _: usize) -> Result<(), String> {
        let line = media.region().get::<Line>(PPtr::at(64)).unwrap();
        media.write_line(site!("rewritten.first"), line, [1; 8]);
        media.write_line(site!("rewritten.second"), line, [2; 8]);
        media.fence(site!("rewritten.fence"));
        Ok(())
    }
    fn recover(&self, image: Traced) -> Result<Traced, String> {
        Ok(image)
    }
    fn verify(&self, media: &mut Traced, _: &Promise) -> Result<(), String> {
        if self.is_read {
            media.load(&media.region().get::<Line>(PPtr::at(64)).unwrap().0[0]);
        }
        Ok(())
    }
}

#[test]
fn what_nothing_reads_needs_no_try_however_many_outcomes_it_has() {
    let report = explore(&Rewritten { is_read: false }, &within(100)).unwrap();
    assert!(report.exhaustive && report.left_out == 0, "{report:?}");
    assert_eq!((report.crash_points, report.sampled_points), (5, 0));
    assert_eq!((report.lazily_exhaustive_points, report.recoveries), (2, 2));
}

#[test]
fn a_point_whose_outcomes_are_too_many_to_list_is_a_sample_and_counts_as_one() {
    // With the small budget the listed outcomes are told apart by what is read, with the large one
    // all of them are tried.
    for (budget, lazily) in [(100, 1), (5000, 0)] {
        let report = explore(&Rewritten { is_read: true }, &within(budget)).unwrap();
        assert!(!report.exhaustive && report.left_out > 0, "{report:?}");
        assert_eq!(
            (report.sampled_points, report.lazily_exhaustive_points),
            (1, lazily),
            "budget {budget}"
        );
    }
}

#[test]
fn a_store_decides_the_words_that_it_stores_and_no_others() {
    let shallow = Options { recovery_depth: 0, ..within(100) };
    let runs = |recover: fn(&Traced)| {
        let report = explored(
            recover,
            |media| if load(media, 9, 1) < 2 { Ok(()) } else { Err(String::new()) },
            &shallow,
        );
        assert!(report.exhaustive, "{report:?}");
        report.recoveries
    };
    let both = runs(|media| _ = load(media, 9, 0));
    let one = runs(|_| {});
    assert!(one < both, "{one} runs, {both} runs");
    // Word 0 is not read any more, and word 1 is as it was.
    assert_eq!(runs(|media| store(media, 9, 0, 5)), one);
    let overwrites = |media: &Traced| {
        store(media, 9, 0, 5);
        load(media, 9, 0);
    };
    assert_eq!(runs(overwrites), one);
}

#[test]
fn what_only_the_second_recovery_reads_is_branched_on_there() {
    // The first recovery notes that it has begun; only one that finds this looks at two lines.
    let recover = |media: &Traced| {
        if load(media, 1, 0) == 1 {
            assert!(!(torn(media, 30) && torn(media, 31)), "two lines are torn");
        }
        store(media, 1, 0, 1);
        flush(media, site!("wide.recover"), 1);
        media.fence(site!("wide.recover.fence"));
        store(media, 1, 0, 0);
        flush(media, site!("wide.recover.end"), 1);
        media.fence(site!("wide.recover.end.fence"));
    };
    let report = explored(recover, |_| Ok(()), &within(50));
    let violation = &report.violations[0];
    assert!(violation.error.contains("two lines are torn"), "{violation}");
    assert_eq!(violation.crashes[1].during, During::Recovery);
    let line =
        violation.crashes[0].lines.iter().find(|line| line.line == 30).expect("it is pending");
    assert_eq!(line.durable.len(), 1, "the first crash tore it: {violation}");
    assert_eq!(
        explored(recover, |_| Ok(()), &Options { recovery_depth: 0, ..within(50) }).violations,
        []
    );
}

#[test]
fn what_a_recovery_stores_to_an_undecided_line_is_not_undone() {
    // The first recovery overwrites a word that it has not read, durably, and says so; the second
    // one relies on that.
    let recover = |media: &Traced| {
        if load(media, 1, 0) == 1 {
            assert_eq!(load(media, 30, 0), 9, "what was durable is gone");
        }
        for (line, value, flushed, fence) in [
            (30, 9, site!("wide.recover"), site!("wide.recover.fence")),
            (1, 1, site!("wide.recover.end"), site!("wide.recover.end.fence")),
        ] {
            store(media, line, 0, value);
            flush(media, flushed, line);
            media.fence(fence);
        }
    };
    let report = explored(recover, |_| Ok(()), &Options { recovery_budget: 64, ..within(50) });
    assert_eq!(report.violations.first().map(ToString::to_string), None);
    assert!(
        report.exhaustive && report.lazily_exhaustive_points > 50,
        "{} left out",
        report.left_out
    );
}

#[test]
fn what_only_the_operation_after_a_recovery_reads_is_branched_on_there() {
    // Recovery leaves its mark pending. The operation after it notes whether two lines are torn,
    // which must not be.
    let goes_on = |media: &Traced| {
        store(media, 2, 0, 1 + u64::from(torn(media, 30) && torn(media, 31)));
        flush(media, site!("wide.note"), 2);
        media.fence(site!("wide.note.fence"));
    };
    let recover = |media: &Traced| store(media, 1, 0, 1);
    let verify = |media: &Traced| {
        if load(media, 2, 0) == 2 { Err("it found two torn".to_owned()) } else { Ok(()) }
    };
    let report = explore(&Wide { recover, verify, goes_on }, &within(50)).unwrap();
    let violation = &report.violations[0];
    assert_eq!(
        (violation.error.as_str(), violation.crashes[1].during),
        ("it found two torn", During::FollowUp(1))
    );
    let line =
        violation.crashes[0].lines.iter().find(|line| line.line == 30).expect("it is pending");
    assert_eq!(line.durable.len(), 1, "{violation}");
}

// ---- the same verdicts as by trying everything
// --------------------------------------------------------------------------

#[derive(Clone, Copy, Debug)]
enum Step {
    Load(usize, usize),
    Store(usize, usize, u64),
    Write(usize, u64),
    Flush(usize),
    Fence,
    /// Passes over the next step, depending on what was loaded so far.
    Skip(u64),
}

/// Random steps on a few words, which notes what it has seen whenever it is checked.
#[derive(Debug)]
struct Noted {
    operations: Vec<Vec<Step>>,
    recover: Vec<Step>,
    verify: Vec<Step>,
    verdicts: RefCell<BTreeSet<(usize, Option<usize>, u64)>>,
}

/// Few, so that recoveries meet what operations did.
const WORDS: usize = 2;
const LAST: usize = 5;

impl Noted {
    fn random(rng: &mut SmallRng) -> Self {
        let mut steps = |count: usize, loads: bool, writes: bool| -> Vec<Step> {
            let mut step = |_| {
                let (line, word, value) = (
                    rng.random_range(1..=LAST),
                    rng.random_range(0..WORDS),
                    rng.random_range(1..4),
                );
                match rng.random_range(0..20) {
                    0..6 if loads => Step::Load(line, word),
                    0..9 => Step::Store(line, word, value),
                    9..12 if loads => Step::Skip(value),
                    12 if writes => Step::Write(line, value),
                    12..17 => Step::Flush(line),
                    17 => Step::Fence,
                    _ => Step::Store(line, word, value),
                }
            };
            (0..count).map(&mut step).collect()
        };
        let mut operations = vec![steps(11, false, true), steps(4, true, false)];
        let mut writes = 0;
        // Each of them has 256 outcomes.
        operations[0].retain(|step| {
            !matches!(step, Step::Write(..)) || std::mem::replace(&mut writes, 1) == 0
        });
        let (recover, verify) = (steps(9, true, false), steps(4, true, false));
        Self { operations, recover, verify, verdicts: RefCell::default() }
    }

    /// Does the steps; returns a number for all that was loaded.
    fn run(media: &Traced, steps: &[Step]) -> u64 {
        let (mut seen, mut skips) = (7u64, false);
        for step in steps {
            if std::mem::take(&mut skips) {
                continue;
            }
            match *step {
                Step::Load(line, word) => {
                    seen = seen.wrapping_mul(31).wrapping_add(load(media, line, word))
                }
                Step::Store(line, word, value) => store(media, line, word, value),
                Step::Write(line, value) => {
                    media.write_line(
                        site!("noted.write"),
                        media.region().get::<Line>(PPtr::at(line as u64 * 64)).unwrap(),
                        [value; 8],
                    );
                }
                Step::Flush(line) => flush(media, site!("noted.flush"), line),
                Step::Fence => media.fence(site!("noted.fence")),
                Step::Skip(rest) => skips = seen % 4 == rest,
            }
        }
        seen
    }
}

impl Subject for &Noted {
    type State = (Traced, u64);
    fn prepare(&self, media: Traced) -> Result<Self::State, String> {
        for line in 1..=LAST {
            (0..8).for_each(|word| store(&media, line, word, 0));
            flush(&media, site!("noted.create"), line);
        }
        media.fence(site!("noted.create.fence"));
        Ok((media, 0))
    }
    fn operation_count(&self) -> usize {
        self.operations.len()
    }
    fn run(&self, (media, _): &mut Self::State, operation: usize) -> Result<(), String> {
        Noted::run(media, &self.operations[operation]);
        Ok(())
    }
    fn thread(&self, operation: usize) -> u16 {
        operation as u16
    }
    fn recover(&self, image: Traced) -> Result<Self::State, String> {
        let seen = Noted::run(&image, &self.recover);
        Ok((image, seen))
    }
    fn verify(&self, (media, seen): &mut Self::State, promise: &Promise) -> Result<(), String> {
        let Promise { acknowledged, cut, .. } = *promise;
        let found = Noted::run(media, &self.verify);
        self.verdicts.borrow_mut().insert((
            acknowledged,
            cut,
            seen.wrapping_mul(1_000_003) ^ found,
        ));
        Ok(())
    }
    fn completed(&self, (media, _): &mut Self::State, _: &Promise) -> Option<usize> {
        Some(load(media, 3, 1) as usize % 2)
    }
}

#[test]
fn the_verdicts_are_those_of_trying_every_image() {
    const ROUNDS: u64 = 400;
    let (mut compared, mut accounted) = (0, 0);
    for seed in 0..ROUNDS {
        let subject = Noted::random(&mut SmallRng::seed_from_u64(seed));
        let assumptions = Assumptions { eadr: seed % 5 == 1, atomic_line: seed % 5 == 2 };
        let explored = |budget, recovery_depth| {
            let options = Options {
                budget,
                recovery_budget: budget * 4,
                recovery_depth,
                assumptions,
                ..within(0)
            };
            let report = explore(&&subject, &options).unwrap();
            let mut verdicts = subject.verdicts.take();
            // What was right between two operations need not be asked again during the next one.
            let between: Vec<_> =
                verdicts.iter().filter(|(_, cut, _)| cut.is_none()).copied().collect();
            verdicts.extend(
                between
                    .into_iter()
                    .map(|(acknowledged, _, seen)| (acknowledged, Some(acknowledged), seen)),
            );
            (report, verdicts)
        };
        let listed = |report: &Report| report.exhaustive && report.lazily_exhaustive_points == 0;
        if !listed(&explored(200, 0).0) {
            continue; // To try everything would take long.
        }
        let (every, expected) = explored(200, 1);
        let (lazily, found) = explored(12, 1);
        assert!(found.is_subset(&expected), "seed {seed}: {subject:?}");
        if !listed(&every) {
            continue;
        }
        compared += 1;
        if lazily.exhaustive {
            assert_eq!(found, expected, "seed {seed}: {subject:?}");
            accounted += u64::from(lazily.lazily_exhaustive_points > 0);
        }
        assert_eq!(lazily.exhaustive, lazily.left_out == 0, "seed {seed}");
    }
    println!(
        "{compared} programs; {accounted} of them have points with too many images, all of them \
        accounted for"
    );
    assert!(accounted > ROUNDS / 12, "{accounted} of {ROUNDS} programs say something");
}
