//! Which way each operation of a scenario takes.

use std::collections::BTreeSet;

use everleaf_crash::{Event, Path, Traced};
use everleaf_index::IndexStatistics;
use everleaf_pmem::{Media, Site};

use super::{EngineState, EngineSubject, Level, sentence};
use crate::Operation;

/// Every way that an operation on the trees of this release can take; recoveries are told apart by
/// their barriers.
pub const PATHS: &[Path] = &[
    ("insert", "plain"),
    ("insert", "split of a leaf"),
    ("insert", "split of an inner node"),
    ("insert", "split of the root"),
    ("insert", "growth of the pool"),
    ("insert", "key is there"),
    ("insert", "no room"),
    ("update", "in place"),
    ("update", "to another slot"),
    ("update", "split of a leaf"),
    ("update", "key is not there"),
    ("remove", "plain"),
    ("remove", "last entry of a leaf"),
    ("remove", "last entry of the tree"),
    ("remove", "key is not there"),
    ("create", "plain"),
    ("open", "after a clean close"),
    ("open", "after a crash"),
    ("close", "plain"),
];

/// Those that only values of several words take.
pub const WIDE_PATHS: &[Path] = &[("update", "to another slot"), ("update", "split of a leaf")];
/// A way that an explored operation took, and the barriers that it executed. Of an operation that
/// consists of two (`reopen`), both have the barriers of both.
pub type PathTaken = (Path, BTreeSet<Site>);

/// The barriers among what was recorded, but for those of the test's own structures.
pub(crate) fn barriers(events: &[Event]) -> BTreeSet<Site> {
    let site = |event: &Event| match event {
        Event::Flush { site, .. }
        | Event::Fence { site }
        | Event::Order { site }
        | Event::UnorderedStore { site, .. } => Some(*site),
        _ => None,
    };
    events.iter().filter_map(site).filter(|site| !site.name().starts_with("testkit.")).collect()
}

impl EngineSubject {
    /// The paths of the explored operations, found by running them one after another on memory of
    /// `len` bytes that can grow to `max_len`; none of a store, whose index cannot be asked.
    /// Operations of threads run in the order of the script.
    ///
    /// # Errors
    /// What an operation says that fails.
    pub fn paths(&self, len: u64, max_len: u64) -> Result<Vec<PathTaken>, String> {
        Ok(self.paths_by_operation(len, max_len)?.concat())
    }

    /// The same for each operation up to the first crash.
    fn paths_by_operation(&self, len: u64, max_len: u64) -> Result<Vec<Vec<PathTaken>>, String> {
        if self.level == Level::Store {
            return Ok(Vec::new());
        }
        let media = Traced::new(len, max_len, 0).map_err(sentence)?;
        let mut state =
            EngineState { target: None, shutdown: None, is_recovered: false, media: media.clone() };
        match &self.scenario.cut {
            Some(cut) => self.prepare_cut(&media, cut)?,
            None => self.prepare_whole(&mut state)?,
        }
        let mut paths = Vec::new();
        let mut closed = false;
        let whole = |operation: &&Operation| **operation != Operation::Crash;
        for (i, operation) in self.scenario.explore.iter().take_while(whole).enumerate() {
            let (before, len) = (shape(&state), media.region().len());
            media.take_events();
            self.step(&mut state, operation)?;
            let sites = barriers(&media.take_events());
            let grown = media.region().len() > len;
            let taken = match operation {
                Operation::Reopen => vec![("close", "plain"), ("open", "after a clean close")],
                Operation::Open if closed => vec![("open", "after a clean close")],
                Operation::Open => vec![("open", "after a crash")],
                Operation::Close => vec![("close", "plain")],
                Operation::Create => vec![("create", "plain")],
                other => Vec::from_iter(
                    before.zip(shape(&state)).and_then(|shapes| self.path(i, other, shapes, grown)),
                ),
            };
            paths.push(taken.into_iter().map(|path| (path, sites.clone())).collect());
            closed = *operation == Operation::Close;
        }
        Ok(paths)
    }

    /// The same, with the path of each operation known: for mutants of one path.
    #[must_use]
    pub fn knowing_paths(self, len: u64, max_len: u64) -> Self {
        let taken = self.paths_by_operation(len, max_len).unwrap_or_default();
        let path = |taken: &Vec<PathTaken>| match taken.as_slice() {
            [(path, _)] => Some(*path),
            _ => None,
        };
        Self { ways: taken.iter().map(path).collect(), ..self }
    }

    /// The path of an operation; where none is known, its word.
    pub(super) fn way_of(&self, operation: usize) -> Path {
        let known = self.ways.get(operation).copied().flatten();
        known.unwrap_or_else(|| (self.scenario.explore[operation].word(), "any"))
    }

    fn path(
        &self,
        at: usize,
        operation: &Operation,
        (before, after): (IndexStatistics, IndexStatistics),
        grown: bool,
    ) -> Option<Path> {
        let split = after.leaves > before.leaves;
        Some(match operation {
            Operation::Thread { operation, .. } => {
                return self.path(at, operation, (before, after), grown);
            }
            Operation::Refused(_) => ("insert", "no room"),
            Operation::Remove(_) if after.keys == before.keys => ("remove", "key is not there"),
            Operation::Remove(_) if after.keys == 0 => ("remove", "last entry of the tree"),
            Operation::Remove(_) if after.leaves < before.leaves => {
                ("remove", "last entry of a leaf")
            }
            Operation::Remove(_) => ("remove", "plain"),
            Operation::Insert(..) | Operation::Upsert(..) if after.keys > before.keys => match () {
                () if grown => ("insert", "growth of the pool"),
                () if after.height > before.height => ("insert", "split of the root"),
                () if after.inner_nodes > before.inner_nodes => {
                    ("insert", "split of an inner node")
                }
                () if split => ("insert", "split of a leaf"),
                () => ("insert", "plain"),
            },
            Operation::Insert(..) => ("insert", "key is there"),
            Operation::Update(key, _) | Operation::Upsert(key, _) => match () {
                () if !self.contents()[at].contains_key(key) => ("update", "key is not there"),
                () if split => ("update", "split of a leaf"),
                () if self.value_words > 1 => ("update", "to another slot"),
                () => ("update", "in place"),
            },
            _ => return None,
        })
    }
}

fn shape(state: &EngineState) -> Option<IndexStatistics> {
    state.target.as_ref().and_then(|target| target.shape())
}
