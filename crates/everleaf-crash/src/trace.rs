//! Recording what the operations do to memory, and reading such records.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use everleaf_pmem::{Event, LINE, MapError, Site, Traced, WORD};

use crate::machine::{Machine, ONLY_THREAD};
use crate::{Assumptions, Options, Subject};

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
}

/// What one operation did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace {
    pub events: Vec<Event>,
    /// The thread that it ran on.
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
        let events = media.take_events();
        let mut fresh = Vec::new();
        if events.iter().any(|event| matches!(event, Event::Grow { .. })) {
            fresh = media.image();
            for event in events.iter().rev() {
                if let Event::Store { offset, old, .. } | Event::UnorderedStore { offset, old, .. } = event {
                    fresh[*offset as usize / WORD] = *old;
                }
            }
        }
        Self { events, ran_on: ONLY_THREAD, fresh }
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
        let mut events = self.events.clone();
        let mut i = 0;
        while i < events.len() {
            let event = events[i];
            if barrier(&event) != Some(site) {
                i += 1;
                continue;
            }
            events.remove(i);
            if matches!(event, Event::Order { .. }) {
                advance_store(&mut events, i);
            }
        }
        Self { events, ran_on: self.ran_on, fresh: self.fresh.clone() }
    }
}

/// The site of a barrier that can be suppressed.
pub(crate) fn barrier(event: &Event) -> Option<Site> {
    match event {
        Event::Flush { site, .. } | Event::Fence { site } | Event::Order { site } => Some(*site),
        _ => None,
    }
}

/// The site of any barrier, whole-line writes included.
pub(crate) fn site_of(event: &Event) -> Option<Site> {
    if let Event::UnorderedStore { site, .. } = event { Some(*site) } else { barrier(event) }
}

/// Without an `order` that stood before event `at`, the first store behind it that shares a line with stores before it may come first: it is moved before
/// all of them, back to the previous fence or `order`, but not past a store to its own word.
fn advance_store(events: &mut Vec<Event>, at: usize) {
    let edge = |event: &Event| matches!(event, Event::Fence { .. } | Event::Order { .. } | Event::EndOperation);
    let begin = events[..at].iter().rposition(edge).map_or(0, |i| i + 1);
    let end = events[at..].iter().position(edge).map_or(events.len(), |i| at + i);
    for late in at..end {
        let Event::Store { offset, .. } = events[late] else { continue };
        let early = (begin..at).rev().map_while(|i| match events[i] {
            Event::Store { offset: other, .. } if other == offset => None,
            Event::Store { offset: other, .. } if other / LINE as u64 == offset / LINE as u64 => Some(Some(i)),
            _ => Some(None),
        });
        if let Some(early) = early.flatten().last() {
            let store = events.remove(late);
            events.insert(early, store);
            return;
        }
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
        for event in &trace.events {
            self.apply(trace.ran_on, event, &trace.fresh);
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
    fn every_occurrence_of_a_barrier_is_left_out_and_no_other() {
        let flush = Event::Flush { site: site!("test.flush"), line: 0 };
        let events = [store(0), flush, FENCE, store(1), flush, FENCE];
        assert_eq!(without(site!("test.flush"), &events), [store(0), FENCE, store(1), FENCE]);
        assert_eq!(without(site!("test.fence"), &events), [store(0), flush, store(1), flush]);
        assert_eq!(without(site!("test.absent"), &events), events);
    }
}
