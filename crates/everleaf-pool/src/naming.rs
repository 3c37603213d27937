//! How a new file gets its name, and what is left of those that never got one.
//!
//! A file is made under another name beside its place, or without any, and is locked until it has
//! its name. So an unlocked file with such a name is nobody's, whatever number it carries.
//!
//! A name is given to a file only if there is nothing of that name. The first of these ways that
//! the file system knows is taken; each is exclusive.
//!
//! ```text
//! renameat2   RENAME_NOREPLACE            Crash: it has one name, or the other.
//! linkat      and then the first name     Crash: it may have both.
//!             is removed
//! open        O_EXCL, of an empty file,   Crash: the empty file may be there, which the next
//!             which is then replaced             attempt reports as a file that exists.
//! ```

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};
use rustix::io::Errno;

use crate::PoolError;
use crate::file::{io_error, is_at, lock};

/// How the name of a file ends that is still being made: `NAME.NUMBER.unfinished`.
const UNFINISHED: &str = ".unfinished";
/// Digits of the random number in a hidden name.
const RANDOM_DIGITS: usize = 32;

/// The folder around a path, open. Names in it are durable when it was synced.
#[derive(Debug)]
pub struct ParentFolder {
    folder: File,
    path: PathBuf,
}

impl ParentFolder {
    /// The folder around `path`: the current one if `path` is a bare name.
    ///
    /// # Errors
    /// [`PoolError::NoFolder`], or what the system says: a folder that may not be read cannot be
    /// synced.
    pub fn of(path: &Path) -> Result<Self, PoolError> {
        let around = folder_of_new(path)?;
        let folder = File::open(around).map_err(io_error("opening the folder of", path))?;
        Ok(Self { folder, path: path.into() })
    }

    /// Makes the names in it durable.
    ///
    /// # Errors
    /// What the system says.
    pub fn sync(&self) -> Result<(), PoolError> {
        match self.folder.sync_all() {
            // Some file systems have nothing to be synced there.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            done => done.map_err(io_error("syncing the folder of", &self.path)),
        }
    }
}

/// The folder that a new file will be in, which must be there.
///
/// # Errors
/// [`PoolError::NoFolder`].
pub fn folder_of_new(path: &Path) -> Result<&Path, PoolError> {
    let folder = parent_of(path);
    match folder.metadata() {
        // A pipe there would be waited for.
        Ok(found) if !found.is_dir() => Err(PoolError::NoFolder { path: folder.into() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(PoolError::NoFolder { path: folder.into() })
        }
        _ => Ok(folder), // What else is wrong with it the system says when it is used.
    }
}

fn parent_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Gives a file another name in the same folder, unless there is one. Not durable before the
/// folder is synced.
///
/// # Errors
/// [`PoolError::Exists`], or what the system says. The file has its first name then.
pub fn rename_new(from: &Path, to: &Path) -> Result<(), PoolError> {
    let renamed = || Ok(renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?);
    by_any_way(&[&renamed, &|| link_and_unlink(from, to), &|| replace_empty(from, to)])
        .map_err(named(to))
}

/// Takes the first of the ways that the file system does not refuse as such.
fn by_any_way(ways: &[&dyn Fn() -> io::Result<()>]) -> io::Result<()> {
    let mut done = Ok(());
    for way in ways {
        done = way();
        if !done.as_ref().is_err_and(is_unsupported) {
            break;
        }
    }
    done
}

fn link_and_unlink(from: &Path, to: &Path) -> io::Result<()> {
    fs::hard_link(from, to)?;
    fs::remove_file(from).inspect_err(|_| remove_what_failed(to))
}

fn replace_empty(from: &Path, to: &Path) -> io::Result<()> {
    File::create_new(to)?;
    fs::rename(from, to).inspect_err(|_| remove_what_failed(to))
}

fn remove_what_failed(path: &Path) {
    let _ = fs::remove_file(path); // The error that is reported is the one before.
}

/// Whether the file system, or the guard of a container, does not know the system call at all or
/// for such files.
pub(crate) fn is_unsupported(error: &io::Error) -> bool {
    let unsupported = [Errno::PERM, Errno::INVAL, Errno::NOSYS, Errno::OPNOTSUPP, Errno::XDEV];
    Errno::from_io_error(error).is_some_and(|error| unsupported.contains(&error))
}

/// Why a file did not get its name.
pub(crate) fn named(path: &Path) -> impl Fn(io::Error) -> PoolError {
    move |error| match error.kind() {
        io::ErrorKind::AlreadyExists => PoolError::Exists { path: path.into() },
        _ => io_error("naming", path)(error),
    }
}

/// Makes a file under a name that [`remove_abandoned`] knows, and locks it as long as it is open.
///
/// # Errors
/// [`PoolError::Exists`], [`PoolError::Locked`], or what the system says.
pub fn create_locked(path: &Path) -> Result<File, PoolError> {
    const TIMES: u32 = 10;
    for _ in 0..TIMES {
        let mut options = OpenOptions::new();
        let made = options.read(true).write(true).create_new(true).open(path);
        let file = made.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => PoolError::Exists { path: path.into() },
            _ => io_error("creating", path)(error),
        })?;
        match lock(&file, path, libc::LOCK_EX) {
            // Without locks nothing is taken for abandoned.
            Err(PoolError::Io { source, .. }) if knows_no_locks(&source) => return Ok(file),
            locked => locked?,
        }
        if is_at(&file, path)? {
            return Ok(file);
        } // It was taken for abandoned before it was locked.
    }
    Err(PoolError::Locked { path: path.into(), here: false })
}

fn knows_no_locks(error: &io::Error) -> bool {
    let none = [Errno::BADF, Errno::INVAL, Errno::NOSYS, Errno::OPNOTSUPP, Errno::NOLCK];
    Errno::from_io_error(error).is_some_and(|error| none.contains(&error))
}

/// Removes what ended processes have left of files that were to be at `path`. What is locked stays:
/// it is being made. So does what cannot be looked at, or cannot be removed.
pub fn remove_abandoned(path: &Path) {
    let folder = parent_of(path);
    let (Some(name), Ok(entries)) = (path.file_name(), fs::read_dir(folder)) else { return };
    for entry in entries.flatten() {
        if is_part_of(name, &entry.file_name()) {
            let _ = remove_unlocked(&folder.join(entry.file_name()));
        }
    }
}

fn remove_unlocked(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = options.open(path)?;
    if file.metadata()?.is_file() {
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        // It may have got its name between opening and locking, and another file this one.
        if is_at(&file, path).unwrap_or(false) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// Whether a file that is to be called `name` may be called `part` till then.
fn is_part_of(name: &OsStr, part: &OsStr) -> bool {
    let (name, part) = (name.as_bytes(), part.as_bytes());
    is_unfinished(name, part)
        || without_random(part).is_some_and(|part| part == name || is_unfinished(name, part))
}

/// `NAME.NUMBER.unfinished`
fn is_unfinished(name: &[u8], part: &[u8]) -> bool {
    let number = part.strip_prefix(name).and_then(|rest| rest.strip_prefix(b"."));
    let number = number.and_then(|rest| rest.strip_suffix(UNFINISHED.as_bytes()));
    number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
}

/// `NAME` of `.NAME.RANDOM`
fn without_random(part: &[u8]) -> Option<&[u8]> {
    let (rest, random) = part.split_at_checked(part.len().checked_sub(RANDOM_DIGITS)?)?;
    let hex = |digit: &u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    random.iter().all(hex).then_some(())?;
    rest.strip_prefix(b".")?.strip_suffix(b".")
}

/// The name that a file has till it is finished, with a number that no other of the kind has now.
pub fn unfinished_name(path: &Path, number: &OsStr) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(number);
    name.push(UNFINISHED);
    path.with_file_name(name)
}

/// A hidden name, for a pool where the file system has no files without names.
pub(crate) fn hidden_name(folder: &Path, name: &OsStr) -> PathBuf {
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}", uuid::Uuid::new_v4().simple()));
    folder.join(hidden)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_in(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_folder_around_a_bare_name_is_the_current_one() {
        let parent = ParentFolder::of(Path::new("bare")).unwrap();
        let id = |file: fs::Metadata| std::os::unix::fs::MetadataExt::ino(&file);
        assert_eq!(id(parent.folder.metadata().unwrap()), id(fs::metadata(".").unwrap()));
        parent.sync().unwrap();
    }

    #[test]
    fn a_folder_that_cannot_be_synced_is_an_error_and_one_without_a_sync_is_none() {
        let here = tempfile::tempdir().unwrap();
        let opened = |flags| {
            let mut options = OpenOptions::new();
            let folder = options.read(true).custom_flags(flags).open(here.path()).unwrap();
            ParentFolder { folder, path: here.path().join("file") }
        };
        opened(0).sync().unwrap();
        let refused = opened(libc::O_PATH).sync().unwrap_err();
        assert!(refused.to_string().contains("syncing the folder of"), "{refused}");
        let none = ParentFolder::of(&here.path().join("none/file")).unwrap_err();
        assert!(matches!(none, PoolError::NoFolder { .. }), "{none}");
        // There is nothing to be synced in a pipe.
        let pipe = File::from(std::os::fd::OwnedFd::from(io::pipe().unwrap().0));
        ParentFolder { folder: pipe, path: PathBuf::new() }.sync().unwrap();
    }

    #[test]
    fn a_folder_that_may_not_be_read_is_refused_before_anything_is_made_in_it() {
        let here = tempfile::tempdir().unwrap();
        let mode = |mode| {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
            fs::set_permissions(here.path(), mode).unwrap();
        };
        mode(0o333);
        let opened = ParentFolder::of(&here.path().join("file"));
        let may_all = File::open(here.path()).is_ok();
        mode(0o777);
        match may_all {
            true => eprintln!("skipped: this user may read every folder"),
            false => assert!(opened.unwrap_err().to_string().contains("opening the folder of")),
        }
    }

    #[test]
    fn every_way_to_give_a_new_name_leaves_what_has_it_alone() {
        let here = tempfile::tempdir().unwrap();
        let (from, to) = (here.path().join("from"), here.path().join("to"));
        let renamed =
            |from: &Path, to: &Path| Ok(renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?);
        let ways: [fn(&Path, &Path) -> io::Result<()>; 3] =
            [renamed, link_and_unlink, replace_empty];
        for way in ways {
            fs::write(&from, "new").unwrap();
            way(&from, &to).unwrap();
            assert_eq!(
                (names_in(here.path()), fs::read(&to).unwrap()),
                (vec!["to".into()], b"new".into())
            );
            fs::write(&from, "newer").unwrap();
            assert_eq!(way(&from, &to).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
            assert_eq!((names_in(here.path()).len(), fs::read(&to).unwrap()), (2, b"new".into()));
            fs::remove_file(&to).unwrap();
        }
        fs::remove_file(&from).unwrap();
        for way in ways {
            assert_eq!(way(&from, &to).unwrap_err().kind(), io::ErrorKind::NotFound);
            assert_eq!(names_in(here.path()), [""; 0]);
        }
    }

    #[test]
    fn the_next_way_is_taken_where_one_is_not_known_and_only_there() {
        let fails = |error: Errno| move || Err(error.into());
        let (unknown, full) = (fails(Errno::INVAL), fails(Errno::NOSPC));
        by_any_way(&[&unknown, &fails(Errno::PERM), &|| Ok(())]).unwrap();
        let error = by_any_way(&[&unknown, &full, &|| Ok(())]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(by_any_way(&[&unknown, &unknown]).is_err());
    }

    #[test]
    fn what_ended_processes_left_is_removed_and_what_a_live_one_makes_is_not() {
        let here = tempfile::tempdir().unwrap();
        let path = here.path().join("a.pool");
        let random = "0123456789abcdef0123456789abcdef";
        let left = [
            "a.pool.17.unfinished".to_owned(),
            format!(".a.pool.{random}"),
            format!(".a.pool.17.unfinished.{random}"),
        ];
        let others = [
            "a.pool".to_owned(),
            "a.pool.log".to_owned(),
            "a.pool..unfinished".to_owned(),
            "a.pool.1x.unfinished".to_owned(),
            "b.a.pool.17.unfinished".to_owned(),
            ".a.pool.0123".to_owned(),
            format!(".b.pool.{random}"),
            format!(".{random}"),
            random.to_owned(),
        ];
        let all = || {
            let mut names: Vec<String> = left.iter().chain(&others).cloned().collect();
            names.sort();
            names
        };
        let locked: Vec<File> =
            left.iter().map(|name| create_locked(&here.path().join(name)).unwrap()).collect();
        others.iter().for_each(|name| fs::write(here.path().join(name), "").unwrap());
        remove_abandoned(&path);
        assert_eq!(names_in(here.path()), all());
        drop(locked); // Their process ends.
        remove_abandoned(&path);
        let mut kept = others.to_vec();
        kept.sort();
        assert_eq!(names_in(here.path()), kept);
        // Neither a folder nor a link is a file that was being made.
        fs::create_dir(here.path().join(&left[0])).unwrap();
        std::os::unix::fs::symlink("a.pool", here.path().join(&left[1])).unwrap();
        remove_abandoned(&path);
        assert_eq!(names_in(here.path()).len(), others.len() + 2);
    }
}
