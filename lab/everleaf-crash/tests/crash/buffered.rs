//! A structure that acknowledges epochs and not operations: a crash must leave the end of one.

use std::sync::atomic::{AtomicBool, Ordering};

use everleaf_crash::{
    Acknowledges, ConcurrentSubject, Options, Report, Step, ThreadOperations, Traced, explore,
    explore_threads,
};
use everleaf_pmem::Media;

use crate::toys::epochs::Act::{self, Add, Crash, Epoch, Sync};
use crate::toys::epochs::{self, Counter, Fault};
use crate::toys::options;

const PROGRAM: &[Act] = &[Add, Add, Epoch, Add, Sync, Add, Epoch, Add, Sync, Add];

fn explored(fault: Fault, program: &[Act], mutate: bool) -> Report {
    let subject = Counter { fault, program: program.to_vec() };
    explore(&subject, &Options { mutate, ..options() }).expect("nothing fails without a crash")
}

#[test]
fn a_buffered_counter_keeps_whole_epochs_and_needs_each_of_its_barriers() {
    let report = explored(Fault::None, PROGRAM, true);
    assert_eq!(report.violations, []);
    assert!(report.exhaustive);
    assert_eq!(report.survivors, [], "{:?}", report.killed);
    assert_eq!(report.unreached, []);
}

#[test]
fn each_mistake_in_a_buffered_counter_is_found() {
    for (fault, error) in [
        (Fault::NotLogged, "one line has 0, the other 1"),
        (Fault::LoggedTooLate, "one line has 1, the other 0"),
        (Fault::SealedTooEarly, "one line has"),
        (Fault::SyncDoesNotWait, "the counter is 2 after 5 operations"),
        (Fault::UndoneTooMuch, "one line has"),
        (Fault::RecoverySealsTooEarly, "one line has"),
    ] {
        let report = explored(fault, PROGRAM, false);
        let violation = report.violations.first().unwrap_or_else(|| panic!("{fault:?}: missed"));
        assert!(violation.error.contains(error), "{fault:?}: {violation}");
    }
}

#[test]
fn what_a_strict_structure_would_owe_is_not_asked_of_a_buffered_one() {
    // The same, judged as if each operation acknowledged itself.
    let report = explored(Fault::None, &[Add, Sync], false);
    assert_eq!(report.violations, []);
    let subject = Judged { counter: Counter { fault: Fault::None, program: vec![Add, Sync] } };
    let report = explore(&subject, &Options { mutate: false, ..options() }).unwrap();
    assert_eq!(report.violations[0].error, "the counter is 0 after 1 operations");
}

#[test]
fn a_crash_among_the_operations_loses_the_open_epoch_and_what_follows_goes_on_without_it() {
    let program = [Add, Sync, Add, Add, Crash, Add, Epoch, Add, Crash, Add, Sync];
    let report = explored(Fault::None, &program, false);
    assert_eq!(report.violations, []);
    let report = explored(Fault::SyncDoesNotWait, &program, false);
    assert!(!report.violations.is_empty());
}

/// A counter that claims to be strict.
struct Judged {
    counter: Counter,
}

impl everleaf_crash::Subject for Judged {
    type State = Traced;
    fn prepare(&self, media: Traced) -> Result<Traced, String> {
        self.counter.prepare(media)
    }
    fn operation_count(&self) -> usize {
        self.counter.operation_count()
    }
    fn run(&self, media: &mut Traced, operation: usize) -> Result<(), String> {
        self.counter.run(media, operation)
    }
    fn recover(&self, image: Traced) -> Result<Traced, String> {
        self.counter.recover(image)
    }
    fn verify(&self, media: &mut Traced, promise: &everleaf_crash::Promise) -> Result<(), String> {
        self.counter.verify(media, promise)
    }
}

// ---- threads
// -------------------------------------------------------------------------------------------------

/// The counter used by several threads, each operation under one lock.
struct Threads {
    fault: Fault,
    /// Whether what ends an epoch waits for the operation that is running.
    waits: bool,
    /// One list of acts for each thread.
    programs: Vec<Vec<Act>>,
}

struct Shared {
    media: Traced,
    locked: AtomicBool,
}

impl Shared {
    fn locked<T>(&self, act: impl FnOnce() -> T) -> T {
        while self.locked.swap(true, Ordering::Acquire) {
            self.media.relax();
        }
        let done = act();
        self.locked.store(false, Ordering::Release);
        done
    }
}

impl Threads {
    fn act(&self, operation: usize) -> Act {
        self.programs.concat()[operation]
    }
}

impl ConcurrentSubject for Threads {
    type State = Shared;
    type Content = u64;
    type Outcome = ();

    fn steps(&self) -> Vec<Step> {
        let mut first = 0;
        let threads = self.programs.iter().enumerate().map(|(i, program)| {
            let operations = (first..first + program.len()).collect();
            first += program.len();
            ThreadOperations { thread: i as u16 + 1, operations }
        });
        vec![Step::Concurrent(threads.collect())]
    }
    fn prepare(&self, media: Traced) -> Result<Shared, String> {
        epochs::create(&media);
        Ok(Shared { media, locked: AtomicBool::new(false) })
    }
    fn run(&self, state: &Shared, operation: usize) -> Result<(), String> {
        match self.act(operation) {
            Act::Add => state.locked(|| epochs::add(self.fault, &state.media)),
            act => {
                let end = || epochs::end_epoch(self.fault, &state.media, act == Act::Sync);
                if self.waits { state.locked(end) } else { end() }
            }
        }
        Ok(())
    }
    fn recover(&self, media: Traced) -> Result<Shared, String> {
        epochs::recover(self.fault, &media);
        Ok(Shared { media, locked: AtomicBool::new(false) })
    }
    fn content(&self, state: &Shared) -> Result<u64, String> {
        epochs::value(&state.media)
    }
    fn apply(&self, content: &mut u64, operation: usize) {
        *content += u64::from(self.act(operation) == Act::Add);
    }
    fn acknowledges(&self, operation: usize) -> Acknowledges {
        match self.act(operation) {
            Act::Add => Acknowledges::Nothing,
            Act::Epoch => Acknowledges::EndOfEpoch,
            _ => Acknowledges::Everything,
        }
    }
}

fn with_threads(fault: Fault, waits: bool) -> Report {
    let programs = vec![vec![Add, Add, Sync], vec![Epoch, Add]];
    let options = Options { access_limit: 50_000, mutate: false, ..options() };
    explore_threads(&Threads { fault, waits, programs }, &options).expect("the threads run")
}

#[test]
fn a_crash_leaves_a_consistent_cut_of_what_threads_have_done() {
    let report = with_threads(Fault::None, true);
    assert_eq!(report.violations, []);
    assert!(report.exhaustive);
}

#[test]
fn an_epoch_that_ends_in_the_middle_of_an_operation_is_found() {
    let report = with_threads(Fault::None, false);
    assert!(report.violations[0].error.contains("one line has"), "{}", report.violations[0]);
}

#[test]
fn a_sync_that_does_not_wait_is_found_with_threads() {
    let report = with_threads(Fault::SyncDoesNotWait, true);
    assert!(report.violations[0].error.contains("the content is"), "{}", report.violations[0]);
}
