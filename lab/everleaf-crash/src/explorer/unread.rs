//! Crash points at which nothing else can be found than at those before: what was stored since is
//! read by no recovery, nor by any check.
//!
//! A store adds images, those that have it; each of them differs in the stored word alone from an
//! image that was possible before. Where no run from the images before has loaded that word (before
//! storing there), the run that stands for the one stands for the other as well. That holds for one
//! store after another, as long as what is promised stays the same. It holds of a sample too: a
//! second one would be drawn from images of which the first has told as much.

use crate::media::ReadSet;

/// What was read since a crash point was tried with all its images.
pub(super) struct Chain {
    read: ReadSet,
    /// Not known of all runs.
    is_unknown: bool,
    /// What the tally counted as samples then.
    samples: u64,
}

impl Default for Chain {
    fn default() -> Self {
        Self { read: ReadSet::default(), is_unknown: true, samples: 0 }
    }
}

impl Chain {
    /// All images of a crash point will be tried now.
    pub fn begin(&mut self, samples: u64) {
        self.read.clear();
        (self.is_unknown, self.samples) = (false, samples);
    }

    /// Something stands for images of which it is not known what was read of them.
    pub fn forget(&mut self) {
        self.is_unknown = true;
    }

    /// What a run reads is to be added here.
    pub fn read(&mut self) -> &mut ReadSet {
        &mut self.read
    }

    /// Whether none of these words was read.
    pub fn has_read_none_of(&self, words: &[usize]) -> bool {
        !self.is_unknown && words.iter().all(|word| !self.read.contains(*word))
    }

    /// Whether all images were accounted for, if the tally has so many samples now.
    pub fn is_whole(&self, samples: u64) -> bool {
        self.samples == samples
    }
}
