//! What the slots of a node say by themselves, and what is done with it when the node is first
//! touched after the tree was opened.

use std::sync::Arc;

use everleaf_index::{IndexError, Result};
use everleaf_pmem::{Media, site};
use everleaf_pool::Pool;

use super::super::layout::{Anchor, Discipline, State};
use super::super::node::Node;
use super::remove::close_hole;

/// What the slots say.
struct Extent {
    /// Slots before the terminator.
    occupied: usize,
    /// The one of them that is no entry, if there is one.
    hole: Option<usize>,
}

fn survey<M: Media>(media: &M, node: Node<'_>, state: State) -> Result<Extent> {
    let mut extent = Extent { occupied: 0, hole: None };
    if state.count == 0 {
        return Ok(extent); // This half of the copy is always right.
    }
    let mut before = media.load(node.key(0));
    for slot in 1..node.slots() {
        let key = media.load(node.key(slot));
        extent.occupied = slot;
        if key == 0 {
            return Ok(extent);
        }
        if key == before && extent.hole.replace(slot - 1).is_some() {
            return Err(IndexError::Corrupt {
                offset: node.offset,
                what: "two shifts of a node are under way",
            });
        }
        before = key;
    }
    extent.occupied = node.slots();
    Ok(extent)
}

/// Counts, closes the hole that a crash has left, and notes the count for this session.
pub(crate) fn end_step<M: Media>(media: &M, node: Node<'_>, state: State) -> Result<State> {
    let Extent { occupied, hole } = survey(media, node, state)?;
    if let Some(hole) = hole {
        // As the removal of an entry, from where it positions. Crash: recovery goes on.
        close_hole(media, node, hole, occupied);
    }
    let settled = node.at_rest(state.level, 0, occupied - usize::from(hole.is_some()));
    // Not flushed: the next opening does not believe it.
    media.store(&node.head.state, settled.seal());
    Ok(settled)
}

/// The entries, without the hole.
pub(crate) fn resolved<M: Media>(
    media: &M,
    node: Node<'_>,
    state: State,
) -> Result<Vec<(u64, u64)>> {
    let Extent { occupied, hole } = survey(media, node, state)?;
    Ok((0..occupied)
        .filter(|slot| Some(*slot) != hole)
        .map(|slot| node.load(media, slot))
        .collect())
}

/// Begins a session: from here on the copies of former ones count no more.
pub(crate) fn begin_session<M: Media>(pool: &Arc<Pool<M>>) -> Result<Discipline> {
    let (media, anchor) = (pool.media(), pool.index_root::<Anchor>()?);
    let session = match media.load(&anchor.session).open_session() {
        // After four thousand million openings the numbers begin again.
        Some(before) => before.wrapping_add(1).max(1),
        None => {
            let offset = pool.pointer_to(anchor).offset();
            return Err(IndexError::Corrupt {
                offset,
                what: "the number of the session is damaged",
            });
        }
    };
    let discipline = Discipline::Shifted { session };
    // O1: durable before any copy of this session is. Crash: a number that was not used.
    media.store(&anchor.session, State { session, ..State::at_rest(0, 0, 0) }.seal());
    media.flush(site!("fastfair.open.O1.session"), &anchor.session);
    media.fence(site!("fastfair.open.O1.fence"));
    Ok(discipline)
}
