//! Engines as subjects of the crash explorer: an index alone, or the whole store with its values.

mod contents;
mod cut;
mod parts;
mod paths;
mod sites;
mod store;
mod target;

use everleaf_engines::all;
use std::sync::OnceLock;

use everleaf::internal::{BytesKeys, StoreKey, U64Keys, create_on, open_on, registry};
use everleaf::{
    Clock, Contract, CreateOptions, Engine, EngineParameters, KeyType, OpenOptions, Transactions,
};
use everleaf_crash::{Acknowledges, Path, Promise, Subject, Traced};
use everleaf_index::{InnerFrom, NoImage};
use everleaf_pmem::{Media, Site};
use everleaf_pool::{Pool, Shutdown};

use crate::families::has_images;
use crate::model::{Content, model, show};
use crate::{Key, Operation, Scenario, ScriptKeys};
use contents::{acknowledges, contents_of};
pub(crate) use parts::part_of;
pub(crate) use paths::barriers;
pub use paths::{PATHS, PathTaken, WIDE_PATHS};
use store::NOW_MS;
pub(crate) use store::{expand, owned, value_of};
use target::PooledIndex;
pub use target::Target;

/// Whether there is a pool at all. Creation writes the magic word last: without it there is nothing
/// to recover.
pub(crate) fn holds_a_pool(image: &Traced) -> bool {
    let magic = image.region().cells(0, 1).map(|cells| image.load(&cells[0]).to_le_bytes());
    magic == Some(*b"Everleaf")
}

/// The first two parts of a barrier's name: `pool.exchange` of `pool.exchange.A1.fence`.
pub(crate) fn operation_of(site: Site) -> &'static str {
    let name = site.name();
    name.match_indices('.').nth(1).map_or(name, |(end, _)| &name[..end])
}

/// What is explored of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The index: keys to words.
    Index,
    /// The store: keys to byte strings, each in a record that is linked to the index.
    Store,
}

/// A scenario on an engine, with the model's content after each operation.
///
/// Every operation runs on a thread of its own, and so do recoveries: an operation must have fenced
/// what it did when it returns.
#[derive(Clone, Debug)]
pub struct EngineSubject {
    engine: Engine,
    parameters: EngineParameters,
    value_words: usize,
    level: Level,
    pub(crate) scenario: Scenario,
    transactions: Transactions,
    whole_lines: bool,
    demands_clean: bool,
    /// What the engine owes.
    contract: Contract,
    /// Content after each number of explored operations, if the cut operation of the scenario has
    /// not happened, and if it has; no crash among them has lost any.
    contents: [Vec<Content>; 2],
    cut_happened: OnceLock<bool>,
    /// The paths of operations, as far as they are known.
    ways: Vec<Option<Path>>,
}

impl EngineSubject {
    /// A scenario on an engine of the given sizes, with values of one word.
    pub fn new(
        engine: Engine,
        parameters: EngineParameters,
        level: Level,
        scenario: Scenario,
    ) -> Self {
        let contract = engine.contract();
        Self {
            engine,
            parameters,
            value_words: 1,
            level,
            contents: contents_of(&scenario, contract),
            scenario,
            transactions: Transactions::Off,
            whole_lines: false,
            demands_clean: false,
            contract,
            cut_happened: OnceLock::new(),
            ways: Vec::new(),
        }
    }

    /// The same with values of so many words. A store's values are records of any size; its index
    /// has one word for each.
    #[must_use]
    pub fn with_value_words(self, value_words: usize) -> Self {
        Self { value_words, ..self }
    }

    /// The same with these transactions, where the engine knows any: simulated ones are the same
    /// every time.
    #[must_use]
    pub fn with_transactions(self, transactions: Transactions) -> Self {
        Self { transactions, ..self }
    }

    /// The same on media that promise whole lines, or do not: which barriers there are depends on
    /// it.
    #[must_use]
    pub fn with_whole_lines(self, whole_lines: bool) -> Self {
        Self { whole_lines, ..self }
    }

    /// The same, and what was closed must be found closed: for explorations that do not crash in
    /// the recovery, which marks it open again.
    #[must_use]
    pub fn demanding_clean_shutdown(self) -> Self {
        Self { demands_clean: true, ..self }
    }

    pub(crate) fn level(&self) -> Level {
        self.level
    }

    /// Whether values have several words.
    pub(crate) fn has_wide_values(&self) -> bool {
        self.value_words > 1
    }

    /// What is explored.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// The smallest sizes, which bring every path within reach of a few operations.
    pub fn tiny_parameters(engine: Engine) -> EngineParameters {
        let has = |name| engine.entry().parameters.contains(&name);
        EngineParameters {
            leaf_slots: Some(engine.entry().min_leaf_slots),
            inner_keys: has(EngineParameters::INNER_KEYS).then_some(4),
            group_bytes: has(EngineParameters::GROUP_BYTES).then_some(4096),
            ..EngineParameters::default()
        }
    }

    pub(crate) fn create(&self, media: Traced) -> Result<Box<dyn Target>, String> {
        match (self.level, self.scenario.keys) {
            (Level::Index, ScriptKeys::U64) => self.create_index::<U64Keys>(media),
            (Level::Index, ScriptKeys::Bytes) => self.create_index::<BytesKeys>(media),
            (Level::Store, keys) => {
                let key_type = if keys == ScriptKeys::U64 { KeyType::U64 } else { KeyType::Bytes };
                let options = CreateOptions::new()
                    .engine(self.engine)
                    .key_type(key_type)
                    .parameters(self.parameters);
                let options = options.transactions(self.transactions).clock(Clock::manual(NOW_MS));
                Ok(Box::new(create_on(all(), &options, media).map_err(sentence)?.0))
            }
        }
    }

    fn create_index<K: StoreKey>(&self, media: Traced) -> Result<Box<dyn Target>, String> {
        let format =
            registry::pool_format(self.engine, K::TYPE, &self.parameters, self.value_words)
                .map_err(sentence)?;
        let pool = Pool::create(media, &format).map_err(sentence)?;
        let (engine, words) = (self.engine, self.value_words);
        let index = registry::create_index_with::<K, Traced>(
            all(),
            &pool,
            engine,
            &self.parameters,
            words,
            self.transactions,
        );
        let index = index.map_err(sentence)?;
        Ok(Box::new(PooledIndex { index, pool }))
    }

    /// Opens what is there, and says how it was left where that can be told.
    pub(crate) fn open(&self, media: Traced) -> Result<Opened, String> {
        match (self.level, self.scenario.keys) {
            (Level::Index, ScriptKeys::U64) => open_index::<U64Keys>(media, self.transactions),
            (Level::Index, ScriptKeys::Bytes) => open_index::<BytesKeys>(media, self.transactions),
            (Level::Store, _) => {
                let options =
                    OpenOptions::new().transactions(self.transactions).clock(Clock::manual(NOW_MS));
                Ok((Box::new(open_on(all(), &options, media).map_err(sentence)?.0), None))
            }
        }
    }

    /// Whether there was a pool before the first explored operation.
    fn begins_with_a_pool(&self) -> bool {
        !self.scenario.prepare.is_empty()
            || self.scenario.explore.first() != Some(&Operation::Create)
    }

    /// A seal is never older than its image. After a whole close an image must be taken where the
    /// engine has any.
    fn judge_image(&self, from: InnerFrom, must_be: bool) -> Result<(), String> {
        match from {
            InnerFrom::Leaves(NoImage::Damaged(_) | NoImage::Foreign(_)) => {}
            InnerFrom::Leaves(_) if must_be && has_images(self.engine) => {}
            _ => return Ok(()),
        }
        Err(format!("the inner nodes should be from an image; they are {from}"))
    }

    /// How a pool must have been left by so many operations, unless one that opens or closes it was
    /// cut.
    fn shutdown_after(&self, acknowledged: usize, cut: Option<usize>) -> Option<Shutdown> {
        let opens = |operation: &Operation| {
            matches!(operation, Operation::Open | Operation::Reopen | Operation::Create)
        };
        let closes = |operation: &Operation| *operation == Operation::Close;
        let undecided =
            cut.map(|cut| &self.scenario.explore[cut]).is_some_and(|cut| opens(cut) || closes(cut));
        let done = self.scenario.prepare.iter().chain(&self.scenario.explore[..acknowledged]);
        match done.rev().find(|operation| opens(operation) || closes(operation)) {
            _ if undecided => None,
            Some(Operation::Close) => self.demands_clean.then_some(Shutdown::Clean),
            _ => Some(Shutdown::Crash),
        }
    }
}

/// An opened target, and how it was left.
pub(crate) type Opened = (Box<dyn Target>, Option<Shutdown>);

fn open_index<K: StoreKey>(media: Traced, transactions: Transactions) -> Result<Opened, String> {
    let (pool, opened) = Pool::open(media).map_err(sentence)?;
    let opening = registry::Opening { transactions, ..(&opened).into() };
    let (index, _) =
        registry::open_index_with::<K, Traced>(all(), &pool, opening).map_err(sentence)?;
    Ok((Box::new(PooledIndex { index, pool }), Some(opened.shutdown)))
}

impl Subject for EngineSubject {
    type State = EngineState;

    fn prepare(&self, media: Traced) -> Result<Self::State, String> {
        let mut state = EngineState { target: None, shutdown: None, is_recovered: false, media };
        match &self.scenario.cut {
            Some(cut) => self.prepare_cut(&state.media, cut)?,
            None => self.prepare_whole(&mut state)?,
        }
        Ok(state)
    }

    fn operation_count(&self) -> usize {
        self.scenario.explore.len()
    }

    fn run(&self, state: &mut Self::State, operation: usize) -> Result<(), String> {
        let operation = &self.scenario.explore[operation];
        if *operation == Operation::Open && state.is_recovered && state.target.is_some() {
            // The crash came while the pool was closed, and the recovery has opened it.
            return Ok(());
        }
        self.step(state, operation)
    }

    fn thread(&self, operation: usize) -> u16 {
        (operation % usize::from(u16::MAX)) as u16 + 1
    }

    fn recover(&self, image: Traced) -> Result<Self::State, String> {
        if !holds_a_pool(&image) {
            return Ok(EngineState {
                target: None,
                shutdown: None,
                is_recovered: true,
                media: image,
            });
        }
        let (target, shutdown) = self.open(image.clone())?;
        Ok(EngineState { target: Some(target), shutdown, is_recovered: true, media: image })
    }

    fn acknowledges(&self, operation: usize) -> Acknowledges {
        acknowledges(self.contract, &self.scenario.explore[operation])
    }

    fn verify(&self, state: &mut Self::State, promise: &Promise) -> Result<(), String> {
        let Promise { acknowledged, cut, .. } = *promise;
        let creating = cut.is_some_and(|cut| self.scenario.explore[cut] == Operation::Create);
        if state.target.is_none() && (creating || acknowledged == 0 && !self.begins_with_a_pool()) {
            return Ok(());
        }
        let shutdown = state.shutdown;
        let target = state.target()?;
        target.check().map_err(|e| format!("after recovery: {e}"))?;
        let found = target.content()?;
        if self.boundary(&found, promise).is_none() {
            return Err(self.not_promised(&found, promise));
        }
        if let (Some(found), Some(expected)) = (shutdown, self.shutdown_after(acknowledged, cut))
            && found != expected
        {
            return Err(format!(
                "the pool says that it was left by {found:?} and not by {expected:?}"
            ));
        }
        let must_be = shutdown == Some(Shutdown::Clean)
            && self.shutdown_after(acknowledged, cut) == Some(Shutdown::Clean);
        if let Some(from) = target.shape().map(|shape| shape.inner_from) {
            self.judge_image(from, must_be)?;
        }
        self.go_on(target, found)
    }

    fn completed(&self, state: &mut Self::State, promise: &Promise) -> Option<usize> {
        let found = state.target().ok()?.content().ok()?;
        self.boundary(&found, promise)
    }

    fn is_crash(&self, operation: usize) -> bool {
        self.scenario.explore[operation] == Operation::Crash
    }

    fn sites(&self) -> Vec<Site> {
        self.reachable_sites()
    }

    fn operation_of(&self, site: Site) -> Option<&'static str> {
        Some(operation_of(site))
    }

    fn path(&self, operation: usize) -> Path {
        self.way_of(operation)
    }

    fn describe_operation(&self, operation: usize) -> String {
        self.scenario.explore[operation].to_string()
    }

    fn describe_line(&self, line: u64) -> Option<String> {
        parts::part_of(line)
    }

    fn subset(&self, operations: &[usize]) -> Option<Self> {
        let explore = operations.iter().map(|i| self.scenario.explore[*i].clone()).collect();
        let scenario = Scenario { explore, ..self.scenario.clone() };
        let contents = contents_of(&scenario, self.contract);
        let cut_happened = OnceLock::new();
        Some(Self { scenario, contents, cut_happened, ways: Vec::new(), ..self.clone() })
    }
}

/// An opened target, or none before it is made and between a close and an open.
pub struct EngineState {
    target: Option<Box<dyn Target>>,
    /// How the recovered pool was left.
    shutdown: Option<Shutdown>,
    /// Whether it began as what a crash left.
    is_recovered: bool,
    media: Traced,
}

impl EngineState {
    fn target(&self) -> Result<&dyn Target, String> {
        self.target.as_deref().ok_or_else(|| "the pool is not open".to_owned())
    }
}

impl EngineSubject {
    /// What the preparation has opened.
    pub(crate) fn prepared(&self, media: Traced) -> Result<Box<dyn Target>, String> {
        let mut state = EngineState { target: None, shutdown: None, is_recovered: false, media };
        self.prepare_whole(&mut state)?;
        state.target.ok_or_else(|| "the pool is not open".to_owned())
    }

    fn prepare_whole(&self, state: &mut EngineState) -> Result<(), String> {
        if self.begins_with_a_pool() {
            state.target = Some(self.create(state.media.clone())?);
        }
        self.scenario.prepare.iter().try_for_each(|operation| self.step(state, operation))?;
        // What is prepared is durable: that of a buffered engine when it is told to.
        match &state.target {
            Some(target) if self.contract == Contract::Buffered => target.apply(&Operation::Sync),
            _ => Ok(()),
        }
    }

    fn step(&self, state: &mut EngineState, operation: &Operation) -> Result<(), String> {
        match operation {
            Operation::Open if state.target.is_some() => {
                return Err("the pool is open already".to_owned());
            }
            Operation::Open => state.target = Some(self.open(state.media.clone())?.0),
            Operation::Close => state.target.take().ok_or("the pool is not open")?.close()?,
            Operation::Reopen => {
                self.step(state, &Operation::Close)?;
                self.step(state, &Operation::Open)?;
            }
            Operation::Create => {
                state.target = None;
                state.target = Some(self.create(state.media.clone())?);
            }
            // In a preparation: everything that was stored had reached the medium when the power
            // failed.
            Operation::Crash => {
                let image = state.media.image();
                state.target = None; // A store that is dropped closes its pool.
                cut::write_durably(&state.media, &image)?;
                self.step(state, &Operation::Open)?;
            }
            Operation::Refused(operation) => match state.target()?.apply(operation) {
                Err(refusal) if refusal.contains("full") => {}
                Err(other) => return Err(other),
                Ok(()) => return Err("the pool has room for it".to_owned()),
            },
            operation => return state.target()?.apply(operation),
        }
        Ok(())
    }

    /// A recovered tree must also work: keys beside those that are there are inserted until leaves
    /// split, then everything is removed.
    pub(crate) fn go_on(&self, state: &dyn Target, mut content: Content) -> Result<(), String> {
        let key = |i: u64| match self.scenario.keys {
            ScriptKeys::U64 => Key::U64(i * 3 + 1),
            ScriptKeys::Bytes => Key::Bytes(format!("key{i}").into_bytes()),
        };
        let mut operations: Vec<Operation> = (0..6).map(|i| Operation::Upsert(key(i), i)).collect();
        operations.extend(content.keys().take(5).cloned().map(Operation::Remove));
        operations.extend((3..8).map(|i| Operation::Upsert(key(i), i + 1)));
        operations.extend(self.scenario.has_expiry().then_some(Operation::Sweep));
        operations.extend((self.contract == Contract::Buffered).then_some(Operation::Sync));
        for operation in &operations {
            match state.apply(operation) {
                Ok(()) => model(&mut content, operation),
                Err(e) if e.contains("full") => {}
                Err(e) => return Err(format!("after recovery, {operation}: {e}")),
            }
        }
        let found = state.content()?;
        if found != content {
            return Err(format!(
                "after recovery and more operations the content is {} and should be {}",
                show(&found),
                show(&content)
            ));
        }
        state.check().map_err(|e| format!("after recovery and more operations: {e}"))
    }
}

pub(crate) fn sentence(error: impl std::fmt::Display) -> String {
    error.to_string()
}
