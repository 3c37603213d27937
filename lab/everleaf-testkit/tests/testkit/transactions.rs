//! The concurrent FPTree with transactions, simulated ones where the processor has none: it
//! conforms, what threads were told by it can be explained by some order of their calls, and it
//! survives crashes under every interleaving.

use everleaf::internal::{BytesKeys, InjectedAborts, Simulation, StoreKey, U64Keys, registry};
use everleaf::{Engine, EngineParameters, Transactions};
use everleaf_crash::{Options, explore_threads};
use everleaf_engines::all;
use everleaf_index::{Concurrency, Index, Model, SerialIndex};
use everleaf_pmem::{AbortCause, Cpu, Mapped, Media, Region};
use everleaf_pool::{Audit, AuditReport, Pool, Shutdown};
use everleaf_testkit::linearizability::{Recording, check};
use everleaf_testkit::{
    ConcurrentEngineSubject, Conformance, EngineSubject, Level, Scenario, ScriptKeys, TestKeys,
};

const ENGINE: Engine = Engine::FPTREE_C;

/// Without aborts, with some, with many, and with nothing but page faults.
const ABORTS: [InjectedAborts; 4] = [
    InjectedAborts::Nothing,
    InjectedAborts::OneIn(30),
    InjectedAborts::OneIn(3),
    InjectedAborts::Always(AbortCause::Unknown),
];

/// What is to be tried: the processor's transactions (version locks where it has none), none, and
/// simulated ones.
fn schemes(seed: u64) -> Vec<Transactions> {
    let simulated = ABORTS.map(|aborts| Transactions::Simulated(Simulation { seed, aborts }));
    [Transactions::Auto, Transactions::Off].into_iter().chain(simulated).collect()
}

fn pool<K: StoreKey>(parameters: &EngineParameters) -> std::sync::Arc<Pool<Mapped>> {
    let media =
        Mapped::new(Region::anonymous(1 << 20, 256 << 20).unwrap(), &Cpu::detect()).unwrap();
    Pool::create(media, &registry::pool_format(ENGINE, K::TYPE, parameters, 1).unwrap()).unwrap()
}

fn audited<K: TestKeys>(pool: &Pool<Mapped>, index: &dyn Index<K>) {
    let mut audit = Audit::new();
    assert_eq!(index.check(&mut audit).unwrap().violations, Vec::<String>::new());
    assert_eq!(pool.finish_audit(audit), AuditReport::default());
}

/// Whether the statistics say what was chosen.
fn told<K: TestKeys>(index: &dyn Index<K>, chosen: Transactions, has_rtm: bool) {
    let statistics = index.statistics();
    let expected = match chosen {
        Transactions::Auto if has_rtm => Concurrency::Rtm,
        Transactions::Auto | Transactions::Off => Concurrency::VersionLocks,
        Transactions::Simulated(_) => Concurrency::SimulatedRtm,
    };
    let counts = statistics.conflicts.transactions;
    println!("{chosen:?}: {counts:?}");
    assert_eq!(
        (statistics.concurrency, counts.begun() > 0),
        (expected, expected != Concurrency::VersionLocks)
    );
    if let Transactions::Simulated(Simulation { aborts, .. }) = chosen {
        assert_eq!(
            counts.committed > 0,
            !matches!(aborts, InjectedAborts::Always(_)),
            "{counts:?}"
        );
    }
}

fn conforms<K: TestKeys + StoreKey>()
where
    Model<K>: SerialIndex<K>,
{
    for (seed, transactions) in (1..).zip(schemes(7)) {
        for parameters in [EngineSubject::tiny_parameters(ENGINE), EngineParameters::default()] {
            println!("seed {seed}");
            let pool = pool::<K>(&parameters);
            let index = registry::create_index_with::<K, _>(
                all(),
                &pool,
                ENGINE,
                &parameters,
                1,
                transactions,
            )
            .unwrap();
            let model = Conformance::new(&*index, seed).run(2000);
            audited(&pool, &*index);
            told(&*index, transactions, pool.media().rtm().is_some());
            drop(index);
            let opening = registry::Opening { transactions, ..Shutdown::Crash.into() };
            let (index, _) = registry::open_index_with::<K, _>(all(), &pool, opening).unwrap();
            for (key, value) in model.map() {
                assert_eq!(index.get(K::borrow(key)).unwrap(), Some(value[0]), "seed {seed}");
            }
        }
    }
}

#[test]
fn it_conforms_with_u64_keys() {
    conforms::<U64Keys>();
}

#[test]
fn it_conforms_with_byte_string_keys() {
    conforms::<BytesKeys>();
}

fn explained<K: TestKeys + StoreKey>() {
    for seed in 0..12 {
        for transactions in schemes(seed) {
            let tiny = EngineSubject::tiny_parameters(ENGINE);
            let parameters = if seed % 3 == 0 { EngineParameters::default() } else { tiny };
            let index = registry::create_index_with::<K, _>(
                all(),
                &pool::<K>(&parameters),
                ENGINE,
                &parameters,
                1,
                transactions,
            )
            .unwrap();
            let keys = [3, 12, 60, 300][seed as usize % 4];
            let history =
                Recording { threads: 2 + seed % 3, calls: 2000, keys, seed }.run(&*index).unwrap();
            if let Err(e) = check(&history) {
                panic!("{transactions:?}, seed {seed}: {e}");
            }
        }
    }
}

#[test]
fn histories_with_u64_keys_are_linearizable() {
    explained::<U64Keys>();
}

#[test]
fn histories_with_byte_string_keys_are_linearizable() {
    explained::<BytesKeys>();
}

#[test]
fn crashes_under_interleavings_of_transactions_are_survived() {
    let full =
        "insert 10 1\ninsert 30 1\ninsert 50 1\ninsert 70 1\ninsert 20 1\ninsert 40 1\nexplore\n";
    let meetings = [
        "thread 1 insert 15 6\nthread 2 insert 25 8\n",
        "thread 1 insert 15 6\nthread 2 get 40\n",
        "thread 1 insert 15 6\nthread 2 remove 20\n",
        "remove 50\nthread 1 remove 70\nthread 2 insert 60 6\n",
    ];
    for (seed, aborts) in (0..).zip(ABORTS) {
        for (i, meeting) in meetings.iter().enumerate() {
            let keys = if (seed + i as u64).is_multiple_of(2) {
                ScriptKeys::U64
            } else {
                ScriptKeys::Bytes
            };
            let scenario = Scenario::parse(&format!("{full}{meeting}"), Some(keys)).unwrap();
            let subject = EngineSubject::new(
                ENGINE,
                EngineSubject::tiny_parameters(ENGINE),
                Level::Index,
                scenario,
            )
            .with_transactions(Transactions::Simulated(Simulation { seed, aborts }));
            let (len, max_len) = (96 << 10, 256 << 10);
            let options = Options {
                len,
                max_len,
                budget: 16,
                recovery_budget: 3,
                interleavings: 60,
                ..Options::default()
            };
            let report = explore_threads(&ConcurrentEngineSubject::new(subject), &options)
                .expect("the operations run");
            assert!(report.violations.is_empty(), "{aborts:?}: {}", report.violations[0]);
            assert!(
                report.interleavings.is_some_and(|run| run >= 30),
                "{:?}",
                report.interleavings
            );
        }
    }
}
