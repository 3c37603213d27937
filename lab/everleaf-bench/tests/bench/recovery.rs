//! `bench recovery` on real engines: every number of threads is reported, and what cannot be
//! recovered is refused.

use everleaf::Engine;
use everleaf_bench::{
    BenchKeyType, MicroOptions, Recovery, RecoveryOptions, run_recovery, run_recovery_with_progress,
};
use everleaf_engines::pools;

fn options(engine: &str, keys: u64) -> RecoveryOptions {
    let micro = MicroOptions { engine: engine.into(), keys, seed: 3, ..Default::default() };
    RecoveryOptions { threads: vec![1, 3], rounds: 2, clean: false, image: true, micro }
}

#[test]
fn every_number_of_threads_is_reported() {
    for key_type in [BenchKeyType::U64, BenchKeyType::String16] {
        let mut options = options("fptree-c", 3000);
        options.micro.key_type = key_type;
        let mut told = Vec::new();
        let rows =
            run_recovery_with_progress(&options, &mut |progress| told.push(progress)).unwrap();
        assert_eq!(rows.iter().map(|row| row.threads).collect::<Vec<_>>(), [1, 3]);
        for row in &rows {
            assert!(
                0.0 < row.min_ms && row.min_ms <= row.recovery_ms && row.recovery_ms <= row.max_ms,
                "{row:?}"
            );
            let ratio = row.insert_seconds * 1e3 / row.recovery_ms;
            assert_eq!((row.keys, row.times_faster_than_inserting), (3000, ratio));
            assert_eq!(row.table_row().len(), Recovery::table_heading().len());
        }
        let (last, total) = (told.last().unwrap(), 3000 + 4 * 3000);
        assert_eq!((last.done, last.total), (total - 3000, total));
    }
}

#[test]
fn every_key_is_there_after_a_crash_of_every_engine() {
    for engine in pools().map(Engine::of) {
        let rows = run_recovery(&options(&engine.to_string(), 2000)).unwrap();
        assert!(rows.len() == 2 && rows.iter().all(|row| row.shutdown == "crash"), "{engine}");
    }
}

#[test]
fn every_key_is_there_after_a_crash_amid_an_epoch() {
    for buffers in [false, true] {
        let mut options = options("masstree", 2000);
        (options.micro.epoch_ops, options.micro.buffers) = (Some(700), buffers);
        assert!(run_recovery(&options).unwrap().iter().all(|row| row.shutdown == "crash"));
    }
}

#[test]
fn what_cannot_be_recovered_is_wrong_usage() {
    let right = options("fptree", 100);
    for (wrong, words) in [
        (
            RecoveryOptions { threads: Vec::new(), ..right.clone() },
            "at least one number of threads",
        ),
        (RecoveryOptions { threads: vec![1, 0], ..right.clone() }, "--threads 0 is out of range"),
        (RecoveryOptions { threads: vec![65], ..right.clone() }, "--threads 65 is out of range"),
        (RecoveryOptions { rounds: 0, ..right.clone() }, "--rounds 0"),
        (
            RecoveryOptions { rounds: 1001, ..right.clone() },
            "--rounds 1001 is out of range: give 1 to 1000",
        ),
        (options("btreemap", 100), "btreemap persists nothing"),
        (options("stx", 100), "stx persists nothing"),
        (options("fptree:separate", 100), "bench compare"),
    ] {
        let error = run_recovery(&wrong).unwrap_err();
        assert!(error.is_wrong_usage() && error.to_string().contains(words), "{error}");
    }
}
