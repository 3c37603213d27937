//! Directed scenarios of trees whose inner nodes are one line: every publication, plain and cut,
//! and what follows after each.

use everleaf::{Engine, KeyType};

use super::{Directed, Family, Member, Needs, inserts, lines, removes};
use crate::Level::{Index, Store};
use crate::ScriptKeys;
use crate::ScriptKeys::{Bytes, U64};

pub(super) const FAMILY: Family = Family {
    members: &[
        Member { engine: "clftree-append", folders: &["clftree"], needs: NEEDS, ..Member::PLAIN },
        Member {
            engine: "clftree-inplace",
            folders: &["clftree"],
            needs: IN_PLACE_NEEDS,
            ..Member::PLAIN
        },
        Member {
            engine: "clftree-encoded",
            folders: &["clftree"],
            needs: ENCODED_NEEDS,
            ..Member::PLAIN
        },
        Member {
            engine: "clftree-shadow",
            folders: &["clftree"],
            needs: SHADOW_NEEDS,
            ..Member::PLAIN
        },
        Member {
            engine: "clftree-encoded-shadow",
            folders: &["clftree"],
            needs: ENCODED_SHADOW_NEEDS,
            ..Member::PLAIN
        },
    ],
    equivalent_mutants: &[
        ("clftree.recover.R2.root", FIRST_ROOT),
        ("clftree.recover.R2.fence", FIRST_ROOT),
    ],
    directed,
    ..Family::PLAIN
};

const FIRST_ROOT: &str = "in clftree-encoded-shadow a change of the first leaf is a copy, whose \
    commit is the root word: so that is flushed with the first key, and an empty tree may be made \
    again (the other clfB-trees change the first leaf in place: there it is missed)";

/// The order of the paper is counted and not explored: its barriers are those of other engines.
const NEEDS: &[(&str, Needs)] = &[
    ("clftree.insert.P1.entry", Needs::SeveralLines),
    ("clftree.remove.R1.records", Needs::BytesKeys),
    ("clftree.link.", Needs::Store),
    ("clftree.publish.A2.", Needs::WholeLines),
    ("clftree.publish.L1.", Needs::WholeLines),
    ("clftree.publish.S2.", Needs::OtherEngine),
    ("clftree.remove.D1.", Needs::OtherEngine),
    ("clftree.encoded.", Needs::OtherEngine),
    ("clftree.paper.", Needs::OtherEngine),
];
const IN_PLACE_NEEDS: &[(&str, Needs)] = &[
    ("clftree.insert.P1.entry", Needs::SeveralLines),
    ("clftree.remove.R1.records", Needs::BytesKeys),
    ("clftree.link.", Needs::Store),
    ("clftree.publish.A2.", Needs::OtherEngine),
    ("clftree.publish.L1.", Needs::OtherEngine),
    ("clftree.publish.S2.", Needs::OtherEngine),
    ("clftree.remove.D1.", Needs::OtherEngine),
    ("clftree.encoded.", Needs::OtherEngine),
    ("clftree.paper.", Needs::OtherEngine),
];
/// The log is for full pools, and as in the trees that always write it.
const SHADOW_NEEDS: &[(&str, Needs)] = &[
    ("clftree.insert.P1.entry", Needs::SeveralLines),
    ("clftree.remove.R1.records", Needs::BytesKeys),
    ("clftree.link.", Needs::Store),
    ("clftree.publish.A2.", Needs::OtherEngine),
    ("clftree.publish.L1.", Needs::OtherEngine),
    ("clftree.publish.P1.log", Needs::OtherEngine),
    ("clftree.publish.P2.invalid", Needs::OtherEngine),
    ("clftree.publish.P2.words", Needs::OtherEngine),
    ("clftree.publish.P2.line", Needs::OtherEngine),
    ("clftree.recover.L", Needs::OtherEngine),
    ("clftree.encoded.", Needs::OtherEngine),
    ("clftree.paper.", Needs::OtherEngine),
];
const ENCODED_SHADOW_NEEDS: &[(&str, Needs)] = &[
    ("clftree.insert.", Needs::OtherEngine),
    ("clftree.update.", Needs::OtherEngine),
    ("clftree.remove.R", Needs::OtherEngine),
    ("clftree.split.", Needs::OtherEngine),
    ("clftree.link.", Needs::OtherEngine),
    ("clftree.publish.A2.", Needs::OtherEngine),
    ("clftree.publish.L1.", Needs::OtherEngine),
    ("clftree.publish.P1.log", Needs::OtherEngine),
    ("clftree.publish.P2.invalid", Needs::OtherEngine),
    ("clftree.publish.P2.words", Needs::OtherEngine),
    ("clftree.publish.P2.line", Needs::OtherEngine),
    ("clftree.recover.L", Needs::OtherEngine),
    ("clftree.paper.", Needs::OtherEngine),
];
/// An entry has no slot and no live bit: leaves change as lines.
const ENCODED_NEEDS: &[(&str, Needs)] = &[
    ("clftree.insert.", Needs::OtherEngine),
    ("clftree.update.", Needs::OtherEngine),
    ("clftree.remove.", Needs::OtherEngine),
    ("clftree.split.", Needs::OtherEngine),
    ("clftree.link.", Needs::OtherEngine),
    ("clftree.publish.A2.", Needs::WholeLines),
    ("clftree.publish.L1.", Needs::WholeLines),
    ("clftree.publish.S2.", Needs::OtherEngine),
    ("clftree.paper.", Needs::OtherEngine),
];

/// Where an operation is cut that overwrites an inner node.
const CUTS: &[&str] = &[
    "publish.P1.log",
    "publish.P1.fence",
    "publish.P2.invalid",
    "publish.P2.words",
    "publish.P2.line",
    LAST_FENCE,
];
const LAST_FENCE: &str = "publish.P2.fence";
/// The same where it is copied, below the root word and below another inner node.
const CUTS_OF_COPIES: &[&str] = &["publish.P1.fence", "publish.P2.root", LAST_FENCE];
const CUTS_BELOW: &[&str] = &["publish.P1.fence", "publish.S2.word", LAST_FENCE];

/// Whether an engine copies lines.
fn copies(engine: Engine) -> bool {
    engine.name().ends_with("-shadow")
}

/// Keys so far apart that a difference of two has eight bytes: seven children fill a line.
fn far(i: u64) -> u64 {
    i << 57
}

/// All of an engine.
fn directed(engine: Engine) -> Vec<Directed> {
    let cuts = if copies(engine) { CUTS_OF_COPIES } else { CUTS };
    let mut cases = of_inner_nodes(cuts);
    cases.extend(if copies(engine) { of_copies() } else { of_the_log() });
    if engine.has_keys(KeyType::Bytes) {
        cases.extend(of_entries_of_one_record(cuts));
        return cases;
    }
    let cases = cases.into_iter().filter(|case| case.keys == U64 && case.slots.is_none());
    let cases = cases.map(|case| Directed { script: wide(&case.script), ..case });
    cases.chain(of_encoded_leaves(cuts)).collect()
}

/// The same script with keys and values so far apart that three entries fill an encoded leaf.
fn wide(script: &str) -> String {
    let line = |line: &str| {
        let mut key = None;
        let words = line.split(' ').map(|word| match (word.parse::<u64>(), key) {
            (Ok(number), None) => {
                key = Some(number);
                if number < 256 { (number << 56).to_string() } else { word.to_owned() }
            }
            (Ok(number), Some(key)) if key < 256 => (((key + number) % 256) << 56).to_string(),
            _ => word.to_owned(),
        });
        words.collect::<Vec<_>>().join(" ")
    };
    lines(script.lines().map(line))
}

/// Entries of one record: only separators have records of their own, which come and go beside the
/// two fences of a write. A leaf has three slots.
fn of_entries_of_one_record(cuts: &[&str]) -> Vec<Directed> {
    let store = |name: &str, script: &str| {
        Directed::new(format!("{name}, one record"), Store, Bytes, 1, script).with_budget(16)
    };
    let full = inserts([10, 20, 30, 40, 50]);
    let mut cases = Vec::new();
    for site in cuts {
        let script =
            format!("{full}cut clftree.{site} insert 45 1\ninsert 46 2\nremove 45\nremove 10\n");
        cases.push(store(&format!("split cut before {site}"), &script));
        let before = inserts((1..8).map(|i| i * 10)) + "remove 30\n";
        let script = format!("{before}cut clftree.{site} remove 40\ninsert 45 1\nremove 10\n");
        cases.push(store(&format!("last key of a leaf cut before {site}"), &script));
    }
    let script = full + "explore\nremove 20\nremove 10\ninsert 45 1\nreopen\nupdate 45 2\n";
    cases.push(store("leaves emptied and split", &script));
    cases
}

/// What only encoded leaves do: an entry comes, changes and goes by the publication of the leaf,
/// and a value that needs more bytes splits it.
fn of_encoded_leaves(cuts: &[&str]) -> Vec<Directed> {
    let mut cases = Vec::new();
    let mut add = |name: &str, script: &str| {
        cases.push(Directed::new(format!("{name}, encoded"), Index, U64, 1, script));
    };
    let row = inserts(1..24);
    let wide = u64::MAX >> 1;
    let script = format!("{row}explore\nupdate 7 {wide}\nupdate 8 {wide}\nupdate 7 7\nremove 7\n");
    add("a value that fits into neither half makes three leaves", &script);
    add(
        "the first value of a leaf, which is its base",
        &format!("{row}explore\nupdate 1 {wide}\n"),
    );
    let script = format!("{row}explore\ninsert 24 24\ninsert 25 25\nremove 1\nremove 2\n");
    add("a leaf of the most entries", &script);
    for (operation, two) in [("insert 5 1", false), ("update 2 9", true), ("remove 1", true)] {
        for site in cuts {
            let before = if two { inserts((1..6).map(far)) } else { String::new() };
            let script = format!(
                "{before}insert 1 1\ninsert 2 2\ncut clftree.{site} {operation}\ninsert 3 \
                1\nremove 2\nupdate 3 4\nremove 3\n"
            );
            add(&format!("`{operation}` cut before {site}"), &script);
        }
    }
    cases
}

/// Leaves of one key, below several inner nodes.
fn leaves_of_one_key() -> String {
    inserts((1..41).map(far)) + &removes((0..20).map(|i| far(2 * i + 1)))
}

/// The log has another inner node after recovery: what that restored must be durable before.
fn of_the_log() -> Vec<Directed> {
    let cut = |site: &&str| {
        let script = leaves_of_one_key()
            + &format!("cut clftree.{site} remove {}\n", far(4))
            + &removes([38, 4, 36, 6].map(far));
        let name = format!("ends of leaves below two inner nodes, cut before {site}");
        Directed::new(name, Index, U64, 1, &script)
    };
    ["publish.P2.invalid", "publish.P2.words"].iter().map(cut).collect()
}

/// Copies to which a word of an inner node leads. What an operation frees the next one writes.
fn of_copies() -> Vec<Directed> {
    let ends = |site: &&str| {
        let script = leaves_of_one_key()
            + &format!("cut clftree.{site} remove {}\n", far(38))
            + &removes([38, 36, 34, 4].map(far));
        (format!("ends of leaves below two inner nodes, cut before {site}"), script)
    };
    let splits = |site: &&str| {
        let (old, new) = (far(30), far(30) + 2);
        let script = inserts((1..41).map(far))
            + &format!("insert {} 1\ncut clftree.{site} insert {new} 1\n", old + 1)
            + &lines((3..7).map(|i| format!("insert {} 1", old + i)))
            + &removes([old, new]);
        (format!("splits below two inner nodes, cut before {site}"), script)
    };
    let scripts = CUTS_BELOW.iter().flat_map(|site| [ends(site), splits(site)]);
    scripts.map(|(name, script)| Directed::new(name, Index, U64, 1, &script)).collect()
}

/// All of the trees whose leaves have slots, three of them.
fn of_inner_nodes(cuts: &[&str]) -> Vec<Directed> {
    let mut cases = Vec::new();
    let mut add = |name: &str, keys: ScriptKeys, script: &str| {
        let name = format!("{name}, {keys:?}");
        cases.push(Directed::new(name, Index, keys, 1, script));
    };
    // Two leaves, of 10 and 20, and of 30 and 40; the second is full with 50.
    let two = inserts([10, 20, 30, 40]);
    for keys in [U64, Bytes] {
        let script = "insert 50 1\ninsert 30 1\nexplore\ninsert 40 2\nupdate 40 3\nupdate 40 \
            4\nremove 40\nupdate 50 5\ninsert 10 1\nupdate 10 2\ninsert 20 1\ninsert 60 1\nupdate \
            60 6\nremove 50\nupdate 60 7\nreopen\nremove 30\nupdate 20 3\ninsert 5 1\n";
        add("plain operations and a split of the root", keys, script);
        let script = format!("{two}explore\ninsert 50 1\ninsert 60 2\ninsert 15 3\ninsert 12 4\n");
        add("splits below an inner node", keys, &script);
        let script = format!("{two}insert 50 1\ninsert 60 2\nexplore\n")
            + &removes([10, 20, 60, 50, 40, 30])
            + "insert 5 1\n";
        add("leaves that are emptied, down to the last", keys, &script);
        for site in cuts {
            let then = "insert 70 1\nremove 10\nremove 20\ninsert 35 2\ninsert 36 3\n";
            let script = format!("{two}insert 50 1\ncut clftree.{site} insert 60 1\n{then}");
            add(&format!("split cut before {site}"), keys, &script);
            if keys == Bytes && *site == LAST_FENCE {
                continue; // The record is freed next, and that fences.
            }
            let script = format!("{two}insert 50 1\ninsert 60 1\nremove 20\n")
                + &format!("cut clftree.{site} remove 10\n{then}");
            add(&format!("the end of a leaf cut before {site}"), keys, &script);
        }
        for site in ["publish.P2.root", LAST_FENCE] {
            let then = "insert 70 1\ninsert 25 1\ninsert 15 2\nremove 10\nremove 15\nremove 20\n";
            let script = format!(
                "insert 10 1\ninsert 20 1\ninsert 30 1\ncut clftree.{site} insert 40 1\n{then}"
            );
            add(&format!("split of the root cut before {site}"), keys, &script);
            if keys == Bytes && site == LAST_FENCE {
                continue;
            }
            let script = format!("{two}remove 20\ncut clftree.{site} remove 10\n{then}");
            add(&format!("end of the root cut before {site}"), keys, &script);
        }
        let script = inserts([10, 20])
            + "explore\ninsert 10 1\nupdate 15 1\nremove 15\nupsert 20 1\nupsert 30 1\nremove \
                10\nremove 30\nremove 20\nremove 20\ninsert 20 1\ncrash\ninsert 30 1\n";
        add("refusals, and the last entry of the tree", keys, &script);
        let script = "insert 10 1\nexplore\nremove 10\ninsert 10 2\nremove 10\ninsert 10 3\nremove \
            10\ninsert 10 4\nupdate 10 5\nremove 10\ninsert 10 6\nremove 10\n";
        add("one key put, removed and put again", keys, script);
        // A run of 4096 bytes has 64 leaves.
        let script = inserts((1..126).map(|i| i * 10)) + "explore\n" + &inserts(1251..1256);
        add("run of leaves taken", keys, &script);
        let script = inserts((1..260).map(|i| i * 10))
            + &removes((4..260).map(|i| i * 10))
            + "explore\n"
            + &removes([10, 20, 30]);
        add("runs given back", keys, &script);
    }
    let script = inserts((1..14).map(far))
        + "explore\n"
        + &lines((14..17).map(|i| format!("insert {} 1", far(i))));
    add("first inner node split", U64, &script);
    let script = inserts((1..55).map(far))
        + "explore\n"
        + &lines((1..9).map(|i| format!("insert {} 1", far(i) + 1)))
        + &removes([far(1), far(1) + 1, far(2), far(2) + 1, far(3)]);
    add("inner nodes split and emptied", U64, &script);
    let script = inserts((1..40).map(far)) + "explore\n" + &removes((1..8).map(far));
    add("inner nodes of one child", U64, &script);
    for (operation, sites) in [
        ("insert 15 1", ["insert.P2.order", "insert.P2.live", "insert.P2.fence"]),
        ("remove 20", ["remove.R1.records", "remove.R1.fence", "remove.R2.live"]),
    ] {
        for site in sites {
            let script = format!(
                "insert 10 1\ninsert 20 1\ncut clftree.{site} {operation}\nremove 20\ninsert 25 \
                2\ninsert 15 3\nremove 15\nremove 10\n"
            );
            add(&format!("`{operation}` cut before {site}"), Bytes, &script);
        }
    }
    for keys in [U64, Bytes] {
        // An entry beyond the line of the live bits.
        let script = inserts([10, 20, 30])
            + "explore\ninsert 40 1\nupdate 40 2\nremove 40\ninsert 50 3\nremove 10\ninsert 5 \
                1\ninsert 60 1\ninsert 70 1\ninsert 80 1\ninsert 15 1\n";
        cases.push(Directed::sized("entries in several lines", keys, 7, &script));
        // A quarter of these lines is not written at once, but by the log after all.
        let script = format!("{two}explore\n")
            + &inserts([50, 60, 70, 80, 15, 12, 90, 100, 110])
            + &removes([10, 12, 20, 15, 100, 110]);
        let name = format!("inner nodes written at once, {keys:?}");
        cases.push(Directed::new(name, Index, keys, 1, script).with_whole_lines());
    }
    cases
}
