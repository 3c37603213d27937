//! The directed part of the suite: no crash state is lost, every barrier and every path is reached, and each barrier is missed when it is left out.
//! `everleaf explore --suite` explores the rest.

use std::collections::BTreeSet;

use everleaf::Engine;
use everleaf_testkit::{Case, directed_cases, run_suite};

fn suffices(engine: Engine) {
    let cases: Vec<Case> = directed_cases(engine).into_iter().map(Case::judging).collect();
    let report = run_suite(&cases, BTreeSet::new(), 1, &mut |_| {});
    println!(
        "{engine}: {} explorations, {} images, {} of {} barriers missed, fences without work: {:?}",
        report.cases,
        report.images,
        report.killed.len(),
        report.mutants.len(),
        report.redundant_fences
    );
    for (name, violation) in &report.violations {
        println!("{name}: {violation}");
    }
    for (site, case) in &report.killed {
        println!("{site}: {case}");
    }
    assert_eq!(report.shortcomings(), Vec::<String>::new());
    assert_eq!(report.reached, report.sites, "every declared barrier");
    assert_eq!(report.killed.len(), report.mutants.len());
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
fn every_barrier_of_circ_tree_is_reached_and_needed() {
    suffices(Engine::CircTree);
}
