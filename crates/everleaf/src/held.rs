//! What a store is made with, and what holds of it then.

use everleaf_pmem::{Durability, Medium};

use crate::DurabilityMode;
use crate::core::attached::Opening;
use crate::durability::Ground;

/// Which identity a new pool gets.
#[derive(Clone, Copy)]
pub(crate) enum Made {
    /// One of its own, if it has a file.
    New,
    /// This one, which its log bears too.
    As(u128),
}

/// What holds of durability in an open store.
#[derive(Clone, Copy)]
pub(crate) struct Held {
    pub(crate) mode: DurabilityMode,
    durability: Durability,
    medium: Medium,
    log: bool,
}

impl Held {
    pub(crate) fn of(ground: Ground, mode: DurabilityMode) -> Self {
        let Ground { medium, log, .. } = ground;
        Self { mode, durability: ground.survives(mode), medium, log }
    }

    /// Notes it in what is known of the store.
    pub(crate) fn tell(self, opening: &mut Opening) {
        let Self { mode, durability, medium, log } = self;
        (opening.mode, opening.durability) = (mode, durability);
        (opening.medium, opening.log) = (medium, log);
    }
}
