//! A directed scenario as data: it leads to a state in which some barrier is needed, or which is
//! hard to reach by chance.

use crate::{Level, ScriptKeys};

/// A scenario of an engine, in the smallest sizes.
#[derive(Clone, Debug)]
pub(crate) struct Directed {
    /// What may go wrong there.
    pub name: String,
    /// What is explored of the engine.
    pub level: Level,
    /// Kind of keys.
    pub keys: ScriptKeys,
    /// Words of a value.
    pub words: usize,
    /// Entries of a node, where all nodes are alike and these are not the smallest.
    pub slots: Option<u32>,
    /// The operations.
    pub script: String,
    /// Images a crash point, if they are not as usual.
    pub budget: Option<u64>,
    /// Bytes of the pool, and what it may grow to, if they are not as usual.
    pub pool: Option<(u64, u64)>,
    /// Whether the pool must be closed at the end.
    pub closes: bool,
    /// Whether whole lines are assumed.
    pub whole_lines: bool,
    /// Whether the log of an engine that offers it has ranges.
    pub log_ranges: bool,
    /// Whether values stand in buffers, where the engine offers it.
    pub buffers: bool,
}

impl Directed {
    pub fn new(
        name: impl Into<String>,
        level: Level,
        keys: ScriptKeys,
        words: usize,
        script: impl Into<String>,
    ) -> Self {
        let (name, script) = (name.into(), script.into());
        let (slots, budget, pool, closes) = (None, None, None, false);
        let (whole_lines, log_ranges, buffers) = (false, false, false);
        Self {
            name,
            level,
            keys,
            words,
            slots,
            script,
            budget,
            pool,
            closes,
            whole_lines,
            log_ranges,
            buffers,
        }
    }

    /// In nodes of so many entries.
    pub fn sized(name: &str, keys: ScriptKeys, slots: u32, script: &str) -> Self {
        let name = format!("{name}, {keys:?}, {slots} entries");
        Self { slots: Some(slots), ..Self::new(name, Level::Index, keys, 1, script) }
    }

    /// With so many images a crash point.
    pub fn with_budget(mut self, budget: u64) -> Self {
        self.budget = Some(budget);
        self
    }

    /// In a pool of `len` bytes that may grow to `max_len`.
    pub fn in_pool(mut self, len: u64, max_len: u64) -> Self {
        self.pool = Some((len, max_len));
        self
    }

    /// Under the assumption that a line is written whole or not at all.
    pub fn with_whole_lines(mut self) -> Self {
        self.whole_lines = true;
        self
    }

    /// With a log of ranges.
    pub fn with_log_of_ranges(mut self) -> Self {
        self.name += ", ranges";
        self.log_ranges = true;
        self
    }

    /// With values in buffers.
    pub fn with_buffers(mut self) -> Self {
        self.name += ", buffers";
        self.buffers = true;
        self
    }

    /// What was closed must be found closed.
    pub fn closing(mut self) -> Self {
        self.closes = true;
        self
    }
}

pub(crate) fn lines(operations: impl IntoIterator<Item = String>) -> String {
    operations.into_iter().map(|operation| operation + "\n").collect()
}

pub(crate) fn inserts(keys: impl IntoIterator<Item = u64>) -> String {
    lines(keys.into_iter().map(|key| format!("insert {key} {key}")))
}

pub(crate) fn removes(keys: impl IntoIterator<Item = u64>) -> String {
    lines(keys.into_iter().map(|key| format!("remove {key}")))
}
