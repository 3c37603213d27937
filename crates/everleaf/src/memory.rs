//! How much memory the machine has for this process.

use std::fs::read_to_string;
use std::path::Path;

/// Half of the memory that there is, in bytes; without limit where the system does not tell.
pub(crate) fn half_of_memory() -> u64 {
    let machine = read_to_string("/proc/meminfo").ok().and_then(|text| total_bytes(&text));
    let group = read_to_string("/proc/self/cgroup").ok().and_then(|text| {
        let path = text.lines().find_map(|line| line.strip_prefix("0::/"))?.to_owned();
        limit_bytes(Path::new("/sys/fs/cgroup"), &path)
    });
    [machine, group].into_iter().flatten().min().map_or(u64::MAX, |bytes| bytes / 2)
}

/// `MemTotal:       16384000 kB`
fn total_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The least that a group of processes, or one around it, may take; none if there is no limit.
fn limit_bytes(root: &Path, group: &str) -> Option<u64> {
    let folder = root.join(group);
    let around = folder.ancestors().take_while(|folder| folder.starts_with(root));
    let limit = |folder: &Path| read_to_string(folder.join("memory.max")).ok()?.trim().parse().ok();
    around.filter_map(limit).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_is_that_of_the_machine_or_the_least_of_the_groups_around() {
        assert_eq!(total_bytes("MemFree: 1 kB\nMemTotal:       16 kB\n"), Some(16384));
        assert_eq!(total_bytes("MemTotal: many\n"), None);
        let root = tempfile::tempdir().unwrap();
        let write = |folder: &str, text: &str| {
            let folder = root.path().join(folder);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("memory.max"), text).unwrap();
        };
        assert_eq!(limit_bytes(root.path(), "a/b"), None);
        write("a/b", "max\n");
        assert_eq!(limit_bytes(root.path(), "a/b"), None);
        write("a", "8192\n");
        assert_eq!(limit_bytes(root.path(), "a/b"), Some(8192));
        write("a/b", "4096\n");
        assert_eq!(limit_bytes(root.path(), "a/b"), Some(4096));
        assert!(half_of_memory() > 1 << 20);
    }
}
