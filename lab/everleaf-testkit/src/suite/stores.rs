//! Directed scenarios of stores.

use everleaf::Engine;

use super::case::Case;
use crate::Level::Store;
use crate::ScriptKeys;
use crate::ScriptKeys::{Bytes, U64};
use crate::families::inserts;

/// All of them but those of threads.
pub(super) fn stores(engine: Engine) -> Vec<Case> {
    let mut cases = Vec::new();
    for keys in [U64, Bytes] {
        let script = inserts([1, 2, 3])
            + "explore\ninsert 4 1\nupdate 4 2\nremove 1\nupdate 2 5\nreopen\nremove 3\nupdate 2 \
                3\ninsert 5 7\n";
        cases.push(Case::scripted(
            &format!("values replaced and removed, {keys:?}"),
            engine,
            Store,
            keys,
            1,
            &script,
        ));
        // A run is never in doubt: its write is a link of its own, between others.
        let script = format!(
            "insert 1 3\ninsert 2 3\nexplore\nupdate 1 {run}\nupdate 2 4\nupdate 1 4\nupdate 1 \
            {run}\nremove 1\ninsert 3 3\n",
            run = 5u64 << 32,
        );
        let name = format!("values of chunks in place of small ones, {keys:?}");
        cases.push(Case::scripted(&name, engine, Store, keys, 1, &script).with_budget(16));
    }
    for keys in [U64, Bytes] {
        let script = inserts([10, 20, 30])
            + "explore\nmove 10 20\nmove 10 30\nclaim 21 30 25 2\nclaim 21 30 26 3\nmove 25 \
               40\nreopen\nclaim 21 30 25 2\n";
        let name = format!("transactions, {keys:?}");
        cases.push(Case::scripted(&name, engine, Store, keys, 1, &script).with_budget(16));
    }
    cases.extend(batches(engine));
    cases.extend(expiry(engine));
    cases.extend(trees(engine));
    cases.extend(conditional(engine));
    cases
}

/// Batches: plain, and cut; what follows takes the blocks that they free, so that a batch which is
/// done again is found out.
fn batches(engine: Engine) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |name: &str, keys: ScriptKeys, script: &str| {
        let case = Case::scripted(&format!("{name}, {keys:?}"), engine, Store, keys, 1, script);
        cases.push(case.with_budget(16));
    };
    let full = inserts([10, 20, 30, 40]);
    for keys in [U64, Bytes] {
        let script = format!(
            "{full}explore\nbatch insert 15 1; update 20 2; remove 30; insert 25 5; remove 99; \
            upsert 40 3\ninsert 50 30\n"
        );
        add("a batch that splits a leaf", keys, &script);
        let script = format!(
            "{full}explore\nbatch insert 15 1; insert 5 1\nbatch remove 10; remove 30\ninsert 50 \
            30\n"
        );
        add("a batch that only inserts, and one that only removes", keys, &script);
    }
    for site in ["B2.fence", "B5.retire", "B5.fence"] {
        let script = format!(
            "{full}cut pool.batch.{site} batch insert 15 1; remove 30; update 20 3\ninsert 50 \
            30\nbatch upsert 10 1; remove 20\n"
        );
        add(&format!("batch cut before {site}"), U64, &script);
        // Both blocks of the last update are in doubt. The batch frees one of them, and what is
        // done again allocates.
        for keys in [U64, Bytes] {
            let script = format!(
                "{full}update 40 2\ncut pool.batch.{site} batch insert 15 1; update 40 5; insert \
                45 2\ninsert 50 30\nupdate 40 2\n"
            );
            add(&format!("batch of what is in doubt, cut before {site}"), keys, &script);
        }
    }
    cases
}

/// Values with lives: what has expired is replaced, removed and swept, and what took its place
/// stays. The first of them marks the pool.
fn expiry(engine: Engine) -> Vec<Case> {
    let mut cases = Vec::new();
    for keys in [U64, Bytes] {
        let script = inserts([1, 2, 3])
            + "explore\nput_expired 1 4\nput_for 2 5\nsweep\nput_expired 3 2\nupsert 3 3\n\
                sweep\nput_expired 2 1\ncrash\ninsert 2 7\nsweep\n";
        let name = format!("values that expire, and sweeps, {keys:?}");
        cases.push(Case::scripted(&name, engine, Store, keys, 1, &script).with_budget(8));
        let script = inserts([1, 2, 3])
            + "put_expired 2 5\nexplore\nbatch put_expired 1 4; put_for 3 2; insert 1 7; insert 2 \
                1\nsweep\nreopen\nbatch put_expired 3 1; remove 2\nsweep\n";
        let name = format!("values that expire in batches, {keys:?}");
        cases.push(Case::scripted(&name, engine, Store, keys, 1, &script).with_budget(8));
    }
    cases
}

/// Named trees: made, written across, dropped and made again; a drop that is cut ends when the pool
/// is opened.
fn trees(engine: Engine) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |name: &str, script: &str| {
        let case = Case::scripted(name, engine, Store, Bytes, 1, script);
        cases.push(case.with_budget(8));
    };
    add(
        "named trees",
        "insert t:a 1\ninsert a 2\nexplore\ninsert u:a 1\nupdate t:a 5\nmove t:a a\nbatch insert \
        t:c 1; remove a; upsert u:b 2\ndrop_tree u\nreopen\nscan\ninsert u:a 3\n",
    );
    let tree = "insert t 1\nbatch fill t:k 5 1\nput_expired t:x 1\n";
    add(
        "a tree that is dropped and made again",
        &format!("{tree}explore\ndrop_tree t\ninsert t:k000 2\ncrash\ninsert t:k001 7\n"),
    );
    for site in ["B2.fence", "B5.fence"] {
        add(
            &format!("a drop of a tree cut before {site}"),
            &format!("{tree}cut pool.batch.{site} drop_tree t\ninsert t:k000 2\n"),
        );
    }
    cases
}

/// Writes that depend on what is there, and ranges.
fn conditional(engine: Engine) -> Vec<Case> {
    let mut cases = Vec::new();
    for keys in [U64, Bytes] {
        let script = inserts([10, 20, 30, 40, 50])
            + "explore\nswap 10 1 5\nswap 10 5 4\nswap 60 none 3\nswap 20 1 none\ntake 30\npop \
                first\npop last\nsnapshot\nreopen\ndelete_range 20 50\npop last\npop first\n";
        let name = format!("swaps, and entries that are taken out, {keys:?}");
        cases.push(Case::scripted(&name, engine, Store, keys, 1, &script).with_budget(8));
    }
    cases
}

/// Growth in the middle of whatever adds something.
fn growth(engine: Engine) -> [Case; 2] {
    let of_numbers = format!(
        "insert 1 {run}\nexplore\nput_expired 2 {kib}\nswap 3 none {kib}\nbatch upsert 4 {kib}; \
        insert 5 {kib}\ncrash\nmove 4 6\nsweep\nput_for 7 {kib}\n",
        run = 20u64 << 32,
        kib = 3u64 << 32,
    );
    let of_trees = format!(
        "insert t:a {run}\nexplore\nbatch upsert t:b {kib}; upsert u:a {kib}\nmove t:b b\n\
        drop_tree t\ninsert u:b {kib}\n",
        run = 24u64 << 32,
        kib = 3u64 << 32,
    );
    [("growth by values", U64, of_numbers), ("growth by named trees", Bytes, of_trees)].map(
        |(name, keys, script)| {
            let case = Case::scripted(name, engine, Store, keys, 1, &script);
            case.in_pool(64 << 10, 256 << 10).with_budget(2)
        },
    )
}

/// Growth, large batches and large values, which take most of a minute.
pub(super) fn large(engine: Engine) -> Vec<Case> {
    let batch = "insert 1 1\nexplore\nbatch fill 1 300 1\ndelete_range 100 200\n".to_owned();
    let value = format!("insert 1 1\nexplore\nupsert 1 {}\nremove 1\n", 1024u64 << 32);
    let scripts = [("a batch of 300 entries", batch), ("a value of 1 MiB", value)];
    let cases = scripts.map(|(name, script)| {
        let case = Case::scripted(name, engine, Store, U64, 1, &script);
        case.in_pool(64 << 10, 4 << 20).with_budget(2)
    });
    let mut cases: Vec<Case> = cases.into_iter().chain(growth(engine)).collect();
    cases.retain(|case| case.has_keys_of(engine));
    cases
}
