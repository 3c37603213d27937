//! What the owner of a pool answers.

use std::io::{self, BufReader, BufWriter, Write};
use std::ops::{Bound, ControlFlow};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use everleaf_index::Direction;

use super::wire::{
    BUFFER_BYTES, Batch, Checked, Described, Hello, PROTOCOL, REQUEST_BYTES, Refusal, Request,
    read_line, send, write_line,
};
use crate::core::backend::Backend;
use crate::core::entry_batches::{BATCH_ENTRIES, Fetched};
use crate::core::keyspace::Space;
use crate::core::tree_liveness::TreeLiveness;
use crate::core::value_record::key_of_bytes;
use crate::dump::write_frames;
use crate::handle::Handle;
use crate::scan::Cursor;
use crate::snapshot::Snapshot;
use crate::{Error, OwnedKey};

/// A check, which all writers wait for, ends when its asker has not read for so long.
const CHECK_PATIENCE: Duration = Duration::from_secs(10);
/// Between two lines that say how far a check has come.
const PROGRESS_PAUSE: Duration = Duration::from_millis(100);

/// Answers one asker until it ends.
pub(super) fn converse(
    backend: &Arc<dyn Backend>,
    stream: &UnixStream,
    ending: &AtomicBool,
) -> io::Result<()> {
    let mut input = BufReader::new(stream);
    let output = BufWriter::with_capacity(BUFFER_BYTES, stream);
    let mut asker = Asker { backend, ending, output, snapshot: None };
    let pool = described(&**backend).map_err(Refusal::from);
    send(&mut asker.output, &Hello { protocol: PROTOCOL, pool })?;
    loop {
        let line = match read_line(&mut input, REQUEST_BYTES) {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return asker.refuse(Refusal::of("a request is too long"));
            }
            line => line?,
        };
        let Some(line) = line else { return Ok(()) };
        match serde_json::from_slice(&line) {
            Ok(request) => asker.answer(request)?,
            Err(error) => asker.refuse(Refusal::of(format!("this is no request: {error}")))?,
        }
    }
}

/// What the pool is. One that is being restored is to be read by nobody.
fn described(backend: &dyn Backend) -> Result<Described, Error> {
    if backend.is_being_restored()? {
        return Err(Error::BeingRestored);
    }
    Ok(Described {
        engine: backend.engine(),
        key_type: backend.key_type(),
        parameters: backend.parameters(),
        capabilities: backend.capabilities(),
        chosen_durability: backend.chosen_durability()?,
    })
}

/// One that asks.
struct Asker<'s> {
    backend: &'s Arc<dyn Backend>,
    /// Whether the store is being closed.
    ending: &'s AtomicBool,
    output: BufWriter<&'s UnixStream>,
    /// The moment that it reads.
    snapshot: Option<Snapshot>,
}

impl Asker<'_> {
    fn refuse(&mut self, why: Refusal) -> io::Result<()> {
        send(&mut self.output, &Err::<(), _>(why))
    }

    fn answer(&mut self, request: Request) -> io::Result<()> {
        match request {
            Request::Snapshot { limit_bytes } => {
                let begun = self.begin_snapshot(limit_bytes);
                send(&mut self.output, &begun.map_err(Refusal::from))
            }
            Request::Entries { from, backward, limit, once } => {
                match self.entries(from, backward, limit, once) {
                    Ok((entries, at_end)) => self.send_entries(&entries, at_end),
                    Err(error) => self.refuse(error.into()),
                }
            }
            Request::Count { space } => {
                let count = self.backend.keys_in(&TreeLiveness::OF_STORE, space);
                send(&mut self.output, &count.map_err(Refusal::from))
            }
            Request::Statistics => {
                let statistics = self.backend.statistics();
                send(&mut self.output, &statistics.map_err(Refusal::from))
            }
            Request::Check => self.check(),
        }
    }

    /// The time at which it began.
    fn begin_snapshot(&mut self, limit_bytes: u64) -> Result<u64, Error> {
        self.snapshot = None; // The one before holds values no more.
        let space = Space::of_store(self.backend.key_type());
        let handle = Handle::new(Arc::clone(self.backend), space, TreeLiveness::OF_STORE);
        let snapshot = Snapshot::begin(&handle, limit_bytes)?;
        let now_ms = snapshot.images().now_ms;
        self.snapshot = Some(snapshot);
        Ok(now_ms)
    }

    /// Entries, and whether there are no more.
    fn entries(
        &self,
        from: Bound<Vec<u8>>,
        backward: bool,
        limit: usize,
        once: bool,
    ) -> Result<(Vec<Fetched>, bool), Error> {
        let snapshot = self.snapshot.as_ref().ok_or(Error::SnapshotLost { limit_bytes: 0 })?;
        let expected = self.backend.key_type();
        let key = |bytes: Vec<u8>| key_of_bytes(&bytes, expected).map(|key| key.to_owned());
        let from: Bound<OwnedKey> = match from {
            Bound::Unbounded => Bound::Unbounded,
            Bound::Included(bytes) => {
                Bound::Included(key(bytes).ok_or(Error::WrongKeyType { expected })?)
            }
            Bound::Excluded(bytes) => {
                Bound::Excluded(key(bytes).ok_or(Error::WrongKeyType { expected })?)
            }
        };
        // The asker goes on from the last entry that it has used, which may not be the last one
        // that it was given: what lies behind that is still to be kept.
        if let (true, Bound::Excluded(passed)) = (once, &from) {
            snapshot.images().pass(passed);
        }
        let (direction, bounds) = match backward {
            false => (Direction::Forward, (from, Bound::Unbounded)),
            true => (Direction::Backward, (Bound::Unbounded, from)),
        };
        let images = Some(Arc::clone(snapshot.images()));
        let mut cursor =
            Cursor::new(Arc::clone(self.backend), TreeLiveness::OF_STORE, images, bounds);
        let entries = cursor.fetch(direction, limit.clamp(1, BATCH_ENTRIES))?;
        Ok((entries, cursor.exhausted))
    }

    fn send_entries(&mut self, entries: &[Fetched], at_end: bool) -> io::Result<()> {
        write_line(&mut self.output, &Ok::<_, Refusal>(Batch { at_end }))?;
        write_frames(&mut self.output, entries).map_err(|error| match error {
            Error::Stream { source, .. } => source,
            error => io::Error::other(error),
        })?;
        self.output.flush()
    }

    /// Everything else waits meanwhile. So it ends when nobody waits for what it finds, which the
    /// lines that say how far it has come find out.
    fn check(&mut self) -> io::Result<()> {
        let (stream, ending) = (*self.output.get_ref(), self.ending);
        let patience = stream.write_timeout()?;
        stream.set_write_timeout(Some(CHECK_PATIENCE))?;
        let output = &mut self.output;
        let mut said = Instant::now();
        let outcome = self.backend.check(&mut |progress| {
            if ending.load(Ordering::Acquire) {
                return ControlFlow::Break(());
            }
            if said.elapsed() < PROGRESS_PAUSE {
                return ControlFlow::Continue(());
            }
            said = Instant::now();
            match send(output, &Checked::Progress(*progress)) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        });
        stream.set_write_timeout(patience)?;
        let outcome = outcome.map_err(|error| match error {
            Error::Aborted if ending.load(Ordering::Acquire) => {
                Refusal::of("the pool is being closed; try again")
            }
            Error::Aborted => Refusal::of("the check has waited too long for this one; try again"),
            error => error.into(),
        });
        send(&mut self.output, &Checked::Outcome(outcome))
    }
}
