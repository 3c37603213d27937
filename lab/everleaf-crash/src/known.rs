//! Which images were found good already.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::BuildHasherDefault;

use everleaf_pmem::Site;

use crate::domain::Folded;
use crate::media::ReadSet;

/// What was promised when the crash came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Moment {
    /// So many operations are complete.
    pub acknowledged: usize,
    /// This one may have happened or not.
    pub cut: Option<usize>,
    /// So many have been found by a recovery that returned, whatever they had acknowledged before;
    /// 0 where that makes no difference.
    pub recovered: usize,
}

impl Moment {
    pub fn during(operation: usize) -> Self {
        Self { acknowledged: operation, cut: Some(operation), recovered: 0 }
    }
    pub fn between(acknowledged: usize) -> Self {
        Self { acknowledged, cut: None, recovered: 0 }
    }
    /// Moments that differ in nothing but what is cut have the same.
    fn place(self) -> (usize, usize) {
        (self.acknowledged, self.recovered)
    }
}

/// An image that passed.
#[derive(Clone, Copy)]
struct Passed {
    /// Nothing was cut when it was checked, so nothing was excused.
    strictly: bool,
    /// How deep the crashes inside its recovery were explored.
    depth: u8,
    /// The barriers of its recovery: an index into `site_sets`.
    sites: u32,
}

/// The images that passed, by how many operations were acknowledged. What is good between two
/// operations is good during the next one as well, so both moments share a table.
#[derive(Default)]
pub(crate) struct Known {
    moments: HashMap<(usize, usize), HashMap<u128, Passed, BuildHasherDefault<Folded>>>,
    site_sets: Vec<Vec<Site>>,
    /// Sets of images, too many to list, of which all that was tried passed.
    points: HashMap<(Moment, u128), PassedSet>,
    /// All words that recoveries and checks have read.
    pub read: ReadSet,
}

/// A set of images that passed, or a sample of it.
#[derive(Clone, Copy)]
struct PassedSet {
    /// Images of which nothing is known.
    left_out: u64,
    depth: u8,
    /// The barriers of all recoveries from it.
    sites: u32,
}

impl Known {
    /// Whether all that was tried of this set of images passed, in a program without the barrier
    /// `suppressed` too: how many images were left out then.
    pub fn covers_point(
        &self,
        moment: Moment,
        hash: u128,
        depth: u8,
        suppressed: Option<Site>,
    ) -> Option<u64> {
        let passed = self.points.get(&(moment, hash)).filter(|passed| passed.depth >= depth)?;
        let changed = || suppressed.is_some_and(|site| self.has_site(passed.sites, site));
        (depth == 0 || !changed()).then_some(passed.left_out)
    }

    /// Notes a set of images that passed, but for some that were left out; `sites` are the barriers
    /// of all recoveries from it.
    pub fn insert_point(
        &mut self,
        moment: Moment,
        hash: u128,
        depth: u8,
        left_out: u64,
        sites: BTreeSet<Site>,
    ) {
        let sites = self.place_of(sites.into_iter().collect());
        let known = self.points.get(&(moment, hash));
        if known.is_none_or(|known| (depth, known.left_out) >= (known.depth, left_out)) {
            self.points.insert((moment, hash), PassedSet { left_out, depth, sites });
        }
    }

    /// Whether this image needs no second look, at this depth, in a program without the barrier
    /// `suppressed`.
    pub fn covers(&self, moment: Moment, hash: u128, depth: u8, suppressed: Option<Site>) -> bool {
        let Some(passed) = self.moments.get(&moment.place()).and_then(|images| images.get(&hash))
        else {
            return false;
        };
        let changed = || suppressed.is_some_and(|site| self.has_site(passed.sites, site));
        (passed.strictly || moment.cut.is_some())
            && passed.depth >= depth
            && (depth == 0 || !changed())
    }

    /// Distinct images.
    pub fn images(&self) -> u64 {
        let images: HashSet<u128, BuildHasherDefault<Folded>> =
            self.moments.values().flat_map(|images| images.keys().copied()).collect();
        images.len() as u64
    }

    /// The barriers of all recoveries (and of what followed them) that were explored.
    pub fn recovery_sites(&self) -> impl Iterator<Item = Site> {
        self.site_sets.iter().flatten().copied()
    }

    /// The barriers of the recovery from an image that passed.
    pub fn sites_of(&self, moment: Moment, hash: u128) -> &[Site] {
        let passed = self.moments.get(&moment.place()).and_then(|images| images.get(&hash));
        passed.map_or(&[], |passed| &self.site_sets[passed.sites as usize])
    }

    /// Notes an image that passed; `sites` are the barriers of its recovery, sorted. Returns
    /// whether the image is new here.
    pub fn insert(&mut self, moment: Moment, hash: u128, depth: u8, sites: Vec<Site>) -> bool {
        let sites = self.place_of(sites);
        let passed = Passed { strictly: moment.cut.is_none(), depth, sites };
        self.moments.entry(moment.place()).or_default().insert(hash, passed).is_none()
    }

    fn place_of(&mut self, sites: Vec<Site>) -> u32 {
        let known = self.site_sets.iter().position(|set| *set == sites);
        let place = known.unwrap_or_else(|| {
            self.site_sets.push(sites);
            self.site_sets.len() - 1
        });
        place as u32
    }

    fn has_site(&self, sites: u32, site: Site) -> bool {
        self.site_sets[sites as usize].binary_search(&site).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use everleaf_pmem::site;

    use super::*;

    #[test]
    fn an_image_is_looked_at_again_where_more_is_asked_of_it() {
        let (between, during) = (Moment::between(3), Moment::during(3));
        let mut known = Known::default();
        assert!(!known.covers(between, 7, 0, None));
        assert!(known.insert(during, 7, 1, vec![site!("a")]));
        assert!(known.covers(during, 7, 1, None) && known.covers(during, 7, 0, None));
        assert!(!known.covers(during, 7, 2, None), "deeper");
        assert!(!known.covers(between, 7, 1, None), "nothing is excused between two operations");
        assert!(!known.covers(Moment::during(4), 7, 1, None), "more was acknowledged");
        assert!(
            !known.covers(during, 7, 1, Some(site!("a")))
                && known.covers(during, 7, 1, Some(site!("b")))
        );
        assert!(known.covers(during, 7, 0, Some(site!("a"))), "its recovery is not crashed");
        assert!(!known.insert(between, 7, 1, Vec::new()), "the same image");
        assert!(known.covers(between, 7, 1, None) && known.covers(during, 7, 1, Some(site!("a"))));
    }
}
