//! How much memory the machine has for this process.

use std::fs::read_to_string;
use std::path::Path;
use std::sync::Arc;

use everleaf_pmem::Media;
use everleaf_pool::Pool;

use crate::Store;

/// Half of the memory that there is, in bytes; without limit where the system does not tell.
pub(crate) fn half_of_memory() -> u64 {
    let machine = read_to_string("/proc/meminfo").ok().and_then(|text| total_bytes(&text));
    let groups = read_to_string("/proc/self/cgroup").ok();
    let group = groups.and_then(|groups| limit_bytes(Path::new("/sys/fs/cgroup"), &groups));
    [machine, group].into_iter().flatten().min().map_or(u64::MAX, |bytes| bytes / 2)
}

/// The store, of whose pool single pages are read if it takes more than half of the memory: see
/// [`read_ahead_up_to`](everleaf_pmem::Region::read_ahead_up_to). After the recovery, which may
/// read all of it.
pub(crate) fn bound_read_ahead<M: Media>((store, pool): (Store, Arc<Pool<M>>)) -> Store {
    pool.media().region().read_ahead_up_to(half_of_memory());
    store
}

/// `MemTotal:       16384000 kB`
fn total_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The least that the groups of a process, or those around them, may take, of both versions; none
/// if there is no limit. A line of `groups`: number, controllers, and the group's path.
fn limit_bytes(root: &Path, groups: &str) -> Option<u64> {
    let limit_of = |line: &str| {
        let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
        let (root, names): (_, &[&str]) = match controllers {
            "" => (root.to_owned(), &["memory.max", "memory.high"]),
            _ if controllers.split(',').any(|name| name == "memory") => {
                (root.join("memory"), &["memory.limit_in_bytes"])
            }
            _ => return None,
        };
        let folder = root.join(group.trim_start_matches('/'));
        let around = folder.ancestors().take_while(|folder| folder.starts_with(&root));
        let files = around.flat_map(|folder| names.iter().map(|name| folder.join(name)));
        files.filter_map(|file| read_to_string(file).ok()?.trim().parse().ok()).min()
    };
    groups.lines().filter_map(limit_of).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_is_that_of_the_machine_or_the_least_of_the_groups_around() {
        assert_eq!(total_bytes("MemFree: 1 kB\nMemTotal:       16 kB\n"), Some(16384));
        assert_eq!(total_bytes("MemTotal: many\n"), None);
        let root = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let file = root.path().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        };
        let limit =
            || limit_bytes(root.path(), "9:name=x:/\n4:cpu,memory:/c/d\n1:cpu:/\n0::/a/b\n");
        assert_eq!(limit(), None);
        write("a/b/memory.max", "max\n");
        assert_eq!(limit(), None);
        write("memory.max", "10000000\n");
        assert_eq!(limit(), Some(10_000_000));
        write("a/memory.max", "8192\n");
        assert_eq!(limit(), Some(8192));
        write("a/b/memory.high", "7000\n");
        assert_eq!(limit(), Some(7000));
        write("memory/c/d/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(limit(), Some(7000));
        write("memory/c/memory.limit_in_bytes", "6000\n");
        assert_eq!(limit(), Some(6000));
        write("memory/memory.limit_in_bytes", "5000\n");
        assert_eq!(limit(), Some(5000));
        write("a/b/memory.max", "4096\n");
        assert_eq!(limit(), Some(4096));
        assert_eq!(limit_bytes(root.path(), "4:memory:/gone/x\n"), Some(5000), "a container's");
        assert!(half_of_memory() > 1 << 20);
    }
}
