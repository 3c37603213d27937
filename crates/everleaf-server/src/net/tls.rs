//! TLS 1.2 and 1.3: a certificate with its key, and how a connection begins.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::{Error, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::server::TlsStream;

use crate::setting_file::read_setting_file;

/// How long a client may take until both have agreed on keys.
const PATIENCE: Duration = Duration::from_secs(10);

/// A certificate and its key, which connections by TLS begin with.
#[derive(Clone)]
pub struct Tls(Arc<ServerConfig>);

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls") // The key is nobody's.
    }
}

impl Tls {
    /// Reads both from files in PEM's form: the certificate, with those between it and the one that
    /// clients know, and its key.
    ///
    /// # Errors
    /// A sentence: what is wrong with which file.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, String> {
        let read = |path: &Path| {
            read_setting_file(path)
                .map_err(|error| format!("cannot read {}: {error}", path.display()))
        };
        let wrong = |path: &Path, what, error| match error {
            Error::NoItemsFound => format!("{} holds no {what} in PEM's form", path.display()),
            error => format!("{} holds no valid {what}: {error:?}", path.display()),
        };
        let chain = CertificateDer::pem_slice_iter(&read(certificate)?)
            .collect::<Result<Vec<_>, _>>()
            .and_then(|all| if all.is_empty() { Err(Error::NoItemsFound) } else { Ok(all) })
            .map_err(|error| wrong(certificate, "certificate", error))?;
        let own = PrivateKeyDer::from_pem_slice(&read(key)?)
            .map_err(|error| wrong(key, "private key", error))?;
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|config| config.with_no_client_auth().with_single_cert(chain, own));
        let config = config.map_err(|error| {
            let (certificate, key) = (certificate.display(), key.display());
            format!("{certificate} and {key} are not a certificate and its key: {error}")
        })?;
        Ok(Self(Arc::new(config)))
    }

    /// Begins a connection, unless that takes too long or the server stops.
    pub(super) async fn begin<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
        stop: &mut watch::Receiver<bool>,
    ) -> io::Result<TlsStream<S>> {
        let accept = TlsAcceptor::from(Arc::clone(&self.0)).accept(stream);
        tokio::select! {
            begun = tokio::time::timeout(PATIENCE, accept) => {
                begun.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))
            }
            _ = stop.wait_for(|stop| *stop) => Err(ErrorKind::ConnectionAborted.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

    use tokio::io::AsyncReadExt;
    use tokio_rustls::TlsConnector;
    use tokio_rustls::rustls::{ClientConfig, RootCertStore};

    use super::super::unsent::Unsent;
    use super::*;
    use crate::shared::Room;

    /// TLS takes more than it can send: what it holds back goes only if it is asked to.
    #[test]
    fn what_was_sent_to_a_client_that_reads_late_is_not_held_back() {
        const REPLY: [u8; 10_000] = [7; 10_000];
        let folder = tempfile::tempdir().unwrap();
        let [certificate, key] = ["certificate", "key"].map(|name| folder.path().join(name));
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(&certificate, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        let tls = Tls::read(&certificate, &key).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        // Far less than a reply is under way.
        let (ours, theirs) = tokio::io::duplex(512);
        let serve = async {
            let (_running, mut stop) = watch::channel(false);
            let mut stream = tls.begin(ours, &mut stop).await.unwrap();
            let mut unsent = Unsent::new(&Room::of(0), 0);
            let mut out = REPLY.to_vec();
            let sent = poll_fn(|context| {
                Poll::Ready(unsent.send(&mut stream, context, &mut out)) // As much as it takes.
            });
            sent.await.unwrap();
            poll_fn(|context| unsent.poll_send(&mut stream, context)).await.unwrap();
            std::future::pending::<()>().await;
        };
        let read = async {
            let connector = TlsConnector::from(Arc::new(config));
            let name = "localhost".try_into().unwrap();
            let mut stream = connector.connect(name, theirs).await.unwrap();
            let mut got = [0; REPLY.len()];
            stream.read_exact(&mut got).await.unwrap();
            got
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            tokio::select! {
                () = serve => unreachable!("it waits"),
                got = read => assert_eq!(got, REPLY),
                () = tokio::time::sleep(Duration::from_secs(60)) => panic!("it was held back"),
            }
        });
    }
}
