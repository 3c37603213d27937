//! Which way each operation on an allocator takes.

use everleaf_crash::{Path, Traced};
use everleaf_pmem::Media;

use super::AllocatorSubject;
use super::operation::Action;
use crate::PathTaken;
use crate::subject::barriers;

/// Every way that an operation on the allocator can take; recoveries are told apart by their
/// barriers.
pub const ALLOCATOR_PATHS: &[Path] = &[
    ("allocate", "in a chunk"),
    ("allocate", "a chunk is taken"),
    ("free", "plain"),
    ("link", "in a chunk"),
    ("link", "a chunk is taken"),
    ("link", "refused by the index"),
    ("link", "with its index, in a chunk"),
    ("link", "with its index, a chunk is taken"),
    ("link", "with its index, refused"),
    ("batch", "refused"),
    ("unlink", "plain"),
    ("unlink", "with its index"),
    ("run", "plain"),
    ("run", "growth of the pool"),
    ("run", "its preparation fails"),
    ("run freed", "plain"),
    ("root", "made"),
    ("root", "a mark"),
    ("root", "a mark is taken away"),
    ("pool", "made"),
    ("pool", "left by a session without flushes"),
    ("pool", "opened"),
    ("pool", "closed and opened"),
];

impl AllocatorSubject {
    /// The paths of the explored operations, found by running them on memory of `len` bytes that
    /// can grow to `max_len`.
    ///
    /// # Errors
    /// What an operation says that fails.
    pub fn paths(&self, len: u64, max_len: u64) -> Result<Vec<PathTaken>, String> {
        use everleaf_crash::Subject;
        let media = Traced::new(len, max_len, 0).map_err(|e| e.to_string())?;
        let mut live = self.prepare(media.clone())?;
        let mut paths = Vec::new();
        for operation in &self.explore {
            let len = media.region().len();
            media.take_events();
            live.run(operation)?;
            let sites = barriers(&media.take_events());
            let takes_a_chunk = sites.iter().any(|site| site.name() == "pool.chunk.type");
            let path = path(&operation.action, media.region().len() > len, takes_a_chunk);
            paths.push((path, sites));
        }
        Ok(paths)
    }
}

impl AllocatorSubject {
    /// The same, with the path of each operation known: for mutants of one path.
    #[must_use]
    pub fn knowing_paths(self, len: u64, max_len: u64) -> Self {
        let taken = self.paths(len, max_len).unwrap_or_default();
        Self { ways: taken.into_iter().map(|(path, _)| path).collect(), ..self }
    }
}

fn path(action: &Action, grown: bool, takes_a_chunk: bool) -> Path {
    match action {
        Action::Run(..) | Action::RefusedRun(_) if grown => ("run", "growth of the pool"),
        Action::Run(..) => ("run", "plain"),
        Action::RefusedRun(_) => ("run", "its preparation fails"),
        Action::Record(..) | Action::Node(_) if takes_a_chunk => ("allocate", "a chunk is taken"),
        Action::Record(..) | Action::Node(_) => ("allocate", "in a chunk"),
        Action::Link(..) if takes_a_chunk => ("link", "a chunk is taken"),
        Action::Link(..) => ("link", "in a chunk"),
        Action::RefusedLink(_) => ("link", "refused by the index"),
        Action::Doubt(..) if takes_a_chunk => ("link", "with its index, a chunk is taken"),
        Action::Doubt(..) => ("link", "with its index, in a chunk"),
        Action::RefusedDoubt(_) => ("link", "with its index, refused"),
        Action::RefusedBatch(_) => ("batch", "refused"),
        Action::DoubtOff(_) => ("unlink", "with its index"),
        Action::FreeRecord(_) | Action::FreeNode(_) => ("free", "plain"),
        Action::Unlink(_) => ("unlink", "plain"),
        Action::FreeRun(_) => ("run freed", "plain"),
        Action::Root(_) => ("root", "made"),
        Action::Mark => ("root", "a mark"),
        Action::Unmark => ("root", "a mark is taken away"),
        Action::Create => ("pool", "made"),
        Action::Unflushed(..) => ("pool", "left by a session without flushes"),
        Action::Open => ("pool", "opened"),
        Action::Reopen => ("pool", "closed and opened"),
    }
}
