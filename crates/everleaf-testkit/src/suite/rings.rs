//! Directed scenarios of Circ-Tree: shifts to either side, from every place of the ring, of nodes of every fill; splits, merges, the roots that
//! come and go; and what follows after each of them was cut.

use everleaf::Engine;

use super::case::Case;
use super::directed::{inserts, lines, removes};
use crate::ScriptKeys::{Bytes, U64};

/// Whether the nodes of an engine are rings.
pub(super) fn has_rings(engine: Engine) -> bool {
    matches!(engine, Engine::CircTree | Engine::CircTreeLinear)
}

/// Eight keys of two leaves of 4 entries: `10 20 30 40` and `50 60 70 80`.
fn two_leaves() -> String {
    inserts([10, 20, 50, 60, 30, 70, 40, 80])
}

pub(super) fn rings(engine: Engine) -> Vec<Case> {
    let mut cases = Vec::new();
    for keys in [U64, Bytes] {
        let mut add = |name: &str, slots: u32, script: &str| cases.push(Case::sized(name, engine, keys, slots, script));
        let script = "insert 50 1\ninsert 30 1\nexplore\ninsert 40 2\nupdate 40 3\nremove 40\nupdate 50 5\ninsert 10 1\nupdate 10 2\n\
                      insert 20 1\ninsert 60 1\nupdate 60 6\nremove 50\nreopen\nremove 30\nupdate 20 3\ninsert 5 1\n";
        add("plain operations and a split", 4, script);
        let script = inserts([10, 20])
            + "explore\ninsert 10 1\nupdate 15 1\nremove 15\nupsert 20 1\nupsert 30 1\nremove 10\nremove 30\nremove 20\n\
                      remove 20\ninsert 20 1\ncrash\ninsert 30 1\n";
        add("refusals, and the last entry of the tree", 4, &script);
        for slots in [8, 16] {
            for base in [0, 3, 6] {
                add(&format!("shifts from slot {base}"), slots, &shifts(base, slots / 2 + 1));
            }
        }
        // What was vacated still tells recovery of the removal; then it is written to, on either side.
        let script =
            inserts([10, 20, 30, 40, 50]) + "explore\nremove 30\ninsert 60 1\nremove 20\ninsert 5 1\nremove 40\nupdate 50 2\n";
        add("ends after removals", 8, &script);
        // Values repeat, keys and values are 0.
        let same = |keys: &[u64]| lines(keys.iter().map(|key| format!("insert {key} 0")));
        let script = same(&[0, 10, 20, 30, 40, 50])
            + "explore\ninsert 15 0\nremove 10\ninsert 35 0\nremove 0\ninsert 25 0\ninsert 0 0\nremove 40\n";
        add("values that repeat", 8, &script);
        // A slot that an insertion moves to holds the very key that is moved there, with another value.
        let script =
            inserts([10, 20, 30, 40, 50]) + "remove 30\nupdate 50 9\nexplore\ninsert 45 1\nremove 10\nupdate 20 7\ninsert 25 1\n";
        add("a dead slot with the key that is moved", 8, &script);

        let full = two_leaves();
        for site in ["C1.log", "C1.fence", "C2.order", "C2.header", "C4.order", "C4.log", "C4.fence"] {
            let script = format!("{full}cut circtree.split.{site} insert 25 1\nremove 10\nremove 40\ninsert 25 2\ninsert 35 1\n");
            add(&format!("split cut before {site}, then removals"), 4, &script);
        }
        // A full node that leads to the new one is what recovery knows a split by that has not cut it.
        let script = format!("{full}cut circtree.split.C2.header insert 25 1\ninsert 11 1\ninsert 12 2\nremove 60\n");
        add("split cut after its commit, then the leaf filled", 4, &script);
        let three = inserts([10, 20, 30, 40, 60, 70, 80, 90, 50]) + &removes([10, 50]);
        add("a merge right after a shift", 8, &format!("{three}explore\nremove 30\ninsert 25 1\n"));
        for site in ["G1.fence", "G2.root", "G2.fence"] {
            let script = format!("{}cut circtree.root.{site} insert 25 1\ninsert 35 2\nremove 10\n", inserts([10, 20, 30, 40]));
            add(&format!("growth by a level cut before {site}"), 4, &script);
        }
        let few = two_leaves() + &removes([20, 30, 40, 60, 70]);
        for site in ["M1.order", "M1.fence", "M2.order", "M2.header", "M2.fence"] {
            let script = format!("{few}cut circtree.merge.{site} remove 80\ninsert 25 1\nremove 10\ninsert 65 1\n");
            add(&format!("merge cut before {site}"), 4, &script);
        }
        for site in ["D1.fence", "D2.root"] {
            let script = format!("{few}cut circtree.merge.{site} remove 80\ninsert 25 1\nremove 10\ninsert 65 1\n");
            add(&format!("shrinking by a level cut before {site}"), 4, &script);
        }
        if keys == U64 {
            many_nodes(&mut add);
            cut_steps(&mut add);
        }
    }
    cases
}

/// Adds a scenario: its name, the number of entries in a node, its script.
type Add<'a> = dyn FnMut(&str, u32, &str) + 'a;

/// Trees of several levels that grow and shrink.
fn many_nodes(add: &mut Add<'_>) {
    let script = inserts((1..20).map(|i| i * 10)) + "explore\n" + &inserts((20..32).map(|i| i * 10)) + &inserts([5, 4, 3, 2]);
    add("ascending, and then descending", 4, &script);
    let script = inserts((1..24).map(|i| i * 10)) + "explore\n" + &removes((1..24).map(|i| i * 10)) + "insert 7 7\n";
    add("emptied from the left", 4, &script);
    let script = inserts((1..24).rev().map(|i| i * 10)) + "explore\n" + &removes((1..24).rev().map(|i| i * 10)) + "insert 7 7\n";
    add("emptied from the right", 4, &script);
    let script = inserts((1..32).map(|i| i * 37 % 32)) + "explore\n" + &removes((1..32).map(|i| i * 11 % 32));
    add("emptied at random", 4, &script);
    let script = inserts((1..30).map(|i| i * 10)) + "explore\n" + &removes([50, 60, 70, 80, 90, 100, 110, 120, 20, 30]);
    add("merges of wider nodes", 8, &script);
}

/// Shifts that were cut, and what follows.
fn cut_steps(add: &mut Add<'_>) {
    let some = inserts([10, 20, 30, 40, 50, 60]);
    for (operation, sites) in [
        ("insert 45 1", ["insert.P1.order", "insert.P1.fence", "shift.S1.order", "insert.P3.order", "insert.P3.fence"]),
        ("insert 15 1", ["insert.P1.order", "insert.P1.fence", "shift.S1.order", "insert.P3.order", "insert.P3.fence"]),
        ("remove 50", ["remove.P1.header", "remove.P1.fence", "shift.S1.order", "remove.P2.entry", "remove.P2.fence"]),
        ("remove 20", ["remove.P1.header", "remove.P1.fence", "shift.S1.order", "remove.P2.entry", "remove.P2.fence"]),
    ] {
        for site in sites {
            let script = format!("{some}cut circtree.{site} {operation}\nupdate 60 7\ninsert 5 1\ninsert 70 1\nremove 30\n");
            add(&format!("{operation} cut before {site}"), 8, &script);
        }
    }
}

/// So many keys whose first stands in slot `base`; then insertions and removals in the lower and in the upper half.
fn shifts(base: u32, keys: u32) -> String {
    let (key, keys) = (|position: u32| u64::from(position) * 10 + 100, keys.max(2));
    // Appended and removed again: the ring turns.
    let turn = lines((0..base).map(|i| format!("insert {} 1", i + 1)));
    let turned = removes((0..base).map(|i| u64::from(i) + 1));
    let (low, high) = (key(1), key(keys - 2));
    turn + "insert 99 1\n"
        + &turned
        + &inserts((1..keys).map(key))
        + &format!("explore\ninsert {} 1\ninsert {} 2\nremove {low}\nremove {high}\n", low + 5, high + 5)
}

/// Shifts to either side in nodes of 8 entries, from every slot, with every number of entries.
pub(super) fn every_base_and_fill(engine: Engine) -> Vec<Case> {
    let mut cases = Vec::new();
    for keys in [U64, Bytes] {
        for base in 0..8 {
            for fill in 3..8 {
                let name = format!("{fill} entries from slot {base}");
                let case = Case::sized(&name, engine, keys, 8, &shifts(base, fill));
                cases.push(case.seeded(u64::from(base * 8 + fill) + 5000));
            }
        }
    }
    cases
}
