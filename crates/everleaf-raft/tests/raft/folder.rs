//! The folder of a node.

use everleaf::{Error, PoolError, Store};
use everleaf_raft::{C, FolderError, PoolOptions, Pools, Snapshot, SnapshotData};
use openraft::storage::RaftStateMachine;
use uuid::Uuid;

#[test]
fn a_folder_keeps_its_numbers_and_has_one_user() {
    let parent = tempfile::tempdir().unwrap();
    let (folder, cluster) = (parent.path().join("node"), Uuid::new_v4());
    let pools = Pools::create(&folder, cluster, &PoolOptions::default()).unwrap();
    let node = pools.node();
    assert!(node > 0 && node < 1 << 53);
    assert!(Pools::create(&folder, cluster, &PoolOptions::default()).is_err());
    assert!(matches!(
        Pools::open(&folder),
        Err(FolderError::Pool(Error::Pool(PoolError::Locked { .. })))
    ));
    drop(pools);
    let pools = Pools::open(&folder).unwrap();
    assert_eq!((pools.node(), pools.cluster()), (node, cluster));
}

#[test]
fn a_state_begins_as_a_copy() {
    let parent = tempfile::tempdir().unwrap();
    let from = parent.path().join("cache.pool");
    let store = Store::create(&from).unwrap();
    let rows = store.tree("everleaf.server").unwrap();
    rows.put("key", "value").unwrap();
    // A node's words: what they tell is not of the new cluster.
    ["applied", "members"].iter().for_each(|word| {
        rows.put(format!("\0raft {word}"), "of another cluster").unwrap();
    });
    drop(store);
    let options = PoolOptions { from: Some(from), ..PoolOptions::default() };
    let folder = parent.path().join("node");
    drop(Pools::create(&folder, Uuid::new_v4(), &options).unwrap());
    let pools = Pools::open(&folder).unwrap();
    assert_eq!(pools.state().tree().get("key").unwrap().as_deref(), Some(&b"value"[..]));
    assert_eq!(pools.state().applied().log_id, None);
}

#[test]
fn what_is_left_of_other_states_goes_and_an_unfinished_folder_is_refused() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("node");
    drop(Pools::create(&folder, Uuid::new_v4(), &PoolOptions::default()).unwrap());
    drop(Store::create(folder.join("state.7.pool")).unwrap());
    drop(Pools::open(&folder).unwrap());
    let left: Vec<_> =
        std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with("state.7")), "{left:?}");

    let raft = Store::open(folder.join("raft.pool")).unwrap();
    raft.tree("raft.meta").unwrap().delete("state").unwrap();
    drop(raft);
    assert!(matches!(Pools::open(&folder), Err(FolderError::Unfinished)));
}

#[tokio::test]
async fn a_state_that_is_received_may_grow_as_far_as_the_node_was_made_to() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("node");
    let options = PoolOptions { max_size_bytes: Some(64 << 20), ..PoolOptions::default() };
    drop(Pools::create(&folder, Uuid::new_v4(), &options).unwrap());
    let pools = Pools::open(&folder).unwrap();
    let mut state = pools.state();
    let most = |store: &Store| store.statistics().unwrap().max_bytes;
    // The log may have more.
    assert_eq!((most(pools.raft_store()), most(&state.store())), (256 << 20, 64 << 20));
    let mut sent = Vec::new();
    SnapshotData::Here(state.clone()).send(&mut sent).unwrap();
    let Snapshot { meta, snapshot } = state.receive(&sent[..]).unwrap();
    RaftStateMachine::<C>::install_snapshot(&mut state, &meta, snapshot).await.unwrap();
    assert!(folder.join("state.2.pool").exists() && !folder.join("state.1.pool").exists());
    assert_eq!(most(&state.store()), 64 << 20);
}
