//! Making the tree lead to other nodes: one commit, in the root word or in one inner node, and with
//! it everything that was replaced has left the tree.
//!
//! An inner node is written at once where the media promises that a line is never torn, or where
//! the pool has the assumption `atomic-line` and the media a way ([`Media::try_write_line`]).
//! Elsewhere, and where the processor aborts each attempt, the line is copied to the log in the
//! anchor first, and its first word says so while the others are overwritten. No step of that needs
//! a fence of its own, for stores to one line become durable in their order.
//!
//! Where lines are copied (`shadow`), the copy is durable before, and one word makes the tree lead
//! to it: of the parent, where all of the pointer's bytes that change lie in one word; else the
//! parent is copied as well (`Encoded::swing`), up to the root word. Nothing is ever half written,
//! so recovery has nothing to do for it. The old line is used again only after the last fence, for
//! a crash before may leave the tree that leads to it. In a full pool the log takes the place of
//! the copy where nothing else needs room.
//!
//! Root word, word of a parent, or line at once: 1 flush, 1 fence, and 1 fence more if something
//! was flushed before.
//! By the log: 2 flushes, 2 fences.

use everleaf_index::Result;
use everleaf_pmem::{Counter, LINE, Line, Media, PCell, Site, WORD, site, unless_planted};

use super::encode::{Overwritten, Words};
use super::layout::{ClfAnchor, Root};
use super::search::Nodes;
use everleaf_tree::key::TreeKey;
use everleaf_tree::steps::Steps;

/// What makes the tree lead to other nodes.
#[derive(Clone, Copy)]
pub(super) enum Commit<'p> {
    /// Another topmost node.
    Root(Root),
    /// Another child of an inner node, which is a copy of the one before.
    Word { cell: &'p PCell<u64>, value: u64 },
    /// Another content of an inner node.
    Line { line: &'p Line, before: Words, after: Words },
}

/// Where the log is.
pub(super) fn log_offset<K: TreeKey, M: Media>(nodes: Nodes<'_, K, M>, anchor: &ClfAnchor) -> u64 {
    nodes.pool.pointer_to(&anchor.log).offset()
}

/// Publishes. `flushed`: something was flushed that must be durable before. `freeing`: a record is
/// freed next, which fences before it changes anything. If this fails nothing has changed.
pub(super) fn publish<K: TreeKey, M: Media>(
    nodes: Nodes<'_, K, M>,
    commit: Commit<'_>,
    flushed: bool,
    freeing: bool,
    steps: &mut Steps<'_>,
) -> Result<()> {
    let (media, anchor) = (nodes.media(), nodes.anchor()?);
    let at_once = nodes.settings.at_once.on(media);
    let by_log = matches!(commit, Commit::Line { .. }) && !at_once;
    if let Commit::Line { before, .. } = commit
        && by_log
    {
        // P1: the log, with whatever the new line leads to. Crash: the log is torn, but the line is
        // valid, so that nobody reads the log.
        write_log(media, anchor, before);
    }
    if by_log || flushed || steps.take_part() {
        media.fence(site!("clftree.publish.P1.fence"));
    }
    match commit {
        Commit::Line { line, before, after } => {
            // A2 COMMIT: a whole line. Crash: the old one or the new one.
            let written = at_once && write_at_once(nodes, line, after);
            if at_once && !written {
                // L1: nothing was written, for the processor has aborted each attempt. The log is
                // durable before the line says so.
                write_log(media, anchor, before);
                media.fence(site!("clftree.publish.L1.fence"));
            }
            if !written {
                overwrite(nodes, line, log_offset(nodes, anchor), after);
            }
        }
        Commit::Word { cell, value } => {
            // S2 COMMIT: one word of the parent. Crash: it leads to the old node or to the copy.
            media.store(cell, value);
            media.flush(site!("clftree.publish.S2.word"), cell);
        }
        Commit::Root(root) => {
            // P2 COMMIT: one word. Crash: the old tree or the new one.
            media.store(&anchor.root, root);
            media.flush(site!("clftree.publish.P2.root"), &anchor.root);
        }
    }
    steps.complete();
    if !freeing {
        media.fence(site!("clftree.publish.P2.fence"));
    }
    Ok(())
}

/// Copies a line to the log. A flush; no fence.
fn write_log<M: Media>(media: &M, anchor: &ClfAnchor, before: Words) {
    for (cell, word) in anchor.log.0.iter().zip(before) {
        media.store(cell, word);
    }
    media.flush(site!("clftree.publish.P1.log"), &anchor.log.0[0]);
    media.count(Counter::NodesLogged, 1);
}

/// Writes a line at once; false if the processor has aborted each attempt. A flush; no fence.
fn write_at_once<K: TreeKey, M: Media>(nodes: Nodes<'_, K, M>, line: &Line, after: Words) -> bool {
    let (media, site) = (nodes.media(), site!("clftree.publish.A2.line"));
    if nodes.settings.paper_order {
        // Counted as a whole line, whatever the processor has; the pool has the assumption.
        media.write_line(site, line, after);
        return true;
    }
    media.try_write_line(site, line, after)
}

/// Overwrites a line that the log has, in the order of these stores. A flush; no fence. In the
/// order of the paper each step has a flush and a fence of its own.
fn overwrite<K: TreeKey, M: Media>(nodes: Nodes<'_, K, M>, line: &Line, log: u64, after: Words) {
    let (media, apart) = (nodes.media(), nodes.settings.paper_order);
    // P2. Crash after the first: recovery restores the line from the log, whatever there is of the
    // others.
    unless_planted!(261, media.store(&line.0[0], Overwritten::new(log).into_word()));
    if apart {
        media.flush(site!("clftree.paper.invalid"), &line.0[0]);
        media.fence(site!("clftree.paper.invalid.fence"));
    }
    media.order(site!("clftree.publish.P2.invalid"));
    for (cell, word) in line.0.iter().zip(after).skip(1) {
        media.store(cell, word);
    }
    if apart {
        media.flush(site!("clftree.paper.words"), &line.0[0]);
        media.fence(site!("clftree.paper.words.fence"));
    }
    media.order(site!("clftree.publish.P2.words"));
    // COMMIT: the first word says that the line is valid. Crash: the new tree. The log is written
    // again only after the fence, else a line that is still invalid would find another's words
    // there.
    media.store(&line.0[0], after[0]);
    media.flush(site!("clftree.publish.P2.line"), &line.0[0]);
}

/// Writes a line that nothing leads to, and flushes it. No fence.
pub(super) fn write_line<M: Media>(media: &M, site: Site, line: &Line, words: Words) {
    line.0.iter().zip(words).for_each(|(cell, word)| media.store(cell, word));
    media.flush(site, &line.0[0]);
}

const _: () = assert!(size_of::<Words>() == LINE && LINE / WORD == 8);
