//! TLS in a build without the feature `tls`: there is none.

use std::io;
use std::path::Path;

use tokio::net::TcpStream;

use crate::peer::wire::Stream;

/// How connections are encrypted: not in this build.
#[derive(Clone, Debug)]
pub enum Tls {}

impl Tls {
    /// Refuses, whatever the files hold.
    ///
    /// # Errors
    /// A sentence: how to build a program with TLS.
    pub fn read(_authority: &Path, _own: Option<(&Path, &Path)>) -> Result<Self, String> {
        Err("this program was built without TLS; build it with --features tls".to_owned())
    }

    pub(crate) async fn accept(&self, _: TcpStream) -> io::Result<Box<dyn Stream>> {
        match *self {}
    }

    pub(crate) async fn connect(&self, _: TcpStream, _: &str) -> io::Result<Box<dyn Stream>> {
        match *self {}
    }
}
