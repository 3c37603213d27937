//! Epochs: which one it is, how it ends, and which ones failed. What keeps it from ending is in
//! `gates`.
//!
//! # The end of an epoch
//! ```text
//! E0  lines that were changed so far, records of what   flush each
//!     has joined the epochs (a store); again, as long
//!     as there are many
//!     Crash: the epoch has failed. They may have been written back at any moment.
//! E1  lines that were changed since, what has joined    flush each, fence
//!     the epochs, the numbers of keys and nodes
//!     Crash: the epoch has failed.
//! E2  COMMIT: the pool's epoch := this one              flush, fence (the pool's E3)
//!     Crash: it has ended. What undoes it does not count any more.
//! E3  what has joined is finished; the next epoch begins, and its log overwrites that of this one
//! ```
//! All threads that write wait from E1 on. Nothing of the next epoch may be written before E2: it
//! would overwrite what undoes this one.
//!
//! Writers go on during E0. Operations pause for the moment in which the notes of what they changed
//! are taken: so nothing is half written that is noted. What changes again is noted again, since
//! its stamp is of an earlier pass. Guards may be held meanwhile.
//!
//! # Failed epochs
//! An epoch in which a crash happened has failed, for ever: a node that was changed in it may first
//! be seen much later. Numbers are not used again. After a crash:
//! ```text
//! F1  the external log of the failed epoch is applied   flush each, fence
//!     Crash: it is applied again.
//! F2  the range of failed epochs, behind the last one   flush, fence
//!     Crash: nothing reads it.
//! F3  COMMIT: the number of ranges                      flush, fence
//!     Or, where no epoch has ended since the last crash, that range gets longer: one store.
//!     Crash: the first epoch of this run has failed as well.
//! ```

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use crossbeam_utils::CachePadded;
use everleaf_index::{EpochGuard, EpochStatistics, IndexError, Result};
use everleaf_pmem::{Media, PCell, planted, site, unless_planted};
use everleaf_pool::Pool;
use parking_lot::Mutex;

use super::gates::Gates;
use super::layout::{Anchor, ENDED, FAILED_RANGES, Moment, Run};

/// So many notes, and lines of what has joined the epochs, are written back while all threads
/// stand: it takes less than a millisecond.
const FEW_NOTES: usize = 2048;
/// With fewer places for ranges than this left, all nodes are recovered and the ranges forgotten.
const RANGES_LEFT: usize = 8;

/// A range of failed epochs: behind the first number, up to the second.
type Range = (u64, u64);

/// Lines of one object that were changed in this epoch: where it is, and how many; 0: those of a
/// node that its stamp tells.
pub(super) type Note = (u64, u32);

/// What an epoch changes, of which its end takes care.
pub(super) trait Changes {
    /// The notes so far, which are forgotten, and how many lines there are besides of what has
    /// joined the epochs. No operation is under way.
    fn take(&self) -> (Vec<Note>, usize);
    /// E0, while threads write, or the first of E1: flushes what was taken.
    fn write_back(&self, notes: &[Note], step: Step) -> Result<()>;
    /// E1: the rest of what belongs to the epoch, and what there is then. All threads stand.
    fn prepare(&self, epoch: u64) -> Result<Sizes>;
    /// E3: the epoch is durable, and nothing of the next one was done.
    fn finish(&self) -> Result<()>;
}

/// A step of the end of an epoch in which lines are flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    E0,
    E1,
}

/// The epochs of a tree.
pub(super) struct Epochs<M: Media> {
    pool: Arc<Pool<M>>,
    /// The moment.
    current: CachePadded<AtomicU64>,
    /// The first one of this run: what has an earlier stamp was not looked at since.
    first: u64,
    /// This run, as no file names it.
    run: Run,
    failed: Vec<Range>,
    pub gates: Gates<M>,
    closing: Mutex<()>,
    /// An epoch could not be ended.
    is_stuck: AtomicBool,
    /// Of the ends of epochs in this run.
    ended: AtomicU64,
    longest_stall_ns: AtomicU64,
    stalled_ns: AtomicU64,
}

/// How much there is in a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    pub keys: u64,
    pub border_nodes: u64,
    pub inner_nodes: u64,
}

impl Sizes {
    /// A tree without keys is its root.
    pub const EMPTY: Self = Self { keys: 0, border_nodes: 1, inner_nodes: 0 };
}

/// Where a pool was left.
pub(super) struct Left {
    /// At the end of the last epoch that ended.
    pub sizes: Sizes,
    failed: Vec<Range>,
    durable: u64,
    /// The epoch that was under way, or would have been the next.
    pub next: u64,
}

impl Left {
    /// Reads where a pool was left.
    pub fn of<M: Media>(pool: &Pool<M>) -> Result<Self> {
        let (anchor, media) = (pool.index_root::<Anchor>()?, pool.media());
        let durable = pool.durable_epoch()?;
        let of_durable = anchor.ended.iter().find(|[epoch, ..]| media.load(epoch) == durable);
        let is_new = media.load(&anchor.arenas) == 0;
        let what = "its number of keys is of no epoch that ended";
        let sizes = match of_durable {
            _ if is_new => Sizes::EMPTY,
            Some(words) => {
                let [_, keys, border_nodes, inner_nodes] = words.each_ref().map(|w| media.load(w));
                Sizes { keys, border_nodes, inner_nodes }
            }
            None => return Err(IndexError::Corrupt { offset: 0, what }),
        };
        let count = media.load(&anchor.failed_count) as usize;
        let words = anchor.failed.chunks(2).take(count);
        let failed: Vec<Range> =
            words.map(|pair| (media.load(&pair[0]), media.load(&pair[1]))).collect();
        let ascends = failed.windows(2).all(|pair| pair[0].1 <= pair[1].0);
        let sound = count <= FAILED_RANGES && ascends && failed.iter().all(|(a, b)| a < b);
        if !sound || failed.last().is_some_and(|(after, _)| *after > durable) {
            let what = "its list of failed epochs is out of order";
            return Err(IndexError::Corrupt { offset: 0, what });
        }
        let next = durable.max(failed.last().map_or(0, |range| range.1)) + 1;
        Ok(Self { sizes, failed, durable, next })
    }

    /// F2 and F3: the epoch that was under way has failed. The log was applied.
    pub fn fail<M: Media>(&mut self, pool: &Pool<M>) -> Result<()> {
        let (anchor, media) = (pool.index_root::<Anchor>()?, pool.media());
        let (durable, next) = (self.durable, self.next);
        match self.failed.last_mut() {
            Some((after, last)) if *after == durable => {
                *last = next;
                let at = 2 * self.failed.len() - 1;
                media.store(&anchor.failed[at], next);
                media.flush(site!("masstree.fail.F3.longer"), &anchor.failed[at]);
            }
            _ => {
                let at = 2 * self.failed.len();
                let Some([after, last]) = anchor.failed.get(at..at + 2) else {
                    let what = "its list of failed epochs is full";
                    return Err(IndexError::Corrupt { offset: 0, what });
                };
                media.store(after, durable);
                media.store(last, next);
                media.flush(site!("masstree.fail.F2.range"), after);
                media.fence(site!("masstree.fail.F2.fence"));
                self.failed.push((durable, next));
                media.store(&anchor.failed_count, self.failed.len() as u64);
                media.flush(site!("masstree.fail.F3.count"), &anchor.failed_count);
            }
        }
        media.fence(site!("masstree.fail.F3.fence"));
        self.next += 1;
        Ok(())
    }

    /// Whether there are so many ranges that they are to be forgotten.
    pub fn is_nearly_full(&self) -> bool {
        self.failed.len() + RANGES_LEFT > FAILED_RANGES
    }
}

/// What is kept of an epoch that ends.
pub(super) fn store_ended<M: Media>(media: &M, place: &[PCell; ENDED], epoch: u64, sizes: Sizes) {
    let Sizes { keys, border_nodes, inner_nodes } = sizes;
    for (cell, word) in place.iter().zip([epoch, keys, border_nodes, inner_nodes]) {
        media.store(cell, word);
    }
}

impl<M: Media> Epochs<M> {
    /// Of a pool that was left so.
    pub fn begin(pool: &Arc<Pool<M>>, left: Left) -> Self {
        Self {
            pool: Arc::clone(pool),
            current: CachePadded::new(AtomicU64::new(Moment::first(left.next).word())),
            first: left.next,
            // Drawn, where runs need not repeat: so a file cannot hold it, whoever made the file.
            run: Run::new(if pool.media().is_repeatable() {
                left.next
            } else {
                RandomState::new().hash_one(left.next)
            }),
            failed: left.failed,
            gates: Gates::new(pool),
            closing: Mutex::new(()),
            is_stuck: AtomicBool::new(false),
            ended: AtomicU64::new(0),
            longest_stall_ns: AtomicU64::new(0),
            stalled_ns: AtomicU64::new(0),
        }
    }

    /// The moment; for a thread that is behind a gate, or recovers, until it has passed out.
    #[inline(always)]
    pub fn now(&self) -> Moment {
        Moment::from_word(self.current.load(Ordering::Acquire))
    }

    /// The epoch that is under way; for a thread that is behind a gate, until it has passed out.
    #[inline(always)]
    pub fn current(&self) -> u64 {
        self.now().epoch()
    }

    /// The first epoch of this run.
    #[inline(always)]
    pub fn first(&self) -> u64 {
        self.first
    }

    /// This run.
    #[inline(always)]
    pub fn run(&self) -> Run {
        self.run
    }

    /// Whether what was done in an epoch is to be undone.
    pub fn has_failed(&self, epoch: u64) -> bool {
        let range = self.failed.partition_point(|(_, last)| *last < epoch);
        self.failed.get(range).is_some_and(|(after, _)| *after + u64::from(planted(289)) < epoch)
    }

    /// Keeps the epoch from ending for a caller of the index, who changes so many keys. Waits while
    /// one ends.
    ///
    /// # Errors
    /// [`IndexError::EpochNotEnded`] if no epoch can be ended any more.
    pub fn guard(&self, changes: usize) -> Result<EpochGuard<'_>> {
        if self.is_stuck.load(Ordering::Relaxed) {
            return Err(IndexError::EpochNotEnded);
        }
        Ok(self.gates.guard(changes))
    }

    /// What the ends of epochs came to in this run.
    pub fn statistics(&self) -> EpochStatistics {
        EpochStatistics {
            ended: self.ended.load(Ordering::Relaxed),
            longest_stall_ns: self.longest_stall_ns.load(Ordering::Relaxed),
            stalled_ns: self.stalled_ns.load(Ordering::Relaxed),
            ..EpochStatistics::default()
        }
    }

    /// Ends an epoch, unless another thread has ended it meanwhile.
    ///
    /// # Errors
    /// What `changes` says: no epoch is ended any more then. [`IndexError::EpochNotEnded`]
    /// afterwards.
    pub fn end(&self, epoch: u64, changes: &impl Changes) -> Result<()> {
        let _closing = self.gates.lock(&self.closing);
        if self.is_stuck.load(Ordering::Relaxed) {
            return Err(IndexError::EpochNotEnded);
        }
        if self.current() > epoch {
            return Ok(());
        }
        let done = self.write_back(epoch, changes);
        if done.is_err() {
            self.is_stuck.store(true, Ordering::Relaxed);
        }
        self.ended.fetch_add(1, Ordering::Relaxed);
        done
    }

    /// E0 to E3. What many keys were changed by is waited for after the first passes of E0, and has
    /// passes of its own: it may have changed much.
    fn write_back(&self, epoch: u64, changes: &impl Changes) -> Result<()> {
        let mut notes = self.write_back_beside_writers(changes)?;
        let (no_long, waited) = self.gates.keep_long_guards_out();
        if waited {
            notes.append(&mut self.write_back_beside_writers(changes)?);
        }
        let begun = Instant::now();
        let stand = self.gates.close();
        unless_planted!(290, notes.append(&mut changes.take().0));
        let done = self.end_standing(epoch, changes, &notes);
        drop((stand, no_long));
        self.note_stall(begun);
        done
    }

    /// E0. Each pass has to do with what was changed during the last one. Returns the notes of the
    /// last pass, which are left for E1: that in which there is little to do, or not much less than
    /// in the one before.
    fn write_back_beside_writers(&self, changes: &impl Changes) -> Result<Vec<Note>> {
        // The explorer is to see each pass.
        let few = if M::SCHEDULED { 0 } else { FEW_NOTES };
        let mut most = usize::MAX;
        loop {
            let begun = Instant::now();
            let pause = self.gates.pause();
            let ((notes, besides), now) = (changes.take(), self.now());
            let count = notes.len() + besides;
            let is_last = count <= few || count >= most || now.pass() == Moment::MAX_PASSES;
            if !is_last {
                self.current.store(now.next_pass().word(), Ordering::Release);
            }
            drop(pause);
            self.note_stall(begun);
            if is_last {
                return Ok(notes);
            }
            changes.write_back(&notes, Step::E0)?;
            most = count / 2;
        }
    }

    /// E1 to E3, while all threads stand.
    fn end_standing(&self, epoch: u64, changes: &impl Changes, notes: &[Note]) -> Result<()> {
        let sizes = changes.write_back(notes, Step::E1).and_then(|()| changes.prepare(epoch));
        let mut done = sizes.and_then(|sizes| self.commit(epoch, sizes));
        if done.is_ok() {
            done = changes.finish();
            self.current.store(Moment::first(epoch + 1).word(), Ordering::Release);
        }
        if done.is_err() {
            // What was to be flushed is known no more. Threads see it before they go on.
            self.is_stuck.store(true, Ordering::Relaxed);
        }
        done
    }

    /// Threads stood since this moment.
    fn note_stall(&self, begun: Instant) {
        let stalled_ns = begun.elapsed().as_nanos() as u64;
        self.longest_stall_ns.fetch_max(stalled_ns, Ordering::Relaxed);
        self.stalled_ns.fetch_add(stalled_ns, Ordering::Relaxed);
    }

    /// E1, but for the lines of the tree, and E2.
    fn commit(&self, epoch: u64, sizes: Sizes) -> Result<()> {
        let (anchor, media) = (self.pool.index_root::<Anchor>()?, self.pool.media());
        let durable = self.pool.durable_epoch()?;
        let [first, second] = &anchor.ended;
        // That which the last end of an epoch does not need.
        let is_kept = (media.load(&first[0]) == durable) != planted(288);
        let place = if is_kept { second } else { first };
        store_ended(media, place, epoch, sizes);
        media.flush(site!("masstree.epoch.E1.sizes"), &place[0]);
        media.fence(site!("masstree.epoch.E1.fence"));
        Ok(self.pool.commit_epoch(epoch)?)
    }

    /// Forgets the ranges of failed epochs: nothing has a stamp of one of them any more.
    pub fn forget(&mut self) -> Result<()> {
        let (anchor, media) = (self.pool.index_root::<Anchor>()?, self.pool.media());
        media.store(&anchor.failed_count, 0);
        media.flush(site!("masstree.forget.count"), &anchor.failed_count);
        media.fence(site!("masstree.forget.fence"));
        self.failed.clear();
        Ok(())
    }
}
