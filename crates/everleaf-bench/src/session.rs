//! A run of an engine: fresh indexes, warmed up and driven through the phases.

use std::sync::Arc;
use std::time::Duration;

use everleaf::{CreateOptions, Engine, EngineParameters, KeyType, Store, StoreKey, registry};
use everleaf_index::IndexStatistics;
use everleaf_pmem::{Cpu, Durability, Emulated, FlushInstruction, Hardware, Latencies as AddedLatencies, Media, Region};
use everleaf_pool::Pool;

use crate::keys::{BenchKey, String16};
use crate::measure::{Answers, Clock, Measured, Unobserved, lanes, measure};
use crate::options::{BenchKeyType, Flush, MicroOptions, Plan, divide};
use crate::peers::{self, store::Ours};
use crate::place::{Need, Place};
use crate::report::Timed;
use crate::target::{ByteStore, ByteTarget, IndexTarget, MapKey, MapTarget, PeerKey, Target};
use crate::workload::{Drawn, Workload};
use crate::{BenchError, Peer, Phase, Progress, Subject};

/// Adds up what is done.
pub(crate) struct Steps<'p> {
    tell: &'p mut dyn FnMut(Progress),
    done: u64,
    total: u64,
}

impl<'p> Steps<'p> {
    pub fn new(tell: &'p mut dyn FnMut(Progress), total: u64) -> Self {
        Self { tell, done: 0, total }
    }

    /// Something begins.
    pub fn begin(&mut self, subject: Subject, doing: &str) {
        (self.tell)(Progress { done: self.done, total: self.total, doing: format!("{subject} {doing}") });
    }

    /// It is done, with so many operations.
    pub fn end(&mut self, operations: u64) {
        self.done += operations;
    }
}

/// Checked options, and a place with room.
pub(crate) struct Session {
    /// Of each index.
    pub plan: Plan,
    /// One, which all threads share, or one for each thread.
    indexes: u64,
    parameters: EngineParameters,
    place: Place,
    pool_bytes: u64,
    pub cpu: Cpu,
}

/// Receives what one phase of a run gave.
pub(crate) type AfterPhase<'a, C> = dyn FnMut(Phase, Measured<C>, &dyn Describe) -> Result<(), BenchError> + 'a;

/// What can be asked of any targets between phases.
pub(crate) trait Describe {
    fn timed(&self, elapsed: Duration) -> Timed;
}

struct Described<'t, T, K>(&'t [T], std::marker::PhantomData<K>);

impl<K, T: Target<K>> Describe for Described<'_, T, K> {
    fn timed(&self, elapsed: Duration) -> Timed {
        let statistics: Option<IndexStatistics> = match self.0 {
            [target] => target.statistics(),
            _ => None, // Shapes of several indexes do not add up to one.
        };
        let keys_after = self.0.iter().map(Target::len).sum();
        let medium_bytes = self.0.iter().map(Target::medium_bytes).sum();
        Timed { seconds: elapsed.as_secs_f64().max(1e-9), statistics, keys_after, medium_bytes }
    }
}

impl Session {
    /// All threads share one index.
    pub fn shared(options: &MicroOptions) -> Result<Self, BenchError> {
        Self::new(Plan::new(options)?, 1)
    }

    /// Every thread has an index of its own, in a pool of its own, and an equal part of the operations.
    pub fn separate(options: &MicroOptions) -> Result<Self, BenchError> {
        Self::new(Plan::new(&divide(options)?)?, options.threads.into())
    }

    fn new(plan: Plan, indexes: u64) -> Result<Self, BenchError> {
        let options = &plan.options;
        let mut parameters = EngineParameters::default();
        (parameters.leaf_slots, parameters.inner_keys) = (plan.leaf_slots()?, options.inner_keys);
        match plan.subject {
            Subject::Index(engine) => {
                let words = plan.options.value_words as usize;
                registry::pool_format(engine, key_type(options.key_type), &parameters, words)?;
            }
            Subject::Store(engine) => {
                registry::pool_format(engine, key_type(options.key_type), &parameters, 1)?;
            }
            Subject::Peer(_) if parameters != EngineParameters::default() => {
                return Err(BenchError::NotAnIndex { engine: plan.subject });
            }
            Subject::Peer(_) => {}
        }
        let need = Need::of(&plan);
        let place = Place::find(need.times(indexes), options.pool.as_deref())?;
        Ok(Self { plan, indexes, parameters, place, pool_bytes: need.pool_bytes, cpu: Cpu::detect() })
    }

    /// What an acknowledged write survives, on this medium and with the settings that are used.
    pub fn durability(&self) -> Result<Durability, BenchError> {
        match self.plan.subject {
            Subject::Index(Engine::BTreeMap) | Subject::Peer(Peer::SkipMap) => Ok(Durability::None),
            Subject::Index(_) | Subject::Store(_) => {
                let of_medium = self.place.durability()?;
                let unflushed = self.plan.options.flush == Flush::None;
                Ok(if unflushed { of_medium.min(Durability::ProcessCrash) } else { of_medium })
            }
            Subject::Peer(Peer::Redb) if !self.place.is_memory() => Ok(Durability::PowerFail),
            Subject::Peer(_) => Ok(Durability::ProcessCrash),
        }
    }

    /// Operations of one run, the warm-up included.
    pub fn operations(&self) -> u64 {
        let options = &self.plan.options;
        (options.warm + options.keys * options.phases.len() as u64) * self.indexes
    }

    /// The timed run alone: seconds of each phase.
    pub fn seconds(&self, steps: &mut Steps<'_>) -> Result<Vec<f64>, BenchError> {
        let mut seconds = Vec::new();
        let mut after = |_, measured: Measured<Unobserved>, _: &dyn Describe| {
            seconds.push(measured.elapsed.as_secs_f64().max(1e-9));
            Ok(())
        };
        match self.plan.options.key_type {
            BenchKeyType::U64 => self.run::<u64, _>(steps, "timed", &Unobserved, &mut after)?,
            BenchKeyType::String16 => self.run::<String16, _>(steps, "timed", &Unobserved, &mut after)?,
        }
        Ok(seconds)
    }

    /// A run on the media that was asked for, or of a peer.
    pub fn run<K: SubjectKey, C: Clock + Clone>(
        &self,
        steps: &mut Steps<'_>,
        name: &str,
        clock: &C,
        after: &mut AfterPhase<'_, C>,
    ) -> Result<(), BenchError> {
        let driven = Driven { session: self, steps, name, clock, after };
        match self.plan.subject {
            Subject::Index(Engine::BTreeMap) => self.run_map::<K, C>(driven),
            Subject::Index(engine) => match self.added() {
                None => driven.through::<K, _>(|| Ok(self.index::<K, _>(engine, self.hardware(self.region()?)?)?.1)),
                Some(added) => driven
                    .through::<K, _>(|| Ok(self.index::<K, _>(engine, Emulated::new(self.hardware(self.region()?)?, added))?.1)),
            },
            Subject::Store(engine) => driven.through_bytes::<K, _>(|| {
                let hardware = self.hardware(self.region()?)?;
                Ok(Ours(match self.added() {
                    None => self.store(engine, hardware)?.0,
                    Some(added) => self.store(engine, Emulated::new(hardware, added))?.0,
                }))
            }),
            Subject::Peer(peer) => self.run_peer::<K, C>(peer, driven),
        }
    }

    /// Latencies that are to be added, if any.
    fn added(&self) -> Option<AddedLatencies> {
        let options = &self.plan.options;
        let added = AddedLatencies { flush_ns: options.flush_ns, fence_ns: options.fence_ns, read_ns: options.read_ns };
        (added != AddedLatencies::default()).then_some(added)
    }

    fn run_map<K: SubjectKey, C: Clock + Clone>(&self, driven: Driven<'_, '_, '_, C>) -> Result<(), BenchError> {
        let bytes = self.plan.value_bytes();
        macro_rules! of_words {
            ($($words:literal)*) => {
                match bytes {
                    $(bytes if bytes == 8 * $words => driven.through::<K, _>(|| Ok(MapTarget::<K, [u64; $words]>::new(bytes))),)*
                    _ => driven.through::<K, _>(|| Ok(MapTarget::<K, Box<[u8]>>::new(bytes))),
                }
            };
        }
        of_words!(1 2 4 8 14)
    }

    fn run_peer<K: SubjectKey, C: Clock + Clone>(&self, peer: Peer, driven: Driven<'_, '_, '_, C>) -> Result<(), BenchError> {
        let folder = || self.place.create_folder();
        match peer {
            Peer::SkipMap => driven.through_bytes::<K, _>(|| Ok(peers::skipmap::Skip::<K>::new())),
            Peer::Lmdb => driven.through_bytes::<K, _>(|| Ok(peers::lmdb::Lmdb::create(folder()?, self.pool_bytes * 2)?)),
            Peer::Redb => driven.through_bytes::<K, _>(|| Ok(peers::redb::Redb::create(folder()?)?)),
            Peer::Fjall => driven.through_bytes::<K, _>(|| Ok(peers::fjall::Fjall::create(folder()?)?)),
            #[cfg(feature = "rocksdb")]
            Peer::RocksDb => driven.through_bytes::<K, _>(|| Ok(peers::rocksdb::RocksDb::create(folder()?)?)),
            #[cfg(not(feature = "rocksdb"))]
            Peer::RocksDb => Err(BenchError::NotBuilt { peer }),
        }
    }

    /// Memory for a pool.
    pub fn region(&self) -> Result<Region, BenchError> {
        self.place.create(self.pool_bytes)
    }

    /// The media that was asked for, without added latencies.
    pub fn hardware(&self, region: Region) -> Result<Hardware, BenchError> {
        let forced = match self.plan.options.flush {
            Flush::Auto => return Ok(Hardware::new(region, &self.cpu)?),
            Flush::Clwb => FlushInstruction::Clwb,
            Flush::ClflushOpt => FlushInstruction::ClflushOpt,
            Flush::Clflush => FlushInstruction::Clflush,
            Flush::None => FlushInstruction::None,
        };
        Ok(Hardware::forced(region, &self.cpu, forced)?)
    }

    /// A fresh pool and an empty index in it.
    pub fn index<K: BenchKey, M: Media>(&self, engine: Engine, media: M) -> Result<(Arc<Pool<M>>, IndexTarget<K>), BenchError> {
        let words = self.plan.options.value_words as usize;
        let format = registry::pool_format(engine, K::Kind::TYPE, &self.parameters, words)?;
        let pool = Pool::create(media, &format)?;
        let index = registry::create_index::<K::Kind, M>(&pool, engine, &self.parameters, words)?;
        Ok((pool, IndexTarget::new(index)))
    }

    /// An empty store on a media, and its pool.
    pub fn store<M: Media>(&self, engine: Engine, media: M) -> Result<(Store, Arc<Pool<M>>), BenchError> {
        let options = CreateOptions::new().engine(engine).key_type(key_type(self.plan.options.key_type));
        let options = options.size_bytes(self.pool_bytes).parameters(self.parameters);
        Ok(options.create_on(media)?)
    }

    /// Warms the targets up and does one phase after the other.
    pub fn drive<K: BenchKey, T: Target<K>, C: Clock + Clone>(
        &self,
        steps: &mut Steps<'_>,
        name: &str,
        targets: &mut [T],
        clock: &C,
        before: &mut dyn FnMut(),
        after: &mut AfterPhase<'_, C>,
    ) -> Result<(), BenchError> {
        let (subject, threads) = (self.plan.subject, self.plan.options.threads as usize);
        let mut workloads: Vec<_> = (0..self.indexes).map(|index| Workload::new(&self.plan, index)).collect();
        self.warm_up(steps, name, targets, &workloads)?;
        for (i, &phase) in self.plan.options.phases.iter().enumerate() {
            steps.begin(subject, &format!("{name}: {phase}"));
            let drawn: Vec<Drawn<K>> = workloads.iter_mut().map(|workload| workload.operations(phase)).collect();
            before();
            let clocks = vec![clock.clone(); threads * targets.len()];
            let measured = measure(lanes(targets, &drawn, threads), clocks, phase, i as u8)?;
            verify(subject, phase, &drawn, measured.answers, T::RETURNS_OLD)?;
            after(phase, measured, &Described(targets, std::marker::PhantomData))?;
            steps.end(drawn.iter().map(Drawn::len).sum());
        }
        Ok(())
    }

    /// Inserts the first keys in batches, so that they need not all be held.
    fn warm_up<K: BenchKey, T: Target<K>>(
        &self,
        steps: &mut Steps<'_>,
        name: &str,
        targets: &mut [T],
        workloads: &[Workload],
    ) -> Result<(), BenchError> {
        const BATCH: u64 = 1 << 20;
        let (warm, threads) = (self.plan.options.warm, self.plan.options.threads as usize);
        for start in (0..warm).step_by(BATCH as usize) {
            steps.begin(self.plan.subject, &format!("{name}: warm-up"));
            let batch = start..warm.min(start + BATCH);
            let draw = |workload: &Workload| Drawn::alike(batch.clone().map(|place| workload.key(place)).collect());
            let drawn: Vec<Drawn<K>> = workloads.iter().map(draw).collect();
            let clocks = vec![Unobserved; threads * targets.len()];
            let inserted = measure(lanes(targets, &drawn, threads), clocks, Phase::Insert, 0)?;
            verify(self.plan.subject, Phase::Insert, &drawn, inserted.answers, T::RETURNS_OLD)?;
            steps.end(drawn.iter().map(Drawn::len).sum());
        }
        Ok(())
    }
}

/// A key that everything that is measured takes.
pub(crate) trait SubjectKey: MapKey + PeerKey {}
impl<K: MapKey + PeerKey> SubjectKey for K {}

/// The kind of key of a pool.
pub(crate) const fn key_type(keys: BenchKeyType) -> KeyType {
    match keys {
        BenchKeyType::U64 => KeyType::U64,
        BenchKeyType::String16 => KeyType::Bytes,
    }
}

/// A run that waits for its targets.
struct Driven<'r, 'p, 'a, C> {
    session: &'r Session,
    steps: &'r mut Steps<'p>,
    name: &'r str,
    clock: &'r C,
    after: &'r mut AfterPhase<'a, C>,
}

impl<C: Clock + Clone> Driven<'_, '_, '_, C> {
    /// Makes as many targets as the session has and drives them.
    fn through<K: BenchKey, T: Target<K>>(self, make: impl Fn() -> Result<T, BenchError>) -> Result<(), BenchError> {
        let mut targets = (0..self.session.indexes).map(|_| make()).collect::<Result<Vec<T>, _>>()?;
        self.session.drive(self.steps, self.name, &mut targets, self.clock, &mut || {}, self.after)
    }

    /// The same of stores of bytes.
    fn through_bytes<K: PeerKey, S: ByteStore<K>>(self, make: impl Fn() -> Result<S, BenchError>) -> Result<(), BenchError> {
        let value_bytes = self.session.plan.value_bytes();
        self.through::<K, _>(|| Ok(ByteTarget::new(make()?, value_bytes)))
    }
}

/// Whether the operations that were drawn had the outcomes that they must have.
pub(crate) fn verify<K: BenchKey>(
    engine: Subject,
    phase: Phase,
    drawn: &[Drawn<K>],
    found: Answers,
    returns_old: bool,
) -> Result<(), BenchError> {
    let mut expected = Answers::default();
    drawn.iter().for_each(|drawn| expected.merge(Answers::expected(phase, drawn.whole(), returns_old)));
    if found.right != expected.right {
        return Err(BenchError::WrongAnswers { engine, phase, asked: expected.right, right: found.right });
    }
    if found.sum != expected.sum {
        return Err(BenchError::WrongValues { engine, phase });
    }
    Ok(())
}
