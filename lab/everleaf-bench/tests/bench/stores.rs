//! `bench stores` on all stores.

use everleaf_bench::{MicroOptions, Peer, Phase, StoresOptions, run_stores_with_progress};

#[test]
fn all_stores_do_the_same_on_the_same_medium_and_say_what_a_write_survives() {
    let mut usual = StoresOptions::default();
    if !Peer::Lmdb.is_built() {
        let refused = run_stores_with_progress(&usual, &mut |_| {}).unwrap_err();
        assert!(refused.is_wrong_usage() && refused.to_string().contains("--features peers"));
        let own = ["store:fptree", "store:circtree", "store:ptree", "store"];
        usual.engines = own.map(Into::into).into();
    }
    let micro = MicroOptions { keys: 400, ..usual.micro.clone() };
    let rows =
        run_stores_with_progress(&StoresOptions { rounds: 1, micro, ..usual.clone() }, &mut |_| {})
            .unwrap();
    assert_eq!(rows.len(), 2 * 4 * 4);
    for (place, row) in rows.iter().enumerate() {
        let measured = &row.measured;
        assert_eq!(
            (measured.threads, &measured.engine),
            (1 + place as u32 / 16, &usual.engines[place % 4])
        );
        let keys = if measured.phase == Phase::Scan { 20 } else { 400 };
        assert_eq!((measured.keys, measured.value_bytes), (keys, 100), "{row:?}");
        assert!(
            row.medium == rows[0].medium
                && measured.durability != "none"
                && !row.settings.is_empty(),
            "{row:?}"
        );
        let others = rows[place / 4 * 4..][..4]
            .iter()
            .filter(|other| other.measured.engine != measured.engine);
        let best = others.map(|other| other.measured.median_ops_per_second).fold(0.0, f64::max);
        assert_eq!(row.to_best_other, Some(measured.median_ops_per_second / best));
    }
}

#[test]
fn what_cannot_be_compared_is_wrong_usage() {
    let usual = StoresOptions { rounds: 1, ..StoresOptions::default() };
    for wrong in [
        StoresOptions { engines: Vec::new(), ..usual.clone() },
        StoresOptions { threads: Vec::new(), ..usual.clone() },
        StoresOptions { rounds: 0, ..usual.clone() },
        StoresOptions { engines: vec!["store".into(), "bogus".into()], ..usual.clone() },
    ] {
        assert!(run_stores_with_progress(&wrong, &mut |_| {}).unwrap_err().is_wrong_usage());
    }
}

#[test]
fn stores_with_epochs_say_how_many_nodes_were_logged() {
    let usual = StoresOptions::default();
    let micro = MicroOptions { keys: 300, ..usual.micro.clone() };
    let engines = vec!["store:masstree".into(), "store".into()];
    let options = StoresOptions { engines, rounds: 1, threads: vec![1], micro };
    let rows = run_stores_with_progress(&options, &mut |_| {}).unwrap();
    for row in &rows {
        let has_epochs = row.measured.engine == "store:masstree";
        assert_eq!(row.measured.nodes_logged.is_some(), has_epochs, "{row:?}");
    }
    let found = rows.iter().find(|row| row.measured.phase == Phase::Find).unwrap();
    assert_eq!(found.measured.nodes_logged, Some(0));
}
