//! Programs of several threads: each broken structure is caught, for the reason that it was broken
//! for, and its repaired twin passes; what the scheduler promises about itself.

use crate::toys::shared::{
    Act, Fault, LockFree, Locked, Opposed, PersistentLock, Program, Shared, Versioned, options,
};
use crate::toys::{load, store};
use everleaf_crash::{
    ConcurrentSubject, ExploreError, Interleaving, Options, Progress, Report, Step,
    ThreadOperations, Traced, Violation, explore_interleaving, explore_threads,
    explore_threads_with,
};

const GET_AND_SET: &[&[&[Act]]] = &[&[&[Act::Get], &[Act::Set(5)]]];
const TWO_ADDS: &[&[&[Act]]] = &[&[&[Act::Add], &[Act::Add]]];

#[track_caller]
fn assert_caught(program: &impl ConcurrentSubject, error: &str) -> Violation {
    let report = explore_threads(program, &options()).expect("it runs");
    let violation = report.violations.first().expect("a violation").clone();
    assert!(violation.error.contains(error), "expected {error:?}, found\n{violation}");
    assert!(!report.exhaustive && report.mutants.is_none(), "a broken program is not mutated");
    violation
}

#[track_caller]
fn assert_sound(program: &impl ConcurrentSubject) -> Report {
    let report = explore_threads(program, &options()).expect("it runs");
    assert_eq!(report.violations.first().map(ToString::to_string), None);
    assert!(report.exhaustive && report.left_out == 0 && report.interleavings_left_out == 0);
    assert_eq!(report.preemption_bound, Some(2));
    report
}

// ---- what threads get wrong
// ---------------------------------------------------------------------------------------------

#[test]
fn a_read_of_what_is_not_durable_is_caught() {
    let violation = assert_caught(
        &Program::new(Locked(Fault::ReadsNotDurable), GET_AND_SET),
        "the content is 0; what was returned promises 5",
    );
    let text = violation.to_string();
    for part in [
        "thread 1: Get: returned 5",
        "thread 2: Set(5): in flight",
        "interleaving 0:",
        "thread 2: store +0x40",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

#[test]
fn a_lock_that_is_released_before_the_value_is_durable_is_caught() {
    assert_caught(
        &Program::new(Locked(Fault::ReleasesTooEarly), GET_AND_SET),
        "what was returned promises 5",
    );
}

#[test]
fn a_fence_completes_no_flush_of_another_thread() {
    assert_caught(
        &Program::new(Locked(Fault::FencesForAnother), GET_AND_SET),
        "what was returned promises 5",
    );
}

#[test]
fn reading_under_the_lock_is_sound() {
    let report = assert_sound(&Program::new(Locked(Fault::None), GET_AND_SET));
    assert_eq!((report.mutants, report.mutants_killed), (Some(2), Some(2)));
    assert_sound(&Program::new(Locked(Fault::None), TWO_ADDS));
}

#[test]
fn a_reader_that_makes_durable_what_it_saw_is_sound_and_needs_its_barriers() {
    let report = assert_sound(&Program::new(Locked(Fault::FlushesWhatItReads), GET_AND_SET));
    assert_eq!(
        (report.mutants, report.mutants_killed),
        (Some(4), Some(4)),
        "survivors: {:?}",
        report.survivors
    );
}

#[test]
fn a_lost_update_is_caught_without_any_crash() {
    let violation = assert_caught(
        &Program::new(Locked(Fault::NoLock), TWO_ADDS),
        "without any crash: the content is 1; what was returned",
    );
    assert!(violation.crashes.is_empty());
    assert_eq!(
        violation.interleaving.map(|interleaving| interleaving.preemptions.len()),
        Some(1),
        "the fewest that do it"
    );
}

#[test]
fn exchanging_atomically_is_sound() {
    assert_sound(&Program::new(LockFree, TWO_ADDS));
    assert_sound(&Program::new(LockFree, &[&[&[Act::Add, Act::Get], &[Act::Set(9)]]]));
}

#[test]
fn a_torn_read_is_caught_and_a_version_prevents_it() {
    assert_caught(
        &Program::new(
            Versioned { reads_torn: true },
            &[&[&[Act::Get], &[Act::Set(5), Act::Set(6)]]],
        ),
        "torn",
    );
    assert_sound(&Program::new(Versioned { reads_torn: false }, GET_AND_SET));
}

#[test]
fn a_lock_that_survives_the_crash_is_caught_and_does_not_hang() {
    let program = |recovery_clears| Program::new(PersistentLock { recovery_clears }, GET_AND_SET);
    assert_caught(&program(false), "never to end");
    assert_sound(&program(true));
}

#[test]
fn a_deadlock_is_caught_and_does_not_hang() {
    let program = |ordered| Program::new(Opposed { ordered }, &[&[&[Act::Set(1)], &[Act::Add]]]);
    let violation = assert_caught(&program(false), "deadlock: every thread waits for another one");
    assert!(violation.to_string().contains("in flight"));
    assert_sound(&program(true));
}

// ---- interleavings
// -------------------------------------------------------------------------------------------------

/// Loads a word so often; then thread 2 panics if it comes to it in the midst of thread 1.
#[derive(Clone)]
struct Loads {
    counts: [usize; 2],
    panics: bool,
}

impl Shared for Loads {
    type Dram = ();
    fn create(&self, media: &Traced) {
        store(media, 1, 0, 0);
        store(media, 1, 1, 0);
    }
    fn act(&self, media: &Traced, (): &(), act: Act) -> Result<u64, String> {
        let thread = usize::from(act != Act::Get);
        (0..self.counts[thread]).for_each(|_| _ = load(media, 1, 0));
        if self.panics {
            assert!(thread == 0 || load(media, 1, 1) == 0, "in the midst");
            store(media, 1, 1, u64::from(thread == 0));
            store(media, 1, 1, 0);
        }
        Ok(0)
    }
    fn value(&self, _: &Traced) -> Result<u64, String> {
        Ok(0)
    }
}

/// The operations do nothing, whatever they are called.
struct Nothing<S: Shared>(Program<S>);

impl<S: Shared> ConcurrentSubject for Nothing<S> {
    type State = (Traced, S::Dram);
    type Content = u64;
    type Outcome = u64;
    fn steps(&self) -> Vec<Step> {
        self.0.steps()
    }
    fn prepare(&self, media: Traced) -> Result<Self::State, String> {
        self.0.prepare(media)
    }
    fn run(&self, state: &Self::State, operation: usize) -> Result<u64, String> {
        self.0.run(state, operation)
    }
    fn recover(&self, image: Traced) -> Result<Self::State, String> {
        self.0.recover(image)
    }
    fn content(&self, state: &Self::State) -> Result<u64, String> {
        self.0.content(state)
    }
    fn apply(&self, _: &mut u64, _: usize) -> u64 {
        0
    }
}

fn loads(counts: [usize; 2], panics: bool) -> Nothing<Loads> {
    Nothing(Program::new(Loads { counts, panics }, &[&[&[Act::Get], &[Act::Add]]]))
}

#[test]
fn interleavings_are_those_counted_by_hand() {
    let run = |bound, interleavings| {
        let options = Options {
            preemption_bound: bound,
            interleavings,
            interleavings_beyond: 0,
            ..options()
        };
        let report = explore_threads(&loads([3, 4], false), &options).unwrap();
        (report.interleavings.unwrap(), report.interleavings_left_out, report.exhaustive)
    };
    // Either thread first; then preempted before any of its accesses; then the other before any of
    // its own.
    assert_eq!(run(0, 1000), (2, 0, true));
    assert_eq!(run(1, 1000), (2 + 3 + 4, 0, true));
    assert_eq!(run(2, 1000), (2 + 3 + 4 + 3 * 4 + 4 * 3, 0, true));
    // Where there are more than allowed, it is said how many are missing.
    assert_eq!(run(2, 12), (12, 24 - 3, false));
}

/// Interleavings of a thread that runs, with `p` points left, and another one with `q`: it is not
/// preempted any more, or at one of its points, and then it is the other one that runs.
fn count(p: u64, q: u64) -> u64 {
    1 + (0..p).map(|rest| count(q, rest)).sum::<u64>()
}

#[test]
fn all_interleavings_of_short_threads_are_found_with_enough_preemptions() {
    assert_eq!(count(2, 2), 10);
    for (n, m) in [(1, 1), (2, 2), (3, 1), (3, 4)] {
        let options = Options { preemption_bound: 8, interleavings_beyond: 0, ..options() };
        let report = explore_threads(&loads([n as usize, m as usize], false), &options).unwrap();
        assert_eq!(
            (report.interleavings, report.exhaustive),
            (Some(count(n, m) + count(m, n)), true),
            "{n} and {m} accesses"
        );
    }
}

#[test]
fn a_panic_in_a_thread_is_a_violation() {
    let report = explore_threads(&loads([1, 1], true), &options()).unwrap();
    let violation = &report.violations[0];
    assert!(violation.error.contains("panicked: in the midst"), "{violation}");
    assert!(violation.crashes.is_empty());
}

#[test]
fn a_violation_is_found_again_from_its_interleaving_and_from_its_seed() {
    let program = Program::new(Locked(Fault::ReadsNotDurable), GET_AND_SET);
    let report = explore_threads(&program, &options()).unwrap();
    let violation = &report.violations[0];
    let text = violation.interleaving.as_ref().unwrap().to_string();
    let again =
        explore_interleaving(&program, &options(), &text.parse::<Interleaving>().unwrap()).unwrap();
    assert_eq!((&again.violations[0].error, again.interleavings), (&violation.error, Some(1)));
    assert_eq!(again.violations[0].to_string(), violation.to_string());
    // Without preemptions nothing is systematic: chance finds it, and finds it again.
    let by_chance =
        Options { preemption_bound: 0, interleavings_beyond: 200, seed: 7, ..options() };
    let (one, two) = (
        explore_threads(&program, &by_chance).unwrap(),
        explore_threads(&program, &by_chance).unwrap(),
    );
    assert!(!one.violations.is_empty());
    assert_eq!(format!("{one:?}"), format!("{two:?}"));
    let chosen = one.violations[0].interleaving.clone().unwrap();
    assert_eq!(
        explore_interleaving(&program, &options(), &chosen).unwrap().violations[0].error,
        one.violations[0].error
    );
}

#[test]
fn an_interleaving_that_the_program_does_not_have_is_refused() {
    let program = Program::new(Locked(Fault::None), GET_AND_SET);
    for text in ["7:1", "0:9", "0:1,1@5000>2", "0:1,2@0>1"] {
        let error = explore_interleaving(&program, &options(), &text.parse().unwrap()).unwrap_err();
        assert!(matches!(error, ExploreError::NoSuchInterleaving { .. }), "{text}: {error}");
    }
}

// ---- programs
// -------------------------------------------------------------------------------------------------

#[test]
fn steps_follow_each_other_and_a_crash_may_be_one() {
    let steps: &[&[&[Act]]] =
        &[&[&[Act::Add], &[Act::Add]], &[&[Act::Get], &[Act::Set(7)]], &[&[Act::Add]]];
    let report = assert_sound(&Program::new(Locked(Fault::None), steps));
    assert_eq!(report.operations, 5);
    let report =
        assert_sound(&Program::new(PersistentLock { recovery_clears: true }, steps).with_crash());
    assert!(report.interleavings > Some(100));
    let violation = assert_caught(
        &Program::new(Locked(Fault::ReadsNotDurable), steps),
        "what was returned promises 7",
    );
    assert!(
        violation.operations.iter().all(|operation| [2, 3].contains(operation)),
        "neither the step before it nor the last one has anything to do with it"
    );
    assert_eq!(
        violation.interleaving.map(|interleaving| interleaving.step),
        Some(0),
        "of what is left"
    );
    assert_eq!(violation.found_in.map(|interleaving| interleaving.step), Some(1));
}

// ---- smaller counterexamples
// ----------------------------------------------------------------------------------------------

#[test]
fn operations_and_threads_that_do_not_matter_are_dropped() {
    // Only the reader that does not wait for the lock, and one write, are needed.
    let steps: &[&[&[Act]]] = &[
        &[&[Act::Add], &[Act::Add]],
        &[&[Act::Get, Act::Add, Act::Get], &[Act::Set(5), Act::Get, Act::Set(6)], &[Act::Add]],
    ];
    let program = Program::new(Locked(Fault::ReadsNotDurable), steps);
    let report = explore_threads(&program, &options()).unwrap();
    let violation = &report.violations[0];
    assert_eq!(violation.operations.len(), 2, "{violation}");
    let text = violation.to_string();
    assert!(
        text.contains("Get: returned")
            && text.contains("of these operations alone; of all of them 1:"),
        "{text}"
    );
    // What is named runs again, as a program of its own, and the first one in the whole.
    let mut kept = violation.operations.clone();
    kept.sort_unstable();
    let smaller = program.subset(&kept).unwrap();
    let again =
        explore_interleaving(&smaller, &options(), violation.interleaving.as_ref().unwrap())
            .unwrap();
    assert_eq!(again.violations[0].error, violation.error);
    let again =
        explore_interleaving(&program, &options(), violation.found_in.as_ref().unwrap()).unwrap();
    assert_eq!(again.violations.len(), 1);
}

#[test]
fn a_complaint_without_a_crash_stays_the_same_when_operations_are_dropped() {
    let steps: &[&[&[Act]]] = &[&[&[Act::Get, Act::Set(1)], &[Act::Add, Act::Get], &[Act::Get]]];
    let violation = assert_caught(&Program::new(Opposed { ordered: false }, steps), "deadlock");
    assert_eq!(violation.operations.len(), 2, "{violation}");
    let violation = assert_caught(
        &Program::new(Locked(Fault::NoLock), &[&[&[Act::Get, Act::Add], &[Act::Add, Act::Get]]]),
        "without any crash",
    );
    assert_eq!(violation.descriptions.len(), 2, "{violation}");
}

#[test]
fn preemptions_that_do_not_matter_are_dropped() {
    // Chance preempts often; a lost update needs it once.
    let program = Program::new(
        Locked(Fault::NoLock),
        &[&[&[Act::Add, Act::Get, Act::Get], &[Act::Add, Act::Get, Act::Get]]],
    );
    for seed in 1..20 {
        let by_chance =
            Options { preemption_bound: 0, interleavings_beyond: 200, seed, ..options() };
        let report = explore_threads(&program, &by_chance).unwrap();
        let interleaving = report.violations[0].interleaving.as_ref().unwrap();
        assert_eq!(interleaving.preemptions.len(), 1, "seed {seed}: {}", report.violations[0]);
    }
}

#[test]
fn three_threads_run_as_well() {
    let report = assert_sound(&Program::new(LockFree, &[&[&[Act::Add], &[Act::Add], &[Act::Get]]]));
    assert!(report.interleavings > Some(200), "{:?}", report.interleavings);
    assert!(report.interleavings_beyond > 0);
}

#[test]
fn a_step_names_different_threads_and_not_too_many() {
    struct Crowd(Vec<u16>);
    impl ConcurrentSubject for Crowd {
        type State = Traced;
        type Content = ();
        type Outcome = ();
        fn steps(&self) -> Vec<Step> {
            let operations = vec![0];
            vec![Step::Concurrent(
                self.0
                    .iter()
                    .map(|thread| ThreadOperations {
                        thread: *thread,
                        operations: operations.clone(),
                    })
                    .collect(),
            )]
        }
        fn prepare(&self, media: Traced) -> Result<Traced, String> {
            Ok(media)
        }
        fn run(&self, _: &Traced, _: usize) -> Result<(), String> {
            Ok(())
        }
        fn recover(&self, image: Traced) -> Result<Traced, String> {
            Ok(image)
        }
        fn content(&self, _: &Traced) -> Result<(), String> {
            Ok(())
        }
        fn apply(&self, (): &mut (), _: usize) {}
    }
    assert!(explore_threads(&Crowd(vec![1, 2]), &options()).is_ok());
    for threads in [vec![1, 1], (1..30).collect()] {
        assert!(matches!(
            explore_threads(&Crowd(threads), &options()),
            Err(ExploreError::Threads { step: 0, limit: 16 })
        ));
    }
}

#[test]
fn progress_is_told() {
    let mut runs = Vec::new();
    let mut note = |progress| {
        if let Progress::Interleavings { run, .. } = progress {
            runs.push(run);
        }
    };
    let report =
        explore_threads_with(&Program::new(LockFree, TWO_ADDS), &options(), &mut note).unwrap();
    assert_eq!(runs.last().copied(), report.interleavings);
}
