//! What the explorer promises about itself: counts, samples, counterexamples, crashes as
//! operations, endings of endless recoveries.

use crate::toys::journal::Journal;
use crate::toys::ledger::{self, Ledger};
use crate::toys::published::{self, Published};
use crate::toys::{Structure, Toy, flush, load, options, store};
use everleaf_crash::{
    During, ExploreError, Mutant, Options, Progress, Promise, Report, Subject, Traced, explore,
    explore_with,
};
use everleaf_pmem::{LINE, Line, Media, PPtr, site};

fn ledger(fault: ledger::Fault, operations: usize) -> Toy<Ledger> {
    Toy { structure: Ledger(fault), operations }
}

/// A subject made of closures over one word of line 1 and whatever else they touch.
struct Script<R, V> {
    operations: usize,
    crashes: &'static [usize],
    run: fn(&Traced, usize) -> Result<(), String>,
    recover: R,
    verify: V,
}

impl<R, V> Subject for Script<R, V>
where
    R: Fn(&Traced) -> Result<(), String>,
    V: Fn(&Traced, usize, Option<usize>) -> Result<(), String>,
{
    type State = Traced;
    fn prepare(&self, media: Traced) -> Result<Traced, String> {
        for line in 1..4 {
            store(&media, line, 0, 0);
            flush(&media, site!("script.create.line"), line);
        }
        media.fence(site!("script.create.fence"));
        Ok(media)
    }
    fn operation_count(&self) -> usize {
        self.operations
    }
    fn run(&self, media: &mut Traced, operation: usize) -> Result<(), String> {
        (self.run)(media, operation)
    }
    fn recover(&self, image: Traced) -> Result<Traced, String> {
        (self.recover)(&image)?;
        Ok(image)
    }
    fn verify(&self, media: &mut Traced, promise: &Promise) -> Result<(), String> {
        let Promise { acknowledged, cut, .. } = *promise;
        (self.verify)(media, acknowledged, cut)
    }
    fn is_crash(&self, operation: usize) -> bool {
        self.crashes.contains(&operation)
    }
}

fn set(media: &Traced, operation: usize) -> Result<(), String> {
    store(media, 1, 0, operation as u64 + 1);
    flush(media, site!("script.set"), 1);
    media.fence(site!("script.set.fence"));
    Ok(())
}

fn holds(media: &Traced, acknowledged: usize, cut: Option<usize>) -> Result<(), String> {
    let found = load(media, 1, 0) as usize;
    let end = cut.map_or(acknowledged, |cut| cut + 1);
    if (acknowledged..=end).contains(&found) {
        Ok(())
    } else {
        Err(format!("{found} instead of {acknowledged} to {end}"))
    }
}

fn first_error(report: &Report) -> &str {
    report.violations.first().map_or("none", |violation| violation.error.as_str())
}

#[test]
fn a_crash_point_costs_no_more_recoveries_than_it_may() {
    // Each recovery reads and writes sixteen lines, and may be cut after each store.
    let recover = |media: &Traced| {
        for line in 2..18 {
            let found = load(media, line, 0);
            store(media, line, 0, found + 1);
        }
        Ok(())
    };
    let explored = |recoveries| {
        let subject = Script { operations: 3, crashes: &[], run: set, recover, verify: holds };
        let options =
            Options { budget: 64, recovery_budget: 64, recoveries, follow_up: 0, ..options() };
        let options = Options { recovery_depth: 1, ..options };
        explore(&subject, &options).unwrap()
    };
    let (whole, bounded) = (explored(1 << 20), explored(40));
    assert!(
        !bounded.exhaustive
            && bounded.left_out > 0
            && bounded.sampled_points > 0
            && bounded.violations.is_empty()
    );
    // A point has two images, which are tried whatever they cost; what is inside their recoveries
    // fits in.
    let most = bounded.crash_points * (40 + 2);
    assert!(
        bounded.recoveries <= most && whole.recoveries > most,
        "{} and {}",
        bounded.recoveries,
        whole.recoveries
    );
    assert!(
        bounded.recoveries > bounded.crash_points * 20,
        "{}: what it may cost is used",
        bounded.recoveries
    );
}

#[test]
fn counts_are_those_counted_by_hand() {
    let subject = Script {
        operations: 2,
        crashes: &[],
        run: set,
        recover: |_: &Traced| Ok(()),
        verify: holds,
    };
    let report = explore(&subject, &Options { mutate: false, ..options() }).unwrap();
    // Before the first operation; in each operation after its store and after its fence; after each
    // operation.
    assert_eq!(report.crash_points, 1 + 2 * 3);
    // Nothing acknowledged: 0, 1. One: 1, 2. Two: 2.
    assert_eq!((report.states, report.recoveries), (5, 5));
    assert_eq!(
        (report.operations, report.exhaustive, report.left_out, report.seed),
        (2, true, 0, 1)
    );
    assert_eq!((report.mutants, report.mutants_killed), (None, None));
}

#[test]
fn a_report_depends_on_subject_and_options_only() {
    let tell = |report: Report| format!("{report:?}");
    let one = tell(explore(&ledger(ledger::Fault::LogNotPersisted, 3), &options()).unwrap());
    let two = tell(explore(&ledger(ledger::Fault::LogNotPersisted, 3), &options()).unwrap());
    assert_eq!(one, two);
}

#[test]
fn crashes_inside_recovery_are_found_only_where_they_are_looked_for() {
    let journal = || Toy { structure: Journal { adds_twice: true }, operations: 2 };
    let shallow = Options { recovery_depth: 0, mutate: false, ..options() };
    assert_eq!(first_error(&explore(&journal(), &shallow).unwrap()), "none");
    assert!(first_error(&explore(&journal(), &options()).unwrap()).contains("added twice"));
    let forgetful = || ledger(ledger::Fault::RecoveryForgetsItsEnd, 3);
    let no_follow_up = Options { follow_up: 0, mutate: false, ..options() };
    assert_eq!(first_error(&explore(&forgetful(), &no_follow_up).unwrap()), "none");
    assert_ne!(first_error(&explore(&forgetful(), &options()).unwrap()), "none");
}

#[test]
fn mutants_of_recovery_survive_where_its_crashes_are_not_explored() {
    let options = Options { follow_up: 0, ..options() };
    let report = explore(&ledger(ledger::Fault::None, 3), &options).unwrap();
    let survivors: Vec<_> = report.survivors.iter().map(ToString::to_string).collect();
    assert_eq!(survivors, ["ledger.recover.end", "ledger.recover.mark"]);
    assert_eq!((report.mutants, report.mutants_killed), (Some(14 + 4), Some(12 + 4)));
    assert!(
        report.killed.iter().any(|(mutant, error)| mutant.to_string() == "ledger.recover.a"
            && error.contains("do not make"))
    );
}

#[test]
fn groups_that_may_change_places_are_named() {
    // Two lines that have nothing to do with each other, each made durable by itself; then two
    // words of one line, of which the second one counts.
    let run = |media: &Traced, operation: usize| {
        for (line, word, fence) in [
            (2, 0, site!("groups.one")),
            (3, 0, site!("groups.two")),
            (1, 1, site!("groups.three")),
        ] {
            store(media, line, word, operation as u64 + 1);
            flush(media, site!("groups.line"), line);
            media.fence(fence);
        }
        set(media, operation)
    };
    let verify = |media: &Traced, acknowledged: usize, cut: Option<usize>| {
        holds(media, acknowledged, cut)?;
        let said = load(media, 1, 0);
        let older = said > 0
            && [(2, 0), (3, 0), (1, 1)].iter().any(|(line, word)| load(media, *line, *word) < said);
        if older { Err("something is older than the word says".to_string()) } else { Ok(()) }
    };
    let subject = Script { operations: 2, crashes: &[], run, recover: |_: &Traced| Ok(()), verify };
    let report = explore(&subject, &options()).unwrap();
    let names =
        |mutants: Vec<&Mutant>| mutants.into_iter().map(ToString::to_string).collect::<Vec<_>>();
    // One line keeps its order by itself: so the third fence is not needed; what it separates must
    // not change places all the same.
    let survivors =
        ["groups.one", "groups.three", "groups.two", "swap groups.one", "swap groups.two"];
    assert_eq!(names(report.survivors.iter().collect()), survivors);
    let killed = ["groups.line", "script.set", "script.set.fence", "swap groups.three"];
    assert_eq!(names(report.killed.iter().map(|(mutant, _)| mutant).collect()), killed);
    assert!(!report.is_good());
}

// ---- samples
// -------------------------------------------------------------------------------------------------

/// Writes twelve lines and only then the word that says so.
fn wide(media: &Traced, operation: usize) -> Result<(), String> {
    for line in 4..16 {
        store(media, line, 0, operation as u64 + 1);
        store(media, line, 1, operation as u64 + 1);
        flush(media, site!("wide.line"), line);
    }
    media.fence(site!("wide.fence"));
    set(media, operation)
}

fn wide_holds(media: &Traced, acknowledged: usize, cut: Option<usize>) -> Result<(), String> {
    holds(media, acknowledged, cut)?;
    let (all, said) =
        ((4..16).all(|line| load(media, line, 1) >= load(media, 1, 0)), load(media, 1, 0));
    if said == 0 || all { Ok(()) } else { Err("a line is older than the word says".to_string()) }
}

#[test]
fn what_a_sample_leaves_out_is_counted() {
    // Every word is read, so every image can be told from every other.
    let reads = |media: &Traced| {
        Ok((4..16).for_each(|line| _ = (load(media, line, 0), load(media, line, 1))))
    };
    let subject =
        Script { operations: 1, crashes: &[], run: wide, recover: reads, verify: wide_holds };
    let all = explore(&subject, &Options { budget: 1 << 20, mutate: false, ..options() }).unwrap();
    // Twelve lines of three outcomes each, then the word.
    assert_eq!((all.states, all.left_out, all.exhaustive), (3u64.pow(12) + 1 + 1, 0, true));
    let some = explore(&subject, &Options { budget: 100, mutate: false, ..options() }).unwrap();
    assert!(!some.exhaustive && some.violations.is_empty());
    assert!(
        some.left_out > 0 && some.states < 5000,
        "{} states, {} left out",
        some.states,
        some.left_out
    );
    // Nothing is counted as left out that was visited, nor missed: the points of the first phase
    // are disjoint.
    assert_eq!(some.states + some.left_out, all.states);
    assert_eq!((some.lazily_exhaustive_points, some.sampled_points > 0), (0, true));
}

#[test]
fn a_sample_contains_each_line_missing_alone() {
    // Only the image that lacks line 9, and nothing else, breaks.
    let picky = |media: &Traced, _: usize, _: Option<usize>| {
        let missing: Vec<usize> = (4..16).filter(|line| load(media, *line, 1) != 1).collect();
        if missing == [9] { Err("line 9 is missing".to_string()) } else { Ok(()) }
    };
    let subject = Script {
        operations: 1,
        crashes: &[],
        run: wide,
        recover: |_: &Traced| Ok(()),
        verify: picky,
    };
    let options = Options { budget: 40, mutate: false, ..options() };
    assert_eq!(first_error(&explore(&subject, &options).unwrap()), "line 9 is missing");
}

// ---- what a recovery may do wrong
// -----------------------------------------------------------------------------------

#[test]
fn a_panic_in_recovery_is_a_violation() {
    let fragile = |media: &Traced| {
        assert!(load(media, 1, 0) != 1, "one is not a number");
        Ok(())
    };
    let subject = Script { operations: 2, crashes: &[], run: set, recover: fragile, verify: holds };
    let report = explore(&subject, &options()).unwrap();
    assert_eq!(first_error(&report), "panicked: one is not a number");
}

#[test]
fn an_endless_recovery_is_a_violation() {
    let endless = |media: &Traced| {
        while load(media, 1, 0) == 1 {}
        Ok(())
    };
    let subject = Script { operations: 2, crashes: &[], run: set, recover: endless, verify: holds };
    let report = explore(&subject, &Options { access_limit: 10_000, ..options() }).unwrap();
    assert!(first_error(&report).contains("never to end"), "{}", first_error(&report));
}

#[test]
fn a_preparation_that_is_not_durable_is_a_violation() {
    struct Hasty;
    impl Subject for Hasty {
        type State = Traced;
        fn prepare(&self, media: Traced) -> Result<Traced, String> {
            store(&media, 1, 0, 7);
            Ok(media)
        }
        fn operation_count(&self) -> usize {
            0
        }
        fn run(&self, _: &mut Traced, _: usize) -> Result<(), String> {
            Ok(())
        }
        fn recover(&self, image: Traced) -> Result<Traced, String> {
            Ok(image)
        }
        fn verify(&self, media: &mut Traced, _: &Promise) -> Result<(), String> {
            if load(media, 1, 0) == 7 { Ok(()) } else { Err("garbage".to_string()) }
        }
    }
    let report = explore(&Hasty, &options()).unwrap();
    assert_eq!(report.violations[0].crashes[0].during, During::Prepare);
    assert!(report.violations[0].operations.is_empty());
}

#[test]
fn what_fails_without_a_crash_is_an_error_and_no_violation() {
    let refuse =
        |_: &Traced, operation: usize| if operation == 1 { Err("no".to_string()) } else { Ok(()) };
    let subject = Script {
        operations: 2,
        crashes: &[],
        run: refuse,
        recover: |_: &Traced| Ok(()),
        verify: holds,
    };
    let error = explore(&subject, &options()).unwrap_err();
    assert!(
        matches!(&error, ExploreError::Operation { operation: 1, message, .. } if message == "no"),
        "{error}"
    );
}

// ---- crashes and growth as operations
// -------------------------------------------------------------------------------

#[test]
fn a_crash_operation_leaves_what_is_durable_for_certain_and_goes_on() {
    // Word 2 is written without any barrier by operation 0; operation 1 is the crash; the recovery
    // counts crashes in line 3.
    let run = |media: &Traced, operation: usize| {
        if operation == 2 && load(media, 2, 0) != 0 {
            return Err("the crash has kept what was not durable".to_string());
        }
        store(media, 2, 0, operation as u64 + 1);
        set(media, operation)
    };
    let recover = |media: &Traced| {
        if load(media, 3, 0) < 100 {
            store(media, 3, 0, load(media, 3, 0) + 1);
            flush(media, site!("script.recover"), 3);
            media.fence(site!("script.recover.fence"));
        }
        Ok(())
    };
    // A crash operation changes nothing: after it the word still says what the operation before
    // said.
    let verify = |media: &Traced, acknowledged: usize, cut: Option<usize>| {
        let content = |operations: usize| if operations == 2 { 1 } else { operations as u64 };
        let (found, end) = (load(media, 1, 0), cut.map_or(acknowledged, |cut| cut + 1));
        let legal = (acknowledged..=end).any(|operations| content(operations) == found);
        if legal { Ok(()) } else { Err(format!("{found} between {acknowledged} and {end}")) }
    };
    let subject = Script { operations: 3, crashes: &[1], run, recover, verify };
    let report = explore(&subject, &Options { mutate: false, ..options() }).unwrap();
    assert_eq!(first_error(&report), "none");
    assert!(
        report.undeclared.iter().any(|site| site.name() == "script.recover"),
        "the recovery was explored"
    );
}

#[test]
fn memory_grows_under_the_explorer() {
    let run = |media: &Traced, operation: usize| {
        let offset = media.region().len();
        media.grow(offset + 4096).map_err(|e| e.to_string())?;
        let line = media.region().get::<Line>(PPtr::at(offset)).ok_or("not grown")?;
        media.store(&line.0[0], operation as u64 + 1);
        media.flush(site!("grow.line"), &line.0[0]);
        media.fence(site!("grow.fence"));
        set(media, operation)
    };
    let verify = |media: &Traced, acknowledged: usize, cut: Option<usize>| {
        holds(media, acknowledged, cut)?;
        let said = load(media, 1, 0);
        let page = |i: u64| {
            media.region().get::<Line>(PPtr::at(i * 4096)).map(|line| media.load(&line.0[0]))
        };
        let written = (1..=said).all(|i| page(i) == Some(i));
        if written { Ok(()) } else { Err(format!("not all of {said} pages are there")) }
    };
    let subject = Script { operations: 3, crashes: &[], run, recover: |_: &Traced| Ok(()), verify };
    let report = explore(&subject, &Options { max_len: 1 << 16, ..options() }).unwrap();
    assert_eq!(report.violations.first().map(ToString::to_string), None);
    assert!(report.is_good(), "survivors: {:?}", report.survivors);
}

// ---- counterexamples
// -------------------------------------------------------------------------------------------------

#[test]
fn a_counterexample_names_the_line_that_was_late() {
    let report = explore(
        &Toy { structure: Published(published::Fault::Unordered), operations: 3 },
        &options(),
    )
    .unwrap();
    let violation = &report.violations[0];
    assert_eq!(
        (violation.operations.as_slice(), violation.acknowledged, violation.cut),
        (&[0][..], 0, Some(0))
    );
    let crash = &violation.crashes[0];
    assert_eq!(
        (crash.during, crash.event),
        (During::Operation(0), 3),
        "right after the root's store"
    );
    // Line 2 is the root, line 3 the node: the root is durable, of the node nothing.
    let lines: Vec<_> =
        crash.lines.iter().map(|line| (line.line, line.durable.len(), line.lost.len())).collect();
    assert_eq!(lines, [(2, 1, 0), (3, 0, 2)]);
    let text = violation.to_string();
    for part in [
        "which is torn",
        "crash during operation 0, after event 3",
        "line +0x80 (flushed at published.P2.root): durable",
        "lost +0xc0 = 0x0",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    assert!(
        crash.around[crash.around.len() - 3].contains("crash")
            && text.contains("flush published.P1.node of line +0xc0")
    );
}

#[test]
fn lines_that_do_not_matter_are_wholly_durable_or_wholly_lost() {
    // Twelve lines are pending; it breaks as soon as line 9 has its first store and not its second.
    let picky = |media: &Traced, _: usize, _: Option<usize>| {
        let torn = load(media, 9, 0) == 1 && load(media, 9, 1) != 1;
        if torn { Err("line 9 is torn".to_string()) } else { Ok(()) }
    };
    let subject = Script {
        operations: 1,
        crashes: &[],
        run: wide,
        recover: |_: &Traced| Ok(()),
        verify: picky,
    };
    let report = explore(&subject, &Options { budget: 64, mutate: false, ..options() }).unwrap();
    for line in &report.violations[0].crashes[0].lines {
        let kept = line.durable.len();
        assert!(
            if line.line == 9 { kept == 1 } else { kept == line.stores || kept == 0 },
            "{line:?}"
        );
    }
}

/// Sets words of line 1 in any order; word 5 is never flushed.
struct Words {
    words: Vec<usize>,
}

impl Subject for Words {
    type State = Traced;
    fn prepare(&self, media: Traced) -> Result<Traced, String> {
        for word in 1..8 {
            store(&media, word, 0, 0);
            flush(&media, site!("words.create"), word);
        }
        media.fence(site!("words.create.fence"));
        Ok(media)
    }
    fn operation_count(&self) -> usize {
        self.words.len()
    }
    fn run(&self, media: &mut Traced, operation: usize) -> Result<(), String> {
        let word = self.words[operation];
        store(media, word, 0, 1);
        if word != 5 {
            flush(media, site!("words.set"), word);
        }
        media.fence(site!("words.fence"));
        Ok(())
    }
    fn recover(&self, image: Traced) -> Result<Traced, String> {
        Ok(image)
    }
    fn verify(&self, media: &mut Traced, promise: &Promise) -> Result<(), String> {
        // It is noticed only once word 2 is there too.
        let lost = self.words[..promise.floor()].iter().find(|word| load(media, **word, 0) == 0);
        match lost {
            Some(word) if load(media, 2, 0) == 1 => Err(format!("word {word} was lost")),
            _ => Ok(()),
        }
    }
    fn describe_operation(&self, operation: usize) -> String {
        format!("set {}", self.words[operation])
    }
    fn describe_line(&self, line: u64) -> Option<String> {
        Some(format!("word {line}"))
    }
    fn subset(&self, operations: &[usize]) -> Option<Self> {
        Some(Self { words: operations.iter().map(|operation| self.words[*operation]).collect() })
    }
}

#[test]
fn operations_that_do_not_matter_are_dropped() {
    let report = explore(&Words { words: vec![1, 3, 2, 4, 6, 5, 7, 1] }, &options()).unwrap();
    let violation = &report.violations[0];
    assert_eq!(violation.descriptions, ["set 2", "set 5"]);
    assert_eq!(violation.operations, [2, 5], "as the subject that was asked for numbers them");
    assert_eq!(
        (violation.crashes[0].during, violation.error.as_str()),
        (During::After(5), "word 5 was lost")
    );
    assert!(
        violation.to_string().contains(&format!("line +{:#x} (word 5): not durable", 5 * LINE))
    );
}

#[test]
fn violations_are_one_an_operation_up_to_the_limit() {
    let never = |_: &Traced, _: usize, _: Option<usize>| Err("never".to_string());
    let subject = Script {
        operations: 5,
        crashes: &[],
        run: set,
        recover: |_: &Traced| Ok(()),
        verify: never,
    };
    let report = explore(&subject, &Options { violation_limit: 3, ..options() }).unwrap();
    let during: Vec<During> =
        report.violations.iter().map(|violation| violation.crashes[0].during).collect();
    assert_eq!(during, [During::Prepare, During::Operation(0), During::After(0)]);
}

#[test]
fn progress_is_told() {
    let mut seen = Vec::new();
    explore_with(&ledger(ledger::Fault::None, 3), &options(), &mut |progress| seen.push(progress))
        .unwrap();
    assert!(matches!(seen[2], Progress::Operations { done: 2, of: 3, states } if states > 3));
    assert!(matches!(seen.last(), Some(Progress::Mutants { done: 17, of: 18 })));
    assert_eq!(Ledger(ledger::Fault::None).sites().len(), 14);
}
