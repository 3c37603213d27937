//! Backups: dumps of the pool in a folder of the operator's, each of one moment, one at a time, by
//! a thread of its own.
//!
//! A backup is called after its moment, `20261128T120000Z.dump`; others of that second have a
//! number behind it. It has its name when it is complete and on its medium. Nothing is replaced,
//! and nothing is removed but what killed servers have left of backups that were never complete.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, UNIX_EPOCH};

use everleaf::internal::remove_abandoned;
use parking_lot::Mutex;
use rustix::fs::{Access, access};
use tracing::{error, info};

use crate::ServeError;
use crate::data::Database;

/// How the name of a backup ends.
const EXTENSION: &str = ".dump";
/// The last moment whose year has four digits.
const LAST_MS: u64 = 253_402_300_799_999;

/// The backups of a server.
pub struct Backups {
    folder: Option<PathBuf>,
    is_ending: AtomicBool,
    state: Mutex<State>,
}

struct State {
    last: Last,
    in_progress: bool,
    /// Makes one, or has made the last one.
    thread: Option<JoinHandle<()>>,
}

/// What is known of the last backup.
#[derive(Clone, Copy)]
pub struct Last {
    /// When the last one was complete that succeeded; before any: when the server began.
    pub saved_ms: u64,
    /// Whether the last one failed.
    pub failed: bool,
    /// How long it took; none: there was none.
    pub took: Option<Duration>,
}

/// Why no backup is begun.
pub enum Refused {
    /// The server has no folder for them.
    NoFolder,
    /// One is being made.
    InProgress,
    /// The server stops.
    Ending,
    /// The system gives no thread.
    NoThread,
}

impl Backups {
    /// Of a server that begins now; without a folder they are refused.
    pub fn new(folder: Option<PathBuf>, now_ms: u64) -> Arc<Self> {
        let last = Last { saved_ms: now_ms, failed: false, took: None };
        let state = Mutex::new(State { last, in_progress: false, thread: None });
        Arc::new(Self { folder, is_ending: false.into(), state })
    }

    /// Looks whether backups can be written, and removes what killed servers have left.
    ///
    /// # Errors
    /// [`ServeError::Backups`].
    pub fn prepare(&self) -> Result<(), ServeError> {
        let Some(folder) = &self.folder else { return Ok(()) };
        // A folder has this entry, and nothing else has one. It is read to be synced.
        let rights = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
        access(folder.join("."), rights).map_err(|error| ServeError::Backups {
            folder: folder.clone(),
            source: error.into(),
        })?;
        remove_parts(folder);
        Ok(())
    }

    /// Begins a backup. A word comes when its moment is fixed, and another one when it is complete;
    /// none comes any more when it has failed.
    pub fn begin(self: &Arc<Self>, data: &Arc<Database>) -> Result<Receiver<()>, Refused> {
        let folder = self.folder.clone().ok_or(Refused::NoFolder)?;
        let mut state = self.state.lock();
        if state.in_progress {
            return Err(Refused::InProgress);
        }
        if self.is_ending.load(Ordering::Relaxed) {
            return Err(Refused::Ending);
        }
        if let Some(thread) = state.thread.take() {
            let _ = thread.join(); // It has told its end already.
        }
        let (step, steps) = channel();
        let (backups, data) = (Arc::clone(self), Arc::clone(data));
        let run = move || backups.make(&data, &folder, &step);
        let thread = std::thread::Builder::new().name("backup".to_owned()).spawn(run);
        let thread = thread.map_err(|error| {
            error!(%error, "no thread for a backup");
            Refused::NoThread
        })?;
        (state.in_progress, state.thread) = (true, Some(thread));
        Ok(steps)
    }

    fn make(&self, data: &Database, folder: &Path, step: &Sender<()>) {
        let (begun, now_ms) = (Instant::now(), data.now_ms());
        remove_parts(folder);
        let path = new_path(folder, now_ms);
        data.wait_for_store();
        let mut is_fixed = false;
        let made = data.store().dump_file_with(&path, |_| {
            if !std::mem::replace(&mut is_fixed, true) {
                let _ = step.send(()); // Whoever asked may be gone.
            }
            match self.is_ending.load(Ordering::Relaxed) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        let mut state = self.state.lock();
        let saved_ms = if made.is_ok() { data.now_ms() } else { state.last.saved_ms };
        state.last = Last { saved_ms, failed: made.is_err(), took: Some(begun.elapsed()) };
        state.in_progress = false;
        drop(state);
        match made {
            Ok(made) => {
                info!(bytes = made.bytes, "made the backup {}", path.display());
                let _ = step.send(());
            }
            Err(error) => error!(%error, "the backup {} failed", path.display()),
        }
    }

    /// Ends the backup that is being made, and refuses others. The thread that has to end.
    pub fn stop(&self) -> Option<JoinHandle<()>> {
        let mut state = self.state.lock();
        self.is_ending.store(true, Ordering::Relaxed);
        state.thread.take()
    }

    /// Whether one is being made.
    pub fn in_progress(&self) -> bool {
        self.state.lock().in_progress
    }

    /// What is known of the last one.
    pub fn last(&self) -> Last {
        self.state.lock().last
    }
}

/// A name after a moment that nothing in the folder has.
fn new_path(folder: &Path, now_ms: u64) -> PathBuf {
    let moment = UNIX_EPOCH + Duration::from_millis(now_ms.min(LAST_MS));
    let moment = humantime::format_rfc3339_seconds(moment).to_string().replace(['-', ':'], "");
    let mut path = folder.join(format!("{moment}{EXTENSION}"));
    let mut number = 1;
    while path.symlink_metadata().is_ok() {
        number += 1;
        path.set_file_name(format!("{moment}_{number}{EXTENSION}"));
    }
    path
}

/// Removes what killed servers have left of backups. What is being made is locked and stays.
fn remove_parts(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if let Some(name) = entry.file_name().to_str().and_then(name_of_part) {
            remove_abandoned(&folder.join(name));
        }
    }
}

/// What a backup is called that had this name while it was made.
fn name_of_part(part: &str) -> Option<&str> {
    let moment = part.find(EXTENSION)?;
    let (name, rest) = part.split_at(moment + EXTENSION.len());
    let digits =
        name[..moment].bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'T' | b'Z' | b'_'));
    (digits && !rest.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backups_of_one_second_have_numbers_that_go_on() {
        let folder = tempfile::tempdir().unwrap();
        let mut made = Vec::new();
        for now_ms in [0, 999, 500, u64::MAX] {
            let path = new_path(folder.path(), now_ms);
            fs::write(&path, "").unwrap();
            made.push(path.file_name().unwrap().to_str().unwrap().to_owned());
        }
        let names = ["_2.dump", "_3.dump"].map(|end| format!("19700101T000000Z{end}"));
        assert_eq!(made[0], "19700101T000000Z.dump");
        assert_eq!((&made[1..3], &made[3][..]), (&names[..], "99991231T235959Z.dump"));
        assert!(made.is_sorted());
    }

    #[test]
    fn only_parts_of_backups_are_taken_for_such() {
        let folder = tempfile::tempdir().unwrap();
        let kept = [
            "19700101T000000Z.dump",
            "19700101T000000Z.dump.gz",
            "mine.dump.7.unfinished",
            "19700101T000000Z.dump.x.unfinished",
        ];
        let gone = ["19700101T000000Z.dump.7.unfinished", "19700101T000000Z_2.dump.8.unfinished"];
        kept.iter().chain(&gone).for_each(|name| fs::write(folder.path().join(name), "").unwrap());
        Backups::new(Some(folder.path().into()), 0).prepare().unwrap();
        assert!(kept.iter().all(|name| folder.path().join(name).exists()));
        assert!(!gone.iter().any(|name| folder.path().join(name).exists()));
    }

    #[test]
    fn a_folder_that_is_none_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        for wrong in [&file, &folder.path().join("none")] {
            let refused = Backups::new(Some(wrong.into()), 0).prepare();
            let sentence = refused.unwrap_err().to_string();
            assert!(sentence.starts_with("backups cannot be written to /"), "{sentence}");
        }
    }
}
