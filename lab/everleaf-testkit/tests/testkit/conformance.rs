//! The conformance suite on every engine of this release, in several sizes.

use everleaf::internal::{BytesKeys, StoreKey, U64Keys, registry};
use everleaf::{Engine, EngineParameters};
use everleaf_crash::Dram;
use everleaf_engines::{all, pools, volatile};
use everleaf_index::{Index, Model, SerialIndex};
use everleaf_pmem::{Cpu, Mapped, Media, Region, SimdLevel};
use everleaf_pool::{Audit, AuditReport, Pool, Shutdown};
use everleaf_testkit::{Conformance, TestKeys};

/// Sizes that the engine has: tiny leaves under tiny inner nodes, larger ones, and the defaults.
fn sizes(engine: Engine) -> Vec<EngineParameters> {
    let has = |name| engine.entry().parameters.contains(&name);
    let sized = |slots, keys, group_bytes| {
        let mut parameters = EngineParameters::default().leaf_slots(slots);
        parameters.inner_keys = has(EngineParameters::INNER_KEYS).then_some(keys);
        parameters.group_bytes = has(EngineParameters::GROUP_BYTES).then_some(group_bytes);
        parameters
    };
    let sizes = [sized(4, 4, 4096), sized(16, 32, 16384), EngineParameters::default()];
    let ranges = sizes.map(|sizes| sizes.log_ranges(true));
    let ranges = ranges.into_iter().filter(|_| has(EngineParameters::LOG_RANGES));
    let buffers = sizes.map(|sizes| sizes.buffers(true));
    let buffers = buffers.into_iter().filter(|_| has(EngineParameters::BUFFERS));
    sizes
        .into_iter()
        .chain(ranges)
        .chain(buffers)
        .filter(|sizes| (engine.entry().pack)(sizes, 1).is_ok())
        .collect()
}

fn run<K: TestKeys + StoreKey>(engine: Engine, simd: SimdLevel)
where
    Model<K>: SerialIndex<K>,
{
    for (i, parameters) in sizes(engine).into_iter().enumerate() {
        let seed = 1000 + i as u64;
        let region = Region::anonymous(1 << 20, 256 << 20).unwrap();
        let media = Mapped::new(region, &Cpu::detect()).unwrap().with_simd(simd);
        let format = registry::pool_format(engine, K::TYPE, &parameters, 1).unwrap();
        let pool = Pool::create(media, &format).unwrap();
        let index = registry::create_index::<K, _>(all(), &pool, engine, &parameters, 1).unwrap();
        let model = Conformance::new(&*index, seed).run(3000);
        audited(&pool, &*index);

        // The same content after the DRAM part was thrown away and recovered.
        index.sync().unwrap();
        drop(index);
        for shutdown in [Shutdown::Crash, Shutdown::Clean] {
            let (index, opened) = registry::open_index::<K, _>(all(), &pool, shutdown).unwrap();
            assert_eq!((opened, index.len()), (engine, model.len()), "{engine}, seed {seed}");
            for (key, value) in model.map() {
                assert_eq!(
                    index.get(K::borrow(key)).unwrap(),
                    Some(value[0]),
                    "{engine}, seed {seed}"
                );
            }
            audited(&pool, &*index);
            index.close().unwrap(); // What is opened as closed was closed.
        }
    }
}

/// A twin in plain memory, of which nothing is left when it is dropped.
fn run_twin<K: TestKeys + StoreKey>(engine: Engine)
where
    Model<K>: SerialIndex<K>,
{
    for (i, parameters) in sizes(engine).into_iter().enumerate() {
        let media = Dram::new(Region::anonymous(1 << 20, 256 << 20).unwrap(), &Cpu::detect());
        let format = registry::pool_format(engine, K::TYPE, &parameters, 1).unwrap();
        let pool = Pool::create(media, &format).unwrap();
        let index = registry::create_index::<K, _>(all(), &pool, engine, &parameters, 1).unwrap();
        Conformance::new(&*index, 2000 + i as u64).run(3000);
        audited(&pool, &*index);
    }
}

fn audited<K: TestKeys, M: Media>(pool: &Pool<M>, index: &dyn Index<K>) {
    let mut audit = Audit::new();
    assert_eq!(index.check(&mut audit).unwrap().violations, Vec::<String>::new());
    assert_eq!(pool.finish_audit(audit), AuditReport::default());
}

fn levels() -> impl Iterator<Item = SimdLevel> {
    Cpu::detect().simd().and_lower().filter(|level| level.bytes() != 32)
}

#[test]
fn every_engine_conforms_with_u64_keys() {
    for engine in pools().map(Engine::of) {
        levels().for_each(|simd| run::<U64Keys>(engine, simd));
    }
}

#[test]
fn every_engine_conforms_with_byte_string_keys() {
    for engine in pools().map(Engine::of).filter(|engine| engine.has_keys(BytesKeys::TYPE)) {
        levels().for_each(|simd| run::<BytesKeys>(engine, simd));
    }
}

#[test]
fn every_twin_in_plain_memory_conforms() {
    for engine in volatile().map(Engine::of).filter(|engine| engine.entry().is_volatile_twin()) {
        run_twin::<U64Keys>(engine);
        run_twin::<BytesKeys>(engine);
    }
}
