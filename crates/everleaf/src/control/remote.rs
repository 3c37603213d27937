//! A pool that is open in another process, as a store of this one: it can be read.

use std::io::{self, BufReader};
use std::ops::Bound;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use everleaf_index::Direction;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use super::socket::connect_to;
use super::wire::{
    BUFFER_BYTES, Batch, Checked, Described, Hello, PROTOCOL, Refusal, Request, receive, send,
};
use crate::core::backend::{
    Backend, ClaimedPlace, Condition, Reading, Sweeping, Swept, Transacting, Visit, WriteOutcome,
    Writing,
};
use crate::core::deferred_waits::Waiting;
use crate::core::entry_batches::{BATCH_ENTRIES, Fetched};
use crate::core::gate::Turn;
use crate::core::images::Images;
use crate::core::keyspace::Space;
use crate::core::progress::{Watch, report};
use crate::core::read_set::{Bounds, Reads};
use crate::core::tree_liveness::TreeLiveness;
use crate::core::value::{NewValue, TimedValue};
use crate::core::value_record::KeyBytes;
use crate::core::write::Write;
use crate::dump::{CUT_OFF, read_frames};
use crate::snapshot::DEFAULT_SNAPSHOT_BYTES;
use crate::{
    Capabilities, CheckOutcome, DurabilityMode, Engine, EngineParameters, Error, Key, KeyType,
    OwnedKey, Statistics, Store,
};

/// An owner that says nothing for so long at first is taken for one that does not answer.
const FIRST_ANSWER: Duration = Duration::from_secs(10);

/// The store in the pool at `path`, which another process has open to write, to be read through
/// that process as it is at one moment; none if no process answers there.
///
/// # Errors
/// [`Error::Elsewhere`].
pub fn open_elsewhere(path: &Path) -> Result<Option<Store>, Error> {
    let Some((stream, _)) = connect_to(path) else { return Ok(None) };
    let refused = |what: String| Error::Elsewhere { path: path.into(), what };
    let mut stream = BufReader::with_capacity(BUFFER_BYTES, stream);
    let hello = |stream: &mut BufReader<UnixStream>| -> io::Result<Hello<serde_json::Value>> {
        stream.get_ref().set_read_timeout(Some(FIRST_ANSWER))?;
        let hello = receive(stream)?;
        stream.get_ref().set_read_timeout(None)?; // A check takes its time.
        Ok(hello)
    };
    let Ok(hello) = hello(&mut stream) else { return Ok(None) };
    if hello.protocol != PROTOCOL {
        return Err(refused("it is of another release; use the command of that release".into()));
    }
    let pool = serde_json::from_value::<Result<Described, Refusal>>(hello.pool);
    let pool = pool.map_err(|error| refused(error.to_string()))?;
    let pool = pool.map_err(|why| refused(why.what))?;
    Ok(Some(Store::over(Arc::new(Remote {
        path: path.into(),
        pool,
        stream: Mutex::new(Some(stream)),
        images: Mutex::new(None),
    }))))
}

/// The pool, by a connection to its owner.
struct Remote {
    path: PathBuf,
    pool: Described,
    /// None once an answer was cut off, or not understood.
    stream: Mutex<Option<BufReader<UnixStream>>>,
    /// The moment that is read, once something was: the owner keeps what changes since, so these
    /// stay empty.
    images: Mutex<Option<Arc<Images>>>,
}

impl Remote {
    fn failed(&self, what: impl Into<String>) -> Error {
        Error::Elsewhere { path: self.path.clone(), what: what.into() }
    }

    fn refused(&self, why: Refusal) -> Error {
        match why.lost_limit_bytes {
            Some(limit_bytes) => Error::SnapshotLost { limit_bytes },
            None => self.failed(why.what),
        }
    }

    /// Sends a request and reads the answer. After a failure nothing more is asked.
    fn converse<T>(
        &self,
        request: &Request,
        read: impl FnOnce(&mut BufReader<UnixStream>) -> io::Result<T>,
    ) -> Result<T, Error> {
        let mut place = self.stream.lock();
        let ended = "it has ended, or closed the pool, or waited too long for this one; try again";
        let mut stream = place.take().ok_or_else(|| self.failed(ended))?;
        let asked = send(&mut stream.get_ref(), request).and_then(|()| read(&mut stream));
        let answer = asked.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset => self.failed(ended),
            _ => self.failed(error.to_string()),
        })?;
        *place = Some(stream);
        Ok(answer)
    }

    fn ask<T: DeserializeOwned>(&self, request: &Request) -> Result<T, Error> {
        let answer: Result<T, Refusal> = self.converse(request, receive)?;
        answer.map_err(|why| self.refused(why))
    }

    /// The moment that is read, which begins with the first call.
    fn moment(&self, limit_bytes: u64) -> Result<Arc<Images>, Error> {
        let mut images = self.images.lock();
        if let Some(images) = &*images {
            return Ok(Arc::clone(images));
        }
        let now_ms = self.ask(&Request::Snapshot { limit_bytes })?;
        Ok(Arc::clone(images.insert(Arc::new(Images::new(now_ms, limit_bytes)))))
    }

    /// Entries, and whether there are no more.
    fn entries(
        &self,
        from: Bound<Key<'_>>,
        direction: Direction,
        limit: usize,
    ) -> Result<(Vec<Fetched>, bool), Error> {
        let images = self.moment(DEFAULT_SNAPSHOT_BYTES)?;
        let once = matches!(from, Bound::Excluded(key) if images.has_passed(key));
        let request = Request::Entries {
            from: from.map(|key| KeyBytes::of(key).as_slice().to_vec()),
            backward: direction == Direction::Backward,
            limit,
            once,
        };
        let answer = self.converse(&request, |stream| {
            let batch: Batch = match receive(stream)? {
                Ok(batch) => batch,
                Err(why) => return Ok(Err(why)),
            };
            match read_frames(stream, self.pool.key_type) {
                Ok(entries) => Ok(Ok((entries, batch.at_end))),
                Err(Error::Stream { source, .. }) => Err(source),
                Err(Error::Dump { what }) if what == CUT_OFF => {
                    Err(io::ErrorKind::UnexpectedEof.into())
                }
                Err(error) => Err(io::Error::other(error)),
            }
        })?;
        answer.map_err(|why| self.refused(why))
    }
}

fn found(entry: &Fetched) -> TimedValue<'_> {
    TimedValue { value: &entry.value, expires_ms: entry.expires_ms }
}

impl Reading for Remote {
    fn get_with(
        &self,
        life: &TreeLiveness,
        key: Key<'_>,
        show: &mut dyn FnMut(TimedValue<'_>),
    ) -> Result<bool, Error> {
        life.check()?;
        let (entries, _) = self.entries(Bound::Included(key), Direction::Forward, 1)?;
        let entry = entries.first().filter(|entry| entry.key.as_ref() == key);
        entry.map(found).into_iter().for_each(show);
        Ok(entry.is_some())
    }

    fn get_many(
        &self,
        life: &TreeLiveness,
        keys: &[Key<'_>],
        show: &mut dyn FnMut(usize, TimedValue<'_>),
    ) -> Result<(), Error> {
        for (number, key) in keys.iter().enumerate() {
            self.get_with(life, *key, &mut |found| show(number, found))?;
        }
        Ok(())
    }

    fn prefetch(&self, _: &TreeLiveness, _: &[Key<'_>]) -> Result<(), Error> {
        Ok(())
    }

    /// What has expired is never shown: the moment that is read has its own time.
    fn scan(
        &self,
        life: &TreeLiveness,
        from: Bound<Key<'_>>,
        direction: Direction,
        _expired: bool,
        visit: &mut Visit<'_>,
    ) -> Result<(), Error> {
        life.check()?;
        let mut from = from.map(Key::to_owned);
        loop {
            let bound = from.as_ref().map(OwnedKey::as_ref);
            let (mut entries, at_end) = self.entries(bound, direction, BATCH_ENTRIES)?;
            for entry in &entries {
                if visit(entry.key.as_ref(), found(entry)).is_break() {
                    return Ok(());
                }
            }
            match entries.pop() {
                Some(last) if !at_end => from = Bound::Excluded(last.key),
                _ => return Ok(()),
            }
        }
    }

    fn keys_in(&self, life: &TreeLiveness, space: Option<Space>) -> Result<u64, Error> {
        life.check()?;
        self.ask(&Request::Count { space })
    }
}

impl Writing for Remote {
    fn write(
        &self,
        _: &TreeLiveness,
        _: Key<'_>,
        _: Condition<'_>,
        _: Option<NewValue<'_>>,
    ) -> Result<WriteOutcome, Error> {
        Err(Error::ReadOnly)
    }

    fn apply(&self, _: &[Write]) -> Result<Vec<WriteOutcome>, Error> {
        Err(Error::ReadOnly)
    }
}

impl Sweeping for Remote {
    fn know_what_expires(&self) -> Result<(), Error> {
        Err(Error::ReadOnly)
    }

    fn knows_what_expires(&self) -> bool {
        false
    }

    fn walk_in_background(self: Arc<Self>) -> bool {
        false
    }

    fn remove_some_expired(&self, _: u64) -> Result<Swept, Error> {
        Err(Error::ReadOnly)
    }
}

impl Transacting for Remote {
    fn begin_reads(&self) -> Result<Reads, Error> {
        Err(Error::ReadOnly)
    }

    fn read_into(&self, _: &mut Reads, _: &TreeLiveness, _: Key<'_>) -> Result<(), Error> {
        Err(Error::ReadOnly)
    }

    fn scan_into(
        &self,
        _: &mut Reads,
        _: &TreeLiveness,
        _: Bounds,
        _: Direction,
        _: usize,
    ) -> Result<Option<Bounds>, Error> {
        Err(Error::ReadOnly)
    }

    fn run_alone(&self, _: Duration) -> Option<Turn<'_>> {
        None
    }

    fn commit(&self, _: &Reads, _: &[Write]) -> Result<(), Error> {
        Err(Error::ReadOnly)
    }
}

impl Backend for Remote {
    fn ready(&self) -> Result<(), Error> {
        Ok(())
    }

    fn engine(&self) -> Engine {
        self.pool.engine
    }

    fn key_type(&self) -> KeyType {
        self.pool.key_type
    }

    fn parameters(&self) -> EngineParameters {
        self.pool.parameters
    }

    fn now_ms(&self) -> u64 {
        self.images.lock().as_ref().map_or(0, |images| images.now_ms)
    }

    fn wait_for_others(&self) -> Result<(), Error> {
        Ok(())
    }

    fn begin_snapshot(&self, limit_bytes: u64) -> Result<Arc<Images>, Error> {
        self.moment(limit_bytes)
    }

    fn end_snapshot(&self, _: &Arc<Images>) {}

    fn statistics(&self) -> Result<Statistics, Error> {
        self.ask(&Request::Statistics)
    }

    fn claim_place(&self, _: Space, _: u64, _: u64) -> Result<Option<ClaimedPlace>, Error> {
        Err(Error::ReadOnly)
    }

    fn has_place(&self, _: u64) -> Result<bool, Error> {
        Err(Error::ReadOnly)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { writable: false, ..self.pool.capabilities }
    }

    fn chosen_durability(&self) -> Result<Option<DurabilityMode>, Error> {
        Ok(self.pool.chosen_durability)
    }

    fn check(&self, watch: &mut Watch<'_>) -> Result<CheckOutcome, Error> {
        let checked = self.converse(&Request::Check, |stream| {
            loop {
                match receive(stream)? {
                    Checked::Outcome(outcome) => return Ok(outcome.map_err(|w| self.refused(w))),
                    Checked::Progress(progress) => {
                        if let Err(aborted) = report(watch, &progress) {
                            return Ok(Err(aborted));
                        }
                    }
                }
            }
        })?;
        if let Err(Error::Aborted) = checked {
            *self.stream.lock() = None; // The owner sees it, and ends the check.
        }
        checked
    }

    fn points(&self) -> Option<Arc<dyn Waiting>> {
        None
    }

    fn sync(&self) -> Result<(), Error> {
        Ok(())
    }

    fn is_being_restored(&self) -> Result<bool, Error> {
        Ok(false)
    }

    fn mark_being_restored(&self, _: bool) -> Result<(), Error> {
        Err(Error::ReadOnly)
    }

    fn close(&self) -> Result<(), Error> {
        *self.stream.lock() = None;
        Ok(())
    }
}
