//! Directed scenarios of trees whose nodes are sorted: shifts, in rings to either side from every
//! place, of nodes of every fill; splits, merges, the roots that come and go; and what follows
//! after each of them was cut.

use everleaf::Engine;

use super::{Directed, Family, Meetings, Member, Needs, inserts, lines, removes};
use crate::ScriptKeys::{Bytes, U64};

pub(super) const FAMILY: Family = Family {
    members: &[
        Member {
            engine: "circtree",
            folders: &["circtree", "circtree/ring"],
            needs: NEEDS,
            ..Member::PLAIN
        },
        Member {
            engine: "circtree-ls",
            folders: &["circtree", "circtree/ring"],
            needs: NEEDS,
            ..Member::PLAIN
        },
        // An array's counts are never flushed, and are written again after a recovery.
        Member {
            engine: ARRAYS_ENGINE,
            folders: &["circtree", "circtree/shifted"],
            needs: NEEDS,
            meetings: Meetings::Fewer,
        },
    ],
    equivalent_mutants: EQUIVALENT_MUTANTS,
    directed: sorted,
    meetings: MEETINGS,
    more: every_base_and_fill,
    random_share: 4,
    ..Family::PLAIN
};

/// What threads can do to each other where a leaf takes the entries of its right neighbour: a scan
/// that has shown the one finds there no way to the other.
const MEETINGS: &[(&str, &str, &str)] =
    &[("a merge of leaves and a scan", TWO, "thread 1 remove 20\nthread 2 scan\n")];

/// Two leaves, of 10 and 20, and of 30 and 40.
const TWO: &str = "insert 10 1\ninsert 20 1\ninsert 30 1\ninsert 40 1\ninsert 15 1\nremove 15\n";

/// The engine whose nodes are arrays, and no rings.
const ARRAYS_ENGINE: &str = "fastfair";

const NEEDS: &[(&str, Needs)] = &[
    ("circtree.insert.E0.", Needs::U64Keys),
    ("circtree.insert.P4.", Needs::BytesKeys),
    ("circtree.remove.P1.order", Needs::BytesKeys),
    ("circtree.shift.S2.line", Needs::SeveralLines),
    ("circtree.shift.S2.fence", Needs::SeveralLines),
    ("fastfair.insert.F0.", Needs::SeveralLines),
    ("fastfair.insert.F1.line", Needs::SeveralLines),
    ("fastfair.insert.F1.fence", Needs::SeveralLines),
    ("fastfair.insert.Z2.order", Needs::BytesKeys),
    ("fastfair.remove.X1.order", Needs::BytesKeys),
    ("fastfair.remove.D0.", Needs::BytesKeys),
    ("fastfair.remove.D2.line", Needs::SeveralLines),
    ("fastfair.remove.D2.fence", Needs::SeveralLines),
    ("sorted.link.", Needs::Store),
    ("sorted.merge.M0.", Needs::U64Keys),
    ("sorted.recover.B2.fence", Needs::SeveralLines),
];

const EQUIVALENT_MUTANTS: &[(&str, &str)] = &[
    (
        "swap sorted.recover.R3.fence",
        "what follows is the repair of a merge by the same log, which has other words and other \
        nodes; left out, the fence is missed",
    ),
    (
        "swap sorted.recover.R4.fence",
        "what follows is the next worker's log, which speaks of other nodes; left out, the fence \
        is missed",
    ),
];

/// Whether nodes are sorted arrays, and no rings.
fn has_arrays(engine: Engine) -> bool {
    engine.name() == ARRAYS_ENGINE
}

/// Where operations are cut, by the names of the barriers that they do not reach any more.
struct Cuts {
    /// In a split.
    split: &'static [&'static str],
    /// In a split, right after the new node follows the old one, and the old one was cut.
    halved: &'static str,
    /// In a merge.
    merge: &'static [&'static str],
    /// In an insertion that moves entries.
    insert: &'static [&'static str],
    /// In a removal that moves entries.
    remove: &'static [&'static str],
    /// Slots in which the first of some entries may be.
    bases: &'static [u32],
}

const RINGS: Cuts = Cuts {
    split: &["C1.log", "C1.fence", "C2.order", "C2.header", "C4.order", "C4.log", "C4.fence"],
    halved: "C2.header",
    merge: &["M1.order", "M1.fence", "M2.order", "M2.header", "M2.fence"],
    insert: &[
        "circtree.insert.P1.order",
        "circtree.insert.P1.fence",
        "circtree.shift.S1.order",
        "circtree.insert.P3.order",
        "circtree.insert.P3.fence",
    ],
    remove: &[
        "circtree.remove.P1.header",
        "circtree.remove.P1.fence",
        "circtree.shift.S1.order",
        "circtree.remove.P2.entry",
        "circtree.remove.P2.fence",
    ],
    bases: &[0, 3, 6],
};

const ARRAYS: Cuts = Cuts {
    split: &[
        "C1.log", "C1.fence", "C2.next", "C2.fence", "C2.cut", "C4.order", "C4.log", "C4.fence",
    ],
    halved: "C2.cut",
    merge: &["M1.order", "M1.fence", "M2.key", "M2.taken", "M2.order", "M2.header", "M2.fence"],
    insert: &[
        "fastfair.insert.F1.key",
        "fastfair.insert.F1.order",
        "fastfair.insert.F2.order",
        "fastfair.insert.F2.entry",
        "fastfair.insert.F2.fence",
    ],
    remove: &[
        "fastfair.remove.D1.order",
        "fastfair.remove.D2.order",
        "fastfair.remove.D3.terminator",
        "fastfair.remove.D3.fence",
    ],
    bases: &[0],
};

fn cuts(engine: Engine) -> &'static Cuts {
    if has_arrays(engine) { &ARRAYS } else { &RINGS }
}

/// Eight keys of two leaves of 4 entries: `10 20 30 40` and `50 60 70 80`.
fn two_leaves() -> String {
    inserts([10, 20, 50, 60, 30, 70, 40, 80])
}

fn sorted(engine: Engine) -> Vec<Directed> {
    let cuts = cuts(engine);
    let mut cases = Vec::new();
    for keys in [U64, Bytes] {
        let mut add = |name: &str, slots: u32, script: &str| {
            cases.push(Directed::sized(name, keys, slots, script))
        };
        let script = "insert 50 1\ninsert 30 1\nexplore\ninsert 40 2\nupdate 40 3\nremove \
            40\nupdate 50 5\ninsert 10 1\nupdate 10 2\ninsert 20 1\ninsert 60 1\nupdate 60 \
            6\nremove 50\nreopen\nremove 30\nupdate 20 3\ninsert 5 1\n";
        add("plain operations and a split", 4, script);
        let script = inserts([10, 20])
            + "explore\ninsert 10 1\nupdate 15 1\nremove 15\nupsert 20 1\nupsert 30 1\nremove \
                10\nremove 30\nremove 20\n\
                      remove 20\ninsert 20 1\ncrash\ninsert 30 1\n";
        add("refusals, and the last entry of the tree", 4, &script);
        for slots in [8, 16] {
            for base in cuts.bases {
                add(&format!("shifts from slot {base}"), slots, &shifts(*base, slots / 2 + 1));
            }
        }
        // What was vacated still tells recovery of the removal; then it is written to, on either
        // side.
        let script = inserts([10, 20, 30, 40, 50])
            + "explore\nremove 30\ninsert 60 1\nremove 20\ninsert 5 1\nremove 40\nupdate 50 2\n";
        add("ends after removals", 8, &script);
        // Values repeat, keys and values are 0.
        let same = |keys: &[u64]| lines(keys.iter().map(|key| format!("insert {key} 0")));
        let script = same(&[0, 10, 20, 30, 40, 50])
            + "explore\ninsert 15 0\nremove 10\ninsert 35 0\nremove 0\ninsert 25 0\ninsert 0 \
                0\nremove 40\n";
        add("values that repeat", 8, &script);
        // A slot that an insertion moves to holds the very key that is moved there, with another
        // value.
        let script = inserts([10, 20, 30, 40, 50])
            + "remove 30\nupdate 50 9\nexplore\ninsert 45 1\nremove 10\nupdate 20 7\ninsert 25 1\n";
        add("a dead slot with the key that is moved", 8, &script);

        // The terminator of an array moves into a line of its own; whatever is there.
        let script =
            inserts([10, 20, 30]) + "explore\ninsert 40 1\nremove 40\ninsert 25 1\nremove 10\n";
        add("the end of a line", 8, &script);
        // Copies of counts that another opening has left, in a header that lags behind its entries.
        let script = inserts([10, 20, 30])
            + "explore\nreopen\ninsert 40 1\ninsert 50 1\nremove 10\nremove 20\nreopen\nremove \
                30\nremove 40\nremove 50\ninsert 7 7\n";
        add("opened again and changed", 8, &script);

        let full = two_leaves();
        for site in cuts.split {
            let script = format!(
                "{full}cut sorted.split.{site} insert 25 1\nremove 10\nremove 40\ninsert 25 \
                2\ninsert 35 1\n"
            );
            add(&format!("split cut before {site}, then removals"), 4, &script);
        }
        // A full node that leads to the new one is what recovery knows a split by that has not cut
        // it.
        let script = format!(
            "{full}cut sorted.split.{} insert 25 1\ninsert 11 1\ninsert 12 2\nremove 60\n",
            cuts.halved
        );
        add("split cut after its commit, then the leaf filled", 4, &script);
        let three = inserts([10, 20, 30, 40, 60, 70, 80, 90, 50]) + &removes([10, 50]);
        add("a merge right after a shift", 8, &format!("{three}explore\nremove 30\ninsert 25 1\n"));
        for site in ["G1.fence", "G2.root", "G2.fence"] {
            let script = format!(
                "{}cut sorted.root.{site} insert 25 1\ninsert 35 2\nremove 10\n",
                inserts([10, 20, 30, 40])
            );
            add(&format!("growth by a level cut before {site}"), 4, &script);
        }
        let few = two_leaves() + &removes([20, 30, 40, 60, 70]);
        for site in cuts.merge {
            let script = format!(
                "{few}cut sorted.merge.{site} remove 80\ninsert 25 1\nremove 10\ninsert 65 1\n"
            );
            add(&format!("merge cut before {site}"), 4, &script);
        }
        for site in ["D1.fence", "D2.root"] {
            let script = format!(
                "{few}cut sorted.merge.{site} remove 80\ninsert 25 1\nremove 10\ninsert 65 1\n"
            );
            add(&format!("shrinking by a level cut before {site}"), 4, &script);
        }
        if keys == U64 {
            many_nodes(&mut add);
            cut_steps(cuts, &mut add);
        }
    }
    cases
}

/// Adds a scenario: its name, the number of entries in a node, its script.
type Add<'a> = dyn FnMut(&str, u32, &str) + 'a;

/// Trees of several levels that grow and shrink.
fn many_nodes(add: &mut Add<'_>) {
    let script = inserts((1..20).map(|i| i * 10))
        + "explore\n"
        + &inserts((20..32).map(|i| i * 10))
        + &inserts([5, 4, 3, 2]);
    add("ascending, and then descending", 4, &script);
    let script = inserts((1..24).map(|i| i * 10))
        + "explore\n"
        + &removes((1..24).map(|i| i * 10))
        + "insert 7 7\n";
    add("emptied from the left", 4, &script);
    let script = inserts((1..24).rev().map(|i| i * 10))
        + "explore\n"
        + &removes((1..24).rev().map(|i| i * 10))
        + "insert 7 7\n";
    add("emptied from the right", 4, &script);
    let script = inserts((1..32).map(|i| i * 37 % 32))
        + "explore\n"
        + &removes((1..32).map(|i| i * 11 % 32));
    add("emptied at random", 4, &script);
    let script = inserts((1..30).map(|i| i * 10))
        + "explore\n"
        + &removes([50, 60, 70, 80, 90, 100, 110, 120, 20, 30]);
    add("merges of wider nodes", 8, &script);
}

/// Shifts that were cut, and what follows.
fn cut_steps(cuts: &Cuts, add: &mut Add<'_>) {
    let some = inserts([10, 20, 30, 40, 50, 60]);
    for (operation, sites) in [
        ("insert 45 1", cuts.insert),
        ("insert 15 1", cuts.insert),
        ("remove 50", cuts.remove),
        ("remove 20", cuts.remove),
    ] {
        for site in sites {
            let script = format!(
                "{some}cut {site} {operation}\nupdate 60 7\ninsert 5 1\ninsert 70 1\nremove 30\n"
            );
            add(&format!("{operation} cut before {site}"), 8, &script);
        }
    }
}

/// So many keys whose first stands in slot `base`; then insertions and removals in the lower and in
/// the upper half.
fn shifts(base: u32, keys: u32) -> String {
    let (key, keys) = (|position: u32| u64::from(position) * 10 + 100, keys.max(2));
    // Appended and removed again: the ring turns.
    let turn = lines((0..base).map(|i| format!("insert {} 1", i + 1)));
    let turned = removes((0..base).map(|i| u64::from(i) + 1));
    let (low, high) = (key(1), key(keys - 2));
    turn + "insert 99 1\n"
        + &turned
        + &inserts((1..keys).map(key))
        + &format!(
            "explore\ninsert {} 1\ninsert {} 2\nremove {low}\nremove {high}\n",
            low + 5,
            high + 5
        )
}

/// Shifts in nodes of 8 entries, in rings to either side from every slot, with every number of
/// entries.
fn every_base_and_fill(engine: Engine) -> Vec<Directed> {
    let mut cases = Vec::new();
    for keys in [U64, Bytes] {
        for base in if has_arrays(engine) { 0..1 } else { 0..8 } {
            for fill in 3..8 {
                let name = format!("{fill} entries from slot {base}");
                cases.push(Directed::sized(&name, keys, 8, &shifts(base, fill)));
            }
        }
    }
    cases
}
