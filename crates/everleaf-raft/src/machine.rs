//! The state and its snapshots as openraft's state machine.

use std::io;

use futures_util::{Stream, StreamExt};
use openraft::storage::{EntryResponder, RaftStateMachine};
use openraft::{OptionalSend, RaftSnapshotBuilder};

use crate::blocking;
use crate::log::failed;
use crate::snapshot::{Snapshot, SnapshotData};
use crate::state::{STEP_WRITES, State, Step};
use crate::types::{Config, LogId, Members, SnapshotMeta};

impl<T: Config> RaftStateMachine<T> for State {
    type SnapshotData = SnapshotData;
    type SnapshotBuilder = Self;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, Members)> {
        let applied = self.applied();
        Ok((applied.log_id, applied.members))
    }

    async fn apply<S>(&mut self, mut entries: S) -> io::Result<()>
    where
        S: Stream<Item = io::Result<EntryResponder<T>>> + Unpin + OptionalSend,
    {
        let (mut step, mut waiting) = (Step::begin(self), Vec::new());
        loop {
            let next = entries.next().await.transpose()?;
            let is_last = next.is_none();
            if let Some((entry, responder)) = next {
                step.add(entry).map_err(failed)?;
                waiting.extend(responder);
            }
            if is_last || step.batch.len() >= STEP_WRITES {
                self.commit(step)?;
                waiting.drain(..).for_each(|responder| responder.send(()));
                step = Step::begin(self);
            }
            if is_last {
                return Ok(());
            }
        }
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta,
        snapshot: SnapshotData,
    ) -> io::Result<()> {
        blocking(|| self.install(meta, snapshot))
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<Snapshot>> {
        let meta = self.shared.snapshot.lock().clone();
        Ok(meta.map(|meta| Snapshot { meta, snapshot: SnapshotData::Here(self.clone()) }))
    }
}

impl<T: Config> RaftSnapshotBuilder<T> for State {
    type SnapshotData = SnapshotData;

    async fn build_snapshot(&mut self) -> io::Result<Snapshot> {
        let meta = blocking(|| self.build())?;
        Ok(Snapshot { meta, snapshot: SnapshotData::Here(self.clone()) })
    }
}
