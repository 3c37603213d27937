//! A barrier that is needed on one path and not on another.

use std::collections::BTreeSet;

use everleaf_crash::{Mutant, Options, Path, Promise, Report, Subject, Traced, explore};
use everleaf_pmem::{Media, site};

use crate::toys::{flush, load, options, store};

const KEPT: Path = ("keep", "any");
const FORGOTTEN: Path = ("forget", "any");

/// Two operations that do the same, each with a line of its own. Nobody looks at the second one's.
struct Kept;

impl Subject for Kept {
    type State = Traced;
    fn prepare(&self, media: Traced) -> Result<Traced, String> {
        for line in [1, 2] {
            store(&media, line, 0, 0);
            flush(&media, site!("kept.prepare"), line);
        }
        media.fence(site!("kept.prepare.fence"));
        Ok(media)
    }
    fn operation_count(&self) -> usize {
        2
    }
    fn run(&self, media: &mut Traced, operation: usize) -> Result<(), String> {
        store(media, operation + 1, 0, 1);
        flush(media, site!("kept.line"), operation + 1);
        media.fence(site!("kept.fence"));
        Ok(())
    }
    fn recover(&self, image: Traced) -> Result<Traced, String> {
        Ok(image)
    }
    fn verify(&self, media: &mut Traced, promise: &Promise) -> Result<(), String> {
        let is_lost = promise.acknowledged > 0 && load(media, 1, 0) == 0;
        if is_lost { Err("it is lost".to_owned()) } else { Ok(()) }
    }
    fn path(&self, operation: usize) -> Path {
        [KEPT, FORGOTTEN][operation]
    }
}

fn explored(by_path: bool) -> Report {
    let options = Options { mutate: true, by_path, ..options() };
    explore(&Kept, &options).expect("nothing fails without a crash")
}

#[test]
fn a_mutant_of_one_path_changes_nothing_on_another() {
    let report = explored(true);
    assert_eq!((report.mutants, report.mutants_killed), (Some(2), Some(2)));
    let named = |mutants: &BTreeSet<(Mutant, Path)>| -> BTreeSet<(&str, Path)> {
        mutants.iter().map(|(mutant, path)| (mutant.site().name(), *path)).collect()
    };
    let both = |path| BTreeSet::from(["kept.line", "kept.fence"].map(|name| (name, path)));
    assert_eq!(named(&report.killed_on), both(KEPT));
    assert_eq!(named(&report.survivors_on), both(FORGOTTEN), "nobody looks there");
    let report = explored(false);
    assert!(report.killed_on.is_empty() && report.survivors_on.is_empty());
}
