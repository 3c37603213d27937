//! The directed part of the suite: no crash state is lost, every barrier and every path is reached,
//! and something breaks in each mutant but those that are argued for. `everleaf explore --suite`
//! explores the rest.

use std::collections::BTreeSet;

use everleaf::Engine;
use everleaf_testkit::{Case, directed_cases, run_suite};

fn suffices(engine: Engine) {
    let cases: Vec<Case> = directed_cases(engine).into_iter().map(Case::judging).collect();
    let report = run_suite(&cases, BTreeSet::new(), 1, &mut |_| {});
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

#[test]
fn every_barrier_of_the_fptree_is_reached_and_needed() {
    suffices(Engine::FpTree);
}

#[test]
fn every_barrier_of_the_ptree_is_reached_and_needed() {
    suffices(Engine::PTree);
}

#[test]
fn every_barrier_of_the_concurrent_fptree_is_reached_and_needed() {
    suffices(Engine::FpTreeConcurrent);
}

#[test]
fn every_barrier_of_the_nv_tree_is_reached_and_needed() {
    suffices(Engine::NvTree);
}

#[test]
fn every_barrier_of_circ_tree_is_reached_and_needed() {
    suffices(Engine::CircTree);
}

#[test]
#[ignore = "many minutes: `everleaf explore --engine fastfair --suite`, or this test by name"]
fn every_barrier_of_fast_fair_is_reached_and_needed() {
    suffices(Engine::FastFair);
}
