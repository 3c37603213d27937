//! Opening a pool: to read it, wherever it is open, and to write to it for long.

use std::path::Path;

use everleaf::internal::open_elsewhere;
use everleaf::{Error, OpenOptions, PoolError, Store};

use crate::failure::complain;

/// Added to the niceness of a command that asks the process which has the pool open: where they
/// share processors, that one's work goes on.
const NICENESS: i32 = 10;

/// Opens a pool to read it. One that another process has open to write is read through that process
/// if it answers, as it is at one moment.
pub fn to_read(pool: &Path) -> Result<Store, Error> {
    to_read_with(pool, &OpenOptions::new())
}

/// The same with options, for a pool that is not open elsewhere.
pub fn to_read_with(pool: &Path, options: &OpenOptions) -> Result<Store, Error> {
    let options = options.clone().read_only(true);
    match options.open(pool) {
        Err(Error::Pool(PoolError::Locked { here: false, .. })) => match open_elsewhere(pool)? {
            Some(store) => {
                let _ = rustix::process::nice(NICENESS);
                Ok(store)
            }
            None => options.open(pool), // It may have been closed meanwhile.
        },
        opened => opened,
    }
}

/// Opens a pool to write to it for long: other processes can read it meanwhile.
pub fn to_write(pool: &Path) -> Result<Store, Error> {
    to_write_with(pool, OpenOptions::new())
}

/// The same with options. If others cannot read it, a sentence says why.
pub fn to_write_with(pool: &Path, options: OpenOptions) -> Result<Store, Error> {
    let store = options.control_socket(true).open(pool)?;
    if let Some(why) = store.no_control_socket() {
        complain(&format!("warning: {why}"));
    }
    Ok(store)
}
