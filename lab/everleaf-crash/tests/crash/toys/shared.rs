//! Structures of one word (or two that belong together) that several threads use, each with the
//! ways in which published code has got it wrong.

use std::sync::atomic::{AtomicBool, Ordering};

use everleaf_crash::{ConcurrentSubject, Options, Step, ThreadOperations, Traced};
use everleaf_pmem::{Media, site};

use super::{cell, flush, load, store};

/// What a thread may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Returns the value.
    Get,
    /// Replaces the value; returns 0.
    Set(u64),
    /// Adds one; returns what was there.
    Add,
}

/// A value that threads share.
pub trait Shared: Clone + Sync {
    /// What the structure keeps in DRAM.
    type Dram: Default + Sync;
    fn create(&self, media: &Traced);
    fn act(&self, media: &Traced, dram: &Self::Dram, act: Act) -> Result<u64, String>;
    fn recover(&self, _media: &Traced) {}
    /// The value, or what is inconsistent.
    fn value(&self, media: &Traced) -> Result<u64, String>;
}

/// A program on a structure. The operation `i` is the `i`th of all acts.
pub struct Program<S> {
    pub structure: S,
    steps: Vec<Step>,
    acts: Vec<Act>,
}

impl<S: Shared> Program<S> {
    /// Steps of threads 1, 2, .., each with its acts. A step of one thread is an operation alone.
    pub fn new(structure: S, steps: &[&[&[Act]]]) -> Self {
        let (mut listed, mut acts) = (Vec::new(), Vec::new());
        for threads in steps {
            let mut thread = |(i, own): (usize, &&[Act])| {
                let first = acts.len();
                acts.extend_from_slice(own);
                ThreadOperations { thread: i as u16 + 1, operations: (first..acts.len()).collect() }
            };
            listed.push(Step::Concurrent(threads.iter().enumerate().map(&mut thread).collect()));
        }
        Self { structure, steps: listed, acts }
    }

    /// The same with a crash after its first step.
    pub fn with_crash(mut self) -> Self {
        self.steps.insert(1, Step::Crash);
        self
    }
}

impl<S: Shared> ConcurrentSubject for Program<S> {
    type State = (Traced, S::Dram);
    type Content = u64;
    type Outcome = u64;

    fn steps(&self) -> Vec<Step> {
        self.steps.clone()
    }
    fn prepare(&self, media: Traced) -> Result<Self::State, String> {
        self.structure.create(&media);
        Ok((media, S::Dram::default()))
    }
    fn run(&self, (media, dram): &Self::State, operation: usize) -> Result<u64, String> {
        self.structure.act(media, dram, self.acts[operation])
    }
    fn recover(&self, image: Traced) -> Result<Self::State, String> {
        self.structure.recover(&image);
        Ok((image, S::Dram::default()))
    }
    fn content(&self, (media, _): &Self::State) -> Result<u64, String> {
        self.structure.value(media)
    }
    fn go_on(&self, (media, dram): &mut Self::State) -> Result<(), String> {
        self.structure.act(media, dram, Act::Set(77))?;
        if self.structure.act(media, dram, Act::Get)? == 77 {
            Ok(())
        } else {
            Err("what was set is not there".to_owned())
        }
    }
    fn apply(&self, content: &mut u64, operation: usize) -> u64 {
        let old = *content;
        match self.acts[operation] {
            Act::Get => old,
            Act::Set(new) => {
                *content = new;
                0
            }
            Act::Add => {
                *content += 1;
                old
            }
        }
    }
    fn describe_operation(&self, operation: usize) -> String {
        format!("{:?}", self.acts[operation])
    }
    fn subset(&self, operations: &[usize]) -> Option<Self> {
        let renumbered = |thread: &ThreadOperations| {
            let place = |operation: &usize| operations.iter().position(|kept| kept == operation);
            let operations: Vec<usize> = thread.operations.iter().filter_map(place).collect();
            (!operations.is_empty())
                .then_some(ThreadOperations { thread: thread.thread, operations })
        };
        let smaller = |step: &Step| match step {
            Step::Concurrent(threads) => {
                let threads: Vec<ThreadOperations> =
                    threads.iter().filter_map(renumbered).collect();
                (!threads.is_empty()).then_some(Step::Concurrent(threads))
            }
            other => Some(other.clone()),
        };
        let steps = self.steps.iter().filter_map(smaller).collect();
        let acts = operations.iter().map(|operation| self.acts[*operation]).collect();
        Some(Self { structure: self.structure.clone(), steps, acts })
    }
}

/// One page; a hang is noticed soon.
pub fn options() -> Options {
    Options { access_limit: 5000, interleavings_beyond: 20, ..super::options() }
}

// ---- one word under a lock in DRAM
// ----------------------------------------------------------------------------------------

const VALUE: usize = 1;
const LOCK: usize = 2;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    /// The lock is released before the value is durable.
    ReleasesTooEarly,
    /// A reader does not take the lock, and returns what a crash can undo.
    ReadsNotDurable,
    /// It fences, but the flush is another thread's.
    FencesForAnother,
    /// It takes no lock, and makes what it saw durable itself.
    FlushesWhatItReads,
    /// No operation takes the lock.
    NoLock,
}

#[derive(Clone)]
pub struct Locked(pub Fault);

#[derive(Default)]
pub struct SpinLock(AtomicBool);

impl SpinLock {
    fn lock(&self, media: &Traced) {
        while self.0.swap(true, Ordering::Acquire) {
            media.relax();
        }
    }
    fn unlock(&self) {
        self.0.store(false, Ordering::Release);
    }
}

fn persist(media: &Traced) {
    flush(media, site!("shared.value"), VALUE);
    media.fence(site!("shared.fence"));
}

impl Shared for Locked {
    type Dram = SpinLock;

    fn create(&self, media: &Traced) {
        store(media, VALUE, 0, 0);
        persist(media);
    }

    fn act(&self, media: &Traced, lock: &SpinLock, act: Act) -> Result<u64, String> {
        let Locked(fault) = *self;
        let reads_alone = matches!(
            fault,
            Fault::ReadsNotDurable | Fault::FencesForAnother | Fault::FlushesWhatItReads
        );
        let locks = fault != Fault::NoLock && !(act == Act::Get && reads_alone);
        if locks {
            lock.lock(media);
        }
        let old = load(media, VALUE, 0);
        let new = match act {
            Act::Get => old,
            Act::Set(new) => new,
            Act::Add => old + 1,
        };
        if act != Act::Get {
            store(media, VALUE, 0, new);
            if fault == Fault::ReleasesTooEarly {
                lock.unlock();
            }
            persist(media);
        } else if fault == Fault::FencesForAnother {
            media.fence(site!("shared.read.fence"));
        } else if fault == Fault::FlushesWhatItReads {
            flush(media, site!("shared.read.value"), VALUE);
            media.fence(site!("shared.read.fence"));
        }
        if locks && !(fault == Fault::ReleasesTooEarly && act != Act::Get) {
            lock.unlock();
        }
        Ok(if matches!(act, Act::Set(_)) { 0 } else { old })
    }

    fn value(&self, media: &Traced) -> Result<u64, String> {
        Ok(load(media, VALUE, 0))
    }
}

// ---- without locks
// -------------------------------------------------------------------------------------------------

/// A counter that is exchanged atomically.
#[derive(Clone)]
pub struct LockFree;

impl Shared for LockFree {
    type Dram = ();

    fn create(&self, media: &Traced) {
        store(media, VALUE, 0, 0);
        persist(media);
    }
    fn act(&self, media: &Traced, (): &(), act: Act) -> Result<u64, String> {
        loop {
            let old = load(media, VALUE, 0);
            let new = match act {
                Act::Get => old,
                Act::Set(new) => new,
                Act::Add => old + 1,
            };
            if act != Act::Get && media.compare_exchange(cell(media, VALUE, 0), old, new).is_err() {
                media.relax();
                continue;
            }
            // What was read may be another thread's, not durable yet: it is made durable before
            // the caller hears of it.
            persist(media);
            return Ok(if matches!(act, Act::Set(_)) { 0 } else { old });
        }
    }
    fn value(&self, media: &Traced) -> Result<u64, String> {
        Ok(load(media, VALUE, 0))
    }
}

// ---- two words that belong together
// ---------------------------------------------------------------------------------------

/// A value and its complement, guarded by a version: odd while they change.
#[derive(Clone)]
pub struct Versioned {
    /// A reader does not look whether the version has changed.
    pub reads_torn: bool,
}

impl Shared for Versioned {
    /// The version is DRAM's: a crash ends what was under way.
    type Dram = std::sync::atomic::AtomicU64;

    fn create(&self, media: &Traced) {
        store(media, VALUE, 0, 0);
        store(media, VALUE, 1, !0);
        store(media, VALUE, 2, 0);
        persist(media);
    }
    fn act(&self, media: &Traced, version: &Self::Dram, act: Act) -> Result<u64, String> {
        let Act::Set(new) = act else {
            loop {
                let before = version.load(Ordering::Acquire);
                let selected = load(media, VALUE, 2) as usize % 2 * 3;
                let (value, complement) =
                    (load(media, VALUE, selected), load(media, VALUE, selected + 1));
                if !self.reads_torn
                    && (before % 2 == 1 || version.load(Ordering::Acquire) != before)
                {
                    media.relax();
                    continue;
                }
                return if value == !complement {
                    Ok(value)
                } else {
                    Err(format!("torn: {value} and {complement}"))
                };
            }
        };
        loop {
            let before = version.load(Ordering::Acquire);
            if before % 2 == 0
                && version
                    .compare_exchange(before, before + 1, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
            {
                break;
            }
            media.relax();
        }
        // The slot that is not in use, then the selector, in one line.
        let selector = load(media, VALUE, 2) + 1;
        let slot = selector as usize % 2 * 3;
        store(media, VALUE, slot, new);
        store(media, VALUE, slot + 1, !new);
        media.order(site!("versioned.order"));
        store(media, VALUE, 2, selector);
        persist(media);
        version.fetch_add(1, Ordering::Release);
        Ok(0)
    }
    fn value(&self, media: &Traced) -> Result<u64, String> {
        let slot = load(media, VALUE, 2) as usize % 2 * 3;
        let (value, complement) = (load(media, VALUE, slot), load(media, VALUE, slot + 1));
        if value == !complement {
            Ok(value)
        } else {
            Err(format!("torn: {value} and {complement}"))
        }
    }
}

// ---- a lock in persistent memory
// --------------------------------------------------------------------------------------------

/// The lock is a word of the persistent node, as in so many published trees.
#[derive(Clone)]
pub struct PersistentLock {
    /// Recovery lets it go, whichever thread had it.
    pub recovery_clears: bool,
}

impl Shared for PersistentLock {
    type Dram = ();

    fn create(&self, media: &Traced) {
        for line in [LOCK, VALUE] {
            store(media, line, 0, 0);
            flush(media, site!("locked.create"), line);
        }
        media.fence(site!("locked.create.fence"));
    }
    fn act(&self, media: &Traced, (): &(), act: Act) -> Result<u64, String> {
        while media.compare_exchange(cell(media, LOCK, 0), 0, 1).is_err() {
            media.relax();
        }
        let old = load(media, VALUE, 0);
        if act != Act::Get {
            store(media, VALUE, 0, if let Act::Set(new) = act { new } else { old + 1 });
            persist(media);
        }
        store(media, LOCK, 0, 0);
        Ok(if matches!(act, Act::Set(_)) { 0 } else { old })
    }
    fn recover(&self, media: &Traced) {
        if self.recovery_clears && load(media, LOCK, 0) != 0 {
            // Not flushed: a lock that a second crash brings back is let go by the next recovery.
            store(media, LOCK, 0, 0);
        }
    }
    fn value(&self, media: &Traced) -> Result<u64, String> {
        Ok(load(media, VALUE, 0))
    }
}

/// Two locks, taken in either order.
#[derive(Clone)]
pub struct Opposed {
    pub ordered: bool,
}

impl Shared for Opposed {
    type Dram = [SpinLock; 2];

    fn create(&self, media: &Traced) {
        store(media, VALUE, 0, 0);
        persist(media);
    }
    fn act(&self, media: &Traced, locks: &Self::Dram, act: Act) -> Result<u64, String> {
        let first = usize::from(!self.ordered && act == Act::Add);
        locks[first].lock(media);
        let old = load(media, VALUE, 0);
        locks[1 - first].lock(media);
        if act != Act::Get {
            store(media, VALUE, 0, if let Act::Set(new) = act { new } else { old + 1 });
            persist(media);
        }
        locks.iter().for_each(SpinLock::unlock);
        Ok(if matches!(act, Act::Set(_)) { 0 } else { old })
    }
    fn value(&self, media: &Traced) -> Result<u64, String> {
        Ok(load(media, VALUE, 0))
    }
}
