//! Programs of others, where they are installed: a server to compare with, and clients.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use crate::common::{Served, tcp};

/// A server of others; it is killed when this is dropped.
pub struct Stock {
    pub address: SocketAddr,
    process: Child,
}

impl Drop for Stock {
    fn drop(&mut self) {
        let _ = self.process.kill(); // It may have ended.
        let _ = self.process.wait();
    }
}

/// Whether a program is installed; a line on stderr if not.
pub fn installed(program: &str) -> bool {
    let found = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .any(|folder| folder.join(program).is_file());
    if !found {
        eprintln!("skipped: {program} is not installed");
    }
    found
}

/// Starts a server on a port of its own, which the last argument names.
fn start(program: &str, arguments: &[&str]) -> Option<Stock> {
    installed(program).then(|| {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let mut command = Command::new(program);
        command.args(arguments).arg(address.port().to_string());
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let stock = Stock { address, process: process.unwrap() };
        while TcpStream::connect(address).is_err() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        stock
    })
}

/// memcached.
pub fn memcached() -> Option<Stock> {
    memcached_with(&[])
}

/// memcached with options.
pub fn memcached_with(options: &[&str]) -> Option<Stock> {
    let plain = ["-l", "127.0.0.1", "-U", "0", "-u", "root"];
    start("memcached", &[&plain, options, &["-p"]].concat())
}

/// Redis, which keeps nothing.
pub fn redis_server() -> Option<Stock> {
    start("redis-server", &["--save", "", "--appendonly", "no", "--port"])
}

/// Runs a client to its end; what it said must hold when it succeeds.
#[track_caller]
pub fn succeeds(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(output.status.success(), "{command:?}: {said}");
    said
}

#[test]
fn memccapable_finds_everything_capable() {
    if !installed("memccapable") {
        return;
    }
    let served = Served::new();
    let port = tcp(&served.server.memcached_addresses()[0]).port().to_string();
    let said = succeeds(Command::new("memccapable").args(["-h", "127.0.0.1", "-p", &port, "-a"]));
    assert!(said.contains("All tests passed"), "{said}");
}

#[test]
fn pymemcache_works() {
    const PROGRAM: &str = "
import sys
from pymemcache.client.base import Client
c = Client(('127.0.0.1', int(sys.argv[1])))
assert c.set('a', 'one')
assert c.set_many({f'k{i}': str(i) for i in range(100)}) == []
assert c.get('a') == b'one' and len(c.get_many([f'k{i}' for i in range(100)])) == 100
assert c.incr('k5', 3, noreply=False) == 8
value, cas = c.gets('a')
assert c.cas('a', 'two', cas) and not c.cas('a', 'three', cas)
assert c.delete('a', noreply=False) and c.get('a') is None
assert c.flush_all(noreply=False) and c.get('k1') is None
";
    let Some(python) = python("pymemcache") else { return };
    let served = Served::new();
    let port = tcp(&served.server.memcached_addresses()[0]).port().to_string();
    succeeds(Command::new(python).args(["-c", PROGRAM, &port]));
}

/// A Python that has a module: `EVERLEAF_PYTHON` names another one than `python3`.
pub fn python(module: &str) -> Option<std::ffi::OsString> {
    let python = std::env::var_os("EVERLEAF_PYTHON").unwrap_or_else(|| "python3".into());
    let import = format!("import {module}");
    let has = Command::new(&python).args(["-c", &import]).stderr(Stdio::null()).status();
    if has.is_ok_and(|status| status.success()) {
        return Some(python);
    }
    eprintln!("skipped: no Python with {module}; EVERLEAF_PYTHON names another Python");
    None
}
