//! Gives back the room of what expired, was flushed or was deleted. What a reply tells does not
//! depend on it: what is not there any more is recognised where it is read.

use std::ops::{Bound, ControlFlow};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use everleaf::{Error, OwnedKey, Scan};

use super::database::Database;
use super::listener::Gone;
use super::picture::Picture;
use super::record::{Header, collection_of};
use super::removal::BATCH;
use super::rows::{DATABASES, key_of, keys_prefix};
use super::work::Work;

/// The pause between two steps of the sweep of a server.
pub const SWEEP_PAUSE: Duration = Duration::from_millis(100);
/// Keys that are looked at in one step.
const LOOKED_AT: usize = 2048;
/// Batches of one step.
const BATCHES: usize = 64;
/// A round that finds more than one gone key in so many is followed by one without long pauses.
const FEW: usize = 100;
/// The pause between two steps of the first round, and of one behind a round that found many.
const SHORT_PAUSE: Duration = Duration::from_millis(2);

/// The pause before it is looked again whether keys have to be evicted, where some were. Each time
/// that none were it is twice as long, until it is that of the sweep: a write that finds no room
/// makes some by itself.
const EVICTION_PAUSE: Duration = Duration::from_millis(20);

/// The thread that sweeps; it ends when this is dropped.
pub struct Sweeper {
    /// Dropped, it wakes the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// A way through all keys.
#[derive(Default)]
pub(crate) struct Round {
    /// The last row that was looked at.
    last: Option<Vec<u8>>,
    looked_at: usize,
    gone: usize,
    /// How often each database had been emptied when it began.
    emptied: [u64; DATABASES as usize],
    picture: Picture,
}

impl Round {
    fn found_many(&self) -> bool {
        self.gone * FEW > self.looked_at
    }
}

fn has_expired(value: &[u8], now_ms: u64) -> bool {
    let expires_ms = Header::read(value).and_then(|header| header.expires_ms);
    expires_ms.is_some_and(|expires_ms| expires_ms <= now_ms)
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // A panic there has been reported on stderr.
        }
    }
}

impl Database {
    /// Removes what expired or was deleted, in the background, until the sweeper is dropped.
    pub fn sweep(self: &Arc<Self>, pause: Duration) -> Sweeper {
        let (stop, stopped) = channel();
        let data = Arc::downgrade(self);
        let thread = std::thread::spawn(move || {
            let (mut round, mut next) = (Round::default(), Duration::ZERO);
            let (mut is_urgent, mut looked) = (true, Instant::now());
            let mut eviction_pause = EVICTION_PAUSE;
            while matches!(stopped.recv_timeout(next), Err(RecvTimeoutError::Timeout)) {
                let Some(data) = Weak::upgrade(&data) else { return };
                if data.ahead().is_some_and(|ahead| !ahead.takes_more()) {
                    continue;
                }
                // What fails here fails for the next writer too, which gets the error.
                if !data.count_some().unwrap_or(true) {
                    continue;
                }
                if looked.elapsed() > eviction_pause.min(pause) {
                    // A write that finds no room says so.
                    eviction_pause = match data.evict_excess() {
                        Ok(true) => EVICTION_PAUSE,
                        _ => pause.min(2 * eviction_pause),
                    };
                    looked = Instant::now();
                }
                match data.sweep_step(&mut round) {
                    Ok(false) => {}
                    Ok(true) => is_urgent = std::mem::take(&mut round).found_many(),
                    Err(_) => (round, is_urgent) = (Round::default(), false),
                }
                next = match data.evicts_beyond() {
                    _ if is_urgent => SHORT_PAUSE.min(pause),
                    Some(_) => eviction_pause.min(pause),
                    None => pause,
                };
            }
        });
        Sweeper { stop: Some(stop), thread: Some(thread) }
    }

    /// One step of a round: some keys, and some parts of what was deleted. True: it was the last.
    ///
    /// # Errors
    /// As a write.
    pub(crate) fn sweep_step(&self, round: &mut Round) -> Result<bool, Error> {
        let ended = self.sweep_keys(round)?;
        let _beside = self.beside();
        self.sweep_parts(BATCHES)?;
        Ok(ended)
    }

    fn sweep_keys(&self, round: &mut Round) -> Result<bool, Error> {
        let now_ms = self.begin_request()?;
        let mut scan = Scan::all().with_prefix(keys_prefix(None));
        match round.last.take() {
            Some(last) => scan.from = Bound::Excluded(OwnedKey::from(last)),
            None => {
                round.emptied = std::array::from_fn(|database| self.counts.emptied(database as u8))
            }
        }
        let (mut gone, mut looked_at) = (Vec::new(), 0);
        self.rows.scan_with(scan, |row, value| {
            match self.is_there(row, value, now_ms) {
                true => round.picture.add(row, value),
                false => gone.push(row.to_vec()),
            }
            looked_at += 1;
            if looked_at < LOOKED_AT {
                return ControlFlow::Continue(());
            }
            round.last = Some(row.to_vec());
            ControlFlow::Break(())
        })?;
        (round.looked_at, round.gone) = (round.looked_at + looked_at, round.gone + gone.len());
        for gone in gone.chunks(BATCH) {
            match self.remove_gone(gone, now_ms) {
                Err(error) if error.is_full() => {
                    gone.iter().try_for_each(|row| self.remove_without_room(row, now_ms))?
                }
                done => done?,
            }
        }
        if round.last.is_some() {
            return Ok(false);
        }
        for (database, times) in (0..DATABASES).zip(round.emptied) {
            self.counts.swept(database, times);
        }
        self.picture.set(std::mem::take(&mut round.picture));
        Ok(true)
    }

    /// Removes keys that are not there any more, as one batch or two, each with one wait for the
    /// medium.
    fn remove_gone(&self, rows: &[Vec<u8>], now_ms: u64) -> Result<(), Error> {
        let _held = self.lock_many(rows.iter().map(Vec::as_slice));
        let (mut expired, mut gone_keys) = (Vec::new(), 0);
        // Of what was emptied all have been told then.
        let mut works = [Work::untold(self, now_ms), Work::new(self, now_ms)];
        for row in rows {
            // It may have been written meanwhile.
            let gone = |value: &[u8]| {
                (!self.is_there(row, value, now_ms)).then(|| has_expired(value, now_ms))
            };
            if let Some(has_expired) = self.show(row, gone)?.flatten() {
                works[usize::from(has_expired)].remove_key(row)?;
                expired.extend(has_expired.then_some(row));
                gone_keys += 1;
            }
        }
        let _beside = self.beside();
        works.iter_mut().try_for_each(Work::commit_sweep)?;
        self.expired_keys.add(expired.len() as u64);
        self.listening.tell(|to| expired.iter().for_each(|row| to.gone(row, Gone::Expired)));
        self.reclaimed.add(gone_keys);
        Ok(())
    }

    /// Removes a key that is not there any more, of a full pool: inserts nothing.
    ///
    /// W1: the header of a collection says that it has expired, whatever the clock tells later.
    /// W2: its parts are removed. A crash leaves some of them, and the header.
    /// W3: the key is removed.
    fn remove_without_room(&self, row: &[u8], now_ms: u64) -> Result<(), Error> {
        let found = {
            let _held = self.lock_many([row]);
            let gone = |value: &[u8]| (!self.is_there(row, value, now_ms)).then(|| value.to_vec());
            let Some(value) = self.show(row, gone)?.flatten() else { return Ok(()) };
            let Some((header, collection)) = collection_of(&value) else {
                return self.remove_row(row, now_ms);
            };
            let marked = header.expired().with(&collection.bytes());
            if marked != value {
                self.rows.put(row, &marked)?; // W1.
            }
            (collection.id, marked)
        };
        let (id, marked) = found;
        loop {
            let (parts, _) = self.parts(id)?;
            if parts.is_empty() {
                break;
            }
            let _beside = self.beside();
            self.remove_rows(&parts)?; // W2.
        }
        let _held = self.lock_many([row]);
        if self.show(row, |value| *value == *marked)? == Some(true) {
            self.remove_row(row, now_ms)?; // W3.
        }
        Ok(())
    }

    fn remove_row(&self, row: &[u8], now_ms: u64) -> Result<(), Error> {
        let mut work = Work::new(self, now_ms);
        work.delete(row.to_vec());
        let _beside = self.beside();
        work.commit_sweep()
    }

    /// What cannot be read is left for `check`.
    fn is_there(&self, row: &[u8], value: &[u8], now_ms: u64) -> bool {
        match (key_of(row), Header::read(value)) {
            (Some((database, _)), Some(header)) => self.live(database, now_ms).shows(&header),
            _ => true,
        }
    }
}
