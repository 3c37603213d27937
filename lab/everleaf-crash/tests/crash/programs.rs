//! Programs of several threads that were judged wrongly once.

use crate::toys::shared::{Act, Program, Shared};
use crate::toys::{load, store, write};
use everleaf_crash::{
    ConcurrentSubject, ExploreError, Options, Report, Step, ThreadOperations, Traced,
    explore_threads,
};
use everleaf_pmem::{Media, site};

const VALUE: usize = 1;
const LOG: usize = 2;

fn options() -> Options {
    Options { mutate: false, ..crate::toys::shared::options() }
}

/// One operation a thread.
fn each_alone(threads: u16) -> Vec<Step> {
    vec![Step::Concurrent(
        (1..=threads)
            .map(|thread| ThreadOperations { thread, operations: vec![usize::from(thread) - 1] })
            .collect(),
    )]
}

#[derive(Clone, Copy, Debug)]
enum Role {
    Setter,
    Copier,
    Reader,
}

/// The reader is deceived in one order only: it has read the first word, then the setter has run,
/// then the copier.
struct Deceived([Role; 3]);

impl ConcurrentSubject for Deceived {
    type State = Traced;
    type Content = ();
    type Outcome = ();

    fn steps(&self) -> Vec<Step> {
        each_alone(3)
    }
    fn prepare(&self, media: Traced) -> Result<Traced, String> {
        (0..2).for_each(|word| store(&media, VALUE, word, 0));
        Ok(media)
    }
    fn run(&self, media: &Traced, operation: usize) -> Result<(), String> {
        match self.0[operation] {
            Role::Setter => store(media, VALUE, 0, 1),
            Role::Copier if load(media, VALUE, 0) == 1 => store(media, VALUE, 1, 1),
            Role::Copier => {}
            Role::Reader if (load(media, VALUE, 0), load(media, VALUE, 1)) == (0, 1) => {
                return Err("a torn read".into());
            }
            Role::Reader => {}
        }
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

#[test]
fn of_three_threads_any_may_go_on_when_one_has_ended() {
    use Role::{Copier, Reader, Setter};
    for roles in [
        [Setter, Copier, Reader],
        [Setter, Reader, Copier],
        [Copier, Setter, Reader],
        [Copier, Reader, Setter],
        [Reader, Setter, Copier],
        [Reader, Copier, Setter],
    ] {
        let report = explore_threads(&Deceived(roles), &options()).expect("it runs");
        let error = report.violations.first().map(|violation| violation.error.as_str());
        assert_eq!(error, Some("a torn read"), "{roles:?}");
    }
}

/// A register whose writer of 1 waits a little first.
#[derive(Clone)]
struct Hesitant;

impl Shared for Hesitant {
    type Dram = ();
    fn create(&self, media: &Traced) {
        write(media, VALUE, 0, site!("hesitant.create"));
        media.fence(site!("hesitant.create.fence"));
    }
    fn act(&self, media: &Traced, (): &(), act: Act) -> Result<u64, String> {
        let Act::Set(value) = act else { return Ok(load(media, VALUE, 0)) };
        if value == 1 {
            media.relax();
        }
        write(media, VALUE, value, site!("hesitant.value"));
        media.fence(site!("hesitant.fence"));
        Ok(0)
    }
    fn value(&self, media: &Traced) -> Result<u64, String> {
        Ok(load(media, VALUE, 0))
    }
}

#[test]
fn a_step_begins_with_what_its_predecessors_leave_thread_after_thread() {
    let program = Program::new(Hesitant, &[&[&[Act::Set(1)], &[Act::Set(2)]], &[&[Act::Get]]]);
    assert_eq!(explore_threads(&program, &options()).expect("it runs").violations, []);
}

#[test]
fn more_operations_in_a_step_than_a_promise_can_be_made_of_are_refused() {
    let many: Vec<Act> = vec![Act::Get; 64];
    let program = Program::new(Hesitant, &[&[&many, &[Act::Set(2)]]]);
    let refused = explore_threads(&program, &options());
    assert!(
        matches!(refused, Err(ExploreError::Operations { step: 0, operations: 65, limit: 64 })),
        "{refused:?}"
    );
}

/// Two counters behind a log, whose recovery does again what the log says and returns before that
/// is durable; an operation begins with a fence, which is no help to a recovery on another thread.
struct Counters;

const COUNTERS: [usize; 2] = [3, 4];

impl ConcurrentSubject for Counters {
    type State = Traced;
    type Content = [u64; 2];
    type Outcome = ();

    fn steps(&self) -> Vec<Step> {
        (1..=2)
            .map(|thread| {
                Step::Concurrent(vec![ThreadOperations {
                    thread,
                    operations: vec![usize::from(thread) - 1],
                }])
            })
            .collect()
    }
    fn prepare(&self, media: Traced) -> Result<Traced, String> {
        [LOG, COUNTERS[0], COUNTERS[1]]
            .iter()
            .for_each(|line| write(&media, *line, 0, site!("counters.create")));
        media.fence(site!("counters.create.fence"));
        Ok(media)
    }
    fn run(&self, media: &Traced, operation: usize) -> Result<(), String> {
        media.fence(site!("counters.first.fence"));
        let line = COUNTERS[operation % 2];
        let next = load(media, line, 0) + 1;
        write(media, LOG, line as u64 + 10 * next, site!("counters.log"));
        media.fence(site!("counters.log.fence"));
        write(media, line, next, site!("counters.value"));
        media.fence(site!("counters.value.fence"));
        write(media, LOG, 0, site!("counters.reset"));
        media.fence(site!("counters.reset.fence"));
        Ok(())
    }
    fn recover(&self, image: Traced) -> Result<Traced, String> {
        let log = load(&image, LOG, 0);
        if log != 0 {
            write(&image, (log % 10) as usize, log / 10, site!("counters.recover"));
        }
        Ok(image)
    }
    fn content(&self, media: &Traced) -> Result<[u64; 2], String> {
        Ok(COUNTERS.map(|line| load(media, line, 0)))
    }
    fn apply(&self, content: &mut [u64; 2], operation: usize) {
        content[operation % 2] += 1;
    }
    fn describe_operation(&self, operation: usize) -> String {
        format!("count {operation}")
    }
}

#[test]
fn the_fences_of_what_follows_a_recovery_do_not_complete_its_flushes() {
    let report: Report =
        explore_threads(&Counters, &Options { follow_up: 2, ..options() }).expect("it runs");
    let violation = report
        .violations
        .first()
        .expect("the recovery's counter is lost when the other operation takes the log");
    assert_eq!(violation.crashes.len(), 2, "{violation}");
}
