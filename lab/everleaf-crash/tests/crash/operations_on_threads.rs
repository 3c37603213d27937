//! Operations that run one after another, on one thread or on several: which fence completes which
//! flush. And barriers that are spared.

use std::collections::BTreeSet;

use crate::toys::{flush, load, options, store};
use everleaf_crash::{Mutant, Options, Promise, Report, Subject, Traced, explore};
use everleaf_pmem::{Media, site};

/// A note, and a seal that may be there only if the note is. The note is flushed and left without a
/// fence; the thread that seals fences first.
struct Sealed {
    threads: u16,
}

const NOTE: usize = 1;
const SEAL: usize = 2;

impl Subject for Sealed {
    type State = Traced;

    fn prepare(&self, media: Traced) -> Result<Traced, String> {
        for line in [NOTE, SEAL] {
            store(&media, line, 0, 0);
            flush(&media, site!("sealed.create.line"), line);
        }
        media.fence(site!("sealed.create.fence"));
        Ok(media)
    }

    fn operation_count(&self) -> usize {
        2
    }

    fn run(&self, media: &mut Traced, operation: usize) -> Result<(), String> {
        if operation == 0 {
            store(media, NOTE, 0, 1);
            flush(media, site!("sealed.note.line"), NOTE);
        } else {
            media.fence(site!("sealed.seal.before"));
            store(media, SEAL, 0, 1);
        }
        Ok(())
    }

    fn thread(&self, operation: usize) -> u16 {
        operation as u16 % self.threads
    }

    fn recover(&self, image: Traced) -> Result<Traced, String> {
        Ok(image)
    }

    fn verify(&self, media: &mut Traced, _: &Promise) -> Result<(), String> {
        let sealed = load(media, SEAL, 0) == 1 && load(media, NOTE, 0) == 0;
        if sealed { Err("sealed without a note".into()) } else { Ok(()) }
    }
}

fn explored(threads: u16, options: Options) -> Report {
    explore(&Sealed { threads }, &options).expect("the operations run")
}

#[test]
fn a_fence_completes_the_flushes_of_its_own_thread_only() {
    assert!(explored(1, options()).violations.is_empty());
    let report = explored(2, options());
    assert_eq!(
        report.violations.first().map(|violation| violation.error.as_str()),
        Some("sealed without a note")
    );
}

#[test]
fn a_spared_barrier_is_not_suppressed() {
    let report = explored(1, Options { mutate: true, ..options() });
    assert_eq!((report.mutants, report.mutants_killed), (Some(2), Some(2)));
    let spared = BTreeSet::from(
        [site!("sealed.seal.before"), site!("sealed.elsewhere")].map(Mutant::Without),
    );
    let report = explored(1, Options { mutate: true, spared, ..options() });
    assert_eq!((report.mutants, report.mutants_killed), (Some(1), Some(1)));
    assert_eq!(report.images, 4 - 1, "note and seal, but for the seal alone");
}
