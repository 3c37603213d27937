//! Dumps in files, and pools from dumps: both are there whole or not at all under their name,
//! whatever ends the process.

use std::fs::{self, Metadata};
use std::io::{self, BufWriter, Read};
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use everleaf_index::Contract;
use everleaf_pmem::Medium;
use everleaf_pool::PoolError;

use crate::core::progress::{Progress, Watch};
use crate::dump::read_dump;
use crate::transfer::Everything;
use crate::unfinished::Unfinished;
use crate::{CreateOptions, DurabilityMode, Error, Store};

impl Store {
    /// As [`dump`](Store::dump), to a new file at `path`, which has this name when it is complete
    /// and on its medium.
    ///
    /// # Errors
    /// [`PoolError::Exists`], [`PoolError::Io`] if the file cannot be made; as
    /// [`dump`](Store::dump). No file is left then.
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = |name| folder.path().join(name);
    /// # let create = |name| everleaf::CreateOptions::new().size_bytes(1 << 20).create(path(name));
    /// let store = create("a.pool")?;
    /// store.put("oak", "Quercus robur")?;
    /// store.dump_file(path("dump"))?;
    /// create("b.pool")?.close()?;
    /// everleaf::restore(path("b.pool"), std::fs::File::open(path("dump"))?)?;
    /// let restored = everleaf::Store::open(path("b.pool"))?;
    /// assert_eq!(restored.get("oak")?.as_deref(), Some(&b"Quercus robur"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn dump_file(&self, path: impl AsRef<Path>) -> Result<Progress, Error> {
        self.dump_file_with(path, |_| ControlFlow::Continue(()))
    }

    /// As [`dump_file`](Store::dump_file), with a callback, which is told how far it has come and
    /// may end it.
    ///
    /// # Errors
    /// As [`dump_file`](Store::dump_file); [`Error::Aborted`].
    pub fn dump_file_with(
        &self,
        path: impl AsRef<Path>,
        mut watch: impl FnMut(&Progress) -> ControlFlow<()>,
    ) -> Result<Progress, Error> {
        let everything = Everything::of(self.backend())?;
        self.dump_to(path.as_ref(), everything, &mut watch)
    }

    /// As [`dump_tree_with`](Store::dump_tree_with), to a new file as
    /// [`dump_file`](Store::dump_file) makes one; none if there is no such tree.
    ///
    /// # Errors
    /// As [`dump_file_with`](Store::dump_file_with).
    pub fn dump_tree_file_with(
        &self,
        name: impl AsRef<[u8]>,
        path: impl AsRef<Path>,
        mut watch: impl FnMut(&Progress) -> ControlFlow<()>,
    ) -> Result<Option<Progress>, Error> {
        let Some(entries) = self.whole_tree(name.as_ref())? else { return Ok(None) };
        self.dump_to(path.as_ref(), entries, &mut watch).map(Some)
    }

    fn dump_to(
        &self,
        path: &Path,
        entries: Everything<'_>,
        watch: &mut Watch<'_>,
    ) -> Result<Progress, Error> {
        let mut unfinished = Unfinished::of(path)?;
        let file = unfinished.create()?;
        let progress = self.dump_entries(entries, &mut BufWriter::new(file), watch)?;
        file.sync_all().map_err(|source| Error::Stream { action: "writing", source })?;
        unfinished.finish()?;
        Ok(progress)
    }
}

/// Fills the empty pool at `path` from a dump. A pool with the same engine, parameters and sizes is
/// filled beside it, and takes its place when it is complete: until then, and if anything is wrong
/// with the dump, the pool at `path` is as empty as it was. The disk must have room for both. (A
/// DAX device, a pool with a log beside it, and one of an engine of epochs on a disk that has none
/// are filled in place, by [`Store::restore`], since nothing can take their place.)
///
/// # Errors
/// As [`Store::open`] and [`Store::restore`]; [`Error::is_full`].
pub fn restore(path: impl AsRef<Path>, input: impl Read) -> Result<Progress, Error> {
    restore_with(path, input, |_| ControlFlow::Continue(()))
}

/// As [`restore`], with a callback, which is told how far it has come and may end it.
///
/// # Errors
/// As [`restore`]; [`Error::Aborted`].
pub fn restore_with(
    path: impl AsRef<Path>,
    mut input: impl Read,
    mut watch: impl FnMut(&Progress) -> ControlFlow<()>,
) -> Result<Progress, Error> {
    restore_at(path.as_ref(), &mut input, &mut watch)
}

/// Not generic, so that it is compiled here, once.
fn restore_at(path: &Path, input: &mut dyn Read, watch: &mut Watch<'_>) -> Result<Progress, Error> {
    let empty = Store::open(path)?; // Until the end no other process writes to it.
    let path = fs::canonicalize(path).map_err(failed("finding", path))?;
    let metadata = fs::metadata(&path).map_err(failed("reading", &path))?;
    let statistics = empty.statistics()?;
    let strict = empty.capabilities().contract == Contract::Strict;
    let on_disk = statistics.medium == Medium::PageCache;
    // A new pool of an engine of epochs would get a log, which this one, of before, has not.
    if !metadata.is_file() || statistics.log || on_disk && !strict {
        let restored = empty.restore_all(input, watch);
        empty.close()?;
        return restored;
    }
    if statistics.entries > 0 {
        return Err(Error::NotEmpty);
    }
    let mut unfinished = Unfinished::instead_of(&path)?;
    let options = CreateOptions::new()
        .engine(empty.engine())
        .key_type(empty.key_type())
        .parameters(empty.backend().parameters());
    let mut options =
        options.size_bytes(statistics.total_bytes).max_size_bytes(statistics.max_bytes);
    // It has no log either. Elsewhere the default is what it has.
    options.durability = on_disk.then_some(DurabilityMode::Process);
    // The name is dropped before the pool, which is closed then: that can take long, and a
    // process that has aborted the work may not wait for it.
    let (filled, unfinished) = (options.create_part(&mut unfinished)?, unfinished);
    // If it fails there is no need to empty the pool: it goes.
    let progress = read_dump(&filled, input, watch)?;
    filled.close()?;
    belong_as(unfinished.part(), &metadata)
        .map_err(failed("setting the owner of", unfinished.part()))?;
    unfinished.replace()?;
    Ok(progress)
}

/// Gives a file the owner and the permissions of another, as far as this process may.
fn belong_as(path: &Path, other: &Metadata) -> io::Result<()> {
    // Mostly they are our own.
    let _ = std::os::unix::fs::chown(path, Some(other.uid()), Some(other.gid()));
    fs::set_permissions(path, other.permissions())
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |source| PoolError::Io { action, path: path.into(), source }.into()
}
