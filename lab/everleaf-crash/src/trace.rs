//! Recording what the operations do to memory, and reading such records.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use everleaf_pmem::{MapError, Site, WORD};

use crate::known::Moment;
use crate::machine::{Machine, ONLY_THREAD, is_crash_point};
use crate::{
    Acknowledges, Assumptions, Event, Interleaving, Options, Promise, Restart, Subject, Traced,
};

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
    #[error("step {step} must name different threads by numbers from 1 to 32767, at most {limit}")]
    Threads {
        /// Its index.
        step: usize,
        /// The most threads.
        limit: usize,
    },
    /// A step has more operations than a promise can be made of.
    #[error("step {step} has {operations} operations; make steps of at most {limit}")]
    Operations {
        /// Its index.
        step: usize,
        /// How many it has.
        operations: usize,
        /// The most.
        limit: usize,
    },
    /// The program does not do what it was asked to do, or did before.
    #[error(
        "the program has no interleaving {interleaving}, or does not always do the same (a random \
        hash table, a clock)"
    )]
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
    /// What grown memory held before anything was stored there, by word from offset 0; empty if
    /// nothing grew.
    pub fresh: Vec<u64>,
}

/// One operation of a recording.
pub(crate) struct RecordedOperation {
    /// The operation was a crash, and this is what it left.
    pub restart: Option<Vec<u64>>,
    pub trace: Trace,
}

/// What all operations did.
pub(crate) struct Recording {
    pub start: Vec<u64>,
    pub prepare: Trace,
    pub steps: Vec<RecordedOperation>,
    /// The crashes among the operations that have lost some.
    pub restarts: Rc<[Restart]>,
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
                if let Event::Store { offset, old, .. }
                | Event::UnorderedStore { offset, old, .. } = event
                {
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

    /// Every word that is stored to.
    pub fn stored_words(&self) -> impl Iterator<Item = usize> {
        self.events.iter().filter_map(stored_word)
    }

    /// The points at which a crash is explored, at most.
    pub fn crash_points(&self) -> usize {
        (0..self.events.len()).filter(|i| is_crash_point(&self.events, *i)).count()
    }

    pub fn stores_anything(&self) -> bool {
        self.events.iter().any(|event| {
            matches!(event, Event::Store { .. } | Event::UnorderedStore { .. } | Event::Grow { .. })
        })
    }
}

/// The word that an event stores to.
pub(crate) fn stored_word(event: &Event) -> Option<usize> {
    match event {
        Event::Store { offset, .. } | Event::UnorderedStore { offset, .. } => {
            Some(*offset as usize / WORD)
        }
        _ => None,
    }
}

/// The site of a barrier: what has one can be suppressed, a line write included.
pub(crate) fn barrier(event: &Event) -> Option<Site> {
    match event {
        Event::Flush { site, .. }
        | Event::Fence { site }
        | Event::Order { site }
        | Event::UnorderedStore { site, .. } => Some(*site),
        _ => None,
    }
}

/// Runs everything once, without any crash but those that are operations.
pub(crate) fn record<S: Subject>(
    subject: &S,
    options: &Options,
) -> Result<Recording, ExploreError> {
    let mut media = options.fresh_media()?;
    let start = media.image();
    let mut machine = new_machine(start.clone(), options.assumptions, options);
    let mut state = caught(|| subject.prepare(media.clone()))
        .map_err(|message| ExploreError::Prepare { message })?;
    let prepare = Trace::take(&media);
    machine.feed(&prepare);
    let mut steps = Vec::new();
    let mut restarts: Vec<Restart> = Vec::new();
    for operation in 0..subject.operation_count() {
        let failed = |message| ExploreError::Operation {
            operation,
            description: subject.describe_operation(operation),
            message,
        };
        let mut restart = None;
        let mut thread = subject.thread(operation);
        if subject.is_crash(operation) {
            drop(state);
            let image = machine.floor().to_vec();
            let survived =
                survived(subject, options, operation, &image, &restarts).map_err(failed)?;
            restarts.extend((survived < operation).then_some(Restart { operation, survived }));
            media = options.media_of(&image)?;
            machine = new_machine(image.clone(), options.assumptions, options);
            restart = Some(image);
            thread = ONLY_THREAD;
            state = caught(|| subject.recover(media.clone())).map_err(failed)?;
        } else {
            caught(|| subject.run(&mut state, operation)).map_err(failed)?;
        }
        let trace = Trace::take(&media).on_thread(thread);
        machine.feed(&trace);
        steps.push(RecordedOperation { restart, trace });
    }
    Ok(Recording { start, prepare, steps, restarts: restarts.into() })
}

/// How many operations a crash leaves that is the operation `crash`. Asking may write, so a
/// recovery of its own is asked.
fn survived<S: Subject>(
    subject: &S,
    options: &Options,
    crash: usize,
    image: &[u64],
    restarts: &[Restart],
) -> Result<usize, String> {
    let promise = promise_of(subject, Moment::between(crash), restarts.into());
    if let [only] = promise.boundaries() {
        return Ok(*only);
    }
    let media = options.media_of(image);
    let media = media.map_err(|e| e.to_string())?;
    let found = caught(|| Ok(subject.completed(&mut subject.recover(media)?, &promise)))?;
    // Where it is none of them the exploration says so: this image is one of those that it tries.
    Ok(found.unwrap_or(promise.floor()))
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
    catch_unwind(AssertUnwindSafe(run))
        .unwrap_or_else(|panic| Err(format!("panicked: {}", panic_message(&*panic))))
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}

/// What `subject` has promised at a moment. A crash that is an operation leaves what it leaves.
pub(crate) fn promise_of<S: Subject>(
    subject: &S,
    moment: Moment,
    restarts: Rc<[Restart]>,
) -> Promise {
    Promise::at(moment, restarts, &|operation| match subject.is_crash(operation) {
        true => Acknowledges::Everything,
        false => subject.acknowledges(operation),
    })
}
