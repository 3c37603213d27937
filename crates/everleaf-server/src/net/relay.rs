//! Connections to a node that does not lead.
//!
//! A client of Redis is answered here as long as it asks for nothing that needs keys: who leads,
//! who it is itself. At the first other request
//! * one that knows of clusters, as it has asked for CLUSTER or READONLY, is sent to the leader
//!   (`-MOVED`), each time;
//! * any other one is relayed to the leader for the rest of its life: bytes are passed on in both
//!   directions, and nobody looks at them. So are clients of memcached, at once.
//!
//! A connection that is relayed ends when another node leads than before. What needs no keys is
//! done by an ordinary session on an empty pool (`aside`).

use std::io;
use std::sync::Arc;

use everleaf_raft::{Origin, Stream};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy_bidirectional_with_sizes};
use tokio::sync::{Notify, watch};
use tracing::{debug, info};

use super::connection;
use super::socket::linger;
use crate::cluster::Cluster;
use crate::protocol::{Protocol, Served, Session, Then};
use crate::redis::{self, Outside, Way};
use crate::shared::Ends;

/// What an origin calls memcached's protocol, and that of Redis.
const MEMCACHED: &str = "memcached";
const REDIS: &str = redis::PROTOCOL;

/// Bytes that a relayed connection holds, at most, in each direction.
const RELAYED_BYTES: usize = 16 << 10;

/// A connection that is to be relayed, and what came of it that was not answered.
type Leaving = Arc<Mutex<Option<(Origin, Vec<u8>)>>>;

/// What a relayed client speaks; none: nothing that this version knows.
pub fn protocol_of(origin: &Origin) -> Option<Protocol> {
    match &origin.protocol[..] {
        MEMCACHED => Some(Protocol::Memcached),
        REDIS => Some(Protocol::Redis),
        _ => None,
    }
}

/// Speaks with a client as long as another node leads, or none; until one of the two ends it, or
/// `stop` says that the server stops. A connection by TLS has begun.
pub async fn run(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    (protocol, ends): (Protocol, Ends),
    cluster: Arc<Cluster>,
    mut stop: watch::Receiver<bool>,
) -> io::Result<()> {
    let (origin, first) = match protocol {
        Protocol::Memcached => {
            let Ends { peer, local, .. } = ends;
            let protocol = MEMCACHED.to_owned();
            (Origin { protocol, peer, local, ..Origin::default() }, Vec::new())
        }
        Protocol::Redis => {
            let (leaving, aside) = (Leaving::default(), Arc::clone(&cluster.aside));
            let session = redis::Session::new(Arc::clone(&aside)).with_ends(ends.clone());
            let leaves = Arc::clone(&leaving);
            let undecided =
                Undecided { session, outside: Outside::default(), ends, leaving: leaves };
            connection::run(&mut stream, undecided, aside, stop.clone()).await?;
            let Some(left) = leaving.lock().take() else { return Ok(()) };
            left
        }
    };
    let mut leader = cluster.leader();
    let Some(mut upstream) = connect(&cluster, origin, &mut leader).await else {
        let refusal: &[u8] = match protocol {
            Protocol::Memcached => b"SERVER_ERROR no leader\r\n",
            Protocol::Redis => b"-CLUSTERDOWN no leader\r\n",
        };
        stream.write_all(refusal).await?;
        return linger(stream).await;
    };
    upstream.write_all(&first).await?;
    upstream.flush().await?;
    drop(first);
    tokio::select! {
        copied = copy_bidirectional_with_sizes(
            &mut stream,
            &mut upstream,
            RELAYED_BYTES,
            RELAYED_BYTES,
        ) => copied.map(drop),
        _ = leader.changed() => Ok(()),
        _ = stop.wait_for(|stop| *stop) => Ok(()),
    }
}

/// A connection to the leader; none if there is no leader, or it cannot be reached. Nothing of the
/// client was sent, so another leader is tried if there is one meanwhile.
async fn connect(
    cluster: &Cluster,
    origin: Origin,
    leader: &mut watch::Receiver<Option<u64>>,
) -> Option<Box<dyn Stream>> {
    loop {
        (*leader.borrow_and_update())?;
        tokio::select! {
            connected = cluster.node.relay(origin.clone()) => {
                let refused = connected.as_ref().err();
                refused.iter().for_each(|why| info!("a connection is not relayed: {why}"));
                return connected.ok();
            }
            changed = leader.changed() => changed.ok()?,
        }
    }
}

/// A client of Redis that has asked for nothing yet that needs keys, or that knows of clusters.
struct Undecided {
    session: redis::Session,
    outside: Outside,
    ends: Ends,
    leaving: Leaving,
}

/// How a session answers.
type Serve = fn(&mut redis::Session, &[u8], &mut Vec<u8>) -> Served;

impl Undecided {
    fn serve_by(&mut self, serve: Serve, input: &[u8], out: &mut Vec<u8>) -> Served {
        let mut consumed = 0;
        loop {
            let rest = &input[consumed..];
            let here = match self.outside.way(&mut self.session, rest, out) {
                Way::Here(bytes) => bytes,
                Way::Answered(bytes) => {
                    consumed += bytes;
                    continue;
                }
                Way::Away => {
                    debug!("a connection is relayed");
                    let origin = self.session.origin(&self.ends);
                    *self.leaving.lock() = Some((origin, rest.to_vec()));
                    return Served { consumed: input.len(), then: Then::Leave };
                }
            };
            let served = serve(&mut self.session, &rest[..here], out);
            consumed += served.consumed;
            let goes_on = matches!(served.then, Then::Read | Then::Wait(None));
            if here == 0 || served.consumed < here || !goes_on {
                return Served { consumed, then: served.then };
            }
        }
    }
}

impl Session for Undecided {
    fn serve(&mut self, input: &[u8], out: &mut Vec<u8>) -> Served {
        self.serve_by(redis::Session::serve, input, out)
    }

    fn serve_long(&mut self, input: &[u8], out: &mut Vec<u8>) -> Served {
        self.serve_by(redis::Session::serve_long, input, out)
    }

    fn notify(&self) -> Option<Arc<Notify>> {
        Session::notify(&self.session)
    }

    fn is_lost(&self) -> bool {
        Session::is_lost(&self.session)
    }

    fn is_killed(&self) -> bool {
        Session::is_killed(&self.session)
    }

    fn set_unsent(&self, bytes: usize) {
        Session::set_unsent(&self.session, bytes);
    }

    fn held_bytes(&self) -> usize {
        Session::held_bytes(&self.session)
    }
}
