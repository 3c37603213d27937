//! Keeps the log short. The state is what a snapshot is made of, so "build a snapshot" is a sync of
//! the state; what it contains can then go from the log, as far as other nodes do not need it.

use std::sync::Weak;
use std::time::Duration;

use openraft::{RaftMetrics, ServerState};

use crate::peer::node::{Node, since};
use crate::types::C;

const EVERY: Duration = Duration::from_secs(5);
/// How often a log is looked at whose pool is not larger than a few of those that are too long.
const OFTEN: Duration = Duration::from_secs(1);
/// A log of more entries, or of more bytes, is shortened; at the latest where it has a quarter of
/// its pool.
const ENTRIES: u64 = 100_000;
const BYTES: u64 = 256 << 20;
/// Beyond this, or half of its pool, nobody is waited for: who lacks entries is sent a snapshot.
const MOST_BYTES: u64 = 1 << 30;
/// A node that did not answer for so long is not waited for.
const LIVE: Duration = Duration::from_secs(60);

/// Looks at the log, again and again.
pub async fn run(node: Weak<Node>) {
    let mut pause = OFTEN;
    loop {
        tokio::time::sleep(pause).await;
        let Some(node) = node.upgrade() else { return };
        match tidy(&node, ENTRIES, BYTES).await {
            Ok(max_bytes) => pause = if max_bytes < 4 * MOST_BYTES { OFTEN } else { EVERY },
            Err(error) => tracing::warn!("the log is not shortened: {error}"),
        }
    }
}

/// Shortens the log if it is too long, by what the last snapshot had, and begins another one. The
/// bytes that its pool has at most.
pub(crate) async fn tidy(node: &Node, entries: u64, bytes: u64) -> Result<u64, String> {
    // It reads a line for each 4 KiB of the pool of the log: 16 MiB of a whole GiB.
    let pool = crate::blocking(|| node.log.store().statistics());
    let pool = pool.map_err(|error| error.to_string())?;
    let (used, max) = (pool.used_bytes, pool.max_bytes);
    let metrics = node.metrics();
    let kept = length(&metrics);
    if kept <= entries && used <= bytes.min(max / 4) {
        return Ok(max);
    }
    if let Some(upto) = purge_upto(&metrics, used > MOST_BYTES.min(max / 2), entries) {
        node.raft.trigger().purge_log(upto).await.map_err(|error| error.to_string())?;
    }
    node.raft.trigger().snapshot().await.map_err(|error| error.to_string())?;
    Ok(max)
}

fn length(metrics: &RaftMetrics<C>) -> u64 {
    let next = |index: Option<u64>| index.map_or(0, |index| index + 1);
    next(metrics.last_log_index).saturating_sub(next(metrics.purged.map(|id| id.index)))
}

/// The last entry that nobody needs: it is durable in the state, and all live followers have it. A
/// follower, which does not know what others have, keeps half of what a log may have.
fn purge_upto(metrics: &RaftMetrics<C>, is_urgent: bool, entries: u64) -> Option<u64> {
    let durable = metrics.snapshot?.index;
    if is_urgent {
        return Some(durable);
    }
    if metrics.state != ServerState::Leader {
        return durable.checked_sub(entries / 2);
    }
    let heard = metrics.heartbeat.as_ref()?;
    let is_live = |node: &u64| {
        *node == metrics.id
            || heard.get(node).copied().flatten().is_some_and(|at| since(&at) < LIVE)
    };
    let matched = metrics.replication.as_ref()?.iter().filter(|(node, _)| is_live(node));
    let slowest = matched.map(|(_, id)| id.map_or(0, |id| id.index)).min();
    Some(durable.min(slowest.unwrap_or(durable)))
}
