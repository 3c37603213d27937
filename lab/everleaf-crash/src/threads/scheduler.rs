//! One turn, handed from thread to thread: real threads, of which one runs at a time.
//!
//! The memory asks before every access. Whether another thread is to run first is decided by a
//! plan: the preemptions of an interleaving, or chance. A thread that waits in a spin loop, or has
//! ended, gives the turn away without being asked.

use std::array::from_fn;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use rand::RngExt;
use rand::rngs::SmallRng;

use super::interleaving::Preemption;
use crate::Scheduler;

/// Threads that a step may have.
pub(crate) const MAX_THREADS: usize = 16;
/// Turns of spin loops that every living thread takes, with no store in between, before they count
/// as deadlocked.
const DEADLOCK_SPINS: u32 = 200;
/// A thread that makes more accesses than this between two turns of spin loops is doing something
/// else than waiting.
const WAITING_ACCESSES: u32 = 1000;
/// A thread that has the turn for so long and makes no access blocks, most likely.
const STUCK: Duration = Duration::from_secs(10);
/// Where chance decides, one access in so many is preempted.
const CHANCE: u32 = 8;

/// Which thread runs when. Threads are slots here: places in the list of the step's threads.
pub(crate) struct Plan {
    pub first: usize,
    pub preemptions: Vec<Preemption>,
    /// Preempts by chance instead.
    pub chance: Option<SmallRng>,
}

/// A moment at which another thread could have run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub thread: u16,
    pub access: u32,
    /// So many events had been recorded.
    pub events: usize,
    /// Bit `slot`: has not ended.
    pub living: u64,
}

/// What happened in a step.
#[derive(Default)]
pub(crate) struct Schedule {
    pub points: Vec<Point>,
    pub preemptions: Vec<Preemption>,
    /// Points up to the last preemption.
    pub last_preempted: usize,
    /// Why the threads were stopped.
    pub stopped: Option<String>,
}

#[derive(Default)]
struct StepState {
    names: Vec<u16>,
    current: usize,
    /// The running thread was not chosen: the one before has ended, or waits.
    handed_on: bool,
    living: u64,
    accesses: Vec<u32>,
    /// Turns of spin loops since the last event, and accesses since the last of them, by slot.
    spins: Vec<(u32, u32)>,
    events: usize,
    planned: Vec<Preemption>,
    chance: Option<SmallRng>,
    schedule: Schedule,
}

/// The scheduler of one memory. Outside of a step with several threads it lets everything pass.
pub(crate) struct SeededScheduler {
    /// A step is running.
    running: AtomicBool,
    /// The thread that runs while no step is.
    alone: AtomicU16,
    turn: Mutex<StepState>,
    wakeups: [Condvar; MAX_THREADS],
    /// All threads have ended, or are about to.
    over: Condvar,
}

impl SeededScheduler {
    pub fn new() -> Self {
        Self {
            running: AtomicBool::new(false),
            alone: AtomicU16::new(0),
            turn: Mutex::default(),
            wakeups: from_fn(|_| Condvar::new()),
            over: Condvar::new(),
        }
    }

    /// What follows is done by this thread.
    pub fn alone(&self, thread: u16) {
        self.alone.store(thread, Ordering::Relaxed);
    }

    /// Begins a step with these threads, at most [`MAX_THREADS`].
    pub fn begin(&self, names: Vec<u16>, plan: Plan) {
        let mut planned = plan.preemptions;
        planned.reverse();
        *self.turn.lock() = StepState {
            current: plan.first,
            living: (1 << names.len()) - 1,
            accesses: vec![0; names.len()],
            spins: vec![(0, 0); names.len()],
            names,
            planned,
            chance: plan.chance,
            ..StepState::default()
        };
        self.running.store(true, Ordering::Relaxed);
    }

    /// Ends a step whose threads have all ended.
    pub fn end(&self) -> Schedule {
        self.running.store(false, Ordering::Relaxed);
        std::mem::take(&mut self.turn.lock().schedule)
    }

    /// Returns when all threads have ended or were stopped. A thread that blocks can neither be
    /// seen nor be ended, so it is at least complained of.
    pub fn watch(&self) {
        let mut turn = self.turn.lock();
        let mut seen = None;
        while turn.living != 0 && turn.schedule.stopped.is_none() {
            let timed_out = self.over.wait_for(&mut turn, STUCK).timed_out();
            let accesses: u32 = turn.accesses.iter().sum();
            if timed_out && seen.replace(accesses) == Some(accesses) {
                eprintln!(
                    "thread {} has its turn and makes no access: does it wait for a blocking lock, \
                    whose holder waits for its turn?",
                    turn.names[turn.current]
                );
            }
        }
    }

    /// Waits until the thread runs for the first time; false if there is nothing to run any more.
    pub fn enter(&self, slot: usize) -> bool {
        let mut turn = self.turn.lock();
        self.wait(&mut turn, slot);
        turn.schedule.stopped.is_none()
    }

    /// The thread has returned from an operation: there is no deadlock.
    pub fn progress(&self) {
        self.turn.lock().spins.fill((0, 0));
    }

    /// The thread has ended.
    pub fn leave(&self, slot: usize) {
        let mut turn = self.turn.lock();
        turn.living &= !(1 << slot);
        turn.spins.fill((0, 0));
        match turn.next_living(slot) {
            Some(next) => {
                turn.current = next;
                turn.handed_on = true;
                self.wakeups[next].notify_one();
            }
            None => _ = self.over.notify_one(),
        }
    }

    /// Ends all threads: each at its next access.
    pub fn stop(&self, reason: &str) {
        self.stop_all(&mut self.turn.lock(), reason);
    }

    fn stop_all(&self, turn: &mut StepState, reason: &str) {
        turn.schedule.stopped.get_or_insert_with(|| reason.to_owned());
        self.wakeups.iter().chain([&self.over]).for_each(|wakeup| _ = wakeup.notify_one());
    }

    fn wait(&self, turn: &mut MutexGuard<'_, StepState>, slot: usize) {
        while turn.current != slot && turn.schedule.stopped.is_none() {
            self.wakeups[slot].wait(turn);
        }
    }
}

impl Scheduler for SeededScheduler {
    fn schedule(&self, relaxes: bool, events: usize) -> u16 {
        if !self.running.load(Ordering::Relaxed) {
            return self.alone.load(Ordering::Relaxed);
        }
        let mut turn = self.turn.lock();
        let slot = turn.current;
        while turn.schedule.stopped.is_none() {
            let events = turn.events.max(events); // Others may have run meanwhile.
            let next = turn.choose(relaxes, events);
            if turn.all_wait() {
                self.stop_all(&mut turn, "deadlock: every thread waits for another one");
            } else if next != slot {
                turn.current = next;
                turn.handed_on = relaxes;
                self.wakeups[next].notify_one();
                self.wait(&mut turn, slot);
                // Among three and more, which one goes on in place of one that ended or waits is to
                // be chosen, before the access that was pending.
                if turn.handed_on && !relaxes && turn.names.len() > 2 {
                    continue;
                }
            }
            break;
        }
        if turn.schedule.stopped.is_some() && !std::thread::panicking() {
            drop(turn);
            // No message of a panic: the reason is reported.
            std::panic::resume_unwind(Box::new("stopped"));
        }
        turn.names[slot]
    }
}

impl StepState {
    fn next_living(&self, after: usize) -> Option<usize> {
        let slots = self.names.len();
        (1..=slots).map(|step| (after + step) % slots).find(|slot| self.living >> slot & 1 == 1)
    }

    /// Whether all that are living do nothing but wait.
    fn all_wait(&self) -> bool {
        self.spins
            .iter()
            .enumerate()
            .all(|(slot, (spins, _))| *spins >= DEADLOCK_SPINS || self.living >> slot & 1 == 0)
    }

    /// The thread that makes the next access.
    fn choose(&mut self, relaxes: bool, events: usize) -> usize {
        let slot = self.current;
        let access = self.accesses[slot];
        self.accesses[slot] += 1;
        if events != std::mem::replace(&mut self.events, events) {
            self.spins.fill((0, 0));
        }
        let (spins, accesses) = &mut self.spins[slot];
        if relaxes {
            (*spins, *accesses) = (*spins + 1, 0);
            return self.next_living(slot).unwrap_or(slot);
        }
        *accesses += 1;
        if *accesses > WAITING_ACCESSES {
            self.spins.fill((0, 0));
        }
        let thread = self.names[slot];
        self.schedule.points.push(Point { thread, access, events, living: self.living });
        let Some(to) = self.preempts(slot, thread, access) else { return slot };
        self.schedule.preemptions.push(Preemption { thread, access, to: self.names[to] });
        self.schedule.last_preempted = self.schedule.points.len();
        to
    }

    /// The thread that is to run instead.
    fn preempts(&mut self, slot: usize, thread: u16, access: u32) -> Option<usize> {
        let others = self.living & !(1 << slot);
        if let Some(chance) = &mut self.chance {
            if others == 0 || !chance.random_ratio(1, CHANCE) {
                return None;
            }
            let nth = chance.random_range(0..others.count_ones()) as usize;
            return (0..self.names.len()).filter(|other| others >> other & 1 == 1).nth(nth);
        }
        let planned = self
            .planned
            .last()
            .filter(|planned| (planned.thread, planned.access) == (thread, access))?;
        let to = self.names.iter().position(|name| *name == planned.to)?;
        self.planned.pop();
        (others >> to & 1 == 1).then_some(to)
    }
}
