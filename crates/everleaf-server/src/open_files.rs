//! The limit of open files of the process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::warn;

/// Files beside connections.
const OTHERS: u64 = 64;

/// Lets the process have a file for each connection, as far as it may.
pub fn allow_files(connections: u64) {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = connections.saturating_add(OTHERS);
    let allowed = maximum.map_or(wanted, |maximum| maximum.min(wanted));
    if current.is_some_and(|current| current < allowed) {
        let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(allowed), maximum });
        if raised.is_err() || allowed < wanted {
            warn!("fewer files may be open than connections: raise ulimit -n");
        }
    }
}
