//! What scans share: the walk from leaf to leaf by key, which keeps to the keys whatever splits and
//! removals do meanwhile, and showing the sorted entries of a leaf.

use std::ops::{Bound, ControlFlow, Range};

use everleaf_index::{Direction, KeyKind, Result, Start, Visitor};

use super::inner::Sought;
use super::key::TreeKey;
use super::shared_nodes::SharedNodes;

/// A key, and the number of its slot.
pub type Entry<'p, K> = (<K as KeyKind>::Ref<'p>, u8);

/// What a scan is asked for.
pub struct ScanRequest<'k, 'v, K: KeyKind> {
    /// Where it begins.
    pub from: Start<'k, K>,
    /// Where it goes.
    pub direction: Direction,
    /// What it calls for each entry.
    pub visit: Visitor<'v, K>,
}

/// What became of showing a leaf; none if it no longer covers what it was looked for by.
pub type Shown = Option<ControlFlow<()>>;

/// A leaf that was shown; none where there is no further one.
type Step<'t, K> = Option<(Sought<'t, <K as KeyKind>::Owned>, Shown)>;

/// Entries ahead of the one that is shown whose values are prefetched.
const AHEAD: usize = 8;

/// The leaves of a tree for many threads, as a scan wants them.
pub trait Leaves<K: TreeKey> {
    /// The inner nodes that lead to them.
    fn nodes(&self) -> &SharedNodes<K>;
    /// Waits for another thread, a turn.
    fn wait(&self);
    /// Counts a search that begins again.
    fn restarted(&self);
    /// Prefetches all that a scan reads of a leaf, and for its lock.
    ///
    /// # Errors
    /// Damage: there is no leaf.
    fn prefetch_leaf(&self, offset: u64) -> Result<()>;
    /// Shows the part of a leaf, whose lines are on their way, that lies on this side of the bound.
    ///
    /// # Errors
    /// Damage.
    fn show_leaf(
        &self,
        sought: &Sought<'_, K::Owned>,
        bound: Start<'_, K>,
        direction: Direction,
        visit: Visitor<'_, K>,
    ) -> Result<Shown>;
}

/// Visits entries in key order from `from` on.
///
/// # Errors
/// As of the leaves.
pub fn walk<K: TreeKey>(
    leaves: &impl Leaves<K>,
    from: Start<'_, K>,
    direction: Direction,
    visit: Visitor<'_, K>,
) -> Result<()> {
    // Where the next leaf began, or the one before ended, when this one was looked for; and the
    // next leaf, if it was easily found.
    let mut border: Option<K::Owned> = None;
    let mut ahead = None;
    loop {
        let step = match &border {
            None => step(leaves, ahead.take(), from, direction, visit)?,
            Some(key) => {
                let bound = beyond(K::borrow(key), direction);
                step(leaves, ahead.take(), bound, direction, visit)?
            }
        };
        match step {
            None | Some((_, Some(ControlFlow::Break(())))) => return Ok(()),
            Some((_, None)) => leaves.restarted(),
            Some((sought, Some(ControlFlow::Continue(())))) => {
                ahead = leaves.nodes().seek_on(&sought, direction);
                border = sought.bound;
                if border.is_none() {
                    return Ok(());
                }
            }
        }
    }
}

/// Shows the leaf where what follows the bound begins, which may have been found ahead.
#[inline(always)]
fn step<'t, K: TreeKey>(
    leaves: &'t impl Leaves<K>,
    ahead: Option<Sought<'t, K::Owned>>,
    bound: Start<'_, K>,
    direction: Direction,
    visit: Visitor<'_, K>,
) -> Result<Step<'t, K>> {
    let sought = match ahead {
        Some(sought) => sought,
        None => {
            let sought = leaves.nodes().seek(&|| leaves.wait(), bound, direction);
            let Some(sought) = sought else { return Ok(None) };
            leaves.prefetch_leaf(sought.child)?;
            sought
        }
    };
    let shown = leaves.show_leaf(&sought, bound, direction, visit)?;
    Ok(Some((sought, shown)))
}

/// What follows a border in a direction: the border itself is the first key of a range.
fn beyond<R>(border: R, direction: Direction) -> Bound<R> {
    if direction == Direction::Forward { Bound::Included(border) } else { Bound::Excluded(border) }
}

/// The part of sorted entries that lies on this side of the bound.
#[inline(always)]
pub fn within<'e, 'p, K: TreeKey>(
    entries: &'e [Entry<'p, K>],
    bound: Start<'_, K>,
    direction: Direction,
) -> &'e [Entry<'p, K>] {
    within_by::<K, _>(entries, |entry| entry.0, bound, direction)
}

/// The same of entries that have their keys elsewhere.
#[inline(always)]
pub fn within_by<'e, 'p, K: TreeKey, E>(
    entries: &'e [E],
    key_of: impl Fn(&E) -> K::Ref<'p>,
    bound: Start<'_, K>,
    direction: Direction,
) -> &'e [E] {
    let key_at = |at: usize| Ok(key_of(&entries[at]));
    let part = part_within::<K>(0..entries.len(), bound, direction, key_at);
    part.map_or(&[], |part| &entries[part])
}

/// The part of a sorted range that lies on this side of the bound. Of most leaves of a scan that
/// is all, and one key is read.
///
/// # Errors
/// As of `key_at`.
#[inline(always)]
pub fn part_within<'p, K: TreeKey>(
    range: Range<usize>,
    bound: Start<'_, K>,
    direction: Direction,
    key_at: impl Fn(usize) -> Result<K::Ref<'p>>,
) -> Result<Range<usize>> {
    let (key, included) = match bound {
        Bound::Included(key) => (key, true),
        Bound::Excluded(key) => (key, false),
        Bound::Unbounded => return Ok(range),
    };
    let forward = direction == Direction::Forward;
    let is_before = |at: usize| -> Result<bool> {
        let order = K::cmp_keys(key_at(at)?, key);
        Ok(order.is_lt() || order.is_eq() && included != forward)
    };
    let outermost = if forward { range.start } else { range.end.wrapping_sub(1) };
    if range.is_empty() || is_before(outermost)? != forward {
        return Ok(range);
    }
    // What is less than `least` lies before the bound, and nothing from `most` on.
    let (mut least, mut most) = (range.start, range.end);
    while least < most {
        let middle = least.midpoint(most);
        if is_before(middle)? { least = middle + 1 } else { most = middle }
    }
    Ok(if forward { least..range.end } else { range.start..least })
}

/// Shows sorted entries in `direction`, each announced some entries `ahead`. `half_way` is called
/// in the middle.
#[inline(always)]
pub fn show<E>(
    entries: impl DoubleEndedIterator<Item = E> + ExactSizeIterator + Clone,
    direction: Direction,
    ahead: impl Fn(E),
    half_way: impl FnOnce(),
    show: impl FnMut(E) -> ControlFlow<()>,
) -> ControlFlow<()> {
    match direction {
        Direction::Forward => in_turn(entries, ahead, half_way, show),
        Direction::Backward => in_turn(entries.rev(), ahead, half_way, show),
    }
}

#[inline(always)]
fn in_turn<E>(
    mut entries: impl ExactSizeIterator<Item = E> + Clone,
    ahead: impl Fn(E),
    half_way: impl FnOnce(),
    mut show: impl FnMut(E) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let (mut coming, half) = (entries.clone(), entries.len() / 2);
    coming.by_ref().take(AHEAD).for_each(&ahead);
    let mut show = |entry| {
        coming.next().into_iter().for_each(&ahead);
        show(entry)
    };
    entries.by_ref().take(half).try_for_each(&mut show)?;
    half_way();
    entries.try_for_each(&mut show)
}
