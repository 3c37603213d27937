//! Directed scenarios of wB+-trees: every change of a leaf and of the structure, plain and cut, and
//! what follows after each, with both kinds of keys.

use everleaf::Engine;

use super::{Directed, Family, Member, Needs, inserts, removes};
use crate::Level::Index;
use crate::ScriptKeys;
use crate::ScriptKeys::{Bytes, U64};

pub(super) const FAMILY: Family = Family {
    members: &[
        Member {
            engine: "wbtree-slot",
            folders: &["wbtree"],
            needs: &[
                ("wbtree.bitmap.", Needs::OtherEngine),
                ("wbtree.mend.", Needs::OtherEngine),
                ("wbtree.remove.R1.", Needs::BytesKeys),
            ],
            ..Member::PLAIN
        },
        Member {
            engine: BITMAP_ENGINE,
            folders: &["wbtree"],
            needs: &[
                ("wbtree.slots.", Needs::OtherEngine),
                ("wbtree.remove.R1.fence", Needs::OtherEngine),
                ("wbtree.remove.R1.records", Needs::BytesKeys),
            ],
            ..Member::PLAIN
        },
    ],
    // The crash may have come before the slot array was changed.
    may_be_idle: &["wbtree.mend.M1.array", "wbtree.mend.M1.fence"],
    directed,
    ..Family::PLAIN
};

const BITMAP_ENGINE: &str = "wbtree-bitmap";

/// Where a change of the structure is cut.
const CUTS: &[&str] = &["P1.fence", "P2.order", "P2.commit", "P2.fence", "P3.place", "P3.fence"];
/// Where a change of a leaf is cut.
const SLOT_CUTS: &[&str] =
    &["slots.P1.entry", "slots.P1.fence", "slots.P2.array", "slots.P2.fence"];
const BITMAP_CUTS: &[&str] = &[
    "bitmap.B1.flag",
    "bitmap.B1.fence",
    "bitmap.B2.entry",
    "bitmap.B2.array",
    "bitmap.B2.fence",
    "bitmap.B3.bitmap",
    "bitmap.B3.fence",
];

/// All of them. Nodes have four entries.
fn directed(engine: Engine) -> Vec<Directed> {
    let cuts = if engine.name() == BITMAP_ENGINE { BITMAP_CUTS } else { SLOT_CUTS };
    let of_keys = |keys| plain(keys).into_iter().chain(cut(keys, cuts));
    let mut cases: Vec<Directed> = [U64, Bytes].into_iter().flat_map(of_keys).collect();
    cases.extend(of_long_values(cuts));
    if engine.name() == BITMAP_ENGINE {
        cases.push(of_a_long_slot_array());
    }
    cases
}

/// Numbers that are in the same order as their digits.
fn far(i: u64) -> u64 {
    100 + i * 10
}

fn plain(keys: ScriptKeys) -> Vec<Directed> {
    let mut cases = Vec::new();
    let mut add = |name: &str, script: &str| {
        cases.push(Directed::new(format!("{name}, {keys:?}"), Index, keys, 1, script));
    };
    let script = "insert 50 1\ninsert 30 1\nexplore\ninsert 40 2\nupdate 40 3\nupdate 40 \
        4\nremove 40\nupdate 50 5\ninsert 10 1\nupdate 10 2\ninsert 20 1\ninsert 60 1\nupdate \
        60 6\nremove 50\nupdate 60 7\nreopen\nremove 30\nupdate 20 3\ninsert 15 1\n";
    add("plain operations and a split of the root", script);
    // Two leaves below the root, of 10 and 20, and of 30, 40 and 50.
    let two = inserts([10, 20, 30, 40, 50]);
    let script = format!("{two}explore\n") + &inserts([60, 70, 15, 12, 11, 80, 90]);
    add("splits below an inner node", &script);
    let script = format!("{two}explore\n") + &removes([10, 20, 50, 40, 30]) + "insert 15 1\n";
    add("leaves that are emptied, down to the last", &script);
    let script = inserts((1..12).map(far))
        + "explore\n"
        + &inserts((12..18).map(far))
        + &inserts([105, 104, 103, 102, 101]);
    add("inner nodes split", &script);
    let script = inserts((1..30).map(far)) + "explore\n" + &removes((1..14).map(far));
    add("inner nodes emptied", &script);
    let script = inserts((1..30).map(far))
        + &removes((1..8).map(far))
        + "explore\n"
        + &inserts([175, 174, 173, 172, 171, 105]);
    add("keys below those of a first child that has gone", &script);
    let script = inserts([10, 20])
        + "explore\ninsert 10 1\nupdate 15 1\nremove 15\nupsert 20 1\nupsert 30 1\nremove \
            10\nremove 30\nremove 20\nremove 20\ninsert 20 1\ncrash\ninsert 30 1\n";
    add("refusals, and the last entry of the tree", &script);
    let script = "insert 10 1\nexplore\nremove 10\ninsert 10 2\nremove 10\ninsert 10 3\ncrash\n\
        remove 10\ninsert 10 4\nupdate 10 5\nupdate 10 6\ncrash\nupdate 10 7\nremove 10\n";
    add("one key put, changed, removed and put again", script);
    // Two of the second level in a row, whose records take two lines of the log.
    let script = inserts((1..30).map(far))
        + &removes([1, 2, 3, 5, 6, 7].map(far))
        + "explore\n"
        + &removes([4, 8].map(far))
        + &inserts([103, 104]);
    add("inner nodes emptied, one behind the other", &script);
    // The nodes of a leaf and of a root are free, and are taken again.
    let script = two + "remove 10\nexplore\nremove 20\n" + &inserts([60, 70, 80, 15, 16, 17]);
    add("nodes that are taken again", &script);
    // A group of 4096 bytes has 31 nodes, or 20.
    let script = inserts((1..36).map(far)) + "explore\n" + &inserts((36..70).map(far));
    add("groups of nodes taken", &script);
    cases
}

/// Operations that are cut, and what comes after them. What an operation after a change of the
/// structure stores is undone if its log is not forgotten.
fn cut(keys: ScriptKeys, cuts: &[&str]) -> Vec<Directed> {
    let mut cases = Vec::new();
    let mut add = |name: String, script: &str| {
        cases.push(Directed::new(format!("{name}, {keys:?}"), Index, keys, 1, script));
    };
    let two = inserts([10, 20, 30, 40, 50]);
    let then = "remove 20\nupdate 40 7\ninsert 35 2\nremove 10\nremove 35\ninsert 11 1\n";
    for site in CUTS {
        let script = format!("{two}insert 60 1\ncut wbtree.redo.{site} insert 70 1\n{then}");
        add(format!("split cut before {site}"), &script);
        let script =
            format!("{}cut wbtree.redo.{site} insert 50 1\n{then}", inserts([10, 20, 30, 40]));
        add(format!("split of the root cut before {site}"), &script);
        let script = format!("{two}remove 20\ncut wbtree.redo.{site} remove 10\n{then}");
        add(format!("the end of a leaf and of the root cut before {site}"), &script);
    }
    let script = format!("{two}remove 20\ncut wbtree.redo.P1.records remove 10\n{then}");
    add("the end of a leaf and of the root cut before P1.records".to_owned(), &script);
    for operation in ["insert 45 1", "remove 30", "update 40 3"] {
        let script =
            format!("{two}remove 20\nremove 10\ncut wbtree.redo.F1.forget {operation}\n{then}");
        add(format!("`{operation}` cut before F1.forget"), &script);
    }
    for site in ["split.S1.node", "split.S1.above"] {
        let script = format!("{two}insert 60 1\ncut wbtree.{site} insert 70 1\n{then}");
        add(format!("split cut before {site}"), &script);
    }
    let few = inserts([10, 30, 40]);
    for site in cuts {
        let script = format!("{few}cut wbtree.{site} insert 20 1\nget 10\n{then}");
        add(format!("insertion cut before {site}"), &script);
        let script = format!("{few}cut wbtree.{site} insert 20 1\nremove 10\nremove 30\n{then}");
        add(format!("insertion cut before {site}, and removals"), &script);
        if !(site.ends_with("entry") || site.ends_with("P1.fence")) {
            let script = format!("{few}cut wbtree.{site} remove 30\ninsert 20 1\n{then}");
            add(format!("removal cut before {site}"), &script);
        }
    }
    cases
}

/// Values that are replaced by another entry; in a full leaf after a split.
fn of_long_values(cuts: &[&str]) -> Vec<Directed> {
    let few = inserts([10, 20, 30]);
    let mut cases = Vec::new();
    let script = format!(
        "{few}explore\nupdate 10 5\nupdate 20 6\ninsert 40 1\nupdate 40 7\nremove \
        10\nupdate 20 8\nreopen\nupdate 30 9\n"
    );
    for words in [2, 14] {
        let name = format!("values of {words} words replaced");
        cases.push(Directed::new(name, Index, U64, words, &script));
    }
    for site in cuts {
        let script =
            format!("{few}cut wbtree.{site} update 20 5\nget 20\nupdate 10 6\nremove 20\n");
        let name = format!("update of a long value cut before {site}");
        cases.push(Directed::new(name, Index, U64, 2, &script));
    }
    cases
}

/// A slot array whose words may be torn, one from the other.
fn of_a_long_slot_array() -> Directed {
    let script = inserts((1..24).map(|i| i * 4))
        + "explore\ninsert 1 1\nremove 92\ninsert 50 1\nupdate 4 2\nremove 8\n";
    Directed::sized("slot arrays of four words", U64, 24, &script)
}
