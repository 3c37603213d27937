//! openraft's own suite for logs and states.

use std::path::{Path, PathBuf};

use everleaf::DurabilityMode;
use everleaf_raft::{C, Log, PoolOptions, Pools, State};
use openraft::StorageError;
use openraft::testing::log::{StoreBuilder, Suite};
use tempfile::TempDir;
use uuid::Uuid;

/// Makes nodes in folders of a folder.
struct Nodes {
    parent: PathBuf,
    raft: DurabilityMode,
    state: DurabilityMode,
}

impl StoreBuilder<C, Log<C>, State, (Pools, TempDir)> for Nodes {
    async fn build(&self) -> Result<((Pools, TempDir), Log<C>, State), StorageError<C>> {
        let folder = tempfile::tempdir_in(&self.parent).unwrap();
        let pools =
            Pools::create(&folder.path().join("node"), Uuid::new_v4(), &PoolOptions::default())
                .unwrap();
        let mode = |store: &everleaf::Store| store.statistics().unwrap().durability_mode;
        assert_eq!(mode(pools.raft_store()), self.raft);
        assert_eq!(mode(&pools.state().store()), self.state);
        let (log, state) = (pools.log().unwrap(), pools.state());
        Ok(((pools, folder), log, state))
    }
}

fn run(nodes: Nodes) {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(Suite::test_all(nodes)).unwrap();
}

#[test]
fn openrafts_suite_on_a_disk() {
    let parent = Path::new(env!("CARGO_TARGET_TMPDIR")).to_owned();
    run(Nodes { parent, raft: DurabilityMode::Immediate, state: DurabilityMode::buffered() });
}

#[test]
fn openrafts_suite_on_tmpfs() {
    let parent = PathBuf::from("/dev/shm");
    run(Nodes { parent, raft: DurabilityMode::Process, state: DurabilityMode::Process });
}
