//! What is asked for.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

use everleaf::{Engine, KeyType};
use everleaf_engines::named;

use super::requests::Mix;
use super::wire::Protocol;
use crate::{Acknowledged, BenchError, Scratch};

/// A server that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// A pool of this engine, served by our program.
    Ours(Engine),
    /// memcached, as it is installed.
    Memcached,
    /// Redis, as it is installed: with a file of what was written where that is said, or else as
    /// the durability asks for it.
    Redis(Option<Append>),
    /// One that runs already.
    At(SocketAddr),
}

/// When Redis syncs the file of what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Append {
    /// There is no such file.
    No,
    /// Once a second.
    EverySecond,
    /// Before it replies.
    Always,
}

impl Append {
    const ALL: [Self; 3] = [Self::No, Self::EverySecond, Self::Always];

    /// As Redis names it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::EverySecond => "everysec",
            Self::Always => "always",
        }
    }

    /// What comes nearest to a durability.
    pub(super) const fn like(acknowledged: Acknowledged) -> Self {
        match acknowledged {
            Acknowledged::Process => Self::No,
            Acknowledged::Buffered => Self::EverySecond,
            Acknowledged::Immediate => Self::Always,
        }
    }
}

impl Served {
    /// The program that must be installed for it, if it is not.
    pub fn missing_program(self) -> Option<&'static str> {
        let program = match self {
            Self::Ours(_) | Self::At(_) => return None,
            Self::Memcached => "memcached",
            Self::Redis(_) => "redis-server",
        };
        let path = std::env::var_os("PATH").unwrap_or_default();
        let is_there = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
        (!is_there).then_some(program)
    }

    /// Whether it can be asked by a protocol.
    pub const fn speaks(self, protocol: Protocol) -> bool {
        match self {
            Self::Ours(_) | Self::At(_) => true,
            Self::Memcached => matches!(protocol, Protocol::Memcached),
            Self::Redis(_) => matches!(protocol, Protocol::Redis),
        }
    }
}

impl fmt::Display for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ours(engine) if *engine == Engine::default() => f.pad("ours"),
            Self::Ours(engine) => f.pad(&format!("ours:{engine}")),
            Self::Memcached => f.pad("memcached"),
            Self::Redis(None) => f.pad("redis"),
            Self::Redis(Some(append)) => f.pad(&format!("redis:{}", append.name())),
            Self::At(address) => f.pad(&address.to_string()),
        }
    }
}

impl FromStr for Served {
    type Err = BenchError;

    fn from_str(name: &str) -> Result<Self, BenchError> {
        let address = |name: &str| name.to_socket_addrs().ok()?.next().map(Self::At);
        let known = match name.split_once(':') {
            None if name == "ours" => Some(Self::Ours(Engine::default())),
            None if name == "memcached" => Some(Self::Memcached),
            None if name == "redis" => Some(Self::Redis(None)),
            Some(("ours", engine)) => Some(Self::Ours(byte_strings(engine)?)),
            Some(("redis", append)) if append.parse::<u16>().is_err() => {
                let known = Append::ALL.into_iter().find(|known| known.name() == append);
                known.map(|append| Self::Redis(Some(append)))
            }
            _ => address(name),
        };
        known.ok_or_else(|| BenchError::Unknown {
            what: "server",
            name: name.into(),
            choices: "ours, ours:ENGINE, memcached, redis, redis:no, redis:everysec, \
                redis:always, or HOST:PORT of one that runs"
                .into(),
        })
    }
}

/// An engine whose pools a server can serve.
fn byte_strings(name: &str) -> Result<Engine, BenchError> {
    let engine = named(name).map(Engine::of).map_err(|_| name.parse::<Engine>().unwrap_err())?;
    match engine.has_keys(KeyType::Bytes) {
        true => Ok(engine),
        false => Err(everleaf::Error::NoByteStrings { engine }.into()),
    }
}

/// What `bench serve` measures.
///
/// # Examples
/// ```
/// use everleaf_bench::serve::ServeOptions;
///
/// let options = ServeOptions::default();
/// assert_eq!(options.servers[0].to_string(), "ours");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ServeOptions {
    /// The servers; the first of those that speak a protocol is what the others are compared with.
    pub servers: Vec<Served>,
    /// Protocols, one after the other, each with servers of its own.
    pub protocols: Vec<Protocol>,
    /// Numbers of connections.
    pub connections: Vec<u32>,
    /// Requests that a connection sends before it waits for their replies.
    pub pipelines: Vec<u32>,
    /// Bytes of a value.
    pub value_bytes: Vec<u32>,
    /// Which requests.
    pub mixes: Vec<Mix>,
    /// Keys of 16 bytes that are there.
    pub keys: u64,
    /// Requests of a server in a round, of all connections together.
    pub requests: u64,
    /// How often each is measured.
    pub rounds: u32,
    /// Threads of the servers.
    pub threads: u32,
    /// Threads of the client.
    pub client_threads: u32,
    /// What a reply to a SET promises.
    pub acknowledged: Acknowledged,
    /// Decides keys and requests.
    pub seed: u64,
    /// Where files of the servers are made.
    pub place: Scratch,
    /// The program that serves pools of ours by the command [`SERVER`](super::SERVER).
    pub program: Option<PathBuf>,
}

impl Default for ServeOptions {
    /// Ours, by memcached's protocol: 50 connections, a request at a time.
    fn default() -> Self {
        Self {
            servers: vec![Served::Ours(Engine::default())],
            protocols: vec![Protocol::Memcached],
            connections: vec![50],
            pipelines: vec![1],
            value_bytes: vec![32],
            mixes: vec![Mix::Sets(100), Mix::Sets(0)],
            keys: 100_000,
            requests: 200_000,
            rounds: 3,
            threads: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
            client_threads: 1,
            acknowledged: Acknowledged::Process,
            seed: 1,
            place: Scratch::default(),
            program: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_named_and_others_are_refused() {
        for name in ["ours", "ours:fptree", "memcached", "redis", "redis:always", "127.0.0.1:6379"]
        {
            assert_eq!(name.parse::<Served>().unwrap().to_string(), name);
        }
        assert_eq!("ours:fptree-c".parse::<Served>().unwrap().to_string(), "ours");
        for wrong in ["", "valkey", "ours:bogus", "ours:btreemap", "redis:never"] {
            assert!(wrong.parse::<Served>().unwrap_err().is_wrong_usage(), "{wrong}");
        }
    }
}
