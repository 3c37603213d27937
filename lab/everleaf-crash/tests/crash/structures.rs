//! Each broken structure is caught, and for the reason that it was broken for; each repaired twin
//! passes, needs every one of its barriers, and has none to spare.

use crate::toys::allocator::{self, Allocator};
use crate::toys::journal::Journal;
use crate::toys::ledger::{self, Ledger};
use crate::toys::pair::Pair;
use crate::toys::published::{self, Published};
use crate::toys::register::Register;
use crate::toys::{Structure, Toy, options};
use everleaf_crash::{Assumptions, During, Mutant, Report, explore};

fn explored(structure: impl Structure) -> Report {
    explore(&Toy { structure, operations: 3 }, &options()).expect("nothing fails without a crash")
}

#[track_caller]
fn assert_caught(structure: impl Structure, error: &str) -> Report {
    let report = explored(structure);
    let found: Vec<&str> =
        report.violations.iter().map(|violation| violation.error.as_str()).collect();
    assert!(found.iter().any(|found| found.contains(error)), "expected {error:?}, found {found:?}");
    assert!(!report.exhaustive && report.mutants.is_none(), "a broken program is not mutated");
    report
}

/// Sound, and the groups around these fences, and around no other, can be swapped, which is missed.
#[track_caller]
fn assert_sound(structure: impl Structure, swaps: &[&str]) {
    let report = explored(structure);
    assert_eq!(report.violations.first().map(ToString::to_string), None);
    assert!(report.exhaustive && report.left_out == 0);
    assert!(report.is_good(), "survivors: {:?}", report.survivors);
    let swapped = |mutant: &&Mutant| matches!(mutant, Mutant::SwappedGroups(_));
    let missed: Vec<String> = report
        .killed
        .iter()
        .map(|(mutant, _)| mutant)
        .filter(swapped)
        .map(ToString::to_string)
        .collect();
    assert_eq!(missed, swaps);
    assert_eq!(
        report.mutants,
        Some(report.sites.len() + swaps.len()),
        "every declared barrier was suppressed"
    );
    assert_eq!(report.mutants_killed, report.mutants);
    assert_eq!((report.unreached, report.undeclared), (vec![], vec![]));
    assert_eq!((report.redundant_flushes, report.redundant_fences), (vec![], vec![]));
    assert!(report.states > report.operations as u64 && report.recoveries >= report.states);
}

#[test]
fn publishing_before_the_node_is_durable_is_caught() {
    assert_caught(Published(published::Fault::Unordered), "which is torn");
}

#[test]
fn a_missing_flush_is_caught() {
    assert_caught(Published(published::Fault::MissingFlush), "0 operations have happened, not 1");
}

#[test]
fn a_flush_of_the_wrong_line_is_caught_and_reported_as_redundant() {
    let report = assert_caught(Published(published::Fault::WrongLine), "which is torn");
    let row = report.redundant_flushes[0];
    assert_eq!((row.site.name(), row.redundant, row.executed), ("published.P1.node", 3, 3));
}

#[test]
fn ordered_publishing_is_sound() {
    assert_sound(Published(published::Fault::None), &["swap published.P1.fence"]);
}

#[test]
fn a_torn_pointer_is_caught() {
    assert_caught(Pair { torn: true }, "the pointer is torn");
}

#[test]
fn two_slots_and_a_selector_are_sound() {
    assert_sound(Pair { torn: false }, &[]);
}

#[test]
fn a_log_that_is_not_persisted_is_caught() {
    assert_caught(Ledger(ledger::Fault::LogNotPersisted), "do not make 1000");
}

#[test]
fn a_log_that_is_reset_too_early_is_caught() {
    assert_caught(Ledger(ledger::Fault::ResetTooEarly), "do not make 1000");
}

#[test]
fn a_recovery_that_resets_the_log_too_early_is_caught_by_a_crash_inside_it() {
    let report = assert_caught(Ledger(ledger::Fault::RecoveryResetsTooEarly), "do not make 1000");
    assert_eq!(report.violations[0].crashes[1].during, During::Recovery);
}

#[test]
fn a_recovery_that_leaves_its_end_unflushed_is_caught_in_the_next_operation() {
    let report = assert_caught(Ledger(ledger::Fault::RecoveryForgetsItsEnd), "do not make 1000");
    assert!(matches!(report.violations[0].crashes[1].during, During::FollowUp(_)));
}

#[test]
fn a_redo_log_of_two_lines_is_sound() {
    assert_sound(
        Ledger(ledger::Fault::None),
        &[
            "swap ledger.L1.fence",
            "swap ledger.L2.fence",
            "swap ledger.L3.fence",
            "swap ledger.recover.fence",
        ],
    );
}

#[test]
fn a_recovery_that_is_not_idempotent_is_caught() {
    let report = assert_caught(Journal { adds_twice: true }, "added twice");
    assert_eq!(report.violations[0].crashes[1].during, During::Recovery);
}

#[test]
fn folding_into_the_other_sum_is_sound() {
    assert_sound(
        Journal { adds_twice: false },
        &["swap journal.add.fence", "swap journal.fold.fence"],
    );
}

#[test]
fn a_leak_on_crash_is_caught() {
    assert_caught(Allocator(allocator::Fault::Leak), "without an owner");
}

#[test]
fn a_double_allocation_is_caught_by_allocating_again() {
    assert_caught(Allocator(allocator::Fault::DoubleAllocation), "handed out twice");
}

#[test]
fn allocating_under_an_intent_is_sound() {
    assert_sound(Allocator(allocator::Fault::None), &["swap allocator.A1.fence"]);
}

#[test]
fn a_line_write_is_atomic_only_where_that_is_assumed() {
    assert_caught(Register, "torn");
    let mut options = options();
    options.assumptions = Assumptions { atomic_line: true, ..Assumptions::default() };
    let report = explore(&Toy { structure: Register, operations: 3 }, &options).unwrap();
    assert!(report.is_good() && report.exhaustive);
    assert_eq!(
        (report.mutants, report.mutants_killed),
        (Some(2), Some(2)),
        "the fence, and the write itself"
    );
    let what = |name: &str| {
        report
            .killed
            .iter()
            .find(|(mutant, _)| mutant.to_string() == name)
            .map_or("", |(_, error)| error)
    };
    assert_eq!(
        what("register.write"),
        "0 operations have happened, not 1",
        "a line that is not written is missed"
    );
}

#[test]
fn with_eadr_fences_suffice() {
    assert_caught(Published(published::Fault::NoFlushes), "");
    let mut options = options();
    options.assumptions = Assumptions { eadr: true, ..Assumptions::default() };
    let sound = explore(
        &Toy { structure: Published(published::Fault::NoFlushes), operations: 3 },
        &options,
    )
    .unwrap();
    assert!(sound.violations.is_empty() && sound.exhaustive);
    // Program order keeps the node before the root, so only the fence behind the root is needed.
    assert_eq!(
        sound.survivors.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["published.P1.fence"]
    );
    let broken = explore(
        &Toy { structure: Published(published::Fault::NoBarriers), operations: 3 },
        &options,
    )
    .unwrap();
    assert!(
        broken.violations[0].error.contains("operations have happened"),
        "the store buffer is lost"
    );
}

#[test]
fn barriers_to_spare_are_named_and_survive() {
    let report = explored(Published(published::Fault::Wasteful));
    assert!(report.violations.is_empty());
    let flushes: Vec<_> =
        report.redundant_flushes.iter().map(|row| (row.site.name(), row.redundant)).collect();
    let fences: Vec<_> =
        report.redundant_fences.iter().map(|row| (row.site.name(), row.redundant)).collect();
    assert_eq!(
        (flushes, fences),
        (vec![("published.P1.again", 3)], vec![("published.P1.idle", 3)])
    );
    assert_eq!(report.redundant_flush_count(), 3);
    let survivors: Vec<_> = report.survivors.iter().map(ToString::to_string).collect();
    // Of two flushes of one line, and of two fences in a row, either may go.
    assert_eq!(
        survivors,
        ["published.P1.again", "published.P1.fence", "published.P1.idle", "published.P1.node"]
    );
    assert!(!report.is_good());
    assert_eq!(report.undeclared.len(), 2, "they were not declared either");
}
