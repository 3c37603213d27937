//! A pointer of sixteen bytes: two words that must change together.

use everleaf_crash::Traced;
use everleaf_pmem::{Media, Site, site};

use super::{Structure, flush, load, store};

const LINE: usize = 1;
const SELECTOR: usize = 4;

pub struct Pair {
    /// Both words are overwritten in place, as if one store could do that.
    pub torn: bool,
}

fn halves(i: usize) -> [u64; 2] {
    [100 + i as u64, 200 + i as u64]
}

impl Pair {
    fn slot(&self, i: usize) -> usize {
        if self.torn { 0 } else { i % 2 * 2 }
    }
}

impl Structure for Pair {
    fn create(&self, media: &Traced) {
        store(media, LINE, 0, halves(0)[0]);
        store(media, LINE, 1, halves(0)[1]);
        store(media, LINE, SELECTOR, 0);
        flush(media, site!("pair.create.line"), LINE);
        media.fence(site!("pair.create.fence"));
    }

    fn operate(&self, media: &Traced, i: usize) {
        // The slot that is not in use, then the selector, in one line.
        let [pool, offset] = halves(i + 1);
        store(media, LINE, self.slot(i + 1), pool);
        store(media, LINE, self.slot(i + 1) + 1, offset);
        media.order(site!("pair.set.order"));
        store(media, LINE, SELECTOR, i as u64 + 1);
        flush(media, site!("pair.set.line"), LINE);
        media.fence(site!("pair.set.fence"));
    }

    fn recover(&self, _media: &Traced) {}

    fn completed(&self, media: &Traced) -> Result<usize, String> {
        let selector = load(media, LINE, SELECTOR) as usize;
        let slot = self.slot(selector);
        let found = [load(media, LINE, slot), load(media, LINE, slot + 1)];
        if found == halves(selector) {
            Ok(selector)
        } else {
            Err(format!("the pointer is torn: {found:?}"))
        }
    }

    fn sites(&self) -> Vec<Site> {
        vec![site!("pair.set.order"), site!("pair.set.line"), site!("pair.set.fence")]
    }
}
