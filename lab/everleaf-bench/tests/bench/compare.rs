//! `bench compare` on real engines: everything is measured, and what cannot be compared is refused.

use everleaf_bench::{
    BenchError, BenchKeyType, CompareOptions, Comparison, MicroOptions, Phase, run_compare,
    run_compare_with_progress,
};

fn options(phases: &[Phase]) -> CompareOptions {
    let micro = MicroOptions { keys: 300, phases: phases.to_vec(), ..Default::default() };
    CompareOptions {
        engines: vec!["btreemap".into(), "btreemap".into()],
        rounds: 3,
        turn: None,
        micro,
    }
}

#[test]
fn every_engine_is_measured_in_every_phase() {
    let options = options(&[Phase::Insert, Phase::Find, Phase::Delete, Phase::Insert]);
    let mut told = Vec::new();
    let rows = run_compare_with_progress(&options, &mut |progress| told.push(progress)).unwrap();
    assert_eq!(rows.len(), 8);
    assert!(
        rows.iter().all(|row| row.min_ops_per_second > 0.0
            && row.min_ops_per_second <= row.median_ops_per_second)
    );
    let heading = Comparison::table_heading();
    assert!(
        rows.iter().all(|row| row.table_row().len() >= heading.len()), // A number may be long.
        "{heading}\n{}",
        rows[0].table_row()
    );
    assert!(rows.iter().all(|row| row.turns == 3
        && row.ratio_min <= row.ratio_q1
        && row.ratio_q1 <= row.ratio
        && row.ratio <= row.ratio_q3
        && row.ratio_q3 <= row.ratio_max));
    assert!(
        told.iter().all(|progress| progress.done < progress.total)
            && told.is_sorted_by_key(|progress| progress.done)
    );
}

#[test]
fn separate_indexes_do_as_many_operations_as_a_shared_one() {
    let phases = [
        Phase::Insert,
        Phase::Mixed,
        Phase::Find,
        Phase::Multiget,
        Phase::Update,
        Phase::Scan,
        Phase::Delete,
    ];
    let engines =
        ["fptree-c:separate", "fptree-c", "fptree:separate", "btreemap:separate", "fptree:copies"];
    for key_type in [BenchKeyType::U64, BenchKeyType::String16] {
        let micro = MicroOptions { threads: 3, warm: 600, key_type, ..options(&phases).micro };
        let options = CompareOptions {
            engines: engines.map(Into::into).into(),
            rounds: 2,
            turn: Some(40),
            micro,
        };
        let mut told = Vec::new();
        let rows =
            run_compare_with_progress(&options, &mut |progress| told.push(progress)).unwrap();
        let seen: Vec<_> =
            rows.iter().take(5).map(|row| (row.engine.as_str(), row.keys, row.threads)).collect();
        assert_eq!(seen, engines.map(|engine| (engine, 300, 3)));
        let total = (4 + 3) * 2 * (600 + 7 * 300);
        assert!(told.iter().all(|progress| progress.total == total), "{:?}", told[0]);
        assert_eq!(
            told.last().unwrap().done,
            total - 38,
            "the last turn of eight began when all others were done"
        );
        assert!(
            rows.iter().all(|row| row.turns == 2 * if row.phase == Phase::Scan { 75 } else { 8 })
        );
    }
}

#[test]
fn separate_indexes_take_equal_parts_and_need_keys_in_each() {
    let right = |change: fn(&mut MicroOptions)| {
        let mut micro = MicroOptions {
            threads: 4,
            keys: 400,
            phases: vec![Phase::Insert],
            ..Default::default()
        };
        change(&mut micro);
        let engines = vec!["fptree:separate".into()];
        CompareOptions { engines, rounds: 1, turn: None, micro }
    };
    run_compare(&right(|_| {})).unwrap();
    let refused = |change| {
        let error = run_compare(&right(change)).unwrap_err();
        assert!(error.is_wrong_usage(), "{error}");
        error.to_string()
    };
    let sentence = refused(|o| o.keys = 401);
    assert_eq!(
        sentence,
        "--keys 401 is no multiple of --threads 4, and separate indexes take equal parts: give a \
        multiple"
    );
    assert!(refused(|o| o.warm = 2).starts_with("--warm 2 is no multiple"));
    assert!(refused(|o| o.threads = 0).starts_with("--threads 0 is out of range"));
    assert!(
        refused(|o| (o.threads, o.keys) = (65, 65)).starts_with("--threads 65 is out of range")
    );
    assert!(refused(|o| o.keys = 0).starts_with("--keys 0 is out of range"));
    assert!(refused(|o| o.phases = vec![Phase::Find]).contains("phase find needs keys"));
    let shared = CompareOptions { engines: vec!["fptree".into()], ..right(|_| {}) };
    assert!(matches!(run_compare(&shared), Err(BenchError::SerialEngine { .. })));
}

#[test]
fn nothing_to_compare_and_an_engine_that_is_not_there_are_wrong_usage() {
    let right = options(&[Phase::Insert]);
    for wrong in [
        CompareOptions { engines: Vec::new(), ..right.clone() },
        CompareOptions { rounds: 0, ..right.clone() },
        CompareOptions { rounds: 1001, ..right.clone() },
        CompareOptions { turn: Some(0), ..right.clone() },
        CompareOptions { engines: vec!["btreemap".into(), "bogus".into()], ..right.clone() },
        CompareOptions { engines: vec!["btreemap".into(), "stxtree".into()], ..right.clone() },
        CompareOptions { engines: vec!["btreemap:apart".into()], ..right.clone() },
        CompareOptions { engines: vec![":separate".into()], ..right.clone() },
        CompareOptions { engines: vec!["fptree:copies:separate".into()], ..right.clone() },
    ] {
        let error = run_compare(&wrong).unwrap_err();
        assert!(error.is_wrong_usage(), "{error}");
    }
}

#[test]
fn copies_do_all_operations_on_all_keys() {
    let micro = MicroOptions {
        threads: 3,
        keys: 301,
        warm: 11,
        ..options(&[Phase::Insert, Phase::Delete]).micro
    };
    let options = CompareOptions { engines: vec!["fptree:copies".into()], ..options(&[]) };
    let options = CompareOptions { rounds: 1, micro, ..options };
    let mut told = Vec::new();
    run_compare_with_progress(&options, &mut |progress| told.push(progress.total)).unwrap();
    assert_eq!(told.last(), Some(&(3 * (11 + 2 * 301))), "no part, which must be a multiple");
}
