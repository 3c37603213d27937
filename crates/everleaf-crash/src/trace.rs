//! Recording what the operations do to memory, and reading such records.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use everleaf_pmem::{Event, LINE, MapError, Site, Traced, WORD};

use crate::known::Moment;
use crate::machine::{Machine, ONLY_THREAD};
use crate::{Assumptions, Interleaving, Options, Subject};

/// Why an exploration could not be made. That a structure is wrong is no such reason: that is a
/// [`Violation`](crate::Violation).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExploreError {
    /// No memory.
    #[error("no memory for the exploration; free some, or choose a smaller pool")]
    Memory(#[from] MapError),
    /// The preparation failed, without any crash.
    #[error("the preparation failed before any crash was tried: {message}")]
    Prepare {
        /// What the subject said.
        message: String,
    },
    /// An operation failed, without any crash.
    #[error("operation {operation} ({description}) failed before any crash was tried: {message}")]
    Operation {
        /// Its index.
        operation: usize,
        /// The operation in words.
        description: String,
        /// What the subject said.
        message: String,
    },
    /// A step before the one that was to be explored failed, or its threads could not be run.
    #[error("step {step} could not be reached: {message}")]
    Step {
        /// Its index.
        step: usize,
        /// What the subject said.
        message: String,
    },
    /// A step has more threads than can be scheduled, or one of them twice.
    #[error("step {step} must name different threads, at most {limit}")]
    Threads {
        /// Its index.
        step: usize,
        /// The most threads.
        limit: usize,
    },
    /// The program does not do what it was asked to do, or did before.
    #[error("the program has no interleaving {interleaving}, or does not always do the same (a random hash table, a clock)")]
    NoSuchInterleaving {
        /// The interleaving.
        interleaving: Interleaving,
    },
}

/// What one operation did, or several that ran concurrently.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace {
    pub events: Vec<Event>,
    /// The thread of each event; empty if there is but one.
    pub threads: Vec<u16>,
    /// What is promised after so many events; empty if it is the same all the time.
    pub moments: Vec<Moment>,
    /// The thread that it ran on, where there is but one.
    pub ran_on: u16,
    /// What grown memory held before anything was stored there, by word from offset 0; empty if nothing grew.
    pub fresh: Vec<u64>,
}

/// One step of a recording.
pub(crate) struct Step {
    /// The operation was a crash, and this is what it left.
    pub restart: Option<Vec<u64>>,
    pub trace: Trace,
}

/// What all operations did.
pub(crate) struct Recording {
    pub start: Vec<u64>,
    pub prepare: Trace,
    pub steps: Vec<Step>,
}

impl Trace {
    /// Takes what `media` recorded.
    pub fn take(media: &Traced) -> Self {
        Self::of(media.take_events(), Vec::new(), media)
    }

    /// Takes what `media` recorded of several threads.
    pub fn take_of_threads(media: &Traced) -> Self {
        let (threads, events) = media.take_events_of_threads().into_iter().unzip();
        Self::of(events, threads, media)
    }

    fn of(events: Vec<Event>, threads: Vec<u16>, media: &Traced) -> Self {
        let mut fresh = Vec::new();
        if events.iter().any(|event| matches!(event, Event::Grow { .. })) {
            fresh = media.image();
            for event in events.iter().rev() {
                if let Event::Store { offset, old, .. } | Event::UnorderedStore { offset, old, .. } = event {
                    fresh[*offset as usize / WORD] = *old;
                }
            }
        }
        Self { events, threads, ran_on: ONLY_THREAD, fresh, moments: Vec::new() }
    }

    /// The thread of event `i`.
    pub fn thread(&self, i: usize) -> u16 {
        self.threads.get(i).copied().unwrap_or(self.ran_on)
    }

    /// The same, of an operation that ran on `thread`.
    pub fn on_thread(self, thread: u16) -> Self {
        Self { ran_on: thread, ..self }
    }

    pub fn stores_anything(&self) -> bool {
        self.events.iter().any(|event| matches!(event, Event::Store { .. } | Event::UnorderedStore { .. } | Event::Grow { .. }))
    }

    /// The trace of a program that lacks this barrier.
    pub fn without(&self, site: Site) -> Self {
        let mut mutant = self.clone();
        let mut i = 0;
        while i < mutant.events.len() {
            let event = mutant.events[i];
            if barrier(&event) != Some(site) {
                i += 1;
                continue;
            }
            let thread = mutant.thread(i);
            mutant.remove(i);
            if matches!(event, Event::Order { .. }) {
                mutant.advance_store(i, thread);
            }
        }
        mutant
    }

    /// How many events a mutant has where this trace has `events`, if it is no other before; else 0.
    pub fn start_without(&self, site: Site, events: usize) -> usize {
        let suppressed = |event: &&Event| barrier(event) == Some(site);
        if self.events.iter().any(|event| suppressed(&event) && matches!(event, Event::Order { .. })) {
            return 0; // A store may come earlier.
        }
        events - self.events[..events].iter().filter(suppressed).count()
    }

    /// What was promised after event `i` is promised after the event before it.
    fn remove(&mut self, i: usize) {
        self.events.remove(i);
        if !self.threads.is_empty() {
            self.threads.remove(i);
        }
        if !self.moments.is_empty() {
            self.moments.remove(i);
        }
    }

    /// Without an `order` of `thread` that stood before event `at`, the first store of that thread behind it that shares a line with stores of the thread before it
    /// may come first: it is moved before all of them, back to the thread's previous fence or `order`, but not past a store to its own
    /// word. What is promised after so many events stays.
    fn advance_store(&mut self, at: usize, thread: u16) {
        let own = |i: usize| self.thread(i) == thread;
        let edge = |i: usize| own(i) && matches!(self.events[i], Event::Fence { .. } | Event::Order { .. } | Event::EndOperation);
        let begin = (0..at).rev().find(|i| edge(*i)).map_or(0, |i| i + 1);
        let end = (at..self.events.len()).find(|i| edge(*i)).unwrap_or(self.events.len());
        for late in (at..end).filter(|i| own(*i)) {
            let Event::Store { offset, .. } = self.events[late] else { continue };
            let early = (begin..at).rev().map_while(|i| match self.events[i] {
                Event::Store { offset: other, .. } if other == offset => None,
                Event::Store { offset: other, .. } if own(i) && other / LINE as u64 == offset / LINE as u64 => Some(Some(i)),
                _ => Some(None),
            });
            if let Some(early) = early.flatten().last() {
                self.events[early..=late].rotate_right(1);
                if !self.threads.is_empty() {
                    self.threads[early..=late].rotate_right(1);
                }
                return;
            }
        }
    }
}

/// The site of a barrier: what has one can be suppressed, a line write included.
pub(crate) fn barrier(event: &Event) -> Option<Site> {
    match event {
        Event::Flush { site, .. } | Event::Fence { site } | Event::Order { site } | Event::UnorderedStore { site, .. } => {
            Some(*site)
        }
        _ => None,
    }
}

/// Runs everything once, without any crash but those that are operations.
pub(crate) fn record<S: Subject>(subject: &S, options: &Options) -> Result<Recording, ExploreError> {
    let mut media = Traced::new(options.len, options.max_len, options.seed)?;
    let start = media.image();
    let mut machine = new_machine(start.clone(), options.assumptions, options);
    let mut state = caught(|| subject.prepare(media.clone())).map_err(|message| ExploreError::Prepare { message })?;
    let prepare = Trace::take(&media);
    machine.feed(&prepare);
    let mut steps = Vec::new();
    for operation in 0..subject.operation_count() {
        let failed = |message| ExploreError::Operation { operation, description: subject.describe_operation(operation), message };
        let mut restart = None;
        let mut thread = subject.thread(operation);
        if subject.is_crash(operation) {
            drop(state);
            let image = machine.floor().to_vec();
            media = Traced::from_image(&image, options.max_len, options.seed)?;
            machine = new_machine(image.clone(), options.assumptions, options);
            restart = Some(image);
            thread = ONLY_THREAD;
            state = caught(|| subject.recover(media.clone())).map_err(failed)?;
        } else {
            caught(|| subject.run(&mut state, operation)).map_err(failed)?;
        }
        let trace = Trace::take(&media).on_thread(thread);
        machine.feed(&trace);
        steps.push(Step { restart, trace });
    }
    Ok(Recording { start, prepare, steps })
}

pub(crate) fn new_machine(image: Vec<u64>, assumptions: Assumptions, options: &Options) -> Machine {
    Machine::new(image, assumptions, options.budget, options.seed)
}

impl Machine {
    /// Takes a whole trace in.
    pub fn feed(&mut self, trace: &Trace) {
        self.feed_until(trace, trace.events.len());
    }

    /// Takes the first events of a trace in.
    pub fn feed_until(&mut self, trace: &Trace, end: usize) {
        for (i, event) in trace.events[..end].iter().enumerate() {
            self.apply(trace.thread(i), event, &trace.fresh);
        }
    }
}

/// Runs a part of the subject; a panic is an error like any other.
pub(crate) fn caught<T>(run: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| Err(format!("panicked: {}", panic_message(&*panic))))
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}

#[cfg(test)]
mod tests {
    use everleaf_pmem::site;

    use super::*;

    fn store(word: u64) -> Event {
        Event::Store { offset: word * 8, old: 0, new: 1 }
    }
    const ORDER: Event = Event::Order { site: site!("test.order") };
    const OTHER: Event = Event::Order { site: site!("test.other") };
    const FENCE: Event = Event::Fence { site: site!("test.fence") };

    fn without(site: Site, events: &[Event]) -> Vec<Event> {
        Trace { events: events.to_vec(), ..Trace::default() }.without(site).events
    }

    #[test]
    fn without_its_order_a_store_comes_before_its_line() {
        let site = site!("test.order");
        // Line 0: words 0 to 7; line 1: 8 to 15. Word 3 overtakes words 1 and 2, and with them the other line's word 8.
        assert_eq!(without(site, &[store(1), store(8), store(2), ORDER, store(3)]), [store(3), store(1), store(8), store(2)]);
        // The first store behind it that has company before it, here word 9.
        assert_eq!(without(site, &[store(8), ORDER, store(1), store(9)]), [store(9), store(8), store(1)]);
        // Never past a fence, another `order`, or a store to the same word.
        assert_eq!(without(site, &[store(1), FENCE, store(2), ORDER, store(3)]), [store(1), FENCE, store(3), store(2)]);
        assert_eq!(without(site, &[store(1), OTHER, store(2), ORDER, store(3)]), [store(1), OTHER, store(3), store(2)]);
        assert_eq!(without(site, &[store(3), store(2), ORDER, store(3)]), [store(3), store(3), store(2)]);
        assert_eq!(without(site, &[store(1), ORDER, FENCE, store(2)]), [store(1), FENCE, store(2)]);
        assert_eq!(without(site, &[store(8), ORDER, store(1)]), [store(8), store(1)]);
    }

    #[test]
    fn a_store_overtakes_stores_of_its_own_thread_only() {
        let trace = |events: &[(u16, Event)]| {
            let (threads, events): (Vec<_>, Vec<_>) = events.iter().copied().unzip();
            let moments = (0..=events.len()).map(Moment::between).collect();
            Trace { events, threads, moments, ..Trace::default() }
        };
        let without = |events: &[(u16, Event)]| {
            let mutant = trace(events).without(site!("test.order"));
            let moments: Vec<usize> = mutant.moments.iter().map(|moment| moment.acknowledged).collect();
            (mutant.threads.into_iter().zip(mutant.events).collect::<Vec<_>>(), moments)
        };
        // Thread 2's fence, store and `order` are no matter of thread 1; what is promised after so many events stays.
        let (events, moments) =
            without(&[(1, store(1)), (2, FENCE), (2, store(4)), (1, ORDER), (2, OTHER), (2, store(5)), (1, store(3))]);
        assert_eq!(events, [(1, store(3)), (1, store(1)), (2, FENCE), (2, store(4)), (2, OTHER), (2, store(5))]);
        assert_eq!(moments, [0, 1, 2, 4, 5, 6, 7], "after the third event is promised what was promised after the `order`");
        // Never past a store to the same word, whosever it is.
        let (events, _) = without(&[(1, store(1)), (2, store(3)), (1, store(2)), (1, ORDER), (1, store(3))]);
        assert_eq!(events, [(1, store(1)), (2, store(3)), (1, store(3)), (1, store(2))]);
        let start =
            |events| trace(&[(1, store(1)), (1, FENCE), (1, ORDER), (1, store(2))]).start_without(site!("test.fence"), events);
        assert_eq!((start(1), start(2), start(4)), (1, 1, 3));
        let start = trace(&[(1, store(1)), (1, ORDER)]).start_without(site!("test.order"), 2);
        assert_eq!(start, 0, "a store may come earlier");
    }

    #[test]
    fn every_occurrence_of_a_barrier_is_left_out_and_no_other() {
        let flush = Event::Flush { site: site!("test.flush"), line: 0 };
        let events = [store(0), flush, FENCE, store(1), flush, FENCE];
        assert_eq!(without(site!("test.flush"), &events), [store(0), FENCE, store(1), FENCE]);
        assert_eq!(without(site!("test.fence"), &events), [store(0), flush, store(1), flush]);
        assert_eq!(without(site!("test.absent"), &events), events);
    }
}
