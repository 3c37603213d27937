//! A disk whose power fails: each sector that is not synced holds any one of its versions since the
//! last sync, each independently of the others; lengths and names are lost until they are synced.
//!
//! A failed sync drops what it could not write: reads still see it, the next sync succeeds without
//! it, and a power failure may leave it or not.
//!
//! A file that is mapped has its page cache in a file of memory: so the mapping is a real one.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use rustix::fs::{MemfdFlags, memfd_create};

use crate::disk::{Disk, DiskFile, Space};

/// What is written whole or not at all.
const SECTOR: usize = 512;

/// A sector, and what it was.
type Versions = BTreeMap<usize, Vec<[u8; SECTOR]>>;

/// What a file holds.
#[derive(Clone, Default)]
struct Content {
    /// What reads see.
    cached: Vec<u8>,
    /// What is on the disk for certain.
    durable: Vec<u8>,
    /// Of each sector that was written since the last sync all its versions.
    unsynced: Versions,
    /// The same of those that a failed sync has dropped.
    dropped: Versions,
    /// What `cached` is for those who have mapped it.
    mapped: Option<Arc<File>>,
}

impl Content {
    /// What another process finds.
    fn unmapped(&self) -> Self {
        Self { mapped: None, ..self.clone() }
    }

    fn map(&mut self) -> io::Result<File> {
        if self.mapped.is_none() {
            let file = File::from(memfd_create("everleaf-simulated", MemfdFlags::CLOEXEC)?);
            file.write_all_at(&self.cached, 0)?;
            self.mapped = Some(Arc::new(file));
        }
        self.mapped.as_ref().map_or(Err(io::ErrorKind::NotFound.into()), |file| file.try_clone())
    }

    fn lengthen(&mut self, length: usize) -> io::Result<()> {
        let had = self.cached.len();
        self.cached.resize(length, 0);
        let zeros = &self.cached[had..];
        self.mapped.as_ref().map_or(Ok(()), |file| file.write_all_at(zeros, had as u64))
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) -> io::Result<()> {
        let end = offset + bytes.len();
        if self.cached.len() < end {
            self.lengthen(end)?;
        }
        if let Some(file) = &self.mapped {
            file.write_all_at(bytes, offset as u64)?;
        }
        self.cached[offset..end].copy_from_slice(bytes);
        for sector in offset / SECTOR..end.div_ceil(SECTOR) {
            let version = sector_of(&self.cached, sector);
            let mut versions = self.dropped.remove(&sector).unwrap_or_default();
            let unsynced = self.unsynced.entry(sector).or_default();
            versions.append(unsynced);
            versions.push(version);
            *unsynced = versions;
        }
        Ok(())
    }

    fn sync(&mut self) {
        self.durable.resize(self.cached.len(), 0);
        for (sector, versions) in std::mem::take(&mut self.unsynced) {
            if let Some(last) = versions.last() {
                put_sector(&mut self.durable, sector, last);
            }
        }
    }

    fn fail_to_sync(&mut self) {
        self.dropped.append(&mut self.unsynced);
    }

    /// The sectors that a power failure decides about, and in how many ways.
    fn choices(&self) -> impl Iterator<Item = (usize, &Vec<[u8; SECTOR]>)> {
        self.dropped.iter().chain(&self.unsynced).map(|(sector, versions)| (*sector, versions))
    }

    /// What a power failure leaves; `choose` says which of so many versions.
    fn after(&self, choose: &mut dyn FnMut(usize) -> usize) -> Self {
        let lengths = [self.durable.len(), self.cached.len()];
        let ways = if lengths[0] == lengths[1] { 1 } else { 2 };
        let mut left = self.durable.clone();
        left.resize(lengths[choose(ways)], 0);
        for (sector, versions) in self.choices() {
            let chosen = choose(versions.len() + 1);
            if chosen > 0 && sector * SECTOR < left.len() {
                put_sector(&mut left, sector, &versions[chosen - 1]);
            }
        }
        Self { cached: left.clone(), durable: left, ..Self::default() }
    }
}

fn sector_of(bytes: &[u8], sector: usize) -> [u8; SECTOR] {
    let mut version = [0; SECTOR];
    let end = bytes.len().min((sector + 1) * SECTOR);
    let there = &bytes[sector * SECTOR..end];
    version[..there.len()].copy_from_slice(there);
    version
}

fn put_sector(bytes: &mut [u8], sector: usize, version: &[u8; SECTOR]) {
    let end = bytes.len().min((sector + 1) * SECTOR);
    let place = &mut bytes[sector * SECTOR..end];
    place.copy_from_slice(&version[..place.len()]);
}

/// Who is shown the disk.
type Watch = Arc<dyn Fn(&SimulatedDisk) + Send + Sync>;

#[derive(Clone, Default)]
struct State {
    files: Vec<Content>,
    /// Of each name the file now, and the one that a crash may bring back.
    names: BTreeMap<String, (Option<usize>, Option<usize>)>,
    /// Operations that changed something.
    operations: u64,
    /// Before this operation the power fails.
    cut: Option<u64>,
    /// This sync fails, counted from now.
    failing_sync: Option<u64>,
    /// Bytes that files may have together.
    room: Option<u64>,
    /// Whether whoever asks is told how much of it is left.
    tells_room: bool,
    /// Called before each operation.
    watch: Option<Watch>,
}

/// Begins an operation that changes something, and counts it.
fn operate(shared: &Arc<Mutex<State>>) -> io::Result<MutexGuard<'_, State>> {
    let mut state = shared.lock();
    state.operations += 1;
    if state.is_off() {
        return Err(io::Error::other("the power has failed"));
    }
    if let Some(watch) = state.watch.clone() {
        let disk = SimulatedDisk { state: Arc::clone(shared) };
        MutexGuard::unlocked(&mut state, || watch(&disk));
    }
    Ok(state)
}

impl State {
    /// What another process finds when this one was killed.
    fn as_killed(&self) -> SimulatedDisk {
        let files = (0..).zip(&self.files);
        let left = |(file, content): (usize, &Content)| match self.leads_to(file) {
            true => content.unmapped(),
            false => Content::default(),
        };
        let (files, names) = (files.map(left).collect(), self.names.clone());
        let (room, tells_room) = (self.room, self.tells_room);
        let state = Self { files, names, room, tells_room, ..Self::default() };
        SimulatedDisk { state: Arc::new(Mutex::new(state)) }
    }

    /// Whether a name leads to a file, or may again after a crash. The first is the pool's.
    fn leads_to(&self, file: usize) -> bool {
        let named = |(now, before): &(Option<usize>, Option<usize>)| {
            *now == Some(file) || *before == Some(file)
        };
        file == 0 || self.names.values().any(named)
    }

    /// Bytes of the files that have a name, and of the pool's.
    fn used_bytes(&self) -> u64 {
        let is_there =
            |file: usize| file == 0 || self.names.values().any(|(now, _)| *now == Some(file));
        let files = self.files.iter().enumerate().filter(|(file, _)| is_there(*file));
        files.map(|(_, content)| content.cached.len() as u64).sum()
    }

    fn space(&self) -> Option<Space> {
        let total_bytes = self.room.filter(|_| self.tells_room)?;
        let free_bytes = total_bytes.saturating_sub(self.used_bytes());
        Some(Space { device: 0, free_bytes, total_bytes })
    }

    fn is_off(&self) -> bool {
        self.cut.is_some_and(|cut| self.operations > cut)
    }

    fn file(&self, name: &str) -> io::Result<usize> {
        let there = self.names.get(name).and_then(|(now, _)| *now);
        there.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// A folder on a disk whose power fails when a test says so.
#[derive(Clone, Default)]
pub struct SimulatedDisk {
    state: Arc<Mutex<State>>,
}

impl SimulatedDisk {
    /// An empty folder.
    pub fn new() -> Self {
        Self::default()
    }

    /// A file without a name, that a power failure does not take away.
    pub fn nameless(&self) -> Arc<SimulatedFile> {
        let mut state = self.state.lock();
        state.files.push(Content::default());
        Arc::new(SimulatedFile { state: Arc::clone(&self.state), file: state.files.len() - 1 })
    }

    /// The file that [`nameless`](Self::nameless) made first, of this disk.
    pub fn first_file(&self) -> Arc<SimulatedFile> {
        Arc::new(SimulatedFile { state: Arc::clone(&self.state), file: 0 })
    }

    /// Operations so far that changed something.
    pub fn operations(&self) -> u64 {
        self.state.lock().operations
    }

    /// Lets the power fail before operation number `cut`, counted from 0: it and all that follow
    /// are errors.
    pub fn cut_before(&self, cut: u64) {
        self.state.lock().cut = Some(cut);
    }

    /// Whether the power has failed.
    pub fn is_off(&self) -> bool {
        self.state.lock().is_off()
    }

    /// Lets a sync fail once, after `successes` others.
    pub fn fail_sync_after(&self, successes: u64) {
        self.state.lock().failing_sync = Some(successes);
    }

    /// The bytes that all files together may have. A disk `tells` how much of it is left; a quota
    /// and a limit of the size of files do not.
    pub fn limit_room(&self, bytes: u64, tells: bool) {
        let mut state = self.state.lock();
        (state.room, state.tells_room) = (Some(bytes), tells);
    }

    /// Bytes that all files have together.
    pub fn used_bytes(&self) -> u64 {
        self.state.lock().used_bytes()
    }

    /// The disk as another process finds it when this one was killed: whatever was written is
    /// there, whatever was not synced is not synced.
    pub fn after_kill(&self) -> Self {
        self.state.lock().as_killed()
    }

    /// Shows the disk before each operation that changes something, until the power fails. Others
    /// go on meanwhile.
    pub fn watch(&self, watch: impl Fn(&Self) + Send + Sync + 'static) {
        self.state.lock().watch = Some(Arc::new(watch));
    }

    /// How many outcomes a power failure has now; at most `u64::MAX`.
    pub fn outcomes(&self) -> u64 {
        let mut outcomes = 1_u64;
        self.after_power_failure(|ways| {
            outcomes = outcomes.saturating_mul(ways as u64);
            0
        });
        outcomes
    }

    /// What a power failure leaves: of each thing that is undecided, `choose` says which of so many
    /// ways it went. 0 is what was durable, the greatest what was written last.
    pub fn after_power_failure(&self, mut choose: impl FnMut(usize) -> usize) -> Self {
        let state = self.state.lock();
        let (room, tells_room) = (state.room, state.tells_room);
        let mut left = State { room, tells_room, ..State::default() };
        let files = (0..).zip(&state.files).map(|(file, content)| match state.leads_to(file) {
            true => content.after(&mut choose),
            false => Content::default(),
        });
        left.files = files.collect();
        for (name, (now, before)) in &state.names {
            let chosen = if now == before || choose(2) == 1 { *now } else { *before };
            if chosen.is_some() {
                left.names.insert(name.clone(), (chosen, chosen));
            }
        }
        Self { state: Arc::new(Mutex::new(left)) }
    }

    /// The content of a file, to be damaged by a test.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`].
    pub fn change(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let mut state = self.state.lock();
        let file = state.file(name)?;
        let content = &mut state.files[file];
        change(&mut content.cached);
        content.durable = content.cached.clone();
        content.unsynced.clear();
        content.mapped = None;
        Ok(())
    }
}

impl Disk for SimulatedDisk {
    fn names(&self) -> io::Result<Vec<String>> {
        let state = self.state.lock();
        let there = state.names.iter().filter(|(_, (now, _))| now.is_some());
        Ok(there.map(|(name, _)| name.clone()).collect())
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let file = self.state.lock().file(name)?;
        Ok(Arc::new(SimulatedFile { state: Arc::clone(&self.state), file }))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = operate(&self.state)?;
        state.files.push(Content::default());
        let file = state.files.len() - 1;
        state.names.entry(name.to_owned()).or_default().0 = Some(file);
        Ok(Arc::new(SimulatedFile { state: Arc::clone(&self.state), file }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = operate(&self.state)?;
        let file = state.file(from)?;
        state.names.entry(from.to_owned()).or_default().0 = None;
        state.names.entry(to.to_owned()).or_default().0 = Some(file);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = operate(&self.state)?;
        state.file(name)?;
        state.names.entry(name.to_owned()).or_default().0 = None;
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = operate(&self.state)?;
        for (now, before) in state.names.values_mut() {
            *before = *now;
        }
        Ok(())
    }

    fn space(&self) -> Option<Space> {
        self.state.lock().space()
    }
}

/// A file of a [`SimulatedDisk`].
pub struct SimulatedFile {
    state: Arc<Mutex<State>>,
    file: usize,
}

impl DiskFile for SimulatedFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.state.lock().files[self.file].cached.len() as u64)
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let state = self.state.lock();
        let cached = &state.files[self.file].cached;
        let there = cached.get(offset as usize..offset as usize + bytes.len());
        bytes.copy_from_slice(there.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = operate(&self.state)?;
        state.files[self.file].write(offset as usize, bytes)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        let mut state = operate(&self.state)?;
        let content = &state.files[self.file];
        let more = (length as usize).saturating_sub(content.cached.len());
        let all = state.used_bytes() + more as u64;
        if more > 0 && state.room.is_some_and(|room| all > room) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        // Zeros in a file that was lengthened: whether they were written is not seen.
        let content = &mut state.files[self.file];
        content.lengthen(content.cached.len() + more)
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = operate(&self.state)?;
        match state.failing_sync {
            Some(0) => {
                state.failing_sync = None;
                state.files[self.file].fail_to_sync();
                return Err(io::Error::from_raw_os_error(5));
            }
            Some(successes) => state.failing_sync = Some(successes - 1),
            None => {}
        }
        state.files[self.file].sync();
        Ok(())
    }

    fn to_map(&self) -> io::Result<Option<File>> {
        self.state.lock().files[self.file].map().map(Some)
    }

    fn space(&self) -> Option<Space> {
        self.state.lock().space()
    }
}
