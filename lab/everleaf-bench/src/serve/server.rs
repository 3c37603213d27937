//! Servers that are started for a measurement.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{fs, io};

use everleaf::{CreateOptions, DurabilityMode, Engine};
use everleaf_engines::all;

use super::SERVER;
use super::client::greet;
use super::options::{Append, ServeOptions, Served};
use super::wire::Protocol;
use crate::place::without_log;
use crate::scratch::Started;
use crate::{Acknowledged, BenchError, Made};

/// How long a server may take to begin.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(5);
/// Connections that a server has to take beyond those that are measured.
const SPARE_CONNECTIONS: u32 = 64;
/// Of a pool at first: it grows while it is filled.
const POOL_BYTES: u64 = 64 << 20;

/// A server that answers.
pub struct Running {
    pub name: Served,
    pub address: SocketAddr,
    /// What it is run with.
    pub settings: String,
    /// None of one that ran already.
    process: Option<Started>,
}

/// How a server is started.
struct Launch {
    command: Command,
    settings: String,
}

/// Starts a server whose files lie in this folder and take so many bytes at most.
pub fn start(
    name: Served,
    protocol: Protocol,
    options: &ServeOptions,
    folder: &Made,
    bytes: u64,
) -> Result<Running, BenchError> {
    let failed = |action| move |source| BenchError::Server { action, server: name, source };
    if let Served::At(address) = name {
        let settings = "as it runs".into();
        return Ok(Running { name, address, settings, process: None });
    }
    let address = free_address().map_err(failed("finding a port for"))?;
    let own = folder.path().join(address.port().to_string()); // A server may be given twice.
    folder.fill(|_| fs::create_dir(&own)).map_err(failed("making a folder for"))?;
    let Launch { mut command, settings } = match name {
        Served::Ours(engine) => {
            let pool = own.join("pool");
            let mode = folder.fill(|_| create_pool(&pool, engine, options.acknowledged, bytes))?;
            let settings = format!("durability {mode}");
            Launch { command: ours(&pool, protocol, address, options), settings }
        }
        Served::Memcached => memcached(address, options, bytes),
        Served::Redis(append) => redis(address, options, append, &own),
        Served::At(_) => unreachable!("it runs already"),
    };
    let said = own.join("said");
    let (out, errors) = fs::File::create(&said)
        .and_then(|file| Ok((file.try_clone()?, file)))
        .map_err(failed("making a file for"))?;
    command.stdin(Stdio::null()).stdout(out).stderr(errors);
    let process = options.place.start(&mut command).map_err(failed("starting"))?;
    let running = Running { name, address, settings, process: Some(process) };
    running.wait(protocol, &said)?;
    Ok(running)
}

/// Makes a pool for a server of ours; what a write to it promises.
fn create_pool(
    path: &Path,
    engine: Engine,
    acknowledged: Acknowledged,
    bytes: u64,
) -> Result<DurabilityMode, BenchError> {
    let create = CreateOptions::new().engines(all()).engine(engine).size_bytes(POOL_BYTES);
    let create = create.max_size_bytes(bytes.max(POOL_BYTES).saturating_mul(4));
    let create = match acknowledged {
        Acknowledged::Process => without_log(create),
        other => create.durability(other.mode()),
    };
    let store = create.create(path)?;
    let mode = store.capabilities().durability_mode;
    store.close()?;
    Ok(mode)
}

fn ours(pool: &Path, protocol: Protocol, address: SocketAddr, options: &ServeOptions) -> Command {
    // Looked at by the plan: without a program there is no such server.
    let mut command = Command::new(options.program.as_deref().unwrap_or(Path::new("everleaf-lab")));
    command.arg(SERVER).arg(pool);
    command.args([&format!("--{protocol}"), &address.to_string()]);
    command.args(["--threads", &options.threads.to_string()]);
    command.args(["--max-connections", &connections(options).to_string()]);
    command
}

fn memcached(address: SocketAddr, options: &ServeOptions, bytes: u64) -> Launch {
    let mut command = Command::new("memcached");
    // Its classes of sizes waste up to a quarter, and nothing is to be evicted.
    let mebibytes = ((bytes >> 19) * 3 / 4).max(64).to_string();
    command.args(["-l", &address.ip().to_string(), "-p", &address.port().to_string(), "-U", "0"]);
    // The user is asked for where root starts it, and left alone elsewhere.
    command.args(["-m", &mebibytes, "-u", "root", "-t", &options.threads.to_string()]);
    command.args(["-c", &connections(options).to_string()]);
    Launch { command, settings: "in memory: nothing survives".into() }
}

fn redis(
    address: SocketAddr,
    options: &ServeOptions,
    append: Option<Append>,
    folder: &Path,
) -> Launch {
    let append = append.unwrap_or(Append::like(options.acknowledged));
    let mut command = Command::new("redis-server");
    command.args(["--bind", &address.ip().to_string(), "--port", &address.port().to_string()]);
    command.args(["--save", "", "--daemonize", "no", "--auto-aof-rewrite-percentage", "0"]);
    command.args(["--maxclients", &connections(options).to_string()]);
    command.arg("--dir").arg(folder);
    let settings = match append {
        Append::No => "one thread, in memory: nothing survives".to_owned(),
        _ => format!("one thread, appendfsync {}", append.name()),
    };
    if append != Append::No {
        command.args(["--appendonly", "yes", "--appendfsync", append.name()]);
    }
    Launch { command, settings }
}

fn connections(options: &ServeOptions) -> u32 {
    options.connections.iter().max().unwrap_or(&1) + SPARE_CONNECTIONS
}

/// A port of the loopback that nobody has at the moment.
fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0))?.local_addr()
}

impl Running {
    /// Waits until it answers; where it ended, the last line that it said is told.
    fn wait(&self, protocol: Protocol, said: &Path) -> Result<(), BenchError> {
        let failed = |source| BenchError::Server { action: "starting", server: self.name, source };
        let start = Instant::now();
        loop {
            let ended = match &self.process {
                Some(process) => process.has_ended().map_err(failed)?,
                None => false,
            };
            if ended {
                let text = fs::read_to_string(said).unwrap_or_default();
                let last = text.trim_end().lines().last().unwrap_or("it said nothing");
                return Err(failed(io::Error::other(format!("it ended: {last}"))));
            }
            match TcpStream::connect(self.address).and_then(|mut one| greet(&mut one, protocol)) {
                Ok(()) => return Ok(()),
                Err(error) if start.elapsed() > PATIENCE => return Err(failed(error)),
                Err(_) => sleep(PAUSE),
            }
        }
    }

    /// Seconds of processor time that it has taken, of the system's part for it too; none of one
    /// that ran already.
    pub fn processor_seconds(&self) -> Option<f64> {
        let id = self.process.as_ref()?.id();
        let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        let ticks = ticks_of(&text)?;
        Some(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
    }
}

/// `utime` and `stime` of a line of /proc/PID/stat: the 12th and 13th field behind the name, which
/// may have any characters.
fn ticks_of(line: &str) -> Option<u64> {
    let (_, fields) = line.rsplit_once(')')?;
    let mut ticks = fields.split_ascii_whitespace().skip(11).map(str::parse::<u64>);
    Some(ticks.next()?.ok()? + ticks.next()?.ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_that_of_user_and_system() {
        let line = "42 (a) name) R 1 2 3 4 5 6 7 8 9 10 700 30 0 0 20 0 1";
        assert_eq!(ticks_of(line), Some(730));
        assert_eq!(ticks_of("42 (name) R 1"), None);
    }
}
