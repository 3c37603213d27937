//! The code of libraries of functions: words of the store, so they are there after a restart, and
//! are changed with what else a request writes.

use std::ops::{Bound, ControlFlow};

use everleaf::{Direction, Error, Scan};

use super::database::Database;
use super::rows::word_row;
use super::work::Work;

/// What the names of these words begin with.
const FRONT: &str = "library ";

fn row(name: &str) -> Vec<u8> {
    word_row(&format!("{FRONT}{name}"))
}

impl Work<'_> {
    /// Will store the code of a library; none: it will be there no more. The caller holds all
    /// locks.
    pub fn set_library(&mut self, name: &str, code: Option<&[u8]>) {
        match code {
            Some(code) => self.put(row(name), code.to_vec()),
            None => self.delete(row(name)),
        }
    }

    /// Will remove the code of all libraries, also of those that could not be loaded. The caller
    /// holds all locks.
    ///
    /// # Errors
    /// Damage.
    pub fn remove_libraries(&mut self) -> Result<(), Error> {
        let mut rows = Vec::new();
        let from = (Bound::Included(word_row(FRONT)), Bound::Unbounded);
        self.scan(from, Direction::Forward, |row, _| {
            if !row.starts_with(&word_row(FRONT)) {
                return ControlFlow::Break(());
            }
            rows.push(row.to_vec());
            ControlFlow::Continue(())
        })?;
        rows.into_iter().for_each(|row| self.delete(row));
        Ok(())
    }
}

impl Database {
    /// The code of all libraries, in the order of their names.
    ///
    /// # Errors
    /// Damage.
    pub fn libraries(&self) -> Result<Vec<Vec<u8>>, Error> {
        let mut codes = Vec::new();
        self.rows.scan_with(Scan::all().with_prefix(word_row(FRONT)), |_, code| {
            codes.push(code.to_vec());
            ControlFlow::Continue(())
        })?;
        Ok(codes)
    }
}
