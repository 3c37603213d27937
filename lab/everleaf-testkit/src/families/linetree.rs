//! Directed scenarios of a tree whose entries commit themselves within their line: entries that go
//! past full lines, splits that leave behind what they have moved, leaves that are taken over by
//! their right neighbours and serve again; each of them cut, and what follows.

use everleaf::Engine;

use super::{Directed, Family, Member, Needs, inserts, lines, removes};
use crate::Level::Store;
use crate::ScriptKeys::{Bytes, U64};

pub(super) const FAMILY: Family = Family {
    members: &[Member {
        engine: "linetree",
        folders: &["linetree", "tree"],
        needs: &[
            ("linetree.link.", Needs::Store),
            ("linetree.batch.", Needs::Store),
            ("linetree.own.", Needs::KeyRecords),
            ("linetree.recover.O3.", Needs::BytesKeys),
            ("linetree.split.S3.", Needs::BytesKeys),
            ("linetree.split.S4.", Needs::BytesKeys),
        ],
        ..Member::PLAIN
    }],
    equivalent_mutants: &[
        (
            "linetree.split.S4.from",
            "where `from` is still set, recovery looks at two leaves and finds nothing that both \
             have: it is flushed so that not every recovery looks at all leaves",
        ),
        (
            "swap linetree.batch.P2.fence",
            "what follows the round begins with lines of a new leaf, or with a removal that \
             empties a leaf: of other lines, and the log makes both again; left out, it is missed",
        ),
    ],
    directed,
    meetings: MEETINGS,
    ..Family::PLAIN
};

/// What threads can do to each other where leaves split and end.
const MEETINGS: &[(&str, &str, &str)] = &[
    ("a split and a reader of what moves", EIGHT, "thread 1 insert 45 1\nthread 2 get 80\n"),
    (
        "a split and a change of what moves",
        EIGHT,
        "thread 1 insert 45 1\nthread 2 update 80 2\nthread 3 get 80\n",
    ),
    ("two that split one leaf", EIGHT, "thread 1 insert 45 1\nthread 2 insert 55 2\n"),
    (
        "the end of a leaf and a reader of its neighbour",
        TWO,
        "thread 1 remove 10\nthread 2 get 60\nthread 2 get 10\n",
    ),
    (
        "the end of a leaf and an insertion into it",
        TWO,
        "thread 1 remove 10\nthread 2 insert 20 2\nthread 3 get 20\n",
    ),
    (
        "the ends of two neighbours",
        THREE,
        "thread 1 remove 10\nthread 2 remove 60\nthread 3 get 90\n",
    ),
    (
        "the end of a leaf and a change in its neighbour",
        TWO,
        "thread 1 remove 10\nthread 2 update 60 2\nthread 2 remove 70\n",
    ),
    (
        "a leaf that serves again, and a reader",
        TWO,
        "thread 1 remove 10\nthread 1 insert 51 1\nthread 1 insert 52 1\nthread 1 insert 53 \
        1\nthread 1 insert 54 1\nthread 2 get 10\nthread 2 get 60\n",
    ),
];

/// A full leaf.
const EIGHT: &str = "insert 10 1\ninsert 20 1\ninsert 30 1\ninsert 40 1\ninsert 50 1\n\
    insert 60 1\ninsert 70 1\ninsert 80 1\n";
/// Two leaves, of 10, and of 50, 60, 70 and 80.
const TWO: &str = "insert 10 1\ninsert 20 1\ninsert 30 1\ninsert 40 1\ninsert 50 1\n\
    insert 60 1\ninsert 70 1\ninsert 80 1\ninsert 45 1\nremove 20\nremove 30\nremove 40\n\
    remove 45\n";
/// Three leaves, of 10, of 60, and of 85 to 99.
const THREE: &str = "insert 10 1\ninsert 20 1\ninsert 30 1\ninsert 40 1\ninsert 50 1\n\
    insert 60 1\ninsert 70 1\ninsert 80 1\ninsert 45 1\ninsert 85 1\ninsert 90 1\ninsert 95 1\n\
    insert 99 1\ninsert 75 1\nremove 20\nremove 30\nremove 40\nremove 45\nremove 50\n\
    remove 70\nremove 75\nremove 80\n";

/// Where a change of one entry is cut.
const CHANGES: &[(&str, &[&str])] = &[
    ("insert 15 2", &["insert.P1.order", "insert.P1.entry", "insert.P1.fence"]),
    ("update 20 2", &["update.U1.value", "update.U1.fence"]),
    ("remove 20", &["remove.R1.entry", "remove.R1.fence"]),
];
/// Where a split is cut.
const SPLITS: &[&str] = &[
    "publish.S1.line",
    "publish.S1.fence",
    "publish.S2.order",
    "publish.S2.head",
    "publish.S2.fence",
    "insert.P1.entry",
];
/// The same of byte strings.
const STRING_SPLITS: &[&str] = &[
    "publish.S1.line",
    "publish.S1.fence",
    "publish.S2.head",
    "publish.S2.fence",
    "split.S3.line",
    "split.S3.fence",
    "split.S4.from",
    "insert.P1.entry",
];
/// Where the end of a leaf is cut.
const ENDS: &[&str] = &[
    "end.D1.dying",
    "end.D1.fence",
    "end.D2.bound",
    "end.D2.fence",
    "end.D3.live",
    "end.D3.fence",
];

/// Keys from 1000 on whose home is this line of so many.
fn at_home(line: u64, lines: u64) -> impl Iterator<Item = u64> {
    let spread = |key: u64| {
        let mixed = (key >> 4).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed.wrapping_add((key & 15).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    };
    let home = move |key: u64| ((spread(key) >> 32) * lines) >> 32;
    (1000..).filter(move |key| home(*key) == line)
}

/// All of them. Leaves have two lines of four entries, or six.
fn directed(_: Engine) -> Vec<Directed> {
    let mut cases = Vec::new();
    let mut add = |name: &str, slots: u32, script: &str| {
        cases.push(Directed::sized(name, U64, slots, script));
    };
    let tens = |last: u64| inserts((1..=last).map(|i| i * 10));

    let script = "insert 50 1\ninsert 30 1\nexplore\ninsert 40 2\nupdate 40 3\nremove 40\nupdate \
        50 5\ninsert 10 1\nupdate 10 2\ninsert 20 1\nremove 50\nreopen\nremove 30\ninsert 5 1\n";
    add("plain operations", 8, script);
    let script = inserts([10, 20])
        + "explore\ninsert 10 1\nupdate 15 1\nremove 15\nupsert 20 1\nupsert 30 1\nremove \
            10\nremove 30\nremove 20\nremove 20\ninsert 20 1\ncrash\ninsert 30 1\n";
    add("refusals, and the last entry of the tree", 8, &script);
    let ends = [0, (1 << 63) - 1, 1 << 63, u64::MAX];
    add("keys at the ends of both halves", 8, &(inserts(ends) + &removes(ends)));
    let script = tens(8) + "explore\n" + &inserts([45, 46, 85, 90, 95, 99, 75, 44, 43]);
    add("splits", 8, &script);
    let script = tens(8) + "explore\n" + &inserts((9..20).map(|i| i * 10)) + "remove 90\n";
    add("splits at the right edge", 8, &script);

    for (line, of) in [(0, 2), (1, 2), (5, 6)] {
        let slots = of as u32 * 4;
        let keys: Vec<u64> = at_home(line, of).take(9).collect();
        let script = inserts(keys[..3].iter().copied())
            + "explore\n"
            + &inserts(keys[3..6].iter().copied())
            + &removes([keys[0], keys[4]])
            + &inserts([keys[4], keys[6]])
            + &lines([format!("update {} 9", keys[4]), format!("remove {}", keys[3])]);
        add(&format!("entries that went past line {line}"), slots, &script);
        let script = inserts(keys[..6].iter().copied())
            + "explore\n"
            + &removes(keys[..4].iter().copied())
            + &inserts([keys[7], keys[8], keys[1]])
            + &removes([keys[5], keys[7]]);
        add(&format!("room in line {line} that entries went past"), slots, &script);
    }
    // Sixteen keys of one home and eight of the next line: the window is full before the leaf is.
    let crowd: Vec<u64> = at_home(4, 6).take(13).chain(at_home(5, 6).take(4)).collect();
    let script =
        inserts(crowd[..15].iter().copied()) + "explore\n" + &inserts(crowd[15..].iter().copied());
    add("a window that is full in a leaf that is not", 24, &script);

    let moved = [50, 60, 70, 80];
    let script =
        tens(8) + "insert 45 1\nexplore\nremove 60\n" + &removes([80, 70, 50]) + &inserts([60, 70]);
    add("what has moved is removed, and put again", 8, &script);
    let script = tens(8) + "explore\ninsert 45 1\nremove 60\nremove 45\ninsert 60 2\n";
    add("a split, and at once what it has moved", 8, &script);
    let three = tens(8) + &inserts([45, 85, 90, 95, 99, 75]);
    let (first, second) = ([10, 20, 30, 40, 45], [50, 60, 70, 75, 80]);
    let script = format!("{three}{}explore\n", removes(first[1..].iter().copied()))
        + &removes([10])
        + &inserts([5, 15])
        + &removes([5, 15]);
    add("the end of the first leaf", 8, &script);
    let script = three.clone()
        + &removes(first[1..].iter().chain(&second[1..]).copied())
        + "explore\nremove 50\nremove 10\ninsert 55 1\ninsert 12 1\n";
    add("a leaf that has taken over two", 8, &script);
    let script = three.clone()
        + &removes(first[1..].iter().chain(&second[1..]).copied())
        + "explore\nremove 10\nremove 50\ninsert 55 1\ninsert 12 1\n";
    add("a leaf that has taken over one dies", 8, &script);
    let script = three.clone() + &removes([85, 90, 95]) + "explore\nremove 99\ninsert 91 1\n";
    add("the last leaf of a half is emptied", 8, &script);
    let script = three.clone()
        + &removes(second[1..].iter().copied())
        + "explore\nremove 50\n"
        + &inserts([41, 42, 43, 44, 52])
        + &removes([44, 45, 52]);
    add("a leaf serves again at once", 8, &script);

    for (operation, sites) in CHANGES {
        for site in *sites {
            let script = inserts([10, 20, 30])
                + &format!("cut linetree.{site} {operation}\n")
                + "insert 15 3\nupdate 20 4\nremove 20\ninsert 20 5\nremove 15\n";
            add(&format!("{operation} cut before {site}"), 8, &script);
        }
    }
    for site in SPLITS {
        let script = tens(8)
            + &format!("cut linetree.{site} insert 45 1\n")
            + "remove 60\ninsert 45 2\ninsert 46 1\nremove 45\nupdate 80 3\ninsert 47 1\n";
        add(&format!("a split cut before {site}"), 8, &script);
    }
    let script = tens(8)
        + "cut linetree.insert.P1.entry insert 45 1\n"
        + &inserts([11, 12, 13, 14, 15, 16, 17])
        + &removes(moved);
    add("a window that is full of what has moved", 8, &script);
    for site in ENDS {
        let emptied = three.clone() + &removes(second[1..].iter().copied());
        let script = format!("{emptied}cut linetree.{site} remove 50\n")
            + &removes(first)
            + "insert 55 1\ninsert 12 1\nremove 85\n";
        add(&format!("the end of a leaf cut before {site}, and of the one before it"), 8, &script);
        let script = format!("{emptied}cut linetree.{site} remove 50\n")
            + &inserts([55, 41, 42, 43, 44])
            + &removes([85, 90, 95, 99])
            + "remove 55\n";
        add(&format!("the end of a leaf cut before {site}, and it goes on"), 8, &script);
    }
    // The second leaf goes on although it was dying into the third, which dies itself, serves again
    // before the second one, and dies into that.
    let script = format!("{three}{}", inserts([105, 110, 115, 120, 125]))
        + &removes(second[1..].iter().copied())
        + "cut linetree.end.D1.fence remove 50\ninsert 55 1\n"
        + &removes([85, 90, 95, 99, 105, 110, 115, 120])
        + &inserts([41, 42, 43, 44])
        + &removes([41, 42, 43, 44, 45])
        + "insert 56 1\n";
    add("two leaves that died into each other", 8, &script);

    let script = format!("{three}{}", removes(second[1..].iter().copied()))
        + "cut linetree.end.D1.fence remove 50\nreopen\ninsert 51 1\n";
    let case = Directed::sized("a leaf that goes on, closed again", U64, 8, &script);
    cases.push(case.closing());
    let mut add = |name: &str, slots: u32, script: &str| {
        cases.push(Directed::sized(name, U64, slots, script));
    };

    // A group of 4096 bytes has 21 leaves of two lines.
    let script =
        inserts((1..=8 * 19).map(|i| i * 10)) + "explore\n" + &inserts((153..172).map(|i| i * 10));
    add("a group of leaves taken", 8, &script);
    let script = inserts((1..=8 * 24).map(|i| i * 10))
        + &removes((9..=8 * 24).map(|i| i * 10))
        + "explore\n"
        + &removes((1..=8).map(|i| i * 10))
        + "insert 5 1\n";
    add("groups of leaves given back", 8, &script);
    let script = three + "explore\nremove 50\nreopen\ninsert 51 1\nreopen\nremove 51\n";
    cases.push(Directed::sized("closed again", U64, 8, &script).closing());
    cases.extend(linked());
    cases.extend(batches());
    cases.extend(strings());
    cases
}

/// Byte strings, in a tree that has their records and below a store.
fn strings() -> Vec<Directed> {
    let mut cases = Vec::new();
    let mut add = |name: &str, script: &str| {
        cases.push(Directed::sized(name, Bytes, 8, script).with_budget(16));
    };
    let script = "insert 50 1\ninsert 30 1\nexplore\ninsert 40 2\nupdate 40 3\nremove 40\n\
        upsert 50 5\nupsert 10 1\nremove 50\nreopen\nremove 30\ninsert 55 1\nremove 60\n";
    add("plain operations", script);
    for site in ["own.O1.old", "own.O1.fence", "update.U1.value", "update.U1.fence"] {
        let script = format!("{}cut linetree.{site} update 20 2\n", inserts([10, 20, 30]))
            + "update 20 3\nremove 20\ninsert 25 1\nremove 10\n";
        add(&format!("an update cut before {site}"), &script);
    }
    for site in ["own.O1.fence", "remove.R1.entry", "remove.R1.fence", "insert.P1.entry"] {
        let change = if site.starts_with("insert") { "insert 25 1" } else { "remove 20" };
        let script = format!("{}cut linetree.{site} {change}\n", inserts([10, 20, 30]))
            + "upsert 20 3\nupsert 25 3\nremove 20\nremove 25\ninsert 26 1\n";
        add(&format!("a change cut before {site}"), &script);
    }
    let script = format!("{EIGHT}explore\n{}", inserts([45, 46, 85, 90, 95, 99, 75, 44, 43]));
    add("splits", &script);
    for site in STRING_SPLITS {
        let script = format!("{EIGHT}cut linetree.{site} insert 45 1\n")
            + "remove 60\ninsert 15 2\ninsert 46 1\nremove 70\nupdate 80 3\ninsert 16 1\n";
        add(&format!("a split cut before {site}"), &script);
    }
    // The leaf that was split dies, and serves as the upper half of the one that was split from it.
    let serves = format!("{EIGHT}insert 45 1\n{}", inserts([11, 12, 13, 14]))
        + &removes([10, 11, 12, 13, 14])
        + &inserts([51, 52, 53, 54]);
    let script = format!("{serves}explore\ninsert 55 1\nremove 54\nremove 80\ninsert 12 1\n");
    add("two leaves that were split from each other", &script);
    for site in ["publish.S2.fence", "split.S3.line", "split.S3.fence"] {
        let script = format!("{serves}cut linetree.{site} insert 55 1\nremove 80\ninsert 12 1\n");
        add(&format!("two leaves that were split from each other, cut before {site}"), &script);
    }
    let script = format!("{TWO}explore\nremove 10\ninsert 55 1\ninsert 65 1\nremove 60\n");
    add("the end of the first leaf", &script);
    let script = format!("{THREE}explore\nremove 60\nremove 10\ninsert 55 1\ninsert 12 1\n");
    add("a leaf that has taken over two", &script);
    let last = removes([85, 90, 95, 99]);
    let script = format!("{THREE}explore\nremove 10\nremove 60\n{last}insert 55 1\n");
    add("all leaves but one end", &script);
    for site in ENDS {
        let script = format!("{THREE}cut linetree.{site} remove 60\nremove 10\n")
            + "insert 61 1\ninsert 12 1\nremove 85\nremove 61\n";
        add(&format!("the end of a leaf cut before {site}"), &script);
    }
    let script = format!("{TWO}explore\nremove 10\nreopen\ninsert 51 1\nreopen\nremove 51\n");
    cases.push(Directed::sized("closed again", Bytes, 8, &script).closing());
    let script = format!("{EIGHT}cut linetree.split.S4.from insert 45 1\nreopen\ninsert 51 1\n");
    cases.push(Directed::sized("a split not ended, closed again", Bytes, 8, &script).closing());
    let stored = |name: &str, script: &str| {
        Directed::new(format!("{name}, one record"), Store, Bytes, 1, script).with_budget(16)
    };
    for site in ["publish.S2.fence", "split.S3.line", "split.S3.fence", "split.S4.from"] {
        let script = format!("{EIGHT}cut linetree.{site} insert 45 1\n")
            + "remove 60\ninsert 15 2\nremove 15\ninsert 46 1\nremove 70\ninsert 16 1\n";
        cases.push(stored(&format!("a split cut before {site}"), &script));
    }
    cases
}

/// Entries that change together with the records that they lead to.
fn linked() -> impl Iterator<Item = Directed> {
    let scripts = [
        ("a split by an insertion", EIGHT, "insert 45 1\nupdate 80 3\nremove 45\n"),
        ("removals, and the end of a leaf", TWO, "remove 10\ninsert 20 1\nremove 60\n"),
        ("one key put, changed and removed", TWO, "insert 15 1\nupdate 15 2\nremove 15\n"),
    ];
    scripts.into_iter().flat_map(|(name, before, script)| {
        let script = format!("{before}explore\n{script}");
        [U64, Bytes].map(|keys| {
            let name = format!("{name}, with values, {keys:?}");
            Directed::new(name, Store, keys, 1, script.clone()).with_budget(16)
        })
    })
}

/// Batches of several rounds: a leaf that is split between them or at the end, one that is emptied,
/// an entry that goes past a line which the batch itself has filled.
fn batches() -> Vec<Directed> {
    let whole = [
        ("in one round", "insert 45 1; upsert 80 2; upsert 70 4; remove 60"),
        ("a split in the middle", "insert 5 1; insert 45 4; insert 46 2; upsert 60 2; remove 85"),
        ("a split at the end", "upsert 10 2; insert 46 2; insert 47 3; insert 48 4"),
        ("a leaf emptied in the middle", "remove 10; remove 50; remove 60; remove 70; remove 85"),
        (
            "a leaf emptied at the end",
            "upsert 10 2; remove 50; remove 60; remove 70; remove 80; remove 85",
        ),
    ];
    let leaves = inserts([10, 20, 30, 40, 50, 60, 70, 80, 45, 85]) + &removes([20, 30, 40, 45]);
    let cuts = [
        ("pool.batch.B2.fence", "insert 45 1; upsert 60 2; insert 85 2; remove 80"),
        ("linetree.batch.P2.order", "insert 5 1; insert 45 2; upsert 60 2; remove 80"),
        ("linetree.batch.P2.value", "insert 45 1; upsert 60 2; upsert 70 2; remove 80"),
        ("linetree.batch.P2.removed", "insert 45 1; upsert 60 2; remove 70; remove 80"),
        ("linetree.batch.P2.fence", "upsert 10 2; upsert 60 2; insert 45 2; insert 86 5"),
        (
            "linetree.batch.P3.fence",
            "upsert 10 2; remove 50; remove 60; remove 70; remove 80; remove 85",
        ),
    ];
    let mut cases = Vec::new();
    let mut add = |name: String, script: String| {
        for keys in [U64, Bytes] {
            let name = format!("{name}, {keys:?}");
            cases.push(Directed::new(name, Store, keys, 1, &script).with_budget(16));
        }
    };
    for (name, batch) in whole {
        let script = format!("{leaves}explore\nbatch {batch}\ninsert 7 4\nupsert 10 3\n");
        add(format!("a batch, {name}"), script);
    }
    for (site, batch) in cuts {
        let script =
            format!("{leaves}cut {site} batch {batch}\ninsert 7 4\nbatch upsert 10 1; remove 20\n");
        add(format!("a batch cut before {site}"), script);
    }
    // Three keys at home in the first line, then two: one too many for it.
    let keys: Vec<u64> = at_home(0, 2).take(5).collect();
    let script = inserts(keys[..3].iter().copied())
        + &format!("explore\nbatch insert {} 1; insert {} 2\n", keys[3], keys[4])
        + &format!("update {} 3\nremove {}\n", keys[4], keys[0]);
    add("a batch that goes past a line which it has filled".into(), script);
    // Four keys fill the first line, one goes past it; that one goes, and then one of the four, for
    // a batch is made in the order of its keys.
    let script = inserts(keys[1..].iter().chain(&keys[..1]).copied())
        + &format!("explore\nbatch remove {}; remove {}\n", keys[0], keys[1])
        + &format!("insert {} 3\nremove {}\n", keys[0], keys[4]);
    add("a batch that removes what has gone past a line, and from the line".into(), script);
    cases.push(a_line_that_is_not_filled_again());
    cases
}

/// A batch that goes past a line which it has filled, and which is not filled when a crash makes
/// recovery do it again. Four keys fill the last line, three are in the first one. A key at home in
/// the last line goes on to the first one and fills it, so that one at home there must go past it;
/// then one of the last line goes. If only that is durable, the first of these has room at home.
fn a_line_that_is_not_filled_again() -> Directed {
    let last: Vec<u64> = at_home(5, 6).take(5).collect();
    let first: Vec<u64> = at_home(0, 6).filter(|key| *key > last[4]).take(4).collect();
    let script = inserts(last[..4].iter().chain(&first[..3]).copied())
        + &format!("explore\nbatch insert {} 1; insert {} 2; ", last[4], first[3])
        + &format!("remove {}\nupdate {} 3\nremove {}\n", last[0], first[3], first[3]);
    let name = "a batch that goes past a line which is not filled again, U64";
    Directed { slots: Some(24), ..Directed::new(name, Store, U64, 1, script) }.with_budget(16)
}
