//! Clients by TLS.

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use everleaf::Clock;
use everleaf_server::{Address, Limits, ServeOptions, Tls};
use tempfile::TempDir;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion,
};

use crate::common::{Client, Served, options, tcp};

/// A certificate of this machine and its key.
pub struct Pair {
    folder: TempDir,
}

impl Pair {
    pub fn new() -> Self {
        let pair = Self { folder: tempfile::tempdir().unwrap() };
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        std::fs::write(pair.certificate(), made.cert.pem()).unwrap();
        std::fs::write(pair.key(), made.signing_key.serialize_pem()).unwrap();
        pair
    }

    fn certificate(&self) -> PathBuf {
        self.folder.path().join("certificate.pem")
    }

    fn key(&self) -> PathBuf {
        self.folder.path().join("key.pem")
    }

    fn tls(&self) -> Tls {
        Tls::read(&self.certificate(), &self.key()).unwrap()
    }

    /// A server that speaks both protocols by TLS alone.
    pub fn serve(&self, limits: Limits) -> Served {
        let any: Vec<Address> = vec!["127.0.0.1:0".parse().unwrap()];
        let options = ServeOptions {
            memcached: Vec::new(),
            tls_memcached: any.clone(),
            tls_redis: any,
            tls: Some(self.tls()),
            limits,
            ..options()
        };
        Served::with(options, Clock::system())
    }

    /// A client that knows the certificate.
    pub fn connect(
        &self,
        address: SocketAddr,
        version: &'static SupportedProtocolVersion,
    ) -> Client<StreamOwned<ClientConnection, TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.certificate()).unwrap()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = "localhost".try_into().unwrap();
        let connection = ClientConnection::new(Arc::new(config), name).unwrap();
        let stream = Client::connect(address).stream;
        Client { stream: StreamOwned::new(connection, stream) }
    }
}

fn redis_of(served: &Served) -> SocketAddr {
    tcp(&served.server.tls_redis_addresses()[0])
}

fn memcached_of(served: &Served) -> SocketAddr {
    tcp(&served.server.tls_memcached_addresses()[0])
}

#[test]
fn both_protocols_are_spoken_by_both_versions() {
    let pair = Pair::new();
    let served = pair.serve(Limits::default());
    for version in [&TLS12, &TLS13] {
        let mut memcached = pair.connect(memcached_of(&served), version);
        memcached.ask("set leaf 0 0 5\r\ngreen\r\n", "STORED\r\n");
        let mut redis = pair.connect(redis_of(&served), version);
        redis.ask("GET leaf\r\nPING\r\n", "$5\r\ngreen\r\n+PONG\r\n");
        redis.ask("QUIT\r\n", "+OK\r\n");
        // The end is told by TLS too: else what was cut off could not be told from it.
        assert_eq!(redis.stream.read(&mut [0]).unwrap(), 0);
    }
}

#[test]
fn long_replies_arrive_whole_at_a_client_that_reads_late() {
    let pair = Pair::new();
    let served = pair.serve(Limits::default());
    let mut client = pair.connect(memcached_of(&served), &TLS13);
    let value: String = (0..1 << 20).map(|at| char::from(b'a' + (at % 23) as u8)).collect();
    client.ask(format!("set long 0 0 {}\r\n{value}\r\n", value.len()), "STORED\r\n");
    let reply = format!("VALUE long 0 {}\r\n{value}\r\nEND\r\n", value.len());
    client.send("get long\r\n".repeat(24));
    for _ in 0..24 {
        client.expect(&reply);
    }
    client.ask("mn\r\n", "MN\r\n");
}

#[test]
fn who_speaks_no_tls_is_not_answered_and_holds_nobody_up() {
    let pair = Pair::new();
    let served = pair.serve(Limits::default());
    let mut plain = Client::connect(redis_of(&served));
    plain.send("PING\r\n");
    let said = plain.rest();
    assert!(!said.starts_with(b"+PONG"), "{}", said.escape_ascii());
    let mut silent = Client::connect(redis_of(&served));
    pair.connect(redis_of(&served), &TLS13).ask("PING\r\n", "+PONG\r\n");
    assert_eq!(served.shared().counters.refused_handshakes.get(), 1);
    // A client that has agreed on nothing is no reason to wait.
    served.server.stop();
    assert_eq!(silent.rest(), b"");
}

#[test]
fn a_client_that_is_one_too_many_is_closed_without_a_word_in_the_clear() {
    let pair = Pair::new();
    let served = pair.serve(Limits { connections: 1, ..Limits::default() });
    let mut first = pair.connect(redis_of(&served), &TLS13);
    first.ask("PING\r\n", "+PONG\r\n");
    assert_eq!(Client::connect(redis_of(&served)).rest(), b"");
}

#[test]
fn wrong_files_are_one_sentence() {
    let (pair, other) = (Pair::new(), Pair::new());
    let missing = pair.folder.path().join("missing");
    let empty = pair.folder.path().join("empty");
    std::fs::write(&empty, "no PEM\n").unwrap();
    let broken = pair.folder.path().join("broken");
    let certificate = std::fs::read_to_string(pair.certificate()).unwrap();
    std::fs::write(&broken, certificate.replacen("MII", "M!!", 1)).unwrap();
    let (certificate, key) = (pair.certificate(), pair.key());
    let read = |certificate: &Path, key: &Path| Tls::read(certificate, key).unwrap_err();
    for (said, named, begins) in [
        (read(&missing, &key), &missing, "cannot read"),
        (read(&certificate, &missing), &missing, "cannot read"),
        (read(&empty, &key), &empty, "holds no certificate in PEM's form"),
        (read(&certificate, &empty), &empty, "holds no private key in PEM's form"),
        (read(&key, &certificate), &key, "holds no certificate in PEM's form"),
        (read(&broken, &key), &broken, "holds no valid certificate"),
        (read(&certificate, &other.key()), &certificate, "not a certificate and its key"),
    ] {
        let name = named.display().to_string();
        assert!(said.contains(&name) && said.contains(begins) && !said.contains('\n'), "{said}");
    }
}

#[test]
fn redis_cli_speaks_tls_with_the_server() {
    let pair = Pair::new();
    let served = pair.serve(Limits::default());
    let port = redis_of(&served).port().to_string();
    let asked = Command::new("redis-cli")
        .args(["--tls", "--sni", "localhost", "-p", &port, "--cacert"])
        .arg(pair.certificate())
        .args(["SET", "leaf", "green"])
        .output();
    let Ok(asked) = asked else { return eprintln!("skipped: redis-cli is not installed") };
    if String::from_utf8_lossy(&asked.stderr).contains("Unrecognized option") {
        return eprintln!("skipped: redis-cli was built without TLS");
    }
    assert_eq!(String::from_utf8_lossy(&asked.stdout), "OK\n", "{asked:?}");
}
