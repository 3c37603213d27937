//! What a file tells releases that were there before the one that wrote it: from which release on
//! it can be opened, and features that an earlier one may not know.
//!
//! Files begin with words for that, and they are zeros in all that this release writes: it has no
//! such feature. docs/format.md says where they are.

/// The least release that reads and writes a file; 0: the file does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Release(u32);

impl Release {
    /// As it stands in a file: the last part of the version in the lowest byte, then the second and
    /// the first.
    pub const fn of_word(word: u64) -> Self {
        Self(word as u32 & 0xff_ffff)
    }
}

impl std::fmt::Display for Release {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0.to_be_bytes() {
            [_, 0, 0, 0] => f.write_str("a newer release"),
            [_, first, second, third] => write!(f, "Everleaf {first}.{second}.{third} or later"),
        }
    }
}

/// Why a file of a later release is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Newer {
    /// Its format has a greater number.
    #[error("has format {found}, and this release knows formats up to {known}: use {release}")]
    Format {
        /// The number.
        found: u64,
        /// The greatest one that is known.
        known: u64,
        /// What reads it.
        release: Release,
    },
    /// It has features that whoever opens it must know.
    #[error("has features that this release does not know: use {release}")]
    Features {
        /// What knows them.
        release: Release,
    },
    /// It has features that whoever writes to it must know.
    #[error(
        "has features that this release does not know, and can be read by it, not written: to \
        write use {release}"
    )]
    FeaturesOfWriters {
        /// What knows them.
        release: Release,
    },
}

/// The words by which a file tells it: the least release, and the features, a bit each, that may be
/// ignored by all, by those who only read, and by nobody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// As they stand in the file.
    pub words: [u64; 4],
}

impl Features {
    /// The least release that knows them.
    pub const fn release(self) -> Release {
        Release::of_word(self.words[0])
    }

    /// Whether a file with them may be opened, to be read or also to be written.
    ///
    /// # Errors
    /// Why not.
    pub const fn check(self, writes: bool) -> Result<(), Newer> {
        let release = self.release();
        match self.words {
            [.., 0, 0] => Ok(()),
            [.., 0] if !writes => Ok(()),
            [.., 0] => Err(Newer::FeaturesOfWriters { release }),
            _ => Err(Newer::Features { release }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_that_may_be_ignored_are_and_others_name_the_release_that_knows_them() {
        let said = |words, writes| Features { words }.check(writes).map_err(|e| e.to_string());
        for writes in [false, true] {
            assert_eq!(said([0; 4], writes), Ok(()));
            assert_eq!(said([1, u64::MAX, 0, 0], writes), Ok(()));
            let refused = said([0x01_02_03, 0, 1, 1 << 63], writes).unwrap_err();
            assert!(refused.ends_with("use Everleaf 1.2.3 or later"), "{refused}");
        }
        assert_eq!(said([0x00_04_00, 7, 1 << 5, 0], false), Ok(()));
        let refused = said([0x00_04_00, 7, 1 << 5, 0], true).unwrap_err();
        assert!(refused.ends_with("to write use Everleaf 0.4.0 or later"), "{refused}");
        let refused = said([0, 0, 0, 1], false).unwrap_err();
        assert!(refused.ends_with("use a newer release"), "{refused}");
    }
}
