//! Stores over a log on a disk whose power fails before each of its operations.

use std::path::Path;

use everleaf::Engine;
use everleaf_log::Weak;
use everleaf_testkit::{DiskCase, DiskReport, ScriptKeys};

/// Of the engines of the product, each with half of the programs, by turns; `everleaf-lab explore`
/// takes all of them, and the engines of the laboratory as well.
#[test]
fn no_power_failure_of_a_disk_takes_back_what_was_acknowledged() {
    for (number, engine) in Engine::available().enumerate() {
        let (mut report, mut programs) = (DiskReport::default(), 0);
        for case in DiskCase::all(engine, None, 11, 1, 3).into_iter().skip(number % 2).step_by(2) {
            case.explore(&mut report).unwrap_or_else(|violation| panic!("{violation}"));
            programs += 1;
        }
        println!("{engine}: {programs} programs, {report:?}");
        assert!(report.checkpoints > programs && report.grown > 0, "{engine}: {report:?}");
        assert!(report.cuts > 50 * programs && report.images > 2 * report.cuts, "{report:?}");
        assert!(report.recoveries > report.images && report.failures > programs, "{report:?}");
    }
}

/// What notices that a rule is left out.
enum Noticed {
    /// Programs of an engine with `u64` keys that are buffered, or not, and have little memory, or
    /// not.
    By(Engine, bool, bool),
    /// Histories in a file of the tests of the log: of damage, copies and races, which no cut
    /// brings about, and of cuts that are too seldom here.
    InTests(&'static str),
}

fn noticed(rule: Weak) -> Noticed {
    use Noticed::{By, InTests};
    match rule {
        Weak::TailIsDamage
        | Weak::SessionsAreOne
        | Weak::ServeTheCache
        | Weak::RecycleEarly
        | Weak::PublishEarly
        | Weak::NameNotSynced
        | Weak::BaseNotSynced
        | Weak::StampNotSynced
        | Weak::NoChecksum
        | Weak::SizeOfTheSession
        | Weak::SegmentNotSynced
        | Weak::CloseBeforeName
        | Weak::CloseNotSynced
        | Weak::TailNotSynced
        | Weak::ControlNotSynced
        | Weak::ReadShowsEarly
        | Weak::WriteReturnsEarly => By(Engine::FPTREE, false, false),
        Weak::WriteBeforeGroup => By(Engine::FPTREE, true, true),
        Weak::StampOfTheCache | Weak::CopyUncaptured => InTests("histories.rs"),
        Weak::DamageIsTail | Weak::GapIsEnd | Weak::ControlOnce | Weak::ControlFallsBack => {
            InTests("damage.rs")
        }
        Weak::PagesNotSynced | Weak::SessionNotMarked => InTests("copies.rs"),
        Weak::OtherNameNotSynced => InTests("reuse.rs"),
        Weak::RemovalNotSynced => InTests("openings.rs"),
        Weak::FirstPageUntouched | Weak::EqualIsDone => InTests("image.rs"),
        Weak::FirstPageGoes | Weak::DirtyGoes | Weak::UnflushedGoes => InTests("memory.rs"),
    }
}

/// Programs of more and more operations, until one breaks.
fn broken(case: DiskCase) -> Option<String> {
    [6, 12, 24, 24, 24, 24].into_iter().zip(1..).find_map(|(operations, seed)| {
        DiskCase { operations, seed, ..case }.explore(&mut DiskReport::default()).err()
    })
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "rules can be left out with debug assertions only")]
fn a_program_or_a_history_of_the_log_breaks_without_any_of_its_rules() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/everleaf-log/src/tests");
    for rule in Weak::ALL {
        match noticed(*rule) {
            Noticed::By(engine, buffered, scarce_memory) => {
                let keys = Some(ScriptKeys::U64);
                let mut cases = DiskCase::all(engine, keys, 1, 1, 4).into_iter();
                let case = cases.find(|case| case.buffered == buffered && !case.threads).unwrap();
                let violation = broken(DiskCase { scarce_memory, without: Some(*rule), ..case });
                println!("{rule:?}: {}", violation.expect("something breaks without it"));
            }
            Noticed::InTests(file) => {
                let text = std::fs::read_to_string(tests.join(file)).unwrap();
                assert!(text.contains(&format!("Weak::{rule:?}")), "{rule:?} is not in {file}");
                println!("{rule:?}: {file}");
            }
        }
    }
}
