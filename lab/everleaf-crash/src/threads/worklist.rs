//! Interleavings that are to be run, and those that are derived from one that was.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::execution::Execution;
use super::interleaving::Preemption;
use super::subject::{ConcurrentSubject, ThreadOperations};
use crate::trace::Trace;

/// An interleaving that is to be run.
pub(crate) struct Item {
    pub first: usize,
    pub preemptions: Vec<Preemption>,
    /// Its beginning was run before: so many events, with this hash.
    pub from: usize,
    pub beginning: u64,
}

impl Item {
    /// Without any preemption.
    pub fn start(first: usize) -> Self {
        Self {
            first,
            preemptions: Vec::new(),
            from: 0,
            beginning: Beginning::default().hasher.finish(),
        }
    }
}

/// The interleavings with one preemption more, after the last one.
pub(crate) fn derive<S: ConcurrentSubject>(
    execution: &Execution<S>,
    first: usize,
    threads: &[ThreadOperations],
    derived: &mut Vec<Item>,
) {
    let mut beginning = Beginning::default();
    for point in &execution.schedule.points[execution.schedule.last_preempted..] {
        let hash = beginning.up_to(&execution.trace, point.events);
        for (slot, to) in threads.iter().map(|thread| thread.thread).enumerate() {
            if to != point.thread && point.living >> slot & 1 == 1 {
                let preemption = Preemption { thread: point.thread, access: point.access, to };
                let preemptions = [&execution.interleaving.preemptions[..], &[preemption]].concat();
                derived.push(Item { first, preemptions, from: point.events, beginning: hash });
            }
        }
    }
}

/// The hash of the first events of a trace, so that a run that should begin like another one can be
/// seen to.
#[derive(Default)]
pub(crate) struct Beginning {
    hasher: DefaultHasher,
    events: usize,
}

impl Beginning {
    pub fn up_to(&mut self, trace: &Trace, events: usize) -> u64 {
        for i in self.events..events {
            (trace.thread(i), trace.events[i]).hash(&mut self.hasher);
        }
        self.events = events;
        self.hasher.finish()
    }
}
