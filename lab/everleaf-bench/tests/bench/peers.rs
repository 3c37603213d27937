//! The store and its peers, side by side: the same phases, the same keys, right answers, and
//! nothing left behind.

use everleaf_bench::{
    BenchKeyType, CompareOptions, MicroOptions, Peer, Phase, PhaseReport, Scratch, Subject,
    run_compare, run_micro,
};

fn reports(options: &MicroOptions) -> Vec<PhaseReport> {
    let mut reports = Vec::new();
    run_micro(options, &mut |report| reports.push(report))
        .unwrap_or_else(|error| panic!("{}: {error}", options.engine));
    reports
}

fn options(engine: &str) -> MicroOptions {
    use Phase::*;
    let phases = vec![Insert, Find, Multiget, Update, Find, Scan, Mixed, Delete, Find];
    MicroOptions {
        engine: engine.into(),
        keys: 400,
        warm: 300,
        phases,
        value_bytes: Some(100),
        seed: 9,
        ..Default::default()
    }
}

/// What has no file.
const IN_MEMORY: [&str; 3] = ["btreemap", "stx", "skipmap"];

/// What one thread has to itself.
const SERIAL: [&str; 2] = ["btreemap", "stx"];

/// Everything that has values of any number of bytes.
fn of_bytes() -> Vec<String> {
    let own = ["btreemap", "stx", "store", "store:fptree"].map(String::from);
    let peers =
        Peer::ALL.into_iter().filter(|peer| peer.is_built()).map(|peer| peer.name().to_owned());
    own.into_iter().chain(peers).collect()
}

#[test]
fn every_peer_answers_rightly_with_every_kind_of_key() {
    for engine in of_bytes() {
        for key_type in [BenchKeyType::U64, BenchKeyType::String16] {
            let reports = reports(&MicroOptions { key_type, ..options(&engine) });
            let left: Vec<_> = reports.iter().map(|report| report.keys_after).collect();
            assert_eq!(
                left,
                [700, 700, 700, 700, 700, 700, 900, 500, 500],
                "{engine} {key_type:?}"
            );
            assert!(
                reports.iter().all(|report| report.value_bytes == 100 && report.engine == engine)
            );
        }
    }
}

#[test]
fn threads_share_a_peer() {
    for engine in of_bytes().into_iter().filter(|engine| !SERIAL.contains(&engine.as_str())) {
        let reports = reports(&MicroOptions { threads: 3, ..options(&engine) });
        assert_eq!(reports.last().map(|report| report.keys_after), Some(500), "{engine}");
    }
}

#[test]
fn each_says_what_a_write_survives() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    for engine in of_bytes().into_iter().chain(["fptree".into(), "fptree-c".into()]) {
        let value_bytes = if engine.starts_with("fptree") { None } else { Some(24) };
        let micro = MicroOptions {
            pool: Scratch::at(Some(folder.path().join("pool"))),
            value_bytes,
            ..options(&engine)
        };
        let right = if IN_MEMORY.contains(&engine.as_str()) { "none" } else { "process-crash" };
        let rows = run_compare(&CompareOptions {
            engines: vec![engine.clone()],
            rounds: 1,
            turn: Some(100),
            micro: micro.clone(),
        })
        .unwrap();
        assert!(rows.iter().all(|row| row.durability == right
            && row.value_bytes == if value_bytes.is_some() { 24 } else { 8 }));
        assert!(reports(&micro).iter().all(|report| report.durability == right), "{engine}");
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            0,
            "{engine} left something behind"
        );
    }
}

#[test]
fn a_peer_on_a_disk_that_syncs_says_so() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    if !Peer::Lmdb.is_built() {
        return;
    }
    let of = |engine: &str| {
        let micro = MicroOptions {
            pool: Scratch::at(Some(folder.path().join("pool"))),
            keys: 3,
            warm: 0,
            ..options(engine)
        };
        let options = CompareOptions { engines: vec![engine.into()], rounds: 1, turn: None, micro };
        run_compare(&MicroPhases(options, vec![Phase::Insert]).into()).unwrap()[0]
            .durability
            .clone()
    };
    assert_eq!(of("lmdb"), "process-crash");
    assert_eq!(of("redb"), "power-fail");
}

/// Options with other phases.
struct MicroPhases(CompareOptions, Vec<Phase>);

impl From<MicroPhases> for CompareOptions {
    fn from(MicroPhases(mut options, phases): MicroPhases) -> Self {
        options.micro.phases = phases;
        options
    }
}

#[test]
fn a_named_place_that_exists_is_refused_by_peers_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("precious");
    std::fs::write(&path, "precious").unwrap();
    for engine in of_bytes().iter().filter(|engine| !IN_MEMORY.contains(&engine.as_str())) {
        let error = run_micro(
            &MicroOptions { pool: Scratch::at(Some(path.clone())), ..options(engine) },
            &mut |_| {},
        )
        .unwrap_err();
        assert!(error.to_string().contains("exists"), "{engine}: {error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    }
}

#[test]
fn the_store_is_counted_and_the_same_seed_gives_the_same_counters() {
    for key_type in [BenchKeyType::U64, BenchKeyType::String16] {
        let options = MicroOptions { key_type, ..options("store") };
        let counters = || {
            let of = |report: &PhaseReport| {
                (
                    report.flushes,
                    report.fences,
                    report.allocator_flushes,
                    report.allocations,
                    report.pm_lines_read,
                )
            };
            reports(&options).iter().map(of).collect::<Vec<_>>()
        };
        let counted = counters();
        assert!(counted[0].0 > Some(400) && counted[0].3 >= Some(400), "{counted:?}");
        assert_eq!(counted, counters(), "{key_type:?}");
    }
    let peer = |name: &str| reports(&options(name));
    assert!(peer("skipmap").iter().all(|report| report.flushes.is_none()));
    if Peer::Lmdb.is_built() {
        assert!(
            peer("lmdb")
                .iter()
                .all(|report| report.flushes.is_none() && report.medium_bytes > Some(0))
        );
    }
}

#[test]
fn sizes_of_values_that_an_index_does_not_have_are_refused() {
    let of = |engine: &str, bytes| {
        let options = MicroOptions {
            value_bytes: Some(bytes),
            phases: vec![Phase::Insert],
            ..options(engine)
        };
        run_micro(&options, &mut |_| {})
    };
    assert!(of("fptree", 112).is_ok() && of("fptree", 8).is_ok());
    for bytes in [9, 100, 120] {
        let error = of("fptree", bytes).unwrap_err();
        assert!(error.is_wrong_usage() && error.to_string().contains("multiple of 8"), "{error}");
    }
    for engine in ["store", "fptree", "skipmap"] {
        assert!(
            of(engine, 7).unwrap_err().to_string().starts_with("--value-bytes 7 is out of range")
        );
    }
    let sized = MicroOptions { node_bytes: Some(512), ..options("skipmap") };
    assert!(run_micro(&sized, &mut |_| {}).unwrap_err().is_wrong_usage());
}

#[test]
fn what_is_available_is_what_runs() {
    for subject in Subject::available() {
        let options = MicroOptions { value_bytes: None, ..options(&subject.to_string()) };
        assert_eq!(reports(&options).len(), 9);
    }
}
