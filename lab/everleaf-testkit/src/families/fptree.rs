//! Trees whose leaves have bitmaps: plain and cut splits, updates in place and of several words,
//! groups of leaves, inner nodes, and what follows after each.

use everleaf::Engine;

use super::{Directed, Family, Meetings, Member, Needs, inserts, removes};
use crate::Level::{Index, Store};
use crate::ScriptKeys;
use crate::ScriptKeys::{Bytes, U64};

pub(super) const FAMILY: Family = Family {
    members: &[
        Member {
            engine: "fptree",
            folders: &["fptree", "fptree/serial", "tree"],
            needs: NEEDS,
            ..Member::PLAIN
        },
        Member {
            engine: "fptree-c",
            folders: &["fptree", "fptree/concurrent", "tree"],
            needs: NEEDS,
            meetings: Meetings::ByTransactions,
        },
        Member {
            engine: "ptree",
            folders: &["fptree", "fptree/serial", "tree"],
            needs: PTREE_NEEDS,
            ..Member::PLAIN
        },
    ],
    equivalent_mutants: EQUIVALENT_MUTANTS,
    may_be_idle: &["fptree.batch.P4.fence"],
    directed: trees,
    ..Family::PLAIN
};

const NEEDS: &[(&str, Needs)] = &[
    ("fptree.batch.", Needs::Store),
    ("fptree.batch.P1.value", Needs::OtherEngine),
    ("fptree.group.G1.bound", Needs::BytesKeys),
    ("fptree.group.G1.keys", Needs::KeyRecords),
    ("fptree.insert.P1.refused", Needs::KeyRecords),
    ("fptree.insert.P1.value", Needs::OtherEngine),
    ("fptree.link.", Needs::Store),
    ("fptree.link.N1.value", Needs::OtherEngine),
    ("fptree.split.S1.fence", Needs::KeyRecords),
    ("fptree.split.S2.bound", Needs::U64Keys),
    ("fptree.split.S2.values", Needs::OtherEngine),
    ("fptree.split.S4.", Needs::KeyRecords),
    ("fptree.split.C4.", Needs::KeyRecords),
    ("fptree.update.P1.", Needs::OneWord),
    ("fptree.update.W", Needs::SeveralWords),
    ("fptree.update.W1.value", Needs::OtherEngine),
    ("fptree.update.W3.", Needs::BytesKeys),
    ("fptree.remove.P1.fence", Needs::NoKeyRecords),
    ("fptree.recover.R1.", Needs::KeyRecords),
    ("fptree.recover.R2.fence", Needs::NoKeyRecords),
    ("fptree.recover.R3.", Needs::KeyRecords),
    ("fptree.recover.R5.", Needs::KeyRecords),
    ("fptree.recover.R6.", Needs::U64Keys),
    ("fptree.recover.R7.", Needs::KeyRecords),
];

/// PTree has no fingerprints, and keys and values apart.
const PTREE_NEEDS: &[(&str, Needs)] = &[
    ("fptree.batch.", Needs::Store),
    ("fptree.batch.P3.order", Needs::OtherEngine),
    ("fptree.group.G1.bound", Needs::BytesKeys),
    ("fptree.group.G1.keys", Needs::KeyRecords),
    ("fptree.insert.P1.refused", Needs::KeyRecords),
    // Else the record's allocation flushes the whole entry.
    ("fptree.insert.P1.entry", Needs::NoKeyRecords),
    ("fptree.insert.P2.order", Needs::OtherEngine),
    ("fptree.link.", Needs::Store),
    ("fptree.link.N2.order", Needs::OtherEngine),
    ("fptree.split.S1.fence", Needs::KeyRecords),
    ("fptree.split.S2.bound", Needs::U64Keys),
    ("fptree.split.S2.fingerprints", Needs::OtherEngine),
    ("fptree.split.S4.", Needs::KeyRecords),
    ("fptree.update.P1.", Needs::OneWord),
    ("fptree.update.W", Needs::SeveralWords),
    ("fptree.update.W2.order", Needs::OtherEngine),
    ("fptree.update.W3.", Needs::BytesKeys),
    ("fptree.remove.P1.fence", Needs::NoKeyRecords),
    ("fptree.recover.R1.", Needs::KeyRecords),
    ("fptree.recover.R2.fence", Needs::NoKeyRecords),
    ("fptree.recover.R3.", Needs::KeyRecords),
    ("fptree.recover.R5.", Needs::KeyRecords),
    ("fptree.recover.R6.", Needs::U64Keys),
];

const EQUIVALENT_MUTANTS: &[(&str, &str)] = &[
    (
        "swap fptree.recover.R4.fence",
        "what follows is the next repair, of something else, and a log that is still there after a \
         crash is retired again; that it is \
         durable before the tree is used is what the fence is for: left out, it is missed",
    ),
    (
        "swap fptree.batch.P3.fence",
        "a split that follows the round and allocates first, a leaf or the record of its bound, \
         speaks of other memory until the next fence; where the split's own steps follow at once \
         (fptree, u64 keys) it is missed, and so it is everywhere where it is left out",
    ),
];

/// All of them. Leaves have four slots.
fn trees(engine: Engine) -> Vec<Directed> {
    let mut cases = Vec::new();
    let mut add = |name: &str, keys: ScriptKeys, words: usize, script: &str| {
        let name = format!("{name}, {keys:?}, {words} words");
        cases.push(Directed::new(name, Index, keys, words, script));
    };
    for keys in [U64, Bytes] {
        for words in [1, 2] {
            let script = "insert 50 1\ninsert 30 1\nexplore\ninsert 40 2\nupdate 40 3\nupdate 40 \
                4\nremove 40\nupdate 50 5\ninsert 10 1\nupdate 10 2\ninsert 20 1\ninsert 60 \
                1\nupdate 60 6\nremove 50\nupdate 60 7\nreopen\nremove 30\nupdate 20 3\n\
                insert 5 1\n";
            add("plain operations and a split", keys, words, script);
            // The key moves to another leaf in the split that makes room for its new value.
            let script = inserts([10, 20, 30, 40])
                + "explore\nupdate 40 1\nupdate 10 1\nupdate 20 2\nupdate 30 3\nupdate 40 2\n";
            add("updates in a full leaf", keys, words, &script);
        }
        let full = inserts([10, 20, 30, 40]);
        let cuts: &[&str] = match (engine.is_concurrent(), keys) {
            (true, U64) => &["C2.fence", "C3.bitmap", "C3.fence", "C5.log", "C5.fence"],
            (true, Bytes) => {
                &["C2.fence", "C3.bitmap", "C3.fence", "C4.fence", "C5.log", "C5.fence"]
            }
            _ => &["S2.fence", "S3.left", "S3.fence", "S5.log"],
        };
        for site in cuts {
            let script = format!(
                "{full}cut fptree.split.{site} insert 25 1\nremove 10\nremove 40\ninsert 25 \
                2\ninsert 35 1\n"
            );
            add(&format!("split cut before {site}, then removals"), keys, 1, &script);
        }
        if engine.is_concurrent() {
            // A full leaf is what recovery knows a split by that was not committed.
            let script =
                format!("{full}cut fptree.split.C3.fence insert 25 1\ninsert 11 1\ninsert 12 2\n");
            add("split cut after its commit, then the leaf filled", keys, 1, &script);
        }
        let script = inserts((1..60).map(|i| i * 10))
            + "explore\n"
            + &inserts((60..120).map(|i| i * 10))
            + &removes((60..66).map(|i| i * 10));
        add("inner nodes split", keys, 1, &script);
        let script = inserts([10, 20])
            + "explore\ninsert 10 1\nupdate 15 1\nremove 15\nupsert 20 1\nupsert 30 1\nremove \
                10\nremove 30\nremove 20\n\
                      remove 20\ninsert 20 1\ncrash\ninsert 30 1\n";
        add("refusals, and the last entry of the tree", keys, 1, &script);
        // What was the bound of the leftmost leaf becomes that of another.
        let script = inserts((1..8).map(|i| i * 10))
            + &removes([10, 20, 40])
            + "explore\nremove 30\nreopen\n"
            + &inserts([11, 12, 13, 14]);
        add("leftmost leaf emptied, then keys below its neighbour and a split", keys, 1, &script);
        // A group of 4096 bytes has six leaves with four such entries.
        let script = inserts((1..20).map(|i| i * 10))
            + "explore\n"
            + &inserts([201, 202, 203, 204, 205, 206]);
        add("leaf group taken", keys, 14, &script);
        let script = inserts((1..40).map(|i| i * 10))
            + &removes((8..40).map(|i| i * 10))
            + "explore\n"
            + &removes((1..8).map(|i| i * 10));
        add("leaf groups given back", keys, 14, &script);
    }
    let script = inserts([10, 20, 30, 40])
        + "cut fptree.update.W2.fence update 20 5\nupdate 30 1\nremove 20\ninsert 25 1\n";
    let script_full = script.replace("insert 40 40\n", "");
    add("wide update cut before its end", Bytes, 2, &script_full);
    cases.extend(entries_of_one_record(engine));
    cases.extend(batches());
    cases
}

/// Batches of several rounds: a leaf that is split between them, or at the end, one that is
/// emptied, and what follows, which takes the blocks that they free.
fn batches() -> Vec<Directed> {
    let leaves = inserts([10, 20, 30, 40, 50, 60, 70, 80]);
    let whole = [
        ("one round", "insert 85 1; upsert 80 2; upsert 70 4; insert 86 5"),
        ("a split in the middle", "insert 5 1; insert 6 4; upsert 60 2; insert 85 2; insert 86 3"),
        ("a split at the end", "upsert 10 2; insert 85 1; insert 86 2; insert 87 3"),
        ("a split at the end, of a leaf just filled", "upsert 10 2; insert 5 1; insert 6 4"),
        ("a leaf emptied in the middle", "remove 20; remove 40; remove 50; remove 60; remove 80"),
        ("a leaf emptied at the end", "upsert 10 2; remove 50; remove 70; remove 80"),
        ("a round of words, one of removals", "insert 5 1; upsert 40 1; remove 30; remove 60"),
    ];
    let cuts = [
        ("pool.batch.B2.fence", "insert 5 1; insert 6 4; upsert 60 2; insert 85 2; remove 80"),
        ("fptree.batch.P1.fence", "insert 5 1; insert 6 4; upsert 60 2; insert 85 2; remove 80"),
        ("fptree.batch.P3.value", "upsert 10 2; upsert 60 2; insert 85 2; remove 80"),
        ("fptree.batch.P3.bitmap", "upsert 10 2; upsert 60 2; insert 85 2; remove 80"),
        ("fptree.batch.P3.fence", "upsert 10 2; upsert 60 2; insert 85 2; insert 86 5"),
        ("fptree.batch.P4.fence", "upsert 10 2; insert 85 1; insert 86 2; insert 87 3"),
    ];
    let mut cases = Vec::new();
    for keys in [U64, Bytes] {
        let mut add = |name: String, script: String| {
            cases.push(Directed::new(name, Store, keys, 1, &script).with_budget(16));
        };
        for (name, batch) in whole {
            add(
                format!("a batch, {name}, {keys:?}"),
                format!("{leaves}explore\nbatch {batch}\ninsert 7 4\nupsert 10 3\n"),
            );
        }
        for (site, batch) in cuts {
            add(
                format!("a batch cut before {site}, {keys:?}"),
                format!(
                    "{leaves}cut {site} batch {batch}\ninsert 7 4\nbatch upsert 10 1; remove 20\n"
                ),
            );
        }
    }
    cases
}

/// Entries of one record: dead slots mean nothing, and the records of bounds come and go beside the
/// two fences of a write. Values of chunks go another way.
fn entries_of_one_record(engine: Engine) -> Vec<Directed> {
    let store = |name: &str, script: &str| {
        Directed::new(format!("{name}, one record"), Store, Bytes, 1, script).with_budget(16)
    };
    let full = inserts([10, 20, 30, 40]);
    let cuts: &[&str] = match engine.is_concurrent() {
        true => &["C2.fence", "C3.fence", "C5.fence"],
        false => &["S2.fence", "S3.left", "S3.fence", "S5.log"],
    };
    let mut cases = Vec::new();
    for site in cuts {
        let script = format!(
            "{full}cut fptree.split.{site} insert 25 1\nremove 10\nremove 40\ninsert 25 2\ninsert \
            35 1\n"
        );
        cases.push(store(&format!("split cut before {site}, then removals"), &script));
    }
    let script = inserts((1..8).map(|i| i * 10))
        + &removes([10, 20, 40])
        + "explore\nremove 30\nremove 50\nremove 60\nremove 70\nreopen\n"
        + &inserts([71, 12, 13, 14, 15]);
    cases.push(store("leaves emptied, the leftmost too, then filled again", &script));
    let run = 5u64 << 32;
    let script = format!(
        "{full}explore\ninsert 25 {run}\nupdate 20 {run}\nupdate 25 1\nremove 20\nremove 10\n\
        insert 20 1\n"
    );
    cases.push(store("a split for a run, and runs in place of blocks", &script));
    cases
}
