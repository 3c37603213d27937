//! Directed scenarios of a B+-tree whose operations are made whole by a redo log: every change of
//! nodes, plain and cut, and what follows after each, with both kinds of records.

use everleaf::Engine;

use super::{Directed, Family, Member, inserts, removes};
use crate::Level::Index;
use crate::ScriptKeys::U64;

pub(super) const FAMILY: Family = Family {
    members: &[Member { engine: "lcbtree", folders: &["lcbtree"], ..Member::PLAIN }],
    directed,
    ..Family::PLAIN
};

/// Where an operation is cut.
const CUTS: &[&str] = &["P1.records", "P1.place", "P1.fence", "P2.order", "P2.commit", "P2.fence"];

/// All of them. Nodes have four slots.
fn directed(_: Engine) -> Vec<Directed> {
    let whole = scenarios();
    let ranges = whole.clone().into_iter().map(Directed::with_log_of_ranges);
    let ranges: Vec<Directed> = ranges.collect();
    whole.into_iter().chain(ranges).collect()
}

fn scenarios() -> Vec<Directed> {
    let mut cases = Vec::new();
    let mut add = |name: &str, script: &str| {
        cases.push(Directed::new(name, Index, U64, 1, script));
    };
    let script = "insert 50 1\ninsert 30 1\nexplore\ninsert 40 2\nupdate 40 3\nupdate 40 \
        4\nremove 40\nupdate 50 5\ninsert 10 1\nupdate 10 2\ninsert 20 1\ninsert 60 1\nupdate \
        60 6\nremove 50\nupdate 60 7\nreopen\nremove 30\nupdate 20 3\ninsert 5 1\n";
    add("plain operations and a split of the root", script);
    // Two leaves below the root, of 10 and 20, and of 30, 40 and 50.
    let two = inserts([10, 20, 30, 40, 50]);
    let script = format!("{two}explore\n") + &inserts([60, 70, 15, 12, 11, 80, 90]);
    add("splits below an inner node", &script);
    let script = format!("{two}explore\n") + &removes([10, 20, 50, 40, 30]) + "insert 5 1\n";
    add("leaves that are emptied, down to the last", &script);
    let script = inserts((1..12).map(|i| i * 10))
        + "explore\n"
        + &inserts((12..18).map(|i| i * 10))
        + &inserts([5, 4, 3, 2, 1]);
    add("inner nodes split", &script);
    let script = inserts((1..30).map(|i| i * 10)) + "explore\n" + &removes((1..14).map(|i| i * 10));
    add("inner nodes emptied", &script);
    let script = inserts((1..30).map(|i| i * 10))
        + &removes((1..8).map(|i| i * 10))
        + "explore\n"
        + &inserts([75, 74, 73, 72, 71, 5]);
    add("keys below those of a first child that has gone", &script);
    for site in CUTS {
        // The next operation takes the half of the log that the cut one was writing, or has
        // written.
        let then = "remove 20\nupdate 40 7\ninsert 35 2\nremove 10\nremove 35\ninsert 1 1\n";
        let script = format!("{two}insert 60 1\ncut lcbtree.log.{site} insert 70 1\n{then}");
        add(&format!("split cut before {site}"), &script);
        if *site == "P1.records" {
            continue; // The records of what follows are in the line of the commit word.
        }
        let script = format!("{two}remove 20\ncut lcbtree.log.{site} remove 10\n{then}");
        add(&format!("the end of a leaf and of the root cut before {site}"), &script);
        let script = format!("{two}cut lcbtree.log.{site} update 30 9\n{then}");
        add(&format!("update cut before {site}"), &script);
    }
    let full = inserts([10, 20, 30, 40]);
    let then = "insert 60 1\nremove 10\nremove 20\ninsert 25 2\nremove 25\n";
    let script = format!("{full}cut lcbtree.split.S1.node insert 50 1\n{then}");
    add("split of the root cut before its nodes are written", &script);
    let script = inserts([10, 20])
        + "explore\ninsert 10 1\nupdate 15 1\nremove 15\nupsert 20 1\nupsert 30 1\nremove \
            10\nremove 30\nremove 20\nremove 20\ninsert 20 1\ncrash\ninsert 30 1\n";
    add("refusals, and the last entry of the tree", &script);
    let script = "insert 10 1\nexplore\nremove 10\ninsert 10 2\nremove 10\ninsert 10 3\ncrash\n\
        remove 10\ninsert 10 4\nupdate 10 5\nupdate 10 6\ncrash\nupdate 10 7\nremove 10\n";
    add("one key put, changed, removed and put again", script);
    // A group of 4096 bytes has 21 nodes.
    let script = inserts((1..32).map(|i| i * 10)) + "explore\n" + &inserts(321..329);
    add("group of nodes taken", &script);
    let script = inserts((1..90).map(|i| i * 10))
        + &removes((8..90).map(|i| i * 10))
        + "explore\n"
        + &removes((1..8).map(|i| i * 10));
    add("groups of nodes given back", &script);
    cases
}
