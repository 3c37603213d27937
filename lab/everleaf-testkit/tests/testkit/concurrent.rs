//! Subjects with threads: an engine for one thread behind a lock is sound in every interleaving,
//! and answers are those of the specification.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use everleaf::Engine;
use everleaf_crash::{ConcurrentSubject, Options, Report, Traced, explore_threads};
use everleaf_pmem::Media;
use everleaf_testkit::{
    Answer, ConcurrentEngineSubject, EngineSubject, Key, Level, Operation, Scenario, ScriptKeys,
    Target,
};

/// A target behind one lock, whose holder the others wait for in a loop of `relax`.
struct BehindLock {
    target: Box<dyn Target>,
    media: Traced,
    taken: AtomicBool,
}

impl BehindLock {
    fn alone<R>(&self, run: impl FnOnce(&dyn Target) -> R) -> R {
        while self.taken.swap(true, Ordering::Acquire) {
            self.media.relax();
        }
        let result = run(&*self.target);
        self.taken.store(false, Ordering::Release);
        result
    }
}

impl Target for BehindLock {
    fn apply(&self, operation: &Operation) -> Result<(), String> {
        self.alone(|target| target.apply(operation))
    }
    fn answer(&self, operation: &Operation) -> Result<Answer, String> {
        self.alone(|target| target.answer(operation))
    }
    fn content(&self) -> Result<BTreeMap<Key, u64>, String> {
        self.target.content()
    }
    fn check(&self) -> Result<(), String> {
        self.target.check()
    }
    fn close(self: Box<Self>) -> Result<(), String> {
        self.target.close()
    }
}

fn behind_a_lock(target: Box<dyn Target>, media: &Traced) -> Box<dyn Target> {
    Box::new(BehindLock { target, media: media.clone(), taken: AtomicBool::new(false) })
}

fn explored(scenario: Scenario, options: &Options) -> Report {
    let subject = EngineSubject::new(
        Engine::FPTREE,
        EngineSubject::tiny_parameters(Engine::FPTREE),
        Level::Index,
        scenario,
    );
    explore_threads(&ConcurrentEngineSubject::new(subject).sharing(behind_a_lock), options)
        .expect("it runs")
}

fn options() -> Options {
    Options {
        len: 96 << 10,
        max_len: 256 << 10,
        budget: 64,
        recovery_budget: 8,
        interleavings_beyond: 10,
        access_limit: 100_000,
        ..Options::default()
    }
}

#[test]
fn a_tree_behind_one_lock_is_sound_in_every_interleaving() {
    let script = "insert 5 1\ninsert 3 1\ninsert 7 1\nexplore\nthread 1 insert 4 2\nthread 2 \
        remove 4\nreopen\nthread 1 get 4\nthread 2 insert 6 1";
    for keys in [ScriptKeys::U64, ScriptKeys::Bytes] {
        let report = explored(
            Scenario::parse(script, Some(keys)).unwrap(),
            &Options { preemption_bound: 1, ..options() },
        );
        assert_eq!(report.violations.first().map(ToString::to_string), None);
        assert!(report.interleavings > Some(50), "{:?}", report.interleavings);
        assert_eq!((report.operations, report.interleavings_left_out), (5, 0));
        assert_eq!(report.undeclared, []);
    }
}

#[test]
fn random_programs_of_threads_survive() {
    for (keys, seed) in [(ScriptKeys::U64, 1), (ScriptKeys::Bytes, 2)] {
        let options = Options { interleavings: 20, interleavings_beyond: 5, ..options() };
        let report = explored(Scenario::random_threads(keys, 12, 3, seed), &options);
        assert_eq!(report.violations.first().map(ToString::to_string), None, "seed {seed}");
    }
}

#[test]
fn answers_are_those_of_the_specification() {
    let script = "insert 1 1\ninsert 1 2\nget 1\nupdate 1 3\nupdate 2 3\nupsert 2 4\nupsert 2 \
        5\nremove 1\nremove 1\nget 1\nsync";
    let scenario = Scenario::parse(script, None).unwrap();
    for level in [Level::Index, Level::Store] {
        let tiny = EngineSubject::tiny_parameters(Engine::FPTREE);
        let subject = EngineSubject::new(Engine::FPTREE, tiny, level, scenario.clone());
        let subject = ConcurrentEngineSubject::new(subject);
        let opened = subject.prepare(Traced::new(96 << 10, 96 << 10, 1).unwrap()).unwrap();
        let mut content = BTreeMap::new();
        for (place, operation) in scenario.explore.iter().enumerate() {
            assert_eq!(
                subject.run(&opened, place).unwrap(),
                subject.apply(&mut content, place),
                "{operation}"
            );
            assert_eq!(subject.content(&opened).unwrap(), content);
        }
    }
}
