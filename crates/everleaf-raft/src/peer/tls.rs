//! TLS between nodes: each has a certificate, and knows whose certificates to trust.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::peer::wire::Stream;

/// How connections are encrypted.
#[derive(Clone)]
pub struct Tls {
    accept: Option<TlsAcceptor>,
    connect: TlsConnector,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls") // The key is nobody's.
    }
}

impl Tls {
    /// Reads files in PEM's form: the certificates of those who sign the nodes' certificates and,
    /// of a node, its own certificate and its key.
    ///
    /// # Errors
    /// A sentence: what is wrong with which file.
    pub fn read(authority: &Path, own: Option<(&Path, &Path)>) -> Result<Self, String> {
        let wrong = |path: &Path, error: &dyn fmt::Display| format!("{}: {error}", path.display());
        let chain = |path: &Path| {
            CertificateDer::pem_file_iter(path)
                .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                .map_err(|error| wrong(path, &error))
        };
        let mut roots = RootCertStore::empty();
        for certificate in chain(authority)? {
            roots.add(certificate).map_err(|error| wrong(authority, &error))?;
        }
        if roots.is_empty() {
            return Err(wrong(authority, &"it holds no certificate in PEM's form"));
        }
        let provider = Arc::new(default_provider());
        let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let accept = own.map(|(certificate, key)| {
            let own_key = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, &error))?;
            let server = ServerConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .map_err(|error| error.to_string())?
                .with_no_client_auth()
                .with_single_cert(chain(certificate)?, own_key)
                .map_err(|error| wrong(certificate, &error))?;
            Ok::<_, String>(TlsAcceptor::from(Arc::new(server)))
        });
        let connect = TlsConnector::from(Arc::new(client));
        Ok(Self { accept: accept.transpose()?, connect })
    }

    /// Begins as the side that listens.
    pub(crate) async fn accept(&self, stream: TcpStream) -> io::Result<Box<dyn Stream>> {
        let accept = self.accept.as_ref().ok_or_else(|| {
            io::Error::other("TLS needs the certificate of this node, and its key")
        })?;
        Ok(Box::new(accept.accept(stream).await?))
    }

    /// Begins as the side that has connected to a host.
    pub(crate) async fn connect(
        &self,
        stream: TcpStream,
        host: &str,
    ) -> io::Result<Box<dyn Stream>> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        Ok(Box::new(self.connect.connect(name, stream).await?))
    }
}
