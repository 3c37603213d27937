//! What a connection tracks of the keys that its client keeps.

use crate::shared::{Mode, Tracked};

/// What a connection tracks.
#[derive(Default)]
pub struct Own {
    /// How, if it does.
    pub(super) mode: Option<(Mode, Tracked)>,
    /// CLIENT CACHING was said, for the next command.
    pub(super) caching: bool,
}

impl Own {
    pub(super) fn mode(&self) -> Option<&Mode> {
        self.mode.as_ref().map(|(mode, _)| mode)
    }

    /// Where invalidations go, and one more; 0: it tracks nothing.
    pub(super) fn redirect(&self) -> u64 {
        self.mode().map_or(0, |mode| mode.redirect + 1)
    }

    /// Whether it tracks, and by fronts.
    pub(super) fn flags(&self) -> (bool, bool) {
        (self.mode.is_some(), self.mode().is_some_and(|mode| mode.fronts.is_some()))
    }
}
