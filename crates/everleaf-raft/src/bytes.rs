//! Reading numbers and texts from bytes.

/// Bytes that are no entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EntryError {
    /// They end too early.
    #[error("an entry of the log is cut off: the pool is damaged, replace the node")]
    CutOff,
    /// Of a version of this crate that is newer than this one.
    #[error("an entry of the log has version {version}: update this node")]
    Version {
        /// What stands there.
        version: u8,
    },
    /// They mean nothing.
    #[error("an entry of the log is damaged ({what}): replace the node")]
    Damaged {
        /// What is wrong.
        what: &'static str,
    },
}

/// Takes numbers and texts from the beginning of bytes.
#[derive(Clone, Debug)]
pub struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    /// From the beginning.
    pub fn of(bytes: &'b [u8]) -> Self {
        Self(bytes)
    }

    /// Whether nothing is left.
    pub fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }

    /// All that is left.
    pub fn all(&mut self) -> &'b [u8] {
        std::mem::take(&mut self.0)
    }

    /// So many bytes.
    ///
    /// # Errors
    /// [`EntryError::CutOff`], as all below.
    pub fn bytes(&mut self, length: u32) -> Result<&'b [u8], EntryError> {
        let (taken, rest) = self.0.split_at_checked(length as usize).ok_or(EntryError::CutOff)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], EntryError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(EntryError::CutOff)?;
        self.0 = rest;
        Ok(*taken)
    }

    /// A byte.
    ///
    /// # Errors
    /// [`EntryError::CutOff`].
    pub fn u8(&mut self) -> Result<u8, EntryError> {
        self.array().map(u8::from_le_bytes)
    }

    /// Four bytes, little-endian.
    ///
    /// # Errors
    /// [`EntryError::CutOff`].
    pub fn u32(&mut self) -> Result<u32, EntryError> {
        self.array().map(u32::from_le_bytes)
    }

    /// Eight bytes, little-endian.
    ///
    /// # Errors
    /// [`EntryError::CutOff`].
    pub fn u64(&mut self) -> Result<u64, EntryError> {
        self.array().map(u64::from_le_bytes)
    }
}
