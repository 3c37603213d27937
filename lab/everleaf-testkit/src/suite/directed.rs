//! Directed scenarios: each leads to a state in which some barrier is needed, or which is hard to
//! reach by chance. Together they reach every barrier of an engine and of the allocator, and miss
//! each that is left out.

use everleaf::{Contract, Engine};
use everleaf_crash::Traced;
use everleaf_engines::MASSTREE_LOGGING;

use super::case::Case;
use super::{refused, stores};
use crate::Level::{Index, Store};
use crate::ScriptKeys::{Bytes, U64};
use crate::families::{self, Meetings, inserts, lines, removes};
use crate::{Action, AllocatorOperation, Key, Operation, ScriptKeys};

/// All directed scenarios of an engine, those of the allocator beneath it included.
pub(super) fn directed(engine: Engine) -> Vec<Case> {
    let mut cases = of_family(engine);
    if engine.contract() == Contract::Strict {
        cases.extend(pools(engine));
        cases.extend(stores::stores(engine));
        cases.extend(refused::refused_splits(engine));
    }
    if engine.contract() == Contract::Buffered && Bytes.are_of(engine) {
        cases.push(without_room_in_an_epoch(engine));
    }
    if engine.is_concurrent() {
        cases.extend(threads(engine));
    }
    cases.extend(allocators());
    cases.retain(|case| case.has_keys_of(engine));
    // Other garbage for each, so that no two leave the same image.
    (1..).zip(cases).map(|(seed, case)| case.seeded(seed)).collect()
}

/// The directed scenarios of an engine's family.
fn of_family(engine: Engine) -> Vec<Case> {
    let scenarios = families::of(engine).map(|(family, _)| (family.directed)(engine));
    let scenarios = scenarios.unwrap_or_default();
    scenarios.into_iter().map(|scenario| Case::directed(engine, scenario)).collect()
}

/// Creation, closing, growth, and pools without room.
fn pools(engine: Engine) -> Vec<Case> {
    let mut cases = Vec::new();
    for keys in [U64, Bytes] {
        for level in if keys == U64 { [Index, Store].as_slice() } else { &[Index] } {
            let named = |name: &str| format!("{name}, {keys:?}, {level:?}");
            let scripted = |name: &str, script: &str| {
                Case::scripted(&named(name), engine, *level, keys, 1, script)
            };
            let create = "create\ninsert 1 1\ninsert 2 2\nclose\nopen\ninsert 3 3\nupdate 1 4\n";
            // Every word that is zeroed is a crash point; few of them tell much.
            cases.push(scripted("creation", create).with_budget(3));
            cases.push(scripted(
                "creation over another pool",
                &format!("{}explore\n{create}", inserts(1..8)),
            ));
        }
        let script = "insert 1 1\nexplore\ninsert 2 2\nclose\n";
        cases.push(
            Case::scripted(
                &format!("closed means closed, {keys:?}"),
                engine,
                Index,
                keys,
                1,
                script,
            )
            .closing(),
        );
        let script = "insert 1 1\nreopen\nexplore\ninsert 2 2\nclose\n";
        cases.push(
            Case::scripted(&format!("closed again, {keys:?}"), engine, Index, keys, 1, script)
                .closing(),
        );
        if families::has_images(engine) {
            cases.extend(images(engine, keys));
        }
        if engine.entry().max_value_words < 14 {
            continue; // Too many keys fill a pool; the long ones below do it.
        }
        let room = keys_until_growth(engine, keys);
        let keys_before = (1..room - 1).map(|i| i * 10);
        let script = inserts(keys_before)
            + "explore\n"
            + &inserts((room - 1..room + 3).map(|i| i * 10))
            + "remove 10\nreopen\ninsert 5 1\n";
        cases.push(
            Case::scripted(&format!("growth, {keys:?}"), engine, Index, keys, 14, &script)
                .in_pool(64 << 10, 128 << 10)
                .with_budget(8),
        );
    }
    if !Bytes.are_of(engine) {
        cases.extend(without_room_for_words(engine));
        return cases;
    }
    // Seven keys of a chunk each fill the smallest pool, or fewer; a leaf is split before its new
    // key is refused.
    let long = |i: u64| format!("{i:03}{}", "x".repeat(4000));
    let keys = long_keys(engine, long);
    let fill = lines((1..=keys).map(|i| format!("insert {} {i}", long(i))));
    let script = format!(
        "{fill}explore\nrefused insert {} 1\nremove {}\nremove {}\ninsert 5 1\n",
        long(keys + 1),
        long(keys),
        long(keys - 2)
    );
    if engine.entry().max_value_words < 14 {
        // The first short key is the first of its size, and takes a chunk that is not there; where
        // separators are short records too it does not, but another long one does.
        let first = if keys < 7 { long(keys + 1) } else { "5".to_owned() };
        let script = format!(
            "{fill}explore\ninsert {first} 1\ninsert 6 1\nremove {}\nreopen\ninsert 7 1\n",
            long(keys - 2)
        );
        let case = Case::scripted("growth", engine, Index, Bytes, 1, &script)
            .in_pool(64 << 10, 128 << 10)
            .with_budget(8);
        cases.push(case);
    }
    cases.push(
        Case::scripted(
            "a split whose key is refused by a full pool",
            engine,
            Index,
            Bytes,
            1,
            &script,
        )
        .in_pool(64 << 10, 64 << 10),
    );
    cases
}

/// Growth, and a pool without room, of an engine that has no long keys: these are words so far
/// apart that an encoding hardly makes them smaller.
fn without_room_for_words(engine: Engine) -> [Case; 2] {
    let far = |i: u64| i << 48;
    let keys = keys_with_room(engine, U64, 1 << 15, |i| (Key::U64(far(i)), far(i)));
    let fill = inserts((1..=keys).map(far));
    let [last, next] = [far(keys), far(keys + 1)];
    let refused = format!(
        "{fill}explore\nrefused insert {next} {next}\nremove {last}\nremove {}\ninsert 5 1\n",
        far(1)
    );
    let growth = format!("{fill}explore\ninsert {next} {next}\nreopen\ninsert 5 1\n");
    let case = |name: &str, script: &str, max_bytes| {
        let case = Case::scripted(name, engine, Index, U64, 1, script);
        case.in_pool(64 << 10, max_bytes).with_budget(8)
    };
    [
        case("a split that is refused by a full pool", &refused, 64 << 10),
        case("growth", &growth, 128 << 10),
    ]
}

/// A pool that is full even when an epoch has ended.
fn without_room_in_an_epoch(engine: Engine) -> Case {
    let long = |i: u64| format!("{i:03}{}", "x".repeat(4000));
    let keys = long_keys(engine, long);
    // Without logs in line a removal needs room too: a store has it in the reserve of the pool.
    let goes_on = match *engine.entry() == MASSTREE_LOGGING {
        true => String::new(),
        false => format!("remove {}\nsync\ninsert 5 1\n", long(keys)),
    };
    let script = format!(
        "{}explore\nrefused insert {} 1\n{goes_on}",
        lines((1..=keys).map(|i| format!("insert {} {i}", long(i)))),
        long(keys + 1),
    );
    Case::scripted("a key that a full pool refuses", engine, Index, Bytes, 1, &script)
        .in_pool(64 << 10, 64 << 10)
        .with_budget(8)
}

/// How many of these keys the smallest pool has room for.
fn long_keys(engine: Engine, long: impl Fn(u64) -> String) -> u64 {
    keys_with_room(engine, Bytes, 16, |i| (Key::Bytes(long(i).into_bytes()), i))
}

/// The same of any keys and values, of which there are so many less one.
fn keys_with_room(
    engine: Engine,
    keys: ScriptKeys,
    end: u64,
    entry: impl Fn(u64) -> (Key, u64),
) -> u64 {
    let case = Case::scripted("keys with room", engine, Index, keys, 1, "get 1\n");
    let super::CaseSubject::Engine(subject) = case.subject else { unreachable!("it is scripted") };
    let index = Traced::new(64 << 10, 64 << 10, 1).map_err(|e| e.to_string());
    let index = index.and_then(|media| subject.create(media));
    let index = index.unwrap_or_else(|e| panic!("an empty index: {e}"));
    let insert = |i: &u64| {
        let (key, value) = entry(*i);
        index.apply(&Operation::Insert(key, value)).is_ok()
    };
    (1..end).take_while(insert).count() as u64
}

/// Images of inner nodes: stored, taken, of a tree that has not changed or has, in the same memory
/// or in more.
fn images(engine: Engine, keys: ScriptKeys) -> impl Iterator<Item = Case> {
    let scripts = [
        ("the first", "close\nopen\ninsert 5 5\nremove 40\n".to_owned()),
        ("the first of one leaf", "close\n".to_owned()),
        ("the second, in the same memory", "reopen\nexplore\nupdate 10 2\nclose\n".to_owned()),
        ("of more leaves", format!("reopen\nexplore\n{}close\n", inserts([15, 25, 35, 45, 55]))),
        ("of fewer leaves", format!("reopen\nexplore\n{}close\n", removes([40, 50, 60]))),
        ("closed twice", "explore\nclose\nopen\nclose\n".to_owned()),
    ];
    scripts.into_iter().map(move |(name, script)| {
        let before = if name.ends_with("one leaf") { 10..11 } else { 1..7 };
        let explored = if script.contains("explore") { "" } else { "explore\n" };
        let script = inserts(before.map(|i| i * 10)) + explored + &script;
        let name = format!("image, {name}, {keys:?}");
        let case = Case::scripted(&name, engine, Index, keys, 1, &script);
        if script.ends_with("close\n") { case.closing() } else { case }
    })
}

/// Which ascending key of 14 words makes the smallest pool grow.
fn keys_until_growth(engine: Engine, keys: ScriptKeys) -> u64 {
    let many = inserts((1..400).map(|i| i * 10));
    let case = Case::scripted("many keys", engine, Index, keys, 14, &many);
    let super::CaseSubject::Engine(subject) = case.subject else { unreachable!("it is scripted") };
    let paths = subject.paths(64 << 10, 1 << 20).unwrap_or_else(|e| panic!("many keys: {e}"));
    let grown = paths.iter().position(|(path, _)| *path == ("insert", "growth of the pool"));
    grown.map_or_else(|| panic!("400 keys do not fill a pool of 64 KiB"), |at| at as u64 + 1)
}

/// Interleavings of two threads that are run where there are more.
const INTERLEAVINGS: u64 = 300;

/// The same in a store, where a write has three times as many steps.
const STORE_INTERLEAVINGS: u64 = INTERLEAVINGS / 5;

/// What two threads can do to each other, named after what meets.
const MEETINGS: &[(&str, &str)] = &[
    ("two insertions in one leaf", "thread 1 insert 60 6\nthread 2 insert 80 8\n"),
    ("two insertions of one key", "thread 1 insert 60 6\nthread 2 insert 60 8\n"),
    ("two splits of one leaf", "thread 1 insert 15 6\nthread 2 insert 25 8\n"),
    (
        "a split, and another thread that fills the leaf",
        "thread 1 insert 35 6\nthread 2 insert 11 1\nthread 2 insert 12 1\n",
    ),
    ("a split and a reader of a key that moves", "thread 1 insert 15 6\nthread 2 get 40\n"),
    ("a split and an update of a key that moves", "thread 1 insert 15 6\nthread 2 update 30 9\n"),
    ("a split and a removal", "thread 1 insert 15 6\nthread 2 remove 20\n"),
    ("an update and a reader", "thread 1 update 20 9\nthread 2 get 20\n"),
    ("an upsert and an insertion", "thread 1 upsert 60 9\nthread 2 insert 60 6\n"),
    ("a split and a scan", "thread 1 insert 15 6\nthread 2 scan\n"),
    ("two removals of one key", "thread 1 remove 20\nthread 2 remove 20\n"),
    ("a removal and an insertion of one key", "thread 1 remove 20\nthread 2 insert 20 9\n"),
    (
        "the end of a leaf and an insertion into it",
        "remove 50\nthread 1 remove 70\nthread 2 insert 60 6\n",
    ),
    ("the end of a leaf and a scan", "remove 50\nthread 1 remove 70\nthread 2 scan\n"),
    ("the end of a leaf and a reader", "remove 50\nthread 1 remove 70\nthread 2 get 70\n"),
    (
        "the end of two leaves",
        "remove 10\nremove 20\nremove 30\nremove 50\nthread 1 remove 40\nthread 2 remove 70\n",
    ),
];

/// What two threads can do to each other in a store: what one frees, the other takes.
const STORE_MEETINGS: &[(&str, &str)] = &[
    ("two values replaced", "thread 1 upsert 10 4\nthread 2 upsert 30 7\n"),
    ("a value replaced by both", "thread 1 upsert 10 4\nthread 2 upsert 10 7\n"),
    ("a value removed and another one added", "thread 1 remove 10\nthread 2 insert 20 4\n"),
    ("a value replaced and read", "thread 1 upsert 10 4\nthread 2 get 10\n"),
    (
        "a batch and a reader",
        "thread 1 batch upsert 10 4; insert 20 2\nthread 2 get 20\nthread 2 get 10\nthread 2 get \
        20\n",
    ),
    ("a batch and a scan", "thread 1 batch upsert 10 4; remove 30\nthread 2 scan\n"),
    (
        "a batch of a value that takes chunks, and a reader",
        "thread 1 batch upsert 10 21474836480; remove 30\nthread 2 get 10\n",
    ),
    ("a batch and what it frees", "thread 1 batch upsert 10 4; remove 30\nthread 2 insert 60 4\n"),
    (
        "two batches of other keys in the same leaves",
        "thread 1 batch upsert 10 4; upsert 50 2\nthread 2 batch upsert 30 7; insert 60 1\n",
    ),
    (
        "two batches of the same keys",
        "thread 1 batch upsert 10 4; remove 30\nthread 2 batch upsert 30 7; remove 10\n",
    ),
    (
        "a batch, and a split that moves what it changes",
        "insert 70 1\nthread 1 batch upsert 50 4; upsert 70 4\nthread 2 insert 20 2\n",
    ),
    (
        "a batch of what is in doubt, and what it frees",
        "upsert 10 4\nthread 1 batch upsert 10 5\nthread 2 upsert 30 7\n",
    ),
    ("two swaps of one value", "upsert 10 3\nthread 1 swap 10 3 4\nthread 2 swap 10 3 7\n"),
    ("a value taken by both", "thread 1 take 10\nthread 2 take 10\n"),
    ("two that take the first entry", "thread 1 pop first\nthread 2 pop first\n"),
    (
        "a sweep and a value that lives again",
        "put_expired 10 4\nthread 1 sweep\nthread 2 upsert 10 5\n",
    ),
    (
        "two sweeps after an opening",
        "put_expired 10 4\nput_expired 30 5\nreopen\nthread 1 sweep\nthread 2 sweep\n",
    ),
    ("a snapshot and a batch", "thread 1 snapshot\nthread 2 batch upsert 10 4; remove 30\n"),
    (
        "a snapshot and two writes",
        "thread 1 snapshot\nthread 2 upsert 10 4\nthread 2 upsert 30 7\n",
    ),
];

/// The same of engines of epochs.
const EPOCH_MEETINGS: &[(&str, &str)] = &[(
    "the end of an epoch, and a value that is replaced meanwhile",
    "upsert 10 4\nthread 1 sync\nthread 2 upsert 10 5\n",
)];

/// What a transaction and another thread can do to each other.
const TRANSACTION_MEETINGS: &[(&str, &str)] = &[
    ("two moves of one value", "thread 1 move 10 20\nthread 2 move 10 40\n"),
    ("a move, and an update of what moves", "thread 1 move 10 20\nthread 2 upsert 10 7\n"),
    ("a move, and a reader of both", "thread 1 move 10 20\nthread 2 get 20\nthread 2 get 10\n"),
    ("writes that are skewed", "thread 1 copy 10 30\nthread 2 copy 30 10\n"),
    ("moves in a ring", "thread 1 move 10 30\nthread 2 move 30 10\n"),
    ("two claims of one range", "thread 1 claim 12 20 13 1\nthread 2 claim 12 20 14 2\n"),
    (
        "a claim, and an insertion into its range",
        "thread 1 claim 12 20 60 1\nthread 2 insert 15 4\n",
    ),
];

fn threads(engine: Engine) -> Vec<Case> {
    let full = inserts([10, 30, 50, 70, 20, 40]) + "explore\n";
    let mut cases = Vec::new();
    let meetings = families::of(engine).map(|(_, member)| member.meetings);
    let threaded = |name: &str, level, keys, script: &str| {
        if meetings == Some(Meetings::Fewer) {
            return Case::threaded(name, engine, level, keys, INTERLEAVINGS / 5, script)
                .with_budget(16);
        }
        Case::threaded(name, engine, level, keys, INTERLEAVINGS, script)
    };
    for keys in [U64, Bytes].into_iter().filter(|keys| keys.are_of(engine)) {
        for (name, meeting) in MEETINGS {
            let case =
                threaded(&format!("{name}, {keys:?}"), Index, keys, &format!("{full}{meeting}"));
            if meetings == Some(Meetings::ByTransactions) {
                cases.push(case.clone().by_transactions());
            }
            cases.push(case);
        }
        for (name, before, meeting) in families::of(engine).map_or(&[][..], |(of, _)| of.meetings) {
            let script = format!("{before}explore\n{meeting}");
            cases.push(threaded(&format!("{name}, {keys:?}"), Index, keys, &script));
        }
        let of_epochs = if engine.contract() == Contract::Buffered { EPOCH_MEETINGS } else { &[] };
        let of_store = STORE_MEETINGS.iter().chain(TRANSACTION_MEETINGS).chain(of_epochs);
        for (name, meeting) in of_store {
            // The barriers are judged by what one thread does. Where the index takes part in a
            // write, two of them leave four blocks and two doubts undecided at a time.
            let script = format!("{}explore\n{meeting}", inserts([10, 30, 50]));
            let name = format!("{name}, {keys:?}, store");
            let case = Case::threaded(&name, engine, Store, keys, STORE_INTERLEAVINGS, &script);
            cases.push(case.with_budget(16));
        }
    }
    cases
}

fn allocators() -> Vec<Case> {
    let by = |worker| move |action| AllocatorOperation { worker, action };
    let (a, b) = (by(0), by(1));
    let blocks = [
        a(Action::Record(0, 40)),
        b(Action::Node(0)),
        b(Action::Record(1, 100)),
        a(Action::FreeRecord(1)),
        a(Action::Link(0, 100)),
        b(Action::Link(0, 40)),
        a(Action::RefusedLink(100)),
        a(Action::Unlink(0)),
        a(Action::FreeNode(0)),
        b(Action::FreeRecord(0)),
    ];
    // One worker's doubt names what another one replaces and frees (A to B, then B to C by the
    // other), and what is then used again: for another link, and for a cell's record. Every
    // operation has another thread, so each worker is handed over. The first record is of a chunk
    // that a refused link has typed, the last of one that a refused batch has.
    let doubts = [
        a(Action::RefusedDoubt(250)),
        a(Action::Doubt(0, 250)),
        a(Action::Doubt(0, 110)),
        b(Action::Doubt(0, 100)),
        a(Action::Doubt(3, 110)),
        b(Action::DoubtOff(0)),
        a(Action::DoubtOff(3)),
        a(Action::Record(1, 100)),
        b(Action::Link(2, 100)),
        a(Action::RefusedBatch(1000)),
        a(Action::Doubt(4, 1000)),
        b(Action::Doubt(5, 100)),
        b(Action::DoubtOff(5)),
        b(Action::Record(5, 100)),
    ];
    let with_runs = [
        a(Action::Doubt(0, 100)),
        b(Action::Link(0, 5000)),
        a(Action::DoubtOff(0)),
        a(Action::Run(1, 2)),
        b(Action::Doubt(2, 100)),
    ];
    let freed = [a(Action::FreeRecord(0)), b(Action::Record(1, 100)), b(Action::Link(1, 100))];
    let unlinked = [a(Action::Unlink(0)), b(Action::Record(1, 100)), b(Action::Link(1, 100))];
    let runs = [
        a(Action::Run(0, 2)),
        b(Action::FreeRun(0)),
        b(Action::Run(1, 1)),
        a(Action::Run(0, 2)),
        a(Action::FreeRun(1)),
    ];
    let grown = [
        a(Action::RefusedRun(3)),
        b(Action::Run(1, 5)), // More than the four chunks that there were: it takes new ones.
        b(Action::Record(0, 100)),
        a(Action::FreeRun(1)),
    ];
    let extended = [
        a(Action::Run(1, 52)),
        b(Action::Run(2, 3)),
        b(Action::Reopen),
        a(Action::Record(0, 100)),
        a(Action::FreeRun(1)),
    ];
    let reopened =
        [a(Action::RefusedRun(1)), a(Action::Run(0, 1)), b(Action::Reopen), b(Action::FreeRun(0))];
    let create = [a(Action::Create), b(Action::Record(0, 40)), a(Action::Run(0, 1))];
    vec![
        Case::allocating("creation of a pool without an index", &[], &create).with_budget(6),
        Case::allocating("blocks come and go between two workers", &[], &blocks),
        Case::allocating("doubts that are older than what their blocks are", &[], &doubts),
        Case::allocating("doubts, and runs in their place", &[], &with_runs),
        Case::allocating(
            "a record that one worker frees is another's next",
            &[a(Action::Record(0, 100)), a(Action::Reopen)],
            &freed,
        ),
        Case::allocating(
            "a linked record likewise",
            &[a(Action::Link(0, 100)), a(Action::Reopen)],
            &unlinked,
        ),
        Case::allocating(
            "a run that one worker linked, freed and used again by another",
            &[a(Action::Link(0, 5000))],
            &[b(Action::Unlink(0)), b(Action::Record(1, 100)), b(Action::Link(1, 40))],
        ),
        Case::allocating(
            "a run that one worker allocated, freed and used again by another",
            &[],
            &[
                a(Action::Record(0, 4100)),
                b(Action::FreeRecord(0)),
                b(Action::Record(1, 100)),
                b(Action::Record(2, 40)),
            ],
        )
        .with_budget(6),
        Case::allocating(
            "a run that one worker freed is taken by another",
            &[a(Action::Record(0, 4100))],
            &[b(Action::FreeRecord(0)), a(Action::Record(1, 100)), a(Action::Record(2, 40))],
        ),
        Case::allocating("runs are taken and given back", &[], &runs),
        Case::allocating(
            "a run whose caller gives up, and the pool closed and opened",
            &[],
            &reopened,
        ),
        // Of twelve chunks three are held back. The table of the smallest pool has lines for more
        // chunks: its extent becomes longer. A run that is larger than these needs another extent,
        // which is lengthened next.
        Case::allocating("growth whose caller gives up", &[a(Action::Run(0, 8))], &grown)
            .in_pool(64 << 10, 128 << 10),
        Case::allocating("growth by an extent, and of this", &[a(Action::Run(0, 8))], &extended)
            .in_pool(64 << 10, 320 << 10)
            .with_budget(8),
        Case::allocating(
            "roots are made, and found again",
            &[],
            &[
                a(Action::Root(0)),
                b(Action::Mark),
                b(Action::Reopen),
                b(Action::Root(1)),
                a(Action::Root(0)),
                a(Action::Mark),
                a(Action::Record(0, 40)),
                b(Action::Unmark),
                b(Action::Reopen),
                a(Action::Unmark),
                a(Action::Mark),
            ],
        ),
        Case::allocating(
            "a session without flushes, and one with flushes after it",
            &[a(Action::Record(0, 40))],
            &[
                a(Action::Unflushed(1, 100)),
                b(Action::Open),
                b(Action::FreeRecord(0)),
                a(Action::Record(2, 40)),
            ],
        ),
    ]
}
