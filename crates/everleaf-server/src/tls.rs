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
    pub(crate) async fn begin<S: AsyncRead + AsyncWrite + Unpin>(
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
