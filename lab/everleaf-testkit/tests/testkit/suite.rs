//! The directed part of the suite: no crash state is lost, every barrier and every path is reached,
//! and something breaks in each mutant but those that are argued for. `everleaf explore --suite`
//! explores more of each, and the rest.

use std::collections::BTreeSet;

use everleaf::Engine;
use everleaf_engines::pools;
use everleaf_pmem::Site;
use everleaf_testkit::{
    Case, CaseKind, POOL_SITES, directed_cases, engine_sites, every_mutant, run_suite,
};

/// What lies below the trees is the same for all of them: it is judged once, with this engine.
const WITH_POOL: Engine = Engine::DEFAULT;

fn is_pools(site: &Site) -> bool {
    POOL_SITES.contains(site)
}

fn suffices(engine: Engine) {
    let with_pool = engine == WITH_POOL;
    let brief = |case: Case| case.judging().briefly();
    let cases = directed_cases(engine).into_iter();
    let cases = cases.filter(|case| with_pool || case.kind() != CaseKind::Allocator);
    let cases: Vec<Case> = cases.map(brief).collect();
    let spared = every_mutant(engine).filter(|mutant| !with_pool && is_pools(&mutant.site()));
    let mut report = run_suite(&cases, spared.collect(), 1, &mut |_| {});
    if !with_pool {
        report.sites.retain(|site| !is_pools(site));
        report.reached.retain(|site| !is_pools(site));
        report.redundant.retain(|site, _| !is_pools(site));
    }
    println!(
        "{engine}: {} explorations, {} images, {} of {} mutants killed",
        report.cases,
        report.images,
        report.killed.len(),
        report.mutants.len(),
    );
    for (name, violation) in &report.violations {
        println!("{name}: {violation}");
    }
    for (mutant, case) in &report.killed {
        println!("{mutant}: {case}");
    }
    assert_eq!(report.shortcomings(), Vec::<String>::new());
    assert_eq!(report.reached, report.sites, "every declared barrier");
    assert_eq!(report.killed.len(), report.mutants.len());
    assert!(report.argued.len() <= 3, "{:?}", report.argued);
}

/// A test for each engine, and the list of them.
macro_rules! engines {
    ($($(#[$attribute:meta])* $name:ident: $engine:ident,)*) => {
        $(
            #[test]
            $(#[$attribute])*
            fn $name() {
                suffices(Engine::of(&everleaf_engines::$engine));
            }
        )*
        const TESTED: &[Engine] = &[$(Engine::of(&everleaf_engines::$engine)),*];
    };
}

engines! {
    // By its name it begins first: it takes longest, and is not to run on alone at the end.
    every_barrier_of_an_nv_tree_is_reached_and_needed: NVTREE,
    #[ignore = "many minutes: `everleaf explore --engine nvtree-c --suite`, or this test by name"]
    every_barrier_of_an_nv_tree_for_threads_is_reached_and_needed: NVTREE_C,
    every_barrier_of_a_clfb_tree_is_reached_and_needed: CLFTREE_APPEND,
    #[ignore = "as clftree-append: `everleaf explore --engine clftree-inplace --suite`"]
    every_barrier_of_a_clfb_tree_with_its_log_alone_is_reached_and_needed: CLFTREE_INPLACE,
    every_barrier_of_an_encoded_clfb_tree_is_reached_and_needed: CLFTREE_ENCODED,
    #[ignore = "over a minute: `everleaf explore --engine clftree-shadow --suite`"]
    every_barrier_of_a_clfb_tree_of_copies_is_reached_and_needed: CLFTREE_SHADOW,
    #[ignore = "over a minute: `everleaf explore --engine clftree-encoded-shadow --suite`"]
    every_barrier_of_an_encoded_clfb_tree_of_copies_is_reached_and_needed: CLFTREE_ENCODED_SHADOW,
    #[ignore = "minutes, with the pool's barriers: `everleaf explore --engine lcbtree --suite`"]
    every_barrier_of_an_lcb_tree_is_reached_and_needed: LCBTREE,
    every_barrier_of_a_tree_of_versions_is_reached_and_needed: CDDS,
    #[ignore = "minutes: `everleaf explore --engine wbtree-slot --suite`, or this test by name"]
    every_barrier_of_the_slot_only_wbtree_is_reached_and_needed: WBTREE_SLOT,
    #[ignore = "minutes: `everleaf explore --engine wbtree-bitmap --suite`, or this test by name"]
    every_barrier_of_the_wbtree_with_a_bitmap_is_reached_and_needed: WBTREE_BITMAP,
    every_barrier_of_the_fptree_is_reached_and_needed: FPTREE,
    every_barrier_of_the_line_tree_is_reached_and_needed: LINETREE,
    #[ignore = "its barriers are among fptree's: `everleaf explore --engine ptree --suite`"]
    every_barrier_of_the_ptree_is_reached_and_needed: PTREE,
    every_barrier_of_the_concurrent_fptree_is_reached_and_needed: FPTREE_C,
    #[ignore = "minutes: `everleaf explore --engine circtree --suite`, or this test by name"]
    every_barrier_of_circ_tree_is_reached_and_needed: CIRCTREE,
    #[ignore = "it has the barriers of circtree: `everleaf explore --engine circtree-ls --suite`"]
    every_barrier_of_circ_tree_with_linear_search_is_reached_and_needed: CIRCTREE_LS,
    #[ignore = "many minutes: `everleaf explore --engine fastfair --suite`, or this test by name"]
    every_barrier_of_fast_fair_is_reached_and_needed: FASTFAIR,
    #[ignore = "minutes: `everleaf explore --engine masstree --suite`, or this test by name"]
    every_barrier_of_masstree_is_reached_and_needed: MASSTREE,
    #[ignore = "many minutes: `everleaf explore --engine masstree-logging --suite`"]
    every_barrier_of_masstree_with_its_log_alone_is_reached_and_needed: MASSTREE_LOGGING,
}

#[test]
fn no_engine_is_forgotten() {
    let forgotten: Vec<Engine> =
        pools().map(Engine::of).filter(|engine| !TESTED.contains(engine)).collect();
    assert_eq!(forgotten, []);
}

/// What the suite of every day has of the trees of copies: those to which a word of an inner node
/// leads, with the mutants of it.
#[test]
fn copies_of_lines_of_a_clfb_tree_are_never_lost() {
    for engine in [
        Engine::of(&everleaf_engines::CLFTREE_SHADOW),
        Engine::of(&everleaf_engines::CLFTREE_ENCODED_SHADOW),
    ] {
        let cases = directed_cases(engine).into_iter();
        let cases = cases.filter(|case| {
            case.name.contains("below two inner nodes")
                || case.name.contains("leaves that are emptied")
        });
        let cases: Vec<Case> = cases.map(|case| case.judging().briefly()).collect();
        let report = run_suite(&cases, BTreeSet::new(), 1, &mut |_| {});
        println!("{engine}: {} explorations, {} images", report.cases, report.images);
        let violations: Vec<String> =
            report.violations.iter().map(|(name, found)| format!("{name}: {found}")).collect();
        assert_eq!((violations, report.failures), (Vec::new(), Vec::new()));
        let killed: BTreeSet<String> = report.killed.keys().map(ToString::to_string).collect();
        for mutant in ["publish.P1.fence", "publish.S2.word", "publish.P2.fence", "remove.D1.line"]
        {
            assert!(killed.contains(&format!("clftree.{mutant}")), "{engine}: {mutant}");
        }
    }
}

/// Of its own barriers alone, which few scenarios reach: what the suite of every day has of it.
#[test]
fn every_barrier_of_the_log_of_an_lcb_tree_is_needed() {
    let few = ["plain operations", "splits below", "leaves that are emptied", "creation, U64, I"];
    let is_own = |name: &str| name.starts_with("lcbtree.");
    let cases = directed_cases(Engine::of(&everleaf_engines::LCBTREE)).into_iter();
    let cases = cases.filter(|case| few.iter().any(|name| case.name.starts_with(name)));
    let cases: Vec<Case> = cases.map(|case| case.judging().briefly()).collect();
    let of_pool = every_mutant(Engine::of(&everleaf_engines::LCBTREE))
        .filter(|mutant| !is_own(mutant.site().name()));
    let report = run_suite(&cases, of_pool.collect(), 1, &mut |_| {});
    println!("{} explorations, {} images", report.cases, report.images);
    for (mutant, case) in &report.killed {
        println!("{mutant}: {case}");
    }
    let violations: Vec<String> =
        report.violations.iter().map(|(name, violation)| format!("{name}: {violation}")).collect();
    assert_eq!((violations, &report.failures), (Vec::new(), &Vec::new()));
    assert_eq!(report.survivors(), []);
    assert!(
        engine_sites(Engine::of(&everleaf_engines::LCBTREE))
            .all(|site| report.reached.contains(&site))
    );
    let redundant = report.redundant.keys().filter(|site| is_own(site.name())).count();
    assert_eq!((redundant, report.argued.len()), (0, 0));
    assert!(report.killed.len() >= engine_sites(Engine::of(&everleaf_engines::LCBTREE)).count());
}

/// Its meetings, and its changes together with values: what the suite of every day has of it. Byte
/// strings have one lock around all.
#[test]
fn threads_of_an_nv_tree_meet_and_nothing_is_lost() {
    let cases = directed_cases(Engine::NVTREE_C).into_iter();
    let cases = cases.filter(|case| {
        let meets = case.kind() == CaseKind::Threads && !case.name.contains("Bytes");
        meets || case.name.contains("with values")
    });
    let cases: Vec<Case> = cases.map(Case::briefly).collect();
    let report = run_suite(&cases, BTreeSet::new(), 1, &mut |_| {});
    println!("{} explorations, {} images", report.cases, report.images);
    let violations: Vec<String> =
        report.violations.iter().map(|(name, violation)| format!("{name}: {violation}")).collect();
    assert_eq!((violations, report.failures), (Vec::new(), Vec::new()));
    for barrier in ["nvtree.find.H.fill", "nvtree.find.H.fence", "nvtree.remove.U0.fence"] {
        assert!(report.reached.iter().any(|site| site.name() == barrier), "{barrier}");
    }
}

/// What an epoch has changed changes again while it is written back.
#[test]
fn threads_of_masstree_write_while_an_epoch_ends_and_nothing_is_lost() {
    let cases = directed_cases(Engine::MASSTREE).into_iter();
    let is_meant = |name: &str| {
        name.contains("the end of an epoch, and")
            && (name.ends_with("U64") || name.contains("memory") && name.ends_with("Bytes"))
    };
    let cases: Vec<Case> = cases.filter(|case| is_meant(&case.name)).map(Case::briefly).collect();
    let report = run_suite(&cases, BTreeSet::new(), 1, &mut |_| {});
    println!("{} explorations, {} images", report.cases, report.images);
    let violations: Vec<String> =
        report.violations.iter().map(|(name, violation)| format!("{name}: {violation}")).collect();
    assert_eq!((violations, report.failures), (Vec::new(), Vec::new()));
    assert_eq!(report.cases, 5);
}
