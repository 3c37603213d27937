//! TLS in a build without the feature `tls`: there is none.

use std::io;
use std::path::Path;

use tokio::sync::watch;

/// A certificate and its key, which connections by TLS begin with: none in this build.
#[derive(Clone, Debug)]
pub enum Tls {}

impl Tls {
    /// Refuses, whatever the files hold.
    ///
    /// # Errors
    /// A sentence: how to build a server with TLS.
    pub fn read(_certificate: &Path, _key: &Path) -> Result<Self, String> {
        Err("this program was built without TLS; build it with --features tls".to_owned())
    }

    pub(crate) async fn begin<S>(&self, _: S, _: &mut watch::Receiver<bool>) -> io::Result<S> {
        match *self {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_without_tls_says_how_to_get_it() {
        let refused = Tls::read(Path::new("certificate"), Path::new("key"));
        assert!(refused.is_err_and(|sentence| sentence.contains("--features tls")));
    }
}
