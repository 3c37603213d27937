//! What a disk can do at most: a loop of append and sync. And a processor that stays awake
//! meanwhile: where one idles, a virtual machine may hear of the end of a sync only at the next
//! tick of its host, and results differ 40 times without meaning anything.

use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use rustix::fs::OFlags;

use crate::BenchError;

/// Bytes of an append: a block, the least that a disk writes.
const BLOCK: usize = 4096;
/// Appends of a measurement.
const APPENDS: u64 = 500;

/// A buffer of a block, aligned as direct writes want it.
#[repr(C, align(4096))]
struct Aligned([u8; BLOCK]);

/// Appends and syncs a second, by one thread, to a file in this folder that was written with zeros
/// before: by O_DIRECT and O_DSYNC.
pub fn appends_per_second(folder: &Path) -> Result<f64, BenchError> {
    let path = folder.join("raw");
    let failed = |source| BenchError::Io { action: "appending to", path: path.clone(), source };
    let file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(failed)?;
    file.write_all_at(&vec![0; BLOCK * APPENDS as usize], 0).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    drop(file);
    let flags = (OFlags::DIRECT | OFlags::DSYNC).bits() as i32;
    let file = OpenOptions::new().write(true).custom_flags(flags).open(&path).map_err(failed)?;
    let (block, start) = (Aligned([0x5a; BLOCK]), Instant::now());
    for place in 0..APPENDS {
        file.write_all_at(&block.0, place * BLOCK as u64).map_err(failed)?;
    }
    let elapsed = start.elapsed().as_secs_f64();
    std::fs::remove_file(&path).map_err(failed)?;
    Ok(APPENDS as f64 / elapsed.max(1e-9))
}

/// Keeps a processor awake until it is dropped, by a thread that gives way to all others.
pub struct Awake {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Awake {
    /// Starts it; without the thread nothing is lost but steadiness.
    pub fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let spin = move || {
            // Of this thread alone, on Linux.
            let _ = rustix::process::nice(19);
            while !stopped.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        };
        let thread = std::thread::Builder::new().name("awake".into()).spawn(spin).ok();
        Self { stop, thread }
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}
