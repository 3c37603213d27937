//! What scans share: the walk from leaf to leaf by key, which keeps to the keys whatever splits and
//! removals do meanwhile, and showing the sorted entries of a leaf.

use std::ops::{Bound, ControlFlow};

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
    let (key, included) = match bound {
        Bound::Unbounded => return entries,
        Bound::Included(key) => (key, true),
        Bound::Excluded(key) => (key, false),
    };
    let equal_is_before = included == (direction == Direction::Backward);
    let is_before = |entry: &E| {
        let order = K::cmp_keys(key_of(entry), key);
        order.is_lt() || order.is_eq() && equal_is_before
    };
    // All of them, in most leaves of a scan.
    match direction {
        Direction::Forward if !entries.first().is_some_and(is_before) => return entries,
        Direction::Backward if entries.last().is_none_or(is_before) => return entries,
        _ => {}
    }
    let (before, after) = entries.split_at(entries.partition_point(is_before));
    if direction == Direction::Forward { after } else { before }
}

/// Shows sorted entries in `direction`, each announced some entries `ahead`. `half_way` is called
/// in the middle.
#[inline(always)]
pub fn show<'e, E>(
    entries: &'e [E],
    direction: Direction,
    ahead: impl Fn(&E),
    half_way: impl FnOnce(),
    show: impl FnMut(&'e E) -> ControlFlow<()>,
) -> ControlFlow<()> {
    match direction {
        Direction::Forward => in_turn(entries.iter(), ahead, half_way, show),
        Direction::Backward => in_turn(entries.iter().rev(), ahead, half_way, show),
    }
}

#[inline(always)]
fn in_turn<'e, E: 'e>(
    mut entries: impl ExactSizeIterator<Item = &'e E> + Clone,
    ahead: impl Fn(&E),
    half_way: impl FnOnce(),
    mut show: impl FnMut(&'e E) -> ControlFlow<()>,
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
