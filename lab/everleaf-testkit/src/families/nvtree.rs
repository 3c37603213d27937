//! Directed scenarios of trees whose leaves are appended to: every change of the list of leaves,
//! plain and cut, and what follows after each.

use everleaf::Engine;

use super::{Directed, Family, Member, Needs, inserts, removes};
use crate::Level::{Index, Store};
use crate::ScriptKeys;
use crate::ScriptKeys::{Bytes, U64};

pub(super) const FAMILY: Family = Family {
    members: &[
        Member { engine: "nvtree", folders: &["nvtree", "tree"], needs: NEEDS, ..Member::PLAIN },
        Member {
            engine: "nvtree-c",
            folders: &["nvtree", "nvtree/concurrent", "tree"],
            needs: CONCURRENT_NEEDS,
            ..Member::PLAIN
        },
    ],
    equivalent_mutants: EQUIVALENT_MUTANTS,
    directed: appended,
    meetings: MEETINGS,
    ..Family::PLAIN
};

const NEEDS: &[(&str, Needs)] = &[
    ("nvtree.group.G1.", Needs::BytesKeys),
    ("nvtree.split.S3.", Needs::BytesKeys),
    ("nvtree.recover.R3.", Needs::BytesKeys),
    ("nvtree.remove.U0.", Needs::OtherEngine),
];

/// Of byte strings it is the tree for one thread.
const CONCURRENT_NEEDS: &[(&str, Needs)] = &[
    ("nvtree.group.G1.", Needs::BytesKeys),
    ("nvtree.split.S3.", Needs::BytesKeys),
    ("nvtree.recover.R3.", Needs::BytesKeys),
    ("nvtree.remove.U0.", Needs::Store),
    ("nvtree.remove.U0.", Needs::U64Keys),
    ("nvtree.find.H.", Needs::Threads),
    ("nvtree.find.H.", Needs::U64Keys),
];

const EQUIVALENT_MUTANTS: &[(&str, &str)] = &[
    (
        "nvtree.recover.R3.fence",
        "before a record is freed to which a pointer still leads that was made null here, the one \
        thread that is explored fences; the fence is for a tree that another thread uses then",
    ),
    (
        "swap nvtree.split.S3.fence",
        "what follows is an element of another leaf, and recovery forgets once more what it finds \
        in a leaf that is not in the list; that it is durable before a record is freed is what the \
        fence is for: left out, it is missed",
    ),
];

/// What threads can do to each other where leaves are replaced; the operations that come before,
/// and those that meet.
const MEETINGS: &[(&str, &str, &str)] = &[
    (
        "one key put, removed and put again around a full leaf, and a reader",
        FEW_KEYS,
        "thread 1 insert 15 1\nthread 1 remove 15\nthread 1 insert 15 2\nthread 2 get \
        15\nthread 2 get 15\n",
    ),
    ("a removal and a reader", FEW_KEYS, "thread 1 remove 10\nthread 2 get 10\n"),
    (
        "a merge and an insertion into the sibling",
        FIRST_FULL,
        "thread 1 update 20 4\nthread 2 insert 35 1\n",
    ),
    (
        "a merge and a reader of the sibling",
        FIRST_FULL,
        "thread 1 update 20 4\nthread 2 get 40\nthread 2 get 30\n",
    ),
    (
        "a merge and the end of the sibling",
        FIRST_FULL,
        "remove 30\nthread 1 update 20 4\nthread 2 remove 40\n",
    ),
    (
        "two neighbours replaced",
        FIRST_FULL,
        "update 30 1\nupdate 30 2\nthread 1 update 10 9\nthread 2 update 40 9\n",
    ),
    ("two neighbours split", TWO_FULL, "thread 1 insert 15 1\nthread 2 insert 55 1\n"),
    (
        "a leaf split and the end of the one behind it",
        FULL,
        "insert 50 5\nthread 1 insert 15 1\nthread 2 remove 50\n",
    ),
    ("two leaves behind the last", FULL, "thread 1 insert 50 5\nthread 2 insert 60 6\n"),
    (
        "a leaf behind the last, and a key that was on its way to the last",
        FULL,
        "thread 1 insert 60 6\nthread 2 insert 70 7\nthread 2 update 40 5\n",
    ),
    (
        "leaves that serve again, and a reader",
        FEW_KEYS,
        "thread 1 update 10 2\nthread 1 update 10 3\nthread 1 update 10 4\nthread 1 update 10 \
        5\nthread 1 update 10 6\nthread 1 update 10 7\nthread 2 get 20\nthread 2 get 10\n",
    ),
    (
        "a split, an append and a reader",
        FULL,
        "thread 1 insert 15 1\nthread 2 update 40 7\nthread 3 get 40\n",
    ),
    (
        "two neighbours split, and a reader of both",
        TWO_FULL,
        "thread 1 insert 15 1\nthread 2 insert 55 1\nthread 3 get 80\nthread 3 get 40\n",
    ),
];

const FEW_KEYS: &str = "insert 10 1\ninsert 20 1\n";
const FULL: &str = "insert 10 1\ninsert 20 1\ninsert 30 1\ninsert 40 1\n";
/// Two leaves, of 10 and 20, and of 30 and 40; the first is full.
const FIRST_FULL: &str = "insert 10 1\ninsert 20 1\ninsert 30 1\ninsert 40 1\nupdate 20 1\n\
    update 10 2\nupdate 10 3\n";
/// Two leaves, both full of keys.
const TWO_FULL: &str = "insert 10 1\ninsert 20 1\ninsert 30 1\ninsert 40 1\ninsert 50 1\n\
    insert 60 1\ninsert 70 1\ninsert 80 1\n";

/// Where an operation is cut that changes the list of leaves.
const CUTS: &[&str] = &["split.S1.head", "split.S1.fence", "split.S2.link", "split.S2.fence"];
/// Where one is cut that frees the records of dead keys.
const CUTS_OF_RECORDS: &[&str] = &["split.S3.forget", "split.S3.fence"];

/// All of them. Leaves have four slots.
fn appended(engine: Engine) -> Vec<Directed> {
    let mut cases = Vec::new();
    if engine.is_concurrent() {
        cases.extend(linked());
    }
    let mut add = |name: &str, keys: ScriptKeys, words: usize, script: &str| {
        let name = format!("{name}, {keys:?}, {words} words");
        cases.push(Directed::new(name, Index, keys, words, script));
    };
    let full = inserts([10, 20, 30, 40]);
    // Two leaves, of 10 and 20, and of 30 and 40; the first is full.
    let few = format!("{full}update 20 1\nupdate 10 2\nupdate 10 3\n");
    for keys in [U64, Bytes] {
        for words in [1, 2] {
            let script = "insert 50 1\ninsert 30 1\nexplore\ninsert 40 2\nupdate 40 3\nupdate 40 \
                4\nremove 40\nupdate 50 5\ninsert 10 1\nupdate 10 2\ninsert 20 1\ninsert 60 \
                1\nupdate 60 6\nremove 50\nupdate 60 7\nreopen\nremove 30\nupdate 20 3\n\
                insert 5 1\n";
            add("plain operations and a split", keys, words, script);
            let script = format!("{full}explore\nupdate 40 1\nupdate 10 1\nremove 30\n");
            add("a full leaf split by an update", keys, words, &script);
            let script = format!("{full}explore\nremove 20\ninsert 25 1\nremove 10\nremove 25\n");
            add("a full leaf split by a removal, then emptied", keys, words, &script);
            let script = format!("{few}explore\nupdate 20 4\nremove 30\nremove 20\nremove 10\n");
            add("a leaf merged with its right sibling", keys, words, &script);
            let script = format!("{few}insert 35 1\nexplore\nupdate 20 4\nremove 10\ninsert 5 1\n");
            add("a leaf replaced, its sibling being fuller", keys, words, &script);
        }
        let cuts: Vec<&str> = match keys {
            U64 => CUTS.to_vec(),
            Bytes => CUTS.iter().chain(CUTS_OF_RECORDS).copied().collect(),
        };
        for site in cuts {
            let then = "remove 10\nremove 40\ninsert 25 2\ninsert 35 1\nremove 20\nremove 25\n";
            let script = format!("{full}cut nvtree.{site} insert 25 1\n{then}");
            add(&format!("split cut before {site}, then removals"), keys, 1, &script);
        }
        for site in CUTS {
            let then = "remove 30\nremove 20\ninsert 30 1\nremove 40\nremove 30\n";
            let script = format!("{few}cut nvtree.{site} update 20 4\n{then}");
            add(&format!("merge cut before {site}, then removals"), keys, 1, &script);
            let script = format!("{few}insert 35 1\ncut nvtree.{site} remove 20\n{then}");
            add(&format!("replacement cut before {site}, then removals"), keys, 1, &script);
        }
        for site in ["split.L1.fence", "split.L2.link", "split.L2.fence"] {
            let then = "insert 60 1\nremove 50\nremove 60\ninsert 45 1\ninsert 50 2\n";
            let script = format!("{full}cut nvtree.{site} insert 50 1\n{then}");
            add(&format!("a leaf behind the last cut before {site}"), keys, 1, &script);
        }
        for site in ["remove.U1.link", "remove.U1.fence"] {
            let then = "insert 45 1\ninsert 50 2\nremove 45\nremove 50\ninsert 5 1\n";
            let script = format!("{full}insert 50 1\ncut nvtree.{site} remove 50\n{then}");
            add(&format!("the end of a leaf cut before {site}"), keys, 1, &script);
        }
        // What a retired leaf still led to would be freed once more.
        let script = format!(
            "{full}insert 25 1\nexplore\nremove 10\nremove 20\nremove 25\nremove 30\nremove 40\n"
        );
        add("all keys of a split removed", keys, 1, &script);
        // Known keys, dead ones among them, are put again where there is room and where there is
        // not.
        let script = "insert 10 1\nexplore\nremove 10\ninsert 10 2\nremove 10\ninsert 10 3\nremove \
            10\ninsert 10 4\nupdate 10 5\nremove 10\ninsert 10 6\nremove 10\n";
        add("one key put, removed and put again", keys, 1, script);
        let script = inserts((1..14).map(|i| i * 10))
            + "explore\n"
            + &inserts((14..28).map(|i| i * 10))
            + &removes((20..28).map(|i| i * 10));
        add("inner nodes rebuilt", keys, 1, &script);
        let script =
            inserts((1..12).rev().map(|i| i * 10)) + "explore\n" + &inserts([5, 4, 3, 2, 1]);
        add("descending keys", keys, 1, &script);
        let script = inserts([10, 20])
            + "explore\ninsert 10 1\nupdate 15 1\nremove 15\nupsert 20 1\nupsert 30 1\nremove \
                10\nremove 30\nremove 20\nremove 20\ninsert 20 1\ncrash\ninsert 30 1\n";
        add("refusals, and the last entry of the tree", keys, 1, &script);
        // A group of 4096 bytes has seven leaves with four such entries.
        let script = inserts((1..21).map(|i| i * 10)) + "explore\n" + &inserts(211..223);
        add("leaf group taken", keys, 14, &script);
        let script = inserts((1..45).map(|i| i * 10))
            + &removes((8..45).map(|i| i * 10))
            + "explore\n"
            + &removes((1..8).map(|i| i * 10));
        add("leaf groups given back", keys, 14, &script);
    }
    for site in ["append.P1.fence", "append.P2.fill", "append.P2.fence"] {
        for operation in ["insert 15 1", "update 20 2", "remove 20", "insert 10 2"] {
            let script = format!(
                "insert 10 1\ninsert 20 1\nremove 10\ncut nvtree.{site} {operation}\nremove \
                20\ninsert 25 2\ninsert 10 3\ninsert 15 3\nremove 15\nremove 25\n"
            );
            add(&format!("`{operation}` cut before {site}"), Bytes, 1, &script);
        }
    }
    cases
}

/// Every change of the list of leaves together with a value of a store.
fn linked() -> impl Iterator<Item = Directed> {
    // The doubt that stands when a leaf ends is about another record than the one that goes.
    let scripts = [
        (
            "a leaf behind the last, and its end",
            FULL,
            "insert 50 5\nupdate 40 1\nremove 50\ninsert 60 6\n",
        ),
        ("a split by an insertion, and one by an update", FULL, "insert 15 1\nupdate 40 3\n"),
        ("a removal from a full leaf", FULL, "remove 20\ninsert 25 2\nremove 10\n"),
        ("a merge", FIRST_FULL, "update 20 4\nremove 30\nupdate 40 2\n"),
        ("a leaf replaced", FIRST_FULL, "insert 35 1\nremove 10\ninsert 15 1\n"),
    ];
    scripts.into_iter().map(|(name, before, script)| {
        let (name, script) = (format!("{name}, with values"), format!("{before}explore\n{script}"));
        Directed::new(name, Store, U64, 1, script).with_budget(16)
    })
}
