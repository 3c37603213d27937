//! The invariants of one leaf as code, under the numbers of the family's page. Writes nothing.

use everleaf_index::{CheckReport, Result};
use everleaf_pmem::Media;
use everleaf_pool::{Audit, Pool};

use super::entry::read_key;
use super::layout::Shape;
use super::leaf::Leaf;
use everleaf_tree::key::TreeKey;

/// A leaf in the order of the inner nodes.
pub(super) struct Child<K: TreeKey> {
    /// Where it is.
    pub offset: u64,
    /// None: the first.
    pub separator: Option<K::Owned>,
}

/// I6: the first leaf in the order of the inner nodes.
pub(super) fn check_first<K: TreeKey>(
    children: &[Child<K>],
    leftmost: u64,
    report: &mut CheckReport,
) {
    if children.first().is_none_or(|first| first.offset != leftmost) {
        report
            .violations
            .push(format!("I6: the first leaf is not the leftmost one at {leftmost:#x}"));
    }
}

/// I1, I8, and I6 of a leaf that is in the tree and not the leftmost one: it has a key.
pub(super) fn check_slots<K: TreeKey, M: Media, S: Shape>(
    media: &M,
    leaf: Leaf<'_, S>,
    offset: u64,
    needs_key: bool,
    report: &mut CheckReport,
) {
    let live = leaf.live(media);
    if !live.minus(leaf.shape().all()).is_empty() {
        report.violations.push(format!("I1: the leaf at {offset:#x} has bits beyond its slots"));
    }
    if live.is_empty() && needs_key {
        report
            .violations
            .push(format!("I6: the leaf at {offset:#x} has no key and is in the tree"));
    }
    check_dead_slots::<K, M, S>(media, leaf, offset, report);
}

/// I8.
fn check_dead_slots<K: TreeKey, M: Media, S: Shape>(
    media: &M,
    leaf: Leaf<'_, S>,
    offset: u64,
    report: &mut CheckReport,
) {
    if !K::RECORDS {
        return;
    }
    let live = leaf.live(media);
    for slot in leaf.shape().all().minus(live) {
        if leaf.shape().owns_keys::<K>() && media.load(leaf.key(slot)) != 0 {
            report
                .violations
                .push(format!("I8: dead slot {slot} of the leaf at {offset:#x} has a pointer"));
        }
    }
    if live.is_empty() && media.load(&leaf.head.lower_bound) != 0 {
        report.violations.push(format!("I8: the empty leaf at {offset:#x} has a lower bound"));
    }
}

/// I2 to I5 of one leaf; reports the records that it owns.
pub(super) fn check_leaf<K: TreeKey, M: Media, S: Shape>(
    pool: &Pool<M>,
    shape: S,
    child: &Child<K>,
    next: Option<&K::Owned>,
    audit: &mut Audit,
    report: &mut CheckReport,
) -> Result<()> {
    let (media, records) = (pool.media(), pool.pin());
    let offset = child.offset;
    let leaf = Leaf::at(media.region(), offset, shape)?;
    let live = leaf.live(media).and(shape.all());
    report.keys += live.count() as u64;
    check_bound(pool, child, leaf, audit, report);
    let lower = child.separator.as_ref().map_or(K::least(), K::borrow);
    let mut keys = Vec::with_capacity(live.count());
    for slot in live {
        if shape.owns_keys::<K>() {
            audit.reach(media.load(leaf.key(slot)));
        }
        let key = match read_key::<K, M, S>(&records, leaf, slot) {
            Ok(key) => key,
            Err(e) => {
                report.violations.push(format!(
                    "I3: the key in slot {slot} of the leaf at {offset:#x} cannot be read: {e}"
                ));
                continue;
            }
        };
        if S::FINGERPRINTS && leaf.fingerprint(media, slot) != K::hash(key).fingerprint() {
            report.violations.push(format!(
                "I2: the fingerprint in slot {slot} of the leaf at {offset:#x} is wrong"
            ));
        }
        let above = next.is_some_and(|next| K::cmp_keys(key, K::borrow(next)).is_ge());
        if above || K::cmp_keys(key, lower).is_lt() {
            report.violations.push(format!(
                "I3: the key in slot {slot} of the leaf at {offset:#x} is out of its range"
            ));
        }
        keys.push(key);
    }
    keys.sort_unstable();
    if keys.windows(2).any(|pair| pair[0] == pair[1]) {
        report.violations.push(format!("I4: the leaf at {offset:#x} has a key twice"));
    }
    Ok(())
}

/// I5, I6.
fn check_bound<K: TreeKey, M: Media, S: Shape>(
    pool: &Pool<M>,
    child: &Child<K>,
    leaf: Leaf<'_, S>,
    audit: &mut Audit,
    report: &mut CheckReport,
) {
    let offset = child.offset;
    let word = pool.media().load(&leaf.head.lower_bound);
    match &child.separator {
        None if word != 0 => {
            report.violations.push(format!(
                "I5: the bound of the leftmost leaf at {offset:#x} is not the minimum"
            ));
        }
        None => {}
        Some(separator) => match K::read_bound(&pool.pin(), word) {
            Ok(bound) if K::cmp_keys(bound, K::borrow(separator)).is_eq() => {}
            Ok(_) => report.violations.push(format!(
                "I6: the separator of the leaf at {offset:#x} is not its lower bound"
            )),
            Err(e) => report
                .violations
                .push(format!("I5: the bound of the leaf at {offset:#x} cannot be read: {e}")),
        },
    }
    if K::RECORDS && word != 0 {
        audit.reach(word);
    }
}
