//! Transactions on DRAM: many loads and stores that happen at one moment, by the processor's
//! transactional memory (RTM) or, where it has none, simulated for tests.
//!
//! The rules of use:
//! * T1: a transaction may abort, for any reason or none, and some abort every time (a page fault
//!   does, until the page is touched outside). So attempts are bounded, and the caller has another
//!   way, under a *fallback lock*.
//! * T2: a transaction reads the fallback lock before all else and gives itself up if it is held.
//!   So it never runs beside a holder: it has read the lock's line, and taking the lock aborts it.
//! * T3: what runs inside touches DRAM only. No flush, no system call, no wait: each aborts it,
//!   every time.
//! * T4: what runs inside may run several times, and is taken back but for the last time. In a
//!   simulation nothing can be taken back, so it tells when it has decided ([`Attempt::decided`])
//!   and stores only then.
//!
//! Map of the files: `rtm` (the instructions) · `status` (why it aborted) · `text` (code that only
//! transactions execute is mapped in) · `simulated` · `counts`.

mod counts;
mod rtm;
mod simulated;
mod status;
mod text;

pub use counts::TransactionCounts;
pub use simulated::{InjectedAborts, Simulation};
pub use status::AbortCause;

#[cfg(target_arch = "x86_64")]
pub(crate) use rtm::commits;

use counts::Tally;
use simulated::Simulator;
use status::AbortStatus;

use crate::Rtm;

/// Which transactions are to be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transactions {
    /// Those of the processor, where it has them.
    Auto,
    /// None.
    #[default]
    Off,
    /// Simulated ones, one at a time: for tests, on any processor.
    Simulated(Simulation),
}

/// Attempts after which a transaction is given up.
const ATTEMPTS: u32 = 8;
/// Aborts of which the processor says that another attempt will not help. One is forgiven: an
/// interrupt looks like a page fault, and a page of code may have been mapped in.
const HOPELESS_ATTEMPTS: u32 = 2;
/// Looks at the fallback lock before an attempt is counted as lost.
const LOCK_WAITS: u32 = 1000;

/// What runs transactions, and counts them.
///
/// ```
/// use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
/// use everleaf_pmem::{Simulation, TransactionalMemory, Transactions};
///
/// let memory = TransactionalMemory::new(Transactions::Simulated(Simulation::default()), None);
/// let (lock, account) = (AtomicBool::new(false), AtomicU64::new(5));
/// let relax = std::hint::spin_loop;
/// let withdrawn = memory.change(&|| lock.load(Relaxed), &relax, |attempt| {
///     let left = account.load(Relaxed) - 1;
///     attempt.decided()?;
///     account.store(left, Relaxed);
///     Ok(left)
/// });
/// assert_eq!((withdrawn, memory.counts().committed), (Some(4), 1));
/// // While another thread holds the lock there are no transactions: take the lock.
/// lock.store(true, Relaxed);
/// assert_eq!(memory.read(&|| lock.load(Relaxed), &relax, || account.load(Relaxed)), None);
/// ```
#[derive(Debug)]
pub struct TransactionalMemory {
    kind: Kind,
    tally: Box<Tally>,
}

#[derive(Debug)]
enum Kind {
    Off,
    Rtm(Rtm),
    Simulated(Simulator),
}

/// An attempt that a simulation takes back.
#[derive(Debug)]
pub struct Aborted(AbortStatus);

/// An attempt that is under way.
#[derive(Debug)]
pub struct Attempt {
    /// The abort that a simulation has in store.
    abort: Option<AbortStatus>,
}

impl Attempt {
    /// To be called when everything is read and nothing stored yet: the last moment at which a
    /// simulation takes an attempt back. No instruction on a processor that takes back stores as
    /// well.
    ///
    /// # Errors
    /// [`Aborted`], to be handed on at once.
    #[inline(always)]
    pub fn decided(&self) -> Result<(), Aborted> {
        self.abort.map_or(Ok(()), |status| Err(Aborted(status)))
    }
}

/// Aborts the transaction that is under way if a panic leaves it; the processor then goes back to
/// its beginning.
struct Open;

impl Drop for Open {
    fn drop(&mut self) {
        rtm::abort();
    }
}

impl TransactionalMemory {
    /// As chosen; `rtm` are the transactions of the processor, if they may be used
    /// ([`Media::rtm`](crate::Media::rtm)).
    pub fn new(choice: Transactions, rtm: Option<Rtm>) -> Self {
        let kind = match choice {
            Transactions::Auto => rtm.map_or(Kind::Off, Kind::Rtm),
            Transactions::Off => Kind::Off,
            Transactions::Simulated(simulation) => Kind::Simulated(Simulator::new(simulation)),
        };
        Self { kind, tally: Box::default() }
    }

    /// Whether there are transactions.
    #[inline(always)]
    pub fn is_on(&self) -> bool {
        !matches!(self.kind, Kind::Off)
    }

    fn is_rtm(&self) -> bool {
        matches!(self.kind, Kind::Rtm(_))
    }

    /// Whether they are simulated.
    pub fn is_simulated(&self) -> bool {
        matches!(self.kind, Kind::Simulated(_))
    }

    /// What `body` finds, all of it at one moment at which `held` says that the fallback lock is
    /// free. None if attempts were given up: the other way is to be taken. `body` must not store
    /// anything. `wait` is called each time that the lock is found held.
    #[inline]
    pub fn read<T>(
        &self,
        held: &impl Fn() -> bool,
        wait: &impl Fn(),
        mut body: impl FnMut() -> T,
    ) -> Option<T> {
        self.change(held, wait, |attempt| {
            let found = body();
            attempt.decided().map(|()| found)
        })
    }

    /// As [`read`](Self::read), and `body` stores after it has asked [`Attempt::decided`].
    #[inline]
    pub fn change<T>(
        &self,
        held: &impl Fn() -> bool,
        wait: &impl Fn(),
        mut body: impl FnMut(&Attempt) -> Result<T, Aborted>,
    ) -> Option<T> {
        if !self.is_on() {
            return None;
        }
        let mut hopeless = 0;
        for attempt in 0..ATTEMPTS {
            let status = match self.attempt(held, &mut body) {
                Ok(done) => {
                    self.tally.committed();
                    return Some(done);
                }
                Err(status) => status,
            };
            let earlier = self.tally.aborted(status.cause());
            if status.cause() == AbortCause::Locked {
                (0..LOCK_WAITS).take_while(|_| held()).for_each(|_| wait());
            } else if status.may_retry() {
                // Backoff: twice as long each time. There is no owner to wait for, so not `wait`.
                (0..1u32 << attempt).for_each(|_| std::hint::spin_loop());
            } else {
                let unexplained = status.cause() == AbortCause::Unknown;
                if unexplained && self.is_rtm() && (earlier + 1).is_power_of_two() {
                    text::map_in();
                }
                hopeless += 1;
                if hopeless == HOPELESS_ATTEMPTS {
                    break;
                }
            }
        }
        self.tally.fell_back();
        None
    }

    #[inline(always)]
    fn attempt<T>(
        &self,
        held: &impl Fn() -> bool,
        body: &mut impl FnMut(&Attempt) -> Result<T, Aborted>,
    ) -> Result<T, AbortStatus> {
        match &self.kind {
            Kind::Off => Err(AbortStatus::of(AbortCause::Unknown)),
            Kind::Rtm(rtm) => attempt_by_processor(*rtm, held, body),
            Kind::Simulated(simulator) => simulator.attempt(held, body),
        }
    }

    /// To be called by the thread that has taken the fallback lock, before it touches anything. On
    /// a processor taking the lock was all: no transaction that has read it is left.
    pub fn settle(&self) {
        if let Kind::Simulated(simulator) = &self.kind {
            simulator.settle();
        }
    }

    /// What became of transactions so far.
    pub fn counts(&self) -> TransactionCounts {
        self.tally.counts()
    }
}

/// One attempt by RTM.
#[inline(always)]
fn attempt_by_processor<T>(
    _: Rtm,
    held: &impl Fn() -> bool,
    body: &mut impl FnMut(&Attempt) -> Result<T, Aborted>,
) -> Result<T, AbortStatus> {
    let status = rtm::begin();
    if status != rtm::STARTED {
        return Err(AbortStatus::from_bits(status));
    }
    let open = Open;
    // T2. Every abort, this one too, goes back to `begin`: what stands behind it is for a processor
    // that has gone on.
    let done = if held() {
        Err(Aborted(AbortStatus::of(AbortCause::Locked)))
    } else {
        body(&Attempt { abort: None })
    };
    match done {
        Ok(done) => {
            rtm::end();
            std::mem::forget(open);
            Ok(done)
        }
        Err(Aborted(status)) => {
            drop(open);
            Err(status)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
    use std::sync::atomic::{AtomicBool, AtomicU64, fence};

    use super::*;
    use crate::Cpu;

    fn simulated(seed: u64, aborts: InjectedAborts) -> TransactionalMemory {
        TransactionalMemory::new(Transactions::Simulated(Simulation { seed, aborts }), None)
    }

    fn relax() {
        std::thread::yield_now();
    }

    #[test]
    fn what_is_chosen_is_used() {
        let kinds = |choice| {
            [None, Some(Rtm::EMULATED)].map(|rtm| TransactionalMemory::new(choice, rtm).is_on())
        };
        assert_eq!(kinds(Transactions::Auto), [false, true]);
        assert_eq!(kinds(Transactions::Off), [false, false]);
        assert_eq!(kinds(Transactions::Simulated(Simulation::default())), [true, true]);
        assert_eq!(
            TransactionalMemory::new(Transactions::Off, Some(Rtm::EMULATED)).read(
                &|| false,
                &relax,
                || 7
            ),
            None
        );
    }

    #[test]
    fn attempts_are_bounded_for_every_cause() {
        for cause in AbortCause::ALL {
            let memory = simulated(1, InjectedAborts::Always(cause));
            let (mut runs, word) = (0, AtomicU64::new(0));
            let done = memory.change(&|| false, &relax, |attempt| {
                runs += 1;
                attempt.decided()?;
                word.store(1, Relaxed);
                Ok(())
            });
            let counts = memory.counts();
            let attempts = match cause {
                AbortCause::Locked | AbortCause::Conflict => ATTEMPTS,
                _ => HOPELESS_ATTEMPTS,
            };
            assert_eq!(
                (done, word.load(Relaxed), counts.committed, counts.fallbacks),
                (None, 0, 0, 1),
                "{cause:?}"
            );
            assert_eq!(
                (counts.aborts(), counts.aborted_by(cause)),
                (attempts.into(), attempts.into()),
                "{cause:?}"
            );
            assert!(runs <= attempts && counts.begun() == u64::from(attempts));
        }
    }

    #[test]
    fn an_abort_in_between_is_tried_again() {
        let memory = simulated(3, InjectedAborts::OneIn(3));
        let done =
            (0..1000).filter(|_| memory.read(&|| false, &relax, || ()).is_some()).count() as u64;
        let counts = memory.counts();
        assert_eq!((counts.committed, counts.committed + counts.fallbacks), (done, 1000));
        assert!(done > 800 && counts.aborted.iter().all(|aborts| *aborts > 20), "{counts:?}");
        assert_eq!(counts.since(&counts), TransactionCounts::default());
    }

    #[test]
    fn a_thread_that_finds_the_lock_held_waits_and_goes_the_other_way_in_the_end() {
        let memory = simulated(1, InjectedAborts::Nothing);
        let waits = AtomicU64::new(0);
        let count = || {
            waits.fetch_add(1, Relaxed);
        };
        assert_eq!(memory.read(&|| true, &count, || ()), None);
        assert_eq!(waits.load(Relaxed), u64::from(ATTEMPTS * LOCK_WAITS));
        let free_after = |wait: u64| memory.read(&|| waits.load(Relaxed) < wait, &count, || ());
        assert_eq!(free_after(waits.load(Relaxed) + 10), Some(()));
        assert_eq!(memory.counts().aborted_by(AbortCause::Locked), u64::from(ATTEMPTS) + 1);
    }

    /// Threads add to two words in transactions and, where these give up, under the lock; no
    /// thread sees one without the other.
    fn words_change_together(memory: &TransactionalMemory) {
        const THREADS: u64 = 4;
        const STEPS: u64 = 3000;
        let (lock, words) = (AtomicBool::new(false), [AtomicU64::new(0), AtomicU64::new(0)]);
        let held = || {
            let held = lock.load(Relaxed);
            fence(Acquire);
            held
        };
        let add = || words.iter().for_each(|word| word.store(word.load(Relaxed) + 1, Relaxed));
        let both = || words.each_ref().map(|word| word.load(Relaxed));
        let alone = || {
            while lock.compare_exchange(false, true, SeqCst, Relaxed).is_err() {
                relax();
            }
            memory.settle();
        };
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for _ in 0..STEPS {
                        let changed = memory.change(&held, &relax, |attempt| {
                            let seen = both();
                            assert_eq!(seen[0], seen[1], "a change was seen in part");
                            attempt.decided()?;
                            add();
                            Ok(())
                        });
                        if changed.is_none() {
                            alone();
                            add();
                            lock.store(false, Release);
                        }
                        if let Some(seen) = memory.read(&held, &relax, both) {
                            assert_eq!(seen[0], seen[1], "a change was seen in part");
                        }
                    }
                });
            }
        });
        assert_eq!(both(), [THREADS * STEPS; 2], "{:?}", memory.counts());
    }

    #[test]
    fn simulated_transactions_and_holders_of_the_lock_exclude_each_other() {
        for (seed, aborts) in (0..).zip([
            InjectedAborts::Nothing,
            InjectedAborts::OneIn(2),
            InjectedAborts::OneIn(20),
            InjectedAborts::Always(AbortCause::Unknown),
            InjectedAborts::Always(AbortCause::Locked),
        ]) {
            let memory = simulated(seed, aborts);
            words_change_together(&memory);
            println!("{aborts:?}: {:?}", memory.counts());
        }
    }

    #[test]
    fn transactions_of_the_processor_and_holders_of_the_lock_exclude_each_other() {
        let rtm = Cpu::detect().rtm();
        if rtm.is_none() {
            println!("not run: this processor has no RTM");
            return;
        }
        let memory = TransactionalMemory::new(Transactions::Auto, rtm);
        words_change_together(&memory);
        println!("{:?}", memory.counts());
    }

    /// Valgrind knows the instructions and aborts every transaction at once, for want of capacity:
    /// with it the way through them and back can be run on any processor.
    #[test]
    #[ignore = "to be run by valgrind, as `valgrind target/debug/deps/everleaf_pmem-.. --ignored \
        emulated`"]
    fn transactions_that_are_emulated_and_aborted_lead_to_the_other_way() {
        let memory = TransactionalMemory::new(Transactions::Auto, Some(Rtm::EMULATED));
        let word = AtomicU64::new(5);
        let changed = memory.change(&|| false, &relax, |attempt| {
            attempt.decided()?;
            word.store(6, Relaxed);
            Ok(())
        });
        let (counts, attempts) = (memory.counts(), u64::from(HOPELESS_ATTEMPTS));
        assert_eq!((changed, word.load(Relaxed), counts.fallbacks), (None, 5, 1));
        assert_eq!((counts.begun(), counts.aborted_by(AbortCause::Capacity)), (attempts, attempts));
    }

    #[test]
    fn a_panic_in_a_transaction_leaves_it() {
        let memory = simulated(1, InjectedAborts::Nothing);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            memory.read(&|| false, &relax, || panic!("in a transaction"));
        }));
        assert!(outcome.is_err());
        assert_eq!(memory.read(&|| false, &relax, || 7), Some(7));
    }
}
