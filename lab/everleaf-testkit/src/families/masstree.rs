//! Directed scenarios of engines that are durable at the ends of epochs: what an epoch changed is
//! taken back, epochs that end and that fail one after another, and what the store adds to an end.

use everleaf::Engine;

use super::{Directed, Family, Meetings, Member, Needs, inserts, lines, removes};
use crate::Level::{Index, Store};
use crate::ScriptKeys;
use crate::ScriptKeys::{Bytes, U64};

pub(super) const FAMILY: Family = Family {
    members: &[
        Member {
            engine: "masstree",
            folders: &["masstree"],
            needs: NEEDS,
            meetings: Meetings::Fewer,
        },
        Member {
            engine: "masstree-logging",
            folders: &["masstree"],
            needs: NEEDS_LOGGING,
            meetings: Meetings::Fewer,
        },
    ],
    may_be_idle: &[
        "masstree.epoch.E0.lines",
        "masstree.epoch.E1.lines",
        "masstree.create.N1.root",
        "masstree.log.F1.fence",
    ],
    directed: epochs,
    meetings: MEETINGS,
    ..Family::PLAIN
};

const NEEDS: &[(&str, Needs)] = &[
    ("masstree.recover.R1", Needs::ManyEpochs),
    ("masstree.forget", Needs::ManyEpochs),
    ("masstree.recover.R2.record", Needs::BytesKeys),
    ("masstree.undo.V", Needs::BytesKeys),
];

/// The same where the log alone undoes: only a node that was recovered in an epoch has undo words
/// in it.
const NEEDS_LOGGING: &[(&str, Needs)] = &[
    ("masstree.recover.R1", Needs::OtherEngine),
    ("masstree.undo.U1", Needs::OtherEngine),
    ("masstree.undo.U2", Needs::OtherEngine),
    ("masstree.forget", Needs::ManyEpochs),
    ("masstree.recover.R2.record", Needs::BytesKeys),
    ("masstree.undo.V", Needs::BytesKeys),
];

/// What an epoch has changed changes again while it is written back. Byte strings of ten digits
/// have records.
const MEETINGS: &[(&str, &str, &str)] = &[
    (
        "the end of an epoch, and an insertion into a node that it changed",
        "insert 10 1\ninsert 20 2\nsync\nupdate 10 3\n",
        "thread 1 sync\nthread 2 insert 30 3\n",
    ),
    (
        "the end of an epoch, and other lines of a node that it changed",
        "insert 10 1\ninsert 20 2\nsync\nremove 10\n",
        "thread 1 sync\nthread 2 update 20 3\nthread 2 insert 30 3\n",
    ),
    (
        "the end of an epoch, and a record that it changed",
        "insert 1000000001 1\nsync\nupdate 1000000001 2\n",
        "thread 1 sync\nthread 2 update 1000000001 3\nthread 2 insert 30 3\n",
    ),
    (
        "the end of an epoch, and memory that it has handed out and given back",
        "insert 1000000001 1\ninsert 2000000002 1\nsync\nremove 1000000001\n",
        "thread 1 sync\nthread 2 insert 3000000003 3\nthread 2 remove 2000000002\n",
    ),
];

/// All of them. Nodes have four entries.
fn epochs(_: Engine) -> Vec<Directed> {
    let mut cases = Vec::new();
    for keys in [U64, Bytes] {
        cases.extend(nodes(keys));
        cases.extend(buffers(keys));
        cases.extend(stores(keys));
        for (name, script) in [
            ("closed means closed", "insert 1 1\nexplore\ninsert 2 2\nclose\n"),
            ("closed again", "insert 1 1\nreopen\nexplore\ninsert 2 2\nclose\n"),
        ] {
            let name = format!("{name}, {keys:?}");
            cases.push(Directed::new(name, Index, keys, 1, script).closing());
        }
    }
    cases.extend(layers());
    for level in [Index, Store] {
        let create = "create\ninsert 1 1\ninsert 2 2\nclose\nopen\ninsert 3 3\nupdate 1 4\nsync\n";
        let script = format!("{}explore\n{create}", inserts(1..8));
        for (name, script) in [("creation", create), ("creation over another pool", &script)] {
            let name = format!("{name}, {level:?}");
            cases.push(Directed::new(name, level, U64, 1, script).with_budget(3));
        }
    }
    cases.push(log_of_another_pool());
    cases
}

/// Nodes that change within an epoch, by each way that there is to take that back.
fn nodes(keys: ScriptKeys) -> Vec<Directed> {
    let full = inserts([10, 20, 30, 40]);
    let many = inserts((1..18).map(|i| i * 10));
    let most = u64::MAX;
    let scripts = [
        (
            "permutations",
            "insert 10 1\ninsert 20 2\nexplore\ninsert 30 1\nremove 10\nsync\ninsert 10 2\nremove \
             20\ncrash\nget 10\ninsert 15 1\nremove 99\ninsert 15 2\nsync\n"
                .to_owned(),
        ),
        (
            "values, two of a line, and one of 64 bits",
            format!(
                "{full}explore\nupdate 10 11\nupdate 10 12\nupdate 20 21\nsync\nupdate 20 \
                 22\ncrash\nupdate 20 23\nupdate 40 {most}\nsync\nupdate 40 5\ncrash\nupdate 40 \
                 6\nsync\n"
            ),
        ),
        (
            "a slot that was live when the epoch began",
            // Slots that have become free last are taken last.
            format!("{full}explore\n{}sync\ninsert 60 60\n", "remove 10\ninsert 10 1\n".repeat(12)),
        ),
        (
            "splits of a root and of a leaf",
            format!(
                "{full}explore\ninsert 25 1\nsync\ninsert 50 5\ninsert 60 6\ncrash\ninsert 25 \
                 2\ninsert 15 1\ninsert 16 1\nsync\n"
            ),
        ),
        (
            "splits of inner nodes",
            format!(
                "{many}explore\n{}sync\n{}",
                inserts((18..24).map(|i| i * 10)),
                inserts((24..40).map(|i| i * 10))
            ),
        ),
        (
            "nodes that go",
            format!(
                "{many}explore\n{}sync\n{}crash\nremove 40\nsync\n",
                removes([10, 20, 30]),
                removes([40, 50, 60, 70])
            ),
        ),
        (
            "operations that change nothing",
            format!(
                "{full}explore\ninsert 10 5\nupdate 15 1\nremove 15\nsync\nupdate 10 7\nsync\n"
            ),
        ),
        (
            "an end of an epoch that is cut when it counts",
            format!(
                "{full}update 10 11\ncut pool.epoch.E3.fence sync\nupdate 20 2\nremove 10\nsync\n"
            ),
        ),
        (
            "the last key of the tree",
            "insert 10 1\nexplore\nremove 10\nepoch\ninsert 20 1\nreopen\nremove 20\nremove \
             20\nsync\n"
                .to_owned(),
        ),
        (
            "crashes without the end of an epoch between them",
            format!(
                "{full}explore\nupdate 10 11\ncrash\nget 10\ncrash\nupdate 20 21\ncrash\nupdate \
                 30 31\nsync\n"
            ),
        ),
    ];
    let case = |(name, script): &(&str, String)| {
        let name = format!("{name}, {keys:?}");
        Directed::new(name, Index, keys, 1, script).with_budget(16)
    };
    scripts.iter().map(case).collect()
}

/// The first segment of the log stands where another pool had its own, and is filled in an epoch of
/// the same number: what the other one logged is whole there, of nodes that are where they were.
/// Nodes are logged whose values have 64 bits.
fn log_of_another_pool() -> Directed {
    let insert = |value: u64| lines((1..10).map(|i| format!("insert {}0 {value}", i)));
    let [before, after] = [u64::MAX, u64::MAX - 1].map(insert);
    let script = format!(
        "{before}sync\nupdate 10 1\nupdate 40 1\nupdate 60 1\nupdate 90 1\nexplore\ncreate\n\
         {after}sync\nupdate 10 2\ncrash\nget 10\nupdate 20 3\nsync\n"
    );
    Directed::new("a log over that of another pool", Index, U64, 1, script).with_budget(3)
}

/// Buffers of values that are taken, replaced and given back, in one epoch and in several.
fn buffers(keys: ScriptKeys) -> Vec<Directed> {
    let full = inserts([10, 20, 30, 40]);
    let scripts = [
        (
            "an epoch that replaces a value twice, and another of its line",
            format!(
                "{full}sync\nexplore\nupdate 10 11\nupdate 10 12\nupdate 20 21\nsync\nupdate 20 \
                 22\ncrash\nupdate 20 23\nsync\n"
            ),
        ),
        (
            "what was given back is taken again",
            format!(
                "{full}sync\nupdate 10 11\nremove 20\nsync\nexplore\ninsert 50 50\nupdate 10 \
                 12\nsync\nremove 50\nupdate 10 13\ncrash\nupdate 10 14\ninsert 50 51\nsync\n"
            ),
        ),
        (
            "a key that goes and comes in an epoch, and a leaf that splits",
            format!(
                "{full}sync\nexplore\nremove 10\ninsert 10 12\ncrash\nremove 30\nsync\ninsert 50 \
                 50\ninsert 60 60\nupdate 50 51\nsync\n"
            ),
        ),
    ];
    let case = |(name, script): &(&str, String)| {
        let name = format!("{name}, {keys:?}");
        Directed::new(name, Index, keys, 1, script).with_budget(16).with_buffers()
    };
    scripts.iter().map(case).collect()
}

/// Keys that share slices: records, and layers that come and go.
fn layers() -> Vec<Directed> {
    let (a, b, c) = ("abcdefgh", "abcdefghij", "abcdefghijklmnopqrstuvwx");
    let d = "abcdefghijklmnopqrstuvwz";
    let scripts = [
        (
            "the value of a record, which becomes a layer",
            format!(
                "insert {b} 1\nexplore\nupdate {b} 3\ninsert {c} 4\ncrash\ninsert {c} 5\nsync\n\
                 remove {c}\nremove {b}\nsync\n"
            ),
        ),
        (
            "layers in a row, which go together",
            format!(
                "insert {a} 1\ninsert {c} 1\nexplore\ninsert {d} 2\nsync\nremove {c}\nremove \
                 {d}\ncrash\nremove {d}\nupdate {c} 7\nsync\nremove {c}\ninsert {d} 4\ncrash\n"
            ),
        ),
        (
            "a record that is freed and another in its place",
            format!(
                "insert {c} 1\nexplore\nremove {c}\nsync\ninsert {d} 2\nupdate {d} 3\nupdate {d} \
                 4\nepoch\nremove {d}\ncrash\nget {d}\nupdate {d} 9\nsync\n"
            ),
        ),
    ];
    let case = |(name, script): &(&str, String)| {
        Directed::new(*name, Index, Bytes, 1, script).with_budget(16)
    };
    let mut cases: Vec<Directed> = scripts.iter().map(case).collect();
    let long = |i: u64| format!("{i:03}{}", "x".repeat(3000));
    let script = (1..10).map(|i| format!("insert {} {i}\n", long(i))).collect::<String>()
        + "sync\ninsert 5 1\nremove 5\n"
        + &format!("remove {}\nreopen\n", long(3));
    let growth = Directed::new("growth", Index, Bytes, 1, &script);
    cases.push(growth.in_pool(64 << 10, 128 << 10).with_budget(4));
    cases
}

/// Records, which end with the epochs of the index.
fn stores(keys: ScriptKeys) -> Vec<Directed> {
    let few = inserts([1, 2, 3]);
    let full = inserts([10, 20, 30, 40]);
    let scripts = [
        (
            "values replaced and removed",
            format!(
                "{few}explore\ninsert 4 1\nupdate 4 2\nremove 1\nupdate 2 5\nsync\nremove \
                 3\nupdate 2 3\nreopen\ninsert 5 7\nupdate 2 4\nupdate 2 4\nsync\n"
            ),
        ),
        (
            "values that come and go within an epoch",
            format!(
                "{few}explore\ninsert 4 1\nremove 4\ninsert 4 2\nsync\nremove 4\ninsert 4 \
                 5\ncrash\nupdate 4 1\nepoch\nupdate 4 2\nsync\n"
            ),
        ),
        (
            "batches, and what they free used again",
            format!(
                "{full}explore\nbatch insert 15 1; update 20 2; remove 30; insert 25 5; remove 99; \
                 upsert 40 3\nsync\nbatch remove 10; remove 15\ninsert 50 30\ncrash\nbatch insert \
                 50 3; upsert 10 4\nsync\ninsert 60 5\n"
            ),
        ),
    ];
    let case = |(name, script): &(&str, String)| {
        let name = format!("{name}, {keys:?}, store");
        Directed::new(name, Store, keys, 1, script).with_budget(16)
    };
    scripts.iter().map(case).collect()
}
