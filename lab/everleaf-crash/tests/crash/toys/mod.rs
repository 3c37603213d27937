//! Structures of a few lines, each with the ways in which published code has got it wrong.

pub mod allocator;
pub mod epochs;
pub mod journal;
pub mod ledger;
pub mod pair;
pub mod published;
pub mod register;
pub mod shared;

use everleaf_crash::{Options, Promise, Subject, Traced};
use everleaf_pmem::{Line, Media, PCell, PPtr, Site};

/// A structure whose content tells how many operations it has seen.
pub trait Structure {
    /// Lays it out, durably.
    fn create(&self, media: &Traced);
    /// Operation `i`; every one before it has happened.
    fn operate(&self, media: &Traced, i: usize);
    /// What is done after a crash.
    fn recover(&self, media: &Traced);
    /// How many operations have happened, or what is inconsistent.
    fn completed(&self, media: &Traced) -> Result<usize, String>;
    /// Its barriers.
    fn sites(&self) -> Vec<Site>;
}

/// Some operations on a structure.
pub struct Toy<S> {
    pub structure: S,
    pub operations: usize,
}

impl<S: Structure> Subject for Toy<S> {
    type State = Traced;

    fn prepare(&self, media: Traced) -> Result<Traced, String> {
        self.structure.create(&media);
        Ok(media)
    }
    fn operation_count(&self) -> usize {
        self.operations
    }
    fn run(&self, media: &mut Traced, operation: usize) -> Result<(), String> {
        self.structure.operate(media, operation);
        Ok(())
    }
    fn recover(&self, image: Traced) -> Result<Traced, String> {
        self.structure.recover(&image);
        Ok(image)
    }
    fn verify(&self, media: &mut Traced, promise: &Promise) -> Result<(), String> {
        let found = self.structure.completed(media)?;
        if !promise.allows(found) {
            return Err(format!("{found} operations have happened, not {promise}"));
        }
        for more in found..found + 2 {
            self.structure.operate(media, more);
            if self.structure.completed(media)? != more + 1 {
                return Err(format!("operation {more} after the recovery went wrong"));
            }
        }
        Ok(())
    }
    fn completed(&self, media: &mut Traced, _: &Promise) -> Option<usize> {
        self.structure.completed(media).ok()
    }
    fn sites(&self) -> Vec<Site> {
        self.structure.sites()
    }
}

/// One page, everything counted, mutants too.
pub fn options() -> Options {
    Options { len: 4096, max_len: 4096, mutate: true, ..Options::default() }
}

/// A word of a line.
pub fn cell(media: &Traced, line: usize, word: usize) -> &PCell {
    &media.region().get::<Line>(PPtr::at(line as u64 * 64)).expect("inside the page").0[word]
}

pub fn load(media: &Traced, line: usize, word: usize) -> u64 {
    media.load(cell(media, line, word))
}

pub fn store(media: &Traced, line: usize, word: usize, value: u64) {
    media.store(cell(media, line, word), value);
}

pub fn flush(media: &Traced, site: Site, line: usize) {
    media.flush(site, cell(media, line, 0));
}

/// Stores to the first word of a line and flushes it.
pub fn write(media: &Traced, line: usize, value: u64, flushed: Site) {
    store(media, line, 0, value);
    flush(media, flushed, line);
}
