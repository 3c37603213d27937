//! A client of the peer port: it finds the leader, and asks it.

use std::io;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

use crate::peer::hello::Hello;
use crate::peer::message::{Reply, Request, Row};
use crate::peer::peer_error::PeerError;
use crate::peer::status::{ClusterStatus, NodeStatus};
use crate::peer::stream::{Keys, Link};
use crate::peer::wire::{Kind, encode};
use crate::types::Member;

/// How long the leader is looked for.
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks a cluster for rows and about itself. One request at a time.
pub struct Client {
    keys: Keys,
    /// Addresses of nodes; the first one is asked first.
    nodes: Vec<String>,
    link: Option<Link>,
}

impl Client {
    /// For a cluster with nodes at these addresses; one that runs is enough.
    pub fn new(nodes: Vec<String>, keys: Keys) -> Self {
        Self { keys, nodes, link: None }
    }

    /// Connects to one node, for tests of what a peer sends.
    ///
    /// # Errors
    /// [`PeerError`].
    #[doc(hidden)]
    pub async fn connect(&self, address: &str, node: Option<u64>) -> Result<Link, PeerError> {
        self.keys.connect(address, Hello::of(Uuid::nil(), 0), node).await
    }

    /// Asks the leader, whom it looks for.
    ///
    /// # Errors
    /// [`PeerError`]. If the connection failed after a put was sent, the put may be done or not.
    pub(crate) async fn ask(&mut self, request: &Request) -> Result<Reply, PeerError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let error = match self.try_ask(request).await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            self.link = None;
            if !is_temporary(&error, request) || Instant::now() > deadline {
                return Err(error);
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Asks one node, and remembers what it says of another one.
    async fn try_ask(&mut self, request: &Request) -> Result<Reply, PeerError> {
        let mut link = match self.link.take() {
            Some(link) => link,
            None => {
                let first = self.nodes.first().cloned().ok_or(PeerError::NoLeader)?;
                let linked = self.connect(&first, None).await;
                if linked.is_err() {
                    self.nodes.rotate_left(1);
                }
                // Nothing was asked yet: another node may answer, or this one a little later.
                linked.map_err(|error| match error {
                    PeerError::Stream(source) => PeerError::Unreachable { address: first, source },
                    error => error,
                })?
            }
        };
        let silent = |_| io::Error::from(io::ErrorKind::TimedOut);
        match timeout(patience(request), link.ask(request)).await.map_err(silent)?? {
            Reply::NotLeader { leader: Some(leader) } => {
                self.nodes.retain(|node| *node != leader.raft);
                self.nodes.insert(0, leader.raft);
                Err(PeerError::NoLeader)
            }
            Reply::NotLeader { leader: None } => {
                self.nodes.rotate_left(1);
                Err(PeerError::NoLeader)
            }
            reply => {
                self.link = Some(link);
                Ok(reply)
            }
        }
    }

    /// An answer that does not fit; or the sentence that it is.
    pub(crate) fn unexpected(reply: Reply) -> PeerError {
        match reply {
            Reply::Failed(sentence) => PeerError::Refused(sentence),
            _ => crate::peer::wire::damaged("an answer to another question came").into(),
        }
    }

    /// Asks for something to be done.
    ///
    /// # Errors
    /// As [`put`](Self::put), and the leader's sentence.
    async fn done(&mut self, request: &Request) -> Result<(), PeerError> {
        match self.ask(request).await? {
            Reply::Done => Ok(()),
            other => Err(Self::unexpected(other)),
        }
    }

    /// A new node asks to belong to the cluster, and maybe to replace another one.
    pub(crate) async fn join(
        &mut self,
        node: u64,
        member: Member,
        replaces: Option<u64>,
    ) -> Result<(), PeerError> {
        self.done(&Request::Join { node, member, replaces }).await
    }

    /// A node is reached elsewhere.
    pub(crate) async fn announce(&mut self, node: u64, member: Member) -> Result<(), PeerError> {
        self.done(&Request::Announce { node, member }).await
    }

    /// Removes a node from the cluster, for ever. It need not run.
    ///
    /// # Errors
    /// As [`put`](Self::put); it is the last one, or there is none of this number.
    pub async fn remove(&mut self, node: u64) -> Result<(), PeerError> {
        self.done(&Request::Remove { node }).await
    }

    /// Lets another node lead.
    ///
    /// # Errors
    /// As [`put`](Self::put); it does not vote, or could not take over in time.
    pub async fn transfer(&mut self, node: u64) -> Result<(), PeerError> {
        self.done(&Request::Lead { node }).await
    }

    /// Stores rows, or removes those without a value, all or none; durably on a majority.
    ///
    /// # Errors
    /// [`PeerError`]. Where the answer was lost the rows may be stored or not, and it says so.
    pub async fn put(&mut self, rows: Vec<Row>) -> Result<(), PeerError> {
        match self.done(&Request::Put { rows }).await {
            Err(PeerError::Stream(_)) => Err(PeerError::Refused(
                "the connection ended before the answer: the rows may be stored or not".to_owned(),
            )),
            done => done,
        }
    }

    /// A row, as every answered put before has left it.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub async fn get(&mut self, key: impl Into<Vec<u8>>) -> Result<Option<Vec<u8>>, PeerError> {
        match self.ask(&Request::Get { key: key.into() }).await? {
            Reply::Value(value) => Ok(value),
            other => Err(Self::unexpected(other)),
        }
    }

    /// Some rows from a key on, in order, no more than `limit`; fewer if they are long.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub async fn scan(
        &mut self,
        from: impl Into<Vec<u8>>,
        limit: u32,
    ) -> Result<Vec<Row>, PeerError> {
        match self.ask(&Request::Scan { from: from.into(), limit }).await? {
            Reply::Rows { rows, .. } => Ok(rows),
            other => Err(Self::unexpected(other)),
        }
    }

    /// Tells `told` of rows whose keys begin so, as they change on the node that is asked, until it
    /// returns false; first of none, when the watch has begun.
    ///
    /// # Errors
    /// As [`put`](Self::put); changes were missed, and the rows must be scanned.
    pub async fn watch(
        &mut self,
        prefix: impl Into<Vec<u8>>,
        mut told: impl FnMut(Vec<Row>) -> bool,
    ) -> Result<(), PeerError> {
        let first = self.nodes.first().cloned().ok_or(PeerError::NoLeader)?;
        let mut link = self.connect(&first, None).await?;
        link.send(Kind::Message, &encode(&Request::Watch { prefix: prefix.into() })?).await?;
        loop {
            match link.reply().await? {
                Reply::Rows { rows, .. } => {
                    if !told(rows) {
                        return Ok(());
                    }
                }
                other => return Err(Self::unexpected(other)),
            }
        }
    }

    /// How the leader is, and what it knows of the others; it waits for one shortly.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub async fn status_of_leader(&mut self) -> Result<NodeStatus, PeerError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let error = match self.status().await {
                Ok(status) if status.by.role == "leader" => return Ok(status.by),
                Ok(_) => PeerError::NoLeader,
                Err(error) => error,
            };
            if !is_temporary(&error, &Request::Status) || Instant::now() > deadline {
                return Err(error);
            }
            self.nodes.rotate_left(1);
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// How the cluster is. If no node leads, the node that was asked tells what it knows.
    ///
    /// # Errors
    /// [`PeerError`] of the node that is asked.
    pub async fn status(&mut self) -> Result<ClusterStatus, PeerError> {
        let first = self.nodes.first().cloned().ok_or(PeerError::NoLeader)?;
        let by = self.status_at(&first, None).await?;
        let leader = by.members.iter().find(|member| Some(member.node) == by.leader);
        let by = match leader.filter(|leader| leader.node != by.node) {
            None => by,
            Some(leader) => match self.status_at(&leader.raft, Some(leader.node)).await {
                Ok(leading) => {
                    let address = leader.raft.clone();
                    self.nodes.retain(|node| *node != address);
                    self.nodes.insert(0, address);
                    leading
                }
                Err(_) => by,
            },
        };
        let others = by.members.iter().filter(|member| member.node != by.node);
        let ask = others.map(|member| self.status_at(&member.raft, Some(member.node)));
        let others = join_all(ask).await.into_iter().filter_map(Result::ok).collect();
        Ok(ClusterStatus { by, others })
    }

    async fn status_at(&self, address: &str, node: Option<u64>) -> Result<NodeStatus, PeerError> {
        let mut link = self.connect(address, node).await?;
        let silent = |_| PeerError::Silent { address: address.to_owned() };
        match timeout(PATIENCE, link.ask(&Request::Status)).await.map_err(silent)?? {
            Reply::Status(status) => Ok(*status),
            other => Err(Self::unexpected(other)),
        }
    }
}

/// How long the answer may take; a new node is sent everything first.
fn patience(request: &Request) -> Duration {
    match request {
        Request::Join { .. } => Duration::from_secs(24 * 3600),
        Request::Remove { .. } => Duration::from_secs(90),
        _ => Duration::from_secs(20),
    }
}

/// Whether another node, or the same one a little later, may answer.
fn is_temporary(error: &PeerError, request: &Request) -> bool {
    match error {
        PeerError::NoLeader | PeerError::Unreachable { .. } | PeerError::Silent { .. } => true,
        PeerError::Stream(_) => request.may_be_repeated(),
        _ => false,
    }
}
