//! Which images were found good already.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use everleaf_pmem::Site;

use crate::domain::Folded;

/// An image that passed.
#[derive(Clone, Copy)]
struct Passed {
    /// How deep the crashes inside its recovery were explored.
    depth: u8,
    /// The barriers of its recovery: an index into `site_sets`.
    sites: u32,
}

/// The images that passed, by how many operations were acknowledged. An image that is good right after an operation is good during the next one as well,
/// so both moments share a table.
#[derive(Default)]
pub(crate) struct Known {
    moments: Vec<HashMap<u128, Passed, BuildHasherDefault<Folded>>>,
    site_sets: Vec<Vec<Site>>,
}

impl Known {
    /// Whether this image needs no second look, at this depth, in a program without the barrier `suppressed`.
    pub fn covers(&self, acknowledged: usize, hash: u128, depth: u8, suppressed: Option<Site>) -> bool {
        let Some(passed) = self.moments.get(acknowledged).and_then(|images| images.get(&hash)) else { return false };
        let changed = || suppressed.is_some_and(|site| self.site_sets[passed.sites as usize].binary_search(&site).is_ok());
        passed.depth >= depth && (depth == 0 || !changed())
    }

    /// The barriers of all recoveries (and of what followed them) that were explored.
    pub fn recovery_sites(&self) -> impl Iterator<Item = Site> {
        self.site_sets.iter().flatten().copied()
    }

    /// Notes an image that passed; returns whether it is new at this moment.
    pub fn insert(&mut self, acknowledged: usize, hash: u128, depth: u8, sites: Vec<Site>) -> bool {
        let place = self.site_sets.iter().position(|set| *set == sites).unwrap_or_else(|| {
            self.site_sets.push(sites);
            self.site_sets.len() - 1
        });
        if self.moments.len() <= acknowledged {
            self.moments.resize_with(acknowledged + 1, HashMap::default);
        }
        let passed = Passed { depth, sites: place as u32 };
        self.moments[acknowledged].insert(hash, passed).is_none()
    }
}
