//! Engines as subjects of the crash explorer: an index alone, or the whole store with its values.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use everleaf::{
    BytesKeys, CreateOptions, Engine, EngineParameters, KeyType, OpenOptions, OwnedKey, Store, StoreKey, U64Keys, registry,
};
use everleaf_crash::Subject;
use everleaf_index::{Direction, Index, KeyKind};
use everleaf_pmem::{Site, Traced};
use everleaf_pool::{Audit, Pool};

use crate::concurrent::answer;
use crate::{Answer, Key, Operation, Scenario, ScriptKeys};

/// What is explored of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The index: keys to words.
    Index,
    /// The store: keys to byte strings, each in a record that is linked to the index.
    Store,
}

/// A scenario on an engine, with the model's content after each operation.
#[derive(Clone, Debug)]
pub struct EngineSubject {
    engine: Engine,
    parameters: EngineParameters,
    level: Level,
    pub(crate) scenario: Scenario,
    /// `contents[i]`: after `i` explored operations.
    contents: Vec<Content>,
}

/// What an index or a store holds.
pub(crate) type Content = BTreeMap<Key, u64>;

impl EngineSubject {
    /// A scenario on an engine of the given sizes.
    pub fn new(engine: Engine, parameters: EngineParameters, level: Level, scenario: Scenario) -> Self {
        let mut content = Content::new();
        scenario.prepare.iter().for_each(|operation| model(&mut content, operation));
        let mut contents = vec![content.clone()];
        for operation in &scenario.explore {
            model(&mut content, operation);
            contents.push(content.clone());
        }
        Self { engine, parameters, level, scenario, contents }
    }

    /// The scenario.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// The smallest sizes, which bring every path within reach of a few operations.
    pub fn tiny_parameters(engine: Engine) -> EngineParameters {
        let tiny = EngineParameters::default().leaf_slots(4).inner_keys(4);
        if engine.parameters().contains(&EngineParameters::GROUP_BYTES) { tiny.group_bytes(4096) } else { tiny }
    }

    pub(crate) fn create(&self, media: Traced) -> Result<Box<dyn Target>, String> {
        match (self.level, self.scenario.keys) {
            (Level::Index, ScriptKeys::U64) => self.create_index::<U64Keys>(media),
            (Level::Index, ScriptKeys::Bytes) => self.create_index::<BytesKeys>(media),
            (Level::Store, keys) => {
                let key_type = if keys == ScriptKeys::U64 { KeyType::U64 } else { KeyType::Bytes };
                let options = CreateOptions::new().engine(self.engine).key_type(key_type).parameters(self.parameters);
                Ok(Box::new(options.create_on(media).map_err(sentence)?.0))
            }
        }
    }

    fn create_index<K: ScriptKind>(&self, media: Traced) -> Result<Box<dyn Target>, String> {
        let format = registry::pool_format(self.engine, K::TYPE, &self.parameters, 1).map_err(sentence)?;
        let pool = Pool::create(media, &format).map_err(sentence)?;
        let index = registry::create_index::<K, Traced>(&pool, self.engine, &self.parameters, 1).map_err(sentence)?;
        Ok(Box::new(PooledIndex { index, pool }))
    }

    pub(crate) fn open(&self, media: Traced) -> Result<Box<dyn Target>, String> {
        match (self.level, self.scenario.keys) {
            (Level::Index, ScriptKeys::U64) => open_index::<U64Keys>(media),
            (Level::Index, ScriptKeys::Bytes) => open_index::<BytesKeys>(media),
            (Level::Store, _) => Ok(Box::new(OpenOptions::new().open_on(media).map_err(sentence)?.0)),
        }
    }
}

fn open_index<K: ScriptKind>(media: Traced) -> Result<Box<dyn Target>, String> {
    let (pool, opened) = Pool::open(media).map_err(sentence)?;
    let (index, _) = registry::open_index::<K, Traced>(&pool, opened.shutdown).map_err(sentence)?;
    Ok(Box::new(PooledIndex { index, pool }))
}

impl Subject for EngineSubject {
    type State = Live;

    fn prepare(&self, media: Traced) -> Result<Self::State, String> {
        let mut state = Live { target: Some(self.create(media.clone())?), media };
        self.scenario.prepare.iter().try_for_each(|operation| self.step(&mut state, operation))?;
        Ok(state)
    }

    fn operation_count(&self) -> usize {
        self.scenario.explore.len()
    }

    fn run(&self, state: &mut Self::State, operation: usize) -> Result<(), String> {
        self.step(state, &self.scenario.explore[operation])
    }

    fn recover(&self, image: Traced) -> Result<Self::State, String> {
        Ok(Live { target: Some(self.open(image.clone())?), media: image })
    }

    fn verify(&self, state: &mut Self::State, acknowledged: usize, cut: Option<usize>) -> Result<(), String> {
        let target = state.target()?;
        target.check().map_err(|e| format!("after recovery: {e}"))?;
        let found = target.content()?;
        let done = &self.contents[acknowledged];
        let maybe = cut.map(|cut| &self.contents[cut + 1]);
        if found != *done && Some(&found) != maybe {
            return Err(format!(
                "the content is {} and should be {}{}",
                show(&found),
                show(done),
                match maybe {
                    Some(maybe) if maybe != done => format!(" or {}", show(maybe)),
                    _ => String::new(),
                }
            ));
        }
        self.go_on(target, found)
    }

    fn completed(&self, state: &mut Self::State, acknowledged: usize, cut: Option<usize>) -> Option<usize> {
        let found = state.target().ok()?.content().ok()?;
        match cut {
            Some(cut) if found == self.contents[cut + 1] => Some(cut + 1),
            _ => (found == self.contents[acknowledged]).then_some(acknowledged),
        }
    }

    fn is_crash(&self, operation: usize) -> bool {
        self.scenario.explore[operation] == Operation::Crash
    }

    fn sites(&self) -> Vec<Site> {
        let pool = everleaf_pool::SITES.iter();
        let linked = |site: &&Site| self.level == Level::Store || !site.name().starts_with("pool.link");
        registry::sites(self.engine).iter().chain(pool.filter(linked)).copied().collect()
    }

    fn describe_operation(&self, operation: usize) -> String {
        self.scenario.explore[operation].to_string()
    }

    fn subset(&self, operations: &[usize]) -> Option<Self> {
        let explore = operations.iter().map(|i| self.scenario.explore[*i].clone()).collect();
        let scenario = Scenario { explore, ..self.scenario.clone() };
        Some(Self::new(self.engine, self.parameters, self.level, scenario))
    }
}

/// An opened target, or none between a close and an open that failed.
pub struct Live {
    target: Option<Box<dyn Target>>,
    media: Traced,
}

impl Live {
    fn target(&self) -> Result<&dyn Target, String> {
        self.target.as_deref().ok_or_else(|| "the pool is closed".to_owned())
    }
}

impl EngineSubject {
    fn step(&self, state: &mut Live, operation: &Operation) -> Result<(), String> {
        if *operation != Operation::Reopen {
            return state.target()?.apply(operation);
        }
        state.target.take().map_or(Ok(()), |target| target.close())?;
        state.target = Some(self.open(state.media.clone())?);
        Ok(())
    }

    /// A recovered tree must also work: keys beside those that are there are inserted until leaves split, then everything is removed.
    pub(crate) fn go_on(&self, state: &dyn Target, mut content: Content) -> Result<(), String> {
        let key = |i: u64| match self.scenario.keys {
            ScriptKeys::U64 => Key::U64(i * 3 + 1),
            ScriptKeys::Bytes => Key::Bytes(format!("key{i}").into_bytes()),
        };
        let mut operations: Vec<Operation> = (0..6).map(|i| Operation::Upsert(key(i), i)).collect();
        operations.extend(content.keys().take(5).cloned().map(Operation::Remove));
        operations.extend((3..8).map(|i| Operation::Upsert(key(i), i + 1)));
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

pub(crate) fn model(content: &mut Content, operation: &Operation) {
    match operation {
        Operation::Insert(key, value) => drop(content.entry(key.clone()).or_insert(*value)),
        Operation::Update(key, value) => drop(content.get_mut(key).map(|old| *old = *value)),
        Operation::Upsert(key, value) => drop(content.insert(key.clone(), *value)),
        Operation::Remove(key) => drop(content.remove(key)),
        Operation::Batch(operations) => operations.iter().for_each(|operation| model(content, operation)),
        Operation::Thread { operation, .. } => model(content, operation),
        Operation::Get(_) | Operation::Sync | Operation::Crash | Operation::Reopen => {}
    }
}

pub(crate) fn show(content: &Content) -> String {
    let entries: Vec<String> = content.iter().map(|(key, value)| format!("{key}={value}")).collect();
    format!("{{{}}}", entries.join(" "))
}

pub(crate) fn sentence(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// An opened index or store.
pub trait Target: Send + Sync {
    /// Runs an operation; a refusal (insert of a present key) is no error.
    ///
    /// # Errors
    /// What the engine says.
    fn apply(&self, operation: &Operation) -> Result<(), String>;
    /// As [`apply`](Target::apply), and tells what the caller was told.
    ///
    /// # Errors
    /// What the engine says.
    fn answer(&self, operation: &Operation) -> Result<Answer, String>;
    /// Everything in it.
    ///
    /// # Errors
    /// What the engine says, or that a value is none that was ever stored.
    fn content(&self) -> Result<Content, String>;
    /// Its invariants and the leak audit.
    ///
    /// # Errors
    /// The first violation.
    fn check(&self) -> Result<(), String>;
    /// Closes it cleanly.
    ///
    /// # Errors
    /// What the engine says.
    fn close(self: Box<Self>) -> Result<(), String>;
}

/// Kinds of keys that scripts can have.
pub(crate) trait ScriptKind: StoreKey {
    fn borrow_key(key: &Key) -> <Self as KeyKind>::Ref<'_>;
    fn script_key(key: <Self as KeyKind>::Ref<'_>) -> Key;
}

impl ScriptKind for U64Keys {
    fn borrow_key(key: &Key) -> u64 {
        match key {
            Key::U64(key) => *key,
            Key::Bytes(_) => 0, // A scenario has keys of one type.
        }
    }
    fn script_key(key: u64) -> Key {
        Key::U64(key)
    }
}

impl ScriptKind for BytesKeys {
    fn borrow_key(key: &Key) -> &[u8] {
        match key {
            Key::Bytes(key) => key,
            Key::U64(_) => &[],
        }
    }
    fn script_key(key: &[u8]) -> Key {
        Key::Bytes(key.to_vec())
    }
}

struct PooledIndex<K: KeyKind> {
    index: Box<dyn Index<K>>,
    pool: Arc<Pool<Traced>>,
}

impl<K: ScriptKind> Target for PooledIndex<K> {
    fn apply(&self, operation: &Operation) -> Result<(), String> {
        match operation {
            Operation::Insert(key, value) => self.index.insert(K::borrow_key(key), *value).map(drop),
            Operation::Update(key, value) => self.index.update(K::borrow_key(key), *value).map(drop),
            Operation::Upsert(key, value) => self.index.upsert(K::borrow_key(key), *value).map(drop),
            Operation::Remove(key) => self.index.remove(K::borrow_key(key)).map(drop),
            Operation::Get(key) => self.index.get(K::borrow_key(key)).map(drop),
            Operation::Thread { operation, .. } => return self.apply(operation),
            Operation::Batch(_) => return Err("this engine has no batches".to_owned()),
            Operation::Sync | Operation::Crash | Operation::Reopen => self.index.sync(),
        }
        .map_err(sentence)
    }

    fn answer(&self, operation: &Operation) -> Result<Answer, String> {
        answer::<K>(&*self.index, operation)
    }

    fn content(&self) -> Result<Content, String> {
        let mut content = Content::new();
        let mut visit = |key: K::Ref<'_>, value: &[u64]| {
            content.insert(K::script_key(key), value[0]);
            ControlFlow::Continue(())
        };
        self.index.scan(Bound::Unbounded, Direction::Forward, &mut visit).map_err(sentence)?;
        for (key, value) in &content {
            let found = self.index.get(K::borrow_key(key)).map_err(sentence)?;
            if found != Some(*value) {
                return Err(format!("a scan shows {key}={value}, a find {found:?}"));
            }
        }
        Ok(content)
    }

    fn close(self: Box<Self>) -> Result<(), String> {
        let Self { index, pool } = *self;
        index.close().map_err(sentence)?;
        drop(index);
        pool.close().map_err(sentence)
    }

    fn check(&self) -> Result<(), String> {
        let mut audit = Audit::new();
        let report = self.index.check(&mut audit).map_err(sentence)?;
        let audited = self.pool.finish_audit(audit);
        match (report.violations.into_iter().chain(audited.violations).next(), audited.leaked_blocks) {
            (Some(violation), _) => Err(violation),
            (None, 0) => Ok(()),
            (None, leaked) => Err(format!("{leaked} blocks are allocated and reachable from nowhere")),
        }
    }
}

/// A value of a script as bytes: 0 to 3 lines of them, so that records differ in their sizes.
fn expand(value: u64) -> Vec<u8> {
    value.to_le_bytes().repeat(1 + (value % 3) as usize * 10)
}

impl Target for Store {
    fn apply(&self, operation: &Operation) -> Result<(), String> {
        let owned = |key: &Key| match key {
            Key::U64(key) => OwnedKey::U64(*key),
            Key::Bytes(key) => OwnedKey::Bytes(key.as_slice().into()),
        };
        match operation {
            Operation::Insert(key, value) => self.insert(owned(key).as_ref(), &expand(*value)).map(drop),
            Operation::Update(key, value) => match self.contains(owned(key).as_ref()) {
                Ok(true) => self.put(owned(key).as_ref(), &expand(*value)).map(drop),
                other => other.map(drop),
            },
            Operation::Upsert(key, value) => self.put(owned(key).as_ref(), &expand(*value)).map(drop),
            Operation::Remove(key) => self.delete(owned(key).as_ref()).map(drop),
            Operation::Get(key) => self.get(owned(key).as_ref()).map(drop),
            Operation::Thread { operation, .. } => return Target::apply(self, operation),
            Operation::Batch(_) => return Err("this engine has no batches".to_owned()),
            Operation::Sync | Operation::Crash | Operation::Reopen => self.sync(),
        }
        .map_err(sentence)
    }

    /// The store keeps its lock across accesses, which the scheduler of threads does not allow: threads use the index.
    fn answer(&self, operation: &Operation) -> Result<Answer, String> {
        Target::apply(self, operation).map(|()| Answer::Done)
    }

    fn content(&self) -> Result<Content, String> {
        let mut content = Content::new();
        for entry in self.iter() {
            let (key, bytes) = entry.map_err(sentence)?;
            let value = bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)).ok_or("a value is too short")?;
            if bytes != expand(value) {
                return Err(format!("the value of {key:?} is none that was stored"));
            }
            content.insert(
                match key {
                    OwnedKey::U64(key) => Key::U64(key),
                    OwnedKey::Bytes(key) => Key::Bytes(key.into_vec()),
                },
                value,
            );
        }
        Ok(content)
    }

    fn close(self: Box<Self>) -> Result<(), String> {
        Self::close(*self).map_err(sentence)
    }

    fn check(&self) -> Result<(), String> {
        let outcome = Store::check(self).map_err(sentence)?;
        match (outcome.violations.first(), outcome.leaked_blocks) {
            (Some(violation), _) => Err(violation.clone()),
            (None, 0) => Ok(()),
            (None, leaked) => Err(format!("{leaked} blocks are allocated and reachable from nowhere")),
        }
    }
}
