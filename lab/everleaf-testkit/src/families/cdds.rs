//! Directed scenarios of a sorted B+-tree whose entries have versions: moves to either side, over
//! lines, towards empty slots and dead entries; ends, splits, roots that come and go; each of them
//! cut, and what follows.

use everleaf::Engine;

use super::{Directed, Family, Member, inserts, removes};
use crate::ScriptKeys::U64;

pub(super) const FAMILY: Family = Family {
    members: &[Member { engine: "cdds", folders: &["cdds"], ..Member::PLAIN }],
    directed,
    ..Family::PLAIN
};

/// Where a move is cut.
const MOVES: &[&str] =
    &["shift.P1.empty", "shift.P1.entry", "shift.P1.order", "shift.P1.line", "shift.P1.fence"];
/// Where an operation is cut behind its moves.
const COMMITS: &[&str] = &["commit.P1.fence", "commit.P2.version", "commit.P2.fence"];

/// All of them.
fn directed(_: Engine) -> Vec<Directed> {
    let mut cases = Vec::new();
    let mut add = |name: &str, slots: u32, script: &str| {
        cases.push(Directed::sized(name, U64, slots, script));
    };
    let script = "insert 50 1\ninsert 30 1\nexplore\ninsert 40 2\nupdate 40 3\nupdate 40 \
        4\nremove 40\nupdate 50 5\ninsert 10 1\nupdate 10 2\ninsert 20 1\ninsert 60 1\nupdate \
        60 6\nremove 50\nupdate 60 7\nreopen\nremove 30\nupdate 20 3\ninsert 5 1\n";
    add("plain operations and a split of the root", 4, script);
    // Two leaves below the root, of 10 and 20, and of 30 and 40.
    let two = inserts([10, 20, 30, 40]);
    let script = format!("{two}explore\n") + &inserts([50, 60, 70, 15, 12, 11, 80, 90]);
    add("splits below an inner node", 4, &script);
    let script = format!("{two}explore\n") + &removes([10, 20, 40, 30]) + "insert 5 1\n";
    add("leaves that are emptied, down to the last", 4, &script);
    let script = inserts((1..9).map(|i| i * 10))
        + "explore\n"
        + &inserts((9..14).map(|i| i * 10))
        + &inserts([5, 4, 3, 2, 1]);
    add("inner nodes split", 4, &script);
    let script = inserts((1..24).map(|i| i * 10)) + "explore\n" + &removes((1..14).map(|i| i * 10));
    add("inner nodes emptied", 4, &script);
    let script = inserts((1..24).map(|i| i * 10))
        + &removes((1..8).map(|i| i * 10))
        + "explore\n"
        + &inserts([75, 74, 73, 72, 71, 5]);
    add("keys below those of a first child that has gone", 4, &script);

    let five = inserts([10, 20, 30, 40, 50]);
    let script = format!("{five}explore\ninsert 5 1\ninsert 45 1\nremove 5\nremove 30\n");
    add("moves to the end of a node", 8, &script);
    // The nearest free slot behind is a dead entry, of another key and of the same one.
    let script = format!(
        "{five}remove 40\nupdate 20 2\nexplore\ninsert 15 1\nupdate 10 2\nupdate 10 3\nupdate 10 \
        4\ninsert 35 1\n"
    );
    add("moves to a dead entry behind", 8, &script);
    // No slot behind is free: entries move down, to the last dead one before.
    let script = format!(
        "{five}insert 60 1\ninsert 70 1\nremove 20\nupdate 70 2\nexplore\nupdate 70 3\nupdate 60 \
        2\nremove 10\nupdate 70 4\ninsert 65 1\nupdate 65 2\n"
    );
    add("moves to a dead entry before", 8, &script);
    let script = "insert 10 1\ninsert 20 1\nexplore\nupdate 20 2\nupdate 20 3\nupdate 20 4\nupdate \
        10 2\nupdate 10 3\nupdate 20 5\nremove 10\nupdate 20 6\n";
    add("one value that changes often", 4, script);

    let then = "remove 20\nupdate 40 7\ninsert 35 2\nremove 10\nremove 35\ninsert 1 1\n";
    for site in MOVES {
        let script = format!("{five}cut cdds.{site} insert 5 1\n{then}");
        add(&format!("an insertion cut before {site}"), 8, &script);
        // All other slots have live entries: they move to that of the first key.
        let script = format!("{five}insert 60 1\ninsert 70 1\nremove 10\ninsert 80 1\n")
            + &format!("cut cdds.{site} update 80 2\n{then}update 80 3\n");
        add(&format!("an update that moves down cut before {site}"), 8, &script);
        if *site == "shift.P1.fence" {
            continue; // The entries for the two halves go to one line of the node above.
        }
        let script = format!("{two}insert 50 1\ncut cdds.{site} insert 60 1\n{then}");
        add(&format!("a split cut before {site}"), 4, &script);
    }
    for site in COMMITS {
        let script = format!("{five}cut cdds.{site} insert 5 1\n{then}");
        add(&format!("an insertion cut before {site}"), 8, &script);
        let script = format!("{two}insert 50 1\ncut cdds.{site} insert 60 1\n{then}");
        add(&format!("a split cut before {site}"), 4, &script);
        let script = format!("{five}cut cdds.{site} update 30 9\n{then}");
        add(&format!("an update cut before {site}"), 8, &script);
        if *site != "commit.P1.fence" {
            let script = format!("{two}remove 20\ncut cdds.{site} remove 10\n{then}");
            add(&format!("the end of a leaf and of the root cut before {site}"), 4, &script);
        }
    }
    let then = "insert 60 1\nremove 10\nremove 20\ninsert 25 2\nremove 25\n";
    for site in ["split.S1.node", "commit.P2.order", "commit.P2.version"] {
        let script = inserts([10, 20, 30]) + &format!("cut cdds.{site} insert 50 1\n{then}");
        add(&format!("a split of the root cut before {site}"), 4, &script);
    }
    let script = format!("{five}cut cdds.end.P1.line update 20 9\n{then}");
    add("an update cut before its end", 8, &script);
    let script = format!("{five}cut cdds.end.P1.line remove 20\n{then}");
    add("a removal cut before its end", 8, &script);

    let script = inserts([10, 20])
        + "explore\ninsert 10 1\nupdate 15 1\nremove 15\nupsert 20 1\nupsert 30 1\nremove \
            10\nremove 30\nremove 20\nremove 20\ninsert 20 1\ncrash\ninsert 30 1\n";
    add("refusals, and the last entry of the tree", 4, &script);
    let script = "insert 10 1\nexplore\nremove 10\ninsert 10 2\nremove 10\ninsert 10 3\ncrash\n\
        remove 10\ninsert 10 4\nupdate 10 5\nupdate 10 6\ncrash\nupdate 10 7\nremove 10\n";
    add("one key put, changed, removed and put again", 4, script);
    // A group of 4096 bytes has 32 nodes.
    let script = inserts((1..35).map(|i| i * 10)) + "explore\n" + &inserts(351..361);
    add("group of nodes taken", 4, &script);
    let script = inserts((1..90).map(|i| i * 10))
        + &removes((8..90).map(|i| i * 10))
        + "explore\n"
        + &removes((1..8).map(|i| i * 10));
    add("groups of nodes given back", 4, &script);
    cases
}
