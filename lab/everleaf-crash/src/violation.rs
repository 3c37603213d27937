//! Counterexamples, as a person reads them.

use std::collections::BTreeMap;
use std::fmt;

use everleaf_pmem::{LINE, Site, WORD};

use crate::machine::{Machine, ONLY_THREAD};
use crate::trace::{Trace, barrier};
use crate::{Event, Interleaving, Subject};

/// A state that a crash can leave and that recovery does not mend, reduced as far as it still
/// breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The operations that lead to it, by index, the last one being that which the crash cut (or
    /// followed).
    pub operations: Vec<usize>,
    /// The same in words.
    pub descriptions: Vec<String>,
    /// So many of all operations of the subject had been acknowledged (of `operations`, where it
    /// was reduced).
    pub acknowledged: usize,
    /// The operation that the crash cut, by index.
    pub cut: Option<usize>,
    /// The crash; then, where it needs one, the crash inside the recovery or in the operation after
    /// it.
    pub crashes: Vec<Crash>,
    /// Which invariant broke.
    pub error: String,
    /// In which order the threads made their accesses, if there were several: enough to run it
    /// again.
    pub interleaving: Option<Interleaving>,
    /// Where operations were dropped from a program of several threads: the interleaving of all of
    /// it in which something broke first. The other one is of a program of these operations alone.
    pub found_in: Option<Interleaving>,
}

/// One power failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crash {
    /// What was running.
    pub during: During,
    /// The crash came right after this many events.
    pub event: usize,
    /// Events of what was running.
    pub events: usize,
    /// The events around the crash, with the crash itself in their midst.
    pub around: Vec<String>,
    /// The lines that were not durable for certain, ascending.
    pub lines: Vec<LineState>,
}

/// What a crash interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum During {
    /// The preparation, or the time right after it.
    Prepare,
    /// An operation, by index.
    Operation(usize),
    /// The time right after an operation.
    After(usize),
    /// A step of a program of several threads, or the time right after it.
    Step(usize),
    /// The recovery from the crash before.
    Recovery,
    /// The operation that followed a recovery.
    FollowUp(usize),
}

/// What a crash left of the pending stores to a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineState {
    /// Offset divided by 64.
    pub line: u64,
    /// Stores that were pending.
    pub stores: usize,
    /// Those of them that are durable, as offset and value, in program order.
    pub durable: Vec<(u64, u64)>,
    /// Those that are lost.
    pub lost: Vec<(u64, u64)>,
    /// What the line holds, in the subject's words.
    pub description: Option<String>,
    /// The flushes of the line in what was running, before the crash or behind it.
    pub flushed_at: Vec<Site>,
}

impl Crash {
    pub(crate) fn new<S: Subject>(
        subject: &S,
        during: During,
        trace: &Trace,
        event: usize,
        machine: &Machine,
        choice: &[usize],
    ) -> Self {
        let around = around(trace, event);
        Self {
            during,
            event,
            events: trace.events.len(),
            around,
            lines: line_states(subject, machine, choice, trace),
        }
    }
}

/// Three events before the crash and two behind it.
fn around(trace: &Trace, crash: usize) -> Vec<String> {
    let (from, to) = (crash.saturating_sub(3), (crash + 2).min(trace.events.len()));
    let row = |i| match (describe_event(&trace.events[i]), trace.thread(i)) {
        (event, ONLY_THREAD) => event,
        (event, thread) => format!("thread {thread}: {event}"),
    };
    let mut rows: Vec<String> = (from..to).map(row).collect();
    rows.insert(crash - from, "--- crash ---".to_string());
    rows
}

fn describe_event(event: &Event) -> String {
    let named =
        |what: &str| barrier(event).map_or(what.to_string(), |site| format!("{what} {site}"));
    match event {
        Event::Store { offset, old, new } => format!("store +{offset:#x}: {old:#x} -> {new:#x}"),
        Event::UnorderedStore { offset, old, new, .. } => {
            format!("{} +{offset:#x}: {old:#x} -> {new:#x}", named("line write"))
        }
        Event::Flush { line, .. } => {
            format!("{} of line +{:#x}", named("flush"), line * LINE as u64)
        }
        Event::Fence { .. } => named("fence"),
        Event::Order { .. } => named("order"),
        Event::Grow { len } => format!("memory grown to {len} bytes"),
        Event::EndOperation => "end of an operation of the index".to_string(),
        _ => "load".to_string(),
    }
}

fn line_states<S: Subject>(
    subject: &S,
    machine: &Machine,
    choice: &[usize],
    trace: &Trace,
) -> Vec<LineState> {
    let mut lines: BTreeMap<u64, LineState> = BTreeMap::new();
    for (store, durable) in machine.stores_of(choice) {
        let offset = (store.word * WORD) as u64;
        let line = offset / LINE as u64;
        let state = lines.entry(line).or_insert_with(|| LineState {
            line,
            stores: 0,
            durable: Vec::new(),
            lost: Vec::new(),
            description: subject.describe_line(line),
            flushed_at: flushes_of(trace, line),
        });
        state.stores += 1;
        if durable { &mut state.durable } else { &mut state.lost }.push((offset, store.value));
    }
    lines.into_values().collect()
}

/// The sites that flush a line, each once.
fn flushes_of(trace: &Trace, wanted: u64) -> Vec<Site> {
    let mut sites: Vec<Site> = Vec::new();
    for event in &trace.events {
        if let Event::Flush { site, line } = event
            && *line == wanted
            && !sites.contains(site)
        {
            sites.push(*site);
        }
    }
    sites
}

impl LineState {
    /// In the subject's words, or by the flushes of the line: their names say what it is.
    fn words(&self) -> Option<String> {
        let sites =
            || self.flushed_at.iter().map(|site| site.name()).collect::<Vec<_>>().join(", ");
        let by_flushes =
            || (!self.flushed_at.is_empty()).then(|| format!("flushed at {}", sites()));
        self.description.clone().or_else(by_flushes)
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "violation: {}", self.error)?;
        writeln!(f, "operations:")?;
        for (operation, description) in self.operations.iter().zip(&self.descriptions) {
            let cut = if self.cut == Some(*operation) { "   <- cut by the crash" } else { "" };
            writeln!(f, "  {operation:>4}  {description}{cut}")?;
        }
        if let Some(interleaving) = &self.interleaving {
            write!(f, "interleaving {interleaving}")?;
            let whole = self
                .found_in
                .as_ref()
                .map(|whole| format!(" of these operations alone; of all of them {whole}"));
            writeln!(f, "{}", whole.unwrap_or_default())?;
        }
        self.crashes.iter().try_for_each(|crash| crash.fmt(f))
    }
}

impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "crash {}, after event {} of {}:", self.during, self.event, self.events)?;
        for row in &self.around {
            writeln!(f, "    {row}")?;
        }
        if self.lines.is_empty() {
            return writeln!(f, "  everything stored so far was durable");
        }
        self.lines.iter().try_for_each(|line| line.fmt(f))
    }
}

impl fmt::Display for During {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            During::Prepare => write!(f, "after the preparation"),
            During::Operation(operation) => write!(f, "during operation {operation}"),
            During::After(operation) => write!(f, "after operation {operation}"),
            During::Step(step) => write!(f, "in step {step}"),
            During::Recovery => write!(f, "during the recovery from that crash"),
            During::FollowUp(operation) => {
                write!(f, "after that recovery, around operation {operation}")
            }
        }
    }
}

impl fmt::Display for LineState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = match self.durable.len() {
            n if n == self.stores => "durable".to_string(),
            0 => "not durable".to_string(),
            n => format!("{n} of {} stores durable", self.stores),
        };
        let description = self.words().map_or(String::new(), |text| format!(" ({text})"));
        writeln!(f, "  line +{:#x}{description}: {kept}", self.line * LINE as u64)?;
        for (stores, what) in [(&self.durable, "kept"), (&self.lost, "lost")] {
            for (offset, value) in stores {
                writeln!(f, "      {what} +{offset:#x} = {value:#x}")?;
            }
        }
        Ok(())
    }
}
