//! Batches under the explorer: all or nothing in every image, and every barrier of a batch is
//! needed.

use std::collections::BTreeSet;

use everleaf::Engine;
use everleaf_crash::{Mutant, Options, Report, explore};
use everleaf_testkit::{
    Action, AllocatorOperation, AllocatorSubject, EngineSubject, Level, POOL_SITES, Scenario,
    ScriptKeys,
};

fn explored(engine: Engine, scenario: Scenario, options: &Options) -> Report {
    let subject =
        EngineSubject::new(engine, EngineSubject::tiny_parameters(engine), Level::Store, scenario);
    let report = explore(&subject, options).expect("the operations run");
    assert!(report.violations.is_empty(), "{engine}: {}", report.violations[0]);
    assert_eq!(report.undeclared, [], "{engine}: every barrier is declared");
    assert_eq!(report.redundant_flush_count(), 0, "{engine}: {:?}", report.redundant_flushes);
    report
}

fn options(budget: u64) -> Options {
    Options { len: 96 << 10, max_len: 512 << 10, budget, recovery_budget: 4, ..Options::default() }
}

#[test]
fn a_batch_of_a_hundred_puts_is_all_or_nothing_in_every_image() {
    // Values of one and of several lines, leaves that split, and old values that are replaced.
    let prepare: String = (0..20).map(|i| format!("insert {} {i}\n", i * 10)).collect();
    let puts: Vec<String> = (0..100).map(|i| format!("upsert {} {}", i * 5, i + 1)).collect();
    let script = format!("{prepare}explore\nbatch {}\n", puts.join("; "));
    for engine in [Engine::FPTREE, Engine::FPTREE_C, Engine::NVTREE] {
        // Many images at a crash point: those at which only records were written are skipped.
        let options = Options { recovery_depth: 0, ..options(48) };
        let report =
            explored(engine, Scenario::parse(&script, Some(ScriptKeys::U64)).unwrap(), &options);
        println!("{engine}: {} crash points, {} images", report.crash_points, report.images);
        assert!(report.images > 3000, "{}", report.images);
    }
}

#[test]
fn every_barrier_of_a_batch_is_needed() {
    let full = "insert 10 10\ninsert 20 20\ninsert 30 30\ninsert 40 40\n";
    // What follows a batch takes the blocks that it has freed: a batch that is done again is found
    // out.
    let plain = format!("{full}explore\nbatch insert 15 1; update 20 2; remove 30\ninsert 50 30\n");
    let apart = format!(
        "{full}explore\nbatch insert 15 1; insert 5 1\nbatch remove 10; remove 30\ninsert 50 30\n"
    );
    let cut = |site: &str| {
        format!(
            "{full}cut pool.batch.{site} batch insert 15 1; remove 30; update 20 3\ninsert 50 30\n"
        )
    };
    // An engine that takes part in a batch, and one whose entries are changed one by one.
    let scripts = [
        (Engine::FPTREE, &plain),
        (Engine::FPTREE, &apart),
        (Engine::FPTREE, &cut("B2.fence")),
        (Engine::FPTREE, &cut("B5.fence")),
        (Engine::CIRCTREE, &plain),
    ];
    // No pool is full here beside other workers (`subject/sites.rs`).
    let is_asked = |name: &str| {
        name != "pool.batch.B1.given"
            && (name.starts_with("pool.batch.") || name.starts_with("pool.recover.batch."))
    };
    let sites = POOL_SITES.iter().filter(|site| is_asked(site.name()));
    let mut alive: BTreeSet<Mutant> = sites.map(|site| Mutant::Without(*site)).collect();
    let judging = |alive: &BTreeSet<Mutant>| Options {
        mutate: true,
        asked: Some(alive.clone()),
        ..options(16)
    };
    for (engine, script) in scripts {
        let scenario = Scenario::parse(script, Some(ScriptKeys::U64)).unwrap();
        let report = explored(engine, scenario, &judging(&alive));
        report.killed.iter().for_each(|(mutant, _)| _ = alive.remove(mutant));
    }
    // The chunk that a batch has taken which is given up, and what another thread then puts there.
    let given_up = [Action::RefusedBatch(1000), Action::Doubt(0, 1000)];
    let given_up = given_up.map(|action| AllocatorOperation { worker: 0, action });
    let subject = AllocatorSubject::new(Vec::new(), given_up.into());
    let report = explore(&subject, &judging(&alive)).unwrap();
    assert!(report.violations.is_empty(), "{}", report.violations[0]);
    report.killed.iter().for_each(|(mutant, _)| _ = alive.remove(mutant));
    assert_eq!(alive, BTreeSet::new());
}
