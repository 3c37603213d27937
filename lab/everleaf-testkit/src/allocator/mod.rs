//! The pool's allocator as a subject of the crash explorer, without any engine: two workers, each
//! on a thread of its own.
//!
//! The engines of this release have one worker, or two behind one lock; much of what the allocator
//! persists is there for others, which may have a block that was freed a moment ago. Here they have
//! it.
//!
//! Map of the files: `operation` (what is done, and the model of it) · `state` (an opened pool) ·
//! `session` (pools left by sessions without flushes) · `paths` (which ways there are).

mod operation;
mod paths;
mod session;
mod state;

use everleaf_crash::{Path, Promise, Subject, Traced};
use everleaf_pmem::Site;
use everleaf_pool::Shutdown;

use operation::Content;
use state::AllocatorState;

use crate::subject::{operation_of, part_of};
pub use operation::{Action, AllocatorOperation};
pub use paths::ALLOCATOR_PATHS;

/// Operations on an allocator, with the model's content after each.
#[derive(Clone, Debug)]
pub struct AllocatorSubject {
    prepare: Vec<AllocatorOperation>,
    explore: Vec<AllocatorOperation>,
    contents: Vec<Content>,
    /// The paths of operations, if they are known.
    ways: Vec<Path>,
}

impl AllocatorSubject {
    /// Does `prepare`, then explores `explore`.
    pub fn new(prepare: Vec<AllocatorOperation>, explore: Vec<AllocatorOperation>) -> Self {
        let mut content = Content::new();
        prepare.iter().for_each(|operation| operation.model(&mut content));
        let mut contents = vec![content.clone()];
        for operation in &explore {
            operation.model(&mut content);
            contents.push(content.clone());
        }
        Self { prepare, explore, contents, ways: Vec::new() }
    }

    /// `count` operations drawn from a seed.
    pub fn random(count: usize, seed: u64) -> Self {
        Self::new(Vec::new(), AllocatorOperation::random(count, seed))
    }

    /// Whether the pool is made by the first operation that is explored.
    fn creates(&self) -> bool {
        self.explore.first().is_some_and(|first| first.action == Action::Create)
    }

    /// What is explored.
    pub fn operations(&self) -> &[AllocatorOperation] {
        &self.explore
    }
}

impl Subject for AllocatorSubject {
    type State = AllocatorState;

    fn prepare(&self, media: Traced) -> Result<AllocatorState, String> {
        if self.creates() {
            return Ok(AllocatorState::without_pool(media));
        }
        let mut live = AllocatorState::create(media)?;
        self.prepare.iter().try_for_each(|operation| live.run(operation))?;
        Ok(live)
    }

    fn operation_count(&self) -> usize {
        self.explore.len()
    }

    fn run(&self, state: &mut AllocatorState, operation: usize) -> Result<(), String> {
        state.run(&self.explore[operation])
    }

    fn thread(&self, operation: usize) -> u16 {
        let handed_over = self.explore[operation].is_handed_over();
        if handed_over { 3 + operation as u16 } else { 1 + self.explore[operation].worker as u16 }
    }

    fn recover(&self, image: Traced) -> Result<AllocatorState, String> {
        if crate::holds_a_pool(&image) {
            AllocatorState::recover(image)
        } else {
            Ok(AllocatorState::without_pool(image))
        }
    }

    fn verify(&self, state: &mut AllocatorState, promise: &Promise) -> Result<(), String> {
        let Promise { acknowledged, cut, .. } = *promise;
        if !state.is_open() && acknowledged == 0 && self.creates() {
            return Ok(());
        }
        if state.is_refused() {
            let left =
                |operation: &AllocatorOperation| matches!(operation.action, Action::Unflushed(..));
            let last = acknowledged.checked_sub(1).map(|last| &self.explore[last]);
            let excused = last.is_some_and(left) || cut.is_some_and(|cut| left(&self.explore[cut]));
            let refused = "the pool is refused although its last session has flushed everything";
            return if excused { Ok(()) } else { Err(refused.to_owned()) };
        }
        state.check().map_err(|e| format!("after recovery: {e}"))?;
        let found = state.content()?;
        let done = &self.contents[acknowledged];
        if !promise.boundaries().iter().any(|n| found == self.contents[*n]) {
            return Err(format!("what is allocated is {found:?} and should be {done:?}"));
        }
        // It was open all the time, unless it was being made, or closed and opened.
        let undecided = cut
            .is_some_and(|cut| matches!(self.explore[cut].action, Action::Reopen | Action::Create));
        if state.shutdown == Some(Shutdown::Clean) && !undecided {
            return Err("the pool says that it was closed".to_owned());
        }
        state.go_on().map_err(|e| format!("after recovery and more operations: {e}"))
    }

    fn completed(&self, state: &mut AllocatorState, promise: &Promise) -> Option<usize> {
        let found = state.content().ok()?;
        promise.boundaries().iter().copied().rev().find(|n| found == self.contents[*n])
    }

    fn sites(&self) -> Vec<Site> {
        // Batches are explored with the store, seals with the engines that have any, and epochs by
        // the pool's own tests.
        let elsewhere = [
            "pool.batch.B2.",
            "pool.batch.B3.",
            "pool.batch.B4.",
            "pool.batch.B5.",
            "pool.batch.B1.fence",
            "pool.batch.B1.given",
            "pool.recover.batch.",
            "pool.close.C3.",
            "pool.epoch.",
            "pool.recover.epoch.",
        ];
        let is_here = |site: &&Site| !elsewhere.iter().any(|part| site.name().starts_with(part));
        crate::POOL_SITES.iter().filter(is_here).copied().collect()
    }

    fn operation_of(&self, site: Site) -> Option<&'static str> {
        Some(operation_of(site))
    }

    fn path(&self, operation: usize) -> Path {
        self.ways.get(operation).copied().unwrap_or(("allocator", "any"))
    }

    fn describe_operation(&self, operation: usize) -> String {
        self.explore[operation].to_string()
    }

    fn describe_line(&self, line: u64) -> Option<String> {
        part_of(line)
    }

    fn subset(&self, operations: &[usize]) -> Option<Self> {
        let explore = operations.iter().map(|i| self.explore[*i].clone()).collect();
        Some(Self::new(self.prepare.clone(), explore))
    }
}
