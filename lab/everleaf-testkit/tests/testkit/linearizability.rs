//! What real threads were told by each engine that they may share can be explained by some order of
//! their calls. Every other history of the concurrent FPTree is by the processor's transactions,
//! where it has any.

use everleaf::internal::{BytesKeys, StoreKey, U64Keys, registry};
use everleaf::{Engine, EngineParameters, Transactions};
use everleaf_crash::Dram;
use everleaf_engines::{all, pools, volatile};
use everleaf_index::{Concurrency, Index, Model, SerialIndex, Serialized};
use everleaf_pmem::{Cpu, Mapped, Media, Region};
use everleaf_pool::Pool;
use everleaf_testkit::linearizability::{Act, Call, Recording, check};
use everleaf_testkit::{EngineSubject, TestKeys};

/// Rounds, each on an empty index.
const ROUNDS: u64 = 30;

/// Prints its seed, which draws the calls and not how the threads meet.
fn explained<K: TestKeys>(index: &dyn Index<K>, name: &str, seed: u64) {
    let keys = [3, 12, 60, 300][seed as usize % 4];
    let history = Recording { threads: 2 + seed % 3, calls: 3000, keys, seed }.run(index).unwrap();
    if let Err(e) = check(&history) {
        panic!("{name}, seed {seed}: {e}");
    }
}

fn run<K: TestKeys + StoreKey>(engine: Engine) {
    for seed in 0..ROUNDS {
        let parameters = if seed % 3 == 0 {
            EngineParameters::default()
        } else {
            EngineSubject::tiny_parameters(engine)
        };
        let media =
            Mapped::new(Region::anonymous(1 << 20, 256 << 20).unwrap(), &Cpu::detect()).unwrap();
        let pool =
            Pool::create(media, &registry::pool_format(engine, K::TYPE, &parameters, 1).unwrap())
                .unwrap();
        let transactions = [Transactions::Off, Transactions::Auto][seed as usize % 2];
        let index =
            registry::create_index_with::<K, _>(all(), &pool, engine, &parameters, 1, transactions)
                .unwrap();
        explained(&*index, &format!("{engine}, {transactions:?}"), seed);
        let statistics = index.statistics();
        if transactions == Transactions::Auto && pool.media().rtm().is_some() {
            let by_transactions = statistics.concurrency == Concurrency::Rtm;
            assert_eq!(by_transactions, engine == Engine::FPTREE_C);
            assert_eq!(statistics.conflicts.transactions.begun() > 0, by_transactions);
        }
    }
}

/// A twin in plain memory.
fn run_twin<K: TestKeys + StoreKey>(engine: Engine) {
    for seed in 0..ROUNDS {
        let parameters = if seed % 3 == 0 {
            EngineParameters::default()
        } else {
            EngineSubject::tiny_parameters(engine)
        };
        let media = Dram::new(Region::anonymous(1 << 20, 256 << 20).unwrap(), &Cpu::detect());
        let format = registry::pool_format(engine, K::TYPE, &parameters, 1).unwrap();
        let pool = Pool::create(media, &format).unwrap();
        let index = registry::create_index::<K, _>(all(), &pool, engine, &parameters, 1).unwrap();
        explained(&*index, &engine.to_string(), seed);
    }
}

#[test]
fn histories_of_twins_in_plain_memory_are_linearizable() {
    for engine in volatile()
        .map(Engine::of)
        .filter(|twin| twin.entry().is_volatile_twin() && twin.is_concurrent())
    {
        run_twin::<U64Keys>(engine);
        run_twin::<BytesKeys>(engine);
    }
}

#[test]
fn histories_of_shared_engines_with_u64_keys_are_linearizable() {
    pools().map(Engine::of).filter(|engine| engine.is_concurrent()).for_each(run::<U64Keys>);
}

#[test]
fn histories_of_shared_engines_with_byte_string_keys_are_linearizable() {
    let engines = pools().map(Engine::of).filter(|engine| engine.is_concurrent());
    engines.filter(|engine| engine.has_keys(BytesKeys::TYPE)).for_each(run::<BytesKeys>);
}

#[test]
fn histories_of_a_model_behind_a_lock_are_linearizable() {
    fn model<K: TestKeys>()
    where
        Model<K>: SerialIndex<K>,
    {
        (0..4).for_each(|seed| explained(&Serialized::new(Model::<K>::new()), "the model", seed));
    }
    model::<U64Keys>();
    model::<BytesKeys>();
}

#[test]
fn what_no_order_explains_is_found() {
    let call = |invoked, returned, act| Call { invoked, returned, act };
    let judge = |threads: Vec<Vec<Call>>| check(&[((), threads)].into()).is_ok();
    let (insert, remove) = (call(0, 1, Act::Insert(1, true)), call(2, 9, Act::Remove(Some(1))));
    // A reader beside the removal may see it or not, but not see the key come back.
    let see = |first, second| vec![call(3, 4, Act::Get(first)), call(5, 6, Act::Get(second))];
    for (first, second, legal) in [
        (None, None, true),
        (Some(1), None, true),
        (Some(1), Some(1), true),
        (None, Some(1), false),
    ] {
        assert_eq!(
            judge(vec![vec![insert, remove], see(first, second)]),
            legal,
            "{first:?} then {second:?}"
        );
    }
    // Two threads cannot both have added a key, or removed it, or replaced the same value.
    let twice =
        |act: fn(u64) -> Act| vec![vec![insert, call(2, 9, act(2))], vec![call(3, 8, act(3))]];
    assert!(!judge(twice(|value| Act::Insert(value, true))));
    assert!(!judge(twice(|_| Act::Remove(Some(1)))));
    assert!(!judge(twice(|value| Act::Upsert(value, Some(1)))));
    assert!(judge(vec![
        vec![insert, call(2, 9, Act::Update(2, Some(3)))],
        vec![call(3, 8, Act::Update(3, Some(1)))]
    ]));
    assert!(
        !judge(vec![vec![insert], vec![call(2, 3, Act::Update(2, None))]]),
        "the key was there before"
    );
}

#[test]
fn a_put_that_nobody_knows_of_may_be_done_at_any_time_or_never() {
    let call = |invoked, returned, act| Call { invoked, returned, act };
    let unknown = call(2, u64::MAX, Act::Put(2));
    for (told, legal) in [
        ([Some(1), Some(1)], true),
        ([Some(1), Some(2)], true),
        ([Some(2), Some(2)], true),
        ([Some(2), Some(1)], false),
        ([Some(1), None], false),
    ] {
        let gets = vec![
            call(0, 1, Act::Put(1)),
            call(3, 4, Act::Get(told[0])),
            call(5, 6, Act::Get(told[1])),
        ];
        assert_eq!(check(&[((), vec![vec![unknown], gets])].into()).is_ok(), legal, "{told:?}");
    }
}
