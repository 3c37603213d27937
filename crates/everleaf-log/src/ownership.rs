//! Whose the files of a log are: whoever writes a pool, its owner must be able to go on.

use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};

/// Owner, group and permission bits of a pool's file. What is made for the pool gets them too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ownership {
    owner: u32,
    group: u32,
    bits: u32,
}

impl Ownership {
    pub(crate) fn of(pool: &Metadata) -> Self {
        Self { owner: pool.uid(), group: pool.gid(), bits: pool.mode() & 0o777 }
    }

    /// Gives them to a new file or folder of this process, as far as the process may.
    pub(crate) fn give_to(self, made: &File) -> io::Result<()> {
        let found = made.metadata()?;
        if (found.uid(), found.gid()) != (self.owner, self.group) {
            // Only root gives files away; others may give them to a group that they are in.
            let given = fchown(made, Some(self.owner), Some(self.group));
            given.or_else(|_| fchown(made, None, Some(self.group))).or_else(may_not)?;
        }
        let found = made.metadata()?;
        let bits = self.bits_for(&found);
        if found.mode() & 0o777 != bits {
            // What a folder passes on, its bit for the group above all, stays.
            let permissions = Permissions::from_mode(found.mode() & 0o7000 | bits);
            made.set_permissions(permissions).or_else(may_not)?;
        }
        Ok(())
    }

    fn bits_for(self, made: &Metadata) -> u32 {
        let mut bits = self.bits;
        if made.gid() != self.group {
            bits = bits & !0o070 | (bits & 0o007) << 3; // It is another group: like all others.
        }
        if made.uid() != self.owner {
            bits |= 0o600; // This process goes on, too.
        }
        if made.is_dir() {
            bits |= (bits & 0o444) >> 2; // Who may read may look into it.
        }
        bits
    }
}

/// Most processes may give nothing away; not every system knows the owner, nor every file system
/// owners.
fn may_not(error: io::Error) -> io::Result<()> {
    use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    match error.kind() {
        PermissionDenied | InvalidInput | Unsupported => Ok(()),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_folders_get_the_bits_of_the_pool() {
        let around = tempfile::tempdir().unwrap();
        let path = |name: &str| around.path().join(name);
        let file = File::create(path("file")).unwrap();
        std::fs::create_dir(path("folder")).unwrap();
        let folder = File::open(path("folder")).unwrap();
        let found = file.metadata().unwrap();
        let bits_of = |made: &File| made.metadata().unwrap().mode() & 0o7777;
        folder.set_permissions(Permissions::from_mode(0o2700)).unwrap();
        for (bits, folders) in [(0o640, 0o2750), (0o600, 0o2700), (0o666, 0o2777), (0o664, 0o2775)]
        {
            let ownership = Ownership { bits, ..Ownership::of(&found) };
            ownership.give_to(&file).unwrap();
            ownership.give_to(&folder).unwrap();
            assert_eq!((bits_of(&file), bits_of(&folder)), (bits, folders), "{bits:o}");
        }
        // The bits of a group, or an owner, that the file could not get.
        let of_others = Ownership { owner: !found.uid(), group: !found.gid(), bits: 0o464 };
        assert_eq!(of_others.bits_for(&found), 0o644);
    }
}
