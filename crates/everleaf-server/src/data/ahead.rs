//! Rows of a cluster that are proposed and not in the store yet, in DRAM, and what a thread has
//! read and written since its replies were last held.
//!
//! * I1. Rows are here before anybody can ask for them, and tickets grow: proposing and adding are
//!   one step under one lock. Writers of one key have its lock, so the later ticket counts.
//! * I2. Rows leave when the store has them, or what is newer. Who looks here first and then in the
//!   store finds them in one of them.
//! * I3. Nobody is told of a row before its ticket is settled, nor of anything that was read before
//!   it is confirmed that this node led after it was read. Rows that are proposed later confirm it:
//!   they are settled as long as this reign leads only.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use everleaf::{Direction, Error, PoolError, Statistics};
use everleaf_pmem::planted;
use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, watch};

use super::rows::{Ends, Pending, is_empty, slice};

/// Which of a reign's writes.
pub type Ticket = u64;
/// A row, and what it holds; none: nothing.
pub type AheadRow = (Arc<[u8]>, Option<Arc<[u8]>>);
/// Rows as they are here at one moment.
pub type Image = BTreeMap<Arc<[u8]>, Option<Arc<[u8]>>>;

/// Bytes of the longest value with its row, which one write may have.
pub const LONGEST: u64 = (64 << 20) - (128 << 10);
/// Bytes of rows beyond which writers wait.
const MOST_BYTES: usize = 64 << 20;
/// Bytes that a row takes beside its own, about.
const ROW_BYTES: u64 = 256;
/// The part of what is left that is written before it is looked again: one in so many.
const PARTS: u64 = 2;
/// How long a full pool is not looked at: so many times what it took to look, and at least so long.
const LOOK: (u32, Duration) = (20, Duration::from_millis(50));

/// Where rows are proposed.
pub trait Propose: Send + Sync {
    /// Proposes rows, all or none, behind all that were proposed before; it does not wait.
    ///
    /// # Errors
    /// [`Refused`]: nothing was proposed.
    fn propose(&self, rows: &Pending) -> Result<Ticket, Refused>;

    /// Whether it is known without asking that this node leads now.
    fn leads(&self) -> bool;

    /// The pool that they are gathered in before they come to the store.
    ///
    /// # Errors
    /// As the pool's.
    fn log_statistics(&self) -> Result<Statistics, Error>;
}

/// Why rows are not proposed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// This node leads no more: nothing that is answered now is told.
    Lost,
    /// They are too many for one write: a sentence.
    TooLarge(String),
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Lost => Self::Closed,
            Refused::TooLarge(sentence) => {
                let source = io::Error::new(io::ErrorKind::InvalidInput, sentence);
                PoolError::Io { action: "writing", path: "to the cluster".into(), source }.into()
            }
        }
    }
}

/// How far a reign is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Up to this ticket all rows are settled.
    pub settled: Ticket,
    /// Up to this ticket all rows are in the store.
    pub applied: Ticket,
    /// The last confirmation that has come.
    pub confirmed: u64,
    /// The reign has ended.
    pub is_lost: bool,
}

/// What replies wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    ticket: Ticket,
    confirmation: u64,
}

impl Mark {
    /// Whether it is reached; none: it never will be.
    pub fn is_reached(&self, now: &Progress) -> Option<bool> {
        let is_settled = now.settled >= self.ticket || planted(442);
        let is_reached = is_settled && now.confirmed >= self.confirmation;
        (!now.is_lost).then_some(is_reached)
    }
}

/// What a thread has to do with rows.
#[derive(Clone, Copy, Default)]
struct Seen {
    /// The greatest one of what it wrote or saw.
    ticket: Ticket,
    /// Whether it has read, and written nothing behind that.
    has_read: bool,
}

thread_local! {
    static SEEN: Cell<Seen> = const { Cell::new(Seen { ticket: 0, has_read: false }) };
}

struct Row {
    ticket: Ticket,
    value: Option<Arc<[u8]>>,
}

/// Rows that were proposed together.
struct Proposed {
    ticket: Ticket,
    rows: Vec<Arc<[u8]>>,
    bytes: usize,
}

#[derive(Default)]
struct Rows {
    rows: BTreeMap<Arc<[u8]>, Row>,
    /// What was proposed, the oldest first.
    proposed: VecDeque<Proposed>,
}

/// What has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    Neither,
    Store,
    /// Whatever is written takes room in it for a time.
    Log,
}

/// How full the pools were when it was looked.
#[derive(Default)]
struct Looked {
    /// It is not looked again before, if they were full.
    until: Option<Instant>,
    /// Bytes that the store and the log may grow by before it is looked again.
    left: [u64; 2],
}

/// Rows that are proposed and not in the store.
pub struct Ahead {
    to: Box<dyn Propose>,
    rows: RwLock<Rows>,
    /// How many there are: mostly none, for who only reads.
    count: AtomicUsize,
    bytes: AtomicUsize,
    last: AtomicU64,
    /// The ticket of what has emptied a database last.
    emptied: AtomicU64,
    /// For what is short, and for what is long.
    looked: [Mutex<Looked>; 2],
    progress: watch::Sender<Progress>,
    /// How many confirmations were begun.
    begun: AtomicU64,
    /// Somebody waits for another one.
    asked: Notify,
}

impl Ahead {
    /// Nothing is proposed yet.
    pub fn new(to: Box<dyn Propose>) -> Self {
        Self {
            to,
            rows: RwLock::default(),
            count: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            last: AtomicU64::new(0),
            emptied: AtomicU64::new(0),
            looked: Default::default(),
            progress: watch::Sender::default(),
            begun: AtomicU64::new(0),
            asked: Notify::new(),
        }
    }

    // ---- rows
    // ---------------------------------------------------------------------------------------------

    /// Proposes rows: from now on they are read here.
    ///
    /// # Errors
    /// [`Refused`]: nothing has changed.
    pub fn propose(&self, pending: &Pending) -> Result<(), Refused> {
        let new: Vec<AheadRow> = pending
            .iter()
            .map(|(row, value)| (row[..].into(), value.as_deref().map(Into::into)))
            .collect();
        let bytes_of = |(row, value): &AheadRow| row.len() + value.as_ref().map_or(0, |v| v.len());
        let bytes: usize = new.iter().map(bytes_of).sum();
        let mut rows = self.rows.write();
        let ticket = self.to.propose(pending)?;
        let keys = new.iter().map(|(row, _)| Arc::clone(row)).collect();
        rows.proposed.push_back(Proposed { ticket, rows: keys, bytes });
        for (row, value) in new {
            rows.rows.insert(row, Row { ticket, value });
        }
        self.count.store(rows.rows.len(), Ordering::Release);
        self.last.store(ticket, Ordering::Release);
        drop(rows);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let seen = SEEN.get();
        SEEN.set(Seen { ticket: seen.ticket.max(ticket), has_read: false });
        Ok(())
    }

    /// What a row will hold; none: what it holds in the store.
    pub fn find(&self, row: &[u8]) -> Option<Option<Arc<[u8]>>> {
        self.saw(0);
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let rows = self.rows.read();
        let found = rows.rows.get(row)?;
        self.saw(found.ticket);
        Some(found.value.clone())
    }

    /// The first `limit` rows of a range, in order. What is not among them is in the store.
    pub fn first(&self, ends: &Ends, direction: Direction, limit: usize) -> Vec<AheadRow> {
        self.saw(0);
        if self.count.load(Ordering::Acquire) == 0 || is_empty(ends) {
            return Vec::new();
        }
        let rows = self.rows.read();
        let range = rows.rows.range::<[u8], _>((slice(&ends.0), slice(&ends.1)));
        let mut last = 0;
        let mut see = |(row, found): (&Arc<[u8]>, &Row)| {
            last = found.ticket.max(last);
            (Arc::clone(row), found.value.clone())
        };
        let first = match direction {
            Direction::Forward => range.take(limit).map(&mut see).collect(),
            Direction::Backward => range.rev().take(limit).map(&mut see).collect(),
        };
        self.saw(last);
        first
    }

    /// All rows at the moment at which `and` runs: nothing is proposed meanwhile.
    pub fn image<R>(&self, and: impl FnOnce() -> R) -> (Image, R) {
        let rows = self.rows.read();
        self.saw(self.last());
        let image = rows.rows.iter().map(|(row, found)| (row.clone(), found.value.clone()));
        (image.collect(), and())
    }

    /// The store has everything up to this ticket.
    pub fn applied(&self, ticket: Ticket) {
        let (mut rows, mut bytes) = (self.rows.write(), 0);
        while let Some(last) = rows.proposed.pop_front_if(|last| last.ticket <= ticket) {
            bytes += last.bytes;
            for row in last.rows {
                // What was proposed again stays.
                if rows.rows.get(&row).is_some_and(|row| row.ticket <= last.ticket) {
                    rows.rows.remove(&row);
                }
            }
        }
        self.count.store(rows.rows.len(), Ordering::Release);
        drop(rows);
        let before = self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.progress.send_if_modified(|now| {
            now.applied = ticket;
            before >= MOST_BYTES // Others do not wait for this.
        });
    }

    /// Whether pools have no room for so many rows of so many bytes. `look` tells how many bytes
    /// the store and the log may grow by, without what is kept free: it is asked when so many may
    /// have been written, and if they are too few, after some time. Of what is long it is another
    /// number.
    pub fn full(
        &self,
        (rows, bytes): (u64, u64),
        is_long: bool,
        look: impl FnOnce() -> Result<[u64; 2], Error>,
    ) -> Result<Full, Error> {
        // Of what is long there is one more copy, as long as it replaces another one.
        let needed = ROW_BYTES * rows + bytes + bytes / 4;
        let mut last = self.looked[usize::from(is_long)].lock();
        let is_enough = |left: &[u64; 2]| left.iter().all(|left| *left >= needed);
        if !is_enough(&last.left) && last.until.is_none_or(|until| until < Instant::now()) {
            let begun = Instant::now();
            last.left = look()?.map(|left| left / PARTS);
            let pause = (begun.elapsed() * LOOK.0).max(LOOK.1);
            last.until = (!is_enough(&last.left)).then(|| Instant::now() + pause);
        }
        let full = match last.left.map(|left| left < needed) {
            [_, true] => Full::Log,
            [true, _] => Full::Store,
            _ => Full::Neither,
        };
        if full == Full::Neither {
            last.left = last.left.map(|left| left - needed);
        }
        Ok(full)
    }

    /// So many bytes of the store will be free before what is proposed from now on comes to it.
    pub fn freed(&self, bytes: u64) {
        self.looked.iter().for_each(|looked| looked.lock().left[0] += bytes);
    }

    /// The pool that rows are gathered in before they come to the store.
    ///
    /// # Errors
    /// As the pool's.
    pub fn log_statistics(&self) -> Result<Statistics, Error> {
        self.to.log_statistics()
    }

    /// Bytes of the rows.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether more may be proposed: rows that are not in the store take memory.
    pub fn takes_more(&self) -> bool {
        self.bytes() < MOST_BYTES
    }

    /// Returns when more may be proposed, or the reign has ended.
    pub async fn has_room(&self) {
        if !self.takes_more() {
            let mut progress = self.progress();
            let _ = progress.wait_for(|now| now.is_lost || self.takes_more()).await; // It is here.
        }
    }

    // ---- what is seen
    // ---------------------------------------------------------------------------------------------

    /// This thread has read something that is so new.
    fn saw(&self, ticket: Ticket) {
        let seen = SEEN.get();
        SEEN.set(Seen { ticket: seen.ticket.max(ticket), has_read: true });
    }

    /// This thread tells of what is in memory, and was changed with some rows.
    pub fn saw_last(&self) {
        let seen = SEEN.get();
        SEEN.set(Seen { ticket: seen.ticket.max(self.last()), ..seen });
    }

    /// This thread has read what is in memory, and was changed with some rows.
    pub fn saw_all(&self) {
        self.saw(self.last());
    }

    /// A database was emptied by what was proposed last.
    pub fn has_emptied(&self) {
        self.emptied.store(self.last(), Ordering::Release);
    }

    /// This thread has looked at what was emptied.
    pub fn saw_emptied(&self) {
        self.saw(self.emptied.load(Ordering::Acquire));
    }

    /// Runs `work`, whose replies are to be held until the mark is reached.
    pub fn noted<R>(&self, work: impl FnOnce() -> R) -> (R, Mark) {
        SEEN.set(Seen::default());
        let result = work();
        let Seen { ticket, has_read } = SEEN.take();
        let mut mark = Mark { ticket, confirmation: 0 };
        if has_read && !planted(443) && !self.to.leads() {
            mark.confirmation = self.begun.load(Ordering::SeqCst) + 1;
            self.asked.notify_one();
        }
        (result, mark)
    }

    // ---- progress
    // ---------------------------------------------------------------------------------------------

    /// How far the reign is, and who is told of changes.
    pub fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// Everything up to this ticket is settled.
    pub fn settled(&self, ticket: Ticket) {
        self.progress.send_if_modified(|now| {
            let is_news = now.settled < ticket;
            now.settled = now.settled.max(ticket);
            is_news
        });
    }

    /// The reign has ended.
    pub fn lose(&self) {
        self.progress.send_modify(|now| now.is_lost = true);
    }

    /// Returns when the reign has ended.
    pub async fn lost(&self) {
        let _ = self.progress().wait_for(|now| now.is_lost).await; // Its sender is here.
    }

    /// Returns when somebody waits for a confirmation: the number of the one that begins now.
    pub async fn confirmation(&self) -> u64 {
        self.asked.notified().await;
        self.begun.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// A confirmation has come.
    pub fn confirmed(&self, number: u64) {
        self.progress.send_modify(|now| now.confirmed = number);
    }

    /// The ticket of what was proposed last.
    pub fn last(&self) -> Ticket {
        self.last.load(Ordering::Acquire)
    }
}
