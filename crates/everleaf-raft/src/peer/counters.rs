//! What a node has counted since it was started, for its status and for Prometheus.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($name:ident: $help:literal),+ $(,)?) => {
        /// Numbers that only rise.
        #[derive(Debug, Default)]
        pub struct Counters {
            $(#[doc = $help] pub $name: AtomicU64,)+
        }

        impl Counters {
            /// Each one's name, what it counts, and how many.
            pub fn all(&self) -> Vec<(String, String, u64)> {
                vec![$((
                    stringify!($name).to_owned(),
                    $help.to_owned(),
                    self.$name.load(Ordering::Relaxed),
                ),)+]
            }
        }
    };
}

counters! {
    appends_sent: "Append requests that another node has answered.",
    entries_sent: "Entries in them.",
    appends_received: "Append requests that came.",
    snapshots_sent: "Snapshots whose sending was begun.",
    snapshot_bytes_sent: "Bytes of snapshots that were sent.",
    snapshots_received: "Snapshots that came whole.",
    snapshot_bytes_received: "Bytes of snapshots that came.",
    connections: "Connections that were accepted.",
    connections_refused: "Connections that were not: of another cluster, secret or protocol.",
    requests: "Requests of clients of the peer port.",
}

impl Counters {
    /// Adds to one of them.
    pub fn add(counter: &AtomicU64, number: u64) {
        counter.fetch_add(number, Ordering::Relaxed);
    }
}
