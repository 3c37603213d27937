//! A root that points to the newest of some nodes: the node first, then the pointer to it.

use everleaf_crash::Traced;
use everleaf_pmem::{Media, Site, site};

use super::{Structure, flush, load, store};

const HEADER: usize = 1;
const ROOT: usize = 2;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    /// The root may become durable before the node.
    Unordered,
    /// The root is never flushed.
    MissingFlush,
    /// The header's line is flushed instead of the node's.
    WrongLine,
    /// Fences, but no flush at all: right with eADR only.
    NoFlushes,
    /// Nothing at all.
    NoBarriers,
    /// The node's line is flushed twice, and a fence waits for nothing.
    Wasteful,
}

pub struct Published(pub Fault);

fn node(i: usize) -> usize {
    ROOT + i
}

impl Structure for Published {
    fn create(&self, media: &Traced) {
        store(media, ROOT, 0, 0);
        store(media, HEADER, 0, 0);
        flush(media, site!("published.create.root"), ROOT);
        flush(media, site!("published.create.header"), HEADER);
        media.fence(site!("published.create.fence"));
    }

    fn operate(&self, media: &Traced, i: usize) {
        let Published(fault) = *self;
        let flushes = !matches!(fault, Fault::NoFlushes | Fault::NoBarriers);
        // P1: the node. Crash: nothing points to it.
        let line = node(i + 1);
        store(media, line, 0, i as u64 * 3);
        store(media, line, 7, !(i as u64 * 3));
        if flushes && fault != Fault::Unordered {
            flush(
                media,
                site!("published.P1.node"),
                if fault == Fault::WrongLine { HEADER } else { line },
            );
        }
        if fault == Fault::Wasteful {
            flush(media, site!("published.P1.again"), line);
        }
        if fault != Fault::Unordered && fault != Fault::NoBarriers {
            media.fence(site!("published.P1.fence"));
        }
        if fault == Fault::Wasteful {
            media.fence(site!("published.P1.idle"));
        }
        // P2 COMMIT: the pointer.
        store(media, ROOT, 0, i as u64 + 1);
        if fault == Fault::Unordered {
            flush(media, site!("published.P1.node"), line);
        }
        if flushes && fault != Fault::MissingFlush {
            flush(media, site!("published.P2.root"), ROOT);
        }
        if fault != Fault::NoBarriers {
            media.fence(site!("published.P2.fence"));
        }
    }

    fn recover(&self, _media: &Traced) {}

    fn completed(&self, media: &Traced) -> Result<usize, String> {
        let root = load(media, ROOT, 0) as usize;
        if root > 0 && (root > 60 || load(media, node(root), 0) != !load(media, node(root), 7)) {
            return Err(format!("the root points to node {root}, which is torn"));
        }
        if root > 0 && load(media, node(root), 0) != (root as u64 - 1) * 3 {
            return Err(format!("node {root} holds something else"));
        }
        Ok(root)
    }

    fn sites(&self) -> Vec<Site> {
        vec![
            site!("published.P1.node"),
            site!("published.P1.fence"),
            site!("published.P2.root"),
            site!("published.P2.fence"),
        ]
    }
}
