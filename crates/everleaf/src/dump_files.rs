//! Dumps in files: they are there whole or not at all under their name, whatever ends the process.

use std::io::BufWriter;
use std::ops::ControlFlow;
use std::path::Path;

use crate::core::progress::{Progress, Watch, report};
use crate::transfer::Everything;
use crate::unfinished::Unfinished;
use crate::{Error, Store};

impl Store {
    /// As [`dump`](Store::dump), to a new file at `path`, which has this name when it is complete
    /// and on its medium.
    ///
    /// # Errors
    /// [`PoolError::Exists`](crate::PoolError::Exists), [`PoolError::Io`](crate::PoolError::Io) if
    /// the file cannot be made; as [`dump`](Store::dump). No file is left then.
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = |name| folder.path().join(name);
    /// # let create = |name| everleaf::Store::create(path(name));
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
    /// may end it. It is called first when the moment of the dump is fixed, before there is a file.
    ///
    /// # Errors
    /// As [`dump_file`](Store::dump_file); [`Error::Aborted`].
    pub fn dump_file_with(
        &self,
        path: impl AsRef<Path>,
        mut watch: impl FnMut(&Progress) -> ControlFlow<()>,
    ) -> Result<Progress, Error> {
        let everything = Everything::of(self.backend())?;
        report(&mut watch, &Progress::of(Some(self.statistics()?.entries)))?;
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
