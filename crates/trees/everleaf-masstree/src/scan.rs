//! Scans, in both directions. A border node is locked while its entries are shown, so that they
//! stay; nothing else is.
//!
//! Going on from a node to the next one the version of that is taken while the first is locked, so
//! it is the right one as long as it has this version. Backwards the next node is looked for: nodes
//! have no pointer to the left, and what is less than the least slice of a node is found by a
//! descent. Layers are entered and left in a loop. Whenever a node has changed the scan begins
//! again behind the last key that it has shown.

use std::ops::{Bound, ControlFlow};
use std::sync::atomic::Ordering;

use everleaf_index::{Direction, IndexError, MAX_KEY_BYTES, Result, Visit};
use everleaf_pmem::Media;

use super::Masstree;
use super::layout::{LONGER, Onward, Permutation};
use super::node::{Halt, Locked, Step};
use super::search::{Seen, Spot};
use everleaf_tree::key::slices::{SLICE, SliceKey, slice_of};
use everleaf_tree::scan::ScanRequest;

/// Entries ahead of the one that is shown whose values are prefetched.
const AHEAD: usize = 4;

/// Where a scan of a layer begins: an entry, and what becomes of it if it is there.
#[derive(Clone, Copy)]
struct Edge<'k> {
    slice: u64,
    code: u8,
    equal: Equal<'k>,
}

#[derive(Clone, Copy)]
enum Equal<'k> {
    /// The scan begins behind it.
    Skip,
    /// It is shown, or all of its layer.
    Whole,
    /// The scan begins in it, at these bytes; they are shown or not.
    Within(&'k [u8], bool),
}

/// A layer that the scan has gone on from, to the layer behind one of its entries.
struct Frame<'t> {
    root: Seen<'t>,
    border: Seen<'t>,
    perm: Permutation,
    position: usize,
    low: u64,
}

/// A locked border node, and how far the scan is in it: forward the next position, backward the one
/// behind it.
struct Stand<'t, M: Media> {
    locked: Locked<'t, M>,
    root: Seen<'t>,
    perm: Permutation,
    position: usize,
    low: u64,
}

/// What comes after an entry, or after a node.
enum Next<'t> {
    Entry,
    /// A layer; whether the scan begins in it.
    Layer(u64, bool),
    Break,
    /// The node is done.
    End,
    Border(Seen<'t>),
}

struct Scan<'s, 't, 'v, K: SliceKey, M: Media, const DURABLE: bool> {
    tree: &'t Masstree<K, M, DURABLE>,
    forward: bool,
    visit: &'s mut Visit<'v, K>,
    /// The slices of the layers on the way, and behind them the rest of the key that is shown.
    bytes: Vec<u8>,
    /// How much of that is layers.
    prefix: usize,
    /// The last key that was shown.
    shown: Option<(u64, Vec<u8>)>,
    /// The same, while its node is locked: its slice.
    showing: Option<u64>,
    /// The entry that the scan of the layer is at.
    passed: (u64, u8),
    frames: Vec<Frame<'t>>,
    entered: Entered,
}

/// Border nodes that a scan has entered. Each is entered once, unless the scan begins again: so
/// they are no more than there were at first, and those that were made since.
struct Entered {
    nodes: u64,
    /// When it is to be found out whether there may be so many.
    enough: u64,
    /// Nodes that had been made when the scan began.
    made_before: u64,
    /// Nodes that are entered once more because the scan began again.
    again: u64,
}

impl<K: SliceKey, M: Media, const DURABLE: bool> Masstree<K, M, DURABLE> {
    /// Visits entries from a bound on.
    pub(super) fn scan_from(&self, scan: ScanRequest<'_, '_, K>) -> Result<()> {
        let ScanRequest { from, direction, visit } = scan;
        let forward = direction == Direction::Forward;
        let mut scan = Scan {
            tree: self,
            forward,
            visit,
            bytes: Vec::new(),
            prefix: 0,
            shown: None,
            showing: None,
            passed: (0, 0),
            frames: Vec::new(),
            entered: Entered {
                nodes: 0,
                enough: 0,
                made_before: self.made.load(Ordering::Relaxed),
                again: 0,
            },
        };
        loop {
            let behind = scan.shown.take();
            let edge = match (&behind, from) {
                (Some((slice, bytes)), _) => edge::<K>(K::of(*slice, bytes), false),
                (None, Bound::Included(key)) => edge::<K>(key, true),
                (None, Bound::Excluded(key)) => edge::<K>(key, false),
                (None, Bound::Unbounded) => whole(forward),
            };
            let passed = scan.pass(edge);
            match passed {
                Ok(()) => return Ok(()),
                Err(Halt::Failed(error)) => return Err(error),
                Err(Halt::Retry) => {
                    scan.entered.again += scan.frames.len() as u64 + 2;
                    scan.keep_shown();
                    scan.shown = scan.shown.take().or(behind);
                    self.restarted();
                }
            }
        }
    }
}

/// Where a scan begins in the first layer.
fn edge<K: SliceKey>(key: K::Ref<'_>, inclusive: bool) -> Edge<'_> {
    let (slice, code) = K::slice(key, 0);
    let equal = match (code, inclusive) {
        (LONGER, _) => Equal::Within(&K::rest(key, 0)[SLICE..], inclusive),
        (_, true) => Equal::Whole,
        (_, false) => Equal::Skip,
    };
    Edge { slice, code, equal }
}

/// The same in the layer behind a slice.
fn edge_within(rest: &[u8], inclusive: bool) -> Edge<'_> {
    let (slice, code) = slice_of(rest);
    let equal = match (code, inclusive) {
        (LONGER, _) => Equal::Within(&rest[SLICE..], inclusive),
        (_, true) => Equal::Whole,
        (_, false) => Equal::Skip,
    };
    Edge { slice, code, equal }
}

/// All of a layer.
const fn whole(forward: bool) -> Edge<'static> {
    let (slice, code) = if forward { (0, 0) } else { (u64::MAX, LONGER) };
    Edge { slice, code, equal: Equal::Whole }
}

impl<'t, K: SliceKey, M: Media, const DURABLE: bool> Scan<'_, 't, '_, K, M, DURABLE> {
    /// From an edge to the end, or until the visitor breaks.
    fn pass(&mut self, mut edge: Edge<'_>) -> Step<()> {
        let tree = self.tree;
        self.frames.clear();
        self.bytes.clear();
        (self.prefix, self.showing) = (0, None);
        let mut root = tree.top()?;
        loop {
            let (mut stand, mut at_edge) = self.begin_layer(root, edge)?;
            let (offset, within) = loop {
                match self.next(&stand, at_edge.take().map(|slot| (slot, edge.equal)))? {
                    Next::Break => return Ok(()),
                    Next::Entry => self.step(&mut stand),
                    Next::Layer(offset, within) => break (offset, within),
                    Next::End => match self.leave(stand)? {
                        Some(above) => stand = above,
                        None => return Ok(()),
                    },
                    Next::Border(seen) => {
                        let (layer, low) = (stand.root, stand.low);
                        self.keep_shown();
                        drop(stand);
                        stand = self.next_border(layer, seen, low)?;
                    }
                }
            };
            let slot = stand.perm.slot(self.here(&stand));
            let media = tree.pool.media();
            let slice = media.load(stand.locked.node().key(slot));
            edge = match edge.equal {
                Equal::Within(rest, inclusive) if within => edge_within(rest, inclusive),
                _ => whole(self.forward),
            };
            root = self.enter_layer(stand, slice, offset)?;
        }
    }

    /// Locks the border node where a scan of a layer begins; the slot of the edge if it is there.
    fn begin_layer(
        &mut self,
        root: Seen<'t>,
        edge: Edge<'_>,
    ) -> Step<(Stand<'t, M>, Option<usize>)> {
        let media = self.tree.pool.media();
        let Spot { border, low } = self.tree.descend(root, edge.slice)?;
        self.enter(border.at.offset)?;
        let locked = border.at.lock(media, border.version)?;
        let perm = media.load(&locked.node().perm);
        let (less, slot) = self.tree.rank_in(locked.at, perm, edge.slice, edge.code);
        let taken = usize::from(slot.is_some());
        let skips = matches!(edge.equal, Equal::Skip);
        let position = match (self.forward, skips) {
            (true, true) | (false, false) => less + taken,
            (true, false) | (false, true) => less,
        };
        self.passed = (edge.slice, edge.code);
        let stand = Stand { locked, root, perm, position, low };
        self.ask_for_values(&stand);
        Ok((stand, slot.filter(|_| !skips)))
    }

    /// Counts a border node that is entered.
    #[inline(always)]
    fn enter(&mut self, offset: u64) -> Step<()> {
        self.entered.nodes += 1;
        if self.entered.nodes > self.entered.enough { self.count_anew(offset) } else { Ok(()) }
    }

    /// How many nodes there may be by now.
    #[cold]
    fn count_anew(&mut self, offset: u64) -> Step<()> {
        let (tree, entered) = (self.tree, &mut self.entered);
        let made = tree.made.load(Ordering::Relaxed).wrapping_sub(entered.made_before);
        entered.enough = tree.memory.max_nodes() + made + entered.again;
        if entered.nodes > entered.enough {
            let what = "a scan meets more nodes than there can be";
            return Err(IndexError::Corrupt { offset, what }.into());
        }
        Ok(())
    }

    /// The position of the entry that comes next, if there is one.
    fn here(&self, stand: &Stand<'t, M>) -> usize {
        if self.forward { stand.position } else { stand.position - 1 }
    }

    fn step(&self, stand: &mut Stand<'t, M>) {
        if self.forward { stand.position += 1 } else { stand.position -= 1 }
    }

    /// Shows the next entry, or says what comes instead. `edge`: the slot in which the scan begins.
    fn next(&mut self, stand: &Stand<'t, M>, edge: Option<(usize, Equal<'_>)>) -> Step<Next<'t>> {
        let (tree, node) = (self.tree, stand.locked.node());
        let media = tree.pool.media();
        if (self.forward && stand.position >= stand.perm.count())
            || (!self.forward && stand.position == 0)
        {
            return self.behind(stand);
        }
        let slot = stand.perm.slot(self.here(stand)).min(super::layout::WIDTH - 1);
        let slice = media.load(node.key(slot));
        let code = if K::ONE_SLICE { SLICE as u8 } else { media.load(&node.meta).code(slot) };
        let word = media.load(node.value::<DURABLE>(slot));
        self.passed = (slice, code);
        if K::ONE_SLICE {
            return self.show(slice, word);
        }
        self.ask_ahead(stand);
        let edge = edge.filter(|(at, _)| *at == slot);
        let onward = (code == LONGER).then(|| Onward::of(word));
        if let Some(Onward::Layer(offset)) = onward {
            return Ok(Next::Layer(offset, edge.is_some()));
        }
        if edge.is_some() {
            self.keep_shown(); // This entry may not be shown.
        }
        self.bytes.truncate(self.prefix);
        self.bytes.extend(&slice.to_be_bytes()[..SLICE.min(usize::from(code))]);
        match onward {
            None | Some(Onward::Layer(_)) => self.show(slice, word),
            Some(Onward::Record(offset)) => {
                let record = tree.own_record(offset)?;
                if let Some((_, Equal::Within(rest, inclusive))) = edge {
                    let order = record.compare(media, rest);
                    let order = if self.forward { order } else { order.reverse() };
                    if order.is_lt() || order.is_eq() && !inclusive {
                        return Ok(Next::Entry);
                    }
                }
                record.append_to(media, &mut self.bytes);
                self.show(slice, record.value(media))
            }
        }
    }

    fn show(&mut self, slice: u64, word: u64) -> Step<Next<'t>> {
        let value = self.tree.value_of(word)?;
        self.showing = Some(slice);
        Ok(match (self.visit)(K::of(slice, &self.bytes), &[value]) {
            ControlFlow::Continue(()) => Next::Entry,
            ControlFlow::Break(()) => Next::Break,
        })
    }

    /// Asks for what all entries that come lead to, buffers or records and layers, so that their
    /// misses overlap.
    #[inline(always)]
    fn ask_for_values(&self, stand: &Stand<'t, M>) {
        let all = if self.forward { stand.position..stand.perm.count() } else { 0..stand.position };
        let slots = all.map(|at| stand.perm.slot(at));
        if self.tree.buffers {
            self.tree.prefetch_values(stand.locked.at, slots);
        } else if !K::ONE_SLICE {
            self.tree.prefetch_onward(stand.locked.at, slots);
        }
    }

    /// Asks for what the value of an entry some places ahead leads to; its record is there by now.
    #[inline(always)]
    fn ask_ahead(&self, stand: &Stand<'t, M>) {
        let here = self.here(stand);
        let ahead = if self.forward { here.checked_add(AHEAD) } else { here.checked_sub(AHEAD) };
        if let Some(ahead) = ahead.filter(|ahead| *ahead < stand.perm.count()) {
            self.tree.prefetch_value_of(stand.locked.at, stand.perm.slot(ahead));
        }
    }

    /// What comes after the last entry of a node.
    fn behind(&self, stand: &Stand<'t, M>) -> Step<Next<'t>> {
        let (tree, media) = (self.tree, self.tree.pool.media());
        if self.forward {
            let next = media.load(&stand.locked.node().next);
            if next.is_null() {
                return Ok(Next::End);
            }
            let right = tree.reach_held(stand.locked.at, next.offset())?;
            if !right.version.is_border() {
                let what = "a border node has an inner one to its right";
                return Err(IndexError::Corrupt { offset: next.offset(), what }.into());
            }
            return Ok(Next::Border(right));
        }
        if stand.low == 0 {
            return Ok(Next::End);
        }
        // The root of a layer stays while a node of the layer is locked.
        let at = stand.root.at;
        Ok(Next::Border(Seen { at, version: tree.stable(at)? }.living()?))
    }

    /// Locks the node that comes next: this one, or backwards the one below `low` in the layer with
    /// this root.
    fn next_border(&mut self, root: Seen<'t>, seen: Seen<'t>, low: u64) -> Step<Stand<'t, M>> {
        let media = self.tree.pool.media();
        let (border, root, low) = if self.forward {
            (seen, root, 0)
        } else {
            let spot = self.tree.descend(seen, low - 1)?;
            (spot.border, seen, spot.low)
        };
        self.enter(border.at.offset)?;
        let locked = border.at.lock(media, border.version)?;
        let perm = media.load(&locked.node().perm);
        // A node that took over what an empty neighbour covered may have keys that were passed.
        let (slice, code) = self.passed;
        let (less, slot) = self.tree.rank_in(locked.at, perm, slice, code);
        let position = if self.forward { less + usize::from(slot.is_some()) } else { less };
        if self.forward {
            let after = media.load(&locked.node().next);
            if !after.is_null() {
                self.tree.enter(after.offset())?; // It is asked for ahead of its use.
            }
        }
        let stand = Stand { locked, root, perm, position, low };
        self.ask_for_values(&stand);
        Ok(stand)
    }

    /// Goes on to the layer behind the entry that comes next.
    fn enter_layer(&mut self, mut stand: Stand<'t, M>, slice: u64, offset: u64) -> Step<Seen<'t>> {
        let media = self.tree.pool.media();
        let next = self.tree.reach_held(stand.locked.at, offset)?;
        if self.prefix + SLICE >= MAX_KEY_BYTES {
            let what = "layers are deeper than any key";
            return Err(IndexError::Corrupt { offset, what }.into());
        }
        self.step(&mut stand);
        let (border, perm) = (stand.locked.at, stand.perm);
        let border = Seen { at: border, version: media.load(&border.node.version) };
        let (root, position, low) = (stand.root, stand.position, stand.low);
        self.keep_shown();
        drop(stand);
        self.frames.push(Frame { root, border, perm, position, low });
        self.bytes.truncate(self.prefix);
        self.bytes.extend(slice.to_be_bytes());
        self.prefix += SLICE;
        Ok(next)
    }

    /// Goes back to the layer above.
    fn leave(&mut self, stand: Stand<'t, M>) -> Step<Option<Stand<'t, M>>> {
        self.keep_shown();
        drop(stand);
        let Some(frame) = self.frames.pop() else { return Ok(None) };
        let media = self.tree.pool.media();
        let Frame { root, border, perm, position, low } = frame;
        self.bytes.truncate(self.prefix);
        self.prefix -= SLICE;
        if let Some(slice) = self.bytes.get(self.prefix..) {
            self.passed = (slice_of(slice).0, LONGER);
        }
        self.bytes.truncate(self.prefix);
        let locked = border.at.lock(media, border.version)?;
        if media.load(&locked.node().perm) != perm {
            return Err(Halt::Retry);
        }
        Ok(Some(Stand { locked, root, perm, position, low }))
    }

    /// Keeps the key that was shown last, before its node is given free.
    fn keep_shown(&mut self) {
        if let Some(slice) = self.showing.take() {
            let (kept, bytes) = self.shown.get_or_insert_default();
            *kept = slice;
            bytes.clone_from(&self.bytes);
        }
    }
}
