//! The invariants of a leaf of byte strings as code: as in `check`, but keys and bounds are in
//! records.

use everleaf_index::{CheckReport, Result};
use everleaf_pmem::Media;
use everleaf_pool::Audit;

use super::LineTree;
use super::layout::{KeyWord, Slot, home_of};
use everleaf_tree::inner::Sought;
use everleaf_tree::key::TreeKey;

impl<K: TreeKey, M: Media, const LINES: usize> LineTree<K, M, LINES> {
    /// I2 to I5, I8 of one leaf; reports the record of its bound.
    pub(super) fn check_records(
        &self,
        lower: &K::Owned,
        sought: &Sought<'_, K::Owned>,
        audit: &mut Audit,
        report: &mut CheckReport,
    ) -> Result<()> {
        let (media, offset, records) = (self.pool.media(), sought.child, self.pool.pin());
        let (leaf, at) = (self.leaf(offset)?, format!("the leaf at {offset:#x}"));
        let mut complain = |what: String| report.violations.push(what);
        let bound = media.load(&leaf.head.lower_bound);
        if bound != 0 {
            audit.reach(bound);
        }
        match K::verify(&self.pool, bound).and_then(|()| K::read_bound(&records, bound)) {
            Ok(key) if K::cmp_keys(key, K::borrow(lower)).is_eq() => {}
            Ok(_) => complain(format!("I5: the separator of {at} is not its lower bound")),
            Err(error) => complain(format!("I5: the lower bound of {at}: {error}")),
        }
        let upper = sought.bound.as_ref();
        let covers = |key: K::Ref<'_>| {
            K::cmp_keys(key, K::borrow(lower)).is_ge()
                && upper.is_none_or(|upper| K::cmp_keys(key, K::borrow(upper)).is_lt())
        };
        let mut found = Vec::new();
        for (number, line) in leaf.lines.iter().enumerate() {
            for slot in Slot::all_of(line) {
                let (word, value) = (media.load(slot.key()), media.load(slot.value()));
                if !word.is_entry() {
                    if word != KeyWord::NEVER_USED && word != KeyWord::DEAD {
                        report
                            .violations
                            .push(format!("I2: line {number} of {at} has an impossible key word"));
                    }
                    continue;
                }
                match K::read_hashed(&records, value, word.hash()) {
                    Ok(key) if covers(key) => found.push(key),
                    Ok(_) => report
                        .violations
                        .push(format!("I2: a key in line {number} of {at} is out of its range")),
                    Err(error) => report.violations.push(format!("I2: {at}: {error}")),
                }
                let home = home_of::<K, LINES>(word, 0);
                self.check_place(leaf, home, number, offset, report);
            }
        }
        report.keys += found.len() as u64;
        found.sort_unstable();
        if found.windows(2).any(|pair| pair[0] == pair[1]) {
            report.violations.push(format!("I4: {at} has a key twice"));
        }
        Ok(())
    }
}
